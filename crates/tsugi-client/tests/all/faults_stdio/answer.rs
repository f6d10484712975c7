//! Servers whose answers have a wrong form, are too large, or tell lies.

use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::EraChoice;
use tsugi_client::server::ServerEvent;
use tsugi_protocol::answer::{Call, CallFailure, FaultCode, Outcome, SentState};
use tsugi_protocol::mcp::Method;
use tsugi_testkit::script::{Action, Form, Paging, Rule, Script};
use tsugi_testkit::wait;

use super::eras;
use crate::outcome::{fault, text, value};
use crate::role::{alone, name_of};
use crate::world::{Bench, LIMIT, SHORT, call, within};

/// What a caller hears when every answer to `add` has this form.
async fn hears(form: Form, size: usize, check: impl Fn(&Outcome)) {
    for script in eras() {
        let bench = Bench::new(script.rule(Rule::on_tool("add").act(Action::Answer(form))));
        bench.settle().await;
        let adding = within(call("add", json!({"a": 1, "b": 2})), if is_ignored(form) { SHORT } else { LIMIT });
        for outcome in bench.crowd(size, &adding).await {
            check(&outcome);
        }
        bench.finish().await;
    }
}

/// Forms in which an answer does not reach its call.
fn is_ignored(form: Form) -> bool {
    matches!(form, Form::NullId | Form::FloatId | Form::NoId)
}

#[tokio::test]
async fn f21_the_first_of_two_answers_counts_and_strangers_answers_do_not() {
    for form in [Form::Twice, Form::UnknownIdFirst] {
        for size in [1, 64] {
            hears(form, size, |outcome| assert_eq!(text(outcome), "3")).await;
        }
    }
}

#[tokio::test]
async fn f21_an_answer_without_our_id_is_no_answer() {
    let unanswered = |outcome: &Outcome| assert_eq!(fault(outcome).code, FaultCode::Timeout);
    for form in [Form::NullId, Form::FloatId, Form::NoId] {
        hears(form, 1, unanswered).await;
    }
    hears(Form::NullId, 64, unanswered).await;
}

/// Revision 2025-03-26 has batches, and an answer in one is meant for its call whatever was agreed on.
#[tokio::test]
async fn f21_an_answer_in_a_batch_is_an_answer() {
    for size in [1, 64] {
        hears(Form::InArray, size, |outcome| assert_eq!(text(outcome), "3")).await;
    }
}

/// Ids are our own numbers, so that no other call can be meant; some servers answer `"7"` to `7`.
#[tokio::test]
async fn f21_our_number_as_a_string_is_our_id() {
    for size in [1, 64] {
        hears(Form::OtherIdType, size, |outcome| assert_eq!(text(outcome), "3")).await;
    }
}

#[tokio::test]
async fn f21_an_answer_that_is_both_or_neither_is_told_as_the_servers_fault() {
    for form in [Form::ResultAndError, Form::Neither, Form::ResultIsText, Form::OldJsonRpc] {
        hears(form, 1, |outcome| {
            let fault = fault(outcome);
            assert_eq!((fault.code, fault.sent), (FaultCode::InvalidResponse, SentState::Unknown), "{form:?}: {fault}");
        })
        .await;
    }
    hears(Form::ResultAndError, 64, |outcome| assert_eq!(fault(outcome).code, FaultCode::InvalidResponse)).await;
}

#[tokio::test]
async fn f21_a_servers_own_error_passes_untouched() {
    for script in eras() {
        let bench = Bench::new(script);
        let Outcome::Failed(CallFailure::Upstream(error)) = bench.call("error", json!({})).await else { panic!() };
        assert_eq!(
            error.raw().as_str(),
            r#"{"code":-32000,"message":"a server's own error","data":{"why":["because"]}}"#
        );
        bench.finish().await;
    }
}

fn ask(method: &str, params: Value) -> Action {
    Action::Ask { method: method.into(), params, wait: true }
}

#[tokio::test]
async fn f22_a_modern_server_that_asks_by_request_is_told_that_there_is_no_such_method() {
    let asks = Rule::on_tool("add").act(ask("elicitation/create", json!({"message": "who?"})));
    let bench = Bench::new(Script::modern().rule(asks));
    bench.works().await;
    assert_eq!(text(&bench.call("add", json!({"a": 1, "b": 2})).await), "3");
    let told = bench.peer.journal().of("told");
    assert_eq!(told.iter().map(|answer| &answer["error"]["code"]).collect::<Vec<_>>(), [-32601]);
    bench.finish().await;
}

#[tokio::test]
async fn f22_a_legacy_server_hears_that_it_is_alive_and_of_methods_that_nobody_knows() {
    let asks = Rule::on_tool("add").act(ask("ping", json!({}))).act(ask("odd/method", json!({})));
    let bench = Bench::new(Script::legacy().rule(asks));
    assert_eq!(text(&bench.call("add", json!({"a": 1, "b": 2})).await), "3");
    let told = bench.peer.journal().of("told");
    assert_eq!((&told[0]["result"], &told[1]["error"]["code"]), (&json!({}), &json!(-32601)));
    bench.finish().await;
}

