//! Where faces meet servers: one set of names over all of them, and each call forwarded to the one it concerns.
//!
//! `snapshot` makes one `HubSnapshot` out of every server's catalog, with the lists serialized. `access` decides what a
//! caller may name, `route` and `resource` find the server behind a name or an address, `extension` what servers declare
//! beside the core, `task` whose a task is, and `watch` notifies listeners of changes.

mod access;
mod app;
mod control;
mod directory;
mod extension;
mod list;
pub mod observe;
pub mod page;
pub mod presentation;
mod resource;
mod route;
mod single_server;
mod skill;
mod snapshot;
mod task;
pub mod tool_search;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::{Notify, broadcast, watch as signal};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugi_client::server::roots;
use tsugi_client::{Manager, Server};
use tsugi_pins::PinStore;
use tsugi_protocol::answer::{Answer, Call, Caller, CompletedResult, Fault, Outcome, Reply};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_protocol::rpc::RpcNotification;
use tsugi_schema::header_param::HeaderParams;
use tsugi_schema::tool_name::ToolNaming;

use crate::audit::{self, AuditTrail};
use crate::backend::{Backend, Endpoint, ServerControl, ToolDirectory, ToolHeaders};
use crate::dashboard::observe::ServerObserver;
use crate::guard::AccessGuard;
use crate::guard::caller_access::{CallerAccess, ServerTenants};
use crate::telemetry::GatewayMetrics;
use list::ListKind;
use page::PageLimit;
use presentation::ServerPresentation;
use snapshot::HubSnapshot;
use tool_search::{LastIndex, SearchTool, ToolListing};

/// How many changes a slow listener may be behind before it misses some.
const CHANGES: usize = 256;

/// How the servers are shown.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// How public names are formed.
    pub naming: ToolNaming,
    /// What is changed about single servers, by name.
    pub presentations: HashMap<String, ServerPresentation>,
    /// The settings of single servers as people may read them, by name; secrets must be hidden already.
    pub settings: HashMap<String, Value>,
    /// How long after the start a list waits for servers whose own lists are not known yet.
    pub settle: Duration,
    /// How much of a list is given at once.
    pub page: PageLimit,
    /// Which servers only certain tenants see.
    pub tenants: ServerTenants,
    /// Whether `tools/list` lists the tools or only the way to find them.
    pub listing: ToolListing,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            naming: ToolNaming::Prefix,
            presentations: HashMap::new(),
            settings: HashMap::new(),
            settle: Duration::from_secs(3),
            page: PageLimit::default(),
            tenants: ServerTenants::default(),
            listing: ToolListing::All,
        }
    }
}

impl HubConfig {
    /// How the public names of a server are formed.
    pub(crate) fn naming_of(&self, server: &str) -> ToolNaming {
        self.presentations.get(server).and_then(ServerPresentation::naming).unwrap_or(self.naming)
    }

    /// True when callers do not get a server's instructions.
    pub(crate) fn is_silent(&self, server: &str) -> bool {
        self.presentations.get(server).is_some_and(ServerPresentation::is_silent)
    }
}

/// All servers of a manager as one. Cheap to clone.
#[derive(Clone)]
pub struct Hub(Arc<HubState>);

struct HubState {
    manager: Manager,
    guard: Arc<AccessGuard>,
    feed: Arc<SnapshotFeed>,
    metrics: Arc<GatewayMetrics>,
    settled_by: Instant,
    watcher: AbortHandle,
}

/// What the watching task and the hub share.
struct SnapshotFeed {
    config: ArcSwap<HubConfig>,
    /// Notified when the servers are to be shown in another way.
    reconfigured: Notify,
    snapshot: ArcSwap<HubSnapshot>,
    /// Grows with every new view.
    renewed: signal::Sender<u64>,
    changes: broadcast::Sender<RpcNotification>,
    /// What tool search has split into words already.
    last_index: LastIndex,
}

impl Drop for HubState {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Hub {
    /// Shows the servers of `manager`. `guard` knows what each caller may use. Must be called within a runtime.
    pub fn new(manager: Manager, config: HubConfig, guard: Arc<AccessGuard>) -> Self {
        let metrics: Arc<GatewayMetrics> = Arc::default();
        guard.replace_tenants(config.tenants.clone());
        guard.count_in(&metrics);
        let settled_by = Instant::now() + config.settle;
        let view = Arc::new(SnapshotFeed {
            snapshot: ArcSwap::from_pointee(HubSnapshot::build(&manager.servers(), &config, &metrics)),
            config: ArcSwap::from_pointee(config),
            reconfigured: Notify::new(),
            renewed: signal::Sender::new(0),
            changes: broadcast::channel(CHANGES).0,
            last_index: LastIndex::default(),
        });
        // It has no handle on the hub, so that dropping the hub ends it.
        let watcher = tokio::spawn(watch::run(manager.clone(), view.clone(), metrics.clone())).abort_handle();
        Self(Arc::new(HubState { manager, guard, feed: view, metrics, settled_by, watcher }))
    }

