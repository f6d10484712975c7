//! The disk takes nothing and names cannot be resolved: the rest of W-04.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::log::shell;
use crate::world::{Serving, TSUGI, World, modern_call, modern_headers, until};

/// A tool of the built-in server can be called.
fn works(serving: &Serving) {
    let body = modern_call("demo__echo", json!({"message": "fine"}));
    let (head, answer) = serving.ask("POST", "/mcp", &modern_headers("demo__echo"), &body);
    assert!(answer.contains("fine"), "{head}\n{answer}");
}

fn ends_well(mut serving: Serving, world: &World) {
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0), "{}", serving.talk());
    world.assert_empty();
}

/// The command inside a mount namespace of its own, with this disk for its state; nothing where the system does
/// not allow that.
fn on_disk(world: &World, config: &str, mount: &str) -> Option<Command> {
    let state = world.path().join("state");
    std::fs::create_dir_all(&state).unwrap();
    let state = state.display();
    let check = format!("cd {state}; unshare -m sh -c '{mount} . && ! head -c 32768 /dev/zero > {state}/test'");
    if !shell(&world.command(&[]), &check).output().is_ok_and(|output| output.status.success()) {
        #[expect(clippy::print_stderr, reason = "who reads the output of a test wants to know what was left out")]
        {
            eprintln!("not tried: this system does not let us mount a disk");
        }
        return None;
    }
    let run = format!("export XDG_STATE_HOME={state}; exec {TSUGI} serve --listen 127.0.0.1:0 --config {config}");
    let fill = format!("cat /dev/zero > {state}/filler 2>/dev/null");
    Some(shell(&world.command(&[]), &format!("exec unshare -m sh -c '{mount} {state}; {fill}; {run}'")))
}

/// A gateway whose state is on such a disk starts its servers, serves, and stops.
fn serves_on(mount: &str) {
    let world = World::new();
    let far = world.entry("far");
    let config = world.write("tsugi.yaml", &format!("servers: [{far}, {{name: demo, builtin: demo}}]\n"));
    let Some(mut command) = on_disk(&world, config.to_str().unwrap(), mount) else { return };
    let serving = Serving::of(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    serving.connected("far");
    works(&serving);
    ends_well(serving, &world);
}

#[test]
fn w04_a_gateway_that_can_write_nothing_serves_all_the_same() {
    serves_on("mount -t tmpfs -o ro none");
}

#[test]
fn w04_a_gateway_on_a_full_disk_serves_all_the_same() {
    serves_on("mount -t tmpfs -o size=16k none");
}

#[test]
fn w04_a_name_that_cannot_be_resolved_is_that_servers_trouble_alone() {
    let world = World::new();
    let text = "servers: [{name: gone, url: 'http://tsugi.invalid/mcp'}, {name: demo, builtin: demo}]\n";
    let config = world.write("tsugi.yaml", text);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("demo");
    works(&serving);
    let gone = || serving.servers().into_iter().find(|server| server["name"] == "gone").unwrap();
    until(|| gone()["fault"] != Value::Null, || format!("no reason is shown: {}", gone()));
    assert!(gone()["fault"].to_string().contains("tsugi.invalid"), "{}", gone()["fault"]);
    works(&serving);
    ends_well(serving, &world);
}
