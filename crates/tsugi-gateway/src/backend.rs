//! What the faces call: one answer for everything, one per server, and what is known of the tools.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::Serialize;
use serde_json::Value;
use tsugi_pins::PinStore;
use tsugi_protocol::answer::{Answer, Caller, Fault};
use tsugi_protocol::json::RawJson;
use tsugi_schema::header_param::HeaderParams;

use crate::dashboard::observe::ServerObserver;
use crate::guard::AccessGuard;
use crate::telemetry::GatewayMetrics;

/// Where calls of one address go.
#[derive(Clone)]
pub struct Endpoint {
    pub answer: Arc<dyn Answer>,
    /// What is known of its tools.
    pub tools: Arc<dyn ToolHeaders>,
}

impl Endpoint {
    /// An endpoint whose tools mirror nothing into headers.
    pub fn plain(answer: Arc<dyn Answer>) -> Self {
        Self { answer, tools: Arc::new(NoTools) }
    }
}

/// What faces must know of tools before they call them.
pub trait ToolHeaders: Send + Sync {
    /// The arguments of `tool` that clients mirror into headers; `None` when there are none or the tool is unknown.
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>>;
}

struct NoTools;

impl ToolHeaders for NoTools {
    fn header_params(&self, _tool: &str) -> Option<Arc<HeaderParams>> {
        None
    }
}

/// Waits for these calls, at most `limit` at once; the results come in the order of the calls.
pub(crate) async fn in_order<F: Future>(calls: Vec<F>, limit: usize) -> Vec<F::Output> {
    // Not `buffered` of futures: there a slow first call keeps later ones from starting.
    tsugi_client::batch::in_order(calls, limit, |call| call).await
}

/// The error of a resource that no server has, in the words of the client library.
pub(crate) fn no_such_resource(uri: &str) -> Fault {
    tsugi_client::not_found::resource(uri)
}

/// Everything the faces offer.
pub trait Backend: Send + Sync {
    fn all(&self) -> Endpoint;

    /// One server with its own names; `None` when there is no such server.
    fn server(&self, name: &str) -> Option<Endpoint>;

    /// The guard that it asks what callers may use; `None` when it asks none. A gateway stands behind the same one, so
    /// a backend that wraps another one passes on its guard.
    fn guard(&self) -> Option<Arc<AccessGuard>>;

    /// The tools as REST shows them; `None` when there are none.
    fn directory(&self) -> Option<&dyn ToolDirectory> {
        None
    }

    /// The servers to be controlled; `None` when there are none.
    fn control(&self) -> Option<&dyn ServerControl> {
        None
    }

    /// The servers to be looked at; `None` when there are none.
    fn observe(&self) -> Option<&dyn ServerObserver> {
        None
    }

    /// The settings of a server as they were resolved, secrets hidden; `None` when there are none to show.
    fn settings(&self, _server: &str) -> Option<Value> {
        None
    }

    /// What servers are held to; `None` when nothing is pinned.
    fn pins(&self) -> Option<&PinStore> {
        None
    }

    /// The pins of a server changed: its lists are to be judged again.
    fn pins_changed(&self, _server: &str) {}

    /// What happens on the board of the project-management server as far as this looker may see it, from now on:
    /// one object per change. `None` when there is no such server. Costs nothing until it is read.
    // Only a gateway with the built-in project management has a board.
    fn board_changes(&self, _looker: BoardViewer<'_>) -> Option<BoxStream<'static, Value>> {
        None
    }

    /// What stands on that board as far as this looker may see it: asked in the words of one of the server's reading
    /// tools, or of a view that only people have. `None` when there is no such server or nothing of that name.
    fn board(
        &self,
        _looker: BoardViewer<'_>,
        _look: &str,
        _arguments: Value,
    ) -> Option<BoxFuture<'static, Result<Value, Value>>> {
        None
    }

