//! One configured server: its connection, its catalog, and the task that keeps both alive.

mod attend;
mod connect;
mod forward;
mod listen;
mod log;
mod refresh;
pub mod roots;
mod seats;
mod sessions;
mod status;
mod subscription;
mod task;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc, oneshot, watch as watch_channel};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugi_process::{ProcessInfo, Report, Stderr};
use tsugi_protocol::answer::{Answer, Fault};
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, Era, ServerIdentity};

use crate::catalog::manifest::Manifests;
use crate::catalog::{Catalog, LeftOut, Lists};
use crate::config::{Options, ServerConfig};
use crate::connection::Connection;
use crate::connection::context::{Context, Noise};
use crate::connection::memory::EraMemory;
use crate::connection::notice::Notices;
use crate::connection::parked::Parked;
use crate::connection::state::State;
pub use crate::layer::cache::Counts;
use crate::layer::deadline::Limits;
use crate::layer::limit::Gate;
use crate::pool::Pool;
use crate::stack::{self, Parts};
use crate::tools::KnownTool;
use forward::{Live, Upstream};
pub(crate) use seats::Seats;
use seats::{Usage, User};
use sessions::Sessions;
use status::StatusCell;
pub use status::{Change, Status, What};
use watch::Watches;

/// How many changes a slow listener may be behind before it misses some.
const CHANGES: usize = 1024;

/// How long to wait before a task that has too much to do is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// A handle to a server. Cheap to clone; the server stops when its manager lets it go.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
    stack: Arc<dyn Answer>,
    pool: Option<Arc<Pool>>,
    sessions: Option<Sessions>,
}

/// What all servers of a manager share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) options: Arc<Options>,
    pub(crate) memory: Arc<EraMemory>,
    pub(crate) manifests: Arc<Manifests>,
    /// The gate of all servers together.
    pub(crate) gate: Option<Arc<Gate>>,
    /// Whether servers may be started by now.
    pub(crate) may_start: watch_channel::Sender<bool>,
    /// The connections of all servers together, where they are limited.
    pub(crate) seats: Option<Arc<Seats>>,
}

impl Common {
    pub(crate) fn new(options: Options) -> Self {
        let memory = Arc::new(EraMemory::open(options.state_dir.as_ref()));
        let manifests = Arc::new(Manifests::open(options.state_dir.as_ref()));
        let gate = options.limit.map(Gate::new);
        let may_start = watch_channel::Sender::new(true);
        let seats = options.max_connections.map(Seats::new);
        Self { options: Arc::new(options), memory, manifests, gate, may_start, seats }
    }

    /// The same, but servers hear that the client can do this.
    pub(crate) fn declaring(&self, capabilities: ClientCapabilities) -> Self {
        let own = &self.options.profile;
        let profile = ClientProfile { capabilities, ..(**own).clone() };
        let options = Options { profile: Arc::new(profile), ..(*self.options).clone() };
        Self { options: Arc::new(options), ..self.clone() }
    }
}

/// What an instance is to its server.
pub(crate) enum Place {
    /// The one that tells what the server offers, and of what is watched.
    First(Watches),
    /// Another process or session like it.
    Further,
    /// A session on the terms of some callers. What it hears of changes is told to the first.
    Beside(Arc<Notices>),
}

/// One instance of a server: its connection, its catalog and its task.
pub(crate) struct Inner {
    pub(crate) config: ServerConfig,
    place: Place,
    /// When it was made.
    since: Instant,
    pub(crate) options: Arc<Options>,
    context: Arc<Context>,
    memory: Arc<EraMemory>,
    live: ArcSwapOption<Live>,
    /// The newest process, also before the handshake and after its end. It does not keep the process alive.
    newest: ArcSwapOption<Newest>,
    /// What those before it said.
    earlier: log::Earlier,
    catalog: ArcSwapOption<Catalog>,
    /// What it offered the last time, until it is known what it offers now.
    remembered: ArcSwapOption<Catalog>,
    manifests: Arc<Manifests>,
    status: StatusCell,
    orders: mpsc::Sender<Order>,
    watches: Watches,
    changes: broadcast::Sender<Change>,
    /// Set when the last way of opening a connection failed and another one is to be tried.
    tries_second_way: AtomicBool,
    /// Set when the manager has let the server go: it will never be connected again.
    is_let_go: AtomicBool,
    /// What the layers know; shared by all instances of the server.
    pub(crate) parts: Arc<Parts>,
    /// It is stopped, or being stopped, because it was idle: whoever calls it waits until it can start again.
    is_resting: AtomicBool,
    /// There was an attempt to connect it.
    was_started: AtomicBool,
    /// Its use of the manager's connections, where they are limited.
    usage: Option<Usage>,
}

