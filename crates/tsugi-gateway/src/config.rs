//! The settings of one gateway: addresses, limits, who may come in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tsugi_tls::server::ServerTls;
use url::Url;

use crate::dashboard::payload::RecordMode;
use crate::guard::api_key::ApiKey;
use crate::guard::proxy_trust::AddressRange;

/// The settings of a gateway, checked and complete.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Where to listen. Port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// A socket that listens already, used instead of `listen`. Another process holds it too and may hand it
    /// to another gateway, so we stop accepting as soon as we begin to stop. Clients that still have a connection to us
    /// are served and sent there.
    pub inherited: Option<Arc<TcpListener>>,
    /// Whether an address that others can reach may be used without authentication.
    pub exposure: Exposure,
    /// Certificates and keys. Without them the addresses speak plain HTTP.
    pub tls: Option<Arc<ServerTls>>,
    /// Plain addresses that redirect to the first one of `listen`. Only with `tls`.
    pub redirect: Vec<SocketAddr>,
    /// The address by which clients know this gateway. When it is `https`, browsers are told to stay with that.
    pub public_url: Option<Url>,
    /// Names by which this gateway may be addressed, beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Web origins that may call, beside those of this machine: `https://app.example.com`.
    pub allowed_origins: Vec<String>,
    /// Proxies in front of this gateway. They speak TLS to the clients, and are believed about their address.
    pub trusted_proxies: Vec<AddressRange>,
    /// Who may come in. Without any key, everybody who reaches the address may.
    pub keys: Vec<ApiKey>,
    /// Whether the dashboard is offered at `/`.
    pub dashboard: bool,
    /// Whether the numbers are offered at `/metrics`.
    pub metrics: bool,
    /// Which calls the dashboard records with arguments and results. Without it, those that fail, while no key is
    /// needed to call.
    pub record: Option<RecordMode>,
    /// Bounds.
    pub limits: GatewayLimits,
}

/// Whether an unauthenticated gateway may listen beyond this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Only with authentication.
    Guarded,
    /// Even without keys: `--insecure` was given.
    Insecure,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7600)],
            inherited: None,
            exposure: Exposure::Guarded,
            tls: None,
            redirect: Vec::new(),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            keys: Vec::new(),
            dashboard: true,
            metrics: true,
            record: None,
            limits: GatewayLimits::default(),
        }
    }
}

impl GatewayConfig {
    /// A gateway on a free port of this machine: for tests and for programs that ask for the address afterwards.
    pub fn on_free_port() -> Self {
        Self { listen: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)], ..Self::default() }
    }

    /// True when every address is reachable from this machine alone.
    pub fn is_local(&self) -> bool {
        self.listen.iter().all(|address| address.ip().is_loopback())
    }

    /// True when every caller needs a key: others can reach an address, and `--insecure` was not given. A gateway that
    /// started with keys needs them in any case: taking away the last one must not open it.
    pub fn needs_keys(&self) -> bool {
        !self.is_local() && (self.exposure == Exposure::Guarded || !self.keys.is_empty())
    }

    /// True when callers can show who they are by a certificate.
    pub fn knows_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.files().client_auth.is_some())
    }

    /// True when others can reach an address and nothing keeps what they send from being read on the way.
    pub fn is_unencrypted(&self) -> bool {
        let is_plain = self.tls.is_none() && self.trusted_proxies.is_empty();
        !self.is_local() && is_plain && self.exposure == Exposure::Guarded
    }
}

/// Bounds on what callers can make the gateway hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Bytes of one request's body.
    pub body: usize,
    /// Bytes of all bodies that are arriving, together.
    pub bodies: usize,
    /// Bytes of one request's head.
    pub head: usize,
    /// Connections at once; more wait in the system's queue.
    pub connections: usize,
    /// How long a request's head may take to arrive.
    pub head_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// Event streams at once.
    pub streams: usize,
    /// Legacy sessions in all.
    pub sessions: usize,
    /// Legacy sessions of one authenticated caller.
    pub sessions_per_caller: usize,
    /// How long an unused session lives.
    pub session_idle: Duration,
    /// Messages in one batch, and calls in one of REST.
    pub batch: usize,
    /// Calls of one REST batch that run at once.
    pub parallel: usize,
    /// Bytes of a stream kept for a reader that comes back.
    pub replay: usize,
    /// Bytes of finished streams kept for readers that come back, in all; of one session an eighth of it.
    pub replays: usize,
    /// How long a finished stream is kept for a reader that comes back.
    pub replay_age: Duration,
    /// How often a call may ask its client for input.
    pub rounds: usize,
    /// How often a quiet stream gets a comment, so that proxies do not take it for dead.
    pub keep_alive: Duration,
    /// How long a legacy call may be quiet before its client gets a stream that it can come back to.
    pub patience: Duration,
    /// How long a legacy client may take to answer a question.
    pub answer_timeout: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            body: 4 << 20,
            bodies: 256 << 20,
            head: 64 << 10,
            connections: 10_000,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            streams: 10_000,
            sessions: 10_000,
            sessions_per_caller: 1_000,
            session_idle: Duration::from_secs(30 * 60),
            batch: 50,
            parallel: 10,
            replay: 1 << 20,
            replays: 64 << 20,
            replay_age: Duration::from_secs(5 * 60),
            rounds: 10,
            keep_alive: Duration::from_secs(15),
            patience: Duration::from_millis(100),
            answer_timeout: Duration::from_secs(10 * 60),
        }
    }
}
