//! `tsugi serve`: every configured server behind one address, until someone asks it to stop.

pub(super) mod clients;
mod doorkeeper;
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
use tsugi_client::connection::state::State;
use tsugi_client::{Manager, Server, Start};
use tsugi_gateway::guard::Guard;
use tsugi_gateway::{Config, Gateway, Handle, Hub, StartError};
use tsugi_protocol::answer::Fault;

use crate::app::gateway::{self, keep::Keeper, offered::Offered, offered::Terms};
use crate::app::{App, profile_of_gateway};
use crate::config::layer::Loaded;
use crate::config::parse;
use crate::config::problem::Problem;
use crate::failure::{Failure, warning};
use crate::output::Form;
use crate::report;
use crate::report::exit::Exit;
use clients::Clients;
use doorkeeper::Doorkeeper;
use plan::Plan;
use reload::Coming;
use signals::{Signals, Wish};
use source::Source;

const EXAMPLES: &str = "\
Examples:
  tsugi serve                                    the configured servers, or the built-in ones, at 127.0.0.1:7600
  tsugi serve --config team.yaml --listen 127.0.0.1:0
  tsugi serve --command \"uvx mcp-server-time\"    one server on the spot
  kill -HUP PID                                  read the configuration again; saving the file does the same
  kill PID                                       stop when running calls have ended; twice: stop now";

/// Offer the servers to MCP clients, REST callers and agents at one address
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen, such as 127.0.0.1:7600 or 7600; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
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

impl Args {
    /// Puts what was said on the command line over what is written.
    fn over(&self, mut loaded: Loaded) -> Loaded {
        let gateway = &mut loaded.settings.gateway;
        gateway.listen = self.listen.unwrap_or(gateway.listen);
        gateway.insecure |= self.insecure;
        loaded
    }
}

/// A server that is being connected, and what came of it.
type Arrival = BoxFuture<'static, (Server, Result<Arc<Catalog>, Fault>)>;

/// A gateway that runs.
struct Running<'a> {
    app: &'a App,
    args: &'a Args,
    loaded: Loaded,
    manager: Manager,
    hub: Hub,
    guard: Arc<Guard>,
    handle: Handle,
    doorkeeper: Doorkeeper,
    arrivals: FuturesUnordered<Arrival>,
    /// Writes down servers that are added and removed over HTTP.
    keeper: Arc<Keeper>,
    /// What holds for servers that are added over HTTP.
    terms: Arc<RwLock<Terms>>,
    /// Settings that will hold as soon as their servers are ready.
    coming: Option<Coming>,
    /// Settings that could not be taken over. They may be tried again as they are.
    refused: Option<Loaded>,
}

