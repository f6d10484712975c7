//! What the library needs to know: checked and complete, however the user wrote it.

mod policy;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tsugi_process::{JobCommand, JobOptions};
use tsugi_protocol::answer::Answer;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, ProtocolVersion};
use tsugi_transport::Link;
use tsugi_transport::http::{HttpTarget, TargetCredential};
use url::Url;

use crate::backoff::BackoffPolicy;
pub use crate::layer::can_execute::CallChecks;
use crate::seal::StateSealer;
pub use policy::{
    AutoSwitch, BreakerPolicy, CachePolicy, InstancePolicy, LimitPolicy, RetryPolicy, ValidatePolicy, ValidationMode,
};
pub use tsugi_pins::{LintMode, PinMode, PinPolicy, PinStore};

/// What holds for all servers of a manager.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// How many calls of one batch run at once.
    pub max_parallel: usize,
    /// How long a call may be silent, unless the server or the tool says otherwise.
    pub timeout: Duration,
    /// How long a call may take whatever happens, unless the server says it or the call may be silent for longer.
    pub max_timeout: Duration,
    /// How long connecting and the handshake may take together.
    pub handshake_timeout: Duration,
    /// How long a server may take to answer the question which era it speaks, before it counts as legacy.
    pub probe_timeout: Duration,
    /// The legacy revision that is offered first.
    pub legacy_version: ProtocolVersion,
    /// How long a server's question waits for its answer.
    pub input_lifetime: Duration,
    /// How long it waits once another call is kept out by it: calls to a legacy server that asks on a shared stream take
    /// turns.
    pub input_patience: Duration,
    /// How many calls of one server may wait for answers at once. Further questions are refused.
    pub max_parked: usize,
    /// Where to remember what was found out about servers; nowhere when absent.
    pub state_dir: Option<PathBuf>,
    /// Who we are and what a legacy server may ask us for.
    pub profile: Arc<ClientProfile>,
    /// The answer for a legacy server that asks for roots outside any call; `None` means that there are none.
    pub roots: Option<RawJson>,
    /// Seals the state of parked calls.
    pub sealer: Arc<StateSealer>,
    /// How many calls to all servers together may be under way; `None` means no limit besides each server's.
    pub limit: Option<LimitPolicy>,
    /// How many connections to all servers together there may be; the one unused for longest is closed for a new
    /// one, and connected again when it is called. `None` means no limit besides each server's. Servers inside this
    /// process do not count.
    pub max_connections: Option<usize>,
    /// Whether servers' standard error and messages are logged, with secrets masked.
    pub debug: bool,
    /// A program's own checks before tools are called.
    pub checks: CallChecks,
    /// What servers are held to; without it nothing is pinned.
    pub pins: Option<Arc<PinStore>>,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            max_parallel: 10,
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(600),
            handshake_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(10),
            legacy_version: ProtocolVersion::LATEST_LEGACY,
            input_lifetime: Duration::from_secs(600),
            input_patience: Duration::from_secs(5),
            max_parked: 1024,
            state_dir: None,
            profile: Arc::new(own_profile(ClientCapabilities::all())),
            roots: None,
            sealer: Arc::new(StateSealer::random()),
            limit: None,
            max_connections: None,
            debug: false,
            checks: CallChecks::default(),
            pins: None,
        }
    }
}

/// A profile under our own name with these capabilities.
pub fn own_profile(capabilities: ClientCapabilities) -> ClientProfile {
    let info = serde_json::json!({"name": "tsugi", "version": env!("CARGO_PKG_VERSION")});
    ClientProfile { version: ProtocolVersion::LATEST, info: Some(info.into()), capabilities }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Its name, unique within a manager.
    pub name: String,
    /// How to reach it.
    pub target: ConnectTarget,
    /// How long a call may be silent.
    pub timeout: Option<Duration>,
    /// How long a call may take whatever happens; no other limit goes beyond it.
    pub max_timeout: Option<Duration>,
    /// Settings of single tools.
    pub tools: HashMap<String, ToolConfig>,
    /// What to do when it dies.
    pub restart: RestartPolicy,
    /// When to start it.
    pub start: StartPolicy,
    /// Which era to speak.
    pub era: EraChoice,
    /// How to wait between attempts.
    pub backoff: BackoffPolicy,
    /// How its process is run, when it has one.
    pub job: JobSettings,
    /// What is checked against schemas.
    pub validate: ValidatePolicy,
    /// How strictly it is held to its pins, where the manager has some.
    pub pin: PinPolicy,
    /// When a call is tried again; `None` means never.
    pub retry: Option<RetryPolicy>,
    /// How results of reads are kept; `None` means only those of tools that say so.
    pub cache: Option<CachePolicy>,
    /// How many calls at once; `None` means no limit.
    pub limit: Option<LimitPolicy>,
    /// When it is left alone after failures; `None` means never.
    pub breaker: Option<BreakerPolicy>,
    /// How many of it run.
    pub instances: InstancePolicy,
    /// How many connections to it there may be; the one unused for longest is closed for a new one.
    pub max_connections: usize,
    /// Stop what was not used for so long; the next call starts it again.
    pub idle_timeout: Option<Duration>,
    /// How long connecting and the handshake may take together, where it differs from the manager's.
    pub handshake_timeout: Option<Duration>,
    /// The legacy revision that is offered first, where it differs from the manager's.
    pub legacy_version: Option<ProtocolVersion>,
}

