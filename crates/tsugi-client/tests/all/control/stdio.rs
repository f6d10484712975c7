//! Rows of servers over stdio: each check passes with tsugi and finds its fault in the control.

use serde_json::{Value, json};
use tsugi_client::ServerConfig;
use tsugi_client::backoff::BackoffPolicy;
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Call, CallFailure, FaultCode, Outcome};
use tsugi_protocol::mcp::Method;
use tsugi_testkit::careless::Careless;
use tsugi_testkit::script::{Action, Paging, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::{PATIENCE, careless, found};
use crate::faults_stdio::patient;
use crate::subject::{Subject, Verdict, ensure};
use crate::world::{Bench, LIMIT, SHORT, call, config, options, within};

/// The check passes with tsugi and finds a fault of this kind in the control.
async fn check(script: Script, row: impl AsyncFn(&Subject, &Scripted) -> Verdict, what: &str) {
    check_with(script, |config| config, row, what).await;
}

async fn check_with(
    script: Script,
    settings: impl FnOnce(ServerConfig) -> ServerConfig,
    row: impl AsyncFn(&Subject, &Scripted) -> Verdict,
    what: &str,
) {
    let bench = Bench::with(script.clone(), settings);
    assert_eq!(row(&Subject::new(bench.server.clone(), LIMIT), &bench.peer).await, Ok(()), "tsugi");
    bench.finish_dead().await;
    let server = Scripted::new(script);
    found(row(&careless(&server), &server).await, what);
}

/// The fault of a call that must fail on our side.
async fn fails(subject: &Subject, call: Call) -> Result<tsugi_protocol::answer::Fault, String> {
    match subject.outcome(call).await? {
        Outcome::Failed(CallFailure::Fault(fault)) => Ok(*fault),
        other => Err(format!("no fault but {other:?}")),
    }
}

#[tokio::test]
async fn f01_the_control_does_not_say_that_a_program_is_missing() {
    let row = async |subject: &Subject| {
        let fault = fails(subject, within(call("echo", json!({})), SHORT)).await?;
        ensure(fault.code == FaultCode::ServerNotRunning && fault.hint.is_some(), || format!("it only says {fault}"))
    };
    let manager = tsugi_client::Manager::new(options());
    let target = tsugi_client::ConnectTarget::stdio(JobCommand::new("/no/such/program"));
    let server = manager.register(config("missing", target)).unwrap();
    assert_eq!(row(&Subject::new(server, LIMIT)).await, Ok(()));
    let control = Careless::stdio("/no/such/program".into(), Vec::new(), Vec::new());
    found(row(&Subject::new(control, PATIENCE)).await, "it only says");
}

#[tokio::test]
async fn f02_the_control_does_not_tell_the_last_words_of_a_server_that_ended() {
    let dying = Rule::on("start").act(Action::Stderr("last words".into())).act(Action::Exit(3));
    let row = async |subject: &Subject, _: &Scripted| {
        let fault = fails(subject, within(call("echo", json!({})), SHORT)).await?;
        let end = fault.process.as_ref().map(|end| format!("{} {:?}", end.status, end.stderr)).unwrap_or_default();
        ensure(end.contains('3') && end.contains("last words"), || format!("its end is told as {end:?}"))
    };
    check(Script::legacy().rule(dying), row, "its end is told as \"\"").await;
}

#[tokio::test]
async fn f03_the_control_knows_one_era_and_no_other() {
    let script = Script { needs_initialize: true, ..Script::legacy() }
        .rule(Rule::on("server/discover").launch(1).act(Action::Exit(3)));
    let bench = Bench::new(script.clone());
    assert_eq!(Subject::new(bench.server.clone(), LIMIT).works().await, Ok(()));
    bench.finish().await;
    let server = Scripted::new(script);
    found(Subject::new(Careless::scripted(&server).modern(), PATIENCE).works().await, "gave");
}

#[tokio::test]
async fn f05_the_control_has_no_list_of_a_server_that_dies_in_its_list() {
    let first = json!({"rules": [Rule::on_tool("count").act(Action::Exit(3))]});
    let script = Script { launches: vec![first], ..Script::legacy() }.rule(Rule::on("tools/list").act(Action::Exit(3)));
    let row = async |subject: &Subject, server: &Scripted| {
        subject.outcome(Call::bare(Method::ToolsList)).await?;
        subject.outcome(within(call("count", json!({})), SHORT)).await?;
        wait::until(|| server.journal().launches() >= 2).await;
        let list = subject.outcome(Call::bare(Method::ToolsList)).await?;
        ensure(matches!(list, Outcome::Complete(_)), || format!("the list is {list:?}"))
    };
    check(script, row, "the list is").await;
}

#[tokio::test]
async fn f09_the_control_starts_a_server_that_ends_at_once_again_and_again() {
    let row = async |subject: &Subject, server: &Scripted| {
        for _ in 0..10 {
            subject.outcome(within(call("echo", json!({})), SHORT)).await?;
        }
        let launches = server.journal().launches();
        ensure(launches <= 6, || format!("{launches} starts for ten calls"))
    };
    let settings = |config| ServerConfig { backoff: BackoffPolicy::default(), ..config };
    let crashing = Script::legacy().rule(Rule::on("start").act(Action::Exit(1)));
    check_with(crashing, settings, row, "starts for ten calls").await;
}

#[tokio::test]
async fn f10_the_control_keeps_callers_waiting_for_a_slow_start() {
    let row = async |subject: &Subject, _: &Scripted| {
        fails(subject, within(call("echo", json!({})), SHORT)).await.map(|_| ())
    };
    check(Script { start_delay_ms: 3000, ..Script::legacy() }, row, "hangs").await;
}

#[tokio::test]
async fn f12_the_control_lets_progress_keep_a_call_alive_for_ever() {
    let alive = Rule::on_tool("count").act(Action::Progress { count: 100_000, every_ms: 50 });
    let row = async |subject: &Subject, _: &Scripted| {
        fails(subject, within(call("count", json!({})), SHORT)).await.map(|_| ())
    };
    let settings = |config| ServerConfig { max_timeout: Some(SHORT), ..config };
    check_with(Script::legacy().rule(alive), settings, row, "hangs").await;
}

#[tokio::test]
async fn f19_the_control_lets_one_call_hold_up_all_others() {
    let row = async |subject: &Subject, server: &Scripted| {
        let held = subject.answer(call("hold", json!({})));
        wait::until(|| !server.journal().received("tools/call").is_empty()).await;
        let works = subject.works().await;
        drop(held);
        works
    };
    check(patient(Script::legacy()), row, "echo hangs").await;
}

#[tokio::test]
async fn f20_the_control_hangs_with_a_server_that_says_much_on_stderr() {
    let loud = Rule::on_tool("echo").act(Action::StderrFlood(1 << 20));
    check(Script::legacy().rule(loud), async |subject: &Subject, _: &Scripted| subject.works().await, "hangs").await;
}

#[tokio::test]
async fn f22_the_control_leaves_a_server_that_asks_without_an_answer() {
    let row = async |subject: &Subject| {
        let outcome = subject.outcome(call("ask", json!({}))).await?;
        ensure(matches!(outcome, Outcome::InputRequired(_)), || format!("not asked but {outcome:?}"))
    };
    let bench = Bench::new(Script::legacy());
    assert_eq!(row(&Subject::new(bench.server.clone(), LIMIT)).await, Ok(()), "tsugi");
    let server = Scripted::new(Script::legacy());
    found(row(&careless(&server)).await, "ask hangs");
}

#[tokio::test]
async fn f23_the_control_leaves_a_server_that_closed_its_output() {
    let mute = Rule::on_tool("count").launch(1).act(Action::CloseStdout);
    let row = async |subject: &Subject, server: &Scripted| {
        subject.works().await?;
        subject.outcome(call("count", json!({}))).await?;
        subject.works().await?;
        let first = server.journal().pids()[0];
        let is_gone = || !server.mark().processes().iter().any(|process| process.pid == first && process.state != 'Z');
        ensure(wait::until_within(PATIENCE, is_gone).await, || "the first process is still there".to_owned())
    };
    check(Script { ignores_eof: true, ..Script::legacy() }.rule(mute), row, "still there").await;
}

#[test]
fn f18_the_control_reads_nothing_while_it_writes_and_jams() {
    let stuffed = Rule::on_tool("count").act(Action::StopReading(4 << 20));
    let server = Scripted::new(Script::legacy().rule(stuffed));
    let large = json!({"message": "x".repeat(50_000)});
    let calls: Vec<(&str, Value)> =
        [("count", json!({}))].into_iter().chain((0..63).map(|_| ("echo", large.clone()))).collect();
    let (control, (done, ended)) = (Careless::scripted(&server), std::sync::mpsc::channel());
    std::thread::spawn(move || done.send(control.burst(&calls).is_ok()));
    assert!(ended.recv_timeout(PATIENCE).is_err(), "everything was answered");
}

#[tokio::test]
async fn f24_the_control_never_tells_a_server_that_its_callers_went_away() {
    const CALLERS: usize = 20;
    let row = async |subject: &Subject, server: &Scripted| {
        subject.works().await?;
        let mut replies: Vec<_> = (0..CALLERS).map(|_| subject.answer(call("hold", json!({})))).collect();
        let waiting = futures_util::future::join_all(replies.iter_mut().map(|reply| reply.next()));
        tokio::time::timeout(SHORT, waiting).await.ok();
        drop(replies);
        wait::until_within(PATIENCE, || server.journal().cancelled().len() == CALLERS).await;
        let told = server.journal().cancelled().len();
        ensure(told == CALLERS, || format!("the server was told of {told} of {CALLERS}"))
    };
    check(patient(Script::legacy()), row, "told of 0 of 20").await;
}

#[tokio::test]
async fn f29_the_control_reads_a_list_in_circles() {
    let script = Script { page_size: 2, paging: Paging::Loop, ..Script::legacy() };
    let bench = Bench::new(script.clone());
    bench.server.ready(LIMIT).await.unwrap();
    bench.finish().await;
    let server = Scripted::new(script);
    let (control, (done, ended)) = (Careless::scripted(&server), std::sync::mpsc::channel());
    std::thread::spawn(move || done.send(control.tools().is_ok()));
    assert!(ended.recv_timeout(PATIENCE).is_err(), "the list came to an end");
}

#[tokio::test]
async fn f30_the_control_believes_in_a_revision_that_nobody_knows() {
    let script = Script { claims_version: Some("2031-01-01".into()), ..Script::legacy() };
    let row = async |subject: &Subject, _: &Scripted| {
        let fault = fails(subject, within(call("echo", json!({"message": "x"})), SHORT)).await?;
        ensure(fault.message.contains("2031-01-01"), || format!("it is not named in {fault}"))
    };
    check(script, row, "no fault but Complete").await;
}
