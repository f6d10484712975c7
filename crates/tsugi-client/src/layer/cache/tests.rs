//! What is kept and for whom, when it is forgotten, and that identical reads are one.

use super::*;
use crate::config::{CachePolicy, ConnectTarget, ServerConfig, ToolConfig, own_profile};
use crate::tool_table::tests::catalog;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use tsugi_protocol::answer::{Caller, Identity, InputRequired, ReplyEvent};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::ClientCapabilities;
use tsugi_protocol::mcp::meta::RequestMeta;

/// Says who asked and how often it was asked, once it is let go.
struct Server {
    asked: AtomicUsize,
    go: Semaphore,
    cancelled: AtomicUsize,
    extra: Value,
    asks: bool,
}

struct Running(Arc<Server>, bool);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.cancelled.fetch_add(usize::from(!self.1), Ordering::SeqCst);
    }
}

struct Shared(Arc<Server>);

impl Answer for Shared {
    fn answer(&self, call: Call) -> Reply {
        let number = self.0.asked.fetch_add(1, Ordering::SeqCst);
        let mut running = Running(self.0.clone(), false);
        let mut body = self.0.extra.clone();
        body["for"] = json!(call.caller.identity().short_name());
        body["session"] = json!(call.caller.session());
        body["number"] = json!(number);
        Reply::from_future(async move {
            running.0.go.acquire().await.unwrap().forget();
            running.1 = true;
            if running.0.asks {
                return Outcome::InputRequired(InputRequired {
                    requests: None,
                    state: None,
                    rest: Box::new(JsonObject::empty()),
                    release: None,
                });
            }
            Outcome::complete(JsonObject::from(body))
        })
    }
}

struct World {
    server: Arc<Server>,
    store: Arc<CacheStore>,
    layer: CacheLayer,
}

fn world_with(extra: Value, instances: InstancePolicy, asks: bool) -> World {
    world_under(CachePolicy::default(), extra, instances, asks)
}

fn world_under(policy: CachePolicy, extra: Value, instances: InstancePolicy, asks: bool) -> World {
    let server = Arc::new(Server {
        asked: AtomicUsize::new(0),
        go: Semaphore::new(1_000_000),
        cancelled: AtomicUsize::new(0),
        extra,
        asks,
    });
    let shared: Arc<dyn Answer> = Arc::new(Shared(server.clone()));
    let mut config = ServerConfig::new("s", ConnectTarget::InProcess(shared.clone()));
    let tool = |cache| ToolConfig { cache, ..ToolConfig::default() };
    config.tools = HashMap::from([("kept".into(), tool(AutoSwitch::On)), ("never".into(), tool(AutoSwitch::Off))]);
    let tools = ToolTable::new(&config);
    let described = [("read", true), ("write", false), ("kept", false), ("never", true)]
        .map(|(name, read_only)| json!({"name": name, "annotations": {"readOnlyHint": read_only}}));
    tools.fill(&catalog(json!(described)));
    let store = Arc::new(CacheStore::new(policy));
    let layer = CacheLayer::new(shared, Arc::new(tools), store.clone(), instances, CacheSelection::Reads);
    World { server, store, layer }
}

fn world() -> World {
    world_with(json!({}), InstancePolicy::Shared, false)
}

fn read(uri: &str) -> Call {
    Call::new(Method::ResourcesRead, JsonObject::from(json!({"uri": uri})))
}

