//! From eight programs' files to configurations of ours, into the programs, and back.

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

/// The configuration that servers of the user go into.
fn user_config(world: &World) -> PathBuf {
    world.home().join(".config/tsugi/tsugi.yaml")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

fn keys(map: &Value) -> Vec<String> {
    let mut keys: Vec<String> = map.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

/// Writes a file below the home directory.
fn write_home(world: &World, place: &str, content: &Value) -> PathBuf {
    let path = world.home().join(place);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content.to_string()).unwrap();
    path
}

#[test]
fn eight_programs_become_two_configurations_that_check_accepts() {
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
    for (path, name) in
        [(world.work().join("tsugi.yaml"), "init.project.yaml"), (user_config(&world), "init.user.yaml")]
    {
        let written = read(&path);
        assert!(!written.contains("canary"), "{written}");
        golden().check(name, &world.plain(&written));
        world.run(&["check", "--config", path.to_str().unwrap()]).expect(0);
    }
}

#[test]
fn programs_are_pointed_at_tsugi_and_brought_back_byte_for_byte() {
    let world = world();
    let before = contents(&world);
    world.run(&["init", "--write-clients"]).expect(0);
    for (path, old) in &before {
        let new = read(path);
        assert_ne!(new.as_bytes(), old, "{}", path.display());
        assert!(new.contains("tsugi") && new.contains("stdio") && !new.contains("mcp-server-fetch"), "{new}");
    }
    let zed = read(world.home().join(".config/zed/settings.json"));
    assert!(zed.starts_with("// Zed settings\n{\n  \"ui_font_size\": 16") && zed.contains("\"extension\""), "{zed}");
    let codex = read(world.home().join(".codex/config.toml"));
    assert!(codex.starts_with("model = \"gpt-5\" # not ours\n") && codex.contains("[mcp_servers.tsugi]"), "{codex}");
    let claude = read_json(world.work().join(".mcp.json"));
    assert_eq!(keys(&claude["mcpServers"]), ["asana", "plugin", "sentry", "tsugi-project"]);

    // Once more changes nothing, and does not take tsugi for a server.
    let again = contents(&world);
    world.run(&["init", "--write-clients"]).expect(0);
    assert_eq!(contents(&world), again);
    assert!(!read(world.work().join("tsugi.yaml")).contains("name: tsugi"));

    let listed = world.run(&["undo-init", "--list"]).expect(0).stdout;
    assert_eq!(listed.lines().count(), 8, "{listed}");
    world.run(&["undo-init"]).expect(0);
    assert_eq!(contents(&world), before);
    assert!(world.run(&["undo-init"]).expect(0).stderr.contains("nothing to restore"));
}

#[test]
fn a_file_that_was_changed_since_gets_its_servers_back_and_keeps_the_changes() {
    let world = World::new();
    let file = world.write(".mcp.json", r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}"#);
    world.run(&["init", "--write-clients"]).expect(0);
    let mut changed = read_json(&file);
    changed["mine"] = json!(7);
    changed["mcpServers"]["late"] = json!({"command": "late"});
    std::fs::write(&file, changed.to_string()).unwrap();
    let ran = world.run(&["undo-init"]).expect(0);
    assert!(ran.stderr.contains("other changes to the file stay"), "{}", ran.stderr);
    let restored = read_json(&file);
    assert_eq!((keys(&restored["mcpServers"]), &restored["mine"]), (vec!["git".into(), "late".into()], &json!(7)));
}

#[test]
fn what_tsugi_cannot_serve_stays_in_the_program() {
    let world = World::new();
    let here = std::fs::canonicalize(world.work()).unwrap();
    let local = json!({"command": "uvx", "args": ["mcp-server-time"]});
    let cursor = write_home(
        &world,
        ".cursor/mcp.json",
        &json!({"mcpServers": {
            "time": local,
            "off": {"command": "x", "disabled": true},
            "unset": {"command": "x", "env": {"API_KEY": "${env:NOT_SET}"}},
            "no-file": {"command": "x", "envFile": "/no/such/file.env"},
            "both": {"command": "x", "url": "http://localhost/"},
            "oauth": {"url": "https://mcp.sentry.dev/mcp"},
            "anywhere": {"command": "server-filesystem", "args": ["${workspaceFolder}"]},
        }}),
    );
    write_home(
        &world,
        ".claude.json",
        &json!({"projects": {here.to_str().unwrap(): {"disabledMcpjsonServers": ["refused"]}}}),
    );
    let claude = world.write(".mcp.json", &json!({"mcpServers": {"refused": local, "wanted": local}}).to_string());
    let ran = world.run(&["init", "--write-clients"]).expect(0);
    let left = keys(&read_json(&cursor)["mcpServers"]);
    assert_eq!(left, ["anywhere", "both", "no-file", "oauth", "off", "tsugi", "unset"], "{}", ran.stderr);
    assert_eq!(keys(&read_json(&claude)["mcpServers"]), ["refused", "tsugi-project"]);
    let user = read(user_config(&world));
    assert!(user.contains("# left out: `${workspaceFolder}` differs"), "{user}");
    let running = world.run(&["check", "--json", "--config", "tsugi.yaml"]).expect(0).json();
    let state = |name: &str| running["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone();
    assert_eq!((&state("refused")["enabled"], &state("wanted")["enabled"]), (&json!(false), &json!(true)));
}

#[test]
fn a_project_and_a_user_have_configurations_of_their_own() {
    let world = World::new();
    let server = |name: &str| json!({"mcpServers": {name: {"command": "uvx", "args": [name]}}});
    let of_user = write_home(&world, ".cursor/mcp.json", &server("of-user"));
    let of_project = world.write(".mcp.json", &server("of-project").to_string());
    world.run(&["init", "--write-clients"]).expect(0);
    let (project, user) = (read(world.work().join("tsugi.yaml")), read(user_config(&world)));
    assert!(project.contains("name: of-project") && !project.contains("of-user"), "{project}");
    assert!(user.contains("name: of-user") && !user.contains("of-project"), "{user}");
    // A project's file is shared with other people, so it holds no path of this machine.
    let shared = &read_json(of_project)["mcpServers"]["tsugi-project"];
    assert_eq!(shared["command"], "tsugi");
    assert_eq!(shared["args"], json!(["stdio", "--config", "tsugi.yaml"]));
    let own = &read_json(of_user)["mcpServers"]["tsugi"];
    assert!(Path::new(own["command"].as_str().unwrap()).is_absolute(), "{own}");
    assert_eq!(own["args"][2], user_config(&world).to_str().unwrap());
}

#[test]
fn force_keeps_a_copy_and_never_replaces_a_larger_file() {
    let world = World::new();
    let path = world.work().join("tsugi.yaml");
    world.write(".mcp.json", r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}"#);
    world.run(&["init", "--force", "--write-clients"]).expect(0);
    let first = read(&path);
    // The program has only tsugi now, so a second run finds nothing.
    let ran = world.run(&["init", "--force", "--write-clients"]).expect(2);
    assert!(ran.stderr.contains("was not replaced") && ran.stderr.contains("--merge"), "{}", ran.stderr);
    assert_eq!(read(&path), first);
    let mine = "servers: [{name: mine, command: x}]\n";
    std::fs::write(&path, mine).unwrap();
    world.run(&["undo-init"]).expect(0);
    world.run(&["init", "--force"]).expect(0);
    assert!(read(&path).contains("name: git"));
    assert_eq!(read(path.with_file_name("tsugi.yaml.bak")), mine);
}

#[test]
fn merge_adds_what_is_missing_and_leaves_the_rest_as_it_was_written() {
    let world = World::new();
    let mine = "# mine\nservers:\n  - name: git # not theirs\n    command: my-git\n";
    let path = world.write("tsugi.yaml", mine);
    world.write("tsugi.secrets.env", "MINE=\"canary-mine\"\n");
    let text =
        r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"GIT_TOKEN": "canary-1"}}}}"#;
    let file = world.write(".mcp.json", text);
    let refused = world.run(&["init", "--write-clients"]).expect(2);
    assert!(refused.stderr.contains("without git-claude") && refused.stderr.contains("--merge"), "{}", refused.stderr);
    assert_eq!(read(&file), text, "nothing is taken that was not taken over");
    world.run(&["init", "--merge", "--write-clients"]).expect(0);
    let merged = read(&path);
    assert!(merged.contains("  - name: git # not theirs\n    command: my-git\n"), "{merged}");
    assert!(merged.contains("- name: git-claude\n    command: uvx") && !merged.contains("canary"), "{merged}");
    let secrets = read(world.work().join("tsugi.secrets.env"));
    assert!(secrets.contains("canary-mine") && secrets.contains("canary-1"), "{secrets}");
    assert_eq!(keys(&read_json(&file)["mcpServers"]), ["tsugi-project"]);
    world.run(&["check"]).expect(0);
    world.run(&["init", "--merge"]).expect(0);
    assert_eq!(read(&path), merged, "a second time adds nothing");
}

