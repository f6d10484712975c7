//! One gateway: the state that all its requests share, how it starts and how it stops.

mod dispatch;
mod pipeline;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tsugi_client::Manager;
use tsugi_protocol::answer::{Answer, Fault, FaultCode};
use tsugi_rt::coarse_timer::CoarseTimer;
use tsugi_tls::error::TlsFileError;
use tsugi_tls::server::ReloadEffect;

use crate::backend::{Backend, Endpoint};
use crate::body::admission::BodyAdmission;
use crate::config::GatewayConfig;
use crate::drain::DrainState;
use crate::face;
use crate::face::mcp::client_session::ClientSessionTable;
use crate::guard::AccessGuard;
use crate::guard::oauth::resource::ResourcePath;
use crate::guard::oauth::scope_challenge::ScopeChallenger;
use crate::guard::principal::Principal;
use crate::guard::rate_limit::RateLimited;
use crate::guard::refusal::HttpRefusal;
use crate::hub::{Hub, HubConfig};
use crate::listen::{self, ConnectionAcceptor, ListenerKind};
use crate::telemetry::GatewayMetrics;

/// How often unused sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Others could reach it, and no key would be asked for.
    #[error("refusing to listen on {0} without authentication: add a key, or say --insecure")]
    Exposed(SocketAddr),
    /// Others could reach it, and read keys and results on the way.
    #[error("refusing to listen on {0} without TLS: add a certificate, name a proxy, or say --insecure")]
    Unencrypted(SocketAddr),
    /// An address cannot be used.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        address: SocketAddr,
        #[source]
        error: std::io::Error,
    },
    /// A socket that listens already cannot be used.
    #[error("cannot use the socket that was handed over: {0}")]
    Inherited(#[source] std::io::Error),
    /// A pattern of names cannot be read.
    #[error("the pattern {pattern:?} cannot be read: {reason}")]
    Pattern { pattern: String, reason: String },
    /// There is no address.
    #[error("no address to listen on: name one in `listen`, such as 127.0.0.1:7600")]
    NoAddress,
}

/// The end of a stream that would stay open otherwise.
pub(crate) type StreamEnd = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What all requests share.
pub struct Gateway {
    config: GatewayConfig,
    guard: Arc<AccessGuard>,
    backend: Arc<dyn Backend>,
    /// All servers together, made once.
    all: Endpoint,
    drain: DrainState,
    sessions: ClientSessionTable,
    sse_streams: face::sse::SseStreamTable,
    /// Room for connections.
    connections: Arc<Semaphore>,
    /// Room for streams that stay open, of whatever face.
    streams: Arc<Semaphore>,
    /// Room for bodies that arrive.
    arriving: BodyAdmission,
    tasks: TaskTracker,
    /// The clock of everything that may take seconds.
    alarm: CoarseTimer,
    metrics: Arc<GatewayMetrics>,
    addresses: Vec<SocketAddr>,
    redirects: Vec<SocketAddr>,
}

/// A running gateway. Dropping it leaves the gateway running; [`GatewayHandle::drain`] stops it.
#[must_use = "without its handle a gateway cannot be stopped"]
pub struct GatewayHandle {
    gateway: Arc<Gateway>,
}

impl Gateway {
    /// Binds the addresses and serves the servers of `manager` on them, shown as `shown` says. Returns as soon as it
    /// listens. Through the hub the servers can be shown in another way later, and through the handle's
    /// [`guard`](GatewayHandle::guard) other callers can be let in.
    pub async fn serve_manager(
        config: GatewayConfig,
        manager: Manager,
        shown: HubConfig,
    ) -> Result<(GatewayHandle, Hub), StartError> {
        let hub = Hub::new(manager, shown, Arc::new(AccessGuard::new(&config)));
        Ok((Self::serve(config, Arc::new(hub.clone())).await?, hub))
    }

