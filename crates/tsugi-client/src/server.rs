//! One configured server: the handle that callers hold, and the instance with its connection, catalog and task.

mod caller_sessions;
mod connect;
mod connection_limit;
mod forward;
mod lifecycle;
mod listen;
mod process_log;
mod refresh;
pub mod roots;
mod status;
mod subscription;
mod supervise;
mod task;
mod watch_table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc, oneshot, watch as watch_channel};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugi_pins::PinKind;
use tsugi_pins::store::OfferSource;
use tsugi_process::{ProcessInfo, SandboxReport, StderrLog};
use tsugi_protocol::answer::{Answer, Fault};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, Era, ServerIdentity};

use crate::catalog::manifest::ManifestStore;
use crate::catalog::{Catalog, ListSelection, OmittedEntry, pinning};
use crate::config::{ManagerOptions, PinPolicy, PinStore, ServerConfig};
use crate::connection::ServerConnection;
use crate::connection::context::{ConnectionContext, OutputNoise};
use crate::connection::era_cache::{AskingRecord, EraCache};
use crate::connection::notice::NoticeInbox;
use crate::connection::parked::ParkedCalls;
use crate::connection::state::ConnectionState;
pub use crate::layer::cache::CacheCounts;
use crate::layer::deadline::DeadlineLimits;
use crate::layer::limit::ConcurrencyGate;
use crate::layer::validate::ListSource;
use crate::pool::InstancePool;
use crate::stack::{self, LayerState};
use crate::tool_table::{CHECKING, KnownTool};
use caller_sessions::CallerSessions;
pub(crate) use connection_limit::ConnectionLimit;
use connection_limit::{ConnectionUsage, UsageGuard};
use forward::{InstanceAnswer, LiveConnection};
pub(crate) use lifecycle::LIFECYCLE;
use lifecycle::ReportedTrouble;
use status::StatusCell;
pub use status::{ServerChange, ServerEvent, ServerSignIn, ServerStatus};
use watch_table::WatchTable;

/// How many changes a slow subscriber may be behind before it misses some.
const CHANGES: usize = 1024;

/// How long to wait before asking a task again whose queue is full.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// A handle to a server. Cheap to clone; the server stops when its manager removes it.
#[derive(Clone)]
pub struct Server {
    instance: Arc<Instance>,
    stack: Arc<dyn Answer>,
    pool: Option<Arc<InstancePool>>,
    caller_sessions: Option<CallerSessions>,
}

/// What all servers of a manager share.
#[derive(Clone)]
pub(crate) struct ManagerShared {
    pub(crate) options: Arc<ManagerOptions>,
    pub(crate) memory: Arc<EraCache>,
    pub(crate) manifests: Arc<ManifestStore>,
    /// The gate of all servers together.
    pub(crate) global_gate: Option<Arc<ConcurrencyGate>>,
    /// Whether servers may be started by now.
    pub(crate) may_start: watch_channel::Sender<bool>,
    /// Whether all servers are being stopped with their manager.
    pub(crate) is_shutting_down: Arc<AtomicBool>,
    /// The connections of all servers together, where they are limited.
    pub(crate) connection_limit: Option<Arc<ConnectionLimit>>,
}

impl ManagerShared {
    pub(crate) fn new(options: ManagerOptions) -> Self {
        let memory = Arc::new(EraCache::open(options.state_dir.as_ref()));
        let manifests = Arc::new(ManifestStore::open(options.state_dir.as_ref()));
        let gate = options.limit.map(ConcurrencyGate::new);
        let may_start = watch_channel::Sender::new(true);
        let seats = options.max_connections.map(ConnectionLimit::new);
        Self {
            options: Arc::new(options),
            memory,
            manifests,
            global_gate: gate,
            may_start,
            is_shutting_down: Arc::default(),
            connection_limit: seats,
        }
    }

    /// The same, with these capabilities declared to servers.
    pub(crate) fn declaring(&self, capabilities: ClientCapabilities) -> Self {
        let own = &self.options.profile;
        let profile = ClientProfile { capabilities, ..(**own).clone() };
        let options = ManagerOptions { profile: Arc::new(profile), ..(*self.options).clone() };
        Self { options: Arc::new(options), ..self.clone() }
    }
}

