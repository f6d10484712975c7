//! Making a connection: the wire, the handshake, and the fallbacks between them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tsugi_process::Job;
use tsugi_protocol::answer::{Answer, Call, Failure, Fault, FaultCode, Outcome, ProcessEnd, Stage};
use tsugi_protocol::codec::framing::Kind;
use tsugi_protocol::era::session;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_transport::http::HttpTarget;
use tsugi_transport::{Link, TransportError, sse, stdio, ws};

use super::{Inner, Newest};
use crate::config::{EraChoice, Target};
use crate::connection::Connection;
use crate::connection::backoff::{Backoff, Verdict};
use crate::connection::context::Context;
use crate::connection::exchange::{self, Opened};
use crate::connection::handshake::{self, Terms};
use crate::connection::in_process::InProcess;
use crate::connection::memory::Known;
use crate::connection::mux::Mux;
use crate::connection::state::Happening;
use crate::error::{STDERR_LINES, connect_fault};

/// Connects and agrees. A memory of the era that proves wrong is forgotten, and the question asked.
/// `give_up` ends the attempt: it fails, and nothing that it started is left.
pub(super) async fn connect(
    inner: &Arc<Inner>,
    backoff: &mut Backoff,
    give_up: &CancellationToken,
) -> Result<Connection, Fault> {
    let connected = try_ways(inner, backoff, give_up).await;
    match &connected {
        // Nothing was found out.
        Ok(connection) if inner.config.era != EraChoice::Auto && connection.known().framing == Kind::Line => {}
        Ok(connection) => inner.memory.set(&inner.config.target, connection.known()),
        Err(_) => inner.memory.forget(&inner.config.target),
    }
    connected.map_err(|fault| fault.on_server(&inner.context.server))
}

/// Tries one way of opening and, where it may help, others. These are tried at once only after a first
/// failure, and what that was is told; in a row of failures the ways take turns, so that a server that dies at once is not started twice
/// for each attempt.
async fn try_ways(inner: &Arc<Inner>, backoff: &mut Backoff, give_up: &CancellationToken) -> Result<Connection, Fault> {
    let is_second = inner.tries_second_way.swap(false, Ordering::Relaxed);
    let is_first_failure = backoff.failures() == 0;
    let mut terms = Terms::new(inner.config.era, inner.memory.get(&inner.config.target));
    if is_second && terms.opening().is_none() {
        terms.choice = EraChoice::Legacy;
    }
    let first = match attempt(inner, terms, give_up).await {
        Ok(connection) => return Ok(connection),
        Err(fault) => fault,
    };
    let mut last = first.clone();
    while let Some(other) = other_terms(terms, &last) {
        let is_guess = other.framing == Kind::ContentLength;
        if !is_first_failure || give_up.is_cancelled() {
            inner.tries_second_way.store(!is_guess, Ordering::Relaxed);
            break;
        }
        let verdict = backoff.failed(Instant::now());
        if is_guess && !matches!(verdict, Verdict::RetryAfter(_)) {
            break;
        }
        last = match attempt(inner, other, give_up).await {
            Ok(connection) => return Ok(connection),
            Err(fault) => fault,
        };
        terms = other;
    }
    Err(first)
}

/// Whether another way of opening may help: a server that dies of `server/discover` gets the legacy
/// handshake once, one that dies of that too gets it with `Content-Length` once, and a wrong memory is put aside once.
fn other_terms(terms: Terms, fault: &Fault) -> Option<Terms> {
    let died = fault.code == FaultCode::ServerCrashed && fault.stage == Stage::Handshake;
    let legacy = Terms::new(EraChoice::Legacy, None);
    match (terms.choice, terms.remembered) {
        (choice, Some(_)) if fault.stage == Stage::Handshake => {
            let is_different = choice == EraChoice::Auto || terms.framing == Kind::ContentLength;
            is_different.then(|| Terms::new(choice, None))
        }
        (EraChoice::Auto, None) if died => Some(legacy),
        (EraChoice::Legacy, None) if died && terms.framing == Kind::Line => {
            Some(Terms { framing: Kind::ContentLength, ..legacy })
        }
        _ => None,
    }
}

