//! Resting, waking and being started again, seen from inside: from outside these moments cannot be met on purpose.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, Call, CallFailure, Fault, FaultCode, Outcome, Reply, ReplyEvent};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::{Server, ServerEvent};
use crate::backoff::BackoffPolicy;
use crate::config::{EraChoice, StartPolicy};
use crate::connection::state::ConnectionState;
use crate::manager::ReconcileStep;
use crate::{ConnectTarget, Manager, ManagerOptions, ServerConfig};

struct World {
    _scripted: Scripted,
    manager: Manager,
    server: Server,
}

async fn world() -> World {
    let scripted = Scripted::new(Script::legacy().rule(Rule::on_tool("count").act(Action::Silence)));
    let command = JobCommand::new(scripted.program()).args(scripted.args());
    let command = scripted.env().into_iter().fold(command, |command, (name, value)| command.env(name, value));
    let mut config = ServerConfig::new("s", ConnectTarget::stdio(command));
    config.era = EraChoice::Legacy;
    let manager = Manager::new(ManagerOptions { max_connections: Some(1), ..ManagerOptions::default() });
    let server = manager.register(config).unwrap();
    server.ready(wait::PATIENCE).await.unwrap();
    assert!(wait::until(|| server.instance.may_leave()).await);
    World { _scripted: scripted, manager, server }
}

fn call(tool: &str) -> Call {
    let mut call = Call::tool(tool, Some(&json!({"message": "hi"}).into()));
    call.meta = RequestMeta::of_client(ManagerOptions::default().profile);
    call
}

impl World {
    async fn works(&self) {
        let outcome = tokio::time::timeout(wait::PATIENCE, self.server.answer(call("echo")).outcome()).await;
        assert!(matches!(outcome, Ok(Outcome::Complete(_))), "{outcome:?}");
    }

    async fn rest(&self) {
        assert!(self.server.instance.rest());
        assert!(wait::until(|| !self.server.instance.is_live()).await);
    }
}

#[tokio::test]
async fn a_server_that_was_woken_does_not_rest_any_more() {
    let world = world().await;
    world.rest().await;
    assert!(world.server.instance.is_resting.load(Relaxed) && world.server.instance.known_identity().is_some());
    world.works().await;
    assert!(!world.server.instance.is_resting.load(Relaxed), "so that a later stop waits no longer than it may");
    world.manager.stop().await;
}

#[tokio::test]
async fn a_call_that_came_just_before_a_rest_keeps_the_connection() {
    let world = world().await;
    let (instance, server) = (&world.server.instance, &world.server);
    let _held = tokio::spawn(server.answer(call("count")).outcome());
    assert!(wait::until(|| instance.in_flight() == 1).await);
    let seats = &instance.usage.as_ref().unwrap().seats;
    let is_leaving = || seats.taken.lock()[0].is_leaving;
    {
        let mut taken = seats.taken.lock();
        taken[0].is_leaving = instance.rest();
    }
    assert!(wait::until(|| !is_leaving()).await, "somebody else would wait for it for ever");
    world.works().await;
    assert_eq!(instance.in_flight(), 1);
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

/// A server whose tools are fresh for five seconds and which tells of no change.
#[derive(Default)]
struct Aging {
    version: AtomicUsize,
    listed: AtomicUsize,
}

impl Answer for Aging {
    fn answer(&self, call: Call) -> Reply {
        let result = match call.method {
            Method::Discover => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            Method::ToolsList => {
                self.listed.fetch_add(1, Relaxed);
                let name = format!("tool-{}", self.version.load(Relaxed));
                json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}], "ttlMs": 5000})
            }
            _ => json!({}),
        };
        Reply::ready(Outcome::complete(JsonObject::from(result)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_is_fetched_again_when_somebody_looks_at_it_and_not_before() {
    let aging = Arc::new(Aging::default());
    let manager = Manager::new(ManagerOptions::default());
    let server = manager.register(ServerConfig::new("s", ConnectTarget::InProcess(aging.clone()))).unwrap();
    let first = server.ready(wait::PATIENCE).await.unwrap();
    let mut changes = server.changes();
    let look = || drop(server.answer(Call::bare(Method::ToolsList)));
    let listed = || aging.listed.load(Relaxed);
    look();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(listed(), 1, "fresh when it was looked at, and nobody has looked since");
    look();
    assert!(wait::until(|| listed() == 2).await);
    assert!(wait::until(|| server.catalog().unwrap().generation > first.generation).await);
    assert!(changes.try_recv().is_err(), "it reads as before");
    aging.version.store(1, Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    look();
    assert_eq!(changes.recv().await.unwrap().what, ServerEvent::Tools);
    assert!(server.catalog().unwrap().tool("tool-1").is_some());
    assert_eq!(listed(), 3);
}

/// A server that can tell of resources, and writes down of which it was asked to.
#[derive(Default)]
struct Telling {
    asked: Mutex<Vec<String>>,
}

impl Answer for Telling {
    fn answer(&self, call: Call) -> Reply {
        let result = match call.method {
            Method::Discover => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"resources": {"subscribe": true}}})
            }
            Method::Listen => {
                self.asked.lock().extend(notification::read_filter(&call.params).uris);
                return Reply::from_future(std::future::pending());
            }
            _ => json!({"resources": [], "resourceTemplates": []}),
        };
        Reply::ready(Outcome::complete(JsonObject::from(result)))
    }
}

