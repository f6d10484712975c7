//! Settings after everything is checked: complete, typed, and with every default in place.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use tsugi_gateway::guard::api_key::{KeyRole, SecretDigest};
use tsugi_process::{NetworkAccess, SandboxPolicy};
use url::Url;

use super::secret::{MaskedText, Secret};

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckedSettings {
    pub(crate) servers: Vec<ServerSettings>,
    pub(crate) options: OptionSettings,
    pub(crate) gateway: GatewaySettings,
    /// Every secret value that the configuration holds, to be masked in whatever is shown.
    #[serde(skip)]
    pub(crate) secrets: Vec<Secret>,
}

/// One upstream server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerSettings {
    pub(crate) name: String,
    pub(crate) target: ServerTarget,
    pub(crate) enabled: bool,
    /// How long a call may be silent.
    #[serde(serialize_with = "milliseconds")]
    pub(crate) timeout: Duration,
    /// How long a call may take in all.
    #[serde(serialize_with = "optional_milliseconds")]
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) tools: BTreeMap<String, ToolSettings>,
    pub(crate) filter: ToolFilter,
    pub(crate) retry: RetrySettings,
    pub(crate) cache: CacheSettings,
    pub(crate) validate: ValidateSettings,
    /// When it is left alone; `None` means never.
    pub(crate) breaker: Option<BreakerSettings>,
    pub(crate) restart: Restart,
    pub(crate) start: Start,
    pub(crate) instances: Instances,
    #[serde(serialize_with = "optional_milliseconds")]
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) max_connections: usize,
    pub(crate) max_in_flight: usize,
    /// How its tools are named, where it is not as the gateway names them.
    pub(crate) naming: Option<Naming>,
    pub(crate) era: EraChoice,
    pub(crate) protocol_version: Option<String>,
    /// Whether the server's instructions are passed on.
    pub(crate) instructions: bool,
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(crate) enum ServerTarget {
    Command(CommandTarget),
    Remote(RemoteTarget),
    Builtin(BuiltinTarget),
}

/// A program that we run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandTarget {
    pub(crate) program: MaskedText,
    pub(crate) args: Vec<MaskedText>,
    pub(crate) env: Vec<(String, MaskedText)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) sandbox: SandboxPolicy,
}

/// A server that runs elsewhere.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteTarget {
    /// The address as it may be shown.
    pub(crate) shown: String,
    #[serde(skip)]
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, MaskedText)>,
    pub(crate) transport: RemoteTransport,
}

/// A server that is part of tsugi.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuiltinTarget {
    pub(crate) builtin: BuiltinServer,
    pub(crate) args: Vec<MaskedText>,
}

/// The servers that are part of tsugi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BuiltinServer {
    Pm,
    Demo,
}

/// How to talk to a server elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RemoteTransport {
    /// HTTP, then SSE.
    Auto,
    Http,
    Sse,
    /// JSON-RPC at `POST <url>/rpc`, without a handshake.
    Rpc,
    Websocket,
}

/// Which tools are offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ToolFilter {
    /// Checked globs.
    pub(crate) allow: Vec<String>,
    /// Checked globs; they win.
    pub(crate) deny: Vec<String>,
}

/// What differs for one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolSettings {
    #[serde(serialize_with = "optional_milliseconds")]
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Tri,
    pub(crate) cache: Tri,
    pub(crate) validate: Option<ValidateSettings>,
    pub(crate) read_only: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) hidden: bool,
    pub(crate) rename: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) quiet: bool,
}

/// A switch that may be left to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tri {
    #[default]
    Auto,
    On,
    Off,
}

/// When and how a call is tried again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetrySettings {
    pub(crate) max_retries: u32,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) initial_delay: Duration,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) max_delay: Duration,
    pub(crate) backoff_multiplier: f64,
    pub(crate) retryable_errors: Vec<String>,
}

/// Whether results are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheSettings {
    pub(crate) enabled: bool,
    pub(crate) max_entries: usize,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) ttl: Duration,
    pub(crate) update_age_on_get: bool,
}

/// How values are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ValidateSettings {
    pub(crate) arguments: Strictness,
    pub(crate) results: Strictness,
}

/// When a server that keeps failing is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BreakerSettings {
    pub(crate) failures: u32,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) window: Duration,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) pause: Duration,
}

/// What happens to a value that does not fit its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Strictness {
    Off,
    Warn,
    Enforce,
}

