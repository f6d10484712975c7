//! Servers that do not want to end, leave children, or lose the process that supervises them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tsugi_client::{ConnectTarget, Manager};
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, FaultCode, SentState};
use tsugi_testkit::process::{is_alive, send};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::eras;
use crate::outcome::{end_of, fault, text, value};
use crate::role;
use crate::world::{Bench, LIMIT, call, command, config, options};

/// Everything is gone long before this; what is not by then stays.
const GONE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn f23_a_server_that_closes_its_output_is_taken_for_dead_and_stopped() {
    for script in eras() {
        let bench = Bench::new(script.rule(Rule::on_tool("count").launch(1).act(Action::CloseStdout)));
        bench.settle().await;
        let pid = bench.server.status().pid.unwrap();
        let fault = fault(&bench.call("count", json!({})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ServerCrashed, SentState::Unknown));
        assert!(wait::until_within(GONE, || !is_alive(pid)).await, "it is stopped");
        assert_eq!(bench.peer.journal().effects("count"), 1);
        bench.finish().await;
    }
}

#[tokio::test]
async fn f23_a_server_that_closes_its_input_and_stays_is_stopped_and_the_next_call_works() {
    for script in eras() {
        let bench = Bench::new(script.rule(Rule::on_tool("count").launch(1).act(Action::CloseStdin)));
        bench.settle().await;
        let pid = bench.server.status().pid.unwrap();
        assert_eq!(text(&bench.call("count", json!({})).await), "1");
        assert!(wait::until_within(GONE, || !is_alive(pid)).await, "it is stopped");
        bench.finish().await;
    }
}

#[tokio::test]
async fn f23_a_launcher_that_dies_first_takes_its_server_with_it_and_both_are_started_again() {
    for script in eras() {
        let bench = Bench::with(script, |config| config);
        let launched = launcher(&bench);
        let server = bench.manager.register(config("launched", ConnectTarget::stdio(launched))).unwrap();
        let about = end_of(server.answer(call("about", json!({}))), LIMIT).await.unwrap();
        let (child, parent) =
            (value(&about)["structuredContent"]["pid"].as_u64().unwrap() as u32, server.status().pid.unwrap());
        assert_ne!(child, parent, "a launcher stands between");
        send(parent, rustix::process::Signal::KILL);
        assert!(wait::until_within(GONE, || !is_alive(child)).await, "the server went with its launcher");
        let again = end_of(server.answer(call("echo", json!({"message": "again"}))), LIMIT).await.unwrap();
        assert_eq!(text(&again), "again");
        bench.finish().await;
    }
}

fn launcher(bench: &Bench) -> JobCommand {
    JobCommand { args: bench.peer.launcher_args().into_iter().map(Into::into).collect(), ..command(&bench.peer) }
}

#[test]
fn f25_the_steps_of_stopping_take_less_than_six_seconds_together() {
    assert!(tsugi_process::StopGrace::default().total() < Duration::from_secs(6));
}

/// Stops a server that needs every step.
async fn check_stubborn(script: Script, before: &str) {
    let bench = Bench::new(script);
    bench.works().await;
    if !before.is_empty() {
        drop(bench.server.answer(call(before, json!({}))));
        assert!(wait::until(|| bench.peer.journal().of("received").len() > 1).await);
    }
    let stopped = tokio::time::timeout(GONE, bench.server.stop()).await;
    stopped.expect("stopping does not hang");
    assert_eq!(bench.peer.mark().processes(), []);
    bench.finish_dead().await;
}

#[tokio::test]
async fn f25_a_server_that_ignores_the_end_of_its_input_is_gone_when_stopping_returns() {
    for script in eras() {
        check_stubborn(Script { ignores_eof: true, ..script }, "").await;
    }
}

#[tokio::test]
async fn f25_a_server_that_ignores_sigterm_too_is_gone_when_stopping_returns() {
    check_stubborn(Script { ignores_eof: true, ignores_sigterm: true, ..Script::legacy() }, "").await;
}

#[tokio::test]
async fn f25_a_server_that_stops_itself_is_gone_when_stopping_returns() {
    let script = Script { ignores_eof: true, ..Script::modern() };
    check_stubborn(script.rule(Rule::on_tool("count").act(Action::Signal("STOP".into()))), "count").await;
}

/// Starts descendants in a call, stops, and counts from outside.
async fn check_descendants(script: Script, count: usize) {
    let bench = Bench::new(script);
    bench.works().await;
    bench.call("count", json!({})).await;
    assert!(
        wait::until(|| bench.peer.mark().count() > count).await,
        "the checker sees {:?}",
        bench.peer.mark().processes()
    );
    bench.finish().await;
}

#[tokio::test]
async fn f26_grandchildren_and_runaways_end_with_their_server() {
    for script in eras() {
        let family = Rule::on_tool("count").act(Action::Children(3)).act(Action::Detached(3));
        check_descendants(script.rule(family), 6).await;
    }
}

#[tokio::test]
async fn f26_grandchildren_and_runaways_end_when_their_server_crashes() {
    for script in eras() {
        let family = Rule::on_tool("count").launch(1).act(Action::Children(2)).act(Action::Detached(2));
        let bench = Bench::with(script.rule(family), |mut config| {
            config.restart = tsugi_client::RestartPolicy::Never;
            config
        });
        bench.call("count", json!({})).await;
        assert!(wait::until(|| bench.peer.mark().count() > 4).await);
        fault(&bench.call("crash", json!({})).await);
        assert!(
            wait::until_within(GONE, || bench.peer.mark().count() == 0).await,
            "{:?}",
            bench.peer.mark().processes()
        );
        bench.finish_dead().await;
    }
}

/// The other program of the next test: it supervises a server with a family, and is killed.
async fn supervise(words: &str) {
    let words: Vec<String> = serde_json::from_str(words).unwrap();
    let command = JobCommand::new(&words[0]).args(&words[3..]).env(&words[1], &words[2]);
    let manager = Manager::new(options());
    let server = manager.register(config("supervised", ConnectTarget::stdio(command))).unwrap();
    end_of(server.answer(call("count", json!({}))), LIMIT).await.unwrap();
    println!("\nready");
    std::future::pending().await
}

#[test]
fn f27_nothing_is_left_when_the_supervising_program_is_killed() {
    let name = role::name_of(f27_nothing_is_left_when_the_supervising_program_is_killed);
    if let Some((_, words)) = role::given() {
        return tokio::runtime::Runtime::new().unwrap().block_on(supervise(&words));
    }
    for script in eras() {
        let family = Rule::on_tool("count").act(Action::Children(2)).act(Action::Detached(2));
        let stubborn = Script { ignores_eof: true, ignores_sigterm: true, ..script };
        let scripted = Scripted::new(stubborn.rule(family));
        let (variable, mark) = scripted.mark().variable();
        let mut words = vec![scripted.program().display().to_string(), variable, mark];
        words.extend(scripted.args());
        let words = serde_json::to_string(&words).unwrap();
        let mut program = role::command(name, "supervise", &words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"), "the program supervises");
        assert!(scripted.mark().count() >= 5, "the checker sees {:?}", scripted.mark().processes());
        program.kill().unwrap();
        program.wait().unwrap();
        let is_empty =
            wait::until_blocking(GONE, || scripted.mark().processes().iter().all(|process| process.state == 'Z'));
        assert!(is_empty, "left: {:?}", scripted.mark().processes());
    }
}
