//! The built-in server `pm` behind `tsugi serve`: who calls, which tokens open the door, and what they open.

use serde_json::{Value, json};

use crate::world::{Serving, World, modern_call, modern_headers};

/// Calls a tool of one server; answers the status line and the message.
fn call(serving: &Serving, server: &str, tool: &str, arguments: Value, key: Option<&str>) -> (String, Value) {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let mut headers = modern_headers(tool).to_vec();
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let (head, body) = serving.ask("POST", &format!("/servers/{server}/mcp"), &headers, &modern_call(tool, arguments));
    let status = head.lines().next().unwrap_or_default().to_owned();
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// What a tool of `pm` answers.
fn asked(serving: &Serving, tool: &str, arguments: Value, key: Option<&str>) -> Value {
    let (status, message) = call(serving, "pm", tool, arguments, key);
    assert!(status.contains("200"), "{tool}: {status} {message}");
    message["result"]["structuredContent"].clone()
}

fn pm(world: &World, words: &[&str]) -> Value {
    let output = world.run(&[&["pm"], words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn without_any_configuration_the_person_at_the_machine_has_a_board() {
    let world = World::new();
    let serving = world.serve(&[]);
    assert_eq!(asked(&serving, "list_projects", json!({}), None)["projects"], json!([]));
    let made = asked(&serving, "create_project", json!({"key": "WEB", "name": "Web shop"}), None);
    let task = json!({"project_id": made["project"]["id"], "title": "Sell shoes"});
    assert_eq!(asked(&serving, "create_task", task, None)["task"]["created_by"], "agt_local");
    // The command works on the same database.
    assert_eq!(pm(&world, &["board"])["tasks"][0]["ref"], "WEB-1");
}

#[test]
fn a_token_lets_its_agent_in_to_this_server_alone_and_only_while_it_holds() {
    let world = World::new();
    let serving = world.serve(&[]);
    pm(&world, &["init", "--project", "WEB", "Web shop", "--agent", "agt_a:worker"]);
    pm(&world, &["new", "Sell shoes"]);
    let made = pm(&world, &["token", "new", "agt_a"]);
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(asked(&serving, "claim_task", json!({}), Some(secret))["claim"]["agent_id"], "agt_a");
    let (_, refused) = call(&serving, "demo", "echo", json!({"text": "x"}), Some(secret));
    assert_eq!(refused["error"]["data"]["code"], "PERMISSION_DENIED", "{refused}");
    let (head, _) = serving.ask("POST", "/servers/demo/stop", &[("authorization", &format!("Bearer {secret}"))], "");
    assert!(head.contains("403"), "a token controls nothing: {head}");
    let (status, _) = call(&serving, "pm", "get_my_profile", json!({}), Some("tsugi_pm_wrong"));
    assert!(status.contains("401"), "a wrong token is not anonymous: {status}");
    pm(&world, &["token", "revoke", made["token_id"].as_str().unwrap()]);
    let (status, _) = call(&serving, "pm", "get_my_profile", json!({}), Some(secret));
    assert!(status.contains("401"), "{status}");
}

#[test]
fn a_keys_name_is_its_agent_and_an_admin_key_is_a_person() {
    let world = World::new();
    let config = "gateway:\n  auth:\n    adminKey: tsugi_the_admin_key_of_this_test\n    keys:\n      - name: ann\n        \
                  key: tsugi_the_key_of_ann_in_this_test\nservers: [{name: pm, builtin: pm, args: [--db, team.db]}]\n";
    let path = world.write("tsugi.yaml", config);
    let serving = world.serve(&["--config", path.to_str().unwrap()]);
    let (admin, ann) = ("tsugi_the_admin_key_of_this_test", "tsugi_the_key_of_ann_in_this_test");
    let (status, _) = call(&serving, "pm", "list_projects", json!({}), None);
    assert!(status.contains("401"), "{status}");
    let profile = asked(&serving, "get_my_profile", json!({}), Some(admin));
    assert_eq!((&profile["agent"]["id"], &profile["agent"]["type"]), (&json!("agt_admin"), &json!("human")));
    asked(&serving, "create_project", json!({"key": "WEB", "name": "Web shop"}), Some(admin));
    let strange = asked(&serving, "list_projects", json!({}), Some(ann));
    assert_eq!(strange["error"]["code"], "permission_denied", "{strange}");
    pm(&world, &["agent", "add", "agt_ann", "--project", "WEB", "--role", "worker", "--db", "team.db"]);
    assert_eq!(asked(&serving, "list_projects", json!({}), Some(ann))["projects"][0]["role"], "worker");
}
