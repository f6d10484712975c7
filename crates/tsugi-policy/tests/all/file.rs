//! What the reader of policy files refuses, and what it says.

use proptest::prelude::*;
use tsugi_policy::set::{PolicySet, PolicySource};

use crate::support::load;

fn refused(rules: &str) -> String {
    load(rules).map(|_| ()).expect_err(rules).join("\n")
}

/// As a condition is best written: YAML reads nothing into it.
fn quoted(when: &str) -> String {
    format!("'{}'", when.replace('\'', "''"))
}

#[test]
fn a_wrong_name_does_not_start_and_says_where_it_is() {
    for (when, expected) in [
        ("principal.rol == \"a\"", "p.yaml:3: there is no field `principal.rol`\nhint: did you mean `principal.role`?"),
        ("principl.role == \"a\"", "p.yaml:3: there is no variable `principl`\nhint: did you mean `principal`?"),
        (
            "arguments.path == \"a\"",
            "p.yaml:3: there is no variable `arguments`\nhint: did you mean `context.arguments`?",
        ),
        (
            "principal.role.x == \"a\"",
            "p.yaml:3: there is no field `principal.role.x`\nhint: did you mean `principal.role`?",
        ),
        ("principal.role == \"Admin\"", "p.yaml:3: the field is never \"Admin\"\nhint: did you mean `admin`?"),
        (
            "principal.role in [\"admin\", \"owner\"]",
            "p.yaml:3: the field is never \"owner\"\nhint: it is one of admin, user, readOnly",
        ),
        (
            "action == \"call\"",
            "p.yaml:3: the field is never \"call\"\nhint: it is one of callTool, getPrompt, readResource, subscribe, complete, task, method, see, control, connectUpstream",
        ),
        ("principal.tenant == 3", "p.yaml:3: a text and a number are never equal"),
        ("principal.groups == \"dev\"", "p.yaml:3: a list and a text are never equal"),
        (
            "\"dev\" in principal.tenant",
            "p.yaml:3: `in` needs a list on its right\nhint: for a part of a text use contains()",
        ),
        (
            "principal.tenant.startWith(\"a\")",
            "p.yaml:3: there is no function `startWith`\nhint: did you mean `startsWith`?",
        ),
        (
            "principal.tenant.matches(\"a.*\")",
            "p.yaml:3: there is no function `matches`\nhint: there are no regular expressions: use startsWith, endsWith or contains",
        ),
        (
            "has(principal.tenant)",
            "p.yaml:3: `principal.tenant` is always there, so `has` says nothing\nhint: what is not known is empty: compare it with `\"\"`, `[]` or `0`",
        ),
        (
            "size(principal) == 1",
            "p.yaml:3: `principal` cannot be used as a whole\nhint: name one of its fields: principal.identity, principal.role, principal.groups, principal.tenant, principal.scopes, principal.client, principal.issuer, principal.authTime",
        ),
        (
            "principal[\"role\"] == \"admin\"",
            "p.yaml:3: `principal` cannot be used as a whole\nhint: name one of its fields: principal.identity, principal.role, principal.groups, principal.tenant, principal.scopes, principal.client, principal.issuer, principal.authTime",
        ),
        ("principal.tenant", "p.yaml:3: the condition is neither true nor false\nhint: compare it with something"),
        ("false", "p.yaml:3: the condition never holds, so the rule can never match"),
        ("true", "p.yaml:3: the condition always holds: leave `when` out"),
        (
            "inNetwork(context.address, \"10.0.0.0/99\")",
            "p.yaml:3: `inNetwork` needs a network\nhint: write it as \"10.0.0.0/8\" or \"fd00::/8\"",
        ),
        (
            "principal.groups.exists(a, principal.scopes.exists(b, a == b))",
            "p.yaml:3: one `exists`, `all`, `map` or `filter` inside another could take too long",
        ),
        (
            "principal.groups.exists(context, context == \"a\")",
            "p.yaml:3: `context` is taken: choose another name for the element",
        ),
    ] {
        assert_eq!(refused(&format!("  - permit: p\n    when: {}", quoted(when))), expected, "{when}");
    }
    for when in ["principal.role ==", "(((", "a b", "\"x", "1 +"] {
        let told = refused(&format!("  - permit: p\n    when: '{when}'"));
        assert!(told.starts_with("p.yaml:3: the condition cannot be read: "), "{when}: {told}");
    }
    let names = refused("  - forbid: p\n    when: resource.name == \"delete\"");
    assert!(names.contains("hint: write the names into `resources`, where they hold for every spelling"), "{names}");
}