/// A program's file with one server that has a secret.
const WITH_SECRET: &str =
    r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"GIT_TOKEN": "canary-new"}}}}"#;

/// The environment that a server gets, as `check` would use it: the file must be one that the configuration reads.
fn merged_token_is_set(world: &World) -> bool {
    let checked = world.run(&["check", "--json"]).expect(0).json();
    let server = checked["servers"].as_array().unwrap().iter().find(|server| server["name"] == "git").unwrap().clone();
    server["enabled"] == json!(true)
}

#[test]
fn merge_adds_secrets_to_the_file_that_the_configuration_names_and_keeps_its_bytes() {
    let mine = "# by hand\r\nMINE = 'canary-mine'  # a note\n\nOTHER=\"x\"";
    for (named, file) in [
        ("my.env", "my.env"),
        ("./conf/my.env", "conf/my.env"),
        ("${CONF:-conf}/my.env", "conf/my.env"),
        ("../up.env", "../up.env"),
    ] {
        let world = World::new();
        std::fs::create_dir(world.work().join("conf")).unwrap();
        world.write("tsugi.yaml", &format!("envFile: \"{named}\"\nservers: [{{name: mine, command: x}}]\n"));
        world.write(file, mine);
        world.write(".mcp.json", WITH_SECRET);
        let ran = world.run(&["init", "--merge", "--json"]).expect(0);
        assert!(ran.json()["configurations"][0]["secretsFile"].as_str().unwrap().ends_with("env"), "{ran:?}");
        let text = read(world.work().join(file));
        let added = text.strip_prefix(mine).unwrap_or_else(|| panic!("{named}: {text:?}"));
        assert_eq!(added, "\nGIT_TOKEN=\"canary-new\"\n", "{named}");
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(world.work().join(file)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "{named}");
        assert!(!world.work().join("tsugi.secrets.env").exists(), "{named}: no file that is not read");
        assert!(merged_token_is_set(&world), "{named}");
        world.run(&["init", "--merge"]).expect(0);
        assert_eq!(read(world.work().join(file)), text, "a second time adds nothing");
    }
}

