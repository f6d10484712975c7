//! Policy files: no text makes the reader panic, and rules that can be read can be asked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_policy::arguments::CallArguments;
use tsugi_policy::question::{
    NameKind, PolicyAction, PolicyQuestion, PrincipalFacts, QuestionContext, ResourceFacts, ResourceHints,
};
use tsugi_policy::set::{PolicySet, PolicySource};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check(text);
    // Without it the fuzzer would have to find the form of a file by chance.
    check(&format!("rules:\n  - permit: p\n    when: {text}\n...\n"));
});

fn check(text: &str) {
    let source = PolicySource { file: "policy.yaml".into(), text: text.to_owned() };
    match PolicySet::load(vec![source]) {
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| problem.line >= 1 && problem.line <= text.lines().count().max(1) + 1));
        }
        Ok(set) => {
            let principal = PrincipalFacts { identity: "key:ann".to_owned(), role: "user", ..PrincipalFacts::default() };
            let arguments = CallArguments::read(Some(r#"{"a": {"b": [1, "x", null]}, "path": "/pub"}"#));
            let question = PolicyQuestion {
                principal: &principal,
                action: PolicyAction::CallTool,
                resource: ResourceFacts {
                    server: "files",
                    name: "read",
                    kind: NameKind::Tool,
                    tags: &[],
                    hints: ResourceHints::default(),
                    is_pinned: false,
                },
                context: QuestionContext { arguments: &arguments, face: "mcp", era: "modern", address: None, now: 0 },
            };
            // Asked twice, the same question has the same answer.
            assert_eq!(set.decide(&question), set.decide(&question));
        }
    }
}