async fn attempt(inner: &Arc<Inner>, terms: Terms, give_up: &CancellationToken) -> Result<Connection, Fault> {
    let opening = Opening { inner, terms, give_up };
    match &inner.config.target {
        Target::Stdio(command) => {
            // A process that is being started is waited for, so that it can be ended.
            let link = stdio::connect((**command).clone(), inner.config.job.0.clone(), terms.framing).await;
            opening.over_stream(link).await
        }
        Target::WebSocket(target) => opening.unless_given_up(opening.over_web_socket(target)).await,
        Target::Sse(target) => opening.unless_given_up(opening.over_sse(target.clone())).await,
        Target::Http(target) => opening.unless_given_up(opening.over_http(target.clone(), true)).await,
        Target::StreamableHttp(target) => opening.unless_given_up(opening.over_http(target.clone(), false)).await,
        Target::InProcess(server) => opening.unless_given_up(in_process(inner, server.clone())).await,
        Target::Link(source) => opening.over_stream(Ok(source.connect())).await,
    }
}

/// One way of opening.
#[derive(Clone, Copy)]
struct Opening<'a> {
    inner: &'a Arc<Inner>,
    terms: Terms,
    give_up: &'a CancellationToken,
}

impl Opening<'_> {
    async fn unless_given_up<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let stopped = || self.inner.context.fault(FaultCode::ServerNotRunning, "the server was stopped");
        tokio::select! {
            done = work => done,
            () = self.give_up.cancelled() => Err(stopped()),
        }
    }

    async fn over_stream(&self, link: Result<Link, TransportError>) -> Result<Connection, Fault> {
        let link = link.map_err(|error| connect_fault(&error))?;
        self.inner.begin_log(link.job.as_ref().map(Newest::of));
        self.inner.wire_up();
        let mux = Mux::start(self.inner.context.clone(), link);
        match self.unless_given_up(handshake::over_stream(&self.inner.context, &mux, self.terms)).await {
            Ok(identity) => {
                mux.agree(identity);
                Ok(Connection::Mux(Arc::new(mux)))
            }
            Err(fault) => {
                let fault = with_last_words(fault, &mux, &self.inner.context);
                mux.close().await;
                Err(fault)
            }
        }
    }

    async fn over_web_socket(&self, target: &HttpTarget) -> Result<Connection, Fault> {
        self.over_stream(ws::connect(target).await).await
    }

    /// The two-endpoint wire is older than the modern era.
    async fn over_sse(&self, target: HttpTarget) -> Result<Connection, Fault> {
        let terms = Terms::new(EraChoice::Legacy, Some(Known::of(Era::Legacy)));
        Opening { terms, ..*self }.over_stream(sse::connect(target).await).await
    }

    async fn over_http(&self, target: HttpTarget, may_be_sse: bool) -> Result<Connection, Fault> {
        let opened = exchange::open(self.inner.context.clone(), target.clone(), self.terms).await?;
        self.inner.wire_up();
        match opened {
            Opened::Exchange(exchange) => Ok(Connection::Exchange(Arc::new(*exchange))),
            Opened::MaybeSse(fault) if !may_be_sse => Err(fault),
            // What the first wire said explains more than that the second one failed too.
            Opened::MaybeSse(fault) => self.over_sse(target).await.map_err(|_| fault),
        }
    }
}

/// What a server that never agreed said meanwhile: on its standard error, and on its output instead of messages.
fn with_last_words(fault: Fault, mux: &Mux, context: &Context) -> Fault {
    let fault = match mux.job() {
        Some(job) if fault.process.is_none() => {
            let stderr = job.stderr().tail(STDERR_LINES);
            fault.with_process(ProcessEnd { status: "it was still running".to_owned(), stderr })
        }
        _ => fault,
    };
    match context.noise.lines().first() {
        Some(_) => fault.with_hint(
            "it writes to its standard output what is no message, which many clients cannot bear: \
             have it write such lines to standard error, see `tsugi doctor`",
        ),
        None => fault,
    }
}

impl Newest {
    fn of(job: &Job) -> Self {
        Newest { pid: job.pid(), tier: job.tier().name(), stderr: job.stderr() }
    }
}

async fn in_process(inner: &Arc<Inner>, server: Arc<dyn Answer>) -> Result<Connection, Fault> {
    inner.wire_up();
    let unacceptable = |why: &str| inner.context.fault(FaultCode::InvalidResponse, format!("server/discover: {why}"));
    match server.answer(Call::bare(Method::Discover)).outcome().await {
        Outcome::Complete(complete) => {
            let identity = session::read_discover_result(&complete.body).map_err(unacceptable)?;
            Ok(Connection::InProcess(Arc::new(InProcess::new(inner.context.clone(), server, identity))))
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
