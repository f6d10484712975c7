//! That every layer is wired: seen through a manager, as a program sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tsugi_protocol::answer::{Answer, Call, CallTimeline, Fault, FaultCode, Outcome, Reply, SentState};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::serve::{self, ResourceBuilder, ResourceContents, StructuredOutput, TextOutput, ToolBuilder};
use tsugi_testkit::wait;

use crate::config::{
    AutoSwitch, BreakerPolicy, CachePolicy, LimitPolicy, RetryPolicy, ToolConfig, ValidatePolicy, ValidationMode,
};
use crate::manager::ToolExecution;
use crate::{ConnectTarget, Manager, ManagerOptions, Server, ServerConfig};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
    calls: usize,
}

/// A server that counts its calls.
fn adder() -> (Arc<serve::InProcessServer>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let (of_tool, of_resource) = (calls.clone(), calls.clone());
    let add = ToolBuilder::new("add", "Adds.").read_only().handler(move |add: Add, _| {
        let calls = of_tool.fetch_add(1, Ordering::SeqCst);
        async move { Ok(StructuredOutput(Sum { sum: add.a + add.b, calls })) }
    });
    let freshness = CacheHints { ttl_ms: 60_000, scope: CacheScope::Public };
    let news = ResourceBuilder::new("news://today", "news").handler(move |_| {
        let calls = of_resource.fetch_add(1, Ordering::SeqCst);
        async move { Ok(ResourceContents::text(calls.to_string()).fresh_for(freshness)) }
    });
    (serve::InProcessServer::builder("adder", "1").tool(add).resource(news).build(), calls)
}

fn config(answer: Arc<dyn Answer>) -> ServerConfig {
    ServerConfig::new("s", ConnectTarget::InProcess(answer))
}

async fn manager(config: ServerConfig) -> (Manager, Server) {
    let manager = Manager::new(ManagerOptions::default());
    let server = manager.register(config).unwrap();
    server.ready(wait::PATIENCE).await.unwrap();
    (manager, server)
}

#[tokio::test]
async fn arguments_are_checked_without_any_configuration() {
    let (server, calls) = adder();
    let (manager, _) = manager(config(server)).await;
    let result = manager.execute("add", &json!({"a": 1, "b": "two"})).await;
    let error = result.error.unwrap();
    assert_eq!(error.code, "INVALID_PARAMS");
    assert!(error.message.contains("/b: expected an integer"), "{}", error.message);
    assert_eq!(error.details.unwrap()["details"]["faults"][0]["instance"], "/b");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let result = manager.execute("add", &json!({"a": 1, "b": 2})).await;
    assert_eq!(result.data.unwrap()["sum"], 3);
    assert_eq!(result.metadata.server.as_deref(), Some("s"));
}

#[tokio::test]
async fn checking_can_be_off_for_a_server_and_on_for_a_tool() {
    let (server, _) = adder();
    let off = ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off };
    let mut loose = config(server.clone());
    loose.validate = off;
    let wrong = json!({"a": 1});
    let (of_loose, _) = manager(loose.clone()).await;
    let code = |result: crate::ToolResult| result.error.unwrap().code;
    assert_eq!(code(of_loose.execute("add", &wrong).await), "EXECUTION_FAILED", "the server itself refuses");
    let strict = ToolConfig { validate: Some(ValidatePolicy::default()), ..ToolConfig::default() };
    loose.tools.insert("add".into(), strict);
    let (of_mixed, _) = manager(loose).await;
    assert_eq!(code(of_mixed.execute("add", &wrong).await), "INVALID_PARAMS");
}

#[tokio::test]
async fn a_program_can_forbid_a_call() {
    let (server, calls) = adder();
    let (manager, _) = manager(config(server)).await;
    manager.set_check("s", "add", |arguments: Value| async move {
        if arguments["a"] == 13 { Err("unlucky".to_owned()) } else { Ok(()) }
    });
    let result = manager.execute("add", &json!({"a": 13, "b": 0})).await;
    assert_eq!(result.error.unwrap().code, "CANNOT_EXECUTE");
    assert!(manager.execute("add", &json!({"a": 12, "b": 0})).await.success);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    manager.remove_check("s", "add");
    assert!(manager.execute("add", &json!({"a": 13, "b": 0})).await.success);
}

