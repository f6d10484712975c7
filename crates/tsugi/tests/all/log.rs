//! The log of a service: every line says when, programs can read it, and a call is found by the id of its request.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{ACCEPT, Serving, World, until};

fn legacy_call(serving: &Serving) {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let (head, _) = serving.ask("POST", "/mcp", &[ACCEPT], &initialize.to_string());
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "demo__echo", "arguments": {"message": "hi"}}});
    let headers = [ACCEPT, ("Mcp-Session-Id", session.as_str()), ("X-Request-Id", "legacy-7")];
    assert!(serving.ask("POST", "/mcp", &headers, &call.to_string()).1.contains("hi"));
}

/// The lines that are JSON objects.
fn objects(talk: &str) -> Vec<Value> {
    talk.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

#[test]
fn every_line_of_a_service_says_when() {
    let world = World::new();
    let serving = world.serve(&["-v"]);
    legacy_call(&serving);
    let is_call = |line: &&str| line.contains(" call ") && line.contains("legacy-7");
    until(|| serving.talk().lines().any(|line| is_call(&line)), || serving.talk());
    let talk = serving.talk();
    let line = talk.lines().find(is_call).unwrap();
    let (time, _) = line.split_once(' ').unwrap();
    assert!(time.len() > 20 && time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{line}");
}

#[test]
fn debug_logs_standard_error_and_messages_without_secrets() {
    let world = World::new();
    let far = world.entry("far");
    let (program, args) =
        far.split_once("command: ").unwrap().1.trim_end_matches("]}").split_once(", args: [").unwrap();
    let script = format!("echo \"begins with $$API_TOKEN\" >&2; exec {program} {}", args.replace(", ", " "));
    let entry = format!("{{name: far, command: sh, args: [-c, {}], env: {{API_TOKEN: canary-7}}}}", json!(script));
    for debug in [true, false] {
        world.write("tsugi.yaml", &format!("options: {{debug: {debug}}}\nservers: [{entry}]\n"));
        let output = world.run(&["call", "far/echo", "message=say canary-7"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let lines = ["begins with [redacted]", "tools/call", "say [redacted]"];
        assert_eq!(lines.map(|line| said.contains(line)), [debug; 3], "{said}");
        assert!(!said.contains("canary-7"), "{said}");
    }
}

#[test]
fn programs_read_one_object_per_line_and_find_a_call_by_its_request() {
    for (args, variable) in [(&["-v", "--log-format", "json"][..], ""), (&["-v"], "json")] {
        let world = World::new();
        let all = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut command = world.command(&all);
        command.env("TSUGI_LOG_FORMAT", variable).stdin(Stdio::null()).stderr(Stdio::piped());
        let serving = Serving::of(command.spawn().unwrap());
        legacy_call(&serving);
        let of_request = |talk: &str| -> Vec<Value> {
            objects(talk).into_iter().filter(|line| line["request_id"] == "legacy-7").collect()
        };
        until(|| of_request(&serving.talk()).len() == 2, || serving.talk());
        let lines = of_request(&serving.talk());
        let messages: Vec<&str> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(messages, ["call", "request"]);
        assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"] == "INFO"), "{lines:?}");
        assert_eq!((&lines[0]["server"], &lines[0]["subject"]), (&json!("demo"), &json!("echo")));
    }
}

#[test]
fn calls_over_standard_streams_have_an_id_each() {
    let world = World::new();
    let mut command = world.command(&["stdio", "-v", "--log-format", "json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |message: Value| {
        writeln!(input, "{message}").unwrap();
        // What is told without being asked for has no id.
        output.by_ref().map(Result::unwrap).find(|line| line.contains("\"id\"")).unwrap()
    };
    ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
    let own = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for meta in [json!({}), own] {
        let params = json!({"name": "demo__echo", "arguments": {"message": "hi"}, "_meta": meta});
        let answer = ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        assert!(answer.contains("hi"), "{answer}");
    }
    drop(input);
    let talk = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let lines = objects(&talk);
    let calls = lines.iter().filter(|line| line["message"] == "call" && line["method"] == "tools/call");
    let ids: Vec<&str> = calls.map(|line| line["request_id"].as_str().unwrap_or_else(|| panic!("{talk}"))).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{talk}");
}

#[test]
fn a_server_that_dies_and_one_that_is_stopped_leave_lines_at_the_default_level() {
    let world = World::new();
    world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("shell")));
    let serving = world.serve(&[]);
    let pid = serving.connected("shell")["pid"].as_u64().unwrap();
    tsugi_testkit::process::send(pid as u32, rustix::process::Signal::KILL);
    let has_line = |words: &[&str]| serving.talk().lines().any(|line| words.iter().all(|word| line.contains(word)));
    until(|| has_line(&["ERROR", "the server died", "signal 9", "tried again in"]), || serving.talk());
    until(|| has_line(&["INFO", "the server is connected"]), || serving.talk());
    serving.ask("POST", "/servers/shell/stop", &[], "");
    until(|| has_line(&["INFO", "the server was stopped", "stop ordered", "until it is started\""]), || serving.talk());
}