fn tool(name: &str) -> Call {
    Call::tool(name, Some(&RawJson::literal(r#"{"x":1}"#)))
}

impl World {
    async fn ask(&self, call: Call) -> Value {
        match self.layer.answer(call).outcome().await {
            Outcome::Complete(complete) => complete.body.raw().to().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn number(&self, call: Call) -> u64 {
        self.ask(call).await["number"].as_u64().unwrap()
    }

    fn asked(&self) -> usize {
        self.server.asked.load(Ordering::SeqCst)
    }

    /// From now on calls wait.
    fn hold(&self) {
        self.server.go.forget_permits(usize::MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_read_only_and_configured_tools_are_kept_for_a_while() {
    let world = world();
    for (name, is_kept) in [("read", true), ("kept", true), ("write", false), ("never", false), ("unknown", false)] {
        let first = world.number(tool(name)).await;
        assert_eq!(world.number(tool(name)).await == first, is_kept, "{name}");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_ne!(world.number(tool(name)).await, first, "{name}");
    }
    let counts = world.store.counts();
    assert_eq!((counts.hits, counts.misses), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn other_arguments_are_another_read() {
    let world = world();
    world.number(tool("read")).await;
    world.number(Call::tool("read", Some(&RawJson::literal(r#"{"x":2}"#)))).await;
    assert_eq!(world.asked(), 2);
}

fn by_client(capabilities: Value, mut call: Call) -> Call {
    let capabilities = ClientCapabilities::from_object(JsonObject::from(capabilities));
    call.meta = RequestMeta::of_client(Arc::new(own_profile(capabilities)));
    call
}

#[tokio::test(start_paused = true)]
async fn clients_that_can_be_asked_for_different_things_share_only_what_is_public() {
    for (scope, asked) in [("private", 2), ("public", 1)] {
        let world = world_with(json!({"ttlMs": 5000, "cacheScope": scope}), InstancePolicy::Shared, false);
        for capabilities in [json!({}), json!({"sampling": {}}), json!({"sampling": {}})] {
            world.ask(by_client(capabilities, read("a"))).await;
        }
        assert_eq!(world.asked(), asked, "{scope}");
    }
    let world = world();
    world.hold();
    let replies = [json!({}), json!({"roots": {}})].map(|client| world.layer.answer(by_client(client, tool("read"))));
    assert_eq!(world.asked(), 2, "neither waits for the other's");
    drop(replies);
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_kept_as_long_as_its_server_says() {
    let world = world_with(json!({"ttlMs": 5000, "cacheScope": "private"}), InstancePolicy::Shared, false);
    let first = world.ask(read("a")).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let second = world.ask(read("a")).await;
    assert_eq!(first["number"], second["number"]);
    assert_eq!(second["ttlMs"], 3000, "what is left of it");
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_ne!(world.ask(read("a")).await["number"], first["number"]);
    let silent = super::tests::world();
    silent.ask(read("a")).await;
    silent.ask(read("a")).await;
    assert_eq!(silent.asked(), 2, "a server that says nothing is always asked");
}

#[tokio::test(start_paused = true)]
async fn a_public_result_is_for_everybody_and_a_private_one_for_its_caller() {
    for (scope, asked) in [("public", 1), ("private", 3)] {
        let world = world_with(json!({"ttlMs": 5000, "cacheScope": scope}), InstancePolicy::Shared, false);
        let subject = Identity::subject("corp", "ann");
        let callers = [Caller::of_key("ann"), Caller::of_key("ann").as_operator(), Caller::of(subject)];
        for caller in callers.iter().chain(&callers) {
            world.ask(read("a").from_caller(caller.clone())).await;
        }
        assert_eq!(world.asked(), asked, "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_with_a_state_per_session_shares_nothing_between_sessions() {
    let world = world_with(json!({"ttlMs": 5000, "cacheScope": "public"}), InstancePolicy::PerSession, false);
    let ann = Caller::of_key("ann");
    for session in ["one", "two", "one", "two"] {
        let caller = ann.in_session(session);
        assert_eq!(world.ask(read("a").from_caller(caller.clone())).await["session"], session);
        assert_eq!(world.ask(tool("read").from_caller(caller)).await["session"], session);
    }
    assert_eq!(world.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn changes_make_what_was_kept_useless() {
    let world = world_with(json!({"ttlMs": 60000, "cacheScope": "public"}), InstancePolicy::Shared, false);
    let all = || [read("a"), read("b"), tool("read")];
    let mut before = Vec::new();
    for call in all() {
        before.push(world.number(call).await);
    }
    world.store.forget_resource("a");
    let mut after = Vec::new();
    for call in all() {
        after.push(world.number(call).await);
    }
    assert_eq!(before.iter().zip(&after).map(|(one, two)| one == two).collect::<Vec<_>>(), [false, true, true]);
    world.store.forget_tools();
    assert_ne!(world.number(tool("read")).await, after[2]);
    assert_eq!(world.number(read("a")).await, after[0]);
    world.store.forget_all();
    assert_ne!(world.number(read("b")).await, after[1]);
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_read_is_not_kept() {
    let world = world_with(json!({"ttlMs": 60000}), InstancePolicy::Shared, false);
    world.hold();
    let mut reading = Box::pin(world.layer.answer(read("a")).outcome());
    assert!(futures_util::poll!(&mut reading).is_pending());
    world.store.forget_resource("a");
    world.server.go.add_permits(10);
    reading.await;
    world.ask(read("a")).await;
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_and_answers_to_questions_are_not_kept() {
    let failing = world_with(json!({"isError": true}), InstancePolicy::Shared, false);
    failing.ask(tool("read")).await;
    failing.ask(tool("read")).await;
    assert_eq!(failing.asked(), 2);
    let world = world();
    for _ in 0..2 {
        world.ask(tool("read").retry_with(None, Some("s"))).await;
        let mut fresh = tool("read");
        fresh.options.skip_cache = true;
        world.ask(fresh).await;
    }
    assert_eq!(world.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn identical_reads_at_once_are_one_call() {
    let world = world();
    world.hold();
    let replies: Vec<_> = (0..10).map(|_| world.layer.answer(tool("read")).outcome()).collect();
    let mut all = Box::pin(futures_util::future::join_all(replies));
    assert!(futures_util::poll!(&mut all).is_pending());
    world.server.go.add_permits(1);
    assert!(all.await.iter().all(|outcome| matches!(outcome, Outcome::Complete(_))));
    assert_eq!(world.asked(), 1);
    assert_eq!(world.store.counts().shared, 9);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_does_not_look_at_a_shared_read_holds_up_nobody() {
    let world = world();
    world.hold();
    let leader = tokio::spawn(world.layer.answer(tool("read")).outcome());
    // On one thread: now the leader has looked, and whoever looks next is the last who did.
    tokio::task::yield_now().await;
    let mut idle = world.layer.answer(tool("read"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(idle.poll_event(&mut context).is_pending());
    world.server.go.add_permits(1);
    let outcome = tokio::time::timeout(Duration::from_secs(1), leader).await.expect("it is woken").unwrap();
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    drop(idle);
    assert_eq!(world.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_does_not_cancel_the_read_of_the_others_but_the_last_one_does() {
    let world = world();
    world.hold();
    let mut leader = world.layer.answer(tool("read"));
    let mut follower = world.layer.answer(tool("read"));
    let mut third = world.layer.answer(tool("read"));
    for reply in [&mut leader, &mut follower, &mut third] {
        assert!(futures_util::poll!(Box::pin(reply.next())).is_pending());
    }
    drop(leader);
    drop(third);
    assert_eq!(world.server.cancelled.load(Ordering::SeqCst), 0);
    world.server.go.add_permits(1);
    assert!(matches!(follower.next().await, ReplyEvent::Done(Outcome::Complete(_))));
    let lonely = world.layer.answer(tool("kept"));
    drop(lonely);
    assert_eq!(world.server.cancelled.load(Ordering::SeqCst), 1);
    world.server.go.add_permits(1);
    world.ask(tool("kept")).await;
    assert_eq!(world.asked(), 3, "a cancelled read leaves nothing behind");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_for_the_one_who_was_asked() {
    let world = world_with(json!({}), InstancePolicy::Shared, true);
    world.hold();
    let replies: Vec<_> = (0..3).map(|_| world.layer.answer(tool("read")).outcome()).collect();
    let mut all = Box::pin(futures_util::future::join_all(replies));
    assert!(futures_util::poll!(&mut all).is_pending());
    world.server.go.add_permits(10);
    assert!(all.await.iter().all(|outcome| matches!(outcome, Outcome::InputRequired(_))));
    assert_eq!(world.asked(), 3, "each has a question of their own");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whoever asks whatever in whatever order, together or one after the other: a private result only ever
    /// reaches the caller it was made for.
    #[test]
    fn no_result_crosses_between_callers(
        asks in proptest::collection::vec((0u8..4, 0u8..2, 0u8..3, any::<bool>(), 0u64..40), 1..60),
        per_session in any::<bool>(),
    ) {
        let instances = if per_session { InstancePolicy::PerSession } else { InstancePolicy::Shared };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = world_with(json!({"ttlMs": 20000, "cacheScope": "private"}), instances, false);
            let layer = &world.layer;
            let run = asks.into_iter().map(|(who, session, what, is_tool, begin)| async move {
                tokio::time::sleep(Duration::from_secs(begin)).await;
                let caller = Caller::of_key(format!("caller{who}")).in_session(format!("session{session}"));
                let call = if is_tool {
                    Call::tool("read", Some(&RawJson::from(json!({"x": what}))))
                } else {
                    read(&format!("uri{what}"))
                };
                let outcome = layer.answer(call.from_caller(caller.clone())).outcome().await;
                let Outcome::Complete(complete) = outcome else { panic!("it failed") };
                (caller, complete.body.raw().to::<Value>().unwrap())
            });
            for (caller, body) in futures_util::future::join_all(run).await {
                prop_assert_eq!(&body["for"], caller.identity().short_name());
                if per_session {
                    prop_assert_eq!(&body["session"], caller.session().unwrap());
                }
            }
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_goes_when_there_are_too_many() {
    let mut world = world();
    world.store = Arc::new(CacheStore::new(CachePolicy { max_entries: 3, ..CachePolicy::default() }));
    world.layer.store = world.store.clone();
    let with = |x: u32| Call::tool("read", Some(&RawJson::from(json!({"x": x}))));
    let mut first = Vec::new();
    for x in 0..3 {
        first.push(world.number(with(x)).await);
    }
    assert_eq!(world.number(with(0)).await, first[0]);
    let fourth = world.number(with(3)).await;
    assert_eq!(world.number(with(0)).await, first[0], "it was used since");
    assert_eq!(world.number(with(2)).await, first[2]);
    assert_eq!(world.number(with(3)).await, fourth);
    assert_ne!(world.number(with(1)).await, first[1], "it was the oldest");
    assert_ne!(world.number(with(0)).await, first[0], "and now this one was");
}

#[tokio::test(start_paused = true)]
async fn a_read_under_way_does_not_take_the_place_of_a_later_one() {
    let world = world_with(json!({"ttlMs": 60000}), InstancePolicy::Shared, false);
    world.hold();
    let mut before = Box::pin(world.layer.answer(read("a")).outcome());
    assert!(futures_util::poll!(&mut before).is_pending());
    world.store.forget_all();
    let mut after = Box::pin(world.layer.answer(read("b")).outcome());
    assert!(futures_util::poll!(&mut after).is_pending());
    world.server.go.add_permits(1);
    before.await;
    world.server.go.add_permits(9);
    let Outcome::Complete(complete) = after.await else { panic!("it failed") };
    assert_eq!(world.number(read("b")).await, complete.body.raw().to::<Value>().unwrap()["number"].as_u64().unwrap());
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn reading_a_result_keeps_it_longer_only_where_that_is_configured_and_never_a_resource() {
    for update_age_on_get in [true, false] {
        let policy = CachePolicy { update_age_on_get, ..CachePolicy::default() };
        let world = world_under(policy, json!({"ttlMs": 60_000}), InstancePolicy::Shared, false);
        let (first, resource) = (world.number(tool("read")).await, world.number(read("a")).await);
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(40)).await;
            let is_kept = world.number(tool("read")).await == first;
            assert!(is_kept == update_age_on_get || world.asked() == 2, "{update_age_on_get}");
        }
        assert_eq!(world.number(tool("read")).await == first, update_age_on_get, "80 s after it was fetched");
        assert_ne!(world.number(read("a")).await, resource);
    }
}
