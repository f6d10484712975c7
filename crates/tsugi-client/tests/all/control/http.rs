//! Rows of servers over HTTP: each check passes with tsugi and finds its fault in the control.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tsugi_protocol::answer::{Call, CallFailure, Outcome, ReplyEvent};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_testkit::careless::Careless;
use tsugi_testkit::fake::{BlackHole, Fake, Recorded, Steps, reply};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::HttpServer;

use super::{PATIENCE, careless_http, found};
use crate::faults_http::{counted, fake, response, said};
use crate::subject::{Subject, Verdict, all_failed, ensure, never_answers, never_ends};
use crate::world::{Bench, LIMIT, SHORT, call, config, http, options, with_client, within};

/// The check passes with tsugi and finds a fault of this kind in the control, where `count` is answered like this.
async fn check(
    count: impl Fn(&Recorded) -> Steps + Send + Sync + Clone + 'static,
    row: impl AsyncFn(&Subject, &Fake) -> Verdict,
    what: &str,
) {
    let bench = Bench::of(fake(Era::Modern, count.clone()));
    assert_eq!(row(&Subject::new(bench.server.clone(), LIMIT), &bench.peer).await, Ok(()), "tsugi");
    bench.finish().await;
    let fake = fake(Era::Modern, count);
    found(row(&careless_http(&fake), &fake).await, what);
}

/// The answer to `count` must not be taken.
async fn is_refused(subject: &Subject, _: &Fake) -> Verdict {
    subject.works().await?;
    all_failed(&[subject.outcome(call("count", json!({}))).await?])
}

fn one(request: &Recorded) -> String {
    response(request, &said(Era::Modern, "1"))
}

#[tokio::test]
async fn h01_the_control_waits_for_an_address_that_swallows_everything() {
    let hole = BlackHole::new();
    let url = format!("http://{}/mcp", hole.address());
    let row = async |subject: &Subject| all_failed(&[subject.outcome(within(call("echo", json!({})), SHORT)).await?]);
    let manager = tsugi_client::Manager::new(options());
    let server = manager.register(config("swallowed", http(&url))).unwrap();
    assert_eq!(row(&Subject::new(server, LIMIT)).await, Ok(()));
    found(row(&Subject::new(Careless::http(&url), PATIENCE)).await, "hangs");
}

#[tokio::test]
async fn h02_the_control_does_not_hear_how_long_to_wait() {
    let row = async |subject: &Subject, _: &Fake| match subject.outcome(call("count", json!({}))).await? {
        Outcome::Failed(CallFailure::Fault(fault)) if fault.retry_after_ms == Some(7000) => Ok(()),
        other => Err(format!("no pause in {other:?}")),
    };
    check(|_| reply::status(429, &[("Retry-After", "7")], ""), row, "no pause").await;
}

#[tokio::test]
async fn h03_the_control_does_not_open_a_forgotten_session_again() {
    let script = Script::legacy().rule(Rule::on_tool("count").after().act(Action::ForgetSessions));
    let row = async |subject: &Subject| {
        subject.outcome(call("count", json!({}))).await?;
        subject.works().await
    };
    let bench = Bench::of(HttpServer::start(&script));
    assert_eq!(row(&Subject::new(bench.server.clone(), LIMIT)).await, Ok(()));
    bench.finish().await;
    let server = HttpServer::start(&script);
    found(row(&Subject::new(Careless::http(&server.url()), PATIENCE)).await, "Session not found");
}

#[tokio::test]
async fn h05_the_control_waits_for_an_answer_byte_by_byte() {
    let row = async |subject: &Subject, _: &Fake| never_answers(subject).await;
    check(|request| reply::slow(&one(request), 200), row, "hangs").await;
}

#[tokio::test]
async fn h07_the_control_does_not_know_how_streams_are_written() {
    let row = async |subject: &Subject, _: &Fake| never_ends(subject).await;
    let spaceless = |request: &Recorded| reply::sse_text(format!(": hello\r\ndata:{}\r\n\r\n", one(request)));
    check(spaceless, row, "no answer but").await;
}

#[tokio::test]
async fn h08_the_control_takes_a_page_for_an_answer() {
    check(|request| reply::typed("text/html", &one(request)), is_refused, "have a result").await;
}

#[tokio::test]
async fn h10_the_control_does_not_look_at_how_an_answer_is_encoded() {
    let lying = |request: &Recorded| {
        reply::status(200, &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")], &one(request))
    };
    check(lying, is_refused, "have a result").await;
}

#[tokio::test]
async fn h11_the_control_takes_the_answer_to_somebody_else() {
    let other = |_: &Recorded| {
        reply::json(&json!({"jsonrpc": "2.0", "id": 987_654, "result": said(Era::Modern, "for another")}).to_string())
    };
    check(other, is_refused, "have a result").await;
}

#[tokio::test]
async fn h12_the_control_never_ends_its_session() {
    let server = HttpServer::start(&Script::legacy());
    let control = Subject::new(Careless::http(&server.url()), PATIENCE);
    assert_eq!(control.works().await, Ok(()));
    drop(control);
    let is_ended = || server.journal().of("http").iter().any(|request| request["method"] == "DELETE");
    assert!(!tsugi_testkit::wait::until_within(PATIENCE, is_ended).await, "the session was ended");
}

#[tokio::test]
async fn h14_the_control_doubles_the_load_of_a_server_that_flaps() {
    let row = async |subject: &Subject, fake: &Fake| {
        for _ in 0..40 {
            subject.outcome(call("count", json!({}))).await?;
        }
        ensure(counted(fake) <= 48, || format!("40 calls were sent {} times", counted(fake)))
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let flapping = move |request: &Recorded| match calls.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => reply::json(&one(request)),
        _ => reply::reset_before_head(),
    };
    check(flapping, row, "40 calls were sent").await;
}

#[tokio::test]
async fn h15_the_control_hears_nothing_of_a_subscription() {
    let script = Script::modern().rule(Rule::on("subscriptions/listen").act(Action::Silence));
    let row = async |subject: &Subject| {
        let filter = JsonObject::from(json!({"notifications": {"toolsListChanged": true}}));
        let mut listening = subject.answer(with_client(Call::new(Method::Listen, filter)));
        match tokio::time::timeout(PATIENCE, listening.next()).await {
            Ok(ReplyEvent::Note(_)) => Ok(()),
            other => Err(format!("not acknowledged but {other:?}")),
        }
    };
    let bench = Bench::of(HttpServer::start(&script));
    bench.settle().await;
    assert_eq!(row(&Subject::new(bench.server.clone(), LIMIT)).await, Ok(()));
    bench.finish().await;
    let server = HttpServer::start(&script);
    found(row(&Subject::new(Careless::http(&server.url()).modern(), PATIENCE)).await, "not acknowledged");
}
