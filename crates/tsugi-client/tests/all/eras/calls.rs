//! Everything that needs no question: lists, calls, reads, prompts, completion, progress, cancelling, logging, changes.

use serde_json::{Value, json};
use tsugi_protocol::answer::{Answer, Call, CallNote, Outcome, Reply, ReplyEvent};
use tsugi_protocol::era::to_modern;
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_testkit::wait;

use super::cell::Cell;
use crate::outcome::{notes_of, text, value};
use crate::world::{LIMIT, call, with_client};

fn request(method: Method, params: Value) -> Call {
    with_client(Call::new(method, JsonObject::from(params)))
}

/// A result in the form that a modern caller sees.
fn modern(outcome: Outcome, method: &Method) -> Value {
    let Outcome::Complete(complete) = outcome else { panic!("{outcome:?}") };
    let result: Value = to_modern::result(&complete, method).raw().to().unwrap();
    assert_eq!(result["resultType"], "complete");
    result
}

#[tokio::test]
async fn lists_calls_reads_prompts_and_completions_work_with_every_server() {
    for cell in Cell::all().await {
        let name = cell.name;
        let ask =
            async |method: Method, params: Value| modern(cell.outcome(request(method.clone(), params)).await, &method);
        let tools = ask(Method::ToolsList, json!({})).await;
        assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "add"), "{name}");
        assert!(tools["ttlMs"].is_u64() && tools["cacheScope"].is_string(), "{name}: {tools}");
        let sum = ask(Method::ToolsCall, json!({"name": "add", "arguments": {"a": 2, "b": 3}})).await;
        assert_eq!(sum["structuredContent"], json!({"sum": 5}), "{name}");
        let read = ask(Method::ResourcesRead, json!({"uri": "test://text"})).await;
        assert_eq!(read["contents"][0]["text"], "some text", "{name}");
        let prompt = ask(Method::PromptsGet, json!({"name": "greet", "arguments": {"name": "Ann"}})).await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ann.", "{name}");
        let argument =
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "a"}});
        let completion = ask(Method::Complete, argument).await;
        assert_eq!(completion["completion"]["values"], json!(["alpha"]), "{name}");
        for (method, key) in [(Method::ResourcesList, "resources"), (Method::PromptsList, "prompts")] {
            assert!(!ask(method, json!({})).await[key].as_array().unwrap().is_empty(), "{name}: {key}");
        }
        cell.finish().await;
    }
}

#[tokio::test]
async fn progress_comes_in_order_under_the_callers_own_token() {
    for cell in Cell::all().await {
        let mut reporting = call("progress", json!({"steps": 5, "every_ms": 1}));
        reporting.meta.progress_token = Some(RawJson::string("mine"));
        let (notes, outcome) = notes_of(cell.server.answer(reporting), LIMIT).await.expect("the call ends");
        assert_eq!(text(&outcome), "done", "{}", cell.name);
        let seen: Vec<(Value, u64)> = notes.iter().map(progress_of).collect();
        let expected: Vec<(Value, u64)> = (1..=5).map(|step| (json!("mine"), step)).collect();
        assert_eq!(seen, expected, "{}", cell.name);
        cell.finish().await;
    }
}

fn progress_of(note: &CallNote) -> (Value, u64) {
    assert_eq!(note.method, Method::Progress);
    let params: Value = note.params.as_ref().unwrap().to().unwrap();
    (params["progressToken"].clone(), params["progress"].as_f64().unwrap() as u64)
}

