//! Our living relation to one server: a wire, an agreed revision, and the calls in flight on it.
//!
//! Legacy MCP exists here and in the legacy faces, nowhere between. A connection takes modern calls,
//! speaks whatever its server speaks, and gives modern outcomes back.

pub mod backoff;
pub(crate) mod batch;
pub(crate) mod context;
pub(crate) mod era_cache;
pub(crate) mod handshake;
pub(crate) mod http;
pub(crate) mod in_process;
pub(crate) mod notice;
pub(crate) mod parked;
pub(crate) mod parse_response;
pub(crate) mod question;
pub(crate) mod question_batch;
pub mod state;
pub(crate) mod stream;
pub(crate) mod turnstile;

use std::sync::Arc;

use tsugi_process::SupervisedJob;
use tsugi_protocol::answer::{Answer, Call, Fault, Reply};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::RpcNotification;

use era_cache::KnownEra;
use http::HttpConnection;
use in_process::InProcessConnection;
use stream::StreamConnection;

/// A connection that has finished its handshake.
#[derive(Clone)]
pub(crate) enum ServerConnection {
    /// Over a shared stream: stdio, WebSocket, HTTP+SSE.
    Mux(Arc<StreamConnection>),
    /// Over HTTP, an exchange per call.
    Exchange(Arc<HttpConnection>),
    /// With a server in this process.
    InProcess(Arc<InProcessConnection>),
}

impl ServerConnection {
    /// Who answers.
    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        match self {
            ServerConnection::Mux(mux) => mux.identity(),
            ServerConnection::Exchange(exchange) => exchange.identity(),
            ServerConnection::InProcess(server) => server.identity(),
        }
    }

    /// The server's process, when we started one.
    pub(crate) fn job(&self) -> Option<&SupervisedJob> {
        match self {
            ServerConnection::Mux(mux) => mux.job(),
            _ => None,
        }
    }

    /// What was found out about the server, for the next time.
    pub(crate) fn known(&self) -> KnownEra {
        let framing = match self {
            ServerConnection::Mux(mux) => mux.framing(),
            ServerConnection::Exchange(..) | ServerConnection::InProcess(..) => FramingKind::Line,
        };
        KnownEra { era: self.identity().version.era(), framing }
    }

    /// Waits until the connection is gone and says why.
    pub(crate) async fn lost(&self) -> Arc<Fault> {
        match self {
            ServerConnection::Mux(mux) => mux.lost().await,
            ServerConnection::Exchange(exchange) => exchange.lost().await,
            ServerConnection::InProcess(..) => std::future::pending().await,
        }
    }

    /// True when no call should be made on it any more: it is about to end, or has.
    pub(crate) fn is_ending(&self) -> bool {
        match self {
            ServerConnection::Mux(mux) => mux.is_ending(),
            ServerConnection::Exchange(exchange) => exchange.is_ending(),
            ServerConnection::InProcess(..) => false,
        }
    }

    /// Tells a legacy server that its client's roots have changed. The modern era has no word for it.
    pub(crate) fn roots_changed(&self) {
        if self.identity().version.era() == Era::Modern {
            return;
        }
        let notification = RpcNotification::new(Method::RootsChanged, None);
        match self {
            ServerConnection::Mux(mux) => mux.notify(&notification),
            ServerConnection::Exchange(exchange) => exchange.notify(&notification),
            ServerConnection::InProcess(..) => {}
        }
    }

    /// How many calls are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        match self {
            ServerConnection::Mux(mux) => mux.in_flight(),
            ServerConnection::Exchange(exchange) => exchange.in_flight(),
            ServerConnection::InProcess(..) => 0,
        }
    }

    /// Ends the connection: the wire is closed and the process stopped, with everything it started.
    pub(crate) async fn close(&self) {
        match self {
            ServerConnection::Mux(mux) => mux.close().await,
            ServerConnection::Exchange(exchange) => exchange.close().await,
            ServerConnection::InProcess(..) => {}
        }
    }
}

impl Answer for ServerConnection {
    fn answer(&self, call: Call) -> Reply {
        match self {
            ServerConnection::Mux(mux) => mux.answer(call),
            ServerConnection::Exchange(exchange) => exchange.answer(call),
            ServerConnection::InProcess(server) => server.answer(call),
        }
    }
}