/// What is known of a process without holding it.
pub(crate) struct Newest {
    pub(crate) pid: u32,
    pub(crate) tier: &'static str,
    pub(crate) stderr: Stderr,
}

/// What others ask of the task.
enum Order {
    /// Connect, if not connected.
    Start,
    /// Stop, unless somebody uses it by now.
    Rest,
    /// Stop, and tell when done.
    Stop(oneshot::Sender<()>),
    /// Stop and start, and tell when stopped.
    Restart(oneshot::Sender<()>),
    /// Fetch the lists again.
    Refresh,
    /// Fetch those lists again that are stale.
    Look,
    /// What is watched has changed.
    Watches,
}

impl Server {
    /// Makes the handle and starts the task that owns everything.
    ///
    /// Where it is to take the place of another, what is watched there is watched here: whoever listens goes on hearing.
    pub(crate) fn spawn(
        config: ServerConfig,
        common: &Arc<Common>,
        changes: Option<broadcast::Sender<Change>>,
        before: Option<&Self>,
    ) -> (Self, AbortHandle) {
        let parts = Arc::new(Parts::of(&config));
        let place = Place::First(before.map(|before| before.inner.watches.clone()).unwrap_or_default());
        let (inner, task) = Inner::spawn(config, common, changes, parts, place);
        inner.remembered.store(common.manifests.load(&inner.config.name, &inner.config.target).map(Arc::new));
        let pool = Pool::of(&inner, common);
        let bottom: Arc<dyn Answer> = match &pool {
            Some(pool) => pool.clone(),
            None => Arc::new(Upstream(inner.clone())),
        };
        let sessions = Sessions::of(&inner, &bottom, common);
        let bottom = sessions.clone().map_or(bottom, |sessions| Arc::new(sessions));
        let stack = stack::build(bottom, &inner.config, &inner.options, &inner.parts, common.gate.as_ref());
        (Self { inner, stack, pool, sessions }, task)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.config.name
    }

    /// The settings.
    pub fn config(&self) -> &ServerConfig {
        &self.inner.config
    }

    /// The settings for all servers of its manager.
    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// What is known about a tool: its hints as they count here, and its compiled schemas.
    pub(crate) fn known_tool(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.inner.parts.tools.get(name)
    }

    /// Tools that cannot be called or checked as they should, and why: those that were left out of the list, and those
    /// whose schemas turned out to be unusable when they were first needed.
    pub fn unusable_tools(&self) -> Vec<LeftOut> {
        self.inner.parts.tools.unusable()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let mut status = self.inner.status.get();
        if let Some(live) = self.inner.live.load_full() {
            let identity = live.connection.identity();
            status.version = Some(identity.version);
            status.identity = Some(identity);
            status.in_flight = live.connection.in_flight();
        }
        if let Some(newest) = self.inner.newest.load_full().filter(|_| has_process(status.state)) {
            status.pid = Some(newest.pid);
            status.tier = Some(newest.tier);
        }
        status.parked = self.inner.context.parked.len();
        if let Some(pool) = &self.pool {
            (status.instances, status.in_flight) = pool.load();
        }
        if let Some(sessions) = &self.sessions {
            sessions.tell(&mut status);
        }
        self.inner.parts.tell(&mut status);
        status
    }

