//! A script that says nothing makes a good server: its answers are as the official schemas say.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use crate::peer::{Peer, hello, modern};

/// The schema of a revision, where it lies beside the checkout.
fn schema_of(version: &str) -> Option<Value> {
    let path = format!("{}/../../../shared/mcp-schema/{version}/schema.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path);
    if text.is_err() {
        eprintln!("skipped: the official schema of {version} is not beside the checkout");
    }
    text.ok().map(|text| serde_json::from_str(&text).unwrap())
}

#[track_caller]
fn check(schema: &Value, name: &str, value: &Value) {
    let mut schema = schema.clone();
    let definitions = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    schema["$ref"] = format!("#/{definitions}/{name}").into();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(value).map(|fault| format!("{fault} at {}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{name}: {faults:?}\n{value:#}");
}

fn requests() -> Vec<(&'static str, &'static str, Value)> {
    let complete = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "a"}});
    vec![
        ("ListToolsResult", "tools/list", json!({})),
        ("ListResourcesResult", "resources/list", json!({})),
        ("ListResourceTemplatesResult", "resources/templates/list", json!({})),
        ("ListPromptsResult", "prompts/list", json!({})),
        ("CallToolResult", "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})),
        ("CallToolResult", "tools/call", json!({"name": "fail", "arguments": {}})),
        ("CallToolResult", "tools/call", json!({"name": "about", "arguments": {}})),
        ("ReadResourceResult", "resources/read", json!({"uri": "test://text"})),
        ("ReadResourceResult", "resources/read", json!({"uri": "test://blob"})),
        ("GetPromptResult", "prompts/get", json!({"name": "greet", "arguments": {"name": "Ann"}})),
        ("CompleteResult", "completion/complete", complete),
    ]
}

#[test]
fn legacy_answers_are_as_the_official_schemas_say() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let Some(schema) = schema_of(version) else { continue };
        let server = Scripted::new(Script::only(version));
        let mut peer = Peer::start(&server);
        check(&schema, "InitializeResult", &peer.exchange("initialize", hello())["result"]);
        for (name, method, params) in requests() {
            check(&schema, name, &peer.exchange(method, params)["result"]);
        }
        let question = peer.call("sample", json!({}));
        check(&schema, "CreateMessageRequest", &question);
    }
}

#[test]
fn modern_answers_are_as_the_official_schema_says() {
    let Some(schema) = schema_of("2026-07-28") else { return };
    let server = Scripted::new(Script::modern());
    let mut peer = Peer::start(&server);
    check(&schema, "DiscoverResult", &peer.exchange("server/discover", modern(json!({})))["result"]);
    for (name, method, params) in requests() {
        check(&schema, name, &peer.exchange(method, modern(params))["result"]);
    }
    for tool in ["ask", "sample", "roots", "ask_url"] {
        let answer = peer.exchange("tools/call", modern(json!({"name": tool, "arguments": {}})));
        check(&schema, "InputRequiredResult", &answer["result"]);
    }
    peer.ask("subscriptions/listen", modern(json!({"notifications": {"toolsListChanged": true}})));
    check(&schema, "SubscriptionsAcknowledgedNotification", &peer.message());
}
