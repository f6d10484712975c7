//! Our living relation to one server: a wire, an agreed revision, and the calls in flight on it.
//!
//! Legacy MCP exists here and in the legacy faces, nowhere between. A connection takes modern calls,
//! speaks whatever its server speaks, and gives modern outcomes back.

pub mod backoff;
pub(crate) mod batch;
pub(crate) mod context;
pub(crate) mod exchange;
pub(crate) mod gathering;
pub(crate) mod handshake;
pub(crate) mod in_process;
pub(crate) mod memory;
pub(crate) mod mux;
pub(crate) mod notice;
pub(crate) mod parked;
pub(crate) mod question;
pub(crate) mod reading;
pub mod state;
pub(crate) mod turnstile;

use std::sync::Arc;

use tsugi_process::Job;
use tsugi_protocol::answer::{Answer, Call, Fault, Reply};
use tsugi_protocol::codec::framing::Kind;
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::Notification;

use exchange::Exchange;
use in_process::InProcess;
use memory::Known;
use mux::Mux;

/// A connection that has finished its handshake.
#[derive(Clone)]
pub(crate) enum Connection {
    /// Over a shared stream: stdio, WebSocket, HTTP+SSE.
    Mux(Arc<Mux>),
    /// Over HTTP, an exchange per call.
    Exchange(Arc<Exchange>),
    /// With a server in this process.
    InProcess(Arc<InProcess>),
}

impl Connection {
    /// Who answers.
    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        match self {
            Connection::Mux(mux) => mux.identity(),
            Connection::Exchange(exchange) => exchange.identity(),
            Connection::InProcess(server) => server.identity(),
        }
    }

    /// The server's process, when we started one.
    pub(crate) fn job(&self) -> Option<&Job> {
        match self {
            Connection::Mux(mux) => mux.job(),
            _ => None,
        }
    }

    /// What was found out about the server, for the next time.
    pub(crate) fn known(&self) -> Known {
        let framing = match self {
            Connection::Mux(mux) => mux.framing(),
            Connection::Exchange(..) | Connection::InProcess(..) => Kind::Line,
        };
        Known { era: self.identity().version.era(), framing }
    }

    /// Waits until the connection is gone and says why.
    pub(crate) async fn lost(&self) -> Arc<Fault> {
        match self {
            Connection::Mux(mux) => mux.lost().await,
            Connection::Exchange(exchange) => exchange.lost().await,
            Connection::InProcess(..) => std::future::pending().await,
        }
    }

    /// True when no call should be made on it any more: it is about to end, or has.
    pub(crate) fn is_ending(&self) -> bool {
        match self {
            Connection::Mux(mux) => mux.is_ending(),
            Connection::Exchange(exchange) => exchange.is_ending(),
            Connection::InProcess(..) => false,
        }
    }

    /// Tells a legacy server that its client's roots have changed. The modern era has no word for it.
    pub(crate) fn roots_changed(&self) {
        if self.identity().version.era() == Era::Modern {
            return;
        }
        let notification = Notification::new(Method::RootsChanged, None);
        match self {
            Connection::Mux(mux) => mux.notify(&notification),
            Connection::Exchange(exchange) => exchange.notify(&notification),
            Connection::InProcess(..) => {}
        }
    }

    /// How many calls are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        match self {
            Connection::Mux(mux) => mux.in_flight(),
            Connection::Exchange(exchange) => exchange.in_flight(),
            Connection::InProcess(..) => 0,
        }
    }

    /// Ends the connection: the wire is closed and the process stopped, with everything it started.
    pub(crate) async fn close(&self) {
        match self {
            Connection::Mux(mux) => mux.close().await,
            Connection::Exchange(exchange) => exchange.close().await,
            Connection::InProcess(..) => {}
        }
    }
}

impl Answer for Connection {
    fn answer(&self, call: Call) -> Reply {
        match self {
            Connection::Mux(mux) => mux.answer(call),
            Connection::Exchange(exchange) => exchange.answer(call),
            Connection::InProcess(server) => server.answer(call),
        }
    }
}