/// What an instance is to its server.
pub(crate) enum InstanceRole {
    /// The one that provides the catalog and the notifications about watched resources.
    Primary(WatchTable),
    /// Another process or session like it.
    Replica,
    /// A session with the capabilities of some callers. It passes notifications on to the primary.
    CallerSession(Arc<NoticeInbox>),
}

/// One instance of a server: its connection, its catalog and its task.
pub(crate) struct Instance {
    pub(crate) config: ServerConfig,
    role: InstanceRole,
    /// When it was made.
    since: Instant,
    pub(crate) options: Arc<ManagerOptions>,
    context: Arc<ConnectionContext>,
    memory: Arc<EraCache>,
    live: ArcSwapOption<LiveConnection>,
    /// The newest process, even before the handshake and after its end. It does not keep the process alive.
    process: ArcSwapOption<ProcessRecord>,
    /// The last output of the processes before it.
    past_output: process_log::PastOutput,
    catalog: ArcSwapOption<Catalog>,
    /// What it offered the last time, until it is known what it offers now.
    remembered: ArcSwapOption<Catalog>,
    /// Whether the manager stops all of its servers now.
    is_shutting_down: Arc<AtomicBool>,
    manifests: Arc<ManifestStore>,
    status: StatusCell,
    commands: mpsc::Sender<InstanceCommand>,
    watches: WatchTable,
    changes: broadcast::Sender<ServerChange>,
    /// Set when the last way of opening a connection failed and another one is to be tried.
    tries_second_way: AtomicBool,
    /// Set when the manager has removed the server: it is never connected again.
    is_removed: AtomicBool,
    /// The state of the layers, shared by all instances of the server.
    pub(crate) layers: Arc<LayerState>,
    /// It is stopped, or being stopped, because it was idle: a call waits until it can start again.
    is_resting: AtomicBool,
    /// How many attempts to connect there were. A call that asks for one says how many it knew of.
    attempts: AtomicU64,
    /// From when on a call may bring the next attempt forward; `None` while calls must not.
    wake_at: Mutex<Option<Instant>>,
    /// How much of the present trouble the log has reported.
    reported: Mutex<ReportedTrouble>,
    /// Its use of the manager's connections, where they are limited.
    usage: Option<ConnectionUsage>,
    /// As long as it lives, what it saw counts for the pins.
    life: Arc<()>,
}

/// What is known of a process without holding it.
pub(crate) struct ProcessRecord {
    pub(crate) pid: u32,
    pub(crate) tier: &'static str,
    pub(crate) stderr: StderrLog,
}

/// What others ask of the task.
enum InstanceCommand {
    /// An operator's start: connect now, if not connected, and forget earlier failures.
    Start,
    /// A call's start: connect, unless there was an attempt since the call saw this many.
    Wake(u64),
    /// Stop, unless it is in use by now.
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
    /// A server that replaces another takes over its watched resources, so that subscribers notice nothing.
    pub(crate) fn spawn(
        config: ServerConfig,
        common: &Arc<ManagerShared>,
        changes: Option<broadcast::Sender<ServerChange>>,
        before: Option<&Self>,
    ) -> (Self, AbortHandle) {
        let layers = Arc::new(LayerState::of(&config, &common.options));
        // Watches move to the new server, so that subscriptions survive a change of its settings.
        let role = InstanceRole::Primary(before.map(|before| before.instance.watches.clone()).unwrap_or_default());
        let (instance, task) = Instance::spawn(config, common, changes, layers, role);
        let mut remembered = common.manifests.load(&instance.config.name, &instance.config.target);
        if let (Some(catalog), Some(pins)) = (&mut remembered, instance.pins()) {
            pinning::apply(catalog, ListSelection::ALL, &instance.config.name, pins, OfferSource::Remembered);
        }
        instance.remembered.store(remembered.map(Arc::new));
        let pool = InstancePool::of(&instance, common);
        // From the inside out: instance or pool, caller sessions, then the layers.
        let bottom: Arc<dyn Answer> = match &pool {
            Some(pool) => pool.clone(),
            None => Arc::new(InstanceAnswer(instance.clone())),
        };
        let sessions = CallerSessions::of(&instance, &bottom, common);
        let bottom = sessions.clone().map_or(bottom, |sessions| Arc::new(sessions));
        let list = list_source(&instance);
        let layers = &instance.layers;
        let stack =
            stack::build(bottom, &instance.config, &instance.options, layers, common.global_gate.as_ref(), Some(list));
        (Self { instance, stack, pool, caller_sessions: sessions }, task)
    }

