//! Servers that forget sessions, do not let them end, or lose their streams of changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tsugi_client::ServerConfig;
use tsugi_client::config::own_profile;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply, ReplyEvent, SentState};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, Method};
use tsugi_testkit::fake::{Step, reply};
use tsugi_testkit::script::{Action, Http, Rule, Script};
use tsugi_testkit::scripted::HttpServer;
use tsugi_testkit::wait;

use super::fake;
use crate::outcome::{asked, fault, notes_of, text, value};
use crate::world::{Bench, LIMIT, call, http, options};

/// A server that forgets every session when it is told to.
fn forgetful() -> Bench<HttpServer> {
    Bench::of(HttpServer::start(&Script::legacy().rule(Rule::on_tool("count").after().act(Action::ForgetSessions))))
}

#[tokio::test]
async fn h03_a_forgotten_session_is_opened_again_once_for_64_callers() {
    for size in [1, 64] {
        let bench = forgetful();
        bench.settle().await;
        assert_eq!(text(&bench.call("count", json!({})).await), "1");
        for outcome in bench.crowd(size, &call("echo", json!({"message": "again"}))).await {
            assert_eq!(text(&outcome), "again");
        }
        let journal = bench.peer.journal();
        assert_eq!(journal.received("initialize").len(), 2);
        assert_eq!(journal.received("notifications/initialized").len(), 2);
        assert_eq!(journal.effects("count"), 1);
        bench.finish().await;
    }
}

#[tokio::test]
async fn h03_after_a_forgotten_session_changes_and_watched_resources_are_told_as_before() {
    let bench = forgetful();
    bench.settle().await;
    let mut listening =
        listen(&bench.server, json!({"toolsListChanged": true, "resourceSubscriptions": ["test://text"]}));
    assert!(wait::until(|| bench.peer.journal().received("resources/subscribe").len() == 1).await);
    bench.call("count", json!({})).await;
    bench.works().await;
    let journal = bench.peer.journal();
    assert!(wait::until(|| journal.received("resources/subscribe").len() == 2).await, "it is subscribed to again");
    assert!(wait::until(|| streams_opened(&bench.peer) == 2).await, "the new session has a stream");
    bench.call("change", json!({"what": "tools"})).await;
    bench.call("change", json!({"what": "test://text"})).await;
    for method in [Method::ToolsChanged, Method::ResourceUpdated] {
        heard(&mut listening, &method).await;
    }
    bench.finish().await;
}

fn streams_opened(server: &HttpServer) -> usize {
    server.journal().of("http").iter().filter(|request| request["method"] == "GET").count()
}

#[tokio::test]
async fn h03_a_server_that_forgets_every_session_at_once_is_told_as_such() {
    let gone = tsugi_testkit::fake::Fake::start(|request| match request.json()["method"].as_str() {
        Some("initialize") => {
            let result = super::result(tsugi_protocol::mcp::Era::Legacy, &request.json()).unwrap();
            let text = super::response(request, &result);
            let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", "short-lived")];
            tsugi_testkit::fake::reply::status(200, &headers, &text)
        }
        _ if request.json()["method"] == "server/discover" => tsugi_testkit::fake::reply::status(400, &[], ""),
        _ => tsugi_testkit::fake::reply::status(404, &[], ""),
    });
    let bench = Bench::of(gone);
    let fault = fault(&bench.call("echo", json!({"message": "x"})).await);
    assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionFailed, SentState::Unknown), "{fault}");
    assert!(fault.message.contains("404"), "{fault}");
    bench.finish_dead().await;
}

#[tokio::test]
async fn h12_a_server_that_hangs_or_fails_when_its_session_ends_does_not_hold_up_stopping() {
    let hang = Rule::on("DELETE").act(Action::Sleep(600_000));
    let fail = Rule::on("DELETE").act(Action::Status { code: 500, headers: Vec::new(), body: String::new() });
    for rule in [hang, fail] {
        let bench = Bench::of(HttpServer::start(&Script::legacy().rule(rule)));
        bench.works().await;
        let stopping = tokio::time::timeout(Duration::from_secs(20), bench.server.stop());
        stopping.await.expect("stopping does not wait for the server");
        let asked = bench.peer.journal().of("http").iter().filter(|request| request["method"] == "DELETE").count();
        assert_eq!(asked, 1, "the session is ended");
        bench.finish().await;
    }
}

