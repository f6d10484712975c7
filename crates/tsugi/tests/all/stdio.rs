//! `tsugi stdio`: it lives as long as its client, and so does everything it started.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;

use rustix::process::Signal;
use serde_json::{Value, json};
use tsugi_testkit::process;
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;

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

/// Waits for the end, which is a good one and leaves nothing.
fn ends_well(mut child: Child, world: &World) {
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
    ends_well(child, &world);
}

/// The server's own process hears of it because the gateway passes it on to all that were promised to.
#[test]
fn a_server_with_an_instance_of_its_own_gets_the_clients_new_roots() {
    let asks = Action::Ask { method: "roots/list".into(), params: json!({}), wait: false };
    let scripted = Scripted::new(Script::legacy().rule(Rule::on("notifications/roots/list_changed").act(asks)));
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let server = json!({"name": "s", "command": scripted.program(), "args": scripted.args(), "env": env,
        "instances": "per-session"});
    let world = World::new();
    let config = world.write("tsugi.yaml", &json!({"servers": [server]}).to_string());
    let mut child = world.spawn(&["stdio", "--config", config.to_str().unwrap()]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let promise = r#""capabilities":{"roots":{"listChanged":true}}"#;
    writeln!(input, "{}", initialize().replace(r#""capabilities":{}"#, promise)).unwrap();
    answer(&mut output, 0);
    let call =
        json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "s__echo", "arguments": {}}});
    writeln!(input, "{call}").unwrap();
    answer(&mut output, 9);
    writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}}"#).unwrap();
    let question = answer(&mut output, 1);
    assert_eq!(question["method"], "roots/list");
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": [{"uri": "file:///new"}]}})).unwrap();
    let journal = scripted.journal();
    until(|| !journal.of("told").is_empty(), || format!("{:?}", journal.entries()));
    assert_eq!(journal.of("told")[0]["result"], json!({"roots": [{"uri": "file:///new"}]}));
    drop(input);
    ends_well(child, &world);
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

#[test]
fn a_running_call_ends_well_when_it_is_told_to_stop_and_new_ones_are_refused() {
    let world = World::new();
    let mut child = world.spawn(&["stdio", "--server", "demo"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "{}", initialize()).unwrap();
    answer(&mut output, 0);
    let call = |id: u64, tool: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments, "_meta": {"progressToken": id}}})
    };
    writeln!(input, "{}", call(1, "wait", json!({"seconds": 2, "steps": 40}))).unwrap();
    // The call runs.
    output.by_ref().map(Result::unwrap).find(|line| line.contains("notifications/progress")).unwrap();
    process::send(child.id(), Signal::TERM);
    // Echo answers until the signal has come, and is refused from then on.
    let mut number = 10;
    let refused = loop {
        writeln!(input, "{}", call(number, "echo", json!({"message": "hi"}))).unwrap();
        let mut messages = output.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let message = messages.find(|message| message["id"].as_u64().is_some_and(|id| id >= 10)).unwrap();
        if message.get("error").is_some() {
            break message;
        }
        number += 1;
    };
    assert!(refused["error"]["message"].as_str().unwrap().contains("shutting down"), "{refused}");
    assert_eq!(answer(&mut output, 1)["result"]["content"][0]["text"], "Waited 2 seconds.");
    ends_well(child, &world);
}

#[test]
fn a_batch_obeys_the_limit_of_the_configuration() {
    let world = World::new();
    let text = "servers: [{name: demo, builtin: demo}]\ngateway: {limits: {maxBatch: 2}}\n";
    let config = world.write("tsugi.yaml", text);
    let mut child = world.spawn(&["stdio", "--config", config.to_str().unwrap()]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    writeln!(input, "{}", initialize().replace("2025-11-25", "2025-03-26")).unwrap();
    output.find(|line| line.contains("\"result\"")).unwrap();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    for (count, expected) in [(2, "\"result\""), (3, "\"error\"")] {
        writeln!(input, "[{}]", vec![ping; count].join(",")).unwrap();
        let answer = output.find(|line| !line.contains("notifications/")).unwrap();
        assert!(answer.contains(expected), "{count}: {answer}");
    }
    drop(input);
    child.wait().unwrap();
}
