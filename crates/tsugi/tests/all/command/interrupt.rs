//! Being interrupted: the call is cancelled, and no process is left.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait::{PATIENCE, until_blocking};

use super::world::{Ran, World, entry};

fn call_under_way(scripted: &Scripted) -> (World, Child) {
    let world = World::with_servers(json!([entry("s", scripted)]));
    let child = world.command(&["call", "s/sleep", "ms=600000"]).spawn().unwrap();
    assert!(until_blocking(PATIENCE, || !scripted.journal().received("tools/call").is_empty()), "the call never came");
    (world, child)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

fn is_gone(scripted: &Scripted) -> bool {
    until_blocking(PATIENCE, || scripted.mark().count() == 0)
}

#[test]
fn an_interrupted_call_is_cancelled_and_nothing_is_left() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for script in [Script::legacy(), Script::modern()] {
            let scripted = Scripted::new(script);
            let (_world, child) = call_under_way(&scripted);
            send(&child, signal);
            let ran = Ran::of(child).expect(130);
            assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "interrupted\n"));
            assert_eq!(scripted.journal().cancelled().len(), 1, "{signal:?}");
            assert_eq!(scripted.mark().count(), 0, "{:?}", scripted.mark().processes());
        }
    }
}

#[test]
fn a_server_that_ignores_everything_is_ended_all_the_same() {
    let scripted = Scripted::new(Script { ignores_eof: true, ignores_sigterm: true, ..Script::legacy() });
    let (_world, child) = call_under_way(&scripted);
    send(&child, Signal::INT);
    Ran::of(child).expect(130);
    assert_eq!(scripted.mark().count(), 0, "{:?}", scripted.mark().processes());
}

#[test]
fn whoever_interrupts_twice_does_not_wait_and_still_nothing_is_left() {
    let scripted = Scripted::new(Script { ignores_eof: true, ignores_sigterm: true, ..Script::legacy() });
    let (_world, child) = call_under_way(&scripted);
    send(&child, Signal::INT);
    assert!(until_blocking(PATIENCE, || scripted.journal().cancelled().len() == 1));
    send(&child, Signal::INT);
    Ran::of(child).expect(130);
    assert!(is_gone(&scripted), "{:?}", scripted.mark().processes());
}

#[test]
fn nothing_is_left_of_a_command_that_is_killed() {
    let scripted = Scripted::new(Script { ignores_eof: true, ignores_sigterm: true, ..Script::legacy() });
    let (_world, mut child) = call_under_way(&scripted);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_gone(&scripted), "{:?}", scripted.mark().processes());
}

#[test]
fn nothing_is_left_of_a_command_that_ends_well() {
    let scripted = Scripted::new(Script { ignores_eof: true, ..Script::legacy() });
    let world = World::with_servers(json!([entry("s", &scripted)]));
    world.run(&["call", "s/echo", "message=x"]).expect(0);
    assert_eq!(scripted.mark().count(), 0, "{:?}", scripted.mark().processes());
}

#[test]
fn a_reader_that_went_away_ends_the_command_quietly() {
    let world = World::new();
    let mut child = world.command(&["tools", "-q"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child).expect(0);
    assert_eq!(ran.stderr, "");
}
