//! `tsugi serve`: serves every configured server at one address until it is stopped.

mod certificate_watcher;
pub(super) mod clients;
mod exposure;
mod key_watcher;
mod pin_watcher;
pub(super) mod plan;
mod reload;
pub(super) mod signals;
mod source;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use parking_lot::RwLock;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tsugi_audit::record::AuditKind;
use tsugi_client::catalog::Catalog;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{Manager, Server, StartPolicy};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, StartError};
use tsugi_protocol::answer::Fault;

#[cfg(feature = "acme")]
use crate::app::acme::CertificateKeeper;
use crate::app::audit::GatewayAudit;
use crate::app::gateway::{
    self, configured_backend::ConfiguredBackend, configured_backend::PostedServerTerms, persist::ServerPersistence,
};
use crate::app::oauth;
use crate::app::vault_watcher::VaultWatcher;
use crate::app::{App, profile_of_gateway};
use crate::config::layer::LoadedConfig;
use crate::config::parse;
use crate::config::problem::ConfigProblem;
use crate::failure::CommandFailure;
use crate::gateway_record::{self, GatewayRecord, RecordLock};
use crate::output::OutputFormat;
use crate::report;
use crate::report::exit::CommandExit;
use certificate_watcher::CertificateWatcher;
use clients::ClientSetup;
use key_watcher::KeyWatcher;
use pin_watcher::PinWatcher;
use plan::GatewayPlan;
use reload::PendingReload;
use signals::{ServiceSignals, SignalAction};
use source::ConfigSource;

const EXAMPLES: &str = "\
Examples:
  tsugi serve                                    the configured servers, or the built-in ones, at 127.0.0.1:7600
  tsugi serve --config team.yaml --listen 127.0.0.1:0
  tsugi serve --command \"uvx mcp-server-time\"    one ad-hoc server
  kill -HUP PID                                  reload the configuration; saving the file does the same
  kill PID                                       stop after running calls end; twice: stop now";

/// Serve the configured servers to MCP clients, REST callers and agents at one address
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen, such as 127.0.0.1:7600 or 7600; port 0 picks a free one
    #[arg(long, visible_alias = "port", value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Allow an address that other machines can reach without requiring keys and TLS
    #[arg(long)]
    insecure: bool,
    /// Print the complete setup for each client
    #[arg(long)]
    print_clients: bool,
    /// Print one line of JSON once it listens: address, process id and configuration file
    #[arg(long)]
    pub(crate) json: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    parse::address(text).map_err(|expected| format!("expected {}", expected.what))
}

impl ServeArgs {
    /// Applies the flags on top of the configuration.
    fn over(&self, mut loaded: LoadedConfig) -> LoadedConfig {
        let gateway = &mut loaded.settings.gateway;
        gateway.listen = self.listen.unwrap_or(gateway.listen);
        gateway.insecure |= self.insecure;
        loaded
    }
}

/// A server that is being connected, and the result.
type ServerArrival = BoxFuture<'static, (Server, Result<Arc<Catalog>, Fault>)>;

struct RunningGateway<'a> {
    app: &'a App,
    args: &'a ServeArgs,
    loaded: LoadedConfig,
    manager: Manager,
    hub: Hub,
    guard: Arc<AccessGuard>,
    handle: GatewayHandle,
    doorkeeper: KeyWatcher,
    certificates: CertificateWatcher,
    arrivals: FuturesUnordered<ServerArrival>,
    /// Persists servers that are added and removed over HTTP.
    keeper: Arc<ServerPersistence>,
    /// The defaults of servers that are added over HTTP.
    terms: Arc<RwLock<PostedServerTerms>>,
    /// Absent where the configuration has no `audit`.
    audit: Option<Arc<GatewayAudit>>,
    /// Settings that take effect once their servers are ready.
    coming: Option<PendingReload>,
    /// Settings that were refused, kept for another try.
    refused: Option<LoadedConfig>,
    /// Ends with the gateway.
    _background: JoinSet<()>,
}