#[tokio::test]
async fn arguments_that_are_no_object_of_json_are_refused_before_any_call() {
    let (server, calls) = adder();
    let (manager, _) = manager(config(server)).await;
    let unwritable = HashMap::from([((1, 2), 3)]);
    let refused = [
        manager.execute("add", &unwritable).await,
        manager.execute("add", &[1, 2]).await,
        manager.execute("add", "a").await,
    ];
    for result in refused {
        let fault = result.fault.unwrap();
        assert_eq!((fault.code, fault.hint.is_some()), (FaultCode::InvalidParams, true), "{fault}");
    }
    let list = RawJson::literal("[1,2]");
    assert!(matches!(manager.call_tool(Some("s"), "add", Some(&list)).outcome().await, Outcome::Failed(_)));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let error = manager.execute("add", &()).await.error.unwrap();
    assert!(!error.message.contains("cannot be sent"), "null means none, and the tool says what it needs: {error:?}");
}

#[tokio::test]
async fn a_name_that_is_taken_or_unknown_says_what_to_try() {
    let (server, _) = adder();
    let (manager, _) = manager(config(server.clone())).await;
    let taken = manager.register(config(server)).err().unwrap();
    assert!(taken.hint.unwrap().contains("another name"));
    let unknown = manager.find_tool(Some("ss"), "add").await.err().unwrap();
    assert_eq!(unknown.hint.as_deref(), Some("name one of the servers there are: s"));
}

