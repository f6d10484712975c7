//! The careless control: it works while all is well, and every fault row can be seen to fail on it.

use std::time::Duration;

use serde_json::json;
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_testkit::careless::Careless;
use tsugi_testkit::fake::{Fake, reply};
use tsugi_testkit::script::{Action, Form, Junk, Paging, Rule, Script};
use tsugi_testkit::scripted::{HttpServer, Scripted};
use tsugi_testkit::wait::{PATIENCE, until_blocking};

fn on_call(action: Action) -> Scripted {
    Scripted::new(Script::legacy().rule(Rule::on("tools/call").act(action)))
}

/// What a thread gives, or `None` when it gives nothing in half a second: a client without a deadline.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_millis(500)).ok()
}

#[test]
fn it_works_while_all_is_well() {
    let server = Scripted::new(Script::default());
    let client = Careless::scripted(&server);
    assert_eq!(client.call("add", json!({"a": 1, "b": 2})).unwrap()["structuredContent"]["sum"], 3);
    assert!(client.tools().unwrap().len() > 10);
    let modern = Careless::scripted(&server).modern();
    assert_eq!(modern.call("echo", json!({"message": "m"})).unwrap()["resultType"], "complete");
    let http = HttpServer::start(&Script::default());
    assert_eq!(
        Careless::http(&http.url()).call("add", json!({"a": 1, "b": 2})).unwrap()["structuredContent"]["sum"],
        3
    );
    assert_eq!(
        Careless::http(&http.url()).modern().call("echo", json!({"message": "m"})).unwrap()["resultType"],
        "complete"
    );
}

#[tokio::test]
async fn it_is_an_answer_like_anything_else() {
    let server = Scripted::new(Script::legacy());
    let client = Careless::scripted(&server);
    let outcome = client.answer(Call::tool("echo", Some(&json!({"message": "x"}).into()))).outcome().await;
    assert!(matches!(outcome, Outcome::Complete(_)));
    let outcome = client.answer(Call::tool("error", None)).outcome().await;
    assert!(matches!(outcome, Outcome::Failed(_)));
}

#[test]
fn f06_it_repeats_a_call_whose_fate_is_unknown() {
    let server = Scripted::new(Script::legacy().rule(Rule::on_tool("count").launch(1).act(Action::HalfThenExit(1))));
    assert!(Careless::scripted(&server).call("count", json!({})).is_ok());
    assert_eq!(server.journal().effects("count"), 2);
}

#[test]
fn f11_it_waits_for_ever_and_never_cancels() {
    let server = on_call(Action::Silence);
    let client = Careless::scripted(&server);
    assert!(soon(move || client.call("echo", json!({}))).is_none());
    assert!(server.journal().cancelled().is_empty());
}

#[test]
fn f14_f15_it_breaks_on_a_line_that_is_no_message() {
    for junk in [Junk::Words, Junk::Blank, Junk::Partial, Junk::OneByte, Junk::Random] {
        assert!(Careless::scripted(&on_call(Action::Junk(junk))).call("echo", json!({})).is_err(), "{junk:?}");
    }
}

#[test]
fn f20_it_lets_a_server_choke_on_its_stderr() {
    let server = on_call(Action::StderrFlood(1 << 20));
    let client = Careless::scripted(&server);
    assert!(soon(move || client.call("echo", json!({}))).is_none());
}

#[test]
fn f21_it_takes_the_answer_of_another_for_its_own() {
    let server = on_call(Action::Answer(Form::Twice));
    let client = Careless::scripted(&server);
    client.call("echo", json!({"message": "first"})).unwrap();
    assert_eq!(client.call("echo", json!({"message": "second"})).unwrap()["content"][0]["text"], "first");
}

#[test]
fn f25_f26_it_leaves_everything_behind() {
    let script = Script { ignores_eof: true, ..Script::legacy() };
    let server = Scripted::new(script.rule(Rule::on("start").act(Action::Children(1)).act(Action::Detached(1))));
    Careless::scripted(&server).call("echo", json!({})).unwrap();
    assert!(until_blocking(PATIENCE, || server.mark().count() == 3));
}

#[test]
fn f29_it_follows_a_loop_of_cursors() {
    let server = Scripted::new(Script { paging: Paging::Loop, ..Script::legacy() });
    let client = Careless::scripted(&server);
    assert!(soon(move || client.tools()).is_none());
    // It would go on for ever; the mark ends the server, and with it the loop.
}

#[test]
fn f07_one_slow_call_holds_up_all_others() {
    let server = Scripted::new(Script::legacy());
    let client = Careless::scripted(&server);
    let slow = client.clone();
    std::thread::spawn(move || slow.call("sleep", json!({"ms": 600_000})));
    assert!(server.journal().until_blocking(PATIENCE, |journal| !journal.received("tools/call").is_empty()));
    assert!(soon(move || client.call("echo", json!({}))).is_none());
}

#[test]
fn h04_it_repeats_over_http_too() {
    let fake = Fake::start(|request| match request.json()["method"].as_str() {
        Some("initialize") => reply::json(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        _ => reply::reset_in_body("0123456789"),
    });
    assert!(Careless::http(&fake.url()).call("count", json!({})).is_err());
    assert_eq!(fake.recorded().iter().filter(|request| request.json()["method"] == "tools/call").count(), 2);
}

#[test]
fn h06_it_waits_for_the_end_of_a_stream_that_has_none() {
    let fake = Fake::start(|_| reply::sse_open(&[r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]));
    let client = Careless::http(&fake.url()).modern();
    assert!(soon(move || client.call("echo", json!({}))).is_none());
}

#[test]
fn h09_it_carries_its_secrets_wherever_it_is_sent() {
    let elsewhere = Fake::start(|_| reply::json(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let url = elsewhere.url();
    let fake = Fake::start(move |_| reply::redirect(302, &url));
    Careless::http(&fake.url()).modern().call("echo", json!({})).unwrap();
    assert_eq!(elsewhere.recorded()[0].header("authorization"), Some("Bearer secret"));
}
