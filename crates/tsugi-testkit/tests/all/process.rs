//! Counting processes from outside.

use std::process::Stdio;

use serde_json::json;
use tsugi_testkit::process::{
    Mark, descendants_of, is_alive, look_at, open_files, peak_resident_bytes, resident_bytes, send, zombies_of,
};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait::{PATIENCE, until_blocking};

use crate::peer::Peer;

fn started(action: Action) -> (Scripted, Peer) {
    let server = Scripted::new(Script::legacy().rule(Rule::on("start").act(action)));
    let mut peer = Peer::start(&server);
    peer.exchange("ping", json!({}));
    (server, peer)
}

#[test]
fn a_mark_counts_children_grandchildren_and_those_that_ran_away() {
    let (server, peer) = started(Action::Children(3));
    assert!(until_blocking(PATIENCE, || server.mark().count() == 4), "{:?}", server.mark().processes());
    assert_eq!(descendants_of(peer.child.id()).len(), 3);

    let (server, mut peer) = started(Action::Detached(2));
    assert!(until_blocking(PATIENCE, || server.mark().count() == 3), "{:?}", server.mark().processes());
    assert_eq!(descendants_of(peer.child.id()).len(), 0, "they have another parent");
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    assert_eq!(server.mark().count(), 2, "they outlive the one who started them");
}

#[test]
fn dropping_a_mark_leaves_nothing_behind() {
    let (server, peer) = started(Action::Detached(2));
    assert!(until_blocking(PATIENCE, || server.mark().count() == 3));
    let pids: Vec<u32> = server.mark().processes().iter().map(|process| process.pid).collect();
    drop(server);
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    drop(peer);
}

#[test]
fn a_bounded_fork_bomb_has_as_many_processes_as_it_says() {
    let (server, _peer) = started(Action::ForkBomb(10));
    assert!(until_blocking(PATIENCE, || server.mark().count() == 11), "{:?}", server.mark().processes());
}

#[test]
fn a_launcher_can_die_before_its_server() {
    let server = Scripted::new(Script { ignores_eof: true, ..Script::legacy() });
    let mut launcher = Peer::start_with(&server, server.launcher_args(), Stdio::null());
    launcher.exchange("ping", json!({}));
    let pid = server.journal().pids()[0];
    assert_ne!(pid, launcher.child.id());
    assert_eq!(look_at(pid).unwrap().parent, launcher.child.id());
    launcher.child.kill().unwrap();
    launcher.wait();
    assert!(is_alive(pid));
}

#[test]
fn a_stopped_process_and_a_zombie_are_seen_as_such() {
    let server = Scripted::new(Script::legacy().rule(Rule::on("tools/call").act(Action::Signal("STOP".into()))));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    let pid = peer.child.id();
    assert!(until_blocking(PATIENCE, || look_at(pid).is_some_and(|process| process.state == 'T')));
    send(pid, rustix::process::Signal::KILL);
    assert!(until_blocking(PATIENCE, || look_at(pid).is_some_and(|process| process.state == 'Z')));
    assert!(!is_alive(pid) && zombies_of(std::process::id()) >= 1);
}

#[test]
fn memory_and_files_are_measured() {
    let (_server, peer) = started(Action::Allocate(64 << 20));
    let pid = peer.child.id();
    assert!(
        resident_bytes(pid).unwrap() > 60 << 20 && peak_resident_bytes(pid).unwrap() >= resident_bytes(pid).unwrap()
    );
    assert!(open_files(pid).unwrap() >= 3);
    assert_eq!(open_files(u32::MAX), None);
    assert_eq!(Mark::new().count(), 0);
}
