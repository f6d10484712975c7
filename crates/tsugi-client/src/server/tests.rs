//! Resting, waking and being started again, seen from inside: from outside these moments cannot be met on purpose.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;
use tsugi_process::Command;
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::Server;
use crate::config::EraChoice;
use crate::{Manager, Options, ServerConfig, Target};

struct World {
    _scripted: Scripted,
    manager: Manager,
    server: Server,
}

async fn world() -> World {
    let scripted = Scripted::new(Script::legacy().rule(Rule::on_tool("count").act(Action::Silence)));
    let command = Command::new(scripted.program()).args(scripted.args());
    let command = scripted.env().into_iter().fold(command, |command, (name, value)| command.env(name, value));
    let mut config = ServerConfig::new("s", Target::stdio(command));
    config.era = EraChoice::Legacy;
    let manager = Manager::new(Options { max_connections: Some(1), ..Options::default() });
    let server = manager.register(config).unwrap();
    server.ready(wait::PATIENCE).await.unwrap();
    assert!(wait::until(|| server.inner.may_leave()).await);
    World { _scripted: scripted, manager, server }
}

fn call(tool: &str) -> Call {
    let mut call = Call::tool(tool, Some(&json!({"message": "hi"}).into()));
    call.meta = RequestMeta::of_client(Options::default().profile);
    call
}

impl World {
    async fn works(&self) {
        let outcome = tokio::time::timeout(wait::PATIENCE, self.server.answer(call("echo")).outcome()).await;
        assert!(matches!(outcome, Ok(Outcome::Complete(_))), "{outcome:?}");
    }

    async fn rest(&self) {
        assert!(self.server.inner.rest());
        assert!(wait::until(|| !self.server.inner.is_live()).await);
    }
}

#[tokio::test]
async fn a_server_that_was_woken_does_not_rest_any_more() {
    let world = world().await;
    world.rest().await;
    assert!(world.server.inner.is_resting.load(Relaxed) && world.server.inner.known_identity().is_some());
    world.works().await;
    assert!(!world.server.inner.is_resting.load(Relaxed), "so that a later stop waits no longer than it may");
    world.manager.stop().await;
}

#[tokio::test]
async fn a_call_that_came_just_before_a_rest_keeps_the_connection() {
    let world = world().await;
    let (inner, server) = (&world.server.inner, &world.server);
    let _held = tokio::spawn(server.answer(call("count")).outcome());
    assert!(wait::until(|| inner.in_flight() == 1).await);
    let seats = &inner.usage.as_ref().unwrap().seats;
    let is_leaving = || seats.taken.lock()[0].is_leaving;
    {
        let mut taken = seats.taken.lock();
        taken[0].is_leaving = inner.rest();
    }
    assert!(wait::until(|| !is_leaving()).await, "somebody else would wait for it for ever");
    world.works().await;
    assert_eq!(inner.in_flight(), 1);
}

#[tokio::test]
async fn every_start_but_the_first_is_counted_and_waking_is_not() {
    let world = world().await;
    let restarts = || world.server.status().restarts;
    assert_eq!(restarts(), 0);
    world.rest().await;
    world.works().await;
    assert_eq!(restarts(), 0);
    world.server.restart().await;
    world.works().await;
    assert_eq!(restarts(), 1);
    world.manager.stop().await;
}