#[test]
fn a_name_that_is_taken_in_the_environment_file_keeps_its_value() {
    let world = World::new();
    world.write("tsugi.yaml", "envFile: my.env\nservers: [{name: mine, command: x, env: {T: \"${GIT_TOKEN}\"}}]\n");
    world.write("my.env", "GIT_TOKEN=canary-mine\nGIT_TOKEN=canary-late\n");
    world.write(".mcp.json", WITH_SECRET);
    world.run(&["init", "--merge"]).expect(0);
    let expected = "GIT_TOKEN=canary-mine\nGIT_TOKEN=canary-late\nGIT_TOKEN_CLAUDE=\"canary-new\"\n";
    assert_eq!(read(world.work().join("my.env")), expected);
    assert!(read(world.work().join("tsugi.yaml")).contains("${GIT_TOKEN_CLAUDE}"));
}

#[test]
fn an_environment_file_that_cannot_be_added_to_is_refused_before_anything_is_written() {
    let check = |config: &str, file: &str, content: &[u8], words: &[&str], expected: &str| {
        let world = World::new();
        world.write("tsugi.yaml", config);
        world.write(file, "");
        std::fs::write(world.work().join(file), content).unwrap();
        world.write(".mcp.json", WITH_SECRET);
        let ran = world.run(words).expect(2);
        assert!(ran.stderr.contains(expected) && !ran.stderr.contains("canary"), "{words:?}: {}", ran.stderr);
        assert_eq!(std::fs::read(world.work().join(file)).unwrap(), content, "{words:?}");
        assert_eq!(read(world.work().join("tsugi.yaml")), config, "{words:?}");
        assert_eq!(read(world.work().join(".mcp.json")), WITH_SECRET, "{words:?}");
    };
    let named = "envFile: my.env\nservers: []\n";
    let merge = ["init", "--merge", "--write-clients"];
    check(named, "my.env", b"canary without assignment\n", &merge, "line 1 is not NAME=value");
    check(named, "my.env", b"A=\xff\n", &merge, "cannot be used");
    check("envFile: [my.env]\nservers: []\n", "my.env", b"A=1\n", &merge, "does not name a file");
    check("envFile: \"${NOT_SET}.env\"\nservers: []\n", "my.env", b"A=1\n", &merge, "does not name a file");
    // A replaced configuration names our file. What is in it already is not replaced.
    let ours = "tsugi.secrets.env";
    for words in [&["init", "--force"][..], &["import", "-o", "tsugi.yaml", "--force"]] {
        check(named, ours, b"GIT_TOKEN=canary-mine\n", words, "has another value for GIT_TOKEN");
    }
}

