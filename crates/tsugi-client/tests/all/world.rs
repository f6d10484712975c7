//! What the tests share: a server under test with a bystander beside it, and quick settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tsugi_client::backoff::BackoffPolicy;
use tsugi_client::config::{JobSettings, RetryPolicy, own_profile};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, Server, ServerConfig};
use tsugi_process::{JobCommand, JobOptions, StopGrace};
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::mcp::ClientCapabilities;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_testkit::fake::Fake;
use tsugi_testkit::process::Process;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::{HttpServer, Scripted};
use tsugi_testkit::wait;

use crate::outcome::{end_of, text};

/// Longer than anything takes on a slow machine. What has not ended by then hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How long a call may be silent in rows where the server is silent on purpose.
pub(crate) const SHORT: Duration = Duration::from_millis(400);

/// Restarts without waiting, and without taking a few of them for a crash loop.
pub(crate) const EAGER: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(50),
    longest_away: Duration::from_millis(50),
    burst: 1000,
    window: Duration::from_secs(10),
    pause: Duration::from_secs(600),
    healthy_after: Duration::from_secs(60),
    max_retries: None,
};

/// Options with limits that only something that hangs reaches.
pub(crate) fn options() -> ManagerOptions {
    ManagerOptions { timeout: LIMIT, handshake_timeout: LIMIT, probe_timeout: LIMIT, ..ManagerOptions::default() }
}

/// A server that is restarted at once and never left alone.
pub(crate) fn config(name: &str, target: ConnectTarget) -> ServerConfig {
    // Rows count what reaches the server, so nothing is repeated unless a row says so.
    let retry = Some(RetryPolicy { max_retries: 0, ..RetryPolicy::default() });
    ServerConfig { backoff: EAGER, job: quick_job(), breaker: None, retry, ..ServerConfig::new(name, target) }
}

/// Short steps of stopping, for servers that need all of them.
pub(crate) fn quick_job() -> JobSettings {
    let grace =
        StopGrace { stdin: Duration::from_millis(300), terminate: Duration::from_millis(300), ..StopGrace::default() };
    JobSettings(JobOptions { grace, ..JobOptions::default() })
}

/// How to start a scripted server.
pub(crate) fn command(scripted: &Scripted) -> JobCommand {
    scripted
        .env()
        .into_iter()
        .fold(JobCommand::new(scripted.program()).args(scripted.args()), |command, (name, value)| {
            command.env(name, value)
        })
}

/// A call of a tool by a client that can be asked everything.
pub(crate) fn call(tool: &str, arguments: Value) -> Call {
    with_client(Call::tool(tool, Some(&arguments.into())))
}

/// The same call from a client that can be asked everything.
pub(crate) fn with_client(mut call: Call) -> Call {
    call.meta = RequestMeta::of_client(Arc::new(own_profile(ClientCapabilities::all())));
    call
}

/// The same call, given up after so much silence.
pub(crate) fn within(mut call: Call, timeout: Duration) -> Call {
    call.options.timeout = Some(timeout);
    call
}

/// The other side: a server that misbehaves.
pub(crate) trait Peer {
    /// How to reach it.
    fn target(&self) -> ConnectTarget;

    /// The processes that it consists of, seen from outside.
    fn processes(&self) -> Vec<Process> {
        Vec::new()
    }
}

impl Peer for Scripted {
    fn target(&self) -> ConnectTarget {
        ConnectTarget::stdio(command(self))
    }

    fn processes(&self) -> Vec<Process> {
        self.mark().processes()
    }
}

impl Peer for HttpServer {
    fn target(&self) -> ConnectTarget {
        http(&self.url())
    }
}

impl Peer for Fake {
    fn target(&self) -> ConnectTarget {
        http(&self.url())
    }
}

/// An HTTP server, whatever it speaks.
pub(crate) fn http(url: &str) -> ConnectTarget {
    ConnectTarget::url(url.parse().unwrap(), HeaderMap::new()).unwrap()
}

/// A server under test in a manager, and a bystander that must not notice anything.
pub(crate) struct Bench<P: Peer = Scripted> {
    pub(crate) manager: Manager,
    pub(crate) peer: P,
    pub(crate) server: Server,
    bystander: Bystander,
}

