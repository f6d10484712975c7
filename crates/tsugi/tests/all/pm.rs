//! `mcp-server-pm` and `tsugi pm` as real programs: both framings, both eras, who may start, and how a session ends.

mod crowd;
mod ending;
mod gateway;
mod mount;
mod people;
mod postgres;
mod subscription;
mod verb;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How messages are told apart.
#[derive(Clone, Copy)]
enum Framing {
    Lines,
    Headers,
}

/// A running server.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    framing: Framing,
}

#[expect(clippy::disallowed_methods, reason = "a test starts the program it is about, and waits for it")]
fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_remove("TSUGI_PM_DB").env_remove("TSUGI_AGENT_ID");
    command
}

/// Runs `tsugi pm`.
fn pm(folder: &Path, words: &[&str]) -> Output {
    let mut command = program(env!("CARGO_BIN_EXE_tsugi"));
    command.current_dir(folder).arg("pm").args(words).arg("--db").arg("pm.db").output().unwrap()
}

/// What `tsugi pm … --json` prints.
fn asked(folder: &Path, words: &[&str]) -> Value {
    let output = pm(folder, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A database with a project, two agents and a task.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = pm(
        folder.path(),
        &["init", "--project", "WEB", "Web shop", "--agent", "agt_a:worker", "--agent", "agt_b:manager"],
    );
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    asked(folder.path(), &["new", "Sell shoes"]);
    folder
}

impl Server {
    fn start(folder: &Path, framing: Framing) -> Self {
        Self::start_as(folder, framing, &["--db", "pm.db", "--agent-id", "agt_a"])
    }

    fn start_as(folder: &Path, framing: Framing, words: &[&str]) -> Self {
        let mut command = program(env!("CARGO_BIN_EXE_mcp-server-pm"));
        command.current_dir(folder).args(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, framing }
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let framed = match self.framing {
            Framing::Lines => format!("{text}\n"),
            Framing::Headers => format!("Content-Length: {}\r\n\r\n{text}", text.len()),
        };
        self.input.write_all(framed.as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let Framing::Headers = self.framing else { return serde_json::from_str(&line).unwrap() };
        let length: usize = line.trim().strip_prefix("Content-Length: ").expect(&line).parse().unwrap();
        self.output.read_line(&mut line).unwrap();
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let answer = self.receive();
        assert_eq!(answer.get("error"), None, "{method}: {answer}");
        answer["result"].clone()
    }

    /// The whole result of a tool call, whatever it says.
    fn result(&mut self, tool: &str, arguments: Value, meta: Option<Value>) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let Some(meta) = meta {
            params["_meta"] = meta;
        }
        self.ask("tools/call", params)
    }

    fn call(&mut self, tool: &str, arguments: Value, meta: Option<Value>) -> Value {
        let result = self.result(tool, arguments, meta);
        assert_eq!(result.get("isError"), None, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Shakes hands as a client of the first design does; answers the session's name.
    fn initialize(&mut self) -> String {
        let hello =
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let greeting = self.ask("initialize", hello);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let instructions = greeting["instructions"].as_str().unwrap();
        let at = instructions.find("ses_").unwrap_or_else(|| panic!("no session in: {instructions}"));
        instructions[at..].trim_end_matches('.').to_owned()
    }

    /// Closes its input and waits for its end.
    fn close(mut self) -> i32 {
        drop(self.input);
        self.child.wait().unwrap().code().unwrap()
    }
}

fn modern() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn session_of(folder: &Path, id: &str) -> Value {
    let all = asked(folder, &["who"]);
    let sessions = all["sessions"].as_array().unwrap();
    sessions.iter().find(|row| row["session"]["id"] == id).unwrap_or_else(|| panic!("{all}"))["session"].clone()
}

#[test]
fn a_legacy_client_works_in_both_framings_and_its_session_ends_with_its_input() {
    for framing in [Framing::Lines, Framing::Headers] {
        let folder = place();
        let mut server = Server::start(folder.path(), framing);
        let session = server.initialize();
        let claimed = server.call("update_task_status", json!({"task_id": "WEB-1", "status": "in_progress"}), None);
        assert_eq!(claimed["session_id"], session.as_str());
        server.call("add_context", json!({"task_id": "WEB-1", "content": "日本語", "type": "note"}), None);
        assert_eq!(server.close(), 0);
        let gone = session_of(folder.path(), &session);
        assert_eq!((&gone["state"], &gone["end_kind"]), (&json!("disconnected"), &json!("eof")), "{gone}");
    }
}

#[test]
fn a_modern_client_begins_its_session_itself_and_goes_on_in_another_process() {
    let folder = place();
    let mut server = Server::start(folder.path(), Framing::Lines);
    server.ask("server/discover", json!({"_meta": modern()}));
    let session = server.call("start_session", json!({}), Some(modern()))["session_id"].clone();
    server.call("claim_task", json!({"session_id": session}), Some(modern()));
    assert_eq!(server.close(), 0);
    let mut server = Server::start(folder.path(), Framing::Lines);
    let beat = json!({"task_id": "WEB-1", "status": "review", "session_id": session, "result": {"summary": "done"}});
    assert_eq!(server.call("update_task_status", beat, Some(modern()))["task"]["status"], "review");
    assert_eq!(server.close(), 0);
}

#[test]
fn an_unknown_agent_ends_it_with_one_line_unless_it_may_be_made() {
    let folder = place();
    let start = |more: &[&str]| {
        let mut command = program(env!("CARGO_BIN_EXE_mcp-server-pm"));
        command.current_dir(folder.path()).args(["--db", "pm.db", "--agent-id", "agt_new"]).args(more);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let refused = start(&[]);
    assert_eq!(refused.status.code(), Some(78));
    let told = String::from_utf8(refused.stderr).unwrap();
    let error: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((told.lines().count(), &error["error"]["code"]), (1, &json!("not_found")), "{told}");
    assert_eq!(start(&["--create-agent"]).status.code(), Some(0));
    assert_eq!(start(&[]).status.code(), Some(0));
}
