//! `tsugi stdio`: it lives as long as its client, and so does everything it started.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::world::{World, until};

fn initialize() -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
    .to_string()
}

/// The answer to a request; what else is told meanwhile is passed over.
fn answer(lines: &mut impl Iterator<Item = std::io::Result<String>>, id: u64) -> Value {
    let mut messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    messages.find(|message| message["id"] == id).unwrap()
}

#[test]
fn it_ends_with_its_input_and_leaves_nothing() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &format!("servers: [{}, {}]\n", world.entry("one"), world.entry("two")));
    let mut child = world.spawn(&["stdio", "--config", config.to_str().unwrap()]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "{}", initialize()).unwrap();
    assert_eq!(answer(&mut output, 0)["result"]["protocolVersion"], "2025-11-25");
    writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#).unwrap();
    let list = answer(&mut output, 1);
    let names: Vec<&str> =
        list["result"]["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(names.contains(&"one__echo") && names.contains(&"two__echo"), "{names:?}");
    drop(input);
    let mut status = None;
    until(
        || {
            status = child.try_wait().unwrap();
            status.is_some()
        },
        || "it does not end".to_owned(),
    );
    assert_eq!(status.unwrap().code(), Some(0));
    world.assert_empty();
}

#[test]
fn one_server_alone_keeps_its_own_names() {
    let world = World::new();
    let mut child = world.spawn(&["stdio", "--server", "demo"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "{}", initialize()).unwrap();
    answer(&mut output, 0);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hi"}}});
    writeln!(input, "{call}").unwrap();
    assert_eq!(answer(&mut output, 1)["result"]["content"][0]["text"], "hi");
    drop(input);
    child.wait().unwrap();
    world.assert_empty();
}
