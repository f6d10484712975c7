//! Which rule decides.

use tsugi_policy::arguments::CallArguments;
use tsugi_policy::question::{NameKind, PolicyAction, ResourceHints};

use crate::support::{Asked, set};

#[test]
fn nothing_is_permitted_by_default_and_a_rule_that_forbids_wins() {
    let rules =
        set("  - permit: reads\n    resources: [files/read*]\n  - forbid: no-secrets\n    resources: ['*/*secret*']");
    for (name, expected) in [
        ("read", "permitted (reads)"),
        ("read_secret", "forbidden (no-secrets)"),
        ("write", "no rule permits it (default)"),
    ] {
        assert_eq!(Asked::call(name).told(&rules), expected, "{name}");
    }
    let denials = set("  - forbid: x\n    resources: [files/x]");
    assert_eq!(Asked::call("y").told(&denials), "no rule permits it (default)");
    assert_eq!(Asked::call("y").told(&set("  []")), "no rule permits it (default)");
}

#[test]
fn conditions_see_the_caller_the_thing_and_the_call() {
    let holds = |when: &str, asked: &Asked| asked.is_permitted(&set(&format!("  - permit: p\n    when: '{when}'")));
    let asked = Asked {
        tags: vec!["danger".to_owned()],
        hints: ResourceHints { is_read_only: true, is_idempotent: false },
        address: Some("10.1.2.3".parse().unwrap()),
        now: 1_700_000_000,
        ..Asked::call("write").with(r#"{"path": "/pub/a", "size": 7, "list": ["a", "b"], "deep": {"x": true}}"#)
    };
    for (when, expected) in [
        (r#"principal.identity == "subject:corp:alice""#, true),
        (r#"principal.role == "user""#, true),
        (r#"principal.role == "admin""#, false),
        (r#"principal.role in ["admin", "user"]"#, true),
        (r#""dev" in principal.groups"#, true),
        (r#"principal.groups.exists(group, group.startsWith("de"))"#, true),
        (r#"principal.tenant == "acme" && principal.issuer == "corp""#, true),
        (r#"principal.scopes == []"#, true),
        (r#"principal.client == """#, true),
        (r#"principal.authTime == 0"#, true),
        (r#"action == "callTool""#, true),
        (r#"resource.server == "files" && resource.name == "write""#, true),
        (r#""danger" in resource.tags"#, true),
        (r#"resource.hints.readOnly && !resource.hints.idempotent"#, true),
        (r#"resource.pinned"#, false),
        (r#"context.face == "mcp" && context.era == "modern""#, true),
        (r#"context.address == "10.1.2.3""#, true),
        (r#"inNetwork(context.address, "10.0.0.0/8")"#, true),
        (r#"inNetwork(context.address, "192.168.0.0/16")"#, false),
        (r#"context.now > 1600000000 && (context.now / 3600) % 24 == 22"#, true),
        (r#"context.arguments.path.startsWith("/pub/")"#, true),
        (r#"context.arguments["path"] == "/pub/a""#, true),
        (r#"context.arguments.size <= 7.5"#, true),
        (r#"context.arguments.list.all(item, size(item) == 1)"#, true),
        (r#"has(context.arguments.deep.x) && context.arguments.deep.x"#, true),
        (r#"has(context.arguments.nothing)"#, false),
        (r#"!context.truncated"#, true),
    ] {
        assert_eq!(holds(when, &asked), expected, "{when}");
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_counts_against_the_caller() {
    let permit = set("  - permit: p\n    when: context.arguments.path == \"/a\"");
    assert_eq!(Asked::call("x").told(&permit), "a rule could not be evaluated (p): there is no `path`");
    assert_eq!(Asked::call("x").with(r#"{"path": "/a"}"#).told(&permit), "permitted (p)");
    let forbid = set("  - permit: all\n  - forbid: f\n    when: context.arguments.force");
    for (arguments, expected) in [
        ("{}", "a rule could not be evaluated (f): there is no `force`"),
        (r#"{"force": 1}"#, "a rule could not be evaluated (f): the condition is neither true nor false"),
        (r#"{"force": true}"#, "forbidden (f)"),
        (r#"{"force": false}"#, "permitted (all)"),
        (
            r#"{"force": false, "force": false}"#,
            "a rule could not be evaluated (f): the arguments are ambiguous: a member is there twice at line 1 column 32",
        ),
    ] {
        assert_eq!(Asked::call("x").with(arguments).told(&forbid), expected, "{arguments}");
    }
    // Another rule that permits does: what one rule cannot say takes nothing from the other.
    let two = set(
        "  - permit: narrow\n    when: context.arguments.path == \"/a\"\n  - permit: wide\n    principals: ['key:*']",
    );
    assert_eq!(Asked::call("x").by("key:ann").told(&two), "permitted (wide)");
    assert_eq!(Asked::call("x").told(&two), "a rule could not be evaluated (narrow): there is no `path`");
}

#[test]
fn large_arguments_are_not_a_way_past_a_rule_that_reads_them() {
    let rules = set("  - permit: all\n  - forbid: f\n    when: context.arguments.path == \"/secret\"");
    let padded = |padding: usize| format!(r#"{{"path": "/secret", "x": "{}"}}"#, "x".repeat(padding));
    assert_eq!(Asked::call("x").with(&padded(1)).told(&rules), "forbidden (f)");
    let told = Asked::call("x").with(&padded(1 << 20)).told(&rules);
    assert_eq!(told, "a rule could not be evaluated (f): the arguments are too large");
    let careful = set("  - permit: small\n    when: '!context.truncated'");
    assert!(Asked::call("x").with(&padded(1)).is_permitted(&careful));
    assert!(!Asked::call("x").with(&padded(1 << 20)).is_permitted(&careful));
}

#[test]
fn what_is_forbidden_stays_so_under_every_spelling_and_what_is_permitted_has_one() {
    let rules = set("  - permit: all\n  - forbid: f\n    resources: [files/Delete_all, 'files/file:///srv/Secret/*']");
    for name in ["Delete_all", "delete_all", "DELETE_ALL", " delete_all", "delete_all. ", "delete_all.."] {
        assert_eq!(Asked::call(name).told(&rules), "forbidden (f)", "{name:?}");
    }
    for uri in [
        "file:///srv/Secret/a",
        "FILE:///srv/secret/a",
        "file:///srv//secret/a",
        "file:///srv%2Fsecret/a",
        "file:///%73rv/secret/a",
        "file:///srv/secret/a?x#y",
        "file:///srv/x%2F..%2Fsecret/a",
    ] {
        assert_eq!(Asked::read(uri).told(&rules), "forbidden (f)", "{uri}");
    }
    assert_eq!(Asked::read("file:///srv/x/../secret/a").told(&rules), "the address has dot segments (default)");
    assert_eq!(Asked::read("file:///srv/public/a").told(&rules), "permitted (all)");
    assert_eq!(Asked::call("delete_one").told(&rules), "permitted (all)");
    let exact = set("  - permit: p\n    resources: [files/read]");
    for (name, expected) in [("read", true), ("Read", false), ("read.", false), (" read", false)] {
        assert_eq!(Asked::call(name).is_permitted(&exact), expected, "{name:?}");
    }
}

#[test]
fn a_name_of_one_kind_of_caller_is_not_one_of_another() {
    let rules = set("  - permit: p\n    principals: ['corp:alice', 'key:ci', 'local']");
    for (identity, expected) in [
        ("subject:corp:alice", true),
        ("subject:corp:bob", false),
        ("key:ci", true),
        ("subject:key:ci", false),
        ("subject:corp:local", false),
        ("local", true),
        ("anonymous", false),
        ("certificate:ci", false),
    ] {
        assert_eq!(Asked::call("x").by(identity).is_permitted(&rules), expected, "{identity}");
    }
}

#[test]
fn lists_follow_from_what_may_be_called_unless_the_rule_reads_arguments() {
    let rules = set(
        "  - permit: plain\n    actions: [callTool]\n    resources: [files/read]\n  - permit: careful\n    actions: [callTool]\n    resources: [files/write]\n    when: context.arguments.path == \"/a\"\n  - forbid: hidden\n    actions: [see]\n    resources: [files/read_quietly]\n  - permit: quiet\n    resources: [files/read_quietly]\n  - forbid: sometimes\n    resources: [files/read]\n    when: context.arguments.path == \"/secret\"",
    );
    assert!(Asked::see("read").is_permitted(&rules));
    assert!(!Asked::see("write").is_permitted(&rules), "a rule that reads arguments is not asked for lists");
    assert!(Asked::call("write").with(r#"{"path": "/a"}"#).is_permitted(&rules));
    assert!(!Asked::see("read_quietly").is_permitted(&rules));
    assert!(Asked::call("read_quietly").is_permitted(&rules), "to see and to call are two questions");
    let shown = set(
        "  - permit: seen\n    actions: [see]\n  - permit: called\n    actions: [callTool]\n    when: context.arguments.x == 1",
    );
    assert!(Asked::see("any").is_permitted(&shown) && !Asked::call("any").is_permitted(&shown));
    let prompt = Asked { kind: NameKind::Prompt, ..Asked::see("greet") };
    assert!(!prompt.is_permitted(&set("  - permit: p\n    actions: [callTool]")), "a prompt is not called as a tool");
}

#[test]
fn what_no_rule_names_is_not_opened_beside_it() {
    let usual = set("  - permit: everything");
    let every = set("  - permit: everything\n    actions: ['*']");
    let none = set("  - permit: everything\n    actions: ['*']\n  - forbid: nothing");
    for action in PolicyAction::ALL {
        let asked = Asked { action, arguments: CallArguments::read(None), ..Asked::call("x") };
        let must_be_named =
            matches!(action, PolicyAction::Method | PolicyAction::Control | PolicyAction::ConnectUpstream);
        assert_eq!(asked.is_permitted(&usual), !must_be_named, "{action:?}");
        assert!(asked.is_permitted(&every) && !asked.is_permitted(&none), "{action:?}");
    }
}