pub(crate) async fn run(app: &App, args: &ServeArgs) -> Result<CommandExit, CommandFailure> {
    // Once, before any thread allocates much.
    tsugi_process::return_large_blocks();
    // First, so that a signal during the start is not lost.
    let mut signals = ServiceSignals::listen()?;
    let loaded = app.configuration()?;
    // Watched before the start, so that a change during the start is seen.
    let mut source = ConfigSource::watch(app, &loaded);
    let mut running = RunningGateway::start(app, args, args.over(loaded)).await?;
    // Processes left behind by an earlier run that was killed together with its guardians.
    // In the background: it reads all of /proc.
    tokio::task::spawn_blocking(tsugi_process::sweep_strays);
    let _record = publish_record(app, &running);
    running.print_welcome();
    running.print_address()?;
    // Only now: a program must not run if the address turns out to be taken.
    running.manager.let_start();
    let mut pins = PinWatcher::new(app);
    let mut vault = VaultWatcher::new(app, &running.loaded.settings);
    let mut is_tidied = false;
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                SignalAction::Stop => return Ok(running.stop(&mut signals).await),
                SignalAction::Reload => running.reread(&mut source),
            },
            change = source.next() => running.take(change),
            () = running.doorkeeper.changed() => running.replace_keys(),
            () = pins.changed() => pins.reload(&running.manager),
            () = vault.changed() => vault.reload(&running.manager),
            () = running.certificates.changed() => running.replace_certificates(),
            Some((server, arrived)) = running.arrivals.next() => {
                running.handle_arrival(server, arrived);
                // Once the start is over, its code is not needed again soon.
                if running.arrivals.is_empty() && !is_tidied {
                    is_tidied = true;
                    tokio::spawn(tidy_memory(running.handle.connection_count()));
                }
            }
            ready = reload::next(&mut running.coming) => running.finish(ready),
        }
    }
}

/// Work that follows the last server's arrival, such as writing its manifest, still belongs to the start.
const SETTLING: Duration = Duration::from_millis(500);

/// How often pages of rarely used code are released; pages in use come back within a millisecond.
const TIDYING: Duration = Duration::from_secs(5);

/// How many connections must close before the allocator is asked to return their memory.
const MANY_CONNECTIONS: usize = 256;

/// How much more memory must be held than was left the last time before it is asked, too.
const GROWTH: u64 = 3 << 20;

/// It is asked after so many rounds in any case: what is free inside the allocator cannot be seen from outside.
const ROUNDS: u32 = 6;

/// Most code serves only the start, the configuration and rare requests, while a gateway runs for weeks. Nor must it
/// keep the memory that it needed while thousands of clients were connected or large answers passed through.
async fn tidy_memory(connections: impl Fn() -> usize) {
    tokio::time::sleep(SETTLING).await;
    let (mut most, mut left, mut rounds) = (0, 0, 0);
    loop {
        tsugi_process::forget_rare_code();
        let (open, held) = (connections(), tsugi_process::own_memory().unwrap_or(0));
        most = open.max(most);
        rounds += 1;
        // A crowd that comes and goes between two looks shows in the memory alone.
        if most - open >= MANY_CONNECTIONS || held > left + GROWTH || rounds >= ROUNDS {
            (most, rounds) = (open, 0);
            left = return_free_memory().await;
        }
        left = left.min(held);
        tokio::time::sleep(TIDYING).await;
    }
}

/// What orders the gateway's certificate, where one is ordered.
#[cfg(feature = "acme")]
fn certificate_keeper(loaded: &LoadedConfig) -> Result<Option<CertificateKeeper>, CommandFailure> {
    let acme = loaded.settings.gateway.tls.as_ref().and_then(|tls| tls.acme.as_ref());
    acme.map(|acme| CertificateKeeper::prepare(acme, &loaded.settings.outbound)).transpose()
}

/// Returns free memory and says how much is left. Not on this thread, since it takes milliseconds.
async fn return_free_memory() -> u64 {
    let returning = tokio::task::spawn_blocking(|| {
        tsugi_process::return_free_memory();
        tsugi_process::own_memory()
    });
    returning.await.ok().flatten().unwrap_or(0)
}