    /// Changes something on that board that no tool of the server changes. `None` when there is no such server or no
    /// such order; whether this caller may is the server's to say.
    fn board_order(
        &self,
        _caller: &Caller,
        _order: &str,
        _arguments: Value,
    ) -> Option<BoxFuture<'static, Result<Value, Value>>> {
        None
    }

    /// Where calls are counted, so that requests are counted beside them.
    // The hub counts calls in its own, and requests must be counted beside them.
    fn metrics(&self) -> Arc<GatewayMetrics> {
        Arc::default()
    }
}

/// The viewer of a board.
#[derive(Debug, Clone, Copy)]
pub enum BoardViewer<'a> {
    /// A caller, who may have a role on it or not.
    Caller(&'a Caller),
    /// A viewer that may see everything and change nothing.
    ReadOnly,
}

/// One tool as REST shows it.
#[derive(Debug, Clone)]
pub struct ToolInfo {
    pub server: String,
    /// The name it is shown under, without the server's.
    pub name: String,
    /// The name that its server has for it, by which permits and scopes are decided.
    pub own: String,
    pub description: Option<String>,
    pub input_schema: Option<RawJson>,
    pub output_schema: Option<RawJson>,
    /// What the server claims about it.
    pub annotations: Option<RawJson>,
    /// How long a call may be silent, in milliseconds.
    pub timeout: u64,
}

/// A tool that was found by server and name.
pub struct FoundTool {
    pub answer: Arc<dyn Answer>,
    /// The name by which it is to be called there.
    pub name: String,
}

/// The tools of all servers, by server and name.
pub trait ToolDirectory: Send + Sync {
    /// Every tool that this caller may use, in order.
    fn tools<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<ToolInfo>>;

    /// The tool with this name. `server` may be left out when only one has it.
    fn find<'a>(
        &'a self,
        caller: &'a Caller,
        server: Option<&'a str>,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<FoundTool, Fault>>;
}

/// What an operator may do to servers.
pub trait ServerControl: Send + Sync {
    /// Every server and how it stands.
    fn servers(&self) -> Vec<Value>;

    /// Adds a server; gives how it stands, and where that was written down.
    fn add(&self, definition: Value) -> BoxFuture<'_, Result<(Value, PersistResult), Fault>>;

    /// Takes a server out; gives where that was written down.
    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PersistResult, Fault>>;

    /// Starts, stops or restarts a server; gives how it stands.
    fn order<'a>(&'a self, name: &'a str, order: ServerCommand) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Whether servers may be added, removed and ordered at all, or only looked at.
    fn allows_changes(&self) -> bool {
        true
    }

    /// Whether a server that is added may name a program to run.
    // Off unless the configuration says otherwise: a command over HTTP runs on this machine.
    fn allows_commands(&self) -> bool {
        false
    }

    /// The last lines that a server wrote to its standard error.
    fn log(&self, name: &str, lines: usize) -> Result<Vec<String>, Fault>;
}

/// The file that a change of the servers was saved to, so that it outlives the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistResult {
    /// The file that has it from now on.
    pub file: Option<String>,
    /// Why it was not saved: it holds until the gateway stops.
    pub why_not: Option<String>,
}

/// A command to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCommand {
    /// Connect.
    Start,
    /// Disconnect, and stay so: calls do not start it.
    Stop,
    /// Disconnect and connect again.
    Restart,
}

impl ServerCommand {
    pub const fn as_str(self) -> &'static str {
        match self {
            ServerCommand::Start => "start",
            ServerCommand::Stop => "stop",
            ServerCommand::Restart => "restart",
        }
    }
}

/// A backend of a single answer and no servers: an in-process server offered by itself.
pub struct SingleBackend(Endpoint);

impl SingleBackend {
    /// Offers this answer alone.
    pub fn new(answer: Arc<dyn Answer>) -> Self {
        Self(Endpoint::plain(answer))
    }

    /// Offers this endpoint alone.
    pub fn of(endpoint: Endpoint) -> Self {
        Self(endpoint)
    }
}

impl Backend for SingleBackend {
    fn all(&self) -> Endpoint {
        self.0.clone()
    }

    // There are no servers with names behind a single answer.
    fn server(&self, _name: &str) -> Option<Endpoint> {
        None
    }

    fn guard(&self) -> Option<Arc<AccessGuard>> {
        None
    }
}