/// A server that tells the progress of `count` on the session's own stream, and ends the call when it is told to.
fn elsewhere() -> (tsugi_testkit::fake::Fake, std::sync::mpsc::Sender<()>) {
    let (begun, tokens) = std::sync::mpsc::channel::<serde_json::Value>();
    let (finish, finished) = std::sync::mpsc::channel();
    let (tokens, finished) = (parking_lot::Mutex::new(tokens), parking_lot::Mutex::new(finished));
    let era = tsugi_protocol::mcp::Era::Legacy;
    let fake = tsugi_testkit::fake::Fake::start(move |request| {
        if request.method == "GET" {
            let Ok(token) = tokens.lock().recv_timeout(LIMIT) else { return reply::nothing() };
            let note = |step: u32| {
                let params = json!({"progressToken": token, "progress": step});
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
            };
            return [reply::sse_open(&[&note(1), &note(2)]), vec![Step::Hold]].concat();
        }
        if super::is_count(request) {
            begun.send(request.json()["params"]["_meta"]["progressToken"].clone()).ok();
            finished.lock().recv_timeout(LIMIT).ok();
            return reply::json(&super::response(request, &super::said(era, "1")));
        }
        super::good(era, request)
    });
    (fake, finish)
}

#[tokio::test]
async fn progress_on_the_sessions_own_stream_reaches_its_call_while_it_runs() {
    let (fake, finish) = elsewhere();
    let bench = Bench::of(fake);
    let mut counting = call("count", json!({}));
    counting.meta.progress_token = Some(RawJson::string("mine"));
    let mut reply = bench.server.answer(counting);
    for step in [1, 2] {
        let Ok(ReplyEvent::Note(note)) = tokio::time::timeout(LIMIT, reply.next()).await else { panic!("no progress") };
        let params: serde_json::Value = note.params_object().raw().to().unwrap();
        assert_eq!(params, json!({"progressToken": "mine", "progress": step}));
    }
    finish.send(()).unwrap();
    assert_eq!(text(&reply.outcome().await), "1");
    bench.finish().await;
}

/// A server that asks in the middle of `count`; what it tells after that comes on the session's own stream.
fn asking(result: serde_json::Value) -> tsugi_testkit::fake::Fake {
    let (answered, answers) = std::sync::mpsc::channel::<()>();
    let (call, answers) = (parking_lot::Mutex::new(None), parking_lot::Mutex::new(answers));
    tsugi_testkit::fake::Fake::start(move |request| {
        if request.method == "GET" {
            let Ok(()) = answers.lock().recv_timeout(LIMIT) else { return reply::nothing() };
            let (token, answer): (serde_json::Value, String) = call.lock().take().unwrap();
            let params = json!({"progressToken": token, "progress": 1});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            return [reply::sse_open(&[&progress.to_string(), &answer]), vec![Step::Hold]].concat();
        }
        if super::is_count(request) {
            let answer = super::response(request, &result);
            *call.lock() = Some((request.json()["params"]["_meta"]["progressToken"].clone(), answer));
            let params = json!({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}});
            let question = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params});
            return [reply::sse_open(&[&question.to_string()]), vec![Step::Hold]].concat();
        }
        if request.method == "POST" && request.json().get("method").is_none() {
            answered.send(()).ok();
            return reply::status(202, &[], "");
        }
        super::good(tsugi_protocol::mcp::Era::Legacy, request)
    })
}

#[tokio::test]
async fn progress_after_a_question_reaches_the_call_that_went_on() {
    let bench = Bench::of(asking(super::said(tsugi_protocol::mcp::Era::Legacy, "1")));
    let mut counting = call("count", json!({}));
    counting.meta.progress_token = Some(RawJson::string("mine"));
    let question = asked(&bench.outcome(counting.clone()).await);
    let mut answers = InputResponses::default();
    answers.add(&question.questions()[0].key, &RawJson::from(json!({"action": "accept", "content": {}})));
    let again = counting.retry_with(Some(&answers.finish()), question.state.as_deref());
    let (notes, outcome) = notes_of(bench.server.answer(again), LIMIT).await.expect("the call ends");
    assert_eq!((notes.len(), text(&outcome).as_str()), (1, "1"));
    bench.finish().await;
}

#[tokio::test]
async fn a_failure_on_the_sessions_own_stream_names_the_capability_that_was_missing() {
    let failed = json!({"isError": true, "content": [{"type": "text", "text": "nobody to ask"}]});
    // No room for a session on the caller's own terms.
    let settings = |config| ServerConfig { max_connections: 1, ..config };
    let bench = Bench::under(options(), asking(failed), settings);
    let mut counting = call("count", json!({}));
    counting.meta = RequestMeta::of_client(Arc::new(own_profile(ClientCapabilities::from_object(JsonObject::empty()))));
    let missing = fault(&bench.outcome(counting).await);
    assert_eq!(missing.code, FaultCode::MissingCapability, "{missing}");
    assert!(missing.message.ends_with("nobody to ask"), "{missing}");
    bench.finish().await;
}

