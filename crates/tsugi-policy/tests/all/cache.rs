//! What is remembered of decisions, and what never is.

use tsugi_policy::cache::DecisionCache;

use crate::support::{Asked, set};

#[test]
fn a_remembered_answer_is_the_answer() {
    let rules = set(
        "  - permit: reads\n    resources: [files/read*]\n  - forbid: f\n    resources: [files/read_secret]\n  - permit: arguments\n    resources: [files/write]\n    when: context.arguments.ok\n  - permit: hour\n    resources: [files/clock]\n    when: context.now > 10\n  - permit: place\n    resources: [files/place]\n    when: inNetwork(context.address, \"10.0.0.0/8\")\n  - permit: pinned\n    resources: [files/pin]\n    when: resource.pinned\n  - permit: rest\n    resources: [files/face]\n    when: context.face == \"rest\"",
    );
    let cache = DecisionCache::default();
    let asked = [
        Asked::call("read"),
        Asked::call("read_secret"),
        Asked::call("other"),
        Asked::see("write"),
        Asked::call("write").with(r#"{"ok": true}"#),
        Asked::call("write").with(r#"{"ok": false}"#),
        Asked::call("write").with("{}"),
        Asked { now: 11, ..Asked::call("clock") },
        Asked { now: 9, ..Asked::call("clock") },
        Asked { address: Some("10.0.0.1".parse().unwrap()), ..Asked::call("place") },
        Asked { address: Some("11.0.0.1".parse().unwrap()), ..Asked::call("place") },
        Asked { is_pinned: true, ..Asked::call("pin") },
        Asked { is_pinned: false, ..Asked::call("pin") },
        Asked { face: "rest", ..Asked::call("face") },
        Asked { face: "mcp", ..Asked::call("face") },
        Asked::read("file:///a/../b"),
    ];
    for round in 0..3 {
        for asked in &asked {
            let question = asked.question();
            assert_eq!(cache.decide(&rules, 1, &question), rules.decide(&question), "{round}: {question:?}");
        }
    }
}

#[test]
fn other_rules_are_asked_again() {
    let cache = DecisionCache::default();
    let (open, shut) = (set("  - permit: all"), set("  - forbid: all"));
    let asked = Asked::call("read");
    assert!(cache.decide(&open, 1, &asked.question()).verdict.is_permitted());
    assert!(!cache.decide(&shut, 2, &asked.question()).verdict.is_permitted());
    // A call that began under the rules before decides by those, and leaves nothing behind.
    assert!(cache.decide(&open, 1, &Asked::call("late").question()).verdict.is_permitted());
    assert!(!cache.decide(&shut, 2, &Asked::call("late").question()).verdict.is_permitted());
}

#[test]
fn a_caller_that_asks_about_everything_does_not_fill_memory_and_gets_right_answers() {
    let rules = set("  - permit: even\n    resources: ['files/*0', 'files/*2']");
    let cache = DecisionCache::default();
    for number in (0..5000).chain(0..5000) {
        let asked = Asked::call(&number.to_string());
        let is_permitted = cache.decide(&rules, 1, &asked.question()).verdict.is_permitted();
        assert_eq!(is_permitted, matches!(number % 10, 0 | 2), "{number}");
    }
}
