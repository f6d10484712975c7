//! The configuration changes again and again under load: W-03.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;

use super::scaled;
use crate::world::{Serving, World, until};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__echo","arguments":{"message":"hi"}}}"#;

/// Calls until told to end; how many calls were made and how many failed.
fn load(serving: &Arc<Serving>, is_over: &Arc<AtomicBool>) -> std::thread::JoinHandle<(usize, usize)> {
    let (serving, is_over) = (serving.clone(), is_over.clone());
    std::thread::spawn(move || {
        let (mut made, mut failed) = (0, 0);
        while !is_over.load(Ordering::SeqCst) {
            let (_, body) = serving.ask("POST", "/rpc", &[], CALL);
            made += 1;
            failed += usize::from(!body.contains("\"hi\""));
        }
        (made, failed)
    })
}

#[test]
fn w03_reloads_under_load_touch_nothing_that_did_not_change_and_leave_nothing_behind() {
    // 1,000 reloads in the row; here 10, unless TSUGI_TEST_LONG is set.
    let world = World::new();
    let (one, two) = (world.entry("one"), world.entry("two"));
    let good = |round: usize| {
        let changed = two.replace("name: two", &format!("name: two, timeout: {}s", 5 + round % 50));
        format!("servers: [{one}, {changed}]\n")
    };
    let config = world.write("tsugi.yaml", &good(0));
    let serving = Arc::new(world.serve(&["--config", config.to_str().unwrap()]));
    let pid = serving.connected("one")["pid"].clone();
    serving.connected("two");
    let before = world.mark.count();
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4).map(|_| load(&serving, &is_over)).collect();
    let said = |words: &str| serving.talk().matches(words).count();
    let refusals = AtomicUsize::new(0);
    for round in 1..=scaled(10, 1000) {
        if round % 3 == 0 {
            // Half a file, as an editor that writes in place leaves it for a moment.
            let half = &good(round)[..good(round).len() / 2];
            world.write("tsugi.yaml", half);
            serving.signal(Signal::HUP);
            let expected = refusals.fetch_add(1, Ordering::SeqCst) + 1;
            until(|| said("nothing was changed") >= expected, || serving.talk());
        }
        world.write("tsugi.yaml", &good(round));
        until(|| said("configuration applied") >= round, || serving.talk());
        assert_eq!(serving.connected("one")["pid"], pid, "round {round}");
    }
    is_over.store(true, Ordering::SeqCst);
    for caller in callers {
        let (made, failed) = caller.join().unwrap();
        assert!(made > 0 && failed == 0, "{failed} of {made} calls failed");
    }
    serving.connected("two");
    until(|| world.mark.count() <= before, || format!("processes were leaked: {:?}", world.mark.processes()));
    serving.signal(Signal::TERM);
    let mut serving = Arc::into_inner(serving).expect("the callers have ended");
    assert_eq!(serving.exit_code(), Some(0));
    world.assert_empty();
}

/// What most launchers do about another configuration: they stop and start again.
#[test]
fn w03_the_control_that_starts_anew_replaces_what_did_not_change_and_loses_calls() {
    let world = World::new();
    let (one, two) = (world.entry("one"), world.entry("two"));
    let config = world.write("tsugi.yaml", &format!("servers: [{one}, {two}]\n"));
    let arguments = ["--config", config.to_str().unwrap()];
    let mut serving = world.serve(&arguments);
    let pid = serving.connected("one")["pid"].clone();
    let address = serving.url.trim_start_matches("http://").to_owned();
    world.write("tsugi.yaml", &format!("servers: [{one}, {}]\n", two.replace("name: two", "name: two, timeout: 5s")));
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0));
    assert!(std::net::TcpStream::connect(&address).is_err(), "whoever calls now is refused");
    let again = world.serve(&arguments);
    assert_ne!(again.connected("one")["pid"], pid, "its settings did not change");
}
