//! What the log says of a server's life.

use std::time::Duration;

use serde_json::json;
use tracing::Level;
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, Call};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use crate::backoff::BackoffPolicy;
use crate::connection::state::ConnectionState;
use crate::log_capture::{LogCapture, LogLines};
use crate::{ConnectTarget, Manager, ManagerOptions, Server, ServerConfig};

/// A manager with one scripted server, and the lines that the log gets of it.
struct LoggedServer {
    lines: LogLines,
    scripted: Scripted,
    manager: Manager,
    server: Server,
    _capture: tracing::subscriber::DefaultGuard,
}

impl LoggedServer {
    fn start(script: Script, backoff: BackoffPolicy) -> Self {
        let lines = LogLines::default();
        // A test's tasks all run on its own thread.
        let _capture = tracing::subscriber::set_default(LogCapture(lines.clone()));
        let scripted = Scripted::new(script);
        let command = JobCommand::new(scripted.program()).args(scripted.args());
        let command = scripted.env().into_iter().fold(command, |command, (name, value)| command.env(name, value));
        let manager = Manager::new(ManagerOptions::default());
        let config = ServerConfig { backoff, ..ServerConfig::new("files", ConnectTarget::stdio(command)) };
        let server = manager.register(config).unwrap();
        Self { lines, scripted, manager, server, _capture }
    }

    /// The line of at least this level with these words, once it is there.
    async fn line(&self, level: Level, words: &[&str]) -> String {
        let fits = |(of, text): &&(Level, String)| *of <= level && words.iter().all(|word| text.contains(word));
        let find = || self.lines.lock().iter().find(fits).map(|(_, text)| text.clone());
        assert!(wait::until(|| find().is_some()).await, "{words:?} is not in {:#?}", self.lines.lock());
        find().unwrap()
    }

    fn forget_lines(&self) {
        self.lines.lock().clear();
    }
}

#[tokio::test]
async fn a_server_that_dies_leaves_a_line_with_its_signal_and_what_happens_next() {
    let logged = LoggedServer::start(Script::legacy(), BackoffPolicy::default());
    logged.server.ready(wait::PATIENCE).await.unwrap();
    let pid = logged.server.status().pid.unwrap();
    tsugi_testkit::process::send(pid, rustix::process::Signal::KILL);
    let line = logged.line(Level::ERROR, &["the server died", "server=files", "signal 9"]).await;
    assert!(line.contains("tried again in"), "{line}");
    let line = logged.line(Level::INFO, &["the server is connected", "server=files", "pid="]).await;
    assert!(!line.contains(&format!("pid={pid} ")), "another process: {line}");
    logged.manager.stop().await;
}

#[tokio::test]
async fn stopping_starting_and_restarting_leave_a_line_each() {
    let logged = LoggedServer::start(Script::legacy(), BackoffPolicy::default());
    logged.server.ready(wait::PATIENCE).await.unwrap();
    logged.server.hold().await;
    let line = logged.line(Level::INFO, &["the server was stopped", "stop ordered"]).await;
    assert!(line.contains("status="), "how its process ended: {line}");
    logged.server.start();
    logged.line(Level::INFO, &["the server is started by order"]).await;
    logged.line(Level::INFO, &["the server is connected"]).await;
    logged.forget_lines();
    logged.server.restart().await;
    logged.line(Level::INFO, &["the server was stopped", "restart ordered", "starts again now"]).await;
    logged.line(Level::INFO, &["the server is connected"]).await;
    logged.forget_lines();
    logged.manager.stop().await;
    let lines = logged.lines.lock();
    let is_news = |(level, text): &(Level, String)| *level <= Level::INFO && text.contains("the server was stopped");
    assert!(!lines.iter().any(is_news), "the end of the whole manager is not news of each server: {lines:#?}");
}

#[tokio::test]
async fn a_crash_loop_is_reported_at_its_first_failure_and_when_it_pauses_and_not_at_every_start() {
    let script = Script::legacy().rule(Rule::on("start").act(Action::Exit(7)));
    let quick = Duration::from_millis(1);
    let backoff = BackoffPolicy { first: quick, longest: quick, ..BackoffPolicy::default() };
    let logged = LoggedServer::start(script, backoff);
    assert!(wait::until(|| logged.server.status().state == ConnectionState::Failed).await);
    logged
        .line(Level::WARN, &["the server is not connected", "exit code 7", "tried again in 60 s, or by a call"])
        .await;
    let reported = logged.lines.lock().iter().filter(|(level, _)| *level <= Level::WARN).count();
    assert_eq!((reported, logged.scripted.journal().launches()), (2, 5), "{:#?}", logged.lines.lock());
    let _ = logged.server.answer(Call::tool("echo", Some(&json!({}).into()))).outcome().await;
    logged.manager.stop().await;
}
