//! What `tsugi policy check` says about rules that can be used.

use tsugi_policy::lint::findings;

use crate::support::set;

fn told(rules: &str) -> Vec<String> {
    let servers = ["files".to_owned(), "mail".to_owned()];
    let text = |finding: tsugi_policy::lint::PolicyFinding| {
        let hint = finding.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}: {}{hint}", finding.rule.unwrap_or_default(), finding.message)
    };
    findings(&set(rules), &servers).into_iter().map(text).collect()
}

#[test]
fn rules_that_do_nothing_are_named() {
    assert_eq!(told("  - permit: p\n    resources: [files/read]"), Vec::<String>::new());
    assert_eq!(
        told("  - forbid: f\n    resources: [files]"),
        [": no rule permits anything: every call is refused (add a rule such as `permit: everyone`)"]
    );
    assert_eq!(
        told("  - permit: p\n    resources: [files/read]\n  - forbid: f\n    resources: [files/read, mail]"),
        ["p: it can never permit: `f` forbids all of it"]
    );
    assert_eq!(
        told("  - permit: p\n  - permit: q\n    resources: [mail]"),
        ["q: it changes nothing: `p` does the same"]
    );
    assert_eq!(
        told("  - permit: p\n    resources: [file/read]"),
        ["p: no server matches `file/read` (did you mean `files`?)"]
    );
    assert_eq!(
        told("  - permit: all\n  - permit: p\n    actions: [see]\n    when: '!context.truncated'"),
        [
            "p: it changes nothing: `all` does the same",
            "p: it reads arguments, and it is only about lists: it is never asked"
        ]
    );
}

#[test]
fn arguments_that_may_be_missing_are_named() {
    assert_eq!(
        told("  - permit: all\n  - forbid: f\n    when: context.arguments.force"),
        [
            "f: a call without the argument `force` is refused, as if it were forbidden (if calls may leave it out, begin with `has(context.arguments.force) &&`)"
        ]
    );
    assert_eq!(
        told("  - permit: all\n  - forbid: f\n    when: has(context.arguments.force) && context.arguments.force"),
        Vec::<String>::new()
    );
    assert_eq!(
        told("  - permit: p\n    when: has(context.arguments.path) && context.arguments.path == \"/a\""),
        ["p: it reads arguments, so it does not make a tool appear in a list (a rule with `actions: [see]` shows it)"]
    );
}