    pub fn name(&self) -> &str {
        &self.instance.config.name
    }

    pub fn config(&self) -> &ServerConfig {
        &self.instance.config
    }

    /// The settings for all servers of its manager.
    pub(crate) fn options(&self) -> &ManagerOptions {
        &self.instance.options
    }

    /// What is known about a tool: its hints as they count here, and its compiled schemas.
    pub(crate) fn known_tool(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.instance.layers.tools.get(name)
    }

    /// Tools that cannot be called or checked fully, and why: those that were left out of the list, and those whose
    /// schemas turned out to be unusable when they were first needed.
    pub fn unusable_tools(&self) -> Vec<OmittedEntry> {
        self.instance.layers.tools.unusable()
    }

    /// Its state, with the counts of calls and instances.
    pub fn status(&self) -> ServerStatus {
        let mut status = self.instance.status.get();
        if let Some(live) = self.instance.live.load_full() {
            let identity = live.connection.identity();
            status.version = Some(identity.version);
            status.identity = Some(identity);
            status.in_flight = live.connection.in_flight();
        }
        // The record outlives its process, and a pid of a dead process must not be shown.
        if let Some(newest) = self.instance.process.load_full().filter(|_| has_process(status.state)) {
            status.pid = Some(newest.pid);
            status.tier = Some(newest.tier);
        }
        status.parked = self.instance.parked();
        status.asks = self.instance.asks();
        if let Some(pool) = &self.pool {
            pool.add_to_status(&mut status);
        }
        if let Some(sessions) = &self.caller_sessions {
            sessions.add_to_status(&mut status);
        }
        self.instance.layers.add_to_status(&mut status);
        status.sign_in =
            self.config().target.credential().and_then(|credential| ServerSignIn::of(credential.standing()));
        status
    }