impl ServerConfig {
    /// A server with the usual settings.
    pub fn new(name: impl Into<String>, target: ConnectTarget) -> Self {
        Self {
            name: name.into(),
            target,
            timeout: None,
            max_timeout: None,
            tools: HashMap::new(),
            restart: RestartPolicy::OnFailure,
            start: StartPolicy::Eager,
            era: EraChoice::Auto,
            backoff: BackoffPolicy::default(),
            job: JobSettings::default(),
            validate: ValidatePolicy::default(),
            pin: PinPolicy::default(),
            // On by default: only calls that cannot have an effect twice are repeated.
            retry: Some(RetryPolicy::default()),
            cache: None,
            limit: Some(LimitPolicy::default()),
            breaker: Some(BreakerPolicy::default()),
            instances: InstancePolicy::Shared,
            max_connections: 10,
            idle_timeout: None,
            handshake_timeout: None,
            legacy_version: None,
        }
    }

    /// A manager's options as they hold for this server.
    pub(crate) fn over(&self, options: &Arc<ManagerOptions>) -> Arc<ManagerOptions> {
        // The usual case shares the manager's options instead of copying them.
        if self.handshake_timeout.is_none() && self.legacy_version.is_none() {
            return options.clone();
        }
        Arc::new(ManagerOptions {
            handshake_timeout: self.handshake_timeout.unwrap_or(options.handshake_timeout),
            legacy_version: self.legacy_version.unwrap_or(options.legacy_version),
            ..ManagerOptions::clone(options)
        })
    }
}

/// How a server's process is run.
#[derive(Debug, Clone, Default)]
pub struct JobSettings(pub JobOptions);

impl PartialEq for JobSettings {
    /// What is masked does not count: it may hold the secrets of all servers, and a server would be started again
    /// because another one has a new token. Its own are part of its target.
    fn eq(&self, other: &Self) -> bool {
        // Destructured, so that a new option cannot be forgotten here.
        let JobOptions { grace, redact: _, tail_lines, egress } = &self.0;
        (*grace, *tail_lines, egress) == (other.0.grace, other.0.tail_lines, &other.0.egress)
    }
}

/// How to reach a server.
#[derive(Clone)]
pub enum ConnectTarget {
    /// A program that we start and talk to over its standard streams.
    Stdio(Box<JobCommand>),
    /// An HTTP server; which of the HTTP wires is found out.
    Http(HttpTarget),
    /// An HTTP server that speaks streamable HTTP.
    StreamableHttp(HttpTarget),
    /// An HTTP server that speaks the two-endpoint wire of 2024-11-05.
    Sse(HttpTarget),
    /// A server that only answers JSON-RPC at `POST <url>/rpc`, without a handshake.
    PlainRpc(HttpTarget),
    WebSocket(HttpTarget),
    /// A server inside this process.
    InProcess(Arc<dyn Answer>),
    /// A server that a program connects itself, such as one written for another library.
    Link(LinkSource),
}

/// Makes a new link to a server whenever one is needed.
#[derive(Clone)]
pub struct LinkSource(Arc<dyn Fn() -> Link + Send + Sync>);

impl LinkSource {
    /// From a function that connects.
    pub fn new(connect: impl Fn() -> Link + Send + Sync + 'static) -> Self {
        Self(Arc::new(connect))
    }

