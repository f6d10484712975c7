//! `tsugi serve`: every configured server behind one address, until someone asks it to stop.

pub(super) mod clients;
mod key_watcher;
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
use tsugi_client::catalog::Catalog;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{Manager, Server, StartPolicy};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, StartError};
use tsugi_protocol::answer::Fault;

use crate::app::gateway::{
    self, configured_backend::ConfiguredBackend, configured_backend::PostedServerTerms, persist::ServerPersistence,
};
use crate::app::{App, profile_of_gateway};
use crate::config::layer::LoadedConfig;
use crate::config::parse;
use crate::config::problem::ConfigProblem;
use crate::failure::{CommandFailure, warning};
use crate::gateway_record::{self, GatewayRecord, RecordLock};
use crate::output::OutputFormat;
use crate::report;
use crate::report::exit::CommandExit;
use clients::ClientSetup;
use key_watcher::KeyWatcher;
use plan::GatewayPlan;
use reload::PendingReload;
use signals::{ServiceSignals, SignalAction};
use source::ConfigSource;

const EXAMPLES: &str = "\
Examples:
  tsugi serve                                    the configured servers, or the built-in ones, at 127.0.0.1:7600
  tsugi serve --config team.yaml --listen 127.0.0.1:0
  tsugi serve --command \"uvx mcp-server-time\"    one server on the spot
  kill -HUP PID                                  read the configuration again; saving the file does the same
  kill PID                                       stop when running calls have ended; twice: stop now";

/// Offer the servers to MCP clients, REST callers and agents at one address
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen, such as 127.0.0.1:7600 or 7600; port 0 takes a free one
    #[arg(long, alias = "port", value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Listen where others can reach it, although nobody has to say who they are
    #[arg(long)]
    insecure: bool,
    /// Show how to connect each client with everything there is to paste
    #[arg(long)]
    print_clients: bool,
    /// Print one line of JSON when it listens: its address, its process and its configuration
    #[arg(long)]
    pub(crate) json: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    parse::address(text).map_err(|expected| format!("expected {}", expected.what))
}

impl ServeArgs {
    /// Puts what was said on the command line over what is written.
    fn over(&self, mut loaded: LoadedConfig) -> LoadedConfig {
        let gateway = &mut loaded.settings.gateway;
        gateway.listen = self.listen.unwrap_or(gateway.listen);
        gateway.insecure |= self.insecure;
        loaded
    }
}

/// A server that is being connected, and what came of it.
type ServerArrival = BoxFuture<'static, (Server, Result<Arc<Catalog>, Fault>)>;

/// A gateway that runs.
struct RunningGateway<'a> {
    app: &'a App,
    args: &'a ServeArgs,
    loaded: LoadedConfig,
    manager: Manager,
    hub: Hub,
    guard: Arc<AccessGuard>,
    handle: GatewayHandle,
    doorkeeper: KeyWatcher,
    arrivals: FuturesUnordered<ServerArrival>,
    /// Writes down servers that are added and removed over HTTP.
    keeper: Arc<ServerPersistence>,
    /// What holds for servers that are added over HTTP.
    terms: Arc<RwLock<PostedServerTerms>>,
    /// Settings that will hold as soon as their servers are ready.
    coming: Option<PendingReload>,
    /// Settings that could not be taken over. They may be tried again as they are.
    refused: Option<LoadedConfig>,
}

pub(crate) async fn run(app: &App, args: &ServeArgs) -> Result<CommandExit, CommandFailure> {
    tsugi_process::return_large_blocks();
    let mut signals = ServiceSignals::listen()?;
    let loaded = app.configuration()?;
    let mut source = ConfigSource::watch(app, &loaded);
    let mut running = RunningGateway::start(app, args, args.over(loaded)).await?;
    // Processes that an earlier run left when it was killed with its guardians.
    tokio::task::spawn_blocking(tsugi_process::sweep_strays);
    let _record = publish_record(app, &running);
    running.print_welcome();
    running.print_address()?;
    running.manager.let_start();
    let mut is_tidied = false;
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                SignalAction::Stop => return Ok(running.stop(&mut signals).await),
                SignalAction::Reload => running.reread(&mut source),
            },
            change = source.next() => running.take(change),
            () = running.doorkeeper.changed() => running.replace_keys(),
            Some((server, arrived)) = running.arrivals.next() => {
                running.handle_arrival(server, arrived);
                if running.arrivals.is_empty() && !is_tidied {
                    is_tidied = true;
                    tokio::spawn(tidy_memory(running.handle.connection_count()));
                }
            }
            ready = reload::next(&mut running.coming) => running.finish(ready),
        }
    }
}