    /// What it offers, as far as is known: even of a server that is down, or that was not started yet but was connected
    /// in an earlier run.
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.instance.catalog.load_full().or_else(|| self.instance.remembered.load_full())
    }

    /// What is pinned for it while it is not known what it offers: its names stay taken.
    pub fn pinned_names(&self, kind: PinKind) -> Vec<String> {
        let Some((pins, _)) = self.instance.pins().filter(|_| self.catalog().is_none()) else { return Vec::new() };
        pins.with_lock(|lock| {
            let own = lock.of_server(self.name()).filter(|(key, _)| key.kind == kind);
            own.map(|(key, _)| key.name.clone()).collect()
        })
    }

    /// Whether it has a tool; `None` while its list is not known. A list remembered from an earlier run does not count,
    /// nor one that could not be fetched.
    pub(crate) fn has_tool(&self, tool: &str) -> Option<bool> {
        let catalog = self.instance.catalog.load_full().filter(|catalog| catalog.tools.fault.is_none())?;
        Some(catalog.has_tool(tool))
    }

    /// What it offers, once it is connected. Starts it when it is not running.
    pub async fn ready(&self, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        self.instance.ready(limit).await
    }

    /// What it offers, once it is connected, or why the last attempt to connect it failed. Unlike [`ready`](Self::ready)
    /// this does not wait for further attempts.
    pub async fn settled(&self, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        let failed = async {
            loop {
                let change = self.instance.status.changed();
                let status = self.instance.status.get();
                if let (ConnectionState::Reconnecting, Some(fault)) = (status.state, status.fault) {
                    return self.instance.not_running("the server is not connected", Some(fault));
                }
                change.await;
            }
        };
        tokio::select! {
            // `ready` would wait for further attempts; the other branch ends with the first failure.
            ready = self.ready(limit) => ready,
            fault = failed => Err(fault),
        }
    }

    /// Returns what it offers. If that is not known, it is started, and stopped again unless it is in use by then.
    pub async fn introduce(&self, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        if let Some(known) = self.catalog() {
            return Ok(known);
        }
        let catalog = self.settled(limit).await?;
        // It was started only for its list.
        self.instance.rest();
        Ok(catalog)
    }

    /// How much of the first moments of its life is left; nothing once an attempt to connect it has failed.
    pub(crate) fn newness(&self, first_moments: Duration) -> Duration {
        let has_failed = self.instance.status.get().fault.is_some();
        if has_failed { Duration::ZERO } else { first_moments.saturating_sub(self.instance.since.elapsed()) }
    }

    /// Connects, if it is not connected; does not wait.
    pub fn start(&self) {
        self.instance.layers.is_held.store(false, Ordering::Relaxed);
        self.instance.order(InstanceCommand::Start);
    }

    /// Stops it; it stays stopped until it is started or called.
    pub async fn stop(&self) {
        self.stop_others().await;
        self.instance.stop().await;
    }

    /// Stops it and keeps it stopped: calls fail until it is started or restarted.
    pub async fn hold(&self) {
        // Before the stop: a call that comes in between must not start it again.
        self.instance.layers.is_held.store(true, Ordering::Relaxed);
        self.stop().await;
    }

    /// Stops all but the first instance.
    async fn stop_others(&self) {
        if let Some(pool) = &self.pool {
            pool.stop().await;
        }
        if let Some(sessions) = &self.caller_sessions {
            sessions.stop().await;
        }
    }

    /// The manager has removed it: its processes end, and calls that wait for them fail.
    pub(crate) fn let_go(&self) {
        self.instance.let_go();
        if let Some(pool) = &self.pool {
            pool.let_go();
        }
        if let Some(sessions) = &self.caller_sessions {
            sessions.let_go();
        }
    }

    /// Stops it and starts it again. Returns when the old process is gone.
    pub async fn restart(&self) {
        self.stop_others().await;
        if let Some(breaker) = &self.instance.layers.breaker {
            // An operator who restarts a server expects calls to reach it at once.
            breaker.reset();
        }
        self.instance.layers.is_held.store(false, Ordering::Relaxed);
        self.instance.is_resting.store(false, Ordering::Relaxed);
        self.instance.order_and_wait(InstanceCommand::Restart).await;
    }

    /// Fetches the lists again; does not wait.
    pub fn refresh(&self) {
        self.instance.order(InstanceCommand::Refresh);
    }

    /// Fetches lists again in the background that are stale by the server's own freshness. Subscribers are notified if
    /// they have changed.
    pub fn freshen(&self) {
        let catalog = self.instance.catalog.load();
        let is_stale = |catalog: &Arc<Catalog>| catalog.stale(Instant::now()) != ListSelection::default();
        if self.instance.is_live() && catalog.as_ref().is_some_and(is_stale) {
            self.instance.order(InstanceCommand::Look);
        }
    }

    /// The last lines that its newest process wrote to its standard error: also while it starts, and after its end.
    pub fn stderr(&self, lines: usize) -> Vec<String> {
        self.instance.process.load_full().map(|newest| newest.stderr.tail(lines)).unwrap_or_default()
    }

    /// Follows its newest process's standard error, when it had one.
    pub fn follow_stderr(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        self.instance.process.load_full().map(|newest| newest.stderr.subscribe())
    }

    /// The first lines on its standard output that were not messages, secrets masked.
    pub fn noise(&self) -> Vec<String> {
        let redact = &self.instance.config.job.0.redact;
        self.instance.context.noise.lines().iter().map(|line| redact.mask(line)).collect()
    }

    /// The living processes it consists of.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        self.instance
            .live
            .load_full()
            .as_ref()
            .and_then(|live| live.connection.job())
            .map(|job| job.tree())
            .unwrap_or_default()
    }

    /// Which restrictions of its sandbox the kernel enforces, when it is connected to a process of ours.
    pub fn sandbox_report(&self) -> Option<SandboxReport> {
        self.instance.live.load_full()?.connection.job().map(|job| job.sandbox_report().clone())
    }

    /// Subscribes to its changes.
    pub fn changes(&self) -> broadcast::Receiver<ServerChange> {
        self.instance.changes.subscribe()
    }
}

