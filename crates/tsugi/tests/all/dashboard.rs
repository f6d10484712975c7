//! The dashboard of a real `tsugi serve`: what it shows, to whom, and what it keeps to itself.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::world::{Serving, TSUGI, World, modern_call, modern_headers, until};

const SECRET: &str = "hush-hush-4711";

fn get(serving: &Serving, path: &str, headers: &[(&str, &str)]) -> (String, Value) {
    let (head, body) = serving.ask("GET", path, headers, "");
    (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(&body).unwrap_or_default())
}

/// A server whose secrets are in its variables and on its command line, and which talks on standard error.
fn talkative(world: &World) -> String {
    world.write("secret", SECRET);
    let child = world.write("child.yaml", "servers: [{name: demo, builtin: demo}]\n");
    let script = format!("echo born with {SECRET} >&2; \"$0\" \"$@\"; : ${{file:secret}}");
    let args = json!(["-c", script, TSUGI, "stdio", "--server", "demo", "--config", child]);
    format!("servers: [{{name: far, command: sh, args: {args}, env: {{API_TOKEN: {SECRET}}}}}]\n")
}

#[test]
fn it_shows_servers_processes_settings_and_calls_without_their_secrets() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &talkative(&world));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("far");
    let body = modern_call("far__calculate-bmi", json!({"weight_kg": 70, "height_m": 1.75}));
    serving.ask("POST", "/mcp", &modern_headers("far__calculate-bmi"), &body);

    let (head, page) = serving.ask("GET", "/", &[], "");
    assert!(head.starts_with("HTTP/1.1 200") && page.contains("<html"), "{head}\n{page}");
    let (_, overview) = get(&serving, "/api/overview", &[]);
    let row = &overview["servers"][0];
    assert_eq!((&row["name"], &row["transport"], &row["state"]), (&json!("far"), &json!("stdio"), &json!("connected")));
    assert!(row["pid"].is_number() && row["sandbox"].is_string() && row["tools"] == 5, "{row}");

    let (_, far) = get(&serving, "/api/servers/far", &[]);
    let commands: Vec<&str> =
        far["processes"].as_array().unwrap().iter().map(|process| process["command"].as_str().unwrap()).collect();
    assert!(commands.iter().any(|command| command.contains("stdio --server demo")), "{commands:?}");
    assert!(far["stderr"].to_string().contains("born with"), "{}", far["stderr"]);
    assert_eq!(far["config"]["target"]["env"][0], json!(["API_TOKEN", "***"]));
    assert!(far["sandboxReport"]["files"]["state"].is_string(), "{}", far["sandboxReport"]);
    assert_eq!(far["recentCalls"][0]["outcome"], "ok", "{}", far["recentCalls"]);
    let (_, calls) = get(&serving, "/api/calls?server=far", &[]);
    assert_eq!((&calls["total"], &calls["calls"][0]["tool"]), (&json!(1), &json!("calculate-bmi")));
    for shown in [&far, &calls, &overview] {
        assert!(!shown.to_string().contains(SECRET), "{shown}");
        assert!(!shown.to_string().contains("1.75"), "arguments are not kept: {shown}");
    }
}

#[test]
fn a_call_can_be_found_in_the_log_by_its_request() {
    let world = World::new();
    let serving = world.serve(&["-v"]);
    let mut headers = modern_headers("demo__echo").to_vec();
    headers.push(("X-Request-Id", "mine-1"));
    serving.ask("POST", "/mcp", &headers, &modern_call("demo__echo", json!({"message": "hello"})));
    let (_, calls) = get(&serving, "/api/calls", &[]);
    assert_eq!(calls["calls"][0]["requestId"], "mine-1");
    serving.wait_for("request_id=mine-1");
}