/// What follows upon the last server's arrival, such as writing down what it has, still belongs to the start.
const SETTLING: Duration = Duration::from_millis(500);

/// How often code is given back that was needed once; what is in use comes back within a millisecond.
const TIDYING: Duration = Duration::from_secs(5);

/// So many connections must have closed before the allocator is asked to give back what they held.
const MANY_CONNECTIONS: usize = 256;

/// A gateway lives for weeks, and most of its code is for its start, its configuration and rare requests. Nor must it
/// hold for ever what it needed while thousands of clients listened.
async fn tidy_memory(connections: impl Fn() -> usize) {
    tokio::time::sleep(SETTLING).await;
    let mut most = 0;
    loop {
        tsugi_process::forget_rare_code();
        let open = connections();
        most = open.max(most);
        if most - open >= MANY_CONNECTIONS {
            most = open;
            // Not on this thread, since it takes milliseconds.
            tokio::task::spawn_blocking(tsugi_process::return_free_memory);
        }
        tokio::time::sleep(TIDYING).await;
    }
}

impl<'a> RunningGateway<'a> {
    /// Listens, and has the servers start in the background.
    async fn start(app: &'a App, args: &'a ServeArgs, loaded: LoadedConfig) -> Result<Self, CommandFailure> {
        let doorkeeper = KeyWatcher::new(app)?;
        let manager = app.manager(&loaded.settings, profile_of_gateway()).clone();
        let plan = GatewayPlan::make(app, &loaded, &manager, None)?;
        let mut config = gateway::config(&loaded.settings, doorkeeper.keys(app, &loaded.settings)?);
        take_inherited_socket(&mut config)?;
        check_address_free(&config)?;
        manager.hold_back();
        manager.reconcile(plan.servers);
        let guard = Arc::new(AccessGuard::new(&config).with_tokens(app.boards.clone()));
        let hub = Hub::new(manager.clone(), plan.hub, guard.clone());
        let terms = Arc::new(RwLock::new(PostedServerTerms::of(&loaded.settings)));
        let keeper = Arc::new(ServerPersistence::new(app, &loaded));
        let offered = ConfiguredBackend {
            hub: hub.clone(),
            terms: terms.clone(),
            boards: app.boards.clone(),
            keeper: keeper.clone(),
        };
        let handle = Gateway::serve(config, Arc::new(offered)).await.map_err(start_failure)?;
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
            arrivals,
            keeper,
            terms,
            coming: None,
            refused: None,
        })
    }

    fn print_welcome(&self) {
        let clients = ClientSetup {
            url: format!("{}/mcp", self.handle.url()),
            config: self.loaded.origin.path().map(|path| path.display().to_string()),
            has_keys: self.doorkeeper.asks_for_keys(),
        };
        if self.app.common.quiet {
            return self.app.output.message(|_| format!("listening on {}", self.handle.url()));
        }
        self.app.output.message(|paint| {
            let text = if self.args.print_clients { clients.in_full(paint) } else { clients.in_short(paint) };
            let page = match self.loaded.settings.gateway.dashboard {
                true => format!("  Dashboard       open {}/ in a browser\n", self.handle.url()),
                false => String::new(),
            };
            format!("{} {}\n{page}{text}", paint.good("listening on"), paint.strong(self.handle.url()))
        });
    }

    /// For a program that started us: one line, as soon as it can connect.
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
            Err(_) if is_still_starting(server) => self.app.output.message(|paint| {
                let told = format!("{}: it is still starting; `tsugi logs {0}` shows what it says", server.name());
                format!("{}: {told}", paint.warning("warning"))
            }),
            Ok(_) if self.app.common.quiet => {}
            Ok(catalog) => self.app.output.message(|paint| {
                let status = server.status();
                let version = status.version.map(|version| version.to_string()).unwrap_or_default();
                let what = format!("{} {version}, {} tools", status.transport, catalog.tools.items.len());
                format!("{}: connected {}", server.name(), paint.faint(format!("({what})")))
            }),
            Err(fault) => self.app.output.message(|paint| warning(&fault, paint)),
        }
    }

    /// The keys that hold from now on; damaged ones change nothing.
    fn replace_keys(&mut self) {
        match self.doorkeeper.keys(self.app, &self.loaded.settings) {
            Ok(keys) => {
                self.guard.replace_keys(keys);
                self.warn_if_shut();
            }
            Err(failure) => _ = failure.report(&self.app.output),
        }
    }

    /// Without its last key a gateway that others can reach would be open to all of them.
    fn warn_if_shut(&self) {
        if self.guard.refuses_everyone() {
            let problem =
                ConfigProblem::new("there is no key any more, and others can reach this address: nobody is let in")
                    .with_hint("`tsugi key add NAME` makes a key; `tsugi serve --insecure` does without");
            self.app.output.message(|paint| report::warnings(&[problem], paint));
        }
    }

    /// Lets running calls end, then stops the servers. A second signal does not wait.
    async fn stop(self, signals: &mut ServiceSignals) -> CommandExit {
        let grace = self.loaded.settings.gateway.drain;
        self.app.output.message(|paint| paint.faint(stopping(grace)));
        let ended = async {
            let cut_off = self.handle.drain(grace).await;
            self.manager.stop().await;
            cut_off
        };
        tokio::select! {
            cut_off = ended => {
                if cut_off > 0 {
                    self.app.output.message(|paint| paint.warning(format!("{cut_off} calls were cut off")));
                }
                CommandExit::Success
            }
            () = signals.stop() => CommandExit::Interrupted,
        }
    }
}