impl<'a> RunningGateway<'a> {
    /// Listens, and starts the servers in the background.
    async fn start(app: &'a App, args: &'a ServeArgs, loaded: LoadedConfig) -> Result<Self, CommandFailure> {
        let doorkeeper = KeyWatcher::new(app)?;
        let manager = app.manager(&loaded.settings, profile_of_gateway()).clone();
        let mut plan = GatewayPlan::make(app, &loaded, &manager, None)?;
        let mut config = gateway::config(&loaded.settings, doorkeeper.keys(app, &loaded.settings)?);
        #[cfg(feature = "acme")]
        let keeper_of_certificate = certificate_keeper(&loaded)?;
        #[cfg(feature = "acme")]
        let challenges = keeper_of_certificate.as_ref().map(CertificateKeeper::challenges);
        #[cfg(not(feature = "acme"))]
        let challenges = None;
        config.tls = gateway::tls(&loaded.settings, challenges)?;
        let certificates = CertificateWatcher::new(app, config.tls.as_deref());
        take_inherited_socket(&mut config)?;
        check_address_free(&config)?;
        // Before anything can be called: a call that cannot be written down is not made.
        let audit = loaded.settings.audit.as_ref().map(GatewayAudit::open).transpose()?.map(Arc::new);
        if let Some(audit) = &audit {
            audit.follow_pins(app.pins.get().and_then(Option::as_ref));
            audit.follow_egress(&mut plan.servers);
        }
        // Registered, but not started before the gateway listens.
        manager.hold_back();
        manager.reconcile(plan.servers);
        let guard = gateway::with_certificates(AccessGuard::new(&config), &loaded.settings.gateway.auth)?;
        let guard = oauth::with_issuers(guard, &loaded.settings)?;
        let guard = Arc::new(guard.with_verifier(app.boards.clone()));
        guard.replace_policy(gateway::policy(&loaded.settings, app.pins.get().and_then(Option::as_ref)));
        let hub = Hub::new(manager.clone(), plan.hub, guard.clone());
        if let Some(audit) = &audit {
            hub.record_to(audit.clone());
        }
        let terms = Arc::new(RwLock::new(PostedServerTerms::of(&loaded.settings)));
        let keeper = Arc::new(ServerPersistence::new(app, &loaded));
        let offered = ConfiguredBackend {
            hub: hub.clone(),
            terms: terms.clone(),
            boards: app.boards.clone(),
            keeper: keeper.clone(),
            credentials: app.credentials.clone(),
        };
        let handle = Gateway::serve(config, Arc::new(offered)).await.map_err(start_failure)?;
        #[cfg_attr(not(feature = "acme"), expect(unused_mut, reason = "nothing runs beside the gateway without ACME"))]
        let mut background = JoinSet::new();
        // Only now: the authority must reach the gateway to see its proofs.
        #[cfg(feature = "acme")]
        if let Some(keeper) = keeper_of_certificate {
            background.spawn(keeper.run());
        }
        let arrivals = manager.servers().into_iter().filter_map(|server| arrival(app, server)).collect();
        Ok(RunningGateway {
            app,
            args,
            loaded,
            manager,
            hub,
            guard,
            handle,
            doorkeeper,
            certificates,
            arrivals,
            keeper,
            terms,
            audit,
            coming: None,
            refused: None,
            _background: background,
        })
    }

    fn print_welcome(&self) {
        let clients = ClientSetup {
            url: format!("{}/mcp", self.shown_url()),
            config: self.loaded.origin.path().map(|path| path.display().to_string()),
            has_keys: self.doorkeeper.asks_for_keys(),
        };
        if self.app.common.quiet {
            return self.app.output.message(|_| format!("listening on {}", self.handle.url()));
        }
        self.app.output.message(|paint| {
            let text = if self.args.print_clients { clients.in_full(paint) } else { clients.in_short(paint) };
            let page = match self.loaded.settings.gateway.dashboard {
                true => format!("  Dashboard       open {}/ in a browser\n", self.shown_url()),
                false => String::new(),
            };
            format!("{} {}\n{page}{text}", paint.good("listening on"), paint.strong(self.handle.url()))
        });
    }