impl Bench {
    /// With the quick settings.
    pub(crate) fn new(script: Script) -> Self {
        Self::of(Scripted::new(script))
    }

    /// With settings of its own.
    pub(crate) fn with(script: Script, settings: impl FnOnce(ServerConfig) -> ServerConfig) -> Self {
        Self::under(options(), Scripted::new(script), settings)
    }
}

impl<P: Peer> Bench<P> {
    /// With any server.
    pub(crate) fn of(peer: P) -> Self {
        Self::under(options(), peer, |config| config)
    }

    /// With options of its own.
    pub(crate) fn under(options: ManagerOptions, peer: P, settings: impl FnOnce(ServerConfig) -> ServerConfig) -> Self {
        let manager = Manager::new(options);
        let server = manager.register(settings(config("tested", peer.target()))).unwrap();
        let bystander = Bystander::start(&manager);
        Self { manager, peer, server, bystander }
    }

    /// Calls a tool to its end.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.outcome(call(tool, arguments)).await
    }

    /// Makes a call to its end.
    pub(crate) async fn outcome(&self, call: Call) -> Outcome {
        end_of(self.server.answer(call), LIMIT).await.expect("the call ends")
    }

    /// The same call many times at once; every one must end.
    pub(crate) async fn crowd(&self, size: usize, call: &Call) -> Vec<Outcome> {
        let replies = (0..size).map(|_| end_of(self.server.answer(call.clone()), LIMIT));
        let ended = futures_util::future::join_all(replies).await;
        ended.into_iter().map(|outcome| outcome.expect("every call ends")).collect()
    }

    /// The positive control: the legitimate call works.
    pub(crate) async fn works(&self) {
        assert_eq!(text(&self.call("echo", json!({"message": "still here"})).await), "still here");
    }

    /// Waits until the server has told what it offers, so that no list is in flight while it misbehaves.
    pub(crate) async fn settle(&self) {
        self.server.ready(LIMIT).await.unwrap();
        assert!(wait::until(|| self.server.status().in_flight == 0).await);
    }

    /// What holds after every row: nothing in flight, the next call works, the bystander noticed nothing,
    /// and nothing is left after stopping.
    pub(crate) async fn finish(self) {
        self.works().await;
        self.finish_dead().await;
    }

    /// The same for a server that cannot come back.
    pub(crate) async fn finish_dead(self) {
        let is_quiet = || self.server.status().in_flight == 0;
        assert!(wait::until(is_quiet).await, "{} calls are still in flight", self.server.status().in_flight);
        self.bystander.finish().await;
        tokio::time::timeout(LIMIT, self.manager.stop()).await.expect("stopping does not hang");
        assert_eq!(self.peer.processes(), [], "nothing is left when stopping returns");
    }
}

/// A well-behaved server that is called all the time.
struct Bystander {
    scripted: Scripted,
    is_over: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    caller: JoinHandle<Vec<String>>,
}

impl Bystander {
    fn start(manager: &Manager) -> Self {
        let scripted = Scripted::new(Script::legacy());
        let server = manager.register(config("bystander", ConnectTarget::stdio(command(&scripted)))).unwrap();
        let (is_over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let caller = tokio::spawn(keep_calling(server, is_over.clone(), calls.clone()));
        Self { scripted, is_over, calls, caller }
    }

    async fn finish(self) {
        let seen = self.calls.load(Ordering::Acquire);
        assert!(wait::until(|| self.calls.load(Ordering::Acquire) > seen).await, "the bystander is held up");
        self.is_over.store(true, Ordering::Release);
        let errors = self.caller.await.unwrap();
        assert_eq!(errors, Vec::<String>::new(), "the bystander noticed");
        assert_eq!(self.scripted.journal().launches(), 1, "the bystander was restarted");
    }
}

async fn keep_calling(server: Server, is_over: Arc<AtomicBool>, calls: Arc<AtomicUsize>) -> Vec<String> {
    let mut errors = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let outcome = server.answer(call("echo", json!({"message": "beside"}))).outcome().await;
        if !matches!(outcome, Outcome::Complete(_)) {
            errors.push(format!("{outcome:?}"));
        }
        calls.fetch_add(1, Ordering::AcqRel);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    errors
}