/// Whether a program that died is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Restart {
    OnFailure,
    Never,
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Start {
    Eager,
    Lazy,
}

/// How many of a server run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Instances {
    Shared,
    PerSession,
    Pool(usize),
}

/// How tools of several servers are named together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Naming {
    Prefix,
    PrefixOnConflict,
    Bare,
}

/// Which kind of protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EraChoice {
    Auto,
    Modern,
    Legacy,
}

/// What holds over all servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OptionSettings {
    pub(crate) max_parallel: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_connections: Option<usize>,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) timeout: Duration,
    #[serde(serialize_with = "optional_milliseconds")]
    pub(crate) max_timeout: Option<Duration>,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) input_patience: Duration,
    pub(crate) retry: RetrySettings,
    pub(crate) cache: CacheSettings,
    pub(crate) validate: ValidateSettings,
    pub(crate) debug: bool,
    pub(crate) naming: Naming,
}

/// How the servers are offered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewaySettings {
    pub(crate) listen: SocketAddr,
    pub(crate) insecure: bool,
    pub(crate) naming: Naming,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) auth: AuthSettings,
    pub(crate) limits: LimitSettings,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) drain: Duration,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) session_idle: Duration,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) keep_alive: Duration,
    pub(crate) seal_key: Option<Secret>,
    pub(crate) admin_api: AdminSettings,
    pub(crate) dashboard: bool,
    pub(crate) metrics: bool,
}

/// The name under which `gateway.auth.adminKey` appears.
pub(crate) const ADMIN: &str = "admin";

/// Who may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthSettings {
    pub(crate) keys: Vec<KeySettings>,
    pub(crate) admin_key: Option<Secret>,
}

impl AuthSettings {
    /// Whether a key of the configuration has this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name) || (self.admin_key.is_some() && name == ADMIN)
    }
}

/// One API key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeySettings {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) digest: SecretDigest,
    pub(crate) role: KeyRole,
    pub(crate) filter: ToolFilter,
    pub(crate) per_minute: Option<u32>,
    pub(crate) max_in_flight: Option<usize>,
}

/// How much callers may send and hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitSettings {
    /// In bytes.
    pub(crate) body: u64,
    /// In bytes.
    pub(crate) headers: u64,
    pub(crate) connections: usize,
    pub(crate) streams: usize,
    pub(crate) sessions: usize,
    pub(crate) batch: usize,
    pub(crate) page_items: usize,
    /// In bytes.
    pub(crate) page_bytes: u64,
}

/// What may be changed over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdminSettings {
    pub(crate) enabled: bool,
    pub(crate) allow_commands: bool,
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u128(duration.as_millis())
}

fn optional_milliseconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_millis()).serialize(serializer)
}

/// Programs that fetch what they run when they do not have it yet.
const PACKAGE_RUNNERS: [&str; 10] = ["npx", "bunx", "pnpx", "uvx", "pipx", "uv", "npm", "pnpm", "deno", "docker"];

impl ServerSettings {
    /// The program that runs it, where that may download it first.
    pub(crate) fn package_runner(&self) -> Option<&'static str> {
        let ServerTarget::Command(command) = &self.target else { return None };
        let program = command.program.expose();
        let name = program.rsplit('/').next().unwrap_or_default();
        PACKAGE_RUNNERS.into_iter().find(|runner| *runner == name)
    }

    /// The package runner, if its sandbox allows no network: it cannot download anything then.
    pub(crate) fn offline_runner(&self) -> Option<&'static str> {
        let ServerTarget::Command(command) = &self.target else { return None };
        let is_offline = command.sandbox.rules().is_some_and(|rules| rules.net != NetworkAccess::All);
        self.package_runner().filter(|_| is_offline)
    }

    /// What it is, as far as it may be shown.
    pub(crate) fn shown_target(&self) -> String {
        match &self.target {
            ServerTarget::Command(command) => {
                let words = std::iter::once(&command.program).chain(&command.args);
                words.map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            ServerTarget::Remote(remote) => remote.shown.clone(),
            ServerTarget::Builtin(builtin) => format!("built in: {:?}", builtin.builtin).to_lowercase(),
        }
    }
}

/// The address may hold a password, so only its showable form is printed.
impl std::fmt::Debug for RemoteTarget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RemoteTarget")
            .field("url", &self.shown)
            .field("headers", &self.headers)
            .field("transport", &self.transport)
            .finish()
    }
}
