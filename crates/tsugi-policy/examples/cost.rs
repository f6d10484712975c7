//! What a decision costs: `cargo run --release -p tsugi-policy --example cost`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it is a measurement")]

use std::time::Instant;

use tsugi_policy::arguments::CallArguments;
use tsugi_policy::cache::DecisionCache;
use tsugi_policy::question::{
    NameKind, PolicyAction, PolicyQuestion, PrincipalFacts, QuestionContext, ResourceFacts, ResourceHints,
};
use tsugi_policy::set::{PolicySet, PolicySource};

const ROUNDS: usize = 200_000;

fn main() {
    let mut text = String::from("rules:\n");
    for number in 0..48 {
        text += &format!("  - permit: r{number}\n    principals: ['team{number}:*']\n    resources: ['s{number}/*']\n");
    }
    text += "  - permit: plain\n    resources: [files/read]\n    when: principal.tenant == \"acme\" && \"dev\" in principal.groups\n";
    text += "  - permit: careful\n    resources: [files/write]\n    when: has(context.arguments.path) && context.arguments.path.startsWith(\"/pub/\")\n...\n";
    let set = PolicySet::load(vec![PolicySource { file: "cost.yaml".into(), text }]).unwrap();
    let principal = PrincipalFacts {
        identity: "subject:corp:alice".to_owned(),
        role: "user",
        groups: vec!["ops".to_owned(), "dev".to_owned()],
        tenant: "acme".to_owned(),
        ..PrincipalFacts::default()
    };
    let json = r#"{"path": "/pub/notes.txt", "content": "hello", "mode": 420, "tags": ["a", "b"]}"#;
    let cache = DecisionCache::default();
    let measure = |what: &str, name: &str, reads_arguments: bool, is_cached: bool| {
        let mut nanos: Vec<u128> = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            // Reading the arguments is part of the cost of a rule that looks at them.
            let arguments = if reads_arguments { CallArguments::read(Some(json)) } else { CallArguments::Absent };
            let question = PolicyQuestion {
                principal: &principal,
                action: PolicyAction::CallTool,
                resource: ResourceFacts {
                    server: "files",
                    name,
                    kind: NameKind::Tool,
                    tags: &[],
                    hints: ResourceHints::default(),
                    is_pinned: false,
                },
                context: QuestionContext { arguments: &arguments, face: "mcp", era: "modern", address: None, now: 0 },
            };
            let decision = if is_cached { cache.decide(&set, 1, &question) } else { set.decide(&question) };
            assert!(decision.verdict.is_permitted());
            nanos.push(begun.elapsed().as_nanos());
        }
        nanos.sort_unstable();
        let at = |share: f64| nanos[((ROUNDS - 1) as f64 * share) as usize];
        println!("{what}: p50 {} ns, p99 {} ns, p99.9 {} ns", at(0.5), at(0.99), at(0.999));
    };
    println!("{} rules", set.rules().len());
    measure("from the cache", "read", false, true);
    measure("condition on the caller, not cached", "read", false, false);
    measure("condition on arguments, rules found before", "write", true, true);
    measure("condition on arguments, not cached", "write", true, false);
}