    /// Binds the addresses and serves `backend` on them, behind its own guard if it has one. Returns as soon as it
    /// listens.
    pub async fn serve(config: GatewayConfig, backend: Arc<dyn Backend>) -> Result<GatewayHandle, StartError> {
        // The hub decides permits by the same guard that lets callers in.
        let guard = backend.guard().unwrap_or_else(|| Arc::new(AccessGuard::new(&config)));
        // Before anything is bound: no request may slip in.
        refuse_exposure(&config, &guard)?;
        let listeners = listen::bind(&config).await?;
        let redirecting = listen::bind_all(&config.redirect).await?;
        // Asked of the sockets: port 0 has become a real port by now.
        let addresses: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let redirects = redirecting.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        if addresses.is_empty() {
            return Err(StartError::NoAddress);
        }
        let sessions = ClientSessionTable::new(&config.limits);
        let metrics = backend.metrics();
        metrics.recorder().set_recording(config.record, guard.clone());
        let all = backend.all();
        let gateway = Arc::new(Self {
            all: Endpoint { answer: RateLimited::around(all.answer, &metrics), ..all },
            guard,
            backend,
            // An inherited socket is shared with the process that follows us.
            drain: DrainState::new(config.inherited.is_some()),
            sessions,
            sse_streams: face::sse::SseStreamTable::default(),
            connections: Arc::new(Semaphore::new(config.limits.connections)),
            streams: Arc::new(Semaphore::new(config.limits.streams.min(Semaphore::MAX_PERMITS))),
            arriving: BodyAdmission::new(config.limits.bodies),
            tasks: TaskTracker::new(),
            alarm: CoarseTimer::default(),
            metrics,
            addresses,
            redirects,
            config,
        });
        let listening = Arc::new(ConnectionAcceptor::new(gateway.clone()));
        // Last, when everything that a request needs is there.
        for listener in listeners {
            gateway.tasks.spawn(listening.clone().accept(listener, ListenerKind::Gateway));
        }
        for listener in redirecting {
            gateway.tasks.spawn(listening.clone().accept(listener, ListenerKind::Redirect));
        }
        gateway.tasks.spawn(gateway.clone().sweep());
        Ok(GatewayHandle { gateway })
    }

    pub(crate) fn config(&self) -> &GatewayConfig {
        &self.config
    }

    pub(crate) fn guard(&self) -> &AccessGuard {
        &self.guard
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) fn metrics(&self) -> &GatewayMetrics {
        &self.metrics
    }

    /// Where it listens, in the order of the configuration.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn drain(&self) -> &DrainState {
        &self.drain
    }

    pub(crate) fn arriving(&self) -> &BodyAdmission {
        &self.arriving
    }

    pub(crate) fn sessions(&self) -> &ClientSessionTable {
        &self.sessions
    }

    pub(crate) fn sse_streams(&self) -> &face::sse::SseStreamTable {
        &self.sse_streams
    }

    pub(crate) fn connections(&self) -> &Arc<Semaphore> {
        &self.connections
    }

    /// Room for one more stream, held as long as it is open.
    pub(crate) fn take_stream(&self) -> Result<OwnedSemaphorePermit, HttpRefusal> {
        let message = "there are too many streams";
        // Nothing was sent, so 503 is right and the client may come back.
        let refusal = || HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message);
        self.streams.clone().try_acquire_owned().map_err(|_| refusal().retry_after(Duration::from_secs(1)))
    }

    /// Ends with `end`, or before it when this caller would not be let in any more.
    pub(crate) fn until_dismissed(
        &self,
        end: impl Future<Output = ()> + Send + 'static,
        principal: &Principal,
    ) -> StreamEnd {
        let dismissal = self.guard.dismissal(principal);
        Box::pin(async move {
            tokio::select! {
                () = end => {}
                () = dismissal => {}
            }
        })
    }

    /// The same answer, asked no more than each caller's key allows.
    pub(crate) fn rate_limited(&self, answer: Arc<dyn Answer>) -> Arc<dyn Answer> {
        RateLimited::around(answer, &self.metrics)
    }

    /// The same answer for REST, whose tokens are for the gateway as a whole.
    pub(crate) fn at_root(&self, answer: Arc<dyn Answer>) -> Arc<dyn Answer> {
        match self.guard.scoped_resources() {
            None => answer,
            Some(resources) => ScopeChallenger::around(answer, resources, ResourcePath::Root),
        }
    }

    /// Counts a request that is not a call of MCP, such as a list over REST.
    pub(crate) fn begin(&self, principal: &Principal) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        principal.authority().begin(&tsugi_protocol::mcp::Method::ToolsList)
    }

    pub(crate) fn alarm(&self) -> &CoarseTimer {
        &self.alarm
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Does work that goes on although its client leaves. Stopping waits for it as for any other; `None` when that
    /// took too long.
    pub(crate) fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let (busy, closing) = (self.drain.join(), self.drain.closing().clone());
        self.tasks.spawn(async move {
            let done = closing.run_until_cancelled_owned(work).await;
            // Only now: stopping waits for the work and not for this task.
            drop(busy);
            done
        })
    }

    /// Forgets unused sessions, until we close.
    async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.sessions.sweep(),
                () = self.drain.closing().cancelled() => return,
            }
        }
    }
}