#[tokio::test]
async fn whoever_watches_a_resource_goes_on_watching_it_at_the_server_that_takes_the_place() {
    let (old, new) = (Arc::new(Telling::default()), Arc::new(Telling::default()));
    let manager = Manager::new(ManagerOptions::default());
    manager.reconcile(vec![ServerConfig::new("s", ConnectTarget::InProcess(old.clone()))]);
    let server = manager.server("s").unwrap();
    server.ready(wait::PATIENCE).await.unwrap();
    let filter = SubscriptionFilter { uris: ["x://1".to_owned()].into(), ..SubscriptionFilter::default() };
    let mut listening = server.answer(Call::new(Method::Listen, notification::listen_params(&filter)));
    assert!(wait::until(|| *old.asked.lock() == ["x://1"]).await);
    let steps = manager.reconcile(vec![ServerConfig::new("s", ConnectTarget::InProcess(new.clone()))]);
    assert_eq!(steps, [ReconcileStep::Replace("s".into())]);
    assert!(wait::until(|| *new.asked.lock() == ["x://1"]).await, "the new one is not asked");
    manager.server("s").unwrap().instance.status.announce(ServerEvent::ResourceUpdated("x://1".into()));
    let updated = loop {
        match listening.next().await {
            ReplyEvent::Note(note) if note.method == Method::SubscriptionAcknowledged => {}
            ReplyEvent::Note(note) => break note,
            ReplyEvent::Done(outcome) => panic!("{outcome:?}"),
        }
    };
    assert_eq!(updated.params_object().get_str("uri").as_deref(), Some("x://1"));
    manager.stop().await;
}

#[tokio::test]
async fn a_call_starts_its_server_although_the_servers_task_has_too_much_to_do() {
    let manager = Manager::new(ManagerOptions::default());
    let lazy = ServerConfig {
        start: StartPolicy::Lazy,
        ..ServerConfig::new("s", ConnectTarget::InProcess(Arc::new(Telling::default())))
    };
    let server = manager.register(lazy).unwrap();
    // On this one thread nothing of it is done before we wait.
    while server.instance.commands.try_send(super::InstanceCommand::Watches).is_ok() {}
    let called = tokio::time::timeout(wait::PATIENCE, server.answer(call("any")).outcome()).await;
    assert!(matches!(called, Ok(Outcome::Complete(_))), "{called:?}");
    manager.stop().await;
}

/// A server that cannot be connected while it is down.
#[derive(Default)]
struct Fragile {
    is_up: std::sync::atomic::AtomicBool,
    attempts: AtomicUsize,
}

impl Answer for Fragile {
    fn answer(&self, call: Call) -> Reply {
        if call.method != Method::Discover {
            return Reply::ready(Outcome::complete(JsonObject::from(json!({"tools": []}))));
        }
        self.attempts.fetch_add(1, Relaxed);
        match self.is_up.load(Relaxed) {
            true => {
                let identity = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
                Reply::ready(Outcome::complete(JsonObject::from(identity)))
            }
            false => Reply::fault(Fault::new(FaultCode::ConnectionFailed, "down")),
        }
    }
}

/// A server in the pause of a crash loop.
async fn paused_server() -> (Arc<Fragile>, Manager, Server) {
    let fragile = Arc::new(Fragile::default());
    let manager = Manager::new(ManagerOptions::default());
    let mut config = ServerConfig::new("s", ConnectTarget::InProcess(fragile.clone()));
    (config.retry, config.breaker) = (None, None);
    let server = manager.register(config).unwrap();
    assert!(wait::until(|| server.status().state == ConnectionState::Failed).await);
    (fragile, manager, server)
}

#[tokio::test(start_paused = true)]
async fn calls_wake_a_server_in_its_pause_but_not_right_after_a_failure() {
    let (fragile, manager, server) = paused_server().await;
    let attempts = || fragile.attempts.load(Relaxed);
    assert_eq!(attempts(), 5);
    let too_soon = server.answer(call("echo")).outcome().await;
    let Outcome::Failed(CallFailure::Fault(fault)) = too_soon else { panic!("{too_soon:?}") };
    let wait = Duration::from_millis(fault.retry_after_ms.expect("it says when a call may wake it"));
    assert!(attempts() == 5 && wait <= BackoffPolicy::default().pause / 4, "{wait:?}");
    tokio::time::sleep(wait).await;
    let calls = (0..64).map(|_| server.answer(call("echo")).outcome());
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Failed(_))));
    assert_eq!(attempts(), 6, "64 calls cause one attempt");
    fragile.is_up.store(true, Relaxed);
    tokio::time::sleep(BackoffPolicy::default().pause / 2).await;
    let woken = server.answer(call("echo")).outcome().await;
    assert!(matches!(woken, Outcome::Complete(_)), "{woken:?}");
    assert_eq!(attempts(), 7);
    manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_ends_a_pause_at_once() {
    let (fragile, manager, server) = paused_server().await;
    fragile.is_up.store(true, Relaxed);
    let before = tokio::time::Instant::now();
    server.start();
    assert!(wait::until(|| server.status().state == ConnectionState::Connected).await);
    assert!(before.elapsed() < BackoffPolicy::default().pause / 4);
    manager.stop().await;
}

#[tokio::test]
async fn many_calls_of_a_server_that_stays_down_after_one_failure_start_it_once() {
    let fragile = Arc::new(Fragile::default());
    let manager = Manager::new(ManagerOptions::default());
    let mut config = ServerConfig::new("s", ConnectTarget::InProcess(fragile.clone()));
    (config.start, config.restart) = (StartPolicy::Lazy, crate::RestartPolicy::Never);
    (config.retry, config.breaker) = (None, None);
    let server = manager.register(config).unwrap();
    let calls = (0..64).map(|_| server.answer(call("echo")).outcome());
    futures_util::future::join_all(calls).await;
    assert_eq!(fragile.attempts.load(Relaxed), 1);
    manager.stop().await;
}
