//! Calls with their arguments and results on the page of a call: which are recorded, for whom, and without secrets.

use serde_json::{Value, json};

use crate::world::{Serving, TSUGI, World, modern_call, modern_headers};

fn get(gateway: &Serving, path: &str, headers: &[(&str, &str)]) -> Value {
    serde_json::from_str(&gateway.ask("GET", path, headers, "").1).unwrap()
}

fn call(gateway: &Serving, tool: &str, arguments: Value, headers: &[(&str, &str)]) -> String {
    let all = [&modern_headers(tool)[..], headers].concat();
    gateway.ask("POST", "/servers/s/mcp", &all, &modern_call(tool, arguments)).1
}

fn headers(who: &str) -> [(&str, &str); 1] {
    [("Authorization", who)]
}

/// The pages of all calls, newest first.
fn pages(gateway: &Serving, headers: &[(&str, &str)]) -> Vec<Value> {
    let list = get(gateway, "/api/calls", headers);
    let page = |call: &Value| get(gateway, &format!("/api/calls/{}", call["id"]), headers);
    list["calls"].as_array().unwrap().iter().map(page).collect()
}

#[test]
fn a_gateway_without_keys_records_calls_that_fail_and_names_the_program_that_called() {
    let world = World::new();
    world.write("tsugi.yaml", "servers: [{name: s, builtin: demo}]\n");
    let gateway = world.serve(&[]);
    call(&gateway, "calculate-bmi", json!({"weight_kg": -1, "height_m": 1.75}), &[]);
    call(&gateway, "calculate-bmi", json!({"weight_kg": 70, "height_m": 1.75}), &[]);
    let pages = pages(&gateway, &[]);
    assert_eq!(pages.len(), 2, "{pages:#?}");
    assert_eq!((&pages[0]["outcome"], &pages[0]["arguments"]), (&json!("ok"), &Value::Null), "{pages:#?}");
    assert_eq!(pages[1]["arguments"], json!({"weight_kg": -1, "height_m": 1.75}), "{pages:#?}");
    assert_eq!((&pages[1]["record"], &pages[1]["client"]), (&json!("errors"), &json!("test 1")), "{pages:#?}");
    assert!(pages[1]["result"].is_object() || pages[1]["error"]["message"].is_string(), "{pages:#?}");
}

#[test]
fn everything_is_recorded_on_request_but_the_secrets_of_the_configuration() {
    let world = World::new();
    let config = world.write("child.yaml", "servers: [{name: demo, builtin: demo}]\n");
    let secret = "canary-secret-000111";
    let server = json!({
        "name": "s", "command": TSUGI, "args": ["stdio", "--server", "demo", "--config", config],
        "env": {"API_TOKEN": secret},
    });
    world.write("tsugi.json", &json!({"servers": [server], "gateway": {"record": "all"}}).to_string());
    let gateway = world.serve(&[]);
    gateway.connected("s");
    let answer = call(&gateway, "echo", json!({"message": format!("it is {secret}")}), &[]);
    assert!(answer.contains(secret), "the caller gets its answer as it is: {answer}");
    let page = pages(&gateway, &[]).remove(0);
    assert_eq!(page["arguments"]["message"], "it is [redacted]", "{page:#}");
    assert!(page["result"]["content"].is_array() && !page.to_string().contains(secret), "{page:#}");
}

#[test]
fn with_keys_nothing_is_recorded_unless_it_is_asked_for_and_no_caller_reads_anothers_arguments() {
    let world = World::new();
    let keys = json!([
        {"name": "boss", "key": "boss-key-of-20-characters", "admin": true},
        {"name": "ann", "key": "anns-key-of-20-characters"},
        {"name": "bob", "key": "bobs-key-of-20-characters"},
    ]);
    let config = |record: Option<&str>| {
        let mut gateway = json!({"auth": {"keys": keys}});
        if let Some(record) = record {
            gateway["record"] = record.into();
        }
        json!({"servers": [{"name": "s", "builtin": "demo"}], "gateway": gateway}).to_string()
    };
    let header = |name: &str| format!("Bearer {name}-key-of-20-characters");
    let (boss, ann, bob) = (header("boss"), header("anns"), header("bobs"));
    let message = json!({"message": "salary of ann"});
    world.write("tsugi.json", &config(None));
    let gateway = world.serve(&[]);
    call(&gateway, "echo", message.clone(), &headers(&ann));
    call(&gateway, "calculate-bmi", json!({"weight_kg": -1, "height_m": 1.75}), &headers(&ann));
    for page in pages(&gateway, &headers(&boss)) {
        assert_eq!((&page["arguments"], &page["result"], &page["record"]), (&Value::Null, &Value::Null, &json!("off")));
    }
    drop(gateway);
    world.write("tsugi.json", &config(Some("all")));
    let gateway = world.serve(&[]);
    call(&gateway, "echo", message.clone(), &headers(&ann));
    for (who, sees) in [(&boss, true), (&ann, true), (&bob, false)] {
        let page = pages(&gateway, &headers(who)).remove(0);
        assert_eq!(page["arguments"] == message, sees, "{page:#}");
        assert_eq!(page.to_string().contains("salary"), sees, "{page:#}");
    }
}