pub(crate) async fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    tsugi_process::return_large_blocks();
    let mut signals = Signals::listen()?;
    let loaded = app.configuration()?;
    let mut source = Source::watch(app, &loaded);
    let mut running = Running::start(app, args, args.over(loaded)).await?;
    // Processes that an earlier run left when it was killed with its guardians.
    tokio::task::spawn_blocking(tsugi_process::sweep_strays);
    running.welcome();
    running.announce()?;
    running.manager.let_start();
    let mut is_tidied = false;
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::Stop => return Ok(running.stop(&mut signals).await),
                Wish::Reload => running.reread(&mut source),
            },
            change = source.next() => running.take(change),
            () = running.doorkeeper.changed() => running.replace_keys(),
            Some((server, arrived)) = running.arrivals.next() => {
                running.note_arrival(server, arrived);
                if running.arrivals.is_empty() && !is_tidied {
                    is_tidied = true;
                    tokio::spawn(forget_rare_code());
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

/// A gateway lives for weeks, and most of its code is for its start, its configuration and rare requests.
async fn forget_rare_code() {
    tokio::time::sleep(SETTLING).await;
    loop {
        tsugi_process::forget_rare_code();
        tokio::time::sleep(TIDYING).await;
    }
}

impl<'a> Running<'a> {
    /// Listens, and has the servers start in the background.
    async fn start(app: &'a App, args: &'a Args, loaded: Loaded) -> Result<Self, Failure> {
        let doorkeeper = Doorkeeper::new(app)?;
        let manager = app.manager(&loaded.settings, profile_of_gateway()).clone();
        let plan = Plan::make(app, &loaded, &manager, None)?;
        let mut config = gateway::config(&loaded.settings, doorkeeper.keys(app, &loaded.settings)?);
        inherit(&mut config)?;
        expect_free(&config)?;
        manager.hold_back();
        manager.reconcile(plan.servers);
        let guard = Arc::new(Guard::new(&config).with_tokens(app.boards.clone()));
        let hub = Hub::new(manager.clone(), plan.hub, guard.clone());
        let terms = Arc::new(RwLock::new(Terms::of(&loaded.settings)));
        let keeper = Arc::new(Keeper::new(app, &loaded));
        let offered =
            Offered { hub: hub.clone(), terms: terms.clone(), boards: app.boards.clone(), keeper: keeper.clone() };
        let handle = Gateway::serve(config, Arc::new(offered)).await.map_err(not_started)?;
        let arrivals = manager.servers().into_iter().filter_map(|server| arrival(app, server)).collect();
        Ok(Running {
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

    fn welcome(&self) {
        let clients = Clients {
            url: format!("{}/mcp", self.handle.url()),
            config: self.loaded.origin.path().map(|path| path.display().to_string()),
            has_keys: self.doorkeeper.asks_for_keys(),
        };
        if self.app.common.quiet {
            return self.app.output.say(|_| format!("listening on {}", self.handle.url()));
        }
        self.app.output.say(|paint| {
            let text = if self.args.print_clients { clients.in_full(paint) } else { clients.in_short(paint) };
            let page = match self.loaded.settings.gateway.dashboard {
                true => format!("  Dashboard       open {}/ in a browser\n", self.handle.url()),
                false => String::new(),
            };
            format!("{} {}\n{page}{text}", paint.good("listening on"), paint.strong(self.handle.url()))
        });
    }

    /// For a program that started us: one line, as soon as it can connect.
    fn announce(&self) -> Result<(), Failure> {
        if self.app.output.form() == Form::Json {
            let config = self.loaded.origin.path();
            let line = json!({"url": self.handle.url(), "pid": std::process::id(), "config": config});
            self.app.output.data(&line.to_string())?;
        }
        Ok(())
    }

    fn note_arrival(&mut self, server: Server, arrived: Result<Arc<Catalog>, Fault>) {
        let is_late = arrived.is_err();
        self.tell_arrival(&server, arrived);
        if is_late {
            self.arrivals.push(late_arrival(server));
        }
    }

    fn tell_arrival(&self, server: &Server, arrived: Result<Arc<Catalog>, Fault>) {
        match arrived {
            Err(_) if is_under_way(server) => self.app.output.say(|paint| {
                let told = format!("{}: it is still starting; `tsugi logs {0}` shows what it says", server.name());
                format!("{}: {told}", paint.warning("warning"))
            }),
            Ok(_) if self.app.common.quiet => {}
            Ok(catalog) => self.app.output.say(|paint| {
                let status = server.status();
                let version = status.version.map(|version| version.to_string()).unwrap_or_default();
                let what = format!("{} {version}, {} tools", status.transport, catalog.tools.items.len());
                format!("{}: connected {}", server.name(), paint.faint(format!("({what})")))
            }),
            Err(fault) => self.app.output.say(|paint| warning(&fault, paint)),
        }
    }

    /// The keys that hold from now on; damaged ones change nothing.
    fn replace_keys(&mut self) {
        match self.doorkeeper.keys(self.app, &self.loaded.settings) {
            Ok(keys) => {
                self.guard.replace_keys(keys);
                self.tell_if_shut();
            }
            Err(failure) => _ = failure.tell(&self.app.output),
        }
    }

    /// Without its last key a gateway that others can reach would be open to all of them.
    fn tell_if_shut(&self) {
        if self.guard.is_shut() {
            let problem = Problem::new("there is no key any more, and others can reach this address: nobody is let in")
                .with_hint("`tsugi key add NAME` makes a key; `tsugi serve --insecure` does without");
            self.app.output.say(|paint| report::warnings(&[problem], paint));
        }
    }

    /// Lets running calls end, then stops the servers. A second signal does not wait.
    async fn stop(self, signals: &mut Signals) -> Exit {
        let grace = self.loaded.settings.gateway.drain;
        self.app.output.say(|paint| paint.faint(stopping(grace)));
        let ended = async {
            let cut_off = self.handle.drain(grace).await;
            self.manager.stop().await;
            cut_off
        };
        tokio::select! {
            cut_off = ended => {
                if cut_off > 0 {
                    self.app.output.say(|paint| paint.warning(format!("{cut_off} calls were cut off")));
                }
                Exit::Success
            }
            () = signals.stop() => Exit::Interrupted,
        }
    }
}

/// Whether nothing has gone wrong with it yet.
fn is_under_way(server: &Server) -> bool {
    let status = server.status();
    matches!(status.state, State::Connecting | State::Initializing) && status.fault.is_none()
}

fn stopping(grace: Duration) -> String {
    format!("stopping; running calls have {} s, another signal ends them", grace.as_secs())
}

/// A server that is to be connected at once; nobody waits for the others.
fn arrival(app: &App, server: Server) -> Option<Arrival> {
    let patience = app.patience(server.config());
    (server.config().start == Start::Eager).then(|| -> Arrival {
        Box::pin(async move {
            let ready = server.ready(patience).await;
            (server, ready)
        })
    })
}

/// A server that was not ready in time, once it is: whoever reads along wants to know.
fn late_arrival(server: Server) -> Arrival {
    Box::pin(async move {
        let mut changes = server.changes();
        loop {
            if let Some(catalog) = server.catalog().filter(|_| server.status().state == State::Connected) {
                return (server, Ok(catalog));
            }
            if let Err(RecvError::Closed) = changes.recv().await {
                return std::future::pending().await;
            }
        }
    })
}

/// Takes the socket that whoever started us holds for us, in place of an address of our own.
fn inherit(config: &mut Config) -> Result<(), Failure> {
    if let Some(listener) = tsugi_process::inherited_listener() {
        config.listen = vec![listener.local_addr()?];
        config.inherited = Some(Arc::new(listener));
    }
    Ok(())
}

/// Finds out what would keep us from listening before any program is started.
fn expect_free(config: &Config) -> Result<(), Failure> {
    if config.inherited.is_some() {
        return Ok(());
    }
    for address in &config.listen {
        if let Err(error) = std::net::TcpListener::bind(address) {
            return Err(not_started(StartError::Bind { address: *address, error }));
        }
    }
    Ok(())
}

fn not_started(error: StartError) -> Failure {
    match &error {
        StartError::Bind { address, error: cause } if cause.kind() == std::io::ErrorKind::AddrInUse => {
            let hint = "another gateway may run there (see `tsugi status`); \
                        --listen 127.0.0.1:0 takes a free port, and gateway.listen sets one for good";
            Failure::usage(format!("cannot listen on {address}: something else does already")).with_hint(hint)
        }
        StartError::Exposed(_) => Failure::usage(error.to_string()).with_hint("`tsugi key add NAME` makes a key"),
        _ => Failure::usage(error.to_string()),
    }
}
