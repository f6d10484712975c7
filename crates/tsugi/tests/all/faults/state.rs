//! The state of a call that waits for input, in the hands of an attacker: T18.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use super::scaled;
use crate::world::{Serving, World};

/// A gateway in front of a legacy server that asks in mid-call, and two who may call it.
fn start(world: &World, scripted: &Scripted) -> (Serving, [String; 2]) {
    let args: Vec<String> = scripted.args().iter().map(|arg| arg.replace('$', "$$")).collect();
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    let entry = json!({"name": "asks", "command": scripted.program(), "args": args, "env": env});
    let config = world.write("tsugi.json", &json!({"servers": [entry]}).to_string());
    let keys = ["ann", "bob"].map(|name| {
        let made = world.run(&["key", "add", name]);
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    });
    (world.serve(&["--config", config.to_str().unwrap()]), keys)
}

/// A call over REST; its status and its answer.
fn call(serving: &Serving, key: &str, tool: &str, more: Value) -> (String, Value) {
    let mut body = json!({"server": "asks", "toolName": tool, "input": {}});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let (head, answer) = serving.ask("POST", "/mcp/call", &[("X-Api-Key", key)], &body.to_string());
    (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(&answer).unwrap())
}

#[test]
fn t18_a_state_that_was_changed_stolen_moved_or_used_twice_is_refused() {
    let (world, scripted) = (World::new(), Scripted::new(Script::legacy()));
    let (serving, [ann, bob]) = start(&world, &scripted);
    let (status, asked) = call(&serving, &ann, "ask", json!({}));
    assert_eq!(status, "409", "{asked}");
    let details = &asked["error"]["details"];
    let state = details["requestState"].as_str().unwrap().to_owned();
    let key = details["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({key: {"action": "accept", "content": {"name": "Ann"}}});
    let with = |state: &str| json!({"inputResponses": answers, "requestState": state});
    // 100,000 mutations in the row; here 300, unless TSUGI_TEST_LONG is set.
    for round in 0..scaled(300, 100_000) {
        let mut changed = state.clone().into_bytes();
        let at = (round * 7919) % changed.len();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let (status, answer) = call(&serving, &ann, "ask", with(&String::from_utf8(changed).unwrap()));
        assert_ne!(status, "200", "{round}: {answer}");
    }
    for made_up in ["", "x", &state[1..], &state[..state.len() - 1], &format!("{state}{state}")] {
        assert_ne!(call(&serving, &ann, "ask", with(made_up)).0, "200", "{made_up}");
    }
    assert_ne!(call(&serving, &bob, "ask", with(&state)).0, "200", "another caller");
    assert_ne!(call(&serving, &ann, "ask_twice", with(&state)).0, "200", "another tool");
    let moved = json!({"input": {"other": 1}, "inputResponses": answers, "requestState": state});
    assert_ne!(call(&serving, &ann, "ask", moved).0, "200", "other arguments");
    let (status, answer) = call(&serving, &ann, "ask", with(&state));
    assert!(status == "200" && answer.to_string().contains("Ann"), "the legitimate answer works: {answer}");
    assert_ne!(call(&serving, &ann, "ask", with(&state)).0, "200", "twice");
}
