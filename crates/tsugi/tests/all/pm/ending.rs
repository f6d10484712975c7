//! How a session of a process ends, by real signals and real deaths, and how the next agent finds the work.

use std::io::{BufReader, Read as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tsugi_pm::action::Pm;
use tsugi_pm::domain::time::Moment;
use tsugi_pm::store::clock::ManualClock;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use super::{Framing, Server, asked, modern, place, program, session_of};
use crate::world::until;

/// The person's session and the task it holds, in a process of its own.
fn at_work(folder: &Path) -> (Server, String) {
    let mut server = Server::start(folder, Framing::Lines);
    let session = server.initialize();
    server.call("claim_task", json!({"task_id": "WEB-1"}), None);
    server.call("add_context", json!({"task_id": "WEB-1", "content": "half of it is done", "type": "note"}), None);
    (server, session)
}

/// Sweeps as a process would that many seconds from now.
fn sweep_later(folder: &Path, seconds: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let options = StoreOptions::new(StoreLocation::Sqlite(folder.join("pm.db")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = ManualClock::at(Moment(now + seconds * 1000));
        Pm::open(options.with_clock(clock)).await.unwrap().sweep().await.unwrap();
    });
}

fn state(session: &Value) -> (&str, &str) {
    (session["state"].as_str().unwrap_or_default(), session["end_kind"].as_str().unwrap_or_default())
}

#[test]
fn every_signal_that_asks_ends_the_session_and_the_process() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let folder = place();
        let (mut server, session) = at_work(folder.path());
        kill_process(Pid::from_child(&server.child), signal).unwrap();
        assert!(server.child.wait().unwrap().success(), "{signal:?}");
        assert_eq!(state(&session_of(folder.path(), &session)), ("disconnected", "signal"), "{signal:?}");
        // Its claim waits for whoever resumes it.
        let mut server = Server::start(folder.path(), Framing::Lines);
        let resumed = server.call("start_session", json!({"resume": session}), Some(modern()));
        assert_eq!(resumed["resumed_claims"][0]["fence"], 2, "{resumed}");
    }
}

#[test]
fn a_reader_that_went_away_ends_the_session() {
    let folder = place();
    let (server, session) = at_work(folder.path());
    let Server { mut child, mut input, output, .. } = server;
    drop(output);
    // Nobody reads the answer to this, and writing it fails.
    let message = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    std::io::Write::write_all(&mut input, format!("{message}\n").as_bytes()).unwrap();
    child.wait().unwrap();
    assert_eq!(session_of(folder.path(), &session)["state"], "disconnected");
}

#[test]
fn a_dead_parent_ends_the_session_although_the_input_stays_open() {
    let folder = place();
    // The shell starts the server in the background with an input that somebody else keeps open, and is killed.
    let pipe = folder.path().join("input");
    let script = format!(
        "mkfifo {pipe}; {server} --db pm.db --agent-id agt_a < {pipe} > output & echo $! > pid; exec 3> {pipe}; \
         printf '%s\\n' '{hello}' >&3; read wait",
        pipe = pipe.display(),
        server = env!("CARGO_BIN_EXE_mcp-server-pm"),
        hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
    );
    let mut shell = program("sh");
    let mut shell = shell.current_dir(folder.path()).args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    until(|| read("output").contains("ses_"), || read("output"));
    // A writer of our own keeps the pipe open when the shell is gone.
    let held = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    let id: i32 = read("pid").trim().parse().unwrap();
    let is_gone = || !Path::new(&format!("/proc/{id}")).exists();
    until(is_gone, || format!("the server {id} outlives its parent"));
    drop(held);
    let sessions = asked(folder.path(), &["who"]);
    assert_eq!(state(&sessions["sessions"][0]["session"]), ("disconnected", "signal"), "{sessions}");
}