    /// One line for a parent process, as soon as it can connect.
    fn print_address(&self) -> Result<(), CommandFailure> {
        if self.app.output.form() == OutputFormat::Json {
            let config = self.loaded.origin.path();
            let line = json!({"url": self.handle.url(), "pid": std::process::id(), "config": config});
            self.app.output.data(&line.to_string())?;
        }
        Ok(())
    }

    fn handle_arrival(&mut self, server: Server, arrived: Result<Arc<Catalog>, Fault>) {
        let is_late = arrived.is_err();
        self.report_arrival(&server, arrived);
        if is_late {
            self.arrivals.push(late_arrival(server));
        }
    }

    fn report_arrival(&self, server: &Server, arrived: Result<Arc<Catalog>, Fault>) {
        match arrived {
            // Slow is not broken: a download may be running.
            Err(_) if is_still_starting(server) => self.app.output.message(|paint| {
                let told = format!("{}: still starting; `tsugi logs {0}` shows its standard error", server.name());
                format!("{}: {told}", paint.warning("warning"))
            }),
            Ok(_) if self.app.common.quiet => {}
            Ok(catalog) => self.app.output.message(|paint| {
                let status = server.status();
                let version = status.version.map(|version| version.to_string()).unwrap_or_default();
                let what = format!("{} {version}, {} tools", status.transport, catalog.tools.items.len());
                format!("{}: connected {}", server.name(), paint.faint(format!("({what})")))
            }),
            Err(fault) => self.app.output.message(|paint| report::warning(&fault, paint)),
        }
    }

    /// Applies changed keys. A damaged file changes nothing.
    fn replace_keys(&mut self) {
        match self.doorkeeper.keys(self.app, &self.loaded.settings) {
            Ok(keys) => {
                self.guard.replace_keys(keys);
                self.note_change(AuditKind::Key, "replaced", "");
                self.warn_if_shut();
            }
            Err(failure) => _ = failure.report(&self.app.output),
        }
    }

    /// Writes down what the operator changed, where there is an audit log.
    fn note_change(&self, kind: AuditKind, action: &str, name: &str) {
        if let Some(audit) = &self.audit {
            audit.note_change(kind, action, name);
        }
    }

    /// Puts changed certificates to use. If they cannot be used, the old ones stay, and the problem is reported once.
    fn replace_certificates(&mut self) {
        let Some(reloaded) = self.handle.reload_tls() else { return };
        if let Some(text) = self.certificates.report(reloaded) {
            let action = if text.is_ok() { "replaced" } else { "refused" };
            self.note_change(AuditKind::Config, action, "gateway.tls");
            self.app.output.message(|paint| match &text {
                Ok(done) => paint.faint(done),
                Err(problem) => report::warnings(std::slice::from_ref(problem), paint),
            });
        }
    }

    /// The address that clients should use: the public one, if there is one.
    fn shown_url(&self) -> String {
        let public = self.loaded.settings.gateway.public_url.clone();
        public.unwrap_or_else(|| self.handle.url())
    }

    /// A gateway that other machines can reach refuses everyone without its last key, instead of opening up.
    fn warn_if_shut(&self) {
        if self.guard.refuses_everyone() {
            let problem = ConfigProblem::new(
                "the last key is gone and other machines can reach this address: all requests are refused",
            )
            .with_hint("`tsugi key add NAME` creates a key; `tsugi serve --insecure` allows requests without one");
            self.app.output.message(|paint| report::warnings(&[problem], paint));
        }
    }

