//! From seven programs' files to one configuration, into the programs, and back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::world::{World, golden};

/// A program's file as it lies in the repository, and where it lies on a person's machine.
const FILES: [(&str, &str); 8] = [
    ("claude-desktop/claude_desktop_config.json", "home/.config/Claude/claude_desktop_config.json"),
    ("claude/.mcp.json", "project/.mcp.json"),
    ("cursor/mcp.json", "home/.cursor/mcp.json"),
    ("vscode/mcp.json", "project/.vscode/mcp.json"),
    ("gemini/settings.json", "home/.gemini/settings.json"),
    ("codex/config.toml", "home/.codex/config.toml"),
    ("windsurf/mcp_config.json", "home/.codeium/windsurf/mcp_config.json"),
    ("zed/settings.json", "home/.config/zed/settings.json"),
];

/// A person's machine with the files of every program.
fn world() -> World {
    let world = World::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/import");
    for (file, place) in FILES {
        let place = world.work().join("..").join(place);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(golden.join(file), place).unwrap();
    }
    world
}

fn places(world: &World) -> Vec<PathBuf> {
    FILES.iter().map(|(_, place)| world.work().join("..").join(place)).collect()
}

fn contents(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    places(world).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn seven_programs_become_one_configuration_that_check_accepts() {
    let world = world();
    let ran = world.run(&["init"]).expect(0);
    for found in [
        "Claude Desktop: 2 servers",
        "Claude Code: 4 servers",
        "Cursor: 2",
        "VS Code: 3",
        "Gemini CLI: 4",
        "Codex: 2",
        "Windsurf: 3",
        "Zed: 3",
    ] {
        assert!(ran.stderr.contains(found), "{found} in {}", ran.stderr);
    }
    assert!(ran.stderr.contains("warning: ") && !ran.stderr.contains("canary"), "{}", ran.stderr);
    let written = std::fs::read_to_string(world.work().join("tsugi.yaml")).unwrap();
    assert!(!written.contains("canary"), "{written}");
    golden().check("init.tsugi.yaml", &world.plain(&written));
    world.run(&["check"]).expect(0);
}

#[test]
fn programs_are_pointed_at_tsugi_and_brought_back_byte_for_byte() {
    let world = world();
    let before = contents(&world);
    world.run(&["init", "--write-clients"]).expect(0);
    for (path, old) in &before {
        let new = std::fs::read_to_string(path).unwrap();
        assert_ne!(new.as_bytes(), old, "{}", path.display());
        assert!(new.contains("tsugi") && new.contains("stdio") && !new.contains("mcp-server-fetch"), "{new}");
    }
    let zed = std::fs::read_to_string(world.home().join(".config/zed/settings.json")).unwrap();
    assert!(zed.starts_with("// Zed settings\n{\n  \"ui_font_size\": 16") && zed.contains("\"extension\""), "{zed}");
    let codex = std::fs::read_to_string(world.home().join(".codex/config.toml")).unwrap();
    assert!(codex.starts_with("model = \"gpt-5\" # not ours\n") && codex.contains("[mcp_servers.tsugi]"), "{codex}");
    let claude: Value = serde_json::from_slice(&std::fs::read(world.work().join(".mcp.json")).unwrap()).unwrap();
    let ours = &claude["mcpServers"]["tsugi"];
    assert_eq!(claude["mcpServers"].as_object().unwrap().len(), 1);
    assert_eq!(ours["args"][0], "stdio");
    assert!(Path::new(ours["args"][2].as_str().unwrap()).is_file(), "{ours}");

    // Once more changes nothing, and does not take tsugi for a server.
    let again = contents(&world);
    world.run(&["init", "--write-clients"]).expect(0);
    assert_eq!(contents(&world), again);
    let config = std::fs::read_to_string(world.work().join("tsugi.yaml")).unwrap();
    assert!(!config.contains("name: tsugi"), "{config}");

    let listed = world.run(&["undo-init", "--list"]).expect(0).stdout;
    assert_eq!(listed.lines().count(), 8, "{listed}");
    world.run(&["undo-init"]).expect(0);
    assert_eq!(contents(&world), before);
    assert!(world.run(&["undo-init"]).expect(0).stderr.contains("nothing to bring back"));
}

#[test]
fn a_file_that_was_changed_meanwhile_is_not_brought_back_unasked() {
    let world = World::new();
    let file = world.write(".mcp.json", r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}"#);
    world.run(&["init", "--write-clients"]).expect(0);
    std::fs::write(&file, "{}").unwrap();
    let ran = world.run(&["undo-init"]).expect(1);
    assert!(ran.stderr.contains("was changed since") && ran.stderr.contains("--force"), "{}", ran.stderr);
    world.run(&["undo-init", "--force"]).expect(0);
    assert!(std::fs::read_to_string(file).unwrap().contains("mcp-server-git"));
}

#[test]
fn programs_may_be_pointed_at_a_gateway_that_runs() {
    let world = world();
    world.run(&["init", "--write-clients", "--http"]).expect(0);
    let text = |place: &str| std::fs::read_to_string(world.home().join(place)).unwrap();
    assert!(text(".gemini/settings.json").contains(r#""httpUrl":"http://127.0.0.1:7600/mcp""#));
    assert!(text(".codeium/windsurf/mcp_config.json").contains(r#""serverUrl":"http://127.0.0.1:7600/mcp""#));
    assert!(text(".codex/config.toml").contains("url = \"http://127.0.0.1:7600/mcp\""));
    assert!(text(".config/Claude/claude_desktop_config.json").contains("stdio"), "it cannot do otherwise");
}

#[test]
fn where_nothing_is_found_there_is_something_to_begin_with() {
    let world = World::new();
    let ran = world.run(&["init"]).expect(0);
    assert!(ran.stderr.contains("no file of another program"), "{}", ran.stderr);
    world.run(&["check"]).expect(0);
    assert!(world.run(&["tools"]).expect(0).stdout.contains("calculate-bmi"));
    let refused = world.run(&["init"]).expect(2);
    assert!(refused.stderr.contains("is there already") && refused.stderr.contains("--force"), "{}", refused.stderr);
}

#[test]
fn a_dry_run_shows_everything_and_changes_nothing() {
    let world = world();
    let before = contents(&world);
    let ran = world.run(&["init", "--dry-run", "--write-clients"]).expect(0);
    assert!(ran.stdout.contains("servers:\n") && ran.stderr.contains("would point Codex"), "{ran:?}");
    assert!(!world.work().join("tsugi.yaml").exists());
    assert_eq!(contents(&world), before);
}

#[test]
fn servers_are_added_and_removed_with_every_comment_in_its_place() {
    let world = World::new();
    world.run(&["add", "time", "--", "uvx", "mcp-server-time"]).expect(0);
    let path = world.work().join("tsugi.yaml");
    let first = std::fs::read_to_string(&path).unwrap();
    assert!(first.ends_with("servers:\n  - name: time\n    command: uvx\n    args: [mcp-server-time]\n"), "{first}");
    std::fs::write(&path, first.replace("  - name", "  # tells the time\n  - name")).unwrap();
    world.run(&["add", "far", "--url", "https://example.com/mcp", "--header", "X-Team: blue"]).expect(0);
    let ran = world.run(&["add", "db", "--env", "DB_TOKEN", "--", "npx", "-y", "dbhub"]).expect(0);
    assert!(ran.stderr.contains("DB_TOKEN"), "a variable that is not set is said: {}", ran.stderr);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("# tells the time\n  - name: time") && text.contains("DB_TOKEN: \"${DB_TOKEN}\""), "{text}");
    let twice = world.run(&["add", "far", "--", "x"]).expect(2);
    assert!(twice.stderr.contains("there is a server `far` already"), "{}", twice.stderr);
    assert!(world.run(&["add", "x"]).expect(2).stderr.contains("a program or an address"));
    world.run(&["remove", "far"]).expect(0);
    world.run(&["remove", "db"]).expect(0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first.replace("  - name", "  # tells the time\n  - name"));
    assert!(world.run(&["remove", "tim"]).expect(2).stderr.contains("did you mean `time`?"));
}

#[test]
fn what_was_imported_can_be_exported_to_every_program_and_imported_again() {
    let world = World::new();
    world.write(
        "tsugi.yaml",
        "servers:\n  - name: files\n    command: npx\n    args: [\"-y\", files, \"${ROOT:-.}\"]\n    env: {TOKEN: \"${TOKEN}\", MODE: fast}\n    sandbox: default\n  - name: far\n    url: https://example.com/mcp\n    headers: {Authorization: \"Bearer ${KEY}\"}\n    disabled: true\n  - name: demo\n    builtin: demo\n",
    );
    for program in ["claude", "claude-desktop", "cursor", "vscode", "gemini", "codex", "windsurf", "zed"] {
        let ran = world.run(&["export", program]).expect(0);
        assert!(
            ran.stderr.contains("demo: it is part of tsugi") && ran.stderr.contains("`sandbox` has no equivalent"),
            "{}",
            ran.stderr
        );
        golden().check(&format!("export/{program}.txt"), &ran.stdout);
        let file = if program == "codex" { "back.toml" } else { "back.json" };
        world.write(file, &ran.stdout);
        let back = world.run(&["import", file, "--client", program]).expect(0).stdout;
        assert!(back.contains("- name: files") && back.contains("MODE: fast"), "{program}: {back}");
    }
}

#[test]
fn servers_that_claude_code_keeps_for_this_directory_are_taken_and_those_of_others_are_named() {
    let world = World::new();
    let here = std::fs::canonicalize(world.work()).unwrap();
    let file = world.home().join(".claude.json");
    let before = json!({
        "numStartups": 7,
        "mcpServers": {"all": {"type": "stdio", "command": "uvx", "args": ["all"]}},
        "projects": {
            here.to_str().unwrap(): {"allowedTools": [], "mcpServers": {"mine": {"type": "stdio", "command": "uvx", "args": ["mine"]}}},
            "/elsewhere": {"mcpServers": {"theirs": {"command": "uvx"}}},
        },
    });
    std::fs::write(&file, before.to_string()).unwrap();
    let ran = world.run(&["init", "--write-clients"]).expect(0);
    assert!(ran.stderr.contains("/elsewhere were left out: theirs"), "{}", ran.stderr);
    let written = std::fs::read_to_string(world.work().join("tsugi.yaml")).unwrap();
    assert!(
        written.contains("name: all") && written.contains("name: mine") && !written.contains("name: theirs"),
        "{written}"
    );
    let after: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(after["projects"][here.to_str().unwrap()], json!({"allowedTools": [], "mcpServers": {}}));
    assert_eq!(
        (&after["projects"]["/elsewhere"], &after["numStartups"]),
        (&before["projects"]["/elsewhere"], &json!(7))
    );
    assert_eq!(after["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["tsugi"]);
    world.run(&["undo-init"]).expect(0);
    assert_eq!(std::fs::read_to_string(file).unwrap(), before.to_string());
}