#[tokio::test]
async fn f22_a_legacy_server_that_asks_outside_any_call_is_not_left_waiting() {
    let actions = vec![ask("elicitation/create", json!({"message": "who?"})), ask("roots/list", json!({}))];
    let after = Rule { actions, ..Rule::on("prompts/list").after() };
    let bench = Bench::new(Script::legacy().rule(after));
    bench.settle().await;
    let journal = bench.peer.journal();
    assert!(wait::until(|| journal.of("told").len() == 2).await);
    let told = journal.of("told");
    assert_eq!((&told[0]["error"]["code"], &told[1]["result"]), (&json!(-32603), &json!({"roots": []})));
    bench.finish().await;
}

#[test]
fn f29_an_answer_over_the_limit_is_told_as_the_servers_fault_at_once() {
    alone(name_of(f29_an_answer_over_the_limit_is_told_as_the_servers_fault_at_once), async || {
        let spaced = || Rule::on_tool("big").act(Action::Answer(Form::Spaced));
        for script in eras().into_iter().flat_map(|script| [script.clone(), script.rule(spaced())]) {
            let bench = Bench::new(script);
            bench.settle().await;
            let large = call("big", json!({"bytes": 20 << 20}));
            let fault = fault(&bench.outcome(large).await);
            assert_eq!((fault.code, fault.sent), (FaultCode::InvalidResponse, SentState::Unknown), "{fault}");
            bench.finish().await;
        }
    });
}

/// The list cannot be fetched, for this reason; the server can be called all the same.
async fn check_list(script: Script, reason: &str) {
    let bench = Bench::new(script);
    let fault = fault(&bench.outcome(Call::bare(Method::ToolsList)).await);
    assert_eq!(fault.code, FaultCode::InvalidResponse);
    assert!(fault.message.contains(reason), "{fault}");
    bench.finish().await;
}

#[tokio::test]
async fn f29_lists_without_end_and_in_circles_are_given_up() {
    for script in eras() {
        check_list(Script { paging: Paging::Endless, ..script.clone() }, "more than 64 pages").await;
        check_list(Script { paging: Paging::Loop, ..script.clone() }, "circle").await;
        check_list(Script { page_size: 1, extra_tools: 10_000, ..script }, "more than 64 pages").await;
    }
}

#[test]
fn f29_a_list_of_a_million_tools_is_given_up() {
    alone(name_of(f29_a_list_of_a_million_tools_is_given_up), async || {
        check_list(Script { extra_tools: 1_000_000, ..Script::legacy() }, "larger than").await;
    });
}

#[tokio::test]
async fn f30_a_revision_that_nobody_knows_is_told_with_its_name() {
    for script in eras() {
        let bench = Bench::with(Script { claims_version: Some("3000-01-01".into()), ..script }, |mut config| {
            config.backoff.burst = 2;
            config
        });
        let fault = fault(&bench.call("echo", json!({})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ServerNotRunning, SentState::NotSent));
        assert!(fault.message.contains("3000-01-01") || fault.message.contains("revision"), "{fault}");
        bench.finish_dead().await;
    }
}

#[tokio::test]
async fn f30_capabilities_that_are_lies_cost_the_lists_and_nothing_else() {
    for script in eras() {
        let claims = json!({"tools": {}, "prompts": "yes", "resources": {"subscribe": 7}, "completions": []});
        let liar = Script { claims_capabilities: Some(claims), ..script };
        let bench = Bench::new(liar.rule(Rule::on("prompts/list").act(Action::Error {
            code: -32601,
            message: "no such method".into(),
            data: None,
        })));
        let tools = value(&bench.outcome(Call::bare(Method::ToolsList)).await);
        assert!(tools["tools"].as_array().unwrap().len() > 5);
        let prompts = value(&bench.outcome(Call::bare(Method::PromptsList)).await);
        assert_eq!(prompts["prompts"], json!([]));
        bench.finish().await;
    }
}

#[tokio::test]
async fn f30_a_server_that_changes_its_era_on_restart_is_asked_again_and_its_lists_are_new() {
    for (first, then, version) in [("legacy", "modern", "2026-07-28"), ("modern", "legacy", "2025-11-25")] {
        let script = Script {
            launches: vec![json!({"era": first, "extra_tools": 1})],
            extra_tools: 3,
            ..serde_json::from_value(json!({"era": then})).unwrap()
        };
        let bench = Bench::new(script);
        bench.settle().await;
        let mut changes = bench.server.changes();
        fault(&bench.call("crash", json!({})).await);
        bench.works().await;
        assert_eq!(bench.server.status().version.unwrap().as_str(), version);
        let told = tokio::time::timeout(Duration::from_secs(60), async {
            while changes.recv().await.unwrap().what != ServerEvent::Tools {}
        });
        told.await.expect("that the tools changed is told");
        bench.finish().await;
    }
}

#[tokio::test]
async fn f30_an_era_that_was_chosen_and_is_not_spoken_is_told() {
    let bench = Bench::with(Script::legacy(), |mut config| {
        (config.era, config.backoff.burst) = (EraChoice::Modern, 1);
        config
    });
    let fault = fault(&bench.call("echo", json!({})).await);
    assert!(fault.message.contains("does not speak a modern revision"), "{fault}");
    bench.finish_dead().await;
}
