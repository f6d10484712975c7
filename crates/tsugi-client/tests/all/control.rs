//! The careless control: the checks of the fault rows find every fault there, so they can fail.

mod http;
mod other;
mod stdio;

use std::time::Duration;

use serde_json::json;
use tsugi_protocol::mcp::Era;
use tsugi_testkit::careless::Careless;
use tsugi_testkit::fake::{Fake, Step, reply};
use tsugi_testkit::script::{Action, Form, Junk, Rule, Script};
use tsugi_testkit::scripted::Scripted;

use crate::faults_http::{counted, fake, response, said};
use crate::faults_stdio::patient;
use crate::subject::{
    Subject, Verdict, answers_late, breaks_off, dies_in_calls, ensure, hangs, leads_away, never_answers, never_ends,
    writes_junk,
};
use crate::world::call;

/// What takes longer hangs: the control has no deadline of its own.
const PATIENCE: Duration = Duration::from_secs(2);

fn careless(server: &Scripted) -> Subject {
    Subject::new(Careless::scripted(server), PATIENCE)
}

fn careless_http(fake: &Fake) -> Subject {
    Subject::new(Careless::http(&fake.url()).modern(), PATIENCE)
}

/// The check found a fault of this kind.
#[track_caller]
fn found(verdict: Verdict, what: &str) {
    let error = verdict.expect_err("the careless control passes");
    assert!(error.contains(what), "{what:?} is not what was found: {error}");
}

#[tokio::test]
async fn the_control_can_talk_to_a_server_that_behaves() {
    let server = Scripted::new(Script::legacy());
    careless(&server).works().await.unwrap();
    let fake = fake(Era::Modern, |request| reply::json(&response(request, &said(Era::Modern, "1"))));
    let subject = careless_http(&fake);
    subject.works().await.unwrap();
    never_ends(&subject).await.unwrap();
}

#[tokio::test]
async fn f06_the_control_makes_a_call_again_whose_server_died() {
    for action in [Action::Exit(3), Action::HalfThenExit(3)] {
        let server = Scripted::new(patient(Script::legacy()).rule(Rule::on_tool("count").launch(1).act(action)));
        found(dies_in_calls(&careless(&server), &server.journal(), 1).await, "have a result");
    }
}

#[tokio::test]
async fn f07_the_control_hangs_with_64_calls_of_a_server_that_died() {
    let server = Scripted::new(patient(Script::legacy()).rule(Rule::on_tool("count").launch(1).act(Action::Exit(3))));
    found(dies_in_calls(&careless(&server), &server.journal(), 64).await, "hangs");
}

#[tokio::test]
async fn f11_the_control_waits_for_ever() {
    let server = Scripted::new(patient(Script::legacy()));
    found(hangs(&careless(&server), &server.journal(), 1).await, "hangs");
}

#[tokio::test]
async fn f13_the_control_takes_a_late_answer() {
    let server = Scripted::new(patient(Script::legacy()));
    found(answers_late(&careless(&server), &server.journal(), 1).await, "have a result");
}

#[tokio::test]
async fn f14_f15_the_control_chokes_on_what_is_no_message() {
    for junk in [Junk::Words, Junk::Blank, Junk::Partial, Junk::Deep, Junk::OneByte, Junk::Random] {
        let server = Scripted::new(Script::legacy().rule(Rule::on_tool("echo").act(Action::Junk(junk))));
        found(writes_junk(&careless(&server), &server.journal()).await, "gave");
    }
}

#[tokio::test]
async fn f16_the_control_gives_up_on_a_line_that_is_no_message_however_long() {
    let server = Scripted::new(Script::legacy().rule(Rule::on_tool("echo").act(Action::LongLine(20 << 20))));
    found(writes_junk(&careless(&server), &server.journal()).await, "gave");
}

/// F-21: an answer to somebody else comes first.
async fn strange_answer_first(subject: &Subject) -> Verdict {
    let outcome = subject.outcome(call("error", json!({}))).await?;
    let text = format!("{outcome:?}");
    ensure(text.contains("own error"), || format!("an answer to somebody else was taken: {text}"))
}

#[tokio::test]
async fn f21_the_control_takes_the_answer_to_somebody_else() {
    let strange = r#"{"jsonrpc":"2.0","id":987654321,"result":{"content":[{"type":"text","text":"for another"}]}}"#;
    let script = Script::legacy().rule(Rule::on_tool("error").act(Action::Write(format!("{strange}\n"))));
    let server = Scripted::new(script.clone());
    found(strange_answer_first(&careless(&server)).await, "for another");
    let bench = crate::world::Bench::new(script);
    bench.settle().await;
    assert_eq!(strange_answer_first(&Subject::new(bench.server.clone(), crate::world::LIMIT)).await, Ok(()));
    bench.finish().await;
}

#[tokio::test]
async fn f21_the_control_does_not_mind_a_result_that_is_an_error_too() {
    let both = Rule::on_tool("echo").act(Action::Answer(Form::ResultAndError));
    let server = Scripted::new(Script::legacy().rule(both));
    found(careless(&server).works().await, "Complete");
}

#[tokio::test]
async fn f25_f26_the_control_leaves_its_server_and_all_descendants() {
    let family = Rule::on_tool("count").act(Action::Children(2)).act(Action::Detached(2));
    let stubborn = Script { ignores_eof: true, ..Script::legacy() };
    let server = Scripted::new(stubborn.rule(family));
    let subject = careless(&server);
    subject.outcome(call("count", json!({}))).await.unwrap();
    drop(subject);
    // The threads of the control may still be ending; what they leave does not.
    assert!(!tsugi_testkit::wait::until_within(PATIENCE, || server.mark().count() < 5).await, "something was ended");
}

#[tokio::test]
async fn h04_the_control_makes_a_call_again_whose_connection_broke() {
    let fake = fake(Era::Modern, |_| reply::reset_before_head());
    found(breaks_off(&careless_http(&fake), || counted(&fake), 1).await, "sent 2 times");
}

#[tokio::test]
async fn h06_the_control_waits_for_the_end_of_a_stream_that_has_none() {
    let answered = fake(Era::Modern, |request| {
        let steps = reply::sse_open(&[&response(request, &said(Era::Modern, "1"))]);
        [steps, vec![Step::Hold]].concat()
    });
    found(never_ends(&careless_http(&answered)).await, "hangs");
    let alive = fake(Era::Modern, |_| reply::sse_keep_alive(&[], 10));
    found(never_answers(&careless_http(&alive)).await, "hangs");
}

#[tokio::test]
async fn h09_the_control_follows_a_redirect_with_all_its_headers() {
    let sink = Fake::start(|request| reply::json(&response(request, &said(Era::Modern, "stolen"))));
    let location = sink.url();
    let fake = fake(Era::Modern, move |_| reply::redirect(307, &location));
    found(leads_away(&careless_http(&fake), || sink.requests()).await, "have a result");
    assert_eq!(sink.recorded()[0].header("authorization"), Some("Bearer secret"));
}
