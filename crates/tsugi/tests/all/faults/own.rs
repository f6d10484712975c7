//! What the gateway itself opens to the outside: addresses and programs: T02, T20.

use serde_json::{Value, json};

use crate::world::{Serving, World, until};

/// The addresses on which a process listens, from the system's own table: `0100007F:1DB0` and so on.
fn listening(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links: Vec<String> =
        links.filter_map(|link| std::fs::read_link(link.path()).ok()?.to_str().map(str::to_owned)).collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for row in table.lines().skip(1) {
            let fields: Vec<&str> = row.split_whitespace().collect();
            if fields[3] == "0A" && links.contains(&format!("socket:[{}]", fields[9])) {
                found.push(fields[1].to_owned());
            }
        }
    }
    found
}

/// Whether nobody but this machine can reach a process that listens.
fn is_for_this_machine_alone(pid: u32) -> bool {
    let addresses = listening(pid);
    assert!(!addresses.is_empty(), "it listens nowhere");
    addresses.iter().all(|address| address.starts_with("0100007F:"))
}

#[test]
fn t02_the_control_that_is_told_so_listens_to_the_neighbour() {
    let world = World::new();
    let (serving, _unread) = world.serve_unread(&["--listen", "0.0.0.0:0", "--insecure"]);
    assert!(!is_for_this_machine_alone(serving.child.id()));
}

#[test]
fn t02_without_being_told_otherwise_only_this_machine_reaches_it() {
    let world = World::new();
    let (serving, _unread) = world.serve_unread(&["--listen", "0"]);
    assert!(is_for_this_machine_alone(serving.child.id()));
    for public in ["0.0.0.0:0", "[::]:0"] {
        assert_ne!(world.run(&["serve", "--listen", public]).status.code(), Some(0), "{public}");
    }
}

/// Ways to have a program run, each of which would leave a file.
fn spawns(file: &str) -> Vec<Value> {
    let touch = format!("touch {file}");
    vec![
        json!({"name": "x", "command": "sh", "args": ["-c", touch]}),
        json!({"name": "x", "command": "/bin/sh", "args": ["-c", touch]}),
        json!({"name": "x", "command": "/usr/bin/touch", "args": [file]}),
        json!({"name": "x", "transport": "stdio", "command": "touch", "args": [file]}),
        json!({"name": "x", "command": touch}),
        json!({"name": "x", "command": ["sh", "-c", touch]}),
        json!({"name": "x", "Command": "sh", "args": ["-c", touch]}),
        json!({"name": "x", "cmd": "sh", "args": ["-c", touch]}),
        json!({"name": "x", "command": "sh", "url": "http://127.0.0.1:1/mcp", "args": ["-c", touch]}),
        json!({"name": "x", "url": format!("file:///bin/sh?-c={touch}")}),
        json!({"name": "x", "url": format!("stdio:sh -c '{touch}'")}),
        json!({"name": "$(touch y)", "command": "sh", "args": ["-c", touch]}),
        json!({"name": "x", "builtin": format!("demo; {touch}")}),
        json!({"name": "x", "builtin": "demo", "command": "sh", "args": ["-c", touch]}),
        json!({"name": "x", "type": "stdio", "command": "sh", "args": ["-c", touch]}),
        json!({"mcpServers": {"x": {"command": "sh", "args": ["-c", touch]}}}),
        json!({"servers": [{"name": "x", "command": "sh", "args": ["-c", touch]}]}),
        json!([{"name": "x", "command": "sh", "args": ["-c", touch]}]),
        json!({"name": "x", "url": "http://127.0.0.1:1/mcp", "headers": {"A": format!("$(`{touch}`)")}}),
    ]
}

fn post(serving: &Serving, definition: &Value) -> (String, String) {
    serving.ask("POST", "/servers", &[], &definition.to_string())
}

#[test]
fn t20_no_program_is_run_because_somebody_posted_it() {
    let world = World::new();
    let file = world.path().join("ran").display().to_string();
    let serving = world.serve(&[]);
    serving.connected("demo");
    let before = world.mark.count();
    for definition in spawns(&file) {
        let (head, body) = post(&serving, &definition);
        let is_harmless = definition.get("headers").is_some();
        assert!(is_harmless || head.starts_with("HTTP/1.1 4"), "{definition}: {head}\n{body}");
    }
    assert_eq!(world.mark.count(), before, "{:?}", world.mark.processes());
    assert!(!std::path::Path::new(&file).exists(), "a program was run");
}

#[test]
fn t20_the_control_runs_what_is_posted_where_the_configuration_allows_it() {
    let world = World::new();
    let file = world.path().join("ran");
    let text = "servers: [{name: demo, builtin: demo}]\ngateway: {adminApi: {allowCommands: true}}\n";
    let config = world.write("tsugi.yaml", text);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("demo");
    let (head, body) = post(&serving, &spawns(&file.display().to_string())[0]);
    until(|| file.exists(), || format!("{head}\n{body}\n{}", serving.talk()));
}
