//! Sessions on the terms of callers: who is served over which, how many there are, and what happens without them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::config::own_profile;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{Manager, ManagerOptions, Server, ServerConfig};
use tsugi_protocol::answer::{Answer, Call, FaultCode, Outcome};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, Era, ProtocolVersion};
use tsugi_testkit::script::{Action, Eras, Rule, Script};
use tsugi_testkit::scripted::HttpServer;
use tsugi_testkit::wait;

use super::questions::{answered, form};
use crate::outcome::{end_of, fault, text};
use crate::world::{LIMIT, Peer, config, options, within};

struct World {
    peer: HttpServer,
    manager: Manager,
    server: Server,
}

impl World {
    async fn new(era: Eras, settings: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::of(Script { era, ..Script::default() }, options(), settings).await
    }

    async fn of(script: Script, options: ManagerOptions, settings: impl FnOnce(&mut ServerConfig)) -> Self {
        let peer = HttpServer::start(&script);
        let mut config = config("tested", peer.target());
        settings(&mut config);
        let manager = Manager::new(options);
        let server = manager.register(config).unwrap();
        server.ready(LIMIT).await.unwrap();
        Self { peer, manager, server }
    }

    async fn outcome(&self, call: Call) -> Outcome {
        end_of(self.server.answer(call), LIMIT).await.expect("the call ends")
    }

    /// What the server heard in each `initialize`.
    fn declared(&self) -> Vec<Value> {
        let all = self.peer.journal().received("initialize");
        all.iter().map(|entry| entry["params"]["capabilities"].clone()).collect()
    }

    fn sessions_ended(&self) -> usize {
        self.peer.journal().of("http").iter().filter(|request| request["method"] == "DELETE").count()
    }
}

fn from_client(version: ProtocolVersion, capabilities: Value, tool: &str) -> Call {
    let mut call = Call::tool(tool, Some(&json!({}).into()));
    let capabilities = ClientCapabilities::from_object(JsonObject::from(capabilities));
    let profile = ClientProfile { version, ..own_profile(capabilities) };
    call.meta = RequestMeta::of_client(Arc::new(profile));
    call
}

fn modern(capabilities: Value, tool: &str) -> Call {
    from_client(ProtocolVersion::LATEST, capabilities, tool)
}

fn legacy(capabilities: Value, tool: &str) -> Call {
    from_client(ProtocolVersion::LATEST_LEGACY, capabilities, tool)
}

fn era_of(outcome: &Outcome) -> Era {
    match outcome {
        Outcome::Complete(complete) => complete.era,
        other => panic!("no result: {other:?}"),
    }
}

#[tokio::test]
async fn a_legacy_server_hears_of_each_kind_of_caller_what_it_can_be_asked_for() {
    let world = World::new(Eras::Legacy, |_| {}).await;
    for _ in 0..2 {
        let unasked = world.outcome(modern(json!({"sampling": {}}), "ask")).await;
        assert_eq!(text(&unasked), "the client cannot be asked");
        let asking = modern(json!({"elicitation": {}}), "ask");
        let asked = world.outcome(asking.clone()).await;
        let last = world.outcome(answered(asking, &asked, form("Ann"))).await;
        assert!(text(&last).contains("Ann"));
    }
    let declared = world.declared();
    assert_eq!(declared[1..], [json!({"sampling": {}}), json!({"elicitation": {"form": {}}})]);
    world.manager.stop().await;
}

#[tokio::test]
async fn a_caller_may_bring_its_answer_with_other_capabilities_than_it_asked_with() {
    let world = World::new(Eras::Legacy, |_| {}).await;
    let asked = world.outcome(modern(json!({"elicitation": {}}), "ask")).await;
    let retry = modern(json!({"elicitation": {}, "roots": {}}), "ask");
    let last = world.outcome(answered(retry, &asked, json!({"action": "decline"}))).await;
    assert!(text(&last).contains("decline"));
    world.manager.stop().await;
}