pub(super) fn listen(server: &tsugi_client::Server, wanted: serde_json::Value) -> Reply {
    let params = JsonObject::from(json!({"notifications": wanted}));
    server.answer(crate::world::with_client(Call::new(Method::Listen, params)))
}

/// Waits until this change is told.
pub(super) async fn heard(listening: &mut Reply, method: &Method) {
    let hearing = async {
        loop {
            match listening.next().await {
                ReplyEvent::Note(note) if note.method == *method => return,
                ReplyEvent::Note(_) => {}
                ReplyEvent::Done(outcome) => panic!("the subscription ended: {outcome:?}"),
            }
        }
    };
    tokio::time::timeout(LIMIT, hearing).await.unwrap_or_else(|_| panic!("{method} is not told"));
}

/// The first thing that a subscription tells.
async fn acknowledged(server: &tsugi_client::Server) -> Reply {
    let mut listening = listen(server, json!({"toolsListChanged": true}));
    let first = tokio::time::timeout(LIMIT, listening.next()).await.expect("it is acknowledged");
    let ReplyEvent::Note(note) = first else { panic!("{first:?}") };
    assert_eq!(note.method, Method::SubscriptionAcknowledged);
    listening
}

#[tokio::test]
async fn h15_a_subscription_is_acknowledged_first_whether_the_server_acknowledges_or_not() {
    let on_listen = |action| Rule::on("subscriptions/listen").act(action);
    for rule in [on_listen(Action::Silence), on_listen(Action::Sleep(1000)), on_listen(Action::Reset)] {
        let bench = Bench::of(HttpServer::start(&Script::modern().rule(rule)));
        bench.settle().await;
        acknowledged(&bench.server).await;
        bench.finish().await;
    }
}

#[tokio::test]
async fn h15_a_subscription_to_a_server_that_is_not_there_is_acknowledged_too() {
    let bench = Bench::of(HttpServer::start(&Script::modern()));
    let dead = bench
        .manager
        .register(crate::world::config("dead", http(&format!("http://{}/mcp", tsugi_testkit::fake::refused()))));
    acknowledged(&dead.unwrap()).await;
    acknowledged(&bench.server).await;
    bench.finish().await;
}

#[tokio::test]
async fn h15_a_stream_of_changes_that_breaks_is_opened_again_and_tells_on() {
    let breaking = Rule::on("subscriptions/listen").nth(1).act(Action::Reset);
    let bench = Bench::of(HttpServer::start(&Script::modern().rule(breaking)));
    bench.settle().await;
    let mut listening = acknowledged(&bench.server).await;
    assert!(wait::until(|| bench.peer.journal().received("subscriptions/listen").len() >= 2).await);
    bench.call("change", json!({"what": "tools"})).await;
    heard(&mut listening, &Method::ToolsChanged).await;
    let tools = value(&bench.outcome(Call::bare(Method::ToolsList)).await);
    assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "extra"));
    bench.finish().await;
}

#[tokio::test]
async fn a_legacy_stream_that_is_cut_is_resumed_where_it_stopped() {
    let http = Http { resumable: true, cut_after: Some(2), ..Http::default() };
    let bench = Bench::of(HttpServer::start(&Script { http, ..Script::legacy() }));
    bench.settle().await;
    let mut reporting = call("progress", json!({"steps": 6, "every_ms": 20}));
    reporting.meta.progress_token = Some(tsugi_protocol::json::RawJson::string("p"));
    let (notes, outcome) = crate::outcome::notes_of(bench.server.answer(reporting), LIMIT).await.unwrap();
    assert_eq!(text(&outcome), "done");
    let seen: Vec<String> =
        notes.iter().map(|note| note.params_object().get("progress").unwrap().to_string()).collect();
    assert_eq!(seen, ["1", "2", "3", "4", "5", "6"]);
    bench.finish().await;
}

#[tokio::test]
async fn calls_that_hang_over_http_end_when_their_server_is_stopped() {
    for era in super::ERAS {
        let bench = Bench::of(fake(era, |_| tsugi_testkit::fake::reply::nothing()));
        bench.works().await;
        let hanging = bench.server.answer(call("count", json!({})));
        let ended = tokio::spawn(crate::outcome::end_of(hanging, LIMIT / 2));
        assert!(wait::until(|| super::counted(&bench.peer) == 1).await);
        bench.server.stop().await;
        let fault: Fault = fault(&ended.await.unwrap().expect("it ends with its server"));
        // `SERVER_NOT_RUNNING` is a 503, which says that nothing was sent.
        assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown));
        bench.finish().await;
    }
}

