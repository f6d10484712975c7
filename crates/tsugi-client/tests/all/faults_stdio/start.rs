//! Servers that do not start, start slowly, or die before they can be called.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::json;
use tsugi_client::backoff::BackoffPolicy;
use tsugi_client::config::RetryPolicy;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, Server, ServerConfig, StartPolicy};
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, Call, CallStage, FaultCode, Outcome, SentState};
use tsugi_protocol::mcp::Method;
use tsugi_testkit::script::{Action, Eras, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::eras;
use crate::outcome::{end_of, fault, text, value};
use crate::world::{Bench, EAGER, LIMIT, call, command, config, options};

/// Calls a server that cannot be started.
async fn call_missing(program: &std::path::Path) -> tsugi_protocol::answer::Fault {
    let manager = Manager::new(options());
    let mut config = config("missing", ConnectTarget::stdio(JobCommand::new(program)));
    // Neither another start nor another try could come in time.
    let never = Duration::from_secs(1_000_000);
    config.backoff = BackoffPolicy { first: never, longest: never, ..EAGER };
    config.retry = Some(RetryPolicy {
        max_retries: 3,
        initial_delay: never,
        max_delay: never,
        retryable_errors: vec!["SERVER_NOT_RUNNING".into()],
        ..RetryPolicy::default()
    });
    let server = manager.register(config).unwrap();
    let outcome = end_of(server.answer(call("echo", json!({}))), LIMIT).await.expect("the call ends");
    manager.stop().await;
    fault(&outcome)
}

#[tokio::test]
async fn f01_a_program_that_is_missing_or_not_executable_is_told_at_once_and_nothing_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    for program in [folder.path().join("missing"), plain] {
        let fault = call_missing(&program).await;
        assert_eq!(
            (fault.code, fault.stage, fault.sent, fault.retryable),
            (FaultCode::ServerNotRunning, CallStage::Spawn, SentState::NotSent, false)
        );
        let name = program.file_name().unwrap().to_str().unwrap();
        assert!(fault.message.contains(name), "{fault}");
    }
}

#[tokio::test]
async fn f01_a_program_that_appears_later_is_started_without_an_operator() {
    let bench = Bench::with(Script::legacy(), |mut config| {
        let ConnectTarget::Stdio(command) = &config.target else { unreachable!() };
        let folder = std::path::Path::new(&command.args[1]).to_owned();
        let late = JobCommand { program: folder.join("late").into(), ..(**command).clone() };
        config.target = ConnectTarget::stdio(late);
        config
    });
    let is_missing = || bench.server.status().fault.is_some_and(|fault| fault.stage == CallStage::Spawn);
    assert!(wait::until(is_missing).await, "{:?}", bench.server.status());
    std::os::unix::fs::symlink(bench.peer.program(), bench.peer.folder().join("late")).unwrap();
    assert!(wait::until(|| bench.server.status().state == ConnectionState::Connected).await);
    bench.finish().await;
}

#[tokio::test]
async fn f02_a_server_that_exits_before_its_first_byte_is_told_with_its_exit_and_its_last_words() {
    let ends = [
        (Action::Exit(0), "exit code 0"),
        (Action::Exit(7), "exit code 7"),
        (Action::Signal("KILL".into()), "signal 9"),
    ];
    for (action, expected) in ends {
        let last_words = Rule::on("start").act(Action::Stderr("no database".into()));
        let bench = Bench::with(
            Script {
                rules: vec![Rule { actions: [last_words.actions, vec![action]].concat(), ..Rule::on("start") }],
                ..Script::default()
            },
            |mut config| {
                config.backoff = BackoffPolicy { burst: 3, ..EAGER };
                config
            },
        );
        let fault = fault(&bench.call("echo", json!({})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ServerNotRunning, SentState::NotSent));
        let process = fault.process.expect("the fault tells how the process ended");
        assert!(process.status.contains(expected), "{}", process.status);
        assert_eq!(process.stderr, ["no database"]);
        assert_eq!(bench.server.status().state, ConnectionState::Failed);
        bench.finish_dead().await;
    }
}

#[tokio::test]
async fn f03_a_server_that_dies_of_discover_gets_the_legacy_handshake_once() {
    let script = Script::legacy().rule(Rule::on("server/discover").act(Action::Exit(1)));
    let bench = Bench::new(script);
    bench.works().await;
    assert_eq!(bench.peer.journal().launches(), 2);
    assert_eq!(bench.server.status().version.unwrap().as_str(), "2025-11-25");
    bench.finish().await;
}

