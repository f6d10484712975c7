//! `tsugi lock`, `tsugi diff` and what a changed server may still do, with the server's journal as witness.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use super::world::{World, entry};

fn tool(description: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!([{"name": "peek", "description": description, "inputSchema": schema}])
}

/// A server whose tool `peek` has changed from its third launch on, held to its pins in this way.
fn changing(pin: &str) -> (World, Scripted) {
    let old = json!({"tools": tool("Looks at a file.")});
    let tools = tool("Looks at\u{200b} any file.").as_array().unwrap().clone();
    let version = Some("1".to_owned());
    let scripted = Scripted::new(Script { tools, version, launches: vec![old.clone(), old], ..Script::default() });
    let mut server = entry("files", &scripted);
    server["pin"] = pin.into();
    (World::with_servers(json!([server])), scripted)
}

fn calls(scripted: &Scripted) -> usize {
    let is_call = |message: &Value| message["method"] == "tools/call" || message["message"]["method"] == "tools/call";
    scripted.journal().of("received").iter().filter(|message| is_call(message)).count()
}

#[test]
fn what_was_locked_is_compared_word_by_word_refused_and_accepted() {
    let (world, scripted) = changing("enforce");
    world.run(&["lock"]).expect(0);
    let lock = std::fs::read_to_string(world.work().join("tsugi.lock")).unwrap();
    assert!(lock.contains("\"files\" tool \"peek\" sha256:"), "{lock}");
    world.run(&["diff"]).expect(0);
    // From here on the tool is another one.
    let differs = world.run(&["diff"]).expect(1);
    assert!(differs.stdout.contains("files/peek changed"), "{}", differs.shown());
    assert!(differs.stdout.contains("[-at-]{+at⟨U+200B⟩+} [-a-]{+any+} file."), "{}", differs.shown());
    let data = world.run(&["diff", "--json"]).expect(1).json();
    assert_eq!(data["differences"][0]["findings"][0]["rule"], "zero-width", "{data}");
    let before = calls(&scripted);
    let refused = world.run(&["call", "files/peek", "path=a"]).expect(5);
    assert!(refused.stderr.contains("TOOL_CHANGED"), "{}", refused.shown());
    assert_eq!(calls(&scripted), before, "the server received the call");
    let listed = world.run(&["tools", "--json"]).expect(0).json();
    let peek = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "peek").unwrap().clone();
    assert_eq!(peek["description"], "Looks at a file.");
    world.run(&["lock", "accept", "files/peek"]).expect(0);
    world.run(&["diff"]).expect(0);
    world.run(&["call", "files/peek", "path=a"]).expect(0);
    assert_eq!(calls(&scripted), before + 1, "the good case");
}

#[test]
fn warning_compares_where_there_is_a_lock_file_and_never_writes_one() {
    let (world, scripted) = changing("warn");
    world.run(&["call", "files/peek", "path=a"]).expect(0);
    assert!(!world.work().join("tsugi.lock").exists());
    world.run(&["lock"]).expect(0);
    let lock = std::fs::read_to_string(world.work().join("tsugi.lock")).unwrap();
    // From here on the tool is another one.
    let changed = world.run(&["call", "files/peek", "path=a"]).expect(0);
    assert_eq!(calls(&scripted), 2, "{}", changed.shown());
    assert!(changed.stderr.contains("is not what is pinned"), "{}", changed.shown());
    world.run(&["diff"]).expect(1);
    assert_eq!(std::fs::read_to_string(world.work().join("tsugi.lock")).unwrap(), lock);
}

#[test]
fn a_damaged_lock_file_stops_what_is_held_to_it_and_names_the_line() {
    let (world, scripted) = changing("enforce");
    world.write("tsugi.lock", "tsugi-lock 1\n<<<<<<< HEAD\n");
    for words in [&["call", "files/peek"][..], &["diff"], &["lock"]] {
        let refused = world.run(words).expect(2);
        assert!(refused.stderr.contains("line 2: a merge left a conflict marker"), "{}", refused.shown());
    }
    assert_eq!(scripted.journal().launches(), 0);
}

#[test]
fn a_program_that_changed_is_not_started() {
    use std::os::unix::fs::PermissionsExt;
    let scripted = Scripted::new(Script::default());
    let mut server = entry("files", &scripted);
    let world = World::new();
    let program = world.write("server", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", scripted.program().display()));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    server["command"] = program.to_str().unwrap().into();
    server["pin"] = "tofu".into();
    world.write("tsugi.json", &json!({"servers": [server]}).to_string());
    world.run(&["call", "files/echo", "message=hi"]).expect(0);
    world.run(&["call", "files/echo", "message=hi"]).expect(0);
    let launches = scripted.journal().launches();
    let text = std::fs::read_to_string(&program).unwrap();
    std::fs::write(&program, format!("{text}# changed\n")).unwrap();
    let refused = world.run(&["call", "files/echo", "message=hi"]).expect(5);
    assert!(refused.stderr.contains("not the pinned one"), "{}", refused.shown());
    assert_eq!(scripted.journal().launches(), launches);
    std::fs::write(&program, text).unwrap();
    world.run(&["call", "files/echo", "message=hi"]).expect(0);
}