impl Instance {
    /// Makes an instance and starts its task.
    pub(crate) fn spawn(
        config: ServerConfig,
        common: &ManagerShared,
        changes: Option<broadcast::Sender<ServerChange>>,
        layers: Arc<LayerState>,
        role: InstanceRole,
    ) -> (Arc<Self>, AbortHandle) {
        let (orders, inbox) = mpsc::channel(64);
        // A caller session's notifications go to the primary, which owns the catalog and the cache.
        let told = Arc::<NoticeInbox>::default();
        let (notices, watches) = match &role {
            InstanceRole::CallerSession(first) => (first.clone(), WatchTable::default()),
            InstanceRole::Primary(watches) => (told.clone(), watches.clone()),
            InstanceRole::Replica => (told.clone(), WatchTable::default()),
        };
        let name: Arc<str> = config.name.as_str().into();
        let options = config.over(&common.options);
        let context = ConnectionContext {
            server: name.clone(),
            limits: DeadlineLimits::of(&config, &options),
            options: options.clone(),
            parked: ParkedCalls::default(),
            notices,
            noise: OutputNoise::default(),
            roots: Mutex::default(),
            asking: AskingRecord::open(&common.memory, &config.target),
        };
        let changes = changes.unwrap_or_else(|| broadcast::channel(CHANGES).0);
        // The transport is what the target says until a fallback proves otherwise.
        let status = StatusCell::new(name, config.target.kind(), changes.clone());
        let usage = ConnectionUsage::of(&config.target, common.connection_limit.as_ref());
        let instance = Arc::new(Instance {
            config,
            role,
            since: Instant::now(),
            options,
            context: Arc::new(context),
            memory: common.memory.clone(),
            live: ArcSwapOption::empty(),
            process: ArcSwapOption::empty(),
            past_output: process_log::PastOutput::default(),
            catalog: ArcSwapOption::empty(),
            remembered: ArcSwapOption::empty(),
            is_shutting_down: common.is_shutting_down.clone(),
            manifests: common.manifests.clone(),
            status,
            commands: orders,
            watches,
            changes,
            tries_second_way: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
            layers,
            is_resting: AtomicBool::new(false),
            attempts: AtomicU64::new(0),
            wake_at: Mutex::default(),
            reported: Mutex::default(),
            usage,
            life: Arc::default(),
        });
        let running = task::run(instance.clone(), common.may_start.subscribe(), inbox, told);
        let task = tokio::spawn(running).abort_handle();
        (instance, task)
    }

    /// What the server offers, once it is connected and its lists are fetched.
    async fn ready(self: &Arc<Self>, limit: Duration) -> Result<Arc<Catalog>, Fault> {
        let _user = UsageGuard::of(self);
        let seen = self.attempts();
        let waiting = async {
            loop {
                let change = self.status.changed();
                if let Some(fault) = self.unavailable(seen) {
                    return Err(fault);
                }
                if let Some(catalog) = self.catalog.load_full()
                    && self.live.load().is_some()
                {
                    return Ok(catalog);
                }
                self.want_until(change, seen).await;
            }
        };
        match tokio::time::timeout(limit, waiting).await {
            Ok(ready) => ready,
            Err(_) => Err(self.late()),
        }
    }

    /// Notifies the server that the roots of its only caller have changed. It gets these whenever it asks.
    pub(crate) fn tell_roots(&self, roots: RawJson) {
        // Stored first: the server may ask for them as soon as it is notified.
        *self.context.roots.lock() = Some(roots);
        if let Some(live) = &*self.live.load() {
            live.connection.roots_changed();
        }
    }

    /// The pins that it is held to.
    pub(super) fn pins(&self) -> Option<(&PinStore, PinPolicy)> {
        let pins = self.options.pins.as_deref().filter(|_| self.config.pin.is_on())?;
        Some((pins, self.config.pin))
    }