#[test]
fn the_line_of_a_mistake_is_found_in_a_block_too() {
    let told =
        refused("  - permit: p\n    when: |\n      principal.role == \"admin\" ||\n      principal.tenat == \"a\"");
    assert!(told.starts_with("p.yaml:5: there is no field `principal.tenat`"), "{told}");
}

#[test]
fn a_wrong_rule_is_named_with_what_to_try() {
    for (rules, expected) in [
        (
            "  - permt: p",
            "p.yaml:2: unknown key `permt`\nhint: did you mean `permit`?\np.yaml:2: a rule needs a name: `permit: NAME` or `forbid: NAME`",
        ),
        (
            "  - permit: p\n    actions: [callTools]",
            "p.yaml:3: there is no action `callTools`\nhint: did you mean `callTool`?",
        ),
        (
            "  - permit: p\n    principals: []",
            "p.yaml:3: `principals` is empty: the rule can never match\nhint: leave `principals` out to mean all of them",
        ),
        (
            "  - permit: p\n    resources: []",
            "p.yaml:3: `resources` is empty: the rule can never match\nhint: leave `resources` out to mean all of them",
        ),
        (
            "  - permit: p\n    actions:",
            "p.yaml:3: `actions` is empty: the rule can never match\nhint: leave `actions` out to mean all of them",
        ),
        (
            "  - permit: p\n    principals: [alice]",
            "p.yaml:3: `alice` is not the identity of any caller\nhint: a key is `key:alice`, a person of an issuer `ISSUER:alice`",
        ),
        (
            "  - permit: p\n    resources: ['files/[a']",
            "p.yaml:3: the pattern `files/[a` cannot be read: unclosed character class; missing ']'",
        ),
        ("  - permit: p\n    forbid: q", "p.yaml:3: a rule permits or forbids, not both"),
        ("  - permit: default", "p.yaml:2: `default` stands for what no rule permits: choose another name"),
        ("  - permit: a b", "p.yaml:2: a rule's name is up to 64 of A-Z, a-z, 0-9, `-`, `_` and `.`"),
        ("  - permit: p\n  - forbid: p", "p.yaml:3: there is a rule named `p` already, at p.yaml:2"),
        ("  - permit: p\n    when:", "p.yaml:3: `when` is a condition, such as `principal.role == \"admin\"`"),
    ] {
        assert_eq!(refused(rules), expected, "{rules}");
    }
}

const WHOLE: &str = "rules:\n  - permit: p\n    resources: [files]\n    when: principal.role == \"admin\"\n  - forbid: f\n    resources: ['*/delete*']\n...\n";

#[test]
fn a_file_that_is_cut_anywhere_is_never_used() {
    let load = |text: &str| PolicySet::load(vec![PolicySource { file: "p.yaml".into(), text: text.to_owned() }]);
    assert_eq!(load(WHOLE).unwrap().rules().len(), 2);
    // The end of the last line may be missing: all rules are there then.
    for end in 0..WHOLE.len() - 1 {
        assert!(load(&WHOLE[..end]).is_err(), "{:?}", &WHOLE[..end]);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        for text in [text.clone(), format!("rules:\n  - permit: p\n    when: {text}\n...\n"), format!("rules: {text}\n...\n")] {
            let _ = PolicySet::load(vec![PolicySource { file: "p.yaml".into(), text }]);
        }
    }
}

#[test]
fn a_condition_that_would_take_much_stack_is_refused() {
    let deep = format!("{}1{} == 1", "(".repeat(90), ")".repeat(90));
    assert!(load(&format!("  - permit: p\n    when: '{deep}'")).is_ok(), "parentheses alone nest nothing");
    let sum = vec!["1"; 1900].join("+");
    assert!(refused(&format!("  - permit: p\n    when: '{sum} == 1'")).contains("nested more than 64 deep"));
    let long = "principal.role == \"admin\" || ".repeat(200) + "true";
    assert!(refused(&format!("  - permit: p\n    when: '{long}'")).contains("longer than 4096 bytes"));
}
