//! What the layers cost: CPU time per call of the bare connection against the whole stack, interleaved.
//!
//! `cargo bench -p tsugi-client --bench stack`. It prints and asserts nothing: the machine may be busy, so only
//! the ratios of runs that follow each other mean something.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people, run by hand")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use tsugi_client::config::{AutoSwitch, CachePolicy, RetryPolicy, ToolConfig, ValidatePolicy, ValidationMode};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, Server, ServerConfig};
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::serve::{self, ToolOutput};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

const CONCURRENCY: usize = 64;
const ROUNDS: usize = 9;

fn main() {
    tsugi_process::guardian_main();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!(
            "CPU per call of this process, 1 KiB, concurrency {CONCURRENCY}, median of {ROUNDS} interleaved rounds"
        );
        compare("in-process echo", |name| config(name, ConnectTarget::InProcess(echo())), 20_000).await;
        let scripted = Scripted::new(Script::modern());
        let target = || ConnectTarget::stdio(JobCommand::new(scripted.program()).args(scripted.args()));
        compare("stdio echo", |name| config(name, target()), 5_000).await;
    });
}

fn echo() -> Arc<serve::InProcessServer> {
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}, "n": {"type": "integer"}}});
    let handler = |arguments: JsonObject, _| async move {
        tokio::task::yield_now().await;
        Ok(ToolOutput::text(arguments.get_str("message").unwrap_or_default()))
    };
    serve::InProcessServer::builder("echo", "1").raw_tool("echo", "Echoes.", RawJson::from(schema), handler).build()
}

fn config(name: &str, target: ConnectTarget) -> ServerConfig {
    ServerConfig::new(name, target)
}

/// Nothing but the connection, the deadline and the log.
fn bare(mut config: ServerConfig) -> ServerConfig {
    config.validate = ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off };
    (config.retry, config.limit, config.breaker, config.cache) = (None, None, None, None);
    config
}

/// Every layer on, results not kept: validation, retry, limit, breaker, and the question whether to keep.
fn whole(mut config: ServerConfig) -> ServerConfig {
    config.retry = Some(RetryPolicy { max_retries: 3, ..RetryPolicy::default() });
    config.cache = Some(CachePolicy::default());
    config.tools.insert("echo".into(), ToolConfig { cache: AutoSwitch::Off, ..ToolConfig::default() });
    config
}

/// Every layer on, and every call a look into what is kept that finds nothing.
fn missing(mut config: ServerConfig) -> ServerConfig {
    config = whole(config);
    config.tools.insert("echo".into(), ToolConfig { cache: AutoSwitch::On, ..ToolConfig::default() });
    config
}

async fn compare(what: &str, config: impl Fn(&str) -> ServerConfig, calls: usize) {
    let manager = Manager::new(ManagerOptions::default());
    let mut servers = Vec::new();
    for (name, set) in [("bare", bare as fn(ServerConfig) -> ServerConfig), ("whole", whole), ("missing", missing)] {
        let server = manager.register(set(config(name))).unwrap();
        server.ready(Duration::from_secs(60)).await.unwrap();
        servers.push(server);
    }
    let mut times = [const { Vec::new() }; 3];
    let mut ratios = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + 1 {
        let mut now = [0.0; 3];
        for (index, server) in servers.iter().enumerate() {
            now[index] = run(server, calls, round).await;
        }
        // The first round warms up.
        if round > 0 {
            for index in 0..3 {
                times[index].push(now[index]);
                ratios[index].push(now[index] / now[0]);
            }
        }
    }
    println!("{what}:");
    for (index, name) in ["bare connection", "whole stack", "whole stack, cache misses"].into_iter().enumerate() {
        println!("  {name:26} {:7.2} µs   {:.2}×", median(&mut times[index]), median(&mut ratios[index]));
    }
    manager.stop().await;
}

/// Microseconds of CPU per call.
async fn run(server: &Server, calls: usize, round: usize) -> f64 {
    let profile = ManagerOptions::default().profile;
    let text = "x".repeat(1000);
    let before = cpu();
    futures_util::stream::iter(0..calls)
        .for_each_concurrent(CONCURRENCY, |number| {
            let arguments = RawJson::from(json!({"message": text, "n": round * calls + number}));
            let mut call = Call::tool("echo", Some(&arguments));
            call.meta = RequestMeta::of_client(profile.clone());
            async move {
                let outcome = server.answer(call).outcome().await;
                assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
            }
        })
        .await;
    (cpu() - before).as_secs_f64() * 1e6 / calls as f64
}

/// The CPU time of the threads of this process, without its children. The kernel counts it in nanoseconds.
fn cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let time = |thread: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(time).sum())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