    pub(crate) fn connect(&self) -> Link {
        (self.0)()
    }
}

impl ConnectTarget {
    pub fn stdio(command: JobCommand) -> Self {
        ConnectTarget::Stdio(Box::new(command))
    }

    /// An address: `ws://` and `wss://` mean WebSocket, `http://` and `https://` mean HTTP, found out.
    /// `None` for any other scheme.
    pub fn url(url: Url, headers: HeaderMap) -> Option<Self> {
        let scheme = url.scheme().to_owned();
        let target = HttpTarget::new(url, headers);
        match scheme.as_str() {
            // Which HTTP wire it speaks is found out when it is connected.
            "http" | "https" => Some(ConnectTarget::Http(target)),
            // A WebSocket is named by its scheme; all other wires share `http`.
            "ws" | "wss" => Some(ConnectTarget::WebSocket(target)),
            _ => None,
        }
    }

    /// What puts credentials on its requests, where it is an address that has such.
    pub fn credential(&self) -> Option<&TargetCredential> {
        match self {
            ConnectTarget::Http(target)
            | ConnectTarget::StreamableHttp(target)
            | ConnectTarget::Sse(target)
            | ConnectTarget::PlainRpc(target)
            | ConnectTarget::WebSocket(target) => target.credential.as_ref(),
            ConnectTarget::Stdio(_) | ConnectTarget::InProcess(_) | ConnectTarget::Link(_) => None,
        }
    }

    /// The word for people: `stdio`, `http`, `sse`, `rpc`, `websocket`, `builtin`.
    pub fn kind(&self) -> &'static str {
        match self {
            ConnectTarget::Stdio(_) => "stdio",
            ConnectTarget::Http(_) | ConnectTarget::StreamableHttp(_) => "http",
            ConnectTarget::Sse(_) => "sse",
            ConnectTarget::PlainRpc(_) => "rpc",
            ConnectTarget::WebSocket(_) => "websocket",
            ConnectTarget::InProcess(_) | ConnectTarget::Link(_) => "builtin",
        }
    }
}

impl PartialEq for ConnectTarget {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (ConnectTarget::Stdio(one), ConnectTarget::Stdio(two)) => one == two,
            (ConnectTarget::Http(one), ConnectTarget::Http(two))
            | (ConnectTarget::StreamableHttp(one), ConnectTarget::StreamableHttp(two))
            | (ConnectTarget::Sse(one), ConnectTarget::Sse(two))
            | (ConnectTarget::PlainRpc(one), ConnectTarget::PlainRpc(two))
            | (ConnectTarget::WebSocket(one), ConnectTarget::WebSocket(two)) => one == two,
            // Two servers in this process are the same only if they are one object.
            (ConnectTarget::InProcess(one), ConnectTarget::InProcess(two)) => Arc::ptr_eq(one, two),
            (ConnectTarget::Link(one), ConnectTarget::Link(two)) => Arc::ptr_eq(&one.0, &two.0),
            _ => false,
        }
    }
}

impl std::fmt::Debug for ConnectTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Commands and addresses may hold secrets.
        f.write_str(self.kind())
    }
}

/// Settings of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolConfig {
    /// How long a call may be silent.
    pub timeout: Option<Duration>,
    /// Whether calls are kept out of the log at the usual level.
    pub is_quiet: bool,
    /// Whether a call may be tried again. `On` vouches that repeating it does no harm.
    pub retry: AutoSwitch,
    /// Whether results are kept; `Auto` means those of read-only tools where the server's are kept.
    pub cache: AutoSwitch,
    /// How long a result is kept, where it differs from the server's.
    pub cache_ttl: Option<Duration>,
    /// Overrules the tool's own `readOnlyHint`.
    pub read_only: Option<bool>,
    /// Overrules the tool's own `idempotentHint`.
    pub idempotent: Option<bool>,
    /// Overrules what the server says about checking.
    pub validate: Option<ValidatePolicy>,
}

/// What to do when a server dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Start it again, with growing pauses.
    #[default]
    OnFailure,
    /// Leave it down until it is started.
    Never,
}

/// When to start a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartPolicy {
    #[default]
    Eager,
    /// With the first call.
    Lazy,
}

/// Which era to speak with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraChoice {
    #[default]
    Auto,
    /// The modern one, without asking.
    Modern,
    /// The legacy one, without asking.
    Legacy,
}
