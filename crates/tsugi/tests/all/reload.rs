//! Another configuration for a running gateway: taken over as a whole, or not at all.

use std::path::PathBuf;

use rustix::process::Signal;

use crate::world::{Serving, World, until};

#[test]
fn servers_that_did_not_change_keep_their_process() {
    let world = World::new();
    let (one, two) = (world.entry("one"), world.entry("two"));
    let config = world.write("tsugi.yaml", &format!("servers: [{one}, {two}, {{name: demo, builtin: demo}}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let (first, second) = (serving.connected("one")["pid"].clone(), serving.connected("two")["pid"].clone());

    let changed = two.replace("name: two", "name: two, timeout: 5s");
    let three = world.entry("three");
    world.write("tsugi.yaml", &format!("servers: [{one}, {changed}, {three}]\ngateway: {{naming: bare}}\n"));
    serving.wait_for("configuration applied");
    serving.connected("three");
    assert_eq!(serving.connected("one")["pid"], first);
    assert_ne!(serving.connected("two")["pid"], second);
    assert!(serving.servers().iter().all(|server| server["name"] != "demo"));
}

#[test]
fn names_follow_the_new_configuration() {
    let world = World::new();
    let config = world.write("tsugi.yaml", "servers: [{name: demo, builtin: demo}]\n");
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let names = || serving.ask("POST", "/rpc", &[], list).1;
    until(|| names().contains("\"demo__echo\""), names);
    world.write("tsugi.yaml", "servers: [{name: demo, builtin: demo, deny: [greet]}]\ngateway: {naming: bare}\n");
    until(|| names().contains("\"echo\"") && !names().contains("\"greet\""), names);
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing() {
    let world = World::new();
    let good = format!("servers: [{}]\n", world.entry("one"));
    let config = world.write("tsugi.yaml", &good);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let pid = serving.connected("one")["pid"].clone();
    world.write("tsugi.yaml", &good.replace("command", "comand"));
    serving.signal(Signal::HUP);
    serving.wait_for("nothing was changed");
    assert!(serving.talk().contains("did you mean `command`"), "{}", serving.talk());
    assert_eq!(serving.connected("one")["pid"], pid);
}

#[test]
fn a_server_that_would_not_start_does_not_take_the_place_of_one_that_works() {
    let world = World::new();
    let one = world.entry("one");
    let config = world.write("tsugi.yaml", &format!("servers: [{one}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let pid = serving.connected("one")["pid"].clone();
    let dead = "{name: one, command: sh, args: [-c, 'echo no database >&2; exit 3']}";
    world.write("tsugi.yaml", &format!("servers: [{dead}]\n"));
    serving.wait_for("nothing was changed");
    assert!(serving.talk().contains("no database") && serving.talk().contains("exit code 3"), "{}", serving.talk());
    assert_eq!(serving.connected("one")["pid"], pid);

    // What was refused may be asked for again without touching the file.
    serving.signal(Signal::HUP);
    until(|| serving.talk().matches("nothing was changed").count() == 2, || serving.talk());
    assert_eq!(serving.connected("one")["pid"], pid);
}

/// Replaces the server by one that does not answer before the file that is given back exists.
fn replace_behind_gate(world: &World, serving: &Serving, entry: &str) -> PathBuf {
    let gate = world.path().join("gate");
    let slow = entry.replace("command: ", "command: sh, args: [-c, 'SCRIPT'], was: ");
    let child =
        entry.split("command: ").nth(1).unwrap().trim_end_matches("]}").replace(", args: [", " ").replace(", ", " ");
    let script = format!("while ! test -e {}; do sleep 0.05; done; exec {child}", gate.display());
    let slow = slow.split(", was: ").next().unwrap().replace("SCRIPT", &script) + "}";
    world.write("tsugi.yaml", &format!("servers: [{slow}]\n"));
    let is_starting = || world.mark.processes().iter().any(|process| process.command.contains("test -e"));
    until(is_starting, || format!("the new server does not start: {}", serving.talk()));
    gate
}

#[test]
fn a_key_that_is_revoked_while_a_configuration_is_being_made_ready_stays_revoked() {
    let world = World::new();
    let key =
        |name: &str| String::from_utf8(world.run(&["key", "add", name, "--admin"]).stdout).unwrap().trim().to_owned();
    let (ann, _bob) = (key("ann"), key("bob"));
    let one = world.entry("one");
    let config = world.write("tsugi.yaml", &format!("servers: [{one}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let is_let_in = || serving.ask("GET", "/mcp/tools", &[("X-Api-Key", &ann)], "").0.contains("200");
    assert!(is_let_in());
    let gate = replace_behind_gate(&world, &serving, &one);
    assert!(world.run(&["key", "revoke", "ann"]).status.success());
    until(|| !is_let_in(), || serving.talk());
    std::fs::write(gate, "").unwrap();
    serving.wait_for("configuration applied");
    assert!(!is_let_in());
}

#[test]
fn a_server_that_is_replaced_answers_until_the_new_one_can() {
    let world = World::new();
    let one = world.entry("one");
    let config = world.write("tsugi.yaml", &format!("servers: [{one}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    let pid = serving.connected("one")["pid"].clone();
    let gate = replace_behind_gate(&world, &serving, &one);
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__echo","arguments":{"message":"hi"}}}"#;
    assert!(serving.ask("POST", "/rpc", &[], call).1.contains("hi"));
    assert_eq!(serving.connected("one")["pid"], pid);
    std::fs::write(gate, "").unwrap();
    serving.wait_for("configuration applied");
    assert_ne!(serving.connected("one")["pid"], pid);
    assert!(serving.ask("POST", "/rpc", &[], call).1.contains("hi"));
}

#[test]
fn no_call_is_lost_while_its_server_is_replaced_again_and_again() {
    let world = World::new();
    let one = world.entry("one");
    let config = world.write("tsugi.yaml", &format!("servers: [{one}]\n"));
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("one");
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__echo","arguments":{"message":"hi"}}}"#;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let caller = || {
        let mut count = 0;
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let (_, answer) = serving.ask("POST", "/rpc", &[], call);
            assert!(answer.contains(r#""text":"hi""#), "after {count} calls: {answer}");
            count += 1;
        }
        count
    };
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(caller)).collect();
        for round in 1..=5 {
            let changed = one.replace("name: one", &format!("name: one, timeout: {round}s"));
            world.write("tsugi.yaml", &format!("servers: [{changed}]\n"));
            until(|| serving.talk().matches("configuration applied").count() == round, || serving.talk());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let count: i32 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert!(count > 20, "{count} calls");
    });
}