async fn read(server: &Server) -> String {
    let call = Call::new(Method::ResourcesRead, JsonObject::from(json!({"uri": "news://today"})));
    let Outcome::Complete(complete) = server.answer(call).outcome().await else { panic!("it cannot be read") };
    complete.body.raw().to::<Value>().unwrap()["contents"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn kept_results_are_used_until_the_server_tells_of_a_change_and_the_status_counts_them() {
    let (inner, _) = adder();
    let mut config = config(inner.clone());
    config.cache = Some(CachePolicy::default());
    let (manager, server) = manager(config).await;
    let sum = || async { manager.execute("add", &json!({"a": 1, "b": 2})).await.data.unwrap()["calls"].clone() };
    let (first, news) = (sum().await, read(&server).await);
    assert_eq!((sum().await, read(&server).await), (first.clone(), news.clone()));
    let counts = server.status().cache.unwrap();
    assert_eq!((counts.hits, counts.misses), (2, 2));
    assert!(wait::until(|| inner.notifier().listeners() > 0).await);
    inner.notifier().tools_changed();
    let mut changed = false;
    for _ in 0..500 {
        changed = sum().await != first;
        if changed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(changed, "the change of tools was not heard");
    assert_eq!(read(&server).await, news, "resources did not change");
}

#[tokio::test]
async fn a_tool_that_is_to_be_kept_is_kept_though_its_server_is_not() {
    let (inner, _) = adder();
    let mut config = config(inner);
    let (manager, server) = manager(config.clone()).await;
    let sum = |manager: Manager| async move {
        manager.execute("add", &json!({"a": 1, "b": 2})).await.data.unwrap()["calls"].clone()
    };
    assert_ne!(sum(manager.clone()).await, sum(manager).await);
    assert_eq!(server.status().cache, None);
    config.tools.insert("add".into(), ToolConfig { cache: AutoSwitch::On, ..ToolConfig::default() });
    let (manager, server) = self::manager(config).await;
    assert_eq!(sum(manager.clone()).await, sum(manager.clone()).await);
    assert_ne!(read(&server).await, read(&server).await, "nothing else is kept");
}

#[tokio::test]
async fn an_updated_resource_is_read_anew() {
    let (inner, _) = adder();
    let mut config = config(inner.clone());
    config.cache = Some(CachePolicy::default());
    let (_manager, server) = manager(config).await;
    let listen = json!({"notifications": {"resourceSubscriptions": ["news://today"]}});
    let mut listening = server.answer(Call::new(Method::Listen, JsonObject::from(listen)));
    listening.next().await;
    assert!(wait::until(|| inner.notifier().is_watched("news://today")).await);
    let first = read(&server).await;
    assert_eq!(read(&server).await, first);
    inner.notifier().resource_updated("news://today");
    listening.next().await;
    assert_ne!(read(&server).await, first);
}

/// A server that does with each call of a tool what a test says; past that it answers.
struct Odd {
    server: Arc<serve::InProcessServer>,
    faults: Mutex<Vec<Fault>>,
    calls: AtomicUsize,
}

impl Odd {
    fn new(faults: Vec<Fault>) -> Arc<Self> {
        let server = serve::InProcessServer::builder("odd", "1")
            .tool(ToolBuilder::new("go", "Goes.").handler(|_: serve::NoArguments, _| async { Ok(TextOutput("gone")) }))
            .build();
        Arc::new(Self { server, faults: Mutex::new(faults), calls: AtomicUsize::new(0) })
    }
}

impl Answer for Odd {
    fn answer(&self, call: Call) -> Reply {
        if call.method == Method::ToolsCall {
            self.calls.fetch_add(1, Ordering::SeqCst);
            if let Some(fault) = self.faults.lock().pop() {
                return Reply::fault(fault);
            }
        }
        self.server.answer(call)
    }
}

#[tokio::test]
async fn what_was_not_sent_is_sent_again() {
    let lost = || Fault::new(FaultCode::ConnectionLost, "lost").sent(SentState::NotSent);
    let odd = Odd::new(vec![lost()]);
    let (of_default, _) = manager(config(odd.clone())).await;
    assert!(of_default.execute("go", &json!({})).await.success);
    let odd = Odd::new((0..9).map(|_| lost()).collect());
    let mut config = config(odd.clone());
    config.retry = Some(RetryPolicy { max_retries: 2, initial_delay: Duration::ZERO, ..RetryPolicy::default() });
    let (manager, _) = manager(config).await;
    let error = manager.execute("go", &json!({})).await.error.unwrap();
    assert_eq!((error.code.as_str(), odd.calls.load(Ordering::SeqCst)), ("MAX_RETRIES_EXCEEDED", 3));
    assert_eq!(error.details.unwrap()["cause"]["code"], "CONNECTION_LOST");
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_left_alone_and_the_status_says_why() {
    let odd = Odd::new((0..9).map(|_| Fault::new(FaultCode::ServerCrashed, "died again")).collect());
    let mut config = config(odd.clone());
    config.breaker = Some(BreakerPolicy { failure_threshold: 1, ..BreakerPolicy::default() });
    let (manager, server) = manager(config).await;
    assert_eq!(manager.execute("go", &json!({})).await.error.unwrap().code, "SERVER_CRASHED");
    let error = manager.execute("go", &json!({})).await.error.unwrap();
    assert_eq!(error.code, "SERVER_NOT_RUNNING");
    assert!(error.message.contains("left alone: died again"), "{}", error.message);
    assert!(server.status().left_alone.unwrap().contains("died again"));
    odd.faults.lock().clear();
    server.restart().await;
    assert!(manager.execute("go", &json!({})).await.success);
    assert_eq!(server.status().left_alone, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_counts_as_a_failure_of_the_server() {
    let hanging = serve::InProcessServer::builder("slow", "1")
        .tool(ToolBuilder::new("go", "Hangs.").handler(|_: serve::NoArguments, _| async {
            std::future::pending::<()>().await;
            Ok(TextOutput("never"))
        }))
        .build();
    let mut config = config(hanging);
    config.breaker = Some(BreakerPolicy { failure_threshold: 1, ..BreakerPolicy::default() });
    let (manager, server) = manager(config).await;
    assert_eq!(manager.execute("go", &json!({})).await.error.unwrap().code, "TIMEOUT");
    assert!(server.status().left_alone.is_some());
}

#[tokio::test]
async fn calls_beyond_the_limits_wait_or_are_refused() {
    let go = Arc::new(Semaphore::new(0));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tool = {
        let (go, inside, most) = (go.clone(), inside.clone(), most.clone());
        ToolBuilder::new("go", "Waits.").handler(move |_: serve::NoArguments, _| {
            let (go, inside, most) = (go.clone(), inside.clone(), most.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                go.acquire().await.unwrap().forget();
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(TextOutput("gone"))
            }
        })
    };
    let mut config = config(serve::InProcessServer::builder("slow", "1").tool(tool).build());
    config.limit = Some(LimitPolicy { in_flight: 2, queue: 3, wait: wait::PATIENCE });
    let (manager, server) = manager(config).await;
    let execution = ToolExecution { server: None, tool: "go".into(), arguments: None };
    let running = {
        let (manager, executions) = (manager.clone(), vec![execution; 8]);
        tokio::spawn(async move { manager.execute_parallel(executions).await })
    };
    assert!(wait::until(|| server.status().waiting == 3 && inside.load(Ordering::SeqCst) == 2).await);
    go.add_permits(100);
    let results = running.await.unwrap();
    let refused = results.iter().filter_map(|result| result.error.as_ref());
    assert_eq!(refused.map(|error| error.code.as_str()).collect::<Vec<_>>(), ["OVERLOADED"; 3]);
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

/// The stages of a call that somebody looks at, in order.
async fn stages(server: &Server, call: Call) -> Vec<&'static str> {
    let mut call = call;
    let timeline = CallTimeline::new(std::time::Instant::now());
    call.options.timeline = Some(timeline.clone());
    server.answer(call).outcome().await;
    timeline.steps().into_iter().map(|step| step.stage).collect()
}

#[tokio::test]
async fn a_call_that_somebody_looks_at_says_what_every_layer_did() {
    let (inner, _) = adder();
    let mut kept = config(inner);
    kept.cache = Some(CachePolicy::default());
    let (_manager, server) = manager(kept).await;
    let add = |b: Value| Call::tool("add", Some(&json!({"a": 1, "b": b}).into()));
    assert_eq!(stages(&server, add(json!(2))).await, ["validate", "upstream"]);
    assert_eq!(stages(&server, add(json!(2))).await, ["cache"]);
    assert_eq!(stages(&server, add(json!("x"))).await, ["validate"]);

    let odd = Odd::new(vec![Fault::new(FaultCode::ConnectionLost, "lost").sent(SentState::NotSent)]);
    let (_manager, server) = self::manager(config(odd)).await;
    let told = stages(&server, Call::tool("go", None)).await;
    assert_eq!(told.strip_prefix(&["validate"]).unwrap_or(&told), ["upstream", "retry", "upstream"]);
}

fn fault(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(tsugi_protocol::answer::CallFailure::Fault(fault)) => *fault,
        other => panic!("no fault but {other:?}"),
    }
}

/// A tool that is silent the first time and answers the second, and how often it was called.
fn forgetful(is_read_only: bool) -> (Arc<serve::InProcessServer>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let of_tool = calls.clone();
    let tool = ToolBuilder::new("look", "Looks.");
    let tool = if is_read_only { tool.read_only() } else { tool };
    let tool = tool.handler(move |_: serde_json::Map<String, Value>, _| {
        let calls = of_tool.fetch_add(1, Ordering::SeqCst);
        async move {
            if calls == 0 {
                std::future::pending::<()>().await;
            }
            Ok(TextOutput("seen"))
        }
    });
    (serve::InProcessServer::builder("forgetful", "1").tool(tool).build(), calls)
}

async fn look(is_read_only: bool, max_timeout: u64, codes: &[&str]) -> (Outcome, usize) {
    let (server, calls) = forgetful(is_read_only);
    let retry = RetryPolicy {
        max_retries: 2,
        initial_delay: Duration::from_millis(1),
        retryable_errors: codes.iter().map(|code| (*code).to_owned()).collect(),
        ..RetryPolicy::default()
    };
    let (timeout, max_timeout) = (Some(Duration::from_millis(200)), Some(Duration::from_millis(max_timeout)));
    let config = ServerConfig { timeout, max_timeout, retry: Some(retry), ..config(server) };
    let (_manager, server) = manager(config).await;
    let outcome = server.answer(Call::tool("look", Some(&json!({}).into()))).outcome().await;
    (outcome, calls.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_read_that_was_silent_for_too_long_is_tried_again_and_nothing_else_is() {
    for codes in [&["TIMEOUT"][..], &[]] {
        let (outcome, calls) = look(true, 60_000, codes).await;
        assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
        assert_eq!(calls, 2);
    }
    let (outcome, calls) = look(false, 60_000, &["TIMEOUT"]).await;
    let silent = fault(outcome);
    assert_eq!((silent.code, silent.sent, calls), (FaultCode::Timeout, SentState::Unknown, 1));
    let (outcome, calls) = look(true, 60_000, &["CONNECTION_LOST"]).await;
    assert_eq!((fault(outcome).code, calls), (FaultCode::Timeout, 1));
}

#[tokio::test]
async fn the_limit_on_the_whole_holds_over_all_tries() {
    let (outcome, calls) = look(true, 100, &["TIMEOUT"]).await;
    assert_eq!((fault(outcome).code, calls), (FaultCode::Timeout, 1));
}

#[tokio::test]
async fn a_programs_check_is_asked_also_when_the_result_is_kept() {
    let (server, calls) = adder();
    let mut config = config(server);
    config.cache = Some(CachePolicy::default());
    let (manager, _) = manager(config).await;
    let sum = json!({"a": 1, "b": 2});
    assert!(manager.execute("add", &sum).await.error.is_none());
    manager.set_check("s", "add", |_| async { Err("not today".to_owned()) });
    let error = manager.execute("add", &sum).await.error.expect("the check was not asked");
    assert_eq!(error.code, "CANNOT_EXECUTE");
    manager.remove_check("s", "add");
    assert!(manager.execute("add", &sum).await.error.is_none());
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the result is kept all the same");
}

#[tokio::test]
async fn a_call_whose_time_is_over_in_the_queue_was_not_sent_and_says_nothing_about_the_server() {
    for retry in [None, Some(RetryPolicy { retryable_errors: vec!["TIMEOUT".into()], ..RetryPolicy::default() })] {
        let calls = Arc::<AtomicUsize>::default();
        let begun = calls.clone();
        let slow = ToolBuilder::new("slow", "Never ends.").handler(move |_: serve::NoArguments, _| {
            begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<Result<TextOutput<String>, _>>()
        });
        let mut config = config(serve::InProcessServer::builder("slow", "1").tool(slow).build());
        config.limit = Some(LimitPolicy { in_flight: 1, queue: 10, wait: wait::PATIENCE });
        config.breaker = Some(BreakerPolicy { failure_threshold: 1, ..BreakerPolicy::default() });
        config.retry = retry.map(|policy| RetryPolicy { max_retries: 0, ..policy });
        let (_manager, server) = manager(config).await;
        let under_way = tokio::spawn(server.answer(Call::tool("slow", None)).outcome());
        assert!(wait::until(|| calls.load(Ordering::SeqCst) == 1).await);
        let mut call = Call::tool("slow", None);
        call.options.timeout = Some(Duration::from_millis(50));
        let Outcome::Failed(failure) = server.answer(call).outcome().await else { panic!("it ended") };
        let tsugi_protocol::answer::CallFailure::Fault(fault) = failure else { panic!("{failure:?}") };
        assert_eq!((fault.code, fault.sent), (FaultCode::Timeout, SentState::NotSent), "{fault}");
        assert!(server.status().left_alone.is_none(), "the breaker was told: {fault}");
        under_way.abort();
    }
}
