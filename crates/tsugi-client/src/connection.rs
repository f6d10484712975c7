//! A connection to one server: a wire, an agreed revision, and the calls in flight on it.
//!
//! Legacy MCP exists here and in the legacy faces, nowhere between. A connection takes modern calls, speaks the revision
//! of its server, and returns modern outcomes. Stream and HTTP wires share the table of calls in flight ([`in_flight`]),
//! the reply ([`reply`]), the router of questions ([`question_router`]) and the parser ([`parse_response`]).

pub(crate) mod batch;
pub(crate) mod context;
pub(crate) mod era_cache;
pub(crate) mod handshake;
pub(crate) mod http;
pub(crate) mod in_flight;
pub(crate) mod in_process;
pub(crate) mod notice;
pub(crate) mod parked;
pub(crate) mod parse_response;
pub(crate) mod question_batch;
pub(crate) mod question_ledger;
pub(crate) mod question_owner;
pub(crate) mod question_router;
pub(crate) mod reply;
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
    Stream(Arc<StreamConnection>),
    /// Over HTTP, an exchange per call.
    Http(Arc<HttpConnection>),
    /// With a server in this process.
    InProcess(Arc<InProcessConnection>),
}

impl ServerConnection {
    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        match self {
            ServerConnection::Stream(stream) => stream.identity(),
            ServerConnection::Http(http) => http.identity(),
            ServerConnection::InProcess(server) => server.identity(),
        }
    }

    /// The server's process, if we started one.
    pub(crate) fn job(&self) -> Option<&SupervisedJob> {
        match self {
            ServerConnection::Stream(stream) => stream.job(),
            _ => None,
        }
    }

    /// What the handshake found out, for the next start.
    pub(crate) fn known(&self) -> KnownEra {
        let framing = match self {
            ServerConnection::Stream(stream) => stream.framing(),
            ServerConnection::Http(..) | ServerConnection::InProcess(..) => FramingKind::Line,
        };
        KnownEra { era: self.identity().version.era(), framing }
    }

    /// Waits until the connection is gone and returns the reason.
    pub(crate) async fn lost(&self) -> Arc<Fault> {
        match self {
            ServerConnection::Stream(stream) => stream.lost().await,
            ServerConnection::Http(http) => http.lost().await,
            ServerConnection::InProcess(..) => std::future::pending().await,
        }
    }

    /// True when no call should be made on it any more: it is about to end, or has.
    pub(crate) fn is_ending(&self) -> bool {
        match self {
            ServerConnection::Stream(stream) => stream.is_ending(),
            ServerConnection::Http(http) => http.is_ending(),
            ServerConnection::InProcess(..) => false,
        }
    }

    /// Notifies a legacy server that its client's roots have changed. The modern era has no such notification.
    pub(crate) fn roots_changed(&self) {
        if self.identity().version.era() == Era::Modern {
            return;
        }
        let notification = RpcNotification::new(Method::RootsChanged, None);
        match self {
            ServerConnection::Stream(stream) => stream.notify(&notification),
            ServerConnection::Http(http) => http.notify(&notification),
            ServerConnection::InProcess(..) => {}
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        match self {
            ServerConnection::Stream(stream) => stream.in_flight(),
            ServerConnection::Http(http) => http.in_flight(),
            ServerConnection::InProcess(..) => 0,
        }
    }

    /// Ends the connection: the wire is closed and the process stopped, with everything it started.
    pub(crate) async fn close(&self) {
        match self {
            ServerConnection::Stream(stream) => stream.close().await,
            ServerConnection::Http(http) => http.close().await,
            ServerConnection::InProcess(..) => {}
        }
    }
}

impl Answer for ServerConnection {
    fn answer(&self, call: Call) -> Reply {
        match self {
            ServerConnection::Stream(stream) => stream.answer(call),
            ServerConnection::Http(http) => http.answer(call),
            ServerConnection::InProcess(server) => server.answer(call),
        }
    }
}
