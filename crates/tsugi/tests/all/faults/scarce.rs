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

#[test]
fn w04_a_gateway_that_can_write_nothing_serves_all_the_same() {
    let world = World::new();
    let far = world.entry("far");
    let config = world.write("tsugi.yaml", &format!("servers: [{far}, {{name: demo, builtin: demo}}]\n"));
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    // There is no folder below a device, not even for root.
    command.env("XDG_STATE_HOME", "/dev/null/state").env("XDG_CACHE_HOME", "/dev/null/cache");
    let serving = Serving::of(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    serving.connected("far");
    works(&serving);
    ends_well(serving, &world);
}

/// The command inside a mount namespace of its own, with a disk of 16 KiB for its state; nothing where the
/// system does not allow that.
fn on_a_full_disk(world: &World, config: &str) -> Option<Command> {
    let state = world.path().join("state");
    std::fs::create_dir_all(&state).unwrap();
    let mount =
        format!("mount -t tmpfs -o size=16k none {0} && cat /dev/zero > {0}/filler 2>/dev/null", state.display());
    let check = format!("unshare -m sh -c '{mount}; test -s {}/filler'", state.display());
    let is_allowed = shell(&world.command(&[]), &check).output().is_ok_and(|output| output.status.success());
    if !is_allowed {
        println!("not tried: this system does not let us mount a small disk");
        return None;
    }
    let run =
        format!("export XDG_STATE_HOME={}; exec {TSUGI} serve --listen 127.0.0.1:0 --config {config}", state.display());
    Some(shell(&world.command(&[]), &format!("exec unshare -m sh -c '{mount}; {run}'")))
}

#[test]
fn w04_a_gateway_on_a_full_disk_serves_all_the_same() {
    let world = World::new();
    let far = world.entry("far");
    let config = world.write("tsugi.yaml", &format!("servers: [{far}, {{name: demo, builtin: demo}}]\n"));
    let Some(mut command) = on_a_full_disk(&world, config.to_str().unwrap()) else { return };
    let serving = Serving::of(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    serving.connected("far");
    works(&serving);
    ends_well(serving, &world);
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