/// Whether nothing has gone wrong with it yet.
fn is_still_starting(server: &Server) -> bool {
    let status = server.status();
    matches!(status.state, ConnectionState::Connecting | ConnectionState::Initializing) && status.fault.is_none()
}

fn stopping(grace: Duration) -> String {
    format!("stopping; running calls have {} s, another signal ends them", grace.as_secs())
}

/// Lets `tsugi status`, `logs` and `restart` find this gateway. It serves without a record too.
fn publish_record(app: &App, running: &RunningGateway<'_>) -> Option<RecordLock> {
    let record = GatewayRecord {
        url: running.handle.url(),
        pid: std::process::id(),
        config: running.loaded.origin.path().map(gateway_record::canonical),
        directory: gateway_record::canonical(&app.context.directory),
    };
    let published = record.publish(&app.state_directory()?);
    published.inspect_err(|error| tracing::debug!(%error, "the gateway's record cannot be written")).ok()
}

/// A server that is to be connected at once; nobody waits for the others.
fn arrival(app: &App, server: Server) -> Option<ServerArrival> {
    let patience = app.patience(server.config());
    (server.config().start == StartPolicy::Eager).then(|| -> ServerArrival {
        Box::pin(async move {
            let ready = server.ready(patience).await;
            (server, ready)
        })
    })
}

/// A server that was not ready in time, once it is: whoever reads along wants to know.
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

/// Takes the socket that whoever started us holds for us, in place of an address of our own.
fn take_inherited_socket(config: &mut GatewayConfig) -> Result<(), CommandFailure> {
    if let Some(listener) = tsugi_process::inherited_listener() {
        config.listen = vec![listener.local_addr()?];
        config.inherited = Some(Arc::new(listener));
    }
    Ok(())
}

/// Finds out what would keep us from listening before any program is started.
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
            let hint = "another gateway may run there (see `tsugi status`); \
                        --listen 127.0.0.1:0 takes a free port, and gateway.listen sets one for good";
            CommandFailure::usage(format!("cannot listen on {address}: something else does already")).with_hint(hint)
        }
        StartError::Exposed(_) => {
            CommandFailure::usage(error.to_string()).with_hint("`tsugi key add NAME` makes a key")
        }
        _ => CommandFailure::usage(error.to_string()),
    }
}