    /// What it offers, as far as is known: also of a server that is down at the moment, or was not started yet but
    /// was connected before.
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.inner.catalog.load_full().or_else(|| self.inner.remembered.load_full())
    }

    /// What it offers, once it is connected. Starts it when it is not running.
    pub async fn ready(&self, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        let _user = User::of(&self.inner);
        let waiting = async {
            loop {
                let change = self.inner.status.changed();
                if let Some(fault) = self.inner.gone() {
                    return Err(fault);
                }
                if let Some(catalog) = self.inner.catalog.load_full()
                    && self.inner.live.load().is_some()
                {
                    return Ok(catalog);
                }
                self.inner.want_until(change).await;
            }
        };
        match tokio::time::timeout(limit, waiting).await {
            Ok(ready) => ready,
            Err(_) => Err(self.inner.late()),
        }
    }

    /// What it offers, once it is connected, or why the last attempt to connect it failed. Unlike [`ready`](Self::ready)
    /// this does not wait for further attempts.
    pub async fn settled(&self, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        let failed = async {
            loop {
                let change = self.inner.status.changed();
                let status = self.inner.status.get();
                if let (State::Reconnecting, Some(fault)) = (status.state, status.fault) {
                    return self.inner.not_running("the server is not connected", Some(fault));
                }
                change.await;
            }
        };
        tokio::select! {
            ready = self.ready(limit) => ready,
            fault = failed => Err(fault),
        }
    }

    /// Finds out what it offers, when nobody knows: starts it, and lets it rest unless somebody uses it by then.
    pub async fn introduce(&self, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        if let Some(known) = self.catalog() {
            return Ok(known);
        }
        let catalog = self.settled(limit).await?;
        self.inner.rest();
        Ok(catalog)
    }

    /// How much of the first moments of its life is left; nothing once an attempt to connect it has failed.
    pub(crate) fn newness(&self, first_moments: Duration) -> Duration {
        let has_failed = self.inner.status.get().fault.is_some();
        if has_failed { Duration::ZERO } else { first_moments.saturating_sub(self.inner.since.elapsed()) }
    }

    /// Connects, if it is not connected; does not wait.
    pub fn start(&self) {
        self.inner.parts.is_held.store(false, Ordering::Relaxed);
        self.inner.order(Order::Start);
    }

    /// Stops it; it stays stopped until somebody starts it or calls it.
    pub async fn stop(&self) {
        self.stop_others().await;
        self.inner.stop().await;
    }

    /// Stops it, and holds it stopped: calls fail until somebody starts or restarts it.
    pub async fn hold(&self) {
        self.inner.parts.is_held.store(true, Ordering::Relaxed);
        self.stop().await;
    }

    /// Stops all but the first instance.
    async fn stop_others(&self) {
        if let Some(pool) = &self.pool {
            pool.stop().await;
        }
        if let Some(sessions) = &self.sessions {
            sessions.stop().await;
        }
    }

    /// The manager has let it go: its processes end, and so does whoever waits for them.
    pub(crate) fn let_go(&self) {
        self.inner.let_go();
        if let Some(pool) = &self.pool {
            pool.let_go();
        }
        if let Some(sessions) = &self.sessions {
            sessions.let_go();
        }
    }

    /// Stops it and starts it again. Returns when the old process is gone.
    pub async fn restart(&self) {
        self.stop_others().await;
        if let Some(breaker) = &self.inner.parts.breaker {
            breaker.reset();
        }
        self.inner.parts.is_held.store(false, Ordering::Relaxed);
        self.inner.is_resting.store(false, Ordering::Relaxed);
        self.inner.order_and_wait(Order::Restart).await;
    }

    /// Fetches the lists again; does not wait.
    pub fn refresh(&self) {
        self.inner.order(Order::Refresh);
    }

    /// Somebody looks at what it offers: lists that are stale by its own word are fetched again, beside the work. Whoever
    /// listens hears of it when they read differently then.
    pub fn freshen(&self) {
        let catalog = self.inner.catalog.load();
        let is_stale = |catalog: &Arc<Catalog>| catalog.stale(Instant::now()) != Lists::default();
        if self.inner.is_live() && catalog.as_ref().is_some_and(is_stale) {
            self.inner.order(Order::Look);
        }
    }

    /// The last lines that its newest process wrote to its standard error: also while it starts, and after its end.
    pub fn stderr(&self, lines: usize) -> Vec<String> {
        self.inner.newest.load_full().map(|newest| newest.stderr.tail(lines)).unwrap_or_default()
    }

    /// Follows its newest process's standard error, when it had one.
    pub fn follow_stderr(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        self.inner.newest.load_full().map(|newest| newest.stderr.subscribe())
    }

    /// The first lines on its standard output that were no messages, secrets masked.
    pub fn noise(&self) -> Vec<String> {
        let redact = &self.inner.config.job.0.redact;
        self.inner.context.noise.lines().iter().map(|line| redact.mask(line)).collect()
    }

    /// The living processes it consists of.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        self.inner
            .live
            .load_full()
            .as_ref()
            .and_then(|live| live.connection.job())
            .map(|job| job.tree())
            .unwrap_or_default()
    }

    /// What of its sandbox truly holds, when it is connected to a process of ours.
    pub fn sandbox_report(&self) -> Option<Report> {
        self.inner.live.load_full()?.connection.job().map(|job| job.sandbox_report().clone())
    }

    /// Hears of changes.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }
}

