//! `tsugi key`: whoever has one comes in, until it is revoked.

use crate::world::{World, until};

#[test]
fn a_running_gateway_follows_the_keys() {
    let world = World::new();
    let serving = world.serve(&[]);
    let status = |key: &str| {
        let bearer = format!("Bearer {key}");
        let headers: &[(&str, &str)] = if key.is_empty() { &[] } else { &[("Authorization", &bearer)] };
        serving.ask("GET", "/mcp/tools", headers, "").0.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(""), "200");

    let made = world.run(&["key", "add", "ann", "--allow", "demo/echo"]);
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(key.starts_with("tsugi_"), "{key}");
    until(|| status("") == "401", || status(""));
    let bearer = format!("Bearer {key}");
    let (_, tools) = serving.ask("GET", "/mcp/tools", &[("Authorization", &bearer)], "");
    assert!(tools.contains("\"echo\"") && !tools.contains("\"greet\""), "{tools}");
    let kept = std::fs::read_to_string(world.path().join(".local/state/tsugi/keys.json")).unwrap();
    assert!(kept.contains("\"ann\"") && !kept.contains(&key), "{kept}");
    assert_eq!(world.run(&["status", "--gateway", &serving.url, "--key", &key]).status.code(), Some(5));

    let second = world.run(&["key", "add", "ops", "--admin"]);
    let admin = String::from_utf8(second.stdout).unwrap().trim().to_owned();
    until(|| status(&admin) == "200", || status(&admin));
    assert_eq!(world.run(&["status", "--gateway", &serving.url, "--key", &admin]).status.code(), Some(0));
    assert!(world.run(&["key", "revoke", "ann"]).status.success());
    until(|| status(&key) == "401", || status(&key));
    assert_eq!(world.run(&["key", "revoke", "ann"]).status.code(), Some(2));
}

#[test]
fn the_last_key_that_is_revoked_opens_no_gateway_that_others_can_reach() {
    let world = World::new();
    let made = world.run(&["key", "add", "ann"]);
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let config = world.write(
        "tsugi.yaml",
        "servers: [{name: demo, builtin: demo}]\ngateway: {listen: '0.0.0.0:0', trustedProxies: 127.0.0.1}\n",
    );
    let serving = world.serve_as_written(&["--config", config.to_str().unwrap()]);
    let status = |key: &str| {
        let (head, _) = serving.ask("GET", "/mcp/tools", &[("X-Api-Key", key)], "");
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!((status(&key), status("")), ("200".to_owned(), "401".to_owned()));
    assert!(world.run(&["key", "revoke", "ann"]).status.success());
    serving.wait_for("all requests are refused");
    assert_eq!((status(&key), status("")), ("401".to_owned(), "401".to_owned()));
}

#[test]
fn a_configuration_without_keys_is_not_taken_over_where_others_can_reach_it() {
    let world = World::new();
    let with_key = "servers: [{name: demo, builtin: demo}]\ngateway: {listen: '0.0.0.0:0', trustedProxies: 127.0.0.1, auth: {adminKey: a-key-of-some-length}}\n";
    let config = world.write("tsugi.yaml", with_key);
    let serving = world.serve_as_written(&["--config", config.to_str().unwrap()]);
    world.write(
        "tsugi.yaml",
        "servers: [{name: demo, builtin: demo}]\ngateway: {listen: '0.0.0.0:0', trustedProxies: 127.0.0.1}\n",
    );
    serving.wait_for("nothing was changed");
    assert!(serving.talk().contains("these settings have no key"), "{}", serving.talk());
    let (head, _) = serving.ask("GET", "/mcp/tools", &[("X-Api-Key", "a-key-of-some-length")], "");
    assert!(head.contains("200"), "{head}");
}

#[test]
fn a_second_key_of_one_name_is_refused_wherever_the_first_one_is() {
    let world = World::new();
    assert!(world.run(&["key", "add", "ann"]).status.success());
    let again = world.run(&["key", "add", "ann"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("a key named `ann` exists already"));

    world.write(
        "tsugi.yaml",
        "gateway: {auth: {adminKey: long-enough-for-a-key, keys: [{name: bob, key: also-long-enough-for-one}]}}\n",
    );
    for name in ["bob", "admin"] {
        let refused = world.run(&["key", "add", name]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("the configuration has a key named `{name}` already")), "{told}");
    }
    assert!(world.run(&["key", "add", "carl"]).status.success());
}

#[test]
fn a_stored_key_with_the_name_of_one_in_the_configuration_opens_nothing() {
    let world = World::new();
    let made = world.run(&["key", "add", "ann", "--admin"]);
    let stored = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let text = "servers: [{name: demo, builtin: demo}]\n\
        gateway: {auth: {keys: [{name: ann, key: written-down-in-the-file, allow: [demo/echo]}]}}\n";
    let config = world.write("tsugi.yaml", text);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.wait_for("a second key is called `ann`: it opens nothing");
    let tools = |key: &str| serving.ask("GET", "/mcp/tools", &[("X-Api-Key", key)], "");
    assert!(tools(&stored).0.contains("401"));
    let (head, written) = tools("written-down-in-the-file");
    assert!(head.contains("200") && written.contains("\"echo\"") && !written.contains("\"greet\""), "{written}");
}

#[test]
fn a_key_that_ends_or_belongs_to_a_tenant_is_one_from_its_first_request() {
    let world = World::new();
    for wrong in ["2020-01-31", "soon"] {
        assert_eq!(world.run(&["key", "add", "old", "--expires", wrong]).status.code(), Some(2), "{wrong}");
    }
    let made = world.run(&["key", "add", "ann", "--tenant", "acme", "--expires", "2199-01-31"]);
    let ann = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let made = world.run(&["key", "add", "bob", "--tenant", "other"]);
    let bob = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let listed = String::from_utf8(world.run(&["key", "list"]).stdout).unwrap();
    assert!(listed.contains("acme") && listed.contains("2199-01-31"), "{listed}");
    let text = "servers: [{name: demo, builtin: demo, tenants: [acme]}]\n";
    let config = world.write("tsugi.yaml", text);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let tools = |key: &str| serving.ask("GET", "/mcp/tools", &[("X-Api-Key", key)], "");
    until(|| tools(&ann).1.contains("\"echo\""), || format!("{:?}", tools(&ann)));
    assert!(!tools(&bob).1.contains("\"echo\""), "{:?}", tools(&bob));
    // The file as it is when the end has come.
    let file = world.path().join(".local/state/tsugi/keys.json");
    let kept = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, kept.replace("2199-01-31", "2020-01-31")).unwrap();
    until(|| tools(&ann).0.contains("401"), || format!("{:?}", tools(&ann)));
    assert!(tools(&bob).0.contains("200"));
}