#[tokio::test]
async fn a_server_hears_of_a_subscription_once_whoever_asks_and_whoever_listens() {
    let bench = Bench::of(HttpServer::start(&Script::legacy()));
    bench.settle().await;
    let watched = json!({"uri": "test://text"});
    let subscribe = || {
        let call = Call::new(Method::ResourcesSubscribe, JsonObject::from(watched.clone()));
        bench.server.answer(crate::world::with_client(call)).outcome()
    };
    let heard_of = |method: &str| bench.peer.journal().received(method).len();
    for _ in 0..2 {
        value(&subscribe().await);
    }
    let mut listening = listen(&bench.server, json!({"resourceSubscriptions": ["test://text"]}));
    // What is watched is told to the server in the background, after whatever was to be told before.
    let mut other = listen(&bench.server, json!({"resourceSubscriptions": ["test://other"]}));
    assert!(wait::until(|| heard_of("resources/subscribe") == 2).await);
    bench.call("change", json!({"what": "test://text"})).await;
    heard(&mut listening, &Method::ResourceUpdated).await;
    bench.call("change", json!({"what": "test://other"})).await;
    heard(&mut other, &Method::ResourceUpdated).await;
    assert_eq!(heard_of("resources/subscribe"), 2, "once for each resource");
    drop(listening);
    assert!(wait::until(|| heard_of("resources/unsubscribe") == 1).await, "the last who listens is gone");
    value(&subscribe().await);
    assert_eq!(heard_of("resources/subscribe"), 3, "now it is asked again");
    bench.finish().await;
}

/// A server that forgets its session at the first call, and takes its time to hear that the next one is ready.
fn hesitant(ready: std::sync::mpsc::Receiver<()>) -> tsugi_testkit::fake::Fake {
    let (ready, sessions) = (parking_lot::Mutex::new(ready), std::sync::atomic::AtomicUsize::new(0));
    let era = tsugi_protocol::mcp::Era::Legacy;
    tsugi_testkit::fake::Fake::start(move |request| {
        let message = request.json();
        let is_new = request.header("mcp-session-id") == Some("s-2");
        match message["method"].as_str() {
            Some("initialize") => {
                let number = sessions.fetch_add(1, std::sync::atomic::Ordering::AcqRel) + 1;
                let text = super::response(request, &super::result(era, &message).unwrap());
                let id = format!("s-{number}");
                reply::status(200, &[("Content-Type", "application/json"), ("Mcp-Session-Id", &id)], &text)
            }
            Some("notifications/initialized") if is_new => {
                ready.lock().recv_timeout(LIMIT).ok();
                reply::status(202, &[], "")
            }
            Some("tools/call") if !is_new => reply::status(404, &[], ""),
            None if request.method == "GET" => [reply::sse_open(&[]), vec![Step::Hold]].concat(),
            _ => super::good(era, request),
        }
    })
}

#[tokio::test]
async fn h03_a_new_session_is_agreed_to_its_end_although_the_caller_who_noticed_is_gone() {
    let (tell, ready) = std::sync::mpsc::channel();
    let bench = Bench::of(hesitant(ready));
    bench.settle().await;
    let hasty = crate::world::within(call("echo", json!({"message": "x"})), Duration::from_millis(500));
    assert_eq!(fault(&bench.outcome(hasty).await).code, FaultCode::Timeout);
    tell.send(()).unwrap();
    let of_new = |method: &str| {
        let requests = bench.peer.recorded();
        requests
            .iter()
            .filter(|request| request.method == method && request.header("mcp-session-id") == Some("s-2"))
            .count()
    };
    assert!(wait::until(|| of_new("GET") == 1).await, "the new session has no stream");
    bench.finish().await;
}

#[tokio::test]
async fn a_subscription_that_the_server_failed_to_take_is_asked_for_again() {
    let failing = Action::Error { code: -32603, message: "not now".into(), data: None };
    let rule = Rule::on("resources/subscribe").nth(1).act(failing);
    let bench = Bench::of(HttpServer::start(&Script::legacy().rule(rule)));
    bench.settle().await;
    let mut listening = listen(&bench.server, json!({"resourceSubscriptions": ["test://text"]}));
    assert!(wait::until(|| bench.peer.journal().received("resources/subscribe").len() == 2).await);
    bench.call("change", json!({"what": "test://text"})).await;
    heard(&mut listening, &Method::ResourceUpdated).await;
    bench.finish().await;
}
