//! Servers that ask: elicitation, sampling and roots end the call's turn with a question and go on with its answer.

use serde_json::{Value, json};
use tsugi_client::ManagerOptions;
use tsugi_client::config::own_profile;
use tsugi_protocol::answer::{Answer, Call, CallFailure, Outcome};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, Era, Method};
use tsugi_testkit::script::Script;

use super::cell::Cell;
use crate::outcome::{asked, notes_of, text};
use crate::world::{Bench, LIMIT, call, options};

/// The call again, with this answer to the one question that was asked.
pub(super) fn answered(call: Call, outcome: &Outcome, answer: Value) -> Call {
    let asked = asked(outcome);
    let [question] = asked.questions().try_into().unwrap();
    let mut answers = InputResponses::default();
    answers.add(&question.key, &RawJson::from(answer));
    call.retry_with(Some(&answers.finish()), asked.state.as_deref())
}

/// A form that was filled in.
pub(super) fn form(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn method_asked(outcome: &Outcome) -> Method {
    asked(outcome).questions()[0].method.clone()
}

#[tokio::test]
async fn elicitation_sampling_and_roots_are_asked_and_answered_with_every_server() {
    let questions = [
        ("ask", Method::Elicit, form("Ann")),
        ("ask_url", Method::Elicit, json!({"action": "accept"})),
        (
            "sample",
            Method::CreateMessage,
            json!({"role": "assistant", "content": {"type": "text", "text": "something"}, "model": "m"}),
        ),
        ("roots", Method::RootsList, json!({"roots": [{"uri": "file:///home"}]})),
    ];
    for cell in Cell::all().await {
        for (tool, method, answer) in &questions {
            let asking = call(tool, json!({}));
            let first = cell.outcome(asking.clone()).await;
            assert_eq!(method_asked(&first), *method, "{}: {tool}", cell.name);
            let second = cell.outcome(answered(asking, &first, answer.clone())).await;
            let told: Value = serde_json::from_str(&text(&second)).unwrap();
            assert_eq!(told, json!([answer]), "{}: {tool}", cell.name);
        }
        cell.finish().await;
    }
}

#[tokio::test]
async fn an_answer_reaches_a_server_in_the_form_of_its_revision() {
    let blocks = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let answer = json!({"resultType": "complete", "role": "assistant", "content": blocks, "model": "m"});
    for (version, content) in [("2025-06-18", json!({"type": "text", "text": "one\ntwo"})), ("2025-11-25", blocks)] {
        let bench = Bench::new(Script::only(version));
        bench.settle().await;
        let asking = call("sample", json!({}));
        let first = bench.outcome(asking.clone()).await;
        let second = bench.outcome(answered(asking, &first, answer.clone())).await;
        let told: Value = serde_json::from_str(&text(&second)).unwrap();
        assert_eq!(told, json!([{"role": "assistant", "content": content, "model": "m"}]), "{version}");
        bench.finish().await;
    }
}

/// The keys of the questions, and what they ask.
fn messages(outcome: &Outcome) -> Vec<(String, String)> {
    let message = |params: JsonObject| params.get_str("message").unwrap().into_owned();
    asked(outcome).questions().into_iter().map(|one| (one.key.clone(), message(one.params_object()))).collect()
}

#[tokio::test]
async fn questions_of_one_call_that_are_open_at_the_same_time_are_asked_together() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let asking = call("ask_both", json!({}));
    let first = bench.outcome(asking.clone()).await;
    let [(one, first_message), (two, second_message)] = &messages(&first)[..] else { panic!("{first:?}") };
    assert_eq!((first_message.as_str(), second_message.as_str()), ("First?", "Second?"));
    let answers = json!({one.as_str(): form("one"), two.as_str(): form("two")});
    let both = asking.retry_with(Some(&answers.into()), asked(&first).state.as_deref());
    let told: Value = serde_json::from_str(&text(&bench.outcome(both).await)).unwrap();
    assert_eq!(told, json!([form("one"), form("two")]));
    bench.finish().await;
}

#[tokio::test]
async fn of_two_questions_the_one_that_was_left_out_is_asked_again() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let asking = call("ask_both", json!({}));
    let first = bench.outcome(asking.clone()).await;
    let [(_, one), (two, _)] = &messages(&first)[..] else { panic!("{first:?}") };
    assert_eq!(one, "First?");
    let answers = json!({two.as_str(): form("two")});
    let half = asking.clone().retry_with(Some(&answers.into()), asked(&first).state.as_deref());
    let second = bench.outcome(half).await;
    let told = bench.outcome(answered(asking, &second, form("one"))).await;
    let told: Value = serde_json::from_str(&text(&told)).unwrap();
    assert_eq!(told, json!([form("one"), form("two")]));
    bench.finish().await;
}