#[tokio::test]
async fn f03_a_server_that_dies_of_both_handshakes_is_unavailable() {
    let dies = |method: &str| Rule::on(method).act(Action::Exit(1));
    let script = Script::legacy().rule(dies("server/discover")).rule(dies("initialize"));
    let bench = Bench::with(script, |mut config| {
        config.backoff = BackoffPolicy { burst: 2, ..EAGER };
        config
    });
    let fault = fault(&bench.call("echo", json!({})).await);
    assert_eq!((fault.code, fault.sent), (FaultCode::ServerNotRunning, SentState::NotSent));
    assert_eq!(bench.peer.journal().received("initialize").len(), 1);
    bench.finish_dead().await;
}

#[tokio::test]
async fn f04_a_server_that_dies_after_its_initialize_result_is_started_again() {
    let script = Script::legacy().rule(Rule::on("initialize").launch(1).after().act(Action::Exit(9)));
    let bench = Bench::new(script);
    // The connection stood for a moment, so a call may have been sent to it.
    if let Outcome::Failed(_) = &bench.call("echo", json!({})).await {
        assert!(wait::until(|| bench.peer.journal().launches() == 2).await);
    }
    bench.works().await;
    assert_eq!(bench.peer.journal().launches(), 2);
    bench.finish().await;
}

#[tokio::test]
async fn f05_a_server_that_dies_in_its_list_is_no_server_without_tools() {
    for script in eras() {
        let bench = Bench::new(script.rule(Rule::on("tools/list").launch(1).act(Action::Exit(1))));
        let listed = bench.outcome(Call::bare(Method::ToolsList)).await;
        let count = value(&listed)["tools"].as_array().unwrap().len();
        assert!(count > 5, "{count} tools");
        assert_eq!(bench.peer.journal().launches(), 2);
        bench.finish().await;
    }
}

#[tokio::test]
async fn f05_a_server_that_always_dies_in_its_list_says_so_and_others_are_listed() {
    for script in eras() {
        let bench = Bench::with(script.rule(Rule::on("tools/list").act(Action::Exit(1))), |mut config| {
            config.backoff = BackoffPolicy { burst: 3, ..EAGER };
            config
        });
        let listed = bench.outcome(Call::bare(Method::ToolsList)).await;
        assert_eq!(fault(&listed).code, FaultCode::ServerNotRunning);
        let beside = bench.manager.server("bystander").unwrap();
        let listed = end_of(beside.answer(Call::bare(Method::ToolsList)), LIMIT).await.unwrap();
        assert!(value(&listed)["tools"].as_array().unwrap().len() > 5);
        bench.finish_dead().await;
    }
}

#[tokio::test]
async fn f05_the_list_of_a_server_that_died_since_is_kept_and_its_status_tells() {
    for script in eras() {
        let bench = Bench::with(script.rule(Rule::on("start").launch(2).act(Action::Exit(1))), |mut config| {
            config.restart = tsugi_client::RestartPolicy::Never;
            config
        });
        let before = value(&bench.outcome(Call::bare(Method::ToolsList)).await);
        fault(&bench.call("crash", json!({})).await);
        assert!(wait::until(|| bench.server.status().state == ConnectionState::Failed).await);
        assert_eq!(value(&bench.outcome(Call::bare(Method::ToolsList)).await), before);
        assert_eq!(bench.server.status().fault.unwrap().code, FaultCode::ServerCrashed);
        bench.finish_dead().await;
    }
}

/// 64 calls at once of a server that is not running: one process, and all of them are served.
async fn check_one_start(bench: &Bench, launch: u64) {
    let outcomes = bench.crowd(64, &call("about", json!({}))).await;
    for outcome in &outcomes {
        assert_eq!(value(outcome)["structuredContent"]["launch"], launch);
    }
    assert_eq!(bench.peer.journal().launches(), launch);
}

#[tokio::test]
async fn f08_a_server_that_died_while_idle_is_started_once_for_64_callers() {
    for script in eras() {
        let bench = Bench::new(script);
        bench.works().await;
        let pid = bench.server.status().pid.unwrap();
        tsugi_testkit::process::send(pid, rustix::process::Signal::KILL);
        assert!(wait::until(|| bench.server.status().pid != Some(pid)).await);
        check_one_start(&bench, 2).await;
        bench.finish().await;
    }
}

