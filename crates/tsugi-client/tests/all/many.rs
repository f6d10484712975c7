//! Many servers at once: all of them start together, so that the slowest alone decides when all are there.

use std::path::Path;

use tsugi_client::{ConnectTarget, Manager};
use tsugi_process::JobCommand;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use crate::world::{LIMIT, Peer, config, options};

const SERVERS: usize = 20;

/// A server that does not begin before the gate is there.
fn behind_gate(scripted: &Scripted, gate: &Path) -> JobCommand {
    let wait = r#"until [ -e "$0" ]; do sleep 0.02; done; exec "$@""#;
    let start = JobCommand::new("sh").args(["-c", wait]).args([gate]).args([scripted.program()]).args(scripted.args());
    scripted.env().into_iter().fold(start, |command, (name, value)| command.env(name, value))
}

/// No clock is needed to see it: none of them can answer before the gate opens, and it opens only when all
/// twenty are under way.
#[tokio::test]
async fn twenty_servers_are_under_way_before_the_first_has_answered() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let peers: Vec<Scripted> = (0..SERVERS).map(|_| Scripted::new(Script::legacy())).collect();
    let manager = Manager::new(options());
    let servers: Vec<_> = peers
        .iter()
        .enumerate()
        .map(|(number, peer)| {
            let target = ConnectTarget::stdio(behind_gate(peer, &gate));
            manager.register(config(&format!("server-{number}"), target)).unwrap()
        })
        .collect();
    assert!(wait::until_within(LIMIT, || peers.iter().all(|peer| !peer.processes().is_empty())).await, "not all began");
    std::fs::write(&gate, "").unwrap();
    for server in &servers {
        assert!(!server.ready(LIMIT).await.unwrap().tools.items.is_empty());
    }
    manager.stop().await;
    assert!(wait::until_within(LIMIT, || peers.iter().all(|peer| peer.processes().is_empty())).await, "some are left");
}
