//! One diagnosis everywhere: what `tsugi doctor` says of a broken server is what the gateway says on its pages, in its
//! log, and in the error that a caller reads.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tsugi_testkit::fake::{Fake, refused, reply};

use crate::world::{Serving, World, modern_call, modern_headers, until};

/// A server that is a few words of shell.
fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "command": "sh", "args": ["-c", script.replace('$', "$$")]})
}

fn broken_servers(world: &World, fakes: &[Fake; 3]) -> Vec<Value> {
    let script = world.write("plain.sh", "#!/bin/sh\nexec sleep 600\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
    let say = |words: &str| format!("printf '%s\\n' '{words}' >&2; exit 1");
    let mut denied = shell("denied", &say("Error: EACCES: permission denied, open /var/lib/notes.db"));
    denied["sandbox"] = json!({"required": false});
    // The same file exists outside, so that its absence is the work of the sandbox.
    let hidden_file = world.write("hidden.txt", "x");
    let mut hidden = shell("hidden", &say(&format!("cat: {}: No such file or directory", hidden_file.display())));
    hidden["sandbox"] = json!({"required": false});
    vec![
        shell("weather", &say("Error: WEATHER_API_KEY environment variable is required")),
        json!({"name": "missing", "command": "no-such-program-here"}),
        json!({"name": "plain", "command": script}),
        json!({"name": "module", "command": "python3", "args": ["-m", "no_such_module_here"]}),
        shell("package", &say("npm error 404  nothing@* is not in this registry.")),
        shell("node", &say("Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:sqlite")),
        shell("python", &say("Because the current Python version (3.9.2) does not satisfy Python>=3.10")),
        shell("banner", "echo 'Welcome to my server'; exit 1"),
        shell("crash", &say("panic: nil pointer")),
        shell("port", &say("Error: listen EADDRINUSE: address already in use :::3000")),
        json!({"name": "script", "command": "sh", "args": ["./nothere.sh"]}),
        json!({"name": "directory", "command": "sh", "cwd": "/nowhere/at/all"}),
        denied,
        hidden,
        json!({"name": "refused", "url": format!("http://{}/mcp", refused())}),
        json!({"name": "key", "url": fakes[0].url()}),
        json!({"name": "oauth", "url": fakes[1].url()}),
        json!({"name": "page", "url": fakes[2].url()}),
    ]
}

fn fakes() -> [Fake; 3] {
    let challenge = "Bearer resource_metadata=\"http://127.0.0.1/.well-known/oauth-protected-resource\"";
    [
        Fake::start(|_| reply::status(401, &[], "")),
        Fake::start(move |_| reply::status(401, &[("WWW-Authenticate", challenge)], "")),
        Fake::start(|_| reply::status(200, &[("Content-Type", "text/html")], "<!doctype html><p>Welcome")),
    ]
}

fn overview(gateway: &Serving, headers: &[(&str, &str)]) -> Value {
    serde_json::from_str(&gateway.ask("GET", "/api/overview", headers, "").1).unwrap()
}

fn find(page: &Value, name: &str) -> Value {
    let rows = page["servers"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
}

/// Waits until every one of these is diagnosed.
fn diagnosed(gateway: &Serving, headers: &[(&str, &str)], names: &[&str]) -> Value {
    let mut page = Value::Null;
    until(
        || {
            page = overview(gateway, headers);
            names.iter().all(|name| find(&page, name)["diagnosis"].is_object())
        },
        || format!("not all are diagnosed: {:#}", overview(gateway, headers)),
    );
    page
}

#[test]
fn the_gateway_names_the_causes_that_the_doctor_names() {
    let (world, fakes) = (World::new(), fakes());
    let servers = broken_servers(&world, &fakes);
    world.write("tsugi.json", &json!({"servers": servers}).to_string());
    let ran = world.run(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let gateway = world.serve(&[]);
    let names: Vec<&str> = servers.iter().map(|server| server["name"].as_str().unwrap()).collect();
    let page = diagnosed(&gateway, &[], &names);
    for said in doctor["servers"].as_array().unwrap() {
        let name = said["name"].as_str().unwrap();
        let shown = &find(&page, name)["diagnosis"];
        // The doctor also asks the provider whether a sign-in is possible at all.
        if name == "oauth" {
            assert_eq!(shown["cause"], "oauth-required", "{shown:#}");
            continue;
        }
        assert_eq!(shown["cause"], said["cause"], "{said:#} {shown:#}");
        assert_ne!(shown["cause"], "unknown", "{said:#}");
        assert_eq!(shown["advice"], said["advice"], "{said:#}");
        let message = shown["message"].as_str().unwrap();
        let sentence = said["message"].as_str().unwrap();
        assert!(sentence.starts_with(message), "{sentence:?} does not begin with {message:?}");
        let quoted = shown["quotation"].as_str().is_none_or(|quotation| sentence.ends_with(quotation));
        assert!(quoted, "{sentence:?}: {shown:#}");
        // Nothing else is said in the list of what needs attention.
        let attention = page["attention"].as_array().unwrap().iter();
        let own: Vec<&Value> = attention.filter(|item| item["server"] == name).collect();
        assert!(own.iter().any(|item| item["diagnosis"] == *shown), "{own:#?}");
    }
    let causes: std::collections::HashSet<&str> =
        doctor["servers"].as_array().unwrap().iter().map(|said| said["cause"].as_str().unwrap()).collect();
    // Both ways in which a sandbox stands in the way have one word, and so do packages and modules.
    assert_eq!(causes.len(), names.len() - 2, "{causes:?}");
}

#[test]
fn a_caller_and_the_log_are_told_which_variable_is_missing() {
    let world = World::new();
    let script = "echo 'Error: WEATHER_API_KEY environment variable is required' >&2; exit 1";
    world.write("tsugi.json", &json!({"servers": [shell("weather", script)]}).to_string());
    let gateway = world.serve(&[]);
    diagnosed(&gateway, &[], &["weather"]);
    let (_, body) = gateway.ask("POST", "/servers/weather/mcp", &modern_headers("get"), &modern_call("get", json!({})));
    let answer: Value = serde_json::from_str(&body).unwrap();
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("the variable `WEATHER_API_KEY` is not set"), "{answer:#}");
    assert_eq!(answer["error"]["data"]["diagnosis"]["cause"], "needs-variable", "{answer:#}");
    gateway.wait_for("the variable `WEATHER_API_KEY` is not set");
    gateway.wait_for("needs-variable");
}

#[test]
fn what_a_server_printed_is_quoted_to_those_who_run_it_and_to_no_one_else() {
    let world = World::new();
    let secret_path = "/srv/payroll/2026.db";
    let script = format!("echo 'Error: listen EADDRINUSE: address already in use {secret_path}' >&2; exit 1");
    let keys = json!([
        {"name": "boss", "key": "boss-key-of-20-characters", "admin": true},
        {"name": "ann", "key": "anns-key-of-20-characters"},
    ]);
    let auth = json!({"keys": keys});
    world.write("tsugi.json", &json!({"servers": [shell("s", &script)], "gateway": {"auth": auth}}).to_string());
    let gateway = world.serve(&[]);
    let key = |key: &str| format!("Bearer {key}");
    let (boss, ann) = (key("boss-key-of-20-characters"), key("anns-key-of-20-characters"));
    let page = diagnosed(&gateway, &[("Authorization", &boss)], &["s"]);
    assert!(page.to_string().contains(secret_path), "{page:#}");
    let page = overview(&gateway, &[("Authorization", &ann)]);
    assert_eq!(find(&page, "s")["diagnosis"]["cause"], "port-taken", "{page:#}");
    assert_eq!(find(&page, "s")["reason"], "the port it listens on is taken", "{page:#}");
    assert!(!page.to_string().contains("payroll"), "{page:#}");
    for (path, who, is_told) in [("/servers/s/mcp", &boss, true), ("/servers/s/mcp", &ann, false)] {
        let headers = [&modern_headers("get")[..], &[("Authorization", who)]].concat();
        let (_, body) = gateway.ask("POST", path, &headers, &modern_call("get", json!({})));
        assert!(body.contains("the port it listens on is taken"), "{body}");
        assert_eq!(body.contains("payroll"), is_told, "{body}");
    }
}

#[test]
fn the_doctor_ends_with_a_table_when_many_servers_fail() {
    let world = World::new();
    let servers: Vec<Value> =
        ["one", "two", "three", "four"].map(|name| json!({"name": name, "command": "no-such-program-here"})).into();
    world.write("tsugi.json", &json!({"servers": servers}).to_string());
    let said = String::from_utf8(world.run(&["doctor"]).stderr).unwrap();
    let table = said.split("4 servers do not work:").nth(1).unwrap_or_else(|| panic!("{said}"));
    let lines: Vec<&str> = table.trim().lines().collect();
    assert_eq!(lines.len(), 5, "{table}");
    assert!(lines[3].starts_with("three") && lines[3].contains("program-missing"), "{table}");
}
