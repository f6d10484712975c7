//! One server of each kind, with what it saw.

use std::any::Any;
use std::sync::atomic::Ordering;

use tsugi_client::{ConnectTarget, Manager, ManagerOptions, Server};
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::journal::Journal;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::{HttpServer, Scripted};
use tsugi_transport::http::HttpTarget;

use super::in_process;
use super::web_socket::WebSocketServer;
use crate::outcome::end_of;
use crate::world::{LIMIT, Peer, config, http, options};

/// A connected server.
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) era: Era,
    pub(super) manager: Manager,
    pub(super) server: Server,
    cancelled: Box<dyn Fn() -> usize>,
    journal: Option<Journal>,
    _peer: Box<dyn Any>,
}

/// How a server is reached, how often its calls were given up, what it saw, and what keeps it alive.
type Found = (ConnectTarget, Box<dyn Fn() -> usize>, Option<Journal>, Box<dyn Any>);

/// Every kind of server, with the era it speaks.
const KINDS: [(&str, Era); 9] = [
    ("legacy stdio", Era::Legacy),
    ("legacy streamable HTTP", Era::Legacy),
    ("legacy HTTP+SSE", Era::Legacy),
    ("legacy HTTP+SSE, found out", Era::Legacy),
    ("legacy WebSocket", Era::Legacy),
    ("modern stdio", Era::Modern),
    ("modern HTTP", Era::Modern),
    ("modern WebSocket", Era::Modern),
    ("in-process", Era::Modern),
];

impl Cell {
    /// Every cell of the table, connected.
    pub(super) async fn all() -> Vec<Cell> {
        let mut cells = Vec::new();
        for (name, era) in KINDS {
            cells.push(Cell::new(name, era, options()).await);
        }
        cells
    }

    /// Those whose servers ask in mid-call.
    pub(super) async fn legacy(options: &ManagerOptions) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (name, era) in KINDS.into_iter().filter(|(_, era)| *era == Era::Legacy) {
            cells.push(Cell::new(name, era, options.clone()).await);
        }
        cells
    }

    async fn new(name: &'static str, era: Era, options: ManagerOptions) -> Cell {
        let (target, cancelled, journal, _peer) = found(name, era).await;
        let manager = Manager::new(options);
        let server = manager.register(config("tested", target)).unwrap();
        server.ready(LIMIT).await.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(server.status().version.unwrap().era(), era, "{name}");
        Cell { name, era, manager, server, cancelled, journal, _peer }
    }

    /// Makes a call to its end.
    pub(super) async fn outcome(&self, call: Call) -> Outcome {
        end_of(self.server.answer(call), LIMIT).await.unwrap_or_else(|| panic!("{}: the call hangs", self.name))
    }

    /// How many calls the server was told to give up.
    pub(super) fn cancelled(&self) -> usize {
        (self.cancelled)()
    }

    /// The answers to its questions that the server got.
    pub(super) fn told(&self) -> Vec<serde_json::Value> {
        self.journal.as_ref().map(|journal| journal.of("told")).unwrap_or_default()
    }

    /// Nothing is in flight or parked any more; stops.
    pub(super) async fn finish(self) {
        let is_quiet = || self.server.status().in_flight == 0 && self.server.status().parked == 0;
        assert!(tsugi_testkit::wait::until(is_quiet).await, "{}: {:?}", self.name, self.server.status());
        self.manager.stop().await;
    }
}

async fn found(name: &str, era: Era) -> Found {
    let script = if era == Era::Legacy { Script::legacy() } else { Script::modern() };
    if name.contains("stdio") {
        let server = Scripted::new(script);
        return (server.target(), given_up(server.journal()), Some(server.journal()), Box::new(server));
    }
    if name.contains("WebSocket") {
        let server = WebSocketServer::start(script).await;
        return (http(server.url()), given_up(server.journal()), Some(server.journal()), Box::new(server));
    }
    if name.contains("HTTP") {
        return over_http(name, HttpServer::start(&script));
    }
    let (server, cancelled) = in_process::server();
    (ConnectTarget::InProcess(server), Box::new(move || cancelled.load(Ordering::Acquire)), None, Box::new(()))
}

fn over_http(name: &str, server: HttpServer) -> Found {
    let at = |url: String| HttpTarget::new(url.parse().unwrap(), Default::default());
    let target = match name {
        "legacy HTTP+SSE" => ConnectTarget::Sse(at(server.sse_url())),
        "legacy HTTP+SSE, found out" => ConnectTarget::Http(at(server.sse_url())),
        _ => server.target(),
    };
    (target, given_up(server.journal()), Some(server.journal()), Box::new(server))
}

/// A call is given up by a notification, or by closing its stream.
fn given_up(journal: Journal) -> Box<dyn Fn() -> usize> {
    Box::new(move || journal.cancelled().len().max(journal.of("gone").len()))
}
