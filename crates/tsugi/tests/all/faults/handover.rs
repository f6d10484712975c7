//! One gateway takes over from another on a socket that neither owns, under load: W-02.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;

use super::drain::client::{Caller, Heard};
use super::log::shell;
use super::scaled;
use crate::world::{Serving, TSUGI, World, until};

/// The faces whose requests stand alone: a session or a socket belongs to one process.
const STATELESS: [usize; 4] = [0, 1, 3, 4];

/// Starts a gateway with the socket as its file 3, as a supervisor does.
fn start(world: &World, socket: &TcpListener, config: &str) -> Serving {
    let script =
        format!("exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec {TSUGI} serve --config {config}");
    let socket = OwnedFd::from(socket.try_clone().unwrap());
    let child = shell(&world.command(&[]), &script).stdin(Stdio::from(socket)).stderr(Stdio::piped()).spawn().unwrap();
    Serving::of(child)
}

/// Calls until told to end, or until a call is not answered rightly: that one.
fn call_on(host: &str, number: usize, is_over: &AtomicBool, made: &AtomicUsize) -> Vec<String> {
    let mut caller = Caller::open(host, STATELESS[number % STATELESS.len()]);
    for round in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let mark = format!("mark-{number}-{round}-");
        match caller.call(&mark) {
            Heard::Answer(text) if text.contains(&mark) => _ = made.fetch_add(1, Ordering::SeqCst),
            Heard::Answer(text) => return vec![format!("{mark}: {text}")],
            Heard::Refusal => return vec![format!("{mark}: refused")],
            Heard::Broken(error) => return vec![format!("{mark}: {error}")],
        }
    }
    Vec::new()
}

#[test]
fn w02_a_gateway_that_takes_over_a_socket_under_load_refuses_and_resets_nobody() {
    // 50 in the row; here three, unless TSUGI_TEST_LONG is set.
    let world = World::new();
    let config = world.write("tsugi.yaml", "servers: [{name: far, builtin: demo}]\n");
    let config = config.to_str().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = socket.local_addr().unwrap().to_string();
    let mut serving = start(&world, &socket, config);
    assert_eq!(serving.url, format!("http://{host}"), "it listens on the socket it was given");
    let (is_over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let (host, is_over, made) = (&host, &is_over, &made);
        let callers: Vec<_> = (0..8).map(|number| scope.spawn(move || call_on(host, number, is_over, made))).collect();
        for _ in 0..scaled(3, 50) {
            let before = made.load(Ordering::SeqCst);
            until(|| made.load(Ordering::SeqCst) >= before + 100, || "nobody is served".to_owned());
            let next = start(&world, &socket, config);
            serving.signal(Signal::TERM);
            assert_eq!(serving.exit_code(), Some(0));
            serving = next;
        }
        is_over.store(true, Ordering::SeqCst);
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(wrong, [] as [&str; 0]);
    println!("{} calls answered", made.load(Ordering::SeqCst));
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0));
    world.assert_empty();
}

#[test]
fn w02_the_control_without_a_socket_of_its_starter_cannot_share_the_address() {
    let world = World::new();
    let serving = world.serve(&[]);
    let taken = serving.url.trim_start_matches("http://");
    let mut second = world.command(&["serve", "--listen", taken]);
    // Somebody else's socket is not ours, whatever the variables say.
    second.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    assert_eq!(second.stdin(Stdio::null()).output().unwrap().status.code(), Some(2));
}
