//! How servers stand, and whether a configuration can be used.

use serde_json::json;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::{HttpServer, Scripted};

use super::world::{World, entry, golden};

#[test]
fn servers_tell_what_they_speak_and_what_they_offer() {
    let (legacy, modern) = (Scripted::new(Script::only("2025-03-26")), Scripted::new(Script::modern()));
    let http = HttpServer::start(&Script::modern());
    let sse = HttpServer::start(&Script::only("2024-11-05"));
    let world = World::with_servers(json!([
        entry("old", &legacy),
        entry("new", &modern),
        {"name": "far", "url": http.url()},
        {"name": "older", "url": sse.sse_url(), "transport": "sse"},
        {"name": "demo", "builtin": "demo"},
        {"name": "off", "command": "x", "disabled": true},
        {"name": "gone", "command": "/no/such/program"},
    ]));
    let ran = world.run(&["servers", "--json"]).expect(3);
    let servers = ran.json()["servers"].clone();
    let told = |name: &str| {
        let server = servers.as_array().unwrap().iter().find(|server| server["name"] == name).unwrap();
        ["state", "transport", "era", "revision"].map(|key| server[key].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(told("old"), ["connected", "stdio", "legacy", "2025-03-26"]);
    assert_eq!(told("new"), ["connected", "stdio", "modern", "2026-07-28"]);
    assert_eq!(told("far"), ["connected", "http", "modern", "2026-07-28"]);
    assert_eq!(told("older"), ["connected", "sse", "legacy", "2024-11-05"]);
    assert_eq!(told("demo"), ["connected", "builtin", "modern", "2026-07-28"]);
    assert_eq!(told("off"), ["switched off", "stdio", "", ""]);
    assert_eq!(told("gone"), ["failed", "stdio", "", ""]);
    assert_eq!(servers[6]["error"]["code"], "SERVER_NOT_RUNNING");
    assert_eq!(servers[4]["tools"], 5);
}

#[test]
fn the_table_of_servers_shows_failures_below_it() {
    let world = World::with_servers(
        json!([{"name": "gone", "command": "/no/such/program"}, {"name": "off", "url": "http://127.0.0.1:1", "disabled": true}]),
    );
    golden().check("servers.txt", &world.run(&["servers"]).expect(3).shown());
}

#[test]
fn what_the_process_said_last_is_shown() {
    let world = World::with_servers(json!([
        {"name": "db", "command": "sh", "args": ["-c", "read line; echo cannot open database >&2; exit 3"]}
    ]));
    let ran = world.run(&["servers"]).expect(3);
    assert!(ran.stderr.contains("(exit code 3)") && ran.stderr.contains("| cannot open database"), "{}", ran.stderr);
}

#[test]
fn secrets_of_the_configuration_are_masked_in_what_a_server_says() {
    let world = World::with_servers(json!([
        {"name": "db", "command": "sh", "args": ["-c", "read line; echo using $DB_PASSWORD >&2; exit 3"], "env": {"DB_PASSWORD": "hunter2hunter2"}}
    ]));
    let ran = world.run(&["servers"]).expect(3);
    assert!(ran.stderr.contains("| using ") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn check_says_what_is_wrong_and_where() {
    let world = World::new();
    world.write("tsugi.yaml", "servers:\n  - name: a\n    comand: x\n  - name: b\n    url: ftp://x\n");
    let ran = world.run(&["check"]).expect(2);
    golden().check("check-problems.txt", &world.plain(&ran.stderr));
    let data = world.run(&["check", "--json"]).expect(2).json();
    assert_eq!(data["valid"], false);
    assert_eq!((data["problems"][0]["line"].as_u64(), data["problems"][0]["column"].as_u64()), (Some(3), Some(5)));
}

#[test]
fn a_key_that_stands_twice_is_told_without_the_words_of_a_library() {
    let world = World::new();
    world.write("tsugi.yaml", "servers:\n  - name: a\n    name: b\n    command: x\n");
    let ran = world.run(&["check"]).expect(2);
    assert!(ran.stderr.contains("duplicate mapping key: name") && !ran.stderr.contains("Policy"), "{}", ran.stderr);
}

#[test]
fn what_a_server_calls_a_secret_is_masked_in_what_it_says() {
    let script = "read line; echo api_key=from-elsewhere token rejected >&2; exit 3";
    let world = World::with_servers(json!([{"name": "db", "command": "sh", "args": ["-c", script]}]));
    let ran = world.run(&["servers"]).expect(3);
    assert!(ran.stderr.contains("| api_key=[redacted] token rejected"), "{}", ran.stderr);
}

#[test]
fn check_connects_only_when_asked_to() {
    let scripted = Scripted::new(Script::modern());
    let world = World::with_servers(json!([entry("s", &scripted), {"name": "gone", "command": "/no/such/program"}]));
    let ran = world.run(&["check"]).expect(0);
    assert!(ran.stdout.contains("not tried") && ran.stderr.contains("2 servers, no problems"), "{ran:?}");
    assert_eq!(scripted.journal().launches(), 0);
    let ran = world.run(&["check", "--connect"]).expect(3);
    assert!(ran.stdout.contains(" tools, "), "{}", ran.stdout);
    assert!(ran.stderr.contains("2 servers, 1 cannot be reached"), "{}", ran.stderr);
    assert_eq!(scripted.journal().launches(), 1);
}

#[test]
fn a_server_that_is_switched_off_or_not_there_is_said_to_be_so() {
    let world = World::with_servers(json!([{"name": "files", "command": "x", "disabled": true}]));
    assert!(world.run(&["tools", "--server", "files"]).expect(2).stderr.contains("the server `files` is switched off"));
    assert!(world.run(&["tools", "--server", "fils"]).expect(2).stderr.contains("did you mean `files`?"));
    assert!(world.run(&["tools"]).expect(2).stderr.contains("is switched off"));
}