#[tokio::test]
async fn f08_a_server_that_dies_while_restarting_is_restarted_again() {
    for script in eras() {
        let bench = Bench::new(script.rule(Rule::on("start").launch(2).act(Action::Exit(1))));
        bench.works().await;
        fault(&bench.call("crash", json!({})).await);
        bench.works().await;
        bench.finish().await;
    }
}

#[tokio::test]
async fn f08_a_server_that_dies_while_draining_is_stopped_and_starts_when_called() {
    for script in eras() {
        let bench =
            Bench::new(super::patient(script).rule(Rule::on("eof").launch(1).act(Action::Signal("KILL".into()))));
        bench.works().await;
        tokio::time::timeout(LIMIT, bench.server.stop()).await.expect("stopping does not hang");
        assert_eq!(bench.peer.mark().count(), 0);
        check_one_start(&bench, 2).await;
        bench.finish().await;
    }
}

#[tokio::test]
async fn f09_a_crash_loop_is_parked_after_five_starts_and_calls_fail_at_once() {
    for era in [Eras::Legacy, Eras::Modern, Eras::Both] {
        let script = Script { era, ..Script::default() }.rule(Rule::on("start").act(Action::Exit(1)));
        let bench = Bench::with(script, |mut config| {
            config.backoff = BackoffPolicy { burst: 5, window: Duration::from_secs(600), ..EAGER };
            config
        });
        assert!(wait::until(|| bench.server.status().state == ConnectionState::Failed).await);
        let fault = fault(&bench.call("echo", json!({})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ServerNotRunning, SentState::NotSent));
        bench.crowd(64, &call("echo", json!({}))).await;
        assert_eq!(bench.peer.journal().launches(), 5, "calls do not start a server in its pause");
        bench.finish_dead().await;
    }
}

#[tokio::test]
async fn f09_a_parked_server_is_probed_with_one_start_for_each_pause() {
    let script = Script::legacy().rule(Rule::on("start").act(Action::Exit(1)));
    let bench = Bench::with(script, |mut config| {
        let pause = Duration::from_millis(50);
        config.backoff = BackoffPolicy { burst: 2, window: Duration::from_secs(600), pause, ..EAGER };
        config
    });
    let mut changes = bench.server.changes();
    let journal = bench.peer.journal();
    let mut pauses = 0;
    while pauses < 5 {
        changes.recv().await.unwrap();
        if bench.server.status().state == ConnectionState::Failed {
            pauses += 1;
            assert!(wait::until(|| bench.server.status().state != ConnectionState::Failed).await);
        }
    }
    let launches = journal.launches();
    assert!(launches <= 2 + pauses + 1, "{launches} starts in {pauses} pauses");
    bench.finish_dead().await;
}

#[tokio::test]
async fn f10_a_slow_start_serves_64_callers_with_one_process() {
    for script in eras() {
        let bench = Bench::new(Script { start_delay_ms: 700, ..script });
        check_one_start(&bench, 1).await;
        bench.finish().await;
    }
}