#[test]
fn a_killed_process_is_noticed_and_the_next_agent_finds_its_work() {
    let folder = place();
    let (mut server, session) = at_work(folder.path());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert_eq!(session_of(folder.path(), &session)["state"], "active", "nobody could say goodbye");
    sweep_later(folder.path(), 59);
    assert_eq!(session_of(folder.path(), &session)["state"], "active", "a pause is not a death");
    sweep_later(folder.path(), 61);
    assert_eq!(session_of(folder.path(), &session)["state"], "disconnected");
    assert_eq!(asked(folder.path(), &["show", "WEB-1"])["task"]["status"], "in_progress", "the claim waits");
    sweep_later(folder.path(), 61 + 901);
    let task = asked(folder.path(), &["show", "WEB-1"]);
    assert_eq!((&task["task"]["status"], &task["handoff"]["kind"]), (&json!("todo"), &json!("auto")), "{task}");
    let words = ["--db", "pm.db", "--agent-id", "agt_b"];
    let mut next = Server::start_as(folder.path(), Framing::Lines, &words);
    let found = next.call("claim_task", json!({}), Some(modern()));
    assert_eq!((&found["task"]["ref"], &found["claim"]["fence"]), (&json!("WEB-1"), &json!(2)), "{found}");
    assert!(found.to_string().contains("half of it is done"), "{found}");
}

#[test]
fn calls_alone_keep_a_session_where_somebody_says_so() {
    let folder = place();
    let words = ["--db", "pm.db", "--agent-id", "agt_a", "--session-liveness", "calls"];
    let mut server = Server::start_as(folder.path(), Framing::Lines, &words);
    let session = server.initialize();
    server.call("claim_task", json!({"task_id": "WEB-1"}), None);
    assert_eq!(server.close(), 0);
    sweep_later(folder.path(), 61);
    assert_eq!(session_of(folder.path(), &session)["state"], "active");
    sweep_later(folder.path(), 12 * 3600 + 1);
    assert_eq!(session_of(folder.path(), &session)["state"], "disconnected");
}

#[test]
fn a_process_ends_although_somebody_holds_the_database() {
    let folder = place();
    let (mut server, session) = at_work(folder.path());
    let holder = rusqlite::Connection::open(folder.path().join("pm.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(server.input);
    // A call waits ten seconds for the lock; the last words of a process have two.
    let due = std::time::Instant::now() + std::time::Duration::from_secs(8);
    let ended = loop {
        match server.child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if std::time::Instant::now() >= due => break None,
            None => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    holder.execute_batch("ROLLBACK").unwrap();
    assert!(ended.is_some_and(|status| status.success()), "it waits for the lock, or failed: {ended:?}");
    assert_eq!(session_of(folder.path(), &session)["state"], "active", "nobody could say goodbye; the lease covers it");
}

#[test]
fn a_process_stops_with_one_line_when_a_newer_program_has_migrated_its_database() {
    let folder = place();
    let mut command = program(env!("CARGO_BIN_EXE_mcp-server-pm"));
    command.current_dir(folder.path()).args(["--db", "pm.db", "--agent-id", "agt_a"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut errors = child.stderr.take().unwrap();
    let mut server = Server { child, input, output, framing: Framing::Lines };
    server.initialize();
    let newer = rusqlite::Connection::open(folder.path().join("pm.db")).unwrap();
    newer.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    newer.execute("INSERT INTO migration VALUES (999, 'of a later version', '', 0)", []).unwrap();
    let refused = server.result("add_context", json!({"task_id": "WEB-1", "content": "x", "type": "note"}), None);
    assert_eq!(refused["structuredContent"]["error"]["code"], "outdated", "{refused}");
    assert_eq!(server.child.wait().unwrap().code(), Some(78), "its input is still open");
    let mut line = String::new();
    errors.read_to_string(&mut line).unwrap();
    assert!(line.contains(r#""code":"outdated""#) && line.contains("a newer tsugi has changed the database"), "{line}");
}
