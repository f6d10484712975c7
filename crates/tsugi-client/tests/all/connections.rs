//! `maxConnections` over a whole manager: never more processes than allowed, and the one unused for longest goes.

use std::time::Duration;

use serde_json::json;
use tsugi_client::config::InstancePolicy;
use tsugi_client::{EraChoice, Manager, ManagerOptions, Server, ServerConfig};
use tsugi_protocol::answer::{Answer, Caller, FaultCode, Outcome};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use crate::outcome::fault;
use crate::world::{LIMIT, Peer, SHORT, call, config, options, within};

struct World {
    peers: Vec<Scripted>,
    servers: Vec<Server>,
    manager: Manager,
}

fn world(script: fn() -> Script, count: usize, most: usize) -> World {
    world_with(script, count, most, |_| {})
}

fn world_with(script: fn() -> Script, count: usize, most: usize, set: fn(&mut ServerConfig)) -> World {
    let manager = Manager::new(ManagerOptions { max_connections: Some(most), ..options() });
    let peers: Vec<Scripted> = (0..count).map(|_| Scripted::new(script())).collect();
    let register = |(number, peer): (usize, &Scripted)| {
        let mut config = config(&format!("server-{number}"), peer.target());
        set(&mut config);
        manager.register(config).unwrap()
    };
    let servers = peers.iter().enumerate().map(register).collect();
    World { peers, servers, manager }
}

impl World {
    /// Which servers have a process, seen from outside.
    fn running(&self) -> Vec<usize> {
        let alive = self.peers.iter().enumerate().filter(|(_, peer)| !peer.processes().is_empty());
        alive.map(|(number, _)| number).collect()
    }

    fn launches(&self) -> u64 {
        self.peers.iter().map(|peer| peer.journal().launches()).sum()
    }

    async fn all_known(&self) {
        let known = || self.servers.iter().all(|server| server.catalog().is_some());
        assert!(wait::until_within(LIMIT, known).await, "some never told what they offer");
    }

    async fn echo(&self, number: usize) -> Outcome {
        self.servers[number].answer(call("echo", json!({"message": "hi"}))).outcome().await
    }

    async fn works(&self, number: usize) {
        let outcome = self.echo(number).await;
        assert!(matches!(outcome, Outcome::Complete(_)), "{number}: {outcome:?}");
    }

    /// The same, and waits until a server that was connected for it has told its lists: until then it is in use.
    async fn settles(&self, number: usize) {
        self.works(number).await;
        let (journal, server) = (self.peers[number].journal(), &self.servers[number]);
        let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
        let is_told = || lists.iter().all(|list| journal.received(list).len() as u64 >= journal.launches());
        assert!(wait::until(|| is_told() && server.status().in_flight == 0).await, "{number} never told its lists");
    }
}

/// Watches the processes while something goes on, and gives the most that were there at once.
async fn most_at_once(world: &World, work: impl Future<Output = ()>) -> usize {
    let mut most = 0;
    let mut work = std::pin::pin!(work);
    loop {
        most = most.max(world.running().len());
        tokio::select! {
            () = &mut work => return most,
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
        }
    }
}

#[tokio::test]
async fn all_servers_are_known_and_can_be_called_though_only_some_may_be_connected() {
    let world = world(Script::legacy, 4, 2);
    let most = most_at_once(&world, async {
        world.all_known().await;
        for number in [0, 1, 2, 3, 0, 3, 1, 2] {
            world.works(number).await;
        }
    })
    .await;
    assert_eq!(most, 2, "as many as allowed, and never more");
    world.manager.stop().await;
    assert!(wait::until(|| world.running().is_empty()).await);
}

#[tokio::test]
async fn the_connection_unused_for_longest_makes_room() {
    let world = world(Script::modern, 3, 2);
    world.all_known().await;
    for number in [0, 1, 0, 2] {
        world.settles(number).await;
    }
    assert_eq!(world.running(), [0, 2], "1 was used before 0");
    let launches = world.launches();
    world.works(0).await;
    world.works(2).await;
    assert_eq!(world.launches(), launches, "what is connected is used again");
}

#[tokio::test]
async fn a_connection_in_use_is_never_closed_and_who_finds_no_room_hears_why() {
    let world = world(Script::legacy, 2, 1);
    world.all_known().await;
    world.works(0).await;
    let busy = tokio::spawn(world.servers[0].answer(call("sleep", json!({"ms": 1500}))).outcome());
    assert!(wait::until(|| world.servers[0].status().in_flight == 1).await);
    let refused = world.servers[1].answer(within(call("echo", json!({})), SHORT)).outcome().await;
    let fault = fault(&refused);
    assert_eq!((fault.code, fault.retryable), (FaultCode::Overloaded, true), "{fault}");
    assert_eq!(fault.message, "all 1 connections are in use");
    // One that waits longer has its turn when the other is done, and neither is cut short.
    let patient = world.echo(1).await;
    assert!(matches!(patient, Outcome::Complete(_)), "{patient:?}");
    let busy = busy.await.unwrap();
    assert!(matches!(busy, Outcome::Complete(_)), "{busy:?}");
}

#[tokio::test]
async fn sessions_and_pools_count_with_all_the_others() {
    let world = world_with(Script::legacy, 2, 2, |config| {
        config.era = EraChoice::Legacy;
        config.instances = InstancePolicy::PerSession;
    });
    let most = most_at_once(&world, async {
        world.all_known().await;
        for name in ["one", "two", "three"] {
            for server in &world.servers {
                let outcome = server
                    .answer(call("echo", json!({"message": "hi"})).from_caller(Caller::of_key("ann").in_session(name)))
                    .outcome()
                    .await;
                assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
            }
        }
    })
    .await;
    assert!(most <= 2, "{most}");
    let processes: usize = world.peers.iter().map(|peer| peer.processes().len()).sum();
    assert!(processes <= 2, "{processes}");
}