impl Inner {
    /// Makes an instance and starts its task.
    pub(crate) fn spawn(
        config: ServerConfig,
        common: &Common,
        changes: Option<broadcast::Sender<Change>>,
        parts: Arc<Parts>,
        place: Place,
    ) -> (Arc<Self>, AbortHandle) {
        let (orders, inbox) = mpsc::channel(64);
        let told = Arc::<Notices>::default();
        let (notices, watches) = match &place {
            Place::Beside(first) => (first.clone(), Watches::default()),
            Place::First(watches) => (told.clone(), watches.clone()),
            Place::Further => (told.clone(), Watches::default()),
        };
        let name: Arc<str> = config.name.as_str().into();
        let options = config.over(&common.options);
        let context = Context {
            server: name.clone(),
            limits: Limits::of(&config, &options),
            options: options.clone(),
            parked: Parked::default(),
            notices,
            noise: Noise::default(),
            roots: Mutex::default(),
        };
        let changes = changes.unwrap_or_else(|| broadcast::channel(CHANGES).0);
        let status = StatusCell::new(name, config.target.kind(), changes.clone());
        let usage = Usage::of(&config.target, common.seats.as_ref());
        let inner = Arc::new(Inner {
            config,
            place,
            since: Instant::now(),
            options,
            context: Arc::new(context),
            memory: common.memory.clone(),
            live: ArcSwapOption::empty(),
            newest: ArcSwapOption::empty(),
            earlier: log::Earlier::default(),
            catalog: ArcSwapOption::empty(),
            remembered: ArcSwapOption::empty(),
            manifests: common.manifests.clone(),
            status,
            orders,
            watches,
            changes,
            tries_second_way: AtomicBool::new(false),
            is_let_go: AtomicBool::new(false),
            parts,
            is_resting: AtomicBool::new(false),
            was_started: AtomicBool::new(false),
            usage,
        });
        let running = task::run(inner.clone(), common.may_start.subscribe(), inbox, told);
        let task = tokio::spawn(running).abort_handle();
        (inner, task)
    }

    /// Tells the server that the roots of its only caller are these now. It gets them when it asks, also later.
    pub(crate) fn tell_roots(&self, roots: Raw) {
        *self.context.roots.lock() = Some(roots);
        if let Some(live) = &*self.live.load() {
            live.connection.roots_changed();
        }
    }

    /// Whether there is a connection.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load().is_some()
    }

    /// Whether somebody waits to hear of something, or for a call that waits for input.
    pub(crate) fn is_watched(&self) -> bool {
        !self.watches.uris().is_empty() || self.context.parked.len() > 0
    }

    /// The identity of the server, as far as it is known without connecting it.
    fn known_identity(&self) -> Option<Arc<ServerIdentity>> {
        match &*self.live.load() {
            Some(live) => Some(live.connection.identity()),
            None if self.is_resting.load(Ordering::Relaxed) => Some(self.catalog.load().as_ref()?.identity.clone()),
            None => None,
        }
    }

    /// The era that it speaks, when that is known.
    pub(crate) fn era(&self) -> Option<Era> {
        self.known_identity().map(|identity| identity.version.era())
    }

    /// How many calls are in flight.
    fn in_flight(&self) -> usize {
        self.live.load().as_ref().map_or(0, |live| live.connection.in_flight())
    }

    /// Stops the connection without waiting, unless it is used by then. `false` when the task has too much to do.
    pub(crate) fn rest(&self) -> bool {
        self.orders.try_send(Order::Rest).is_ok()
    }

    /// Whether a connection that is to rest still may. A call that came meanwhile keeps it: while such a call ended,
    /// nobody else could have made one.
    fn begin_rest(&self, connection: &Connection) -> bool {
        let may_rest = connection.in_flight() == 0 && !self.is_watched();
        if !may_rest && let Some(usage) = &self.usage {
            usage.stay(self);
        }
        self.is_resting.store(may_rest, Ordering::Relaxed);
        may_rest
    }

    /// Stops the connection and waits until its process is gone.
    pub(crate) async fn stop(&self) {
        self.is_resting.store(false, Ordering::Relaxed);
        self.order_and_wait(Order::Stop).await;
    }

    /// Asks the task to connect, and waits for a change. Where the task has too much to do to be asked, it is asked
    /// again: what fills its queue may be anything.
    async fn want_until(&self, change: impl Future<Output = ()>) {
        let is_wanted = matches!(self.status.state(), State::Disconnected);
        match is_wanted && self.orders.try_send(Order::Start).is_err() {
            true => tokio::time::sleep(ASK_AGAIN).await,
            false => change.await,
        }
    }

    fn order(&self, order: Order) {
        let _ = self.orders.try_send(order);
    }

    async fn order_and_wait(&self, order: fn(oneshot::Sender<()>) -> Order) {
        let (done, wait) = oneshot::channel();
        if self.orders.send(order(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// The manager has let it go: the connection ends, and so does whoever waits for one.
    pub(crate) fn let_go(&self) {
        self.is_let_go.store(true, Ordering::Release);
        self.live.store(None);
        self.status.wake();
    }

    pub(crate) fn is_let_go(&self) -> bool {
        self.is_let_go.load(Ordering::Acquire)
    }
}

/// Whether a process that was started may be alive in this state.
fn has_process(state: State) -> bool {
    matches!(state, State::Initializing | State::Connected | State::Draining)
}

#[cfg(test)]
mod tests;