impl GatewayHandle {
    /// The door: whose keys are known can be changed there.
    pub fn guard(&self) -> &Arc<AccessGuard> {
        &self.gateway.guard
    }

    /// Where it listens, in the order of the configuration: at least one address.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.gateway.addresses
    }

    /// The first address, as the beginning of a URL: `http://127.0.0.1:7600`. Where we listen on every address it is
    /// this machine's own, since a client needs one address.
    pub fn url(&self) -> String {
        let scheme = if self.gateway.config.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", reachable(self.gateway.addresses[0]))
    }

    /// Where plain requests are redirected, in the order of the configuration.
    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        &self.gateway.redirects
    }

    /// Reads certificates and keys again; `None` without TLS. If they cannot be used, those from before stay in use.
    /// Connections and handshakes under way are not affected in either case.
    pub fn reload_tls(&self) -> Option<Result<ReloadEffect, TlsFileError>> {
        let reloaded = self.gateway.config.tls.as_ref()?.reload(SystemTime::now());
        match &reloaded {
            Ok(ReloadEffect::Unchanged) => {}
            Ok(ReloadEffect::Replaced) => {
                self.gateway.metrics.tls_reload("ok");
                // Open streams of callers whose certificates are not trusted any more end now.
                self.gateway.guard.check_again();
            }
            Err(_) => self.gateway.metrics.tls_reload("failed"),
        }
        Some(reloaded)
    }

    /// Counts the connections that are open now, and one more for each address that is listened on. The function does
    /// not keep the gateway alive.
    pub fn connection_count(&self) -> impl Fn() -> usize + Send + Sync + 'static + use<> {
        let (connections, most) = (self.gateway.connections.clone(), self.gateway.config.limits.connections);
        move || most - connections.available_permits()
    }

    /// Stops: refuses new calls with a clear error, lets running ones finish for up to `grace`, closes.
    /// Gives how many calls were cut off.
    pub async fn drain(&self, grace: Duration) -> usize {
        let left = self.gateway.drain.run(grace).await;
        // A tracker must be closed before it can be waited for.
        self.gateway.tasks.close();
        self.gateway.tasks.wait().await;
        left
    }
}

fn refuse_exposure(config: &GatewayConfig, guard: &AccessGuard) -> Result<(), StartError> {
    let Some(&address) = config.listen.iter().find(|address| !address.ip().is_loopback()) else { return Ok(()) };
    if config.keys.is_empty() && !guard.accepts_tokens() && config.needs_keys() && !config.knows_certificates() {
        return Err(StartError::Exposed(address));
    }
    if config.is_unencrypted() { Err(StartError::Unencrypted(address)) } else { Ok(()) }
}

/// The error of a request whose handler broke.
pub(crate) fn panicked(route: &str) -> HttpRefusal {
    let fault = face::fault::panicked(route);
    HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, fault.code, fault.message)
}

/// The error of a call that comes too late.
pub(crate) fn draining() -> HttpRefusal {
    HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Draining, "the gateway is shutting down")
        .retry_after(Duration::from_secs(1))
}

/// An address that a program on this machine can go to.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}
