//! Keys of the configuration, each seen to have its effect on a running gateway.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use crate::world::{Serving, World, until};

fn serve(world: &World, text: &str) -> Serving {
    let config = world.write("tsugi.yaml", text);
    world.serve(&["--config", config.to_str().unwrap()])
}

fn rpc(serving: &Serving, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    serde_json::from_str(&serving.ask("POST", "/rpc", &[], &message).1).unwrap()
}

fn status(serving: &Serving, verb: &str, path: &str, body: &str) -> u16 {
    serving.ask(verb, path, &[], body).0.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn numbers_can_be_switched_off() {
    let world = World::new();
    let serving = serve(&world, "servers: [{name: demo, builtin: demo}]\ngateway: {metrics: off}\n");
    assert_eq!((status(&serving, "GET", "/metrics", ""), status(&serving, "GET", "/healthz", "")), (404, 200));
}

#[test]
fn a_server_is_named_as_its_own_entry_says() {
    let world = World::new();
    let serving = serve(&world, "servers: [{name: one, builtin: demo, naming: bare}, {name: two, builtin: demo}]\n");
    serving.connected("two");
    let list = rpc(&serving, "tools/list", json!({})).to_string();
    assert!(list.contains("\"echo\"") && list.contains("\"two__echo\"") && !list.contains("one__"), "{list}");
}

#[test]
fn instructions_can_be_kept_back() {
    let world = World::new();
    let serving =
        serve(&world, "servers: [{name: demo, builtin: demo, instructions: off}, {name: other, builtin: demo}]\n");
    serving.connected("other");
    let said =
        rpc(&serving, "server/discover", json!({}))["result"]["instructions"].as_str().unwrap_or_default().to_owned();
    assert!(said.starts_with("other: ") && !said.contains("demo: "), "{said}");
}

#[test]
fn the_revision_that_is_asked_for_is_offered_first() {
    let world = World::new();
    let entry = world.entry("far").replace("name: far", "name: far, protocolVersion: 2025-03-26");
    let serving = serve(&world, &format!("servers: [{entry}]\n"));
    assert_eq!(serving.connected("far")["protocolVersion"], "2025-03-26");
}

#[test]
fn a_batch_obeys_the_limits_of_the_configuration() {
    let world = World::new();
    let serving = serve(&world, "servers: [{name: demo, builtin: demo}]\ngateway: {limits: {maxBatch: 2}}\n");
    let batch = |count: usize| json!({"calls": vec![json!({"toolName": "echo", "input": {"message": "x"}}); count]});
    let status = |count: usize| status(&serving, "POST", "/mcp/batch", &batch(count).to_string());
    assert_eq!((status(2), status(3)), (200, 400));
}

#[test]
fn a_server_added_over_http_has_the_options_of_the_file() {
    let world = World::new();
    let text = "servers: [{name: demo, builtin: demo}]\noptions: {timeout: 7s}\n";
    let serving = serve(&world, text);
    let added = r#"{"name": "late", "builtin": "demo"}"#;
    assert_eq!(status(&serving, "POST", "/servers", added), 200);
    serving.connected("late");
    let listed = || serving.ask("GET", "/mcp/tools?server=late", &[], "").1;
    until(|| listed().contains("\"timeout\":7000"), listed);
}

#[test]
fn a_limit_that_a_reload_takes_out_of_the_options_is_gone() {
    let world = World::new();
    let text = "servers: [{name: demo, builtin: demo}]\n";
    let serving = serve(&world, &format!("{text}options: {{maxTimeout: 200ms}}\n"));
    let call = r#"{"server": "demo", "toolName": "wait", "input": {"seconds": 1, "steps": 2}}"#;
    assert_eq!(status(&serving, "POST", "/mcp/call", call), 504);
    world.write("tsugi.yaml", text);
    serving.wait_for("configuration applied");
    assert_eq!(status(&serving, "POST", "/mcp/call", call), 200);
}

#[test]
fn a_program_that_starts_the_gateway_reads_where_it_is_from_one_line() {
    let world = World::new();
    let started = world.follow(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    until(|| started.text().ends_with('\n'), || "nothing is said".to_owned());
    let line: Value = serde_json::from_str(started.text().trim()).unwrap();
    let address = line["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    assert!(std::net::TcpStream::connect(&address).is_ok(), "{line}");
    assert_eq!((line["pid"].as_u64(), &line["config"]), (Some(started.id()), &Value::Null));
}

/// A question of a modern server, sealed by one gateway, and whether another one takes the answer.
fn is_taken_up_elsewhere(gateway: Value) -> bool {
    let (world, asker) = (World::new(), Scripted::new(Script::modern()));
    let args: Vec<String> = asker.args().iter().map(|arg| arg.replace('$', "$$")).collect();
    let env: serde_json::Map<String, Value> =
        asker.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    let server = json!({"name": "s", "command": asker.program(), "args": args, "env": env});
    let config = json!({"servers": [server], "gateway": gateway}).to_string();
    let (one, other) = (serve(&world, &config), serve(&world, &config));
    one.connected("s");
    other.connected("s");
    let call = json!({"server": "s", "toolName": "ask", "input": {}});
    let asked: Value = serde_json::from_str(&one.ask("POST", "/mcp/call", &[], &call.to_string()).1).unwrap();
    let details = &asked["error"]["details"];
    let question = details["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}")).keys().next().unwrap();
    let mut again = call.clone();
    again["inputResponses"] = json!({question: {"action": "accept", "content": {"name": "Ann"}}});
    again["requestState"] = details["requestState"].clone();
    let (head, body) = other.ask("POST", "/mcp/call", &[], &again.to_string());
    assert!(head.contains(" 200 ") || body.contains("request state"), "{head}\n{body}");
    head.contains(" 200 ")
}

#[test]
fn a_call_that_waits_is_taken_up_by_another_gateway_with_the_same_seal_key() {
    assert!(is_taken_up_elsewhere(json!({"stateKey": "0123456789-0123456789-0123456789"})));
    assert!(!is_taken_up_elsewhere(json!({})), "without a key of its own every start has another one");
}

#[test]
fn a_reload_takes_control_away_and_names_what_it_leaves() {
    let world = World::new();
    let text = "servers: [{name: demo, builtin: demo}]\n";
    let serving = serve(&world, text);
    assert_eq!(status(&serving, "GET", "/servers", ""), 200);
    world.write(
        "tsugi.yaml",
        &format!("{text}options: {{maxParallel: 3}}\ngateway: {{dashboard: off, adminApi: {{enabled: false}}}}\n"),
    );
    serving.wait_for("configuration applied");
    serving.wait_for("`gateway.dashboard`, `options.maxParallel` take effect at the next start");
    assert_eq!(status(&serving, "POST", "/servers/demo/restart", ""), 403);
    assert_eq!(serving.servers()[0]["name"], "demo", "looking is not changing");
    assert!(serving.ask("GET", "/readyz", &[], "").1.contains("demo"));
    assert!(serving.ask("GET", "/metrics", &[], "").1.contains("server=\"demo\""));
}
