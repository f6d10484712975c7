//! `tsugi serve`: it starts with nothing, and stops without losing anything.

use std::io::Read;

use rustix::process::Signal;
use serde_json::json;

use crate::world::{ACCEPT, World, modern_call, modern_headers, until};

const TOOL: &str = "demo__calculate-bmi";

#[test]
fn with_nothing_configured_a_tool_can_be_called_in_both_eras() {
    let world = World::new();
    let serving = world.serve(&[]);
    let body = json!({"weight_kg": 70, "height_m": 1.75});
    let (_, modern) = serving.ask("POST", "/mcp", &modern_headers(TOOL), &modern_call(TOOL, body.clone()));
    assert!(modern.contains(r#""structuredContent":{"bmi":22.86"#), "{modern}");

    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let (head, _) = serving.ask("POST", "/mcp", &[ACCEPT], &initialize.to_string());
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": TOOL, "arguments": body}});
    let (_, legacy) = serving.ask("POST", "/mcp", &[ACCEPT, ("Mcp-Session-Id", &session)], &call.to_string());
    assert!(legacy.contains(r#""structuredContent":{"bmi":22.86"#) && !legacy.contains("resultType"), "{legacy}");
}

#[test]
fn it_says_where_it_listens_and_what_to_paste() {
    let world = World::new();
    let serving = world.serve(&[]);
    serving.wait_for("codex mcp add");
    let line = format!("claude mcp add --transport http tsugi {}/mcp", serving.url);
    assert!(serving.talk().contains(&line), "{}", serving.talk());
}

#[test]
fn an_address_that_is_taken_is_named_with_a_way_out() {
    let world = World::new();
    let serving = world.serve(&[]);
    let taken = serving.url.trim_start_matches("http://");
    let second = world.run(&["serve", "--listen", taken]);
    let talk = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2));
    assert!(talk.contains(taken) && talk.contains("hint:") && talk.contains("--listen"), "{talk}");
}

#[test]
fn an_address_that_others_can_reach_needs_a_key_or_a_word() {
    let world = World::new();
    let refused = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    let talk = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(talk.contains("without authentication") && talk.contains("--insecure"), "{talk}");

    // What the file says is not the last word: the command line and `tsugi key` have theirs.
    let config = world.write("open.yaml", "servers: [{name: demo, builtin: demo}]\ngateway: {listen: '0.0.0.0:0'}\n");
    let config = ["--config", config.to_str().unwrap()];
    assert_eq!(world.run(&[&["serve"][..], &config].concat()).status.code(), Some(2));
    world.serve_as_written(&[&["--insecure"][..], &config].concat());
    world.serve(&config);
    assert!(world.run(&["key", "add", "ann"]).status.success());
    // A key that can be read on the way is not enough.
    let refused = world.run(&[&["serve"][..], &config].concat());
    let talk = String::from_utf8_lossy(&refused.stderr);
    assert!(talk.contains("without TLS") && talk.contains("tls: { cert:"), "{talk}");
    assert!(talk.contains("trustedProxies: [") && talk.contains("reverse_proxy"), "{talk}");
    world.write(
        "open.yaml",
        "servers: [{name: demo, builtin: demo}]\ngateway: {listen: '0.0.0.0:0', trustedProxies: [10.0.0.5]}\n",
    );
    world.serve_as_written(&config);
}

#[test]
fn a_running_call_ends_well_when_the_gateway_is_told_to_stop() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("far")));
    let mut serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("far");
    let body = modern_call("far__wait", json!({"seconds": 2, "steps": 40}));
    let mut stream = serving.open("POST", "/mcp", &modern_headers("far__wait"), &body);
    let mut answer = String::new();
    let mut part = [0; 4096];
    while !answer.contains("notifications/progress") {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    serving.signal(Signal::TERM);
    serving.wait_for("stopping");
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Waited 2 seconds."), "{answer}");
    assert_eq!(serving.exit_code(), Some(0));
    world.assert_empty();
}

#[test]
fn a_second_signal_does_not_wait() {
    let world = World::new();
    let mut serving = world.serve(&[]);
    let body = modern_call("demo__wait", json!({"seconds": 60, "steps": 600}));
    let mut stream = serving.open("POST", "/mcp", &modern_headers("demo__wait"), &body);
    stream.read_exact(&mut [0; 12]).unwrap();
    serving.signal(Signal::TERM);
    serving.wait_for("stopping");
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(130));
    world.assert_empty();
}

#[test]
fn another_process_sees_and_restarts_the_servers() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("far")));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let before = serving.connected("far")["pid"].clone();
    let status = world.run(&["status", "--gateway", &serving.url]);
    let table = String::from_utf8_lossy(&status.stdout);
    assert!(table.contains("far") && table.contains("connected") && table.contains(&before.to_string()), "{table}");
    assert!(world.run(&["restart", "far", "--gateway", &serving.url]).status.success());
    assert_ne!(serving.connected("far")["pid"], before);
    assert!(world.run(&["logs", "far", "--gateway", &serving.url]).status.success());
    assert_eq!(world.run(&["logs", "none", "--gateway", &serving.url]).status.code(), Some(2));
}