#[test]
fn a_short_key_in_the_configuration_is_refused_and_its_hash_is_not() {
    let world = World::new();
    let check = |auth: &str| {
        let config = world.write("tsugi.yaml", &format!("gateway: {{auth: {auth}}}\n"));
        let done = world.run(&["check", "--config", config.to_str().unwrap()]);
        String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout)
    };
    let hash = "0".repeat(64);
    for short in [
        "{adminKey: nineteen-character}".to_owned(),
        "{keys: [{name: a, key: password}]}".to_owned(),
        format!("{{keys: [{{name: a, hash: '{hash}', previous: {{key: password, until: 2199-01-31}}}}]}}"),
    ] {
        assert!(check(&short).contains("at least 20 characters"), "{short}");
    }
    for good in ["{adminKey: twenty-characters-xx}".to_owned(), format!("{{keys: [{{name: a, hash: '{hash}'}}]}}")] {
        assert!(!check(&good).contains("at least 20 characters"), "{good}");
    }
}

#[test]
fn a_key_may_be_limited_to_so_many_calls_at_once() {
    let world = World::new();
    assert_eq!(world.run(&["key", "add", "none", "--max-in-flight", "0"]).status.code(), Some(2));
    let made = world.run(&["key", "add", "ann", "--max-in-flight", "1"]);
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let listed = String::from_utf8(world.run(&["key", "list", "--json"]).stdout).unwrap();
    assert!(listed.contains("\"maxInFlight\":1"), "{listed}");
    let serving = world.serve(&[]);
    let headers: &[(&str, &str)] = &[("X-Api-Key", &key)];
    let slow = r#"{"server": "demo", "toolName": "wait", "input": {"seconds": 30, "steps": 1}}"#;
    let mut held = serving.open("POST", "/mcp/call", headers, slow);
    let quick = r#"{"server": "demo", "toolName": "echo", "input": {"message": "hi"}}"#;
    let told = || serving.ask("POST", "/mcp/call", headers, quick).1;
    let is_refused = || {
        let refused = told().contains("RATE_LIMIT_EXCEEDED");
        if !refused {
            // Two connections are served in any order: the quick call may have come first and kept the slow one out.
            held = serving.open("POST", "/mcp/call", headers, slow);
        }
        refused
    };
    until(is_refused, told);
    drop(held);
    until(|| told().contains("hi"), told);
}