    /// Shows the servers in this way from now on. Listeners are notified of what differs. Running calls are not affected.
    pub fn reconfigure(&self, config: HubConfig) {
        self.0.guard.replace_tenants(config.tenants.clone());
        self.0.feed.config.store(Arc::new(config));
        // The watching task builds the snapshot; two builders could store an older one last.
        self.0.feed.reconfigured.notify_one();
    }

    /// Notifies listeners that every list may read differently: what a caller may see has changed.
    pub fn announce_lists(&self) {
        for method in ListKind::CHANGES {
            // An error means that there are no listeners.
            let _ = self.0.feed.changes.send(RpcNotification::new(method, None));
        }
    }

    /// Writes calls, refusals and orders to this log. Called once, before the gateway listens.
    pub fn record_to(&self, trail: Arc<dyn AuditTrail>) {
        self.0.metrics.set_audit(trail);
    }

    /// The manager of the servers.
    pub fn manager(&self) -> &Manager {
        &self.0.manager
    }

    /// What is shown now.
    pub(crate) fn snapshot(&self) -> Arc<HubSnapshot> {
        self.0.feed.snapshot.load_full()
    }

    /// True when the lists of every server are known, or the time for them is over.
    fn is_settled(&self, snapshot: &HubSnapshot) -> bool {
        snapshot.is_complete || Instant::now() >= self.0.settled_by
    }

    /// What is shown once the lists of every server are known, or the time for them is over.
    pub(crate) async fn settled_snapshot(&self) -> Arc<HubSnapshot> {
        // Subscribed before the first look, so that no change between the two is missed.
        let mut renewed = self.0.feed.renewed.subscribe();
        let waiting = async { while !self.snapshot().is_complete && renewed.changed().await.is_ok() {} };
        // A server that is late is announced by a change later.
        let _ = tokio::time::timeout_at(self.0.settled_by, waiting).await;
        self.snapshot()
    }

    /// What this caller may name.
    fn access(&self, caller: &Caller) -> CallerAccess {
        self.0.guard.access(caller)
    }

    /// How the servers are shown now.
    fn config(&self) -> arc_swap::Guard<Arc<HubConfig>> {
        self.0.feed.config.load()
    }

    /// Answers from the snapshot, once the lists of every server are known or the time for them is over.
    fn reply_when_settled(
        &self,
        call: Call,
        say: impl Fn(&Hub, &HubSnapshot, &Call) -> Outcome + Send + 'static,
    ) -> Reply {
        let snapshot = self.snapshot();
        if self.is_settled(&snapshot) {
            return Reply::ready(say(self, &snapshot, &call));
        }
        let hub = self.clone();
        Reply::from_future(async move {
            let snapshot = hub.settled_snapshot().await;
            say(&hub, &snapshot, &call)
        })
    }