#[tokio::test]
async fn a_legacy_caller_of_a_server_of_both_eras_is_served_in_its_own() {
    let world = World::new(Eras::Both, |_| {}).await;
    assert_eq!(world.server.status().version.unwrap().era(), Era::Modern);
    assert_eq!(era_of(&world.outcome(modern(json!({}), "echo")).await), Era::Modern);
    assert!(world.declared().is_empty());
    assert_eq!(era_of(&world.outcome(legacy(json!({"roots": {}}), "echo")).await), Era::Legacy);
    assert_eq!(era_of(&world.outcome(legacy(json!({"roots": {}}), "echo")).await), Era::Legacy);
    assert_eq!(world.declared(), [json!({"roots": {}})]);
    world.manager.stop().await;
}

#[tokio::test]
async fn a_server_of_the_modern_era_only_serves_legacy_callers_and_is_asked_for_a_session_once() {
    let world = World::new(Eras::Modern, |_| {}).await;
    for _ in 0..3 {
        assert_eq!(era_of(&world.outcome(legacy(json!({}), "echo")).await), Era::Modern);
    }
    assert_eq!(world.declared().len(), 1);
    world.manager.stop().await;
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_ended_and_opened_again_when_it_is_needed() {
    let world = World::new(Eras::Both, |config| config.idle_timeout = Some(Duration::from_millis(20))).await;
    for round in 1..3 {
        assert_eq!(era_of(&world.outcome(legacy(json!({}), "echo")).await), Era::Legacy);
        assert!(wait::until(|| world.sessions_ended() >= round).await);
    }
    assert!(world.declared().len() >= 2);
    world.manager.stop().await;
}

#[tokio::test]
async fn of_more_kinds_of_callers_than_there_may_be_connections_the_last_ones_have_a_session() {
    let world = World::new(Eras::Legacy, |config| config.max_connections = 2).await;
    for capabilities in [json!({"sampling": {}}), json!({"roots": {}}), json!({"sampling": {}})] {
        let unasked = world.outcome(modern(capabilities, "ask")).await;
        assert_eq!(text(&unasked), "the client cannot be asked");
    }
    assert_eq!(world.declared().len(), 4);
    assert!(wait::until(|| world.sessions_ended() == 2).await);
    world.manager.stop().await;
}

#[tokio::test]
async fn without_room_for_a_session_a_caller_is_served_over_the_shared_one() {
    let world = World::new(Eras::Legacy, |config| config.max_connections = 1).await;
    let refused = world.outcome(modern(json!({"sampling": {}}), "ask")).await;
    assert!(text(&refused).contains("-32601"), "{}", text(&refused));
    assert_eq!(world.declared().len(), 1);
    world.manager.stop().await;
}

#[tokio::test]
async fn callers_in_a_hurry_are_served_though_no_session_is_opened_in_time() {
    let silent = Script { era: Eras::Both, ..Script::default() }.rule(Rule::on("initialize").act(Action::Silence));
    let world = World::of(silent, options(), |_| {}).await;
    // Half of it is spent on waiting for the session; the other half is more than a call takes on a slow machine.
    let hurry = Duration::from_secs(8);
    let callers = (0..3).map(|_| world.outcome(within(legacy(json!({}), "echo"), hurry)));
    for outcome in futures_util::future::join_all(callers).await {
        assert_eq!(era_of(&outcome), Era::Modern);
    }
    assert_eq!(world.declared().len(), 1, "one attempt for all of them");
    world.manager.stop().await;
}

#[tokio::test]
async fn a_server_whose_manager_went_while_it_rested_gets_no_session() {
    let world = World::new(Eras::Both, |config| config.idle_timeout = Some(Duration::from_millis(20))).await;
    assert!(wait::until(|| world.server.status().state == ConnectionState::Disconnected).await);
    let World { peer, manager, server } = world;
    drop(manager);
    let gone = fault(&end_of(server.answer(legacy(json!({}), "echo")), LIMIT).await.expect("the call ends"));
    assert_eq!((gone.code, gone.retryable), (FaultCode::ServerNotRunning, false), "{gone}");
    assert!(peer.journal().received("initialize").is_empty());
}
