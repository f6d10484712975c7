//! Other programs' files, from the command line.

use std::os::unix::fs::PermissionsExt;

use super::world::World;

const CLAUDE: &str = r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"GIT_TOKEN": "canary-secret-1"}}}}"#;

fn world() -> World {
    let world = World::new();
    world.write(".mcp.json", CLAUDE);
    world
}

#[test]
fn what_is_found_is_printed_without_its_secrets() {
    for words in [&["import"][..], &["import", "claude"], &["import", ".mcp.json"]] {
        let ran = world().run(words).expect(0);
        assert!(ran.stdout.contains("- name: git") && ran.stdout.contains("command: uvx"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{ran:?}");
        assert!(ran.stderr.contains("Claude Code: 1 server from"), "{}", ran.stderr);
    }
}

#[test]
fn a_file_that_is_written_can_be_used_and_its_secrets_are_for_the_owner_alone() {
    let world = world();
    world.run(&["import", "-o", "tsugi.yaml"]).expect(0);
    let secrets = world.work().join("tsugi.secrets.env");
    assert_eq!(std::fs::metadata(&secrets).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&secrets).unwrap().contains("canary-secret-1"));
    let checked = world.run(&["check"]).expect(0);
    assert!(checked.stdout.contains("uvx mcp-server-git"), "{checked:?}");
}

#[test]
fn nothing_is_written_over_without_force() {
    let world = world();
    world.write("tsugi.yaml", "servers: []\n");
    let ran = world.run(&["import", "-o", "tsugi.yaml"]).expect(2);
    assert!(ran.stderr.contains("is there already") && ran.stderr.contains("--force"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(world.work().join("tsugi.yaml")).unwrap(), "servers: []\n");
    world.run(&["import", "-o", "tsugi.yaml", "--force"]).expect(0);
}

#[test]
fn what_is_not_there_is_said_with_what_could_be() {
    let world = World::new();
    assert!(world.run(&["import"]).expect(2).stderr.contains("no file of another program"));
    assert!(world.run(&["import", "cursr"]).expect(2).stderr.contains("did you mean `cursor`?"));
    assert!(world.run(&["import", "cursor"]).expect(2).stderr.contains("no file of Cursor was found"));
    world.write("odd.json", "{}");
    assert!(world.run(&["import", "odd.json"]).expect(2).stderr.contains("not clear which program"));
}
