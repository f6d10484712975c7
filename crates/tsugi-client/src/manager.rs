//! The manager: registers, finds and removes servers while calls run.

mod content;
mod reconcile;
mod roster;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::meta::RequestMeta;

use crate::batch;
use crate::catalog::Catalog;
use crate::config::{ManagerOptions, ServerConfig};
use crate::dialect::DialectCache;
use crate::not_found;
use crate::result::ToolResult;
use crate::serena::{self, Serena};
use crate::server::{ManagerShared, Server, ServerChange, ServerEvent};
pub use content::ResourceReadResult;
pub use reconcile::{PreparedServers, ReconcileStep};
use roster::ServerRoster;

/// How many changes a slow listener may be behind before it misses some.
const CHANGES: usize = 1024;

/// For so long a new server may still turn out to have a tool of the same name as another's.
const FIRST_MOMENTS: Duration = Duration::from_secs(5);

/// How many server names a not-found error lists.
const NAMED: usize = 20;

/// Holds servers. Cheap to clone; all servers stop when the last clone is dropped.
#[derive(Clone)]
pub struct Manager(Arc<ManagerState>);

struct ManagerState {
    shared: Arc<ManagerShared>,
    dialect_cache: DialectCache,
    servers: RwLock<ServerRoster>,
    changes: broadcast::Sender<ServerChange>,
    /// Servers that were removed or replaced, and are still being stopped.
    leaving: TaskTracker,
}

struct RegisteredServer {
    server: Server,
    task: AbortHandle,
}

impl Drop for RegisteredServer {
    fn drop(&mut self) {
        // The task first: it must not connect again while the server is being dropped.
        self.task.abort();
        self.server.let_go();
    }
}

/// One call of a batch.
#[derive(Debug, Clone)]
pub struct ToolExecution {
    /// Which server; may be left out when only one has the tool.
    pub server: Option<String>,
    pub tool: String,
    pub arguments: Option<RawJson>,
}

impl Manager {
    /// Without servers. Must be called within a tokio runtime.
    pub fn new(options: ManagerOptions) -> Self {
        let changes = broadcast::channel(CHANGES).0;
        let common = Arc::new(ManagerShared::new(options));
        let (servers, leaving) = (RwLock::default(), TaskTracker::new());
        Self(Arc::new(ManagerState {
            shared: common,
            dialect_cache: DialectCache::default(),
            servers,
            changes,
            leaving,
        }))
    }

    /// Servers that are registered from now on do not start before [`let_start`](Self::let_start). A gateway opens its
    /// sockets first, instead of sharing the machine with twenty programs that start.
    pub fn hold_back(&self) {
        self.0.shared.may_start.send_replace(false);
    }

    /// Starts what was held back.
    pub fn let_start(&self) {
        self.0.shared.may_start.send_replace(true);
    }

    /// The settings for all servers.
    pub fn options(&self) -> &Arc<ManagerOptions> {
        &self.0.shared.options
    }

    /// Adds a server and starts connecting it in the background, unless it starts lazily.
    /// Fails when the name is taken.
    pub fn register(&self, config: ServerConfig) -> Result<Server, Fault> {
        let mut servers = self.0.servers.write();
        if servers.get(&config.name).is_some() {
            let message = format!("there is a server named {:?} already", config.name);
            let fault = Fault::new(FaultCode::ServerExists, message).on_server(&config.name);
            return Err(fault.with_hint("choose another name, or remove that server first"));
        }
        let held = self.spawn_server(config, None);
        let server = held.server.clone();
        servers.push(held);
        // Subscribers may look at the list of servers, so the lock is released first.
        drop(servers);
        self.announce(&server, ServerEvent::Registered);
        Ok(server)
    }

    fn spawn_server(&self, config: ServerConfig, before: Option<&Server>) -> RegisteredServer {
        let changes = Some(self.0.changes.clone());
        let (server, task) = Server::spawn(config, &self.0.shared, changes, before);
        RegisteredServer { server, task }
    }

    fn announce(&self, server: &Server, what: ServerEvent) {
        let _ = self.0.changes.send(ServerChange { server: server.name().into(), what });
    }

    /// Takes a server out and stops it; calls in flight may end first. `false` when there is none.
    pub async fn remove(&self, name: &str) -> bool {
        // Removed before it is stopped, so that no new call finds it.
        let removed = self.0.servers.write().remove(name);
        let Some(held) = removed else { return false };
        self.0.leaving.track_future(held.server.stop()).await;
        self.announce(&held.server, ServerEvent::Removed);
        true
    }

    /// The server with this name.
    pub fn server(&self, name: &str) -> Option<Server> {
        self.0.servers.read().get(name).map(|held| held.server.clone())
    }