#[tokio::test]
async fn f10_a_start_that_takes_too_long_sheds_its_callers_and_serves_the_next() {
    let bench = Bench::new(Script { start_delay_ms: 1500, ..Script::legacy() });
    let hasty = crate::world::within(call("echo", json!({})), Duration::from_millis(100));
    for outcome in bench.crowd(64, &hasty).await {
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    assert_eq!(text(&bench.call("echo", json!({"message": "patient"})).await), "patient");
    assert_eq!(bench.peer.journal().launches(), 1);
    bench.finish().await;
}

fn shell(script: &str) -> ConnectTarget {
    ConnectTarget::stdio(JobCommand::new("sh").args(["-c", script]))
}

#[tokio::test]
async fn a_server_that_ends_before_it_reads_is_told_with_its_exit_and_its_last_words() {
    let manager = Manager::new(options());
    let mut config = config("deaf", shell("exec 0<&-; echo no database >&2; sleep 0.1; exit 3"));
    config.backoff = BackoffPolicy { burst: 2, ..EAGER };
    let server = manager.register(config).unwrap();
    let fault = fault(&end_of(server.answer(call("echo", json!({}))), LIMIT).await.expect("the call ends"));
    let process = fault.process.expect("the fault tells how the process ended");
    assert_eq!((process.status.as_str(), process.stderr), ("exit code 3", vec!["no database".to_owned()]));
    assert_eq!(server.stderr(5), ["no database"]);
    manager.stop().await;
}

#[tokio::test]
async fn a_server_that_hangs_in_the_handshake_shows_what_it_said_meanwhile_and_afterwards() {
    let limits = Duration::from_millis(500);
    let manager =
        Manager::new(tsugi_client::ManagerOptions { handshake_timeout: limits, probe_timeout: limits, ..options() });
    let mut config = config("mute", shell("echo hello; echo waiting for the lock >&2; exec sleep 600"));
    config.backoff = BackoffPolicy { max_retries: Some(0), ..EAGER };
    let server = manager.register(config).unwrap();
    let speaks =
        || server.status().state == ConnectionState::Initializing && server.stderr(5) == ["waiting for the lock"];
    assert!(wait::until(speaks).await, "{:?}", server.status());
    assert!(server.status().pid.is_some());
    let fault = fault(&end_of(server.answer(call("echo", json!({}))), LIMIT).await.expect("the call ends"));
    assert_eq!(fault.process.expect("what it said is told").stderr, ["waiting for the lock"]);
    // What it wrote to standard output is not MCP, so that is what it is told to mend.
    assert!(fault.hint.expect("a hint").contains("log to standard error"));
    assert_eq!(server.noise(), ["hello"]);
    manager.stop().await;
}

#[tokio::test]
async fn a_bare_tool_name_is_refused_when_a_slower_server_has_it_too() {
    let (fast, slow) =
        (Scripted::new(Script::modern()), Scripted::new(Script { start_delay_ms: 400, ..Script::modern() }));
    let manager = Manager::new(options());
    for (name, scripted) in [("fast", &fast), ("slow", &slow)] {
        manager.register(config(name, ConnectTarget::stdio(command(scripted)))).unwrap();
    }
    manager.server("fast").unwrap().ready(LIMIT).await.unwrap();
    let fault = manager.find_tool(None, "echo").await.map(|server| server.name().to_owned()).unwrap_err();
    assert_eq!(fault.code, FaultCode::InvalidParams);
    assert!(fault.message.ends_with("fast, slow"), "{fault}");
    manager.stop().await;
}

/// Each limit but that of the test is an hour, so whoever waits for the mute server waits too long.
#[tokio::test]
async fn a_bare_tool_name_does_not_wait_for_a_server_that_hangs() {
    let scripted = Scripted::new(Script::modern());
    let hour = Duration::from_secs(3600);
    let manager = Manager::new(ManagerOptions { handshake_timeout: hour, probe_timeout: hour, ..options() });
    manager.register(config("good", ConnectTarget::stdio(command(&scripted)))).unwrap();
    manager.register(config("mute", shell("exec sleep 600"))).unwrap();
    let lazy = ServerConfig { start: StartPolicy::Lazy, ..config("lazy", shell("exec sleep 600")) };
    manager.server("good").unwrap().ready(LIMIT).await.unwrap();
    let found = tokio::time::timeout(LIMIT, manager.find_tool(None, "echo")).await.expect("it is known who has it");
    assert_eq!(found.unwrap().name(), "good");
    manager.register(lazy).unwrap();
    let found = tokio::time::timeout(LIMIT, manager.find_tool(None, "echo")).await.expect("it is known who has it");
    assert_eq!(found.unwrap().name(), "good");
    manager.stop().await;
}

#[tokio::test]
async fn prepared_servers_take_over_when_they_are_ready_and_change_nothing_when_they_are_not() {
    let (old, new) =
        (Scripted::new(Script::modern()), Scripted::new(Script { name: "new".into(), ..Script::legacy() }));
    let manager = Manager::new(options());
    manager.reconcile(vec![config("one", ConnectTarget::stdio(command(&old)))]);
    manager.server("one").unwrap().ready(LIMIT).await.unwrap();
    let pid = manager.server("one").unwrap().status().pid;

    let dead = manager.prepare(vec![config("one", shell("echo no database >&2; exit 3"))]);
    let fault = dead.ready(LIMIT).await.unwrap_err();
    assert!(fault.process.is_some_and(|end| end.stderr == ["no database"]));
    drop(dead);
    assert_eq!(manager.server("one").unwrap().status().pid, pid);

    let good = manager.prepare(vec![config("one", ConnectTarget::stdio(command(&new)))]);
    good.ready(LIMIT).await.unwrap();
    assert_eq!(manager.server("one").unwrap().status().pid, pid);
    assert_eq!(manager.adopt(good), [tsugi_client::manager::ReconcileStep::Replace("one".into())]);
    assert_ne!(manager.server("one").unwrap().status().pid, pid);
    manager.stop().await;
}

#[tokio::test]
async fn what_a_server_offered_is_listed_before_it_is_up_and_while_it_is_away() {
    let state = tempfile::tempdir().unwrap();
    let scripted = Scripted::new(Script::modern());
    let kept = || ManagerOptions { state_dir: Some(state.path().to_owned()), ..options() };
    let lazy = || ServerConfig { start: StartPolicy::Lazy, ..config("one", ConnectTarget::stdio(command(&scripted))) };
    let listed = async |server: &Server| value(&server.answer(Call::bare(Method::ToolsList)).outcome().await);

    let first = Manager::new(kept());
    let server = first.register(lazy()).unwrap();
    assert!(server.catalog().is_none());
    let expected = listed(&server).await;
    assert!(wait::until(|| state.path().join("manifests").exists()).await);
    first.stop().await;

    let second = Manager::new(kept());
    let server = second.register(lazy()).unwrap();
    assert_eq!(listed(&server).await, expected);
    assert_eq!((server.status().state, scripted.journal().launches()), (ConnectionState::Disconnected, 1));
    // Being ready means more than being remembered.
    server.ready(LIMIT).await.unwrap();
    assert_eq!(scripted.journal().launches(), 2);
    assert_eq!(listed(&server).await["tools"], expected["tools"]);
    second.stop().await;
}

#[tokio::test]
async fn a_call_of_a_lazy_server_that_is_held_back_starts_it_when_it_may() {
    let scripted = Scripted::new(Script::modern());
    let manager = Manager::new(options());
    manager.hold_back();
    let lazy = ServerConfig { start: StartPolicy::Lazy, ..config("one", ConnectTarget::stdio(command(&scripted))) };
    let server = manager.register(lazy).unwrap();
    let called = tokio::spawn(end_of(server.answer(call("echo", json!({"message": "early"}))), LIMIT));
    // On this one thread the server's task takes the order before it hears that it may start.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    manager.let_start();
    let outcome = called.await.unwrap().expect("the call ends");
    assert_eq!(text(&outcome), "early");
    manager.stop().await;
}

#[tokio::test]
async fn servers_that_are_held_back_begin_when_they_may_and_can_be_stopped_before() {
    let (one, two) = (Scripted::new(Script::modern()), Scripted::new(Script::modern()));
    let manager = Manager::new(options());
    manager.hold_back();
    let first = manager.register(config("one", ConnectTarget::stdio(command(&one)))).unwrap();
    let second = manager.register(config("two", ConnectTarget::stdio(command(&two)))).unwrap();
    second.stop().await;
    assert_eq!((one.journal().launches(), first.status().state), (0, ConnectionState::Disconnected));
    manager.let_start();
    first.ready(LIMIT).await.unwrap();
    assert_eq!((one.journal().launches(), two.journal().launches()), (1, 0));
    manager.stop().await;
}

/// A modern server that starts slowly, and refuses `initialize` in words of its own.
fn slow_to_say(discover: Action) -> Script {
    let refusal = Action::Error { code: -32601, message: "no such method".into(), data: None };
    Script::modern().rule(Rule::on("server/discover").nth(1).act(discover)).rule(Rule::on("initialize").act(refusal))
}

#[tokio::test]
async fn a_modern_server_that_is_slower_than_the_probe_is_connected_whatever_it_says_to_initialize() {
    let quick = ManagerOptions { probe_timeout: Duration::from_millis(200), ..options() };
    let bench = Bench::under(quick, Scripted::new(slow_to_say(Action::Sleep(1500))), |config| config);
    bench.works().await;
    let journal = bench.peer.journal();
    assert_eq!((journal.launches(), journal.received("initialize").len()), (1, 1));
    assert_eq!(bench.server.status().identity.unwrap().version.as_str(), "2026-07-28");
    bench.finish().await;
}

#[tokio::test]
async fn a_server_that_refuses_initialize_and_never_answers_the_probe_is_told_by_its_refusal() {
    let (probe_timeout, handshake_timeout) = (Duration::from_millis(200), Duration::from_millis(900));
    let manager = Manager::new(ManagerOptions { probe_timeout, handshake_timeout, ..options() });
    let scripted = Scripted::new(slow_to_say(Action::Silence));
    let mut config = config("mute", ConnectTarget::stdio(command(&scripted)));
    config.backoff = BackoffPolicy { max_retries: Some(0), ..EAGER };
    let server = manager.register(config).unwrap();
    let fault = fault(&end_of(server.answer(call("echo", json!({}))), LIMIT).await.expect("the call ends"));
    assert!(fault.message.contains("no such method (-32601)"), "{fault}");
    manager.stop().await;
}