    /// Lets running calls finish, then stops the servers. A second signal ends at once.
    async fn stop(self, signals: &mut ServiceSignals) -> CommandExit {
        let grace = self.loaded.settings.gateway.drain_timeout;
        self.app.output.message(|paint| paint.faint(stopping(grace)));
        // Calls first: a server that is stopped would cut them.
        let ended = async {
            let cut_off = self.handle.drain(grace).await;
            self.manager.stop().await;
            if let Some(audit) = &self.audit {
                audit.close().await;
            }
            cut_off
        };
        tokio::select! {
            cut_off = ended => {
                if cut_off > 0 {
                    self.app.output.message(|paint| paint.warning(format!("{cut_off} calls were cancelled")));
                }
                CommandExit::Success
            }
            () = signals.stop() => CommandExit::Interrupted,
        }
    }
}

/// Whether it is connecting for the first time and has not failed.
fn is_still_starting(server: &Server) -> bool {
    let status = server.status();
    matches!(status.state, ConnectionState::Connecting | ConnectionState::Initializing) && status.fault.is_none()
}

fn stopping(grace: Duration) -> String {
    format!("stopping; running calls have {} s, a second signal ends them", grace.as_secs())
}

/// Lets `tsugi status`, `logs` and `restart` find this gateway. It serves without a record too.
fn publish_record(app: &App, running: &RunningGateway<'_>) -> Option<RecordLock> {
    let record = GatewayRecord {
        // A certificate rarely names the loopback address, so the commands of this machine use the public one too.
        url: if running.loaded.settings.gateway.tls.is_some() { running.shown_url() } else { running.handle.url() },
        pid: std::process::id(),
        config: running.loaded.origin.path().map(gateway_record::canonical),
        directory: gateway_record::canonical(&app.context.directory),
    };
    let published = record.publish(&app.state_directory()?);
    published.inspect_err(|error| tracing::debug!(%error, "the gateway's record cannot be written")).ok()
}

/// The arrival of an eager server. Lazy ones are not waited for.
fn arrival(app: &App, server: Server) -> Option<ServerArrival> {
    let patience = app.patience(server.config());
    (server.config().start == StartPolicy::Eager).then(|| -> ServerArrival {
        Box::pin(async move {
            let ready = server.ready(patience).await;
            (server, ready)
        })
    })
}

/// The arrival of a server that was not ready in time, for a reader of the log.
fn late_arrival(server: Server) -> ServerArrival {
    Box::pin(async move {
        let mut changes = server.changes();
        loop {
            if let Some(catalog) = server.catalog().filter(|_| server.status().state == ConnectionState::Connected) {
                return (server, Ok(catalog));
            }
            if let Err(RecvError::Closed) = changes.recv().await {
                return std::future::pending().await;
            }
        }
    })
}

/// Uses the listening socket that the parent process passed on (socket activation), if there is one.
fn take_inherited_socket(config: &mut GatewayConfig) -> Result<(), CommandFailure> {
    if let Some(listener) = tsugi_process::inherited_listener() {
        config.listen = vec![listener.local_addr()?];
        config.inherited = Some(Arc::new(listener));
    }
    Ok(())
}

/// Fails before any server is started if an address is taken.
fn check_address_free(config: &GatewayConfig) -> Result<(), CommandFailure> {
    if config.inherited.is_some() {
        return Ok(());
    }
    for address in &config.listen {
        if let Err(error) = std::net::TcpListener::bind(address) {
            return Err(start_failure(StartError::Bind { address: *address, error }));
        }
    }
    Ok(())
}

fn start_failure(error: StartError) -> CommandFailure {
    match &error {
        StartError::Bind { address, error: cause } if cause.kind() == std::io::ErrorKind::AddrInUse => {
            let hint = "another gateway may be running (see `tsugi status`); \
                        --listen 127.0.0.1:0 picks a free port, gateway.listen sets one permanently";
            CommandFailure::usage(format!("cannot listen on {address}: the address is in use")).with_hint(hint)
        }
        StartError::Exposed(address) => exposure::without_keys(*address),
        StartError::Unencrypted(address) => exposure::without_tls(*address),
        _ => CommandFailure::usage(error.to_string()),
    }
}
