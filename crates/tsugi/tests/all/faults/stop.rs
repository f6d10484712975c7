//! It is told to stop, or its client is gone: W-01, D-15.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::log::shell;
use super::scaled;
use crate::world::{TSUGI, World, modern_call, modern_headers, until};

/// One drain with 200 calls in flight, half of them at servers in processes of their own.
fn drain_under_load() {
    let world = World::new();
    let (far, farther) = (world.entry("far"), world.entry("farther"));
    let text = format!("servers: [{far}, {farther}, {{name: demo, builtin: demo}}, {{name: near, builtin: demo}}]\n");
    let config = world.write("tsugi.yaml", &text);
    let mut serving = world.serve(&["--config", config.to_str().unwrap()]);
    for name in ["far", "farther", "demo", "near"] {
        serving.connected(name);
    }
    let mut running = Vec::new();
    for index in 0..200 {
        // 25 s at most in the row; here up to 4.
        let tool = format!("{}__wait", ["far", "farther", "demo", "near"][index % 4]);
        let body = modern_call(&tool, json!({"seconds": 2.0 + (index % 20) as f64 / 10.0, "steps": 40}));
        running.push(serving.open("POST", "/mcp", &modern_headers(&tool), &body));
    }
    for stream in &mut running {
        // The first progress brings the head of the answer: the call is under way.
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    serving.signal(Signal::TERM);
    serving.wait_for("stopping");
    let (head, body) =
        serving.ask("POST", "/mcp", &modern_headers("demo__echo"), &modern_call("demo__echo", json!({})));
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("-31007"), "{head}\n{body}");
    let mut lost = 0;
    for mut stream in running {
        let mut answer = String::new();
        let is_whole = stream.read_to_string(&mut answer).is_ok() && answer.contains("Waited ");
        lost += usize::from(!is_whole);
    }
    assert_eq!(lost, 0, "calls were lost");
    assert_eq!(serving.exit_code(), Some(0));
    world.assert_empty();
}

#[test]
fn w01_a_process_that_is_told_to_stop_with_200_calls_in_flight_loses_none() {
    // 50 drains in all in the issue; here one with real processes (and five in the gateway's own tests).
    for _ in 0..scaled(1, 50) {
        drain_under_load();
    }
}

/// Starts this as the stdio gateway of a client, which is then killed, and waits until it and its servers are gone;
/// what is left when they do not go.
fn left_by(world: &World, gateway: &str) -> usize {
    // The shell is the client: it alone holds the writing end of the gateway's input.
    let script = format!("mkfifo pipe; {gateway} <pipe & exec 9>pipe; read never");
    let mut parent = shell(&world.command(&[]), &script)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let servers = || world.mark.processes().iter().filter(|process| process.command.contains("--server")).count();
    until(|| servers() >= 2, || format!("the servers do not start: {:?}", world.mark.processes()));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let start = Instant::now();
    while world.mark.count() > 0 && start.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(20));
    }
    world.mark.count()
}

#[test]
fn d15_when_the_parent_of_a_stdio_gateway_is_killed_everything_goes() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &format!("servers: [{}, {}]\n", world.entry("one"), world.entry("two")));
    assert_eq!(left_by(&world, &format!("{TSUGI} stdio --config {}", config.display())), 0);
}

/// A launcher that starts two servers, waits for them and does not look at its input.
#[test]
fn d15_the_control_that_does_not_look_at_its_input_stays_with_its_servers() {
    let world = World::new();
    let server = |name: &str| format!("sh -c \"sleep 600; :\" {name} --server &");
    let launcher = format!("sh -c '{} {} wait'", server("one"), server("two"));
    assert!(left_by(&world, &launcher) >= 3, "{:?}", world.mark.processes());
}