#[tokio::test]
async fn what_is_asked_arrives_as_it_was_asked() {
    for cell in Cell::all().await {
        let outcome = cell.outcome(call("ask", json!({}))).await;
        let question = asked(&outcome).questions().remove(0);
        let params: Value = question.params.unwrap().to().unwrap();
        assert_eq!(params["message"], "Who are you?", "{}", cell.name);
        assert_eq!(params["requestedSchema"]["properties"]["name"]["type"], "string", "{}", cell.name);
        // Left unanswered; stopping gives it up.
        cell.manager.stop().await;
    }
}

#[tokio::test]
async fn a_server_may_ask_twice() {
    for cell in Cell::all().await {
        let asking = call("ask_twice", json!({}));
        let first = cell.outcome(asking.clone()).await;
        let second = cell.outcome(answered(asking.clone(), &first, form("one"))).await;
        let last = cell.outcome(answered(asking, &second, form("two"))).await;
        assert_eq!(
            serde_json::from_str::<Value>(&text(&last)).unwrap(),
            json!([form("one"), form("two")]),
            "{}",
            cell.name
        );
        cell.finish().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_missing_is_asked_for_again() {
    for cell in Cell::all().await {
        let asking = call("ask", json!({}));
        let first = cell.outcome(asking.clone()).await;
        let nothing = RawJson::from(json!({}));
        let again = cell.outcome(asking.clone().retry_with(Some(&nothing), asked(&first).state.as_deref())).await;
        assert_eq!(method_asked(&again), Method::Elicit, "{}", cell.name);
        let last = cell.outcome(answered(asking, &again, form("late"))).await;
        assert!(text(&last).contains("late"), "{}", cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_refusal_of_the_user_reaches_the_server() {
    for cell in Cell::all().await {
        let asking = call("ask", json!({}));
        let first = cell.outcome(asking.clone()).await;
        let last = cell.outcome(answered(asking, &first, json!({"action": "decline"}))).await;
        assert!(text(&last).contains("decline"), "{}", cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_caller_that_cannot_be_asked_is_not_and_the_server_hears_why() {
    for cell in Cell::all().await {
        let mut asking = call("ask", json!({}));
        let sampling = JsonObject::from(json!({"sampling": {}}));
        let profile = own_profile(ClientCapabilities::from_object(sampling));
        asking.meta = RequestMeta::of_client(std::sync::Arc::new(profile));
        match cell.outcome(asking).await {
            Outcome::Failed(CallFailure::Upstream(error)) => {
                assert_eq!((cell.era, error.code()), (Era::Modern, -32021))
            }
            outcome => {
                assert_eq!(cell.era, Era::Legacy, "{}", cell.name);
                // Over HTTP there is a session for such callers, and the server knows before it asks.
                let expected = if cell.name.contains("HTTP") { "the client cannot be asked" } else { "-32601" };
                assert!(text(&outcome).contains(expected), "{}: {}", cell.name, text(&outcome));
            }
        }
        cell.finish().await;
    }
}

#[tokio::test]
async fn progress_after_an_input_round_carries_the_token_of_the_request_that_is_answered() {
    for cell in Cell::legacy(&options()).await {
        let with_token = |mut call: Call, token: &str| {
            call.meta.progress_token = Some(RawJson::string(token));
            call
        };
        let asking = call("ask", json!({"steps": 3}));
        let first = cell.outcome(with_token(asking.clone(), "p1")).await;
        let again = with_token(answered(asking, &first, form("Ann")), "p2");
        let (notes, outcome) = notes_of(cell.server.answer(again), LIMIT).await.expect("the call ends");
        assert!(text(&outcome).contains("Ann"), "{}: {outcome:?}", cell.name);
        let tokens: Vec<Value> =
            notes.iter().map(|note| note.params_object().get("progressToken").unwrap().to().unwrap()).collect();
        assert_eq!(tokens, vec![json!("p2"); 3], "{}", cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn when_too_many_calls_wait_for_input_the_question_is_refused_and_not_the_call_that_was_sent() {
    let full = ManagerOptions { max_parked: 0, ..options() };
    for cell in Cell::legacy(&full).await {
        let outcome = cell.outcome(call("ask", json!({}))).await;
        assert!(text(&outcome).contains("too many calls wait for input"), "{}: {outcome:?}", cell.name);
        cell.finish().await;
    }
}