#[test]
fn a_page_hears_a_server_die_come_back_and_talk() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &talkative(&world));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let before = serving.connected("far")["pid"].clone();
    let mut events = BufReader::new(serving.open("GET", "/api/events?log=far", &[], "")).lines().map_while(Result::ok);
    events.by_ref().find(|line| line == "event: stats").unwrap();
    tsugi_testkit::process::send(before.as_u64().unwrap() as u32, rustix::process::Signal::KILL);
    let (mut is_back, mut heard) = (false, false);
    // About a minute's worth: every second has an event or more.
    for line in events.take(400) {
        if is_back && heard {
            return;
        }
        let Some(data) = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok()) else {
            continue;
        };
        assert!(!line.contains(SECRET), "{line}");
        let row = &data["servers"][0];
        is_back |= row["state"] == "connected" && row["pid"] != before && row["restarts"] == 1;
        heard |= data["server"] == "far" && data["lines"].to_string().contains("born with");
    }
    panic!("back: {is_back}, heard: {heard}");
}

#[test]
fn a_page_hears_what_happens_on_the_board() {
    let world = World::new();
    let serving = world.serve(&[]);
    serving.connected("pm");
    assert_eq!(get(&serving, "/api/session", &[]).1["pm"], true);
    let mut events = BufReader::new(serving.open("GET", "/api/events", &[], "")).lines().map_while(Result::ok);
    events.by_ref().find(|line| line == "event: stats").unwrap();
    // The stream begins with what happens after it was first read, so one change may come before that.
    let made = (0..20).any(|number| {
        let project = json!({"name": format!("Project {number}"), "key": format!("P{number}")});
        let body = modern_call("pm__create_project", project);
        let (_, answer) = serving.ask("POST", "/mcp", &modern_headers("pm__create_project"), &body);
        assert!(!answer.contains("\"isError\":true"), "{answer}");
        let mut heard = events.by_ref().take(10);
        heard.any(|line| line == "event: pm")
    });
    assert!(made, "nothing was heard of the board");
    let change: Value = serde_json::from_str(events.next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert!(change["entity"].is_string() && change["action"].is_string() && change["at"].is_number(), "{change}");
}

#[test]
fn a_server_is_added_while_the_gateway_runs_where_that_is_allowed() {
    let world = World::new();
    let child = world.write("child.yaml", "servers: [{name: demo, builtin: demo}]\n");
    let added = json!({"name": "late", "command": TSUGI, "env": {"API_TOKEN": SECRET},
        "args": ["stdio", "--server", "demo", "--config", child]});
    let refusing = world.serve(&[]);
    let (head, body) = refusing.ask("POST", "/servers", &[], &added.to_string());
    assert!(head.starts_with("HTTP/1.1 403") && body.contains("allowCommands"), "{head}\n{body}");
    assert_eq!(get(&refusing, "/api/session", &[]).1["allowCommands"], false);

    let config = world.write(
        "open.yaml",
        "servers: [{name: demo, builtin: demo}]\ngateway: {adminApi: {enabled: true, allowCommands: true}}\n",
    );
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    assert_eq!(get(&serving, "/api/session", &[]).1["allowCommands"], true);
    let (head, body) = serving.ask("POST", "/servers", &[], &added.to_string());
    assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
    serving.connected("late");
    let (_, late) = get(&serving, "/api/servers/late", &[]);
    assert_eq!(late["config"]["target"]["env"][0], json!(["API_TOKEN", "***"]));
    assert!(!late.to_string().contains(SECRET), "{late}");
    let (head, body) = serving.ask("POST", "/servers", &[], r#"{"name": "odd", "url": "http://h/${HOME}"}"#);
    assert!(head.starts_with("HTTP/1.1 400"), "{head}\n{body}");
    let (head, _) = serving.ask("DELETE", "/servers/late", &[("Content-Length", "0")], "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(get(&serving, "/api/servers/late", &[]).0, "404");
}

#[test]
fn a_server_that_is_added_is_written_into_the_file_and_outlives_a_reload_and_a_restart() {
    let world = World::new();
    let child = world.write("child.yaml", "servers: [{name: demo, builtin: demo}]\n");
    let written = "# ours\nservers:\n  - name: demo # the first\n    builtin: demo\ngateway:\n  adminApi: { allowCommands: true }\n";
    let config = world.write("tsugi.yaml", written);
    let added = json!({"name": "late", "command": TSUGI, "args": ["stdio", "--server", "demo", "--config", child]});
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let (head, body) = serving.ask("POST", "/servers", &[], &added.to_string());
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["kept"], json!({"file": config, "whyNot": null}), "{head}\n{body}");
    let pid = serving.connected("late")["pid"].clone();
    serving.wait_for("configuration applied");
    assert_eq!(serving.connected("late")["pid"], pid, "the file says what runs already, so nothing is started anew");
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.starts_with("# ours\nservers:\n  - name: demo # the first\n"), "{text}");
    drop(serving);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("late");
    let (_, body) = serving.ask("DELETE", "/servers/late", &[("Content-Length", "0")], "");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["kept"]["file"], json!(config), "{body}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), written);
}

#[test]
fn a_read_only_key_sees_the_whole_board_and_changes_nothing() {
    let world = World::new();
    let keys = "servers: [{name: pm, builtin: pm}]\ngateway: {auth: {adminKey: the-admin-key-4711-xyz, keys: [{name: eve, \
                key: looking-key-4711-xyz, readOnly: true}]}}\n";
    let config = world.write("tsugi.yaml", keys);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let ask = |tool: &str, key: &str, arguments: Value| {
        let bearer = format!("Bearer {key}");
        let mut headers = modern_headers(tool).to_vec();
        headers.push(("Authorization", &bearer));
        serving.ask("POST", "/mcp", &headers, &modern_call(tool, arguments))
    };
    let project = json!({"name": "Web shop", "key": "WEB"});
    let (_, body) = ask("pm__create_project", "the-admin-key-4711-xyz", project.clone());
    let made: Value = serde_json::from_str(&body).unwrap();
    let id = &made["result"]["structuredContent"]["project"]["id"];
    let (_, body) = ask("pm__create_task", "the-admin-key-4711-xyz", json!({"project_id": id, "title": "Sell"}));
    assert!(body.contains("WEB-1"), "{made}\n{body}");

    let looking = [("Authorization", "Bearer looking-key-4711-xyz")];
    let look = |tool: &str, arguments: Value| {
        let query: String = url::form_urlencoded::byte_serialize(arguments.to_string().as_bytes()).collect();
        get(&serving, &format!("/api/board/{tool}?arguments={query}"), &looking)
    };
    assert_eq!(get(&serving, "/api/session", &looking).1["readOnly"], true);
    assert_eq!(&look("list_projects", json!({})).1["projects"][0]["id"], id);
    assert_eq!(look("list_tasks", json!({"project_id": id})).1["tasks"][0]["title"], "Sell");
    let (status, task) = look("get_task", json!({"task_id": "WEB-1", "include": ["history"]}));
    assert_eq!((status.as_str(), &task["task"]["ref"]), ("200", &json!("WEB-1")), "{task}");
    assert!(look("get_history", json!({"project_id": id})).1["events"].as_array().unwrap().len() > 1);
    assert_eq!(look("get_task", json!({"task_id": "WEB-9"})).1["error"]["code"], "not_found");

    let (head, body) = ask("pm__create_project", "looking-key-4711-xyz", project);
    assert!(head.starts_with("HTTP/1.1 403") && body.contains("touch nothing"), "{head}\n{body}");
    assert_eq!(look("create_project", json!({"name": "x", "key": "XX"})).0, "404");
    assert_eq!(look("list_projects", json!({})).1["projects"].as_array().unwrap().len(), 1);
}

#[test]
fn the_holder_of_a_token_sees_the_board_of_its_own_projects_alone() {
    let world = World::new();
    let serving = world.serve(&[]);
    serving.connected("pm");
    let pm = |words: &[&str]| {
        let output = world.run(&[&["pm"], words].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    for (key, agent) in [("WEB", "agt_web"), ("SECRET", "agt_other")] {
        pm(&["init", "--project", key, key, "--agent", &format!("{agent}:worker")]);
        pm(&["new", "--project", key, &format!("A task of {key}")]);
    }
    let secret = pm(&["token", "new", "agt_web", "--json"])["secret"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {secret}");
    let holder = [("Authorization", bearer.as_str())];
    let look = |name: &str, arguments: Value, headers: &[(&str, &str)]| {
        let query: String = url::form_urlencoded::byte_serialize(arguments.to_string().as_bytes()).collect();
        get(&serving, &format!("/api/board/{name}?arguments={query}"), headers)
    };
    let (_, all) = look("list_projects", json!({}), &[]);
    let id = |key: &str| {
        let found = all["projects"].as_array().unwrap().iter().find(|one| one["key"] == key).unwrap();
        found["id"].clone()
    };
    let (own, other) = (json!({"project_id": id("WEB")}), json!({"project_id": id("SECRET")}));
    let (status, board) = look("get_board", own, &holder);
    assert_eq!(
        (status.as_str(), &board["me"], &board["role"]),
        ("200", &json!("agt_web"), &json!("worker")),
        "{board}"
    );
    for name in ["get_board", "get_needs", "get_crew", "get_timeline"] {
        let (status, told) = look(name, other.clone(), &holder);
        assert_eq!((status.as_str(), &told["error"]["code"]), ("422", &json!("not_found")), "{name}: {told}");
    }
    assert_eq!(look("get_story", json!({"task_id": "SECRET-1"}), &holder).1["error"]["code"], "not_found");
    for name in ["get_state", "verify"] {
        assert_eq!(look(name, json!({}), &holder).0, "403", "{name}");
        assert_eq!(look(name, json!({}), &[]).0, "200", "{name}");
    }
    let (_, events) = serving.ask("GET", "/api/board/events.jsonl", &holder, "");
    assert!(events.contains("A task of WEB") && !events.contains("A task of SECRET"), "{events}");
    let pause = json!({"project_id": id("WEB"), "status": "paused"}).to_string();
    let (head, body) = serving.ask("POST", "/api/board/update_project", &holder, &pause);
    assert!(head.starts_with("HTTP/1.1 422") && body.contains("permission_denied"), "{head}\n{body}");
    let (head, body) = serving.ask("POST", "/api/board/update_project", &[], &pause);
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("paused"), "{head}\n{body}");
}

#[test]
fn people_sign_in_with_the_admin_key_and_others_only_look() {
    let world = World::new();
    // What `openssl rand -hex 32` makes looks like a SHA-256, and is a key all the same.
    let admin = "a47e".repeat(16);
    let settings = format!(
        "servers: [{}]\ngateway: {{auth: {{adminKey: {admin}, keys: [{{name: eve, key: looking-key-4711-xyz, \
         readOnly: true}}]}}}}\n",
        world.entry("far")
    );
    let config = world.write("tsugi.yaml", &settings);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    assert_eq!(get(&serving, "/api/overview", &[]).0, "401");
    let (_, session) = get(&serving, "/api/session", &[]);
    assert_eq!((&session["authRequired"], &session["signedIn"]), (&json!(true), &json!(false)));

    let sign_in = |key: &str| {
        let (head, body) = serving.ask("POST", "/api/session", &[], &json!({"key": key}).to_string());
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let csrf = serde_json::from_str::<Value>(&body).unwrap()["csrf"].as_str().unwrap().to_owned();
        (cookie.split(';').next().unwrap().to_owned(), csrf)
    };
    let order = |cookie: &str, csrf: &str| {
        let headers = [("Cookie", cookie), ("X-Tsugi-Csrf", csrf), ("Content-Length", "0")];
        serving.ask("POST", "/servers/far/restart", &headers, "").0.split(' ').nth(1).unwrap().to_owned()
    };
    let (cookie, csrf) = sign_in(&admin);
    let is_connected =
        || get(&serving, "/api/overview", &[("Cookie", &cookie)]).1["servers"][0]["state"] == "connected";
    until(is_connected, || "far is not connected".to_owned());
    assert_eq!(order(&cookie, "wrong"), "403");
    assert_eq!(order(&cookie, &csrf), "200");
    let (looking, word) = sign_in("looking-key-4711-xyz");
    assert_eq!(get(&serving, "/api/session", &[("Cookie", &looking)]).1["role"], "reader");
    assert_eq!(get(&serving, "/api/overview", &[("Cookie", &looking)]).0, "200");
    assert_eq!(order(&looking, &word), "403");
}