#[tokio::test]
async fn a_caller_that_did_not_ask_for_progress_hears_none() {
    for cell in Cell::all().await {
        let reply = cell.server.answer(call("progress", json!({"steps": 3, "every_ms": 1})));
        let (notes, outcome) = notes_of(reply, LIMIT).await.expect("the call ends");
        assert_eq!((notes.len(), text(&outcome).as_str()), (0, "done"), "{}", cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_given_up_by_the_server() {
    for cell in Cell::all().await {
        let mut sleeping = cell.server.answer(call("sleep", json!({"ms": 600_000})));
        let polled = tokio::time::timeout(std::time::Duration::from_millis(100), sleeping.next()).await;
        assert!(polled.is_err(), "{}: it sleeps", cell.name);
        drop(sleeping);
        assert!(wait::until(|| cell.cancelled() == 1).await, "{}: {} were given up", cell.name, cell.cancelled());
        cell.finish().await;
    }
}

#[tokio::test]
async fn log_lines_reach_the_caller_that_wants_them_and_only_as_severe_as_wanted() {
    for cell in Cell::all().await {
        for (wanted, expected) in [(Some(LogLevel::Info), 1), (Some(LogLevel::Error), 0), (None, 0)] {
            let mut logging = call("log", json!({"level": "warning", "text": "mind the gap"}));
            logging.meta.log_level = wanted;
            let (notes, outcome) = notes_of(cell.server.answer(logging), LIMIT).await.expect("the call ends");
            assert_eq!(text(&outcome), "logged");
            assert_eq!(notes.len(), expected, "{}: {wanted:?}", cell.name);
            for note in notes {
                let params: Value = note.params.unwrap().to().unwrap();
                assert_eq!((&params["level"], &params["data"]), (&json!("warning"), &json!("mind the gap")));
            }
        }
        cell.finish().await;
    }
}

/// The next change that a subscription tells.
async fn next_change(listening: &mut Reply, name: &str) -> CallNote {
    match tokio::time::timeout(LIMIT, listening.next()).await {
        Ok(ReplyEvent::Note(note)) => note,
        Ok(ReplyEvent::Done(outcome)) => panic!("{name}: the subscription ended: {outcome:?}"),
        Err(_) => panic!("{name}: nothing is told"),
    }
}

#[tokio::test]
async fn changes_are_told_through_subscriptions_listen_whatever_the_server_speaks() {
    for cell in Cell::all().await {
        let wanted =
            json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["test://text"]});
        let mut listening = cell.server.answer(request(Method::Listen, json!({"notifications": wanted})));
        let acknowledged = next_change(&mut listening, cell.name).await;
        assert_eq!(acknowledged.method, Method::SubscriptionAcknowledged, "{}", cell.name);
        // The server is told in the background what is watched; until it has been, its changes are not told.
        let mut updated = false;
        for what in ["tools", "prompts", "resources", "test://other", "test://text"] {
            let expected = match what {
                "tools" => Method::ToolsChanged,
                "prompts" => Method::PromptsChanged,
                "test://text" => Method::ResourceUpdated,
                _ => {
                    cell.outcome(call("change", json!({"what": what}))).await;
                    continue;
                }
            };
            let note = change_until_told(&cell, &mut listening, what).await;
            assert_eq!(note.method, expected, "{}: {what}", cell.name);
            updated |= note.method == Method::ResourceUpdated
                && note.params_object().get_str("uri").as_deref() == Some("test://text");
        }
        assert!(updated, "{}", cell.name);
        drop(listening);
        cell.finish().await;
    }
}

/// Makes the server announce a change again and again, until it is told.
async fn change_until_told(cell: &Cell, listening: &mut Reply, what: &str) -> CallNote {
    loop {
        cell.outcome(call("change", json!({"what": what}))).await;
        let told = tokio::time::timeout(std::time::Duration::from_millis(200), listening.next()).await;
        match told {
            Ok(ReplyEvent::Note(note)) if is_about(&note, what) => return note,
            // Told late for an earlier change.
            Ok(ReplyEvent::Note(note)) => {
                assert_ne!(note.method, Method::ResourcesChanged, "{}: not wanted", cell.name)
            }
            Ok(ReplyEvent::Done(outcome)) => panic!("{}: the subscription ended: {outcome:?}", cell.name),
            Err(_) => {}
        }
    }
}

fn is_about(note: &CallNote, what: &str) -> bool {
    match what {
        "tools" => note.method == Method::ToolsChanged,
        "prompts" => note.method == Method::PromptsChanged,
        uri => note.method == Method::ResourceUpdated && note.params_object().get_str("uri").as_deref() == Some(uri),
    }
}

#[tokio::test]
async fn a_tool_that_appears_is_listed_after_the_change_is_told() {
    for cell in Cell::all().await.into_iter().filter(|cell| cell.name != "in-process") {
        let mut changes = cell.server.changes();
        cell.outcome(call("change", json!({"what": "tools"}))).await;
        let told = async { while changes.recv().await.unwrap().what != tsugi_client::ServerEvent::Tools {} };
        tokio::time::timeout(LIMIT, told).await.unwrap_or_else(|_| panic!("{}: nothing is told", cell.name));
        let tools = value(&cell.outcome(Call::bare(Method::ToolsList)).await);
        assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "extra"), "{}", cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_was_started_again_and_offers_the_same_tells_no_change() {
    for cell in Cell::all().await {
        let generation = || cell.server.catalog().unwrap().generation;
        let (before, mut changes) = (generation(), cell.server.changes());
        cell.server.restart().await;
        assert!(wait::until(|| generation() > before).await, "{}", cell.name);
        while let Ok(change) = changes.try_recv() {
            assert_eq!(change.what, tsugi_client::ServerEvent::State, "{}", cell.name);
        }
        cell.finish().await;
    }
}