    fn list_page(&self, list: ListKind, snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Outcome {
        let page = match list {
            ListKind::Tools if snapshot.is_searched(access) => tool_search::page(snapshot, call, access),
            _ => snapshot.page(list, call, access),
        };
        match page {
            Ok(page) => Outcome::Complete(page),
            Err(fault) => Outcome::fault(fault),
        }
    }

    /// Who we are to this caller. Servers of which it may use nothing are left out.
    fn discover_result(&self, snapshot: &HubSnapshot, access: &CallerAccess) -> Outcome {
        complete(match access.is_restricted() {
            false => snapshot.discover.clone(),
            true => snapshot.discover_for(access, &self.config()),
        })
    }

    /// Sends a call to the server it concerns, with that server's own name for its subject.
    fn forward(&self, call: Call, access: CallerAccess) -> Reply {
        let snapshot = self.0.feed.snapshot.load();
        // The snapshot does not change under this call, whatever servers do.
        match route::route(self, &snapshot, &call, &access) {
            Ok(routed) if routed.may_be_anothers(&snapshot, &call) && !self.is_settled(&snapshot) => {
                self.forward_later(call, access)
            }
            Ok(routed) => routed.answer(call, self),
            // Names of tool search are never names of servers' tools, so only a name that was not found can be one.
            Err(_) if let Some(tool) = SearchTool::called_by(&call, &snapshot) => tool.answer(self, call, access),
            Err(fault) => match route::unlisted_server(&snapshot, &call, &access) {
                Some(server) => self.forward_once_listed(call, access, server, fault),
                None if self.is_settled(&snapshot) => self.refuse(&call, fault),
                None => self.forward_later(call, access),
            },
        }
    }

    /// Routes again once the lists of the server that the name begins with are known. The server is started when it is
    /// not running. When it cannot be started the caller gets that reason, and not that there is no such tool.
    fn forward_once_listed(&self, call: Call, access: CallerAccess, server: Server, unknown: Fault) -> Reply {
        let hub = self.clone();
        Reply::from_pending_reply(async move {
            let limit = call.options.timeout.unwrap_or(hub.manager().options().timeout);
            let mut renewed = hub.0.feed.renewed.subscribe();
            if let Err(fault) = server.settled(limit).await {
                return hub.refuse(&call, fault);
            }
            // The server has its lists, but the snapshot that we route by is made a moment later.
            let is_listed = || hub.snapshot().servers_told.contains(server.name());
            let waiting = async { while !is_listed() && renewed.changed().await.is_ok() {} };
            let _ = tokio::time::timeout(limit, waiting).await;
            match route::route(&hub, &hub.snapshot(), &call, &access) {
                Ok(routed) => routed.answer(call, &hub),
                Err(_) => hub.refuse(&call, unknown),
            }
        })
    }

    /// Routes again once the servers that are still starting have their lists.
    fn forward_later(&self, call: Call, access: CallerAccess) -> Reply {
        let hub = self.clone();
        Reply::from_pending_reply(async move {
            let snapshot = hub.settled_snapshot().await;
            match route::route(&hub, &snapshot, &call, &access) {
                Ok(routed) => routed.answer(call, &hub),
                Err(fault) => hub.refuse(&call, fault),
            }
        })
    }

    fn has_audit(&self) -> bool {
        self.0.metrics.audit().is_some()
    }

    /// Sends a call to its server, and writes it down before and after where there is an audit log.
    fn send_recorded(&self, call: Call, server: &str, send: impl FnOnce(Call) -> Reply + Send + 'static) -> Reply {
        match self.0.metrics.audit() {
            None => send(call),
            Some(trail) => match audit::forward(trail, call, server, send) {
                Ok(reply) => reply,
                Err(refused) => self.refuse(&refused.0, refused.1),
            },
        }
    }

    /// The answer to a call that no server is asked about. It is counted like any other.
    fn refuse(&self, call: &Call, fault: Fault) -> Reply {
        self.0.metrics.refuse(call, &fault);
        Reply::fault(fault)
    }
}

fn complete(body: JsonObject) -> Outcome {
    Outcome::Complete(CompletedResult { body, era: Era::Modern, server: None })
}

impl Answer for Hub {
    fn answer(&self, call: Call) -> Reply {
        // The authority is read once per call; lists and routes are decided by it.
        let access = self.access(&call.caller).asked_by(&call);
        if let Some(list) = ListKind::of(&call.method) {
            return self
                .reply_when_settled(call, move |hub, snapshot, call| hub.list_page(list, snapshot, call, &access));
        }
        if matches!(call.method, Method::Other(_)) && skill::is_skill_method(&call.method) {
            return skill::answer(self, call, access);
        }
        match call.method {
            Method::Discover => {
                self.reply_when_settled(call, move |hub, snapshot, _| hub.discover_result(snapshot, &access))
            }
            // A subscription may name addresses of several servers.
            Method::Listen => watch::listen(self, call),
            Method::RootsChanged if call.meta.client.capabilities.announces_roots() => {
                roots::changed(&self.snapshot().servers, &call)
            }
            _ => self.forward(call, access),
        }
    }
}

impl ToolHeaders for Hub {
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        self.0.feed.snapshot.load().tools.get(tool)?.header_params.clone()
    }
}

impl Backend for Hub {
    fn all(&self) -> Endpoint {
        Endpoint { answer: Arc::new(self.clone()), tools: Arc::new(self.clone()) }
    }

    fn server(&self, name: &str) -> Option<Endpoint> {
        let server: Server = self.0.manager.server(name)?;
        let one = Arc::new(single_server::SingleServer::new(self.clone(), server));
        Some(Endpoint { answer: one.clone(), tools: one })
    }

    fn guard(&self) -> Option<Arc<AccessGuard>> {
        Some(self.0.guard.clone())
    }

    fn directory(&self) -> Option<&dyn ToolDirectory> {
        Some(self)
    }

    fn control(&self) -> Option<&dyn ServerControl> {
        Some(self)
    }

    fn observe(&self) -> Option<&dyn ServerObserver> {
        Some(self)
    }

    fn settings(&self, server: &str) -> Option<Value> {
        self.config().settings.get(server).cloned()
    }

    fn pins(&self) -> Option<&PinStore> {
        self.0.manager.options().pins.as_deref()
    }

    fn pins_changed(&self, server: &str) {
        if let Some(server) = self.0.manager.server(server) {
            server.refresh();
        }
    }

    fn metrics(&self) -> Arc<GatewayMetrics> {
        self.0.metrics.clone()
    }
}
