//! Instances as real processes: who shares one, when one starts, when one rests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, Call, CallFailure, Caller, FaultCode, Outcome};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::ClientCapabilities;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use crate::config::{EraChoice, InstancePolicy, own_profile};
use crate::{ConnectTarget, Manager, ManagerOptions, Server, ServerConfig};

struct World {
    scripted: Scripted,
    _manager: Manager,
    server: Server,
}

async fn world(set: impl FnOnce(&mut ServerConfig)) -> World {
    let scripted = Scripted::new(Script::legacy());
    let command = JobCommand::new(scripted.program()).args(scripted.args());
    let command = scripted.env().into_iter().fold(command, |command, (name, value)| command.env(name, value));
    let mut config = ServerConfig::new("s", ConnectTarget::stdio(command));
    (config.era, config.retry) = (EraChoice::Legacy, None);
    set(&mut config);
    let manager = Manager::new(ManagerOptions::default());
    let server = manager.register(config).unwrap();
    server.ready(wait::PATIENCE).await.unwrap();
    World { scripted, _manager: manager, server }
}

impl World {
    async fn call(&self, caller: &Caller, tool: &str, arguments: Value) -> Outcome {
        let mut call = Call::tool(tool, Some(&arguments.into())).from_caller(caller.clone());
        call.meta = RequestMeta::of_client(ManagerOptions::default().profile);
        self.server.answer(call).outcome().await
    }

    /// The process that serves this caller.
    async fn pid(&self, caller: &Caller) -> u64 {
        let Outcome::Complete(complete) = self.call(caller, "about", json!({})).await else { panic!("it failed") };
        complete.body.raw().to::<Value>().unwrap()["structuredContent"]["pid"].as_u64().unwrap()
    }

    fn alive(&self) -> usize {
        self.scripted.mark().count()
    }
}

#[tokio::test]
async fn each_session_has_a_process_of_its_own_and_keeps_it() {
    let world = world(|config| config.instances = InstancePolicy::PerSession).await;
    let ann = Caller::of_key("ann");
    let callers = [ann.in_session("one"), ann.in_session("two"), Caller::of_key("bob").in_session("one"), ann];
    let mut pids = Vec::new();
    for caller in &callers {
        pids.push(world.pid(caller).await);
    }
    assert_eq!(pids.iter().collect::<HashSet<_>>().len(), 4, "nobody shares: {pids:?}");
    for (caller, pid) in callers.iter().zip(&pids) {
        assert_eq!(world.pid(caller).await, *pid);
    }
    assert_eq!(world.server.status().instances, 5);
    world.server.stop().await;
    assert!(wait::until(|| world.alive() == 0).await);
}

#[tokio::test]
async fn the_session_unused_for_longest_makes_room_but_never_one_that_is_in_use() {
    let world = world(|config| {
        config.instances = InstancePolicy::PerSession;
        config.max_connections = 3;
    })
    .await;
    let session = |name: &str| Caller::of_key("ann").in_session(name);
    let (one, two) = (world.pid(&session("one")).await, world.pid(&session("two")).await);
    assert_eq!(world.pid(&session("one")).await, one);
    world.pid(&session("three")).await;
    assert_eq!(world.pid(&session("one")).await, one, "used after two");
    assert_ne!(world.pid(&session("two")).await, two, "it was closed and started anew");
    let busy = ["two", "one"].map(|name| {
        let mut call = Call::tool("sleep", Some(&json!({"ms": 60_000}).into())).from_caller(session(name));
        call.meta = RequestMeta::of_client(ManagerOptions::default().profile);
        world.server.answer(call)
    });
    let Outcome::Failed(CallFailure::Fault(fault)) = world.call(&session("four"), "echo", json!({})).await else {
        panic!("there was no room")
    };
    assert_eq!(fault.code, FaultCode::Overloaded);
    drop(busy);
    world.pid(&session("four")).await;
}

#[tokio::test]
async fn a_pool_grows_while_all_are_busy_and_not_beyond_its_size() {
    let world = world(|config| config.instances = InstancePolicy::Pool(3)).await;
    let caller = Caller::local();
    let first = world.pid(&caller).await;
    assert_eq!(world.pid(&caller).await, first, "an idle one is used again");
    let calls = (0..6).map(|_| world.call(&caller, "sleep", json!({"ms": 300})));
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Complete(_))));
    assert_eq!(world.scripted.journal().launches(), 3);
    assert_eq!(world.server.status().instances, 3);
}