    /// Whether there is a connection.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load().is_some()
    }

    /// Whether a resource is watched or a call waits for input.
    pub(crate) fn is_watched(&self) -> bool {
        !self.watches.uris().is_empty() || self.parked() > 0
    }

    /// How many calls wait for input.
    pub(crate) fn parked(&self) -> usize {
        self.context.parked.len()
    }

    /// Whether the server has asked questions without saying which call they belong to, in this run or an earlier one.
    pub(crate) fn asks(&self) -> bool {
        self.context.asking.is_known()
    }

    /// The identity of the server, as far as it is known without connecting it.
    fn known_identity(&self) -> Option<Arc<ServerIdentity>> {
        match &*self.live.load() {
            Some(live) => Some(live.connection.identity()),
            // A resting server has not changed its era; one that failed may come back as another version.
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
        self.commands.try_send(InstanceCommand::Rest).is_ok()
    }

    /// Whether a connection that was to be closed as idle still may be: not if a call has come since.
    fn begin_rest(&self, connection: &ServerConnection) -> bool {
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
        self.order_and_wait(InstanceCommand::Stop).await;
    }

    /// Asks the task to connect where a call may, and waits for a change. `seen` is how many attempts there were when
    /// the call arrived. When the task's queue is full, it asks again.
    async fn want_until(&self, change: impl Future<Output = ()>, seen: u64) {
        let wake = match self.status.state() {
            ConnectionState::Disconnected => Some(InstanceCommand::Wake(self.attempts())),
            ConnectionState::Failed | ConnectionState::Reconnecting if self.may_wake(seen) => {
                Some(InstanceCommand::Wake(seen))
            }
            _ => None,
        };
        match wake.is_some_and(|wake| self.commands.try_send(wake).is_err()) {
            true => tokio::time::sleep(ASK_AGAIN).await,
            false => change.await,
        }
    }

    fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Acquire)
    }

    /// Whether a call that saw so many attempts may cause another: not when one failed while it waited, and not sooner
    /// after a failure than the backoff allows. Otherwise a busy caller would start a broken server all the time.
    fn may_wake(&self, seen: u64) -> bool {
        let is_due = self.wake_at.lock().is_some_and(|wake_at| Instant::now() >= wake_at);
        is_due && self.attempts() == seen
    }

    /// Sets from when on calls may wake it after a failure.
    fn set_wake_window(&self, wake_after: Option<Duration>) {
        *self.wake_at.lock() = wake_after.map(|wait| Instant::now() + wait);
    }

    fn order(&self, order: InstanceCommand) {
        // A full queue means that the task is busy with the same; nothing is lost that a later call would not repeat.
        let _ = self.commands.try_send(order);
    }

    async fn order_and_wait(&self, order: fn(oneshot::Sender<()>) -> InstanceCommand) {
        let (done, wait) = oneshot::channel();
        // A task that is gone has nothing left to stop.
        if self.commands.send(order(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// The manager has removed it: the connection ends, and calls that wait for one fail.
    pub(crate) fn let_go(&self) {
        self.is_removed.store(true, Ordering::Release);
        // The task may be busy or aborted, so the connection is dropped from here.
        self.live.store(None);
        self.status.wake();
    }

    pub(crate) fn is_let_go(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }
}

/// How the validation layer waits for an instance's list. It does not keep the instance alive.
fn list_source(instance: &Arc<Instance>) -> ListSource {
    let instance = Arc::downgrade(instance);
    Arc::new(move |call| {
        let Some(instance) = instance.upgrade() else { return Box::pin(async { Ok(()) }) };
        // The other half of its time is for the call itself.
        let limit = instance.wait_limit(call) / 2;
        Box::pin(async move {
            match instance.ready(limit).await {
                Ok(_) => Ok(()),
                // A server that is connected but does not answer `tools/list` may still answer calls.
                Err(_) if instance.is_live() => {
                    tracing::warn!(target: CHECKING, server = %instance.config.name, "a call is not checked: no list yet");
                    Ok(())
                }
                Err(fault) => Err(fault),
            }
        })
    })
}

/// Whether a process that was started may be alive in this state.
fn has_process(state: ConnectionState) -> bool {
    matches!(state, ConnectionState::Initializing | ConnectionState::Connected | ConnectionState::Draining)
}

#[cfg(test)]
mod tests;
