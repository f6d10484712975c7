//! `--json` of the commands that change files: one object on stdout, and nothing else there.

use std::path::Path;

use serde_json::{Value, json};

use super::world::World;

const CLAUDE: &str = r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"GIT_TOKEN": "canary-secret-1"}}}}"#;

fn world() -> World {
    let world = World::new();
    world.write(".mcp.json", CLAUDE);
    world
}

/// Whether this is the file of that name, however the folder is written.
fn is_file(value: &Value, name: &str) -> bool {
    Path::new(value.as_str().unwrap()).file_name().unwrap() == name
}

#[test]
fn a_server_that_is_added_and_removed_is_named_with_its_file() {
    let world = World::new();
    let added = world.run(&["add", "time", "--json", "--", "uvx", "mcp-server-time"]).expect(0).json();
    assert!(added["added"] == "time" && is_file(&added["file"], "tsugi.yaml"), "{added}");
    let exported = world.run(&["export", "cursor", "--json"]).expect(0).json();
    assert!(exported["text"].as_str().unwrap().contains("mcp-server-time"), "{exported}");
    let removed = world.run(&["remove", "time", "--json"]).expect(0).json();
    assert!(removed["removed"] == "time" && is_file(&removed["file"], "tsugi.yaml"), "{removed}");
}

#[test]
fn what_is_imported_is_told_without_its_secrets() {
    let world = world();
    let shown = world.run(&["import", "--json"]).expect(0).json();
    assert!(shown["yaml"].as_str().unwrap().contains("- name: git"), "{shown}");
    assert_eq!((&shown["sources"][0]["program"], &shown["sources"][0]["servers"]), (&json!("claude"), &json!(["git"])));
    let saved = world.run(&["import", "-o", "tsugi.yaml", "--json"]).expect(0).json();
    assert!(is_file(&saved["file"], "tsugi.yaml") && is_file(&saved["secretsFile"], "tsugi.secrets.env"), "{saved}");
    assert!(!format!("{shown}{saved}").contains("canary"));
}

#[test]
fn what_init_wrote_and_what_restore_brought_back_is_told() {
    let world = world();
    let dry = world.run(&["init", "--dry-run", "--json"]).expect(0).json();
    let planned = &dry["configurations"][0];
    assert!(planned["yaml"].is_string() && planned.get("file").is_none(), "{dry}");
    let done = world.run(&["init", "--write-clients", "--json"]).expect(0).json();
    assert!(is_file(&done["configurations"][0]["file"], "tsugi.yaml"), "{done}");
    assert_eq!((&done["clients"][0]["program"], &done["clients"][0]["pointed"]), (&json!("claude"), &json!(true)));
    let state = |args: &[&str]| world.run(&[&["undo-init", "--json"], args].concat()).expect(0).json()["files"].clone();
    assert_eq!(state(&["--list"])[0]["state"], "changed");
    let back = state(&[]);
    assert!(back[0]["state"] == "restored" && is_file(&back[0]["file"], ".mcp.json"), "{back}");
    assert_eq!(state(&[]), json!([]));
}
