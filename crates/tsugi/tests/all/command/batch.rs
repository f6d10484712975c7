//! Many calls at once.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use super::world::{World, entry};

fn world() -> (Scripted, World) {
    let scripted = Scripted::new(Script::modern());
    let world = World::with_servers(json!([entry("s", &scripted), {"name": "demo", "builtin": "demo"}]));
    (scripted, world)
}

#[test]
fn results_keep_the_order_of_the_calls_and_a_failure_stops_no_other() {
    let (_scripted, world) = world();
    let calls = json!([
        {"server": "s", "toolName": "sleep", "input": {"ms": 300}},
        {"tool": "s/echo", "arguments": {"message": "two"}},
        {"tool": "s/fail"},
        {"tool": "nowhere"},
        {"server": "gone", "tool": "x"},
        {"tool": "calculate-bmi", "params": {"weight_kg": 70, "height_m": 1.75}},
        {"tool": "s/ask"},
    ]);
    world.write("calls.json", &calls.to_string());
    let ran = world.run(&["batch", "calls.json"]).expect(1);
    let results = ran.json();
    let told = |index: usize| {
        let result = &results[index];
        result["data"].as_str().or(result["error"]["code"].as_str()).unwrap_or("?").to_owned()
    };
    assert_eq!((told(0), told(1), told(2)), ("slept".into(), "two".into(), "it failed".into()));
    assert_eq!((told(3), told(4)), ("TOOL_NOT_FOUND".into(), "SERVER_NOT_FOUND".into()));
    assert_eq!(results[5]["data"], json!({"bmi": 22.86, "category": "normal"}));
    assert_eq!(results[6]["data"], json!([{"action": "decline"}]));
    assert_eq!(results[0]["metadata"]["server"], "s");
    assert_eq!(results.as_array().unwrap().len(), 7);
}

#[test]
fn an_unknown_tool_of_a_named_server_is_not_sent_and_ends_like_a_call() {
    let (scripted, world) = world();
    for calls in [r#"{"server":"s","tool":"nope"}"#, r#"{"tool":"s/nope"}"#] {
        let ran = world.run_reading(calls, &["batch", "-"]).expect(2);
        assert_eq!(ran.json()["error"]["code"], "TOOL_NOT_FOUND", "{}", ran.stdout);
    }
    assert_eq!(scripted.journal().received("tools/call").len(), 0);
    world.run(&["call", "s/nope"]).expect(2);
}

#[test]
fn calls_line_by_line_give_results_line_by_line() {
    let (_scripted, world) = world();
    let lines = "{\"tool\":\"s/echo\",\"arguments\":{\"message\":\"a\"}}\n{\"tool\":\"s/echo\",\"arguments\":{\"message\":\"b\"}}\n";
    let ran = world.run_reading(lines, &["batch", "-", "--max-parallel", "1"]).expect(0);
    let data: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].clone()).collect();
    assert_eq!(data, ["a", "b"]);
}

#[test]
fn only_the_servers_that_the_calls_name_are_started() {
    let (scripted, world) = world();
    let ran = world.run_reading(r#"[{"tool":"demo/echo","arguments":{"message":"x"}}]"#, &["batch", "-"]).expect(0);
    assert_eq!(ran.json()[0]["data"], "x");
    assert_eq!(scripted.journal().launches(), 0);
}

#[test]
fn a_server_that_crashes_is_brought_back_for_the_calls_after_it() {
    let (scripted, world) = world();
    let calls = r#"[{"tool":"s/crash"},{"tool":"s/echo","arguments":{"message":"after"}}]"#;
    let ran = world.run_reading(calls, &["batch", "-", "--max-parallel", "1"]).expect(3);
    assert_eq!(ran.json()[0]["error"]["code"], "SERVER_CRASHED");
    assert_eq!(ran.json()[1]["data"], "after");
    assert_eq!(scripted.journal().launches(), 2);
}

#[test]
fn calls_that_cannot_be_read_are_refused_before_anything_starts() {
    let (scripted, world) = world();
    for (input, words) in
        [("[{\"tol\":1}]", "unknown field `tol`"), ("nonsense", "cannot be read"), ("[", "cannot be read")]
    {
        let ran = world.run_reading(input, &["batch", "-"]).expect(2);
        assert!(ran.stderr.contains(words) && ran.stdout.is_empty(), "{ran:?}");
    }
    assert_eq!(scripted.journal().launches(), 0);
    assert!(world.run(&["batch", "none.json"]).expect(2).stderr.contains("none.json` cannot be read"));
}

#[test]
fn calls_that_are_none_are_refused_in_words_of_the_command() {
    let (_scripted, world) = world();
    let ran = world.run_reading("[1]", &["batch", "-"]).expect(2);
    assert!(ran.stderr.contains("expected a call as an object"), "{}", ran.stderr);
}