#[tokio::test]
async fn an_answer_goes_to_the_instance_that_asked() {
    let world = world(|config| config.instances = InstancePolicy::Pool(2)).await;
    let caller = Caller::local();
    let (one, two) = futures_util::join!(world.call(&caller, "ask", json!({})), world.call(&caller, "ask", json!({})));
    for outcome in [two, one] {
        let outcome = answered(&world, outcome).await;
        assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    }
}

/// Answers what an outcome asks for.
async fn answered(world: &World, outcome: Outcome) -> Outcome {
    let Outcome::InputRequired(asked) = outcome else { panic!("{outcome:?}") };
    let key = asked.requests.as_ref().map(|requests| requests.key(requests.members()[0]).into_owned()).unwrap();
    let answers = json!({key: {"action": "accept", "content": {"name": "Ann"}}});
    let mut call = Call::tool("ask", Some(&json!({}).into())).retry_with(Some(&answers.into()), asked.state.as_deref());
    call.meta = RequestMeta::of_client(ManagerOptions::default().profile);
    world.server.answer(call).outcome().await
}

#[tokio::test]
async fn one_instance_is_enough_until_it_asks_and_then_each_open_question_has_its_own() {
    let world = world(|config| (config.instances, config.max_connections) = (InstancePolicy::Auto, 3)).await;
    let caller = Caller::local();
    let calls = (0..4).map(|_| world.call(&caller, "sleep", json!({"ms": 50})));
    futures_util::future::join_all(calls).await;
    assert_eq!(world.scripted.journal().launches(), 1, "a server that does not ask needs no second instance");
    assert!(!world.server.status().asks);
    let first = world.call(&caller, "ask", json!({})).await;
    assert!(world.server.status().asks);
    // On one instance these would wait for the turn that the open question holds.
    let (second, third) = (world.call(&caller, "ask", json!({})).await, world.call(&caller, "ask", json!({})).await);
    let status = world.server.status();
    assert_eq!((status.instances, status.parked, world.scripted.journal().launches()), (3, 3, 3));
    for outcome in [third, first, second] {
        let outcome = answered(&world, outcome).await;
        assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    }
    assert_eq!(world.server.status().parked, 0);
}

#[tokio::test]
async fn a_pool_gives_no_call_to_an_instance_whose_turn_an_open_question_holds() {
    let world = world(|config| config.instances = InstancePolicy::Pool(2)).await;
    let caller = Caller::local();
    let first = world.call(&caller, "ask", json!({})).await;
    let second = world.call(&caller, "ask", json!({})).await;
    assert_eq!(world.server.status().instances, 2);
    for outcome in [second, first] {
        assert!(matches!(answered(&world, outcome).await, Outcome::Complete(_)));
    }
}

#[tokio::test]
async fn what_is_not_used_rests_and_starts_again_with_the_next_call() {
    let world = world(|config| config.idle_timeout = Some(Duration::from_millis(100))).await;
    assert!(wait::until(|| world.alive() == 0).await, "it does not rest");
    assert!(world.server.catalog().is_some_and(|catalog| catalog.tool("echo").is_some()), "its tools stay known");
    let pid = world.pid(&Caller::local()).await;
    assert!(wait::until(|| world.alive() == 0).await);
    assert_ne!(world.pid(&Caller::local()).await, pid);
    // A call that takes longer than the idle time is a use of the server.
    let outcome = world.call(&Caller::local(), "sleep", json!({"ms": 600})).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
}

#[tokio::test]
async fn the_process_of_a_session_hears_what_its_caller_can_be_asked_for() {
    let world = world(|config| config.instances = InstancePolicy::PerSession).await;
    let mut call = Call::tool("ask", Some(&json!({}).into())).from_caller(Caller::of_key("ann").in_session("one"));
    let capabilities = ClientCapabilities::from_object(JsonObject::from(json!({"sampling": {}})));
    call.meta = RequestMeta::of_client(Arc::new(own_profile(capabilities)));
    let Outcome::Complete(complete) = world.server.answer(call).outcome().await else { panic!("it failed") };
    let said: Value = complete.body.raw().to().unwrap();
    assert_eq!(said["content"][0]["text"], "the client cannot be asked");
}
