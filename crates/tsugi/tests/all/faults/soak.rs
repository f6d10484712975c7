//! Trouble of every kind, one after another, for as long as one likes: W-05.
//!
//! The row is 72 hours with a fault each second. Here it is a few rounds; `TSUGI_TEST_LONG` makes it thousands.

use std::io::Write;

use rustix::process::Signal;
use serde_json::json;
use tsugi_testkit::process;

use super::scaled;
use crate::world::{Serving, World, modern_call, modern_headers, until};

/// What a gateway holds when nobody wants anything from it.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident: u64,
    files: usize,
    processes: usize,
}

impl Held {
    fn by(serving: &Serving, world: &World) -> Self {
        let pid = serving.child.id();
        Self {
            resident: process::resident_bytes(pid).unwrap(),
            files: process::open_files(pid).unwrap(),
            processes: world.mark.count(),
        }
    }

    /// Whether something was left behind since then.
    fn holds_more(self, before: Self) -> bool {
        self.files > before.files + 2
            || self.processes > before.processes
            || self.resident >= before.resident + (16 << 20)
    }
}

fn echo(serving: &Serving, server: &str) {
    let tool = format!("{server}__echo");
    let body = modern_call(&tool, json!({"message": "fine"}));
    let (head, answer) = serving.ask("POST", "/mcp", &modern_headers(&tool), &body);
    assert!(answer.contains("fine"), "{server}: {head}\n{answer}");
}

/// A client leaves in the middle of a call.
fn client_leaves(serving: &Serving) {
    let body = modern_call("far__wait", json!({"seconds": 30, "steps": 60}));
    drop(serving.open("POST", "/mcp", &modern_headers("far__wait"), &body));
}

/// A client sends what is no request, or half of one.
fn client_talks_nonsense(serving: &Serving) {
    for text in ["\0\0\0\0", "POST /mcp HTTP/1.1\r\nContent-Length: 99\r\n\r\n{", "GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = std::net::TcpStream::connect(serving.url.trim_start_matches("http://")).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    }
    let (head, _) = serving.ask("POST", "/rpc", &[], &"[".repeat(100_000));
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
}

/// A server's process is killed, and it comes back. Not in every round: a server that ends five times in ten
/// seconds is left alone for a minute, as it should be. In the others it is started anew by an operator.
fn server_dies(serving: &Serving, round: usize) {
    let pid = serving.connected("far")["pid"].as_u64().unwrap();
    match round % 50 {
        0 | 5 => process::send(pid as u32, Signal::KILL),
        _ => _ = serving.ask("POST", "/servers/far/restart", &[], ""),
    }
    until(|| serving.connected("far")["pid"] != pid, || "the server does not come back".to_owned());
}

/// The configuration is read again, once in a broken form.
fn configuration_changes(serving: &Serving, world: &World, text: &str, round: usize) {
    let said = |words: &str| serving.talk().matches(words).count();
    let refused = said("nothing was changed");
    world.write("tsugi.yaml", "servers: [");
    serving.signal(Signal::HUP);
    until(|| said("nothing was changed") > refused, || serving.talk());
    let taken = said("configuration applied");
    world.write("tsugi.yaml", &text.replace("timeout: 40s", &format!("timeout: {}s", 41 + round % 10)));
    serving.signal(Signal::HUP);
    until(|| said("configuration applied") > taken, || serving.talk());
}

/// A legacy session that its client forgets.
fn session_is_forgotten(serving: &Serving) {
    let params =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let (head, _) = serving.ask("POST", "/mcp", &[crate::world::ACCEPT], &message);
    assert!(head.contains("mcp-session-id"), "{head}");
}

#[test]
fn w05_trouble_round_after_round_leaves_nothing_behind() {
    let world = World::new();
    let far = world.entry("far");
    let text = format!("servers: [{far}, {{name: demo, builtin: demo, timeout: 40s}}]\n");
    let config = world.write("tsugi.yaml", &text);
    let mut serving = world.serve(&["--config", config.to_str().unwrap()]);
    let round = |number: usize| {
        client_leaves(&serving);
        client_talks_nonsense(&serving);
        echo(&serving, "demo");
        server_dies(&serving, number);
        echo(&serving, "far");
        configuration_changes(&serving, &world, &text, number);
        session_is_forgotten(&serving);
        serving.connected("demo");
        echo(&serving, "demo");
    };
    (0..3).for_each(round);
    let at_rest = || {
        let running = |server: &serde_json::Value| server["inFlight"].as_u64().unwrap_or(0);
        until(|| serving.servers().iter().map(running).sum::<u64>() == 0, || format!("{:?}", serving.servers()));
        Held::by(&serving, &world)
    };
    let before = at_rest();
    (3..scaled(10, 2000)).for_each(round);
    until(|| !at_rest().holds_more(before), || format!("something is left: {before:?} {:?}", at_rest()));
    println!("{before:?} {:?}", at_rest());
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0));
    world.assert_empty();
}

/// Something leaks on purpose: connections that nobody closes, and a process that nobody ends.
#[test]
fn w05_the_control_in_which_something_is_left_is_found_to_hold_more() {
    let world = World::new();
    let config = world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("far")));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("far");
    let before = Held::by(&serving, &world);
    assert!(!Held::by(&serving, &world).holds_more(before));
    let host = serving.url.trim_start_matches("http://");
    let left: Vec<_> = (0..10).map(|_| std::net::TcpStream::connect(host).unwrap()).collect();
    until(|| Held::by(&serving, &world).holds_more(before), || "open connections are not found".to_owned());
    drop(left);
    until(|| !Held::by(&serving, &world).holds_more(before), || format!("{before:?} {:?}", Held::by(&serving, &world)));
    let second = world.serve(&["--config", config.to_str().unwrap()]);
    second.connected("far");
    assert!(Held::by(&serving, &world).holds_more(before), "processes that are left are not found");
}
