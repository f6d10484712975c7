//! Making a connection: the wire, the handshake, and the fallbacks between them.

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Call, Failure, Fault, FaultCode, Outcome, Stage};
use tsugi_protocol::era::session;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_transport::http::HttpTarget;
use tsugi_transport::{Link, TransportError, sse, stdio, ws};

use super::Inner;
use crate::config::{EraChoice, Target};
use crate::connection::Connection;
use crate::connection::exchange::{self, Opened};
use crate::connection::handshake::{self, Terms};
use crate::connection::mux::Mux;
use crate::connection::state::Happening;
use crate::error::connect_fault;

/// Connects and agrees. A memory of the era that proves wrong is forgotten, and the question asked.
pub(super) async fn connect(inner: &Arc<Inner>) -> Result<Connection, Fault> {
    let terms = Terms { choice: inner.config.era, remembered: inner.memory.get(&inner.config.target) };
    let first = attempt(inner, terms).await;
    let connected = match first {
        Ok(connection) => Ok(connection),
        Err(fault) => match second_terms(terms, &fault) {
            Some(terms) => attempt(inner, terms).await.map_err(|_| fault),
            None => Err(fault),
        },
    };
    match &connected {
        Ok(connection) => inner.memory.set(&inner.config.target, connection.identity().version.era()),
        Err(_) => inner.memory.forget(&inner.config.target),
    }
    connected.map_err(|fault| fault.on_server(&inner.context.server))
}

/// Whether another way of opening may help: a server that dies of `server/discover` gets the legacy
/// handshake once, and a wrong memory is put aside once.
fn second_terms(terms: Terms, fault: &Fault) -> Option<Terms> {
    let died = fault.code == FaultCode::ServerCrashed && fault.stage == Stage::Handshake;
    match (terms.choice, terms.remembered) {
        (EraChoice::Auto, None) if died => Some(Terms { choice: EraChoice::Legacy, remembered: None }),
        (EraChoice::Auto, Some(_)) if fault.stage == Stage::Handshake => {
            Some(Terms { choice: EraChoice::Auto, remembered: None })
        }
        _ => None,
    }
}

async fn attempt(inner: &Arc<Inner>, terms: Terms) -> Result<Connection, Fault> {
    match &inner.config.target {
        Target::Stdio(command) => {
            let link = stdio::connect((**command).clone(), inner.config.job.0.clone()).await;
            over_stream(inner, link, terms).await
        }
        Target::WebSocket(target) => over_stream(inner, ws::connect(target).await, terms).await,
        Target::Sse(target) => over_sse(inner, target.clone()).await,
        Target::Http(target) => over_http(inner, target.clone(), terms, true).await,
        Target::StreamableHttp(target) => over_http(inner, target.clone(), terms, false).await,
        Target::InProcess(server) => in_process(inner, server.clone()).await,
    }
}

async fn over_stream(
    inner: &Arc<Inner>,
    link: Result<Link, TransportError>,
    terms: Terms,
) -> Result<Connection, Fault> {
    let link = link.map_err(|error| connect_fault(&error))?;
    inner.wire_up();
    let mux = Mux::start(inner.context.clone(), link);
    match handshake::over_stream(&inner.context, &mux, terms).await {
        Ok(identity) => {
            mux.agree(identity);
            Ok(Connection::Mux(Arc::new(mux)))
        }
        Err(fault) => {
            mux.close().await;
            Err(fault)
        }
    }
}

/// The two-endpoint wire is older than the modern era.
async fn over_sse(inner: &Arc<Inner>, target: HttpTarget) -> Result<Connection, Fault> {
    let terms = Terms { choice: EraChoice::Legacy, remembered: Some(Era::Legacy) };
    over_stream(inner, sse::connect(target).await, terms).await
}

async fn over_http(
    inner: &Arc<Inner>,
    target: HttpTarget,
    terms: Terms,
    may_be_sse: bool,
) -> Result<Connection, Fault> {
    let opened = exchange::open(inner.context.clone(), target.clone(), terms).await?;
    inner.wire_up();
    match opened {
        Opened::Exchange(exchange) => Ok(Connection::Exchange(Arc::new(*exchange))),
        Opened::MaybeSse(fault) if !may_be_sse => Err(fault),
        // What the first wire said explains more than that the second one failed too.
        Opened::MaybeSse(fault) => over_sse(inner, target).await.map_err(|_| fault),
    }
}

async fn in_process(inner: &Arc<Inner>, server: Arc<dyn Answer>) -> Result<Connection, Fault> {
    inner.wire_up();
    let unacceptable = |why: &str| inner.context.fault(FaultCode::InvalidResponse, format!("server/discover: {why}"));
    match server.answer(Call::bare(Method::Discover)).outcome().await {
        Outcome::Complete(complete) => {
            let identity = session::read_discover_result(&complete.body).map_err(unacceptable)?;
            Ok(Connection::InProcess(server, Arc::new(identity)))
        }
        Outcome::Failed(Failure::Fault(fault)) => Err(*fault),
        Outcome::Failed(Failure::Upstream(error)) => Err(unacceptable(&error.message())),
        Outcome::InputRequired(_) => Err(unacceptable("asks for input")),
    }
}

impl Inner {
    fn wire_up(&self) {
        if self.status.state() == crate::connection::state::State::Connecting {
            self.status.happen(Happening::WireUp, None);
        }
    }
}