    /// Every server, in the order they were registered.
    pub fn servers(&self) -> Vec<Server> {
        self.0.servers.read().iter().map(|held| held.server.clone()).collect()
    }

    /// Subscribes to changes of all servers.
    pub fn changes(&self) -> broadcast::Receiver<ServerChange> {
        self.0.changes.subscribe()
    }

    /// Waits until every server has connected or failed to, and returns the failures by name.
    pub async fn settled(&self, limit: Duration) -> HashMap<String, Fault> {
        let waiting = self.servers().into_iter().map(|server| async move {
            let settled = server.settled(limit).await;
            settled.err().map(|fault| (server.name().to_owned(), fault))
        });
        futures_util::future::join_all(waiting).await.into_iter().flatten().collect()
    }

    /// The server that has this tool. `server` narrows it down: if that server's list is known and lacks the tool, it is
    /// not asked.
    ///
    /// Without `server`, a server whose list is not known yet is waited for: as long as it may start when no other has
    /// such a tool, and otherwise only for the first moments of its life, to learn whether the name is unique.
    pub async fn find_tool(&self, server: Option<&str>, tool: &str) -> Result<Server, Fault> {
        if let Some(name) = server {
            let server = self.server(name).ok_or_else(|| self.no_server(name))?;
            return match server.has_tool(tool) {
                Some(false) => Err(not_found::tool(tool).on_server(name)),
                Some(true) | None => Ok(server),
            };
        }
        let mut found = self.find_with(|catalog| catalog.tool(tool).is_some()).await;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(not_found::tool(tool)),
            _ => Err(not_found::ambiguous_tool(tool, &found.iter().map(Server::name).collect::<Vec<_>>())),
        }
    }

    fn no_server(&self, name: &str) -> Fault {
        let servers = self.servers();
        let names: Vec<&str> = servers.iter().map(Server::name).take(NAMED).collect();
        let more = if servers.len() > NAMED { ", …" } else { "" };
        let hint = match names.is_empty() {
            true => "no server is registered: register one first".to_owned(),
            false => format!("name one of the servers there are: {}{more}", names.join(", ")),
        };
        not_found::server(name).with_hint(hint)
    }

    /// The servers whose catalog has something, as soon as no server that still starts should be waited for.
    async fn find_with(&self, has: impl Fn(&Catalog) -> bool) -> Vec<Server> {
        let known = || -> Vec<Server> {
            let servers = self.servers().into_iter();
            servers.filter(|server| server.catalog().is_some_and(|catalog| has(&catalog))).collect()
        };
        let limit = self.0.shared.options.handshake_timeout;
        let mut starting: FuturesUnordered<_> = self.unlisted_servers().map(|server| settled(server, limit)).collect();
        loop {
            let found = known();
            let patience = match found.is_empty() {
                true => limit,
                false => self.unlisted_servers().map(|server| server.newness(FIRST_MOMENTS)).max().unwrap_or_default(),
            };
            // Zero ends the search without polling those that start: they are not woken for nothing.
            if patience.is_zero() || !matches!(timeout(patience, starting.next()).await, Ok(Some(()))) {
                return known();
            }
        }
    }

    /// The servers whose lists are not known.
    fn unlisted_servers(&self) -> impl Iterator<Item = Server> {
        self.servers().into_iter().filter(|server| server.catalog().is_none())
    }

    /// Calls a tool. `server` may be left out when only one has it.
    pub fn call_tool(&self, server: Option<&str>, tool: &str, arguments: Option<&RawJson>) -> Reply {
        let call = match self.own_call(tool, arguments) {
            Ok(call) => call,
            Err(fault) => return Reply::fault(fault),
        };
        let (manager, tool, server) = (self.clone(), tool.to_owned(), server.map(str::to_owned));
        Reply::from_pending_reply(async move {
            match manager.find_tool(server.as_deref(), &tool).await {
                Ok(server) => server.answer(call),
                Err(fault) => Reply::fault(fault),
            }
        })
    }

    /// Calls a tool and gives its result as an agent wants it. Arguments are whatever is written as an object of
    /// JSON, or as `null` for none. With others no tool is called, and the result says `INVALID_PARAMS`.
    pub async fn execute<T: Serialize + ?Sized>(&self, tool: &str, arguments: &T) -> ToolResult {
        match serialize_arguments(arguments) {
            Ok(arguments) => self.run(ToolExecution { server: None, tool: tool.to_owned(), arguments }).await,
            Err(problem) => ToolResult::failure(tool, invalid_arguments(tool, &problem), Duration::ZERO),
        }
    }

    /// Runs one call of a batch.
    pub async fn run(&self, execution: ToolExecution) -> ToolResult {
        let started = Instant::now();
        let ToolExecution { server, tool, arguments } = execution;
        let found = match self.own_call(&tool, arguments.as_ref()) {
            Ok(call) => self.find_tool(server.as_deref(), &tool).await.map(|server| (server, call)),
            Err(fault) => Err(fault),
        };
        match found {
            Ok((server, call)) => {
                let outcome = server.answer(call).outcome().await;
                ToolResult::new(&tool, Some(server.name()), outcome, started.elapsed())
            }
            Err(fault) => ToolResult::failure(&tool, fault, started.elapsed()),
        }
    }

    /// A call of this client. Arguments must be an object.
    fn own_call(&self, tool: &str, arguments: Option<&RawJson>) -> Result<Call, Fault> {
        if arguments.is_some_and(|arguments| !arguments.is_object()) {
            return Err(invalid_arguments(tool, "they are not an object"));
        }
        let mut call = Call::tool(tool, arguments);
        // Without this the server would not know what it may ask us for.
        call.meta = RequestMeta::of_client(self.0.shared.options.profile.clone());
        Ok(call)
    }

    /// Asks `check` before every call of a tool; it gives the reason when the call must not be made, and the
    /// caller gets `CANNOT_EXECUTE`. A check stays when the server is replaced.
    pub fn set_check<F>(&self, server: &str, tool: &str, check: impl Fn(Value) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.0.shared.options.checks.set(server, tool, check);
    }

    /// Asks no more before calls of a tool.
    pub fn remove_check(&self, server: &str, tool: &str) {
        self.0.shared.options.checks.remove(server, tool);
    }

    /// The Serena among the servers, once it is connected; `None` when there is none.
    pub async fn serena(&self) -> Option<Result<Serena, Fault>> {
        let is_serena = |server: &Server| server.catalog().is_some_and(|catalog| serena::is_serena(&catalog));
        if !self.servers().iter().any(is_serena) {
            self.settled(self.0.shared.options.handshake_timeout).await;
        }
        let server = self.servers().into_iter().find(is_serena)?;
        Some(Serena::over(server).await)
    }

    pub(crate) fn dialect_cache(&self) -> &DialectCache {
        &self.0.dialect_cache
    }

    /// Runs many calls, at most `max_parallel` at a time. Results keep the order of the calls, and a call
    /// that fails does not fail the others.
    pub async fn execute_parallel(&self, executions: Vec<ToolExecution>) -> Vec<ToolResult> {
        batch::in_order(executions, self.0.shared.options.max_parallel, |execution| self.run(execution)).await
    }

    /// Every tool of every server whose list is known, by name; the first server wins a name.
    pub fn tool_map(&self) -> Vec<(String, Server)> {
        let (mut map, mut names) = (Vec::new(), HashSet::new());
        for server in self.servers() {
            // In the background: this call returns the list that is known now.
            server.freshen();
            let Some(catalog) = server.catalog() else { continue };
            for tool in &catalog.tools.items {
                if names.insert(tool.name().to_owned()) {
                    map.push((tool.name().to_owned(), server.clone()));
                }
            }
        }
        map
    }

    /// Stops all servers at once, and waits for those that were removed or replaced earlier too. No process is left
    /// when this returns.
    pub async fn stop(&self) {
        // Taken out before they are stopped, so that no call starts one of them again.
        let held = self.0.servers.write().take();
        // The end of the whole program is not news of each server.
        self.0.shared.is_shutting_down.store(true, Ordering::Relaxed);
        futures_util::future::join_all(held.iter().map(|held| held.server.stop())).await;
        self.0.shared.is_shutting_down.store(false, Ordering::Relaxed);
        self.0.leaving.close();
        self.0.leaving.wait().await;
        // The manager can be used again after a stop.
        self.0.leaving.reopen();
    }
}

/// Arguments as JSON; nothing for `null`.
fn serialize_arguments<T: Serialize + ?Sized>(arguments: &T) -> Result<Option<RawJson>, String> {
    let bytes = serde_json::to_vec(arguments).map_err(|error| error.to_string())?;
    let raw = RawJson::parse(bytes.into()).map_err(|error| error.to_string())?;
    Ok(Some(raw).filter(|raw| !raw.is_null()))
}

fn invalid_arguments(tool: &str, problem: &str) -> Fault {
    let message = format!("the arguments for {tool:?} cannot be sent: {problem}");
    Fault::new(FaultCode::InvalidParams, message)
        .on_tool(tool)
        .with_hint("give an object with a name for each argument")
}

async fn settled(server: Server, limit: Duration) {
    // The server's status says why it failed.
    let _ = server.settled(limit).await;
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.servers().iter().map(|server| server.name().to_owned()).collect();
        f.debug_tuple("Manager").field(&names).finish()
    }
}