#[test]
fn a_lazy_server_is_started_by_its_first_call() {
    let world = World::new();
    let lazy = world.entry("far").replace("name: far", "name: far, start: lazy");
    let config = world.write("tsugi.yaml", &format!("servers: [{lazy}, {{name: demo, builtin: demo}}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("demo");
    let far = || serving.servers().into_iter().find(|server| server["name"] == "far").unwrap();
    let is_resting = || {
        let far = far();
        far["state"] == "disconnected" && far["pid"].is_null() && !far["tools"].is_null()
    };
    until(is_resting, || format!("it was started once to see what it has, and does not rest: {}", far()));
    let call = r#"{"server": "far", "toolName": "echo", "input": {"message": "hi"}}"#;
    let (head, body) = serving.ask("POST", "/mcp/call", &[], call);
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("hi"), "{head}\n{body}");
    assert!(serving.connected("far")["pid"].is_u64());
}

#[test]
fn a_server_that_fails_more_often_than_a_person_would_wait_for_is_still_brought_back() {
    let world = World::new();
    let child = world.entry("far");
    let words = child.split("command: ").nth(1).unwrap().trim_end_matches("]}");
    let program = words.replace(", args: [", " ").replace(", ", " ");
    let count = world.path().join("launches");
    let script = format!("echo x >> {0}; test $(grep -c x {0}) -gt 4 || exit 1; exec {program}", count.display());
    let entry = format!("{{name: far, command: sh, args: [-c, {}]}}", json!(script.replace('$', "$$")));
    let config = world.write("tsugi.yaml", &format!("servers: [{entry}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("far");
    assert_eq!(std::fs::read_to_string(count).unwrap().lines().count(), 5);
}

#[test]
fn a_list_answers_before_a_server_that_was_connected_before_is_up() {
    let world = World::new();
    let child = world.entry("far");
    let words = child.split("command: ").nth(1).unwrap().trim_end_matches("]}");
    let program = words.replace(", args: [", " ").replace(", ", " ");
    let gate = world.path().join("closed");
    let script = format!("while test -e {}; do sleep 0.05; done; exec {program}", gate.display());
    let config =
        world.write("tsugi.yaml", &format!("servers: [{{name: far, command: sh, args: [-c, {}]}}]\n", json!(script)));
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let mut first = world.serve(&["--config", config.to_str().unwrap()]);
    first.connected("far");
    let expected = first.ask("POST", "/rpc", &[], list).1;
    let manifests = world.path().join(".local/state/tsugi/manifests");
    until(|| manifests.exists(), || "nothing is remembered".to_owned());
    first.signal(Signal::TERM);
    assert_eq!(first.exit_code(), Some(0));

    std::fs::write(&gate, "").unwrap();
    let second = world.serve(&["--config", config.to_str().unwrap()]);
    assert_eq!(second.ask("POST", "/rpc", &[], list).1, expected);
    assert_ne!(second.servers()[0]["state"], "connected");
    std::fs::remove_file(gate).unwrap();
    second.connected("far");
    assert_eq!(second.ask("POST", "/rpc", &[], list).1, expected);
}

#[test]
fn a_server_that_is_silent_in_its_handshake_shows_what_it_says_in_status_and_logs() {
    let world = World::new();
    let entry = "{name: mute, command: sh, args: [-c, 'echo waiting for the lock >&2; exec sleep 600']}";
    let config = world.write("tsugi.yaml", &format!("servers: [{entry}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let status = || world.run(&["status", "--gateway", &serving.url]);
    let said = || String::from_utf8_lossy(&status().stderr).into_owned();
    until(|| said().contains("mute is initializing") && said().contains("| waiting for the lock"), said);
    let logs = world.run(&["logs", "mute", "--gateway", &serving.url]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "waiting for the lock\n");
}

#[test]
fn logs_and_status_go_on_for_as_long_as_someone_watches() {
    let world = World::new();
    let child = world.entry("far");
    let words = child.split("command: ").nth(1).unwrap().trim_end_matches("]}");
    let program = words.replace(", args: [", " ").replace(", ", " ");
    let script = format!("echo started >&2; exec {program}");
    let config =
        world.write("tsugi.yaml", &format!("servers: [{{name: far, command: sh, args: [-c, {}]}}]\n", json!(script)));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let before = serving.connected("far")["pid"].to_string();
    let logs = world.follow(&["logs", "far", "-f", "--gateway", &serving.url]);
    let status = world.follow(&["status", "--watch", "--interval", "50ms", "--gateway", &serving.url]);
    until(
        || logs.text().contains("started") && status.text().contains(&before),
        || format!("{} {}", logs.text(), status.text()),
    );
    assert!(world.run(&["restart", "far", "--gateway", &serving.url]).status.success());
    let after = serving.connected("far")["pid"].to_string();
    until(|| status.text().contains(&after), || status.text());
    until(|| logs.text().matches("started").count() == 2, || logs.text());
}

#[test]
fn status_tells_of_sandboxes_and_of_what_was_stopped() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("one")));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("one");
    let tell = |verb: &[&str]| {
        let told = world.run(&[verb, &["--gateway", &serving.url]].concat());
        assert!(told.status.success(), "{told:?}");
        String::from_utf8(told.stdout).unwrap()
    };
    let shown = tell(&["status"]);
    assert!(shown.contains("SANDBOX") && shown.contains("WAITING") && shown.contains(" off "), "{shown}");
    serving.ask("POST", "/servers/one/stop", &[], "");
    let call = r#"{"server": "one", "toolName": "echo", "input": {"message": "x"}}"#;
    let (head, body) = serving.ask("POST", "/mcp/call", &[], call);
    assert!(head.contains("503") && body.contains("SERVER_NOT_RUNNING"), "{head} {body}");
    assert!(tell(&["status"]).contains("stopped"));
    tell(&["restart", "one"]);
    assert!(serving.ask("POST", "/mcp/call", &[], call).0.contains("200"));
    assert!(!tell(&["status"]).contains("stopped"));
}