#[test]
fn secrets_with_a_dollar_sign_stay_off_stdout_and_out_of_the_repository() {
    let world = World::new();
    std::fs::create_dir(world.work().join(".git")).unwrap();
    world.write(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "sk-proj-canary$def0123456789"}}}}"#,
    );
    for words in [&["import"][..], &["import", "--json"], &["init", "--dry-run"], &["init"], &["check"]] {
        let ran = world.run(words).expect(0);
        assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{words:?}: {ran:?}");
    }
    assert!(!read(world.work().join("tsugi.yaml")).contains("canary"));
    assert!(read(world.work().join("tsugi.secrets.env")).contains("canary"));
    assert_eq!(read(world.work().join(".gitignore")), "/tsugi.secrets.env\n");
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
    let (project, user) = (read(world.work().join("tsugi.yaml")), read(user_config(&world)));
    assert!(project.contains("name: mine") && !project.contains("name: all"), "{project}");
    assert!(user.contains("name: all") && !user.contains("name: theirs"), "{user}");
    let after = read_json(&file);
    let own = &after["projects"][here.to_str().unwrap()];
    assert_eq!((&own["allowedTools"], keys(&own["mcpServers"])), (&json!([]), vec!["tsugi-project".to_owned()]));
    assert_eq!(
        (&after["projects"]["/elsewhere"], &after["numStartups"]),
        (&before["projects"]["/elsewhere"], &json!(7))
    );
    assert_eq!(keys(&after["mcpServers"]), ["tsugi"]);
    // Claude Code rewrites this file all the time. The servers come back, and what it wrote stays.
    let mut changed = after.clone();
    changed["numStartups"] = json!(8);
    std::fs::write(&file, changed.to_string()).unwrap();
    world.run(&["undo-init"]).expect(0);
    let mut expected = before.clone();
    expected["numStartups"] = json!(8);
    assert_eq!(read_json(&file), expected);
}
