//! The disk takes nothing and names cannot be resolved: the rest of W-04.

use std::io::Write;
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

/// A command that has to write, on the same disks.
#[test]
fn w04_the_control_that_must_write_fails_on_such_disks() {
    for mount in ["mount -t tmpfs -o ro none", "mount -t tmpfs -o size=16k none"] {
        let world = World::new();
        let config = world.write("tsugi.yaml", "servers: []\n");
        if on_disk(&world, config.to_str().unwrap(), mount).is_none() {
            return;
        }
        let state = world.path().join("state").display().to_string();
        let run = format!("export XDG_STATE_HOME={state}; exec {TSUGI} key add ann");
        let fill = format!("cat /dev/zero > {state}/filler 2>/dev/null");
        let script = format!("exec unshare -m sh -c '{mount} {state}; {fill}; {run}'");
        let ended = shell(&world.command(&[]), &script).stdin(Stdio::null()).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{mount}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}

/// A gateway that may have so many kibibytes of address space.
fn with_memory(world: &World, kibibytes: usize) -> Serving {
    let config = world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("far")));
    let script =
        format!("ulimit -v {kibibytes}; exec {TSUGI} serve --listen 127.0.0.1:0 --config {}", config.display());
    let mut command = shell(&world.command(&[]), &script);
    Serving::of(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Sends most of a large request and leaves it there.
fn stall(serving: &Serving) -> Option<std::net::TcpStream> {
    let host = serving.url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).ok()?;
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    let head = format!("{head}Content-Length: {}\r\n\r\n", 4 << 20);
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&[b' '; 4_000_000])).ok()?;
    Some(stream)
}

#[test]
fn w04_a_gateway_with_little_memory_serves_and_its_end_for_want_of_memory_leaves_no_process() {
    let world = World::new();
    let mut serving = with_memory(&world, 700_000);
    serving.connected("far");
    let body = modern_call("far__echo", json!({"message": "fine"}));
    let (_, answer) = serving.ask("POST", "/mcp", &modern_headers("far__echo"), &body);
    assert!(answer.contains("fine"), "{answer}");
    // More than there is room for, which ends the process: what it may hold is bounded for each request only.
    let mut held = Vec::new();
    while held.len() < 400 {
        let Some(stream) = stall(&serving) else {
            // A process that ends closes its sockets first; its exit shows a moment later.
            until(|| serving.child.try_wait().unwrap().is_some(), || format!("refused after {}", held.len()));
            break;
        };
        held.push(stream);
    }
    assert!(held.len() > 20, "it takes a few large requests at a time: {}", held.len());
    if held.len() == 400 {
        // It bore all of them: then it must still serve.
        let (_, answer) = serving.ask("POST", "/mcp", &modern_headers("far__echo"), &body);
        assert!(answer.contains("fine"), "{answer}");
        return;
    }
    drop(held);
    world.assert_empty();
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
