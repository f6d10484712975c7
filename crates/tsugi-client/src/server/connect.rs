//! Making a connection: the wire, the handshake, and the fallbacks between them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tsugi_process::{JobCommand, SupervisedJob};
use tsugi_protocol::answer::{Answer, Call, CallFailure, CallStage, Fault, FaultCode, Outcome, ProcessEnd};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::era::session;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_transport::http::HttpTarget;
use tsugi_transport::{Link, TransportError, sse, stdio, ws};

use super::{Instance, ProcessRecord};
use crate::backoff::{Backoff, BackoffVerdict, RetryPlan};
use crate::catalog::pinning;
use crate::config::{ConnectTarget, EraChoice};
use crate::connection::ServerConnection;
use crate::connection::context::ConnectionContext;
use crate::connection::era_cache::KnownEra;
use crate::connection::handshake::{self, HandshakeTerms};
use crate::connection::http::{self, HttpOpening};
use crate::connection::in_process::InProcessConnection;
use crate::connection::state::ConnectionEvent;
use crate::connection::stream::StreamConnection;
use crate::diagnosis;
use crate::error::{STDERR_LINES, connect_fault};
use crate::plain_rpc;

/// How many lines of standard error are searched for the cause of a failure.
const DIAGNOSED_LINES: usize = 200;

/// Connects and agrees. A memory of the era that proves wrong is forgotten, and the question asked.
/// `give_up` ends the attempt: it fails, and nothing that it started is left.
pub(super) async fn connect(
    instance: &Arc<Instance>,
    backoff: &mut Backoff,
    give_up: &CancellationToken,
) -> Result<ServerConnection, Fault> {
    let connected = try_ways(instance, backoff, give_up).await;
    match &connected {
        // Nothing was found out.
        Ok(connection) if instance.config.era != EraChoice::Auto && connection.known().framing == FramingKind::Line => {
        }
        Ok(connection) => instance.memory.set(&instance.config.target, connection.known()),
        Err(_) => instance.memory.forget(&instance.config.target),
    }
    connected.map_err(|fault| {
        let fault = fault.on_server(&instance.context.server);
        // An attempt that was given up says nothing about the server.
        if give_up.is_cancelled() { fault } else { instance.diagnosed(fault) }
    })
}

/// Tries one way of opening and, where they may help, others. After a first failure the others are tried at once, and
/// the first failure is reported. In a row of failures the ways take turns, so that a server that dies at once is not
/// started twice per attempt.
async fn try_ways(
    instance: &Arc<Instance>,
    backoff: &mut Backoff,
    give_up: &CancellationToken,
) -> Result<ServerConnection, Fault> {
    let is_second = instance.tries_second_way.swap(false, Ordering::Relaxed);
    let is_first_failure = backoff.failures() == 0;
    let mut terms = HandshakeTerms::new(instance.config.era, instance.memory.get(&instance.config.target));
    // The first way failed last time, so this attempt starts with the other one.
    if is_second && terms.opening().is_none() {
        terms.choice = EraChoice::Legacy;
    }
    let first = match attempt(instance, terms, give_up).await {
        Ok(connection) => return Ok(connection),
        Err(fault) => fault,
    };
    let mut last = first.clone();
    while let Some(other) = other_terms(terms, &last) {
        let is_guess = other.framing == FramingKind::ContentLength;
        if !is_first_failure || give_up.is_cancelled() {
            instance.tries_second_way.store(!is_guess, Ordering::Relaxed);
            break;
        }
        // Every start counts, even those of one attempt: otherwise a crash loop would be noticed too late.
        let verdict = backoff.failed(Instant::now());
        if is_guess && !matches!(verdict, BackoffVerdict::Retry(RetryPlan { is_down: false, .. })) {
            break;
        }
        last = match attempt(instance, other, give_up).await {
            Ok(connection) => return Ok(connection),
            Err(fault) => fault,
        };
        terms = other;
    }
    Err(first)
}

/// Whether another way of opening may help: a server that dies of `server/discover` gets the legacy
/// handshake once, one that dies of that too gets it with `Content-Length` once, and a wrong memory is put aside once.
fn other_terms(terms: HandshakeTerms, fault: &Fault) -> Option<HandshakeTerms> {
    let died = fault.code == FaultCode::ServerCrashed && fault.stage == CallStage::Handshake;
    let legacy = HandshakeTerms::new(EraChoice::Legacy, None);
    match (terms.choice, terms.remembered) {
        // What was remembered may be outdated: the server may speak another era since an update.
        (choice, Some(_)) if fault.stage == CallStage::Handshake => {
            let is_different = choice == EraChoice::Auto || terms.framing == FramingKind::ContentLength;
            is_different.then(|| HandshakeTerms::new(choice, None))
        }
        (EraChoice::Auto, None) if died => Some(legacy),
        (EraChoice::Legacy, None) if died && terms.framing == FramingKind::Line => {
            Some(HandshakeTerms { framing: FramingKind::ContentLength, ..legacy })
        }
        _ => None,
    }
}

async fn attempt(
    instance: &Arc<Instance>,
    terms: HandshakeTerms,
    give_up: &CancellationToken,
) -> Result<ServerConnection, Fault> {
    let opening = ConnectAttempt { instance, terms, give_up };
    match &instance.config.target {
        ConnectTarget::Stdio(command) => {
            may_start(instance, command).await?;
            // A process that is being started is waited for, so that it can be ended.
            let link = stdio::connect((**command).clone(), instance.config.job.0.clone(), terms.framing).await;
            opening.over_stream(link).await
        }
        ConnectTarget::WebSocket(target) => opening.unless_given_up(opening.over_web_socket(target)).await,
        ConnectTarget::Sse(target) => opening.unless_given_up(opening.over_sse(target.clone())).await,
        ConnectTarget::Http(target) => opening.unless_given_up(opening.over_http(target.clone(), true)).await,
        ConnectTarget::StreamableHttp(target) => {
            opening.unless_given_up(opening.over_http(target.clone(), false)).await
        }
        ConnectTarget::PlainRpc(target) => opening.unless_given_up(opening.over_plain_rpc(target.clone())).await,
        ConnectTarget::InProcess(server) => opening.unless_given_up(in_process(instance, server.clone())).await,
        ConnectTarget::Link(source) => opening.over_stream(Ok(source.connect())).await,
    }
}

/// Whether the pins let this program be started. Where nothing is refused it is looked at beside the work.
async fn may_start(instance: &Arc<Instance>, command: &JobCommand) -> Result<(), Fault> {
    let Some((store, policy)) = instance.pins() else { return Ok(()) };
    let may_refuse = policy.may_refuse();
    if !may_refuse && !store.looks_at_command(&instance.config.name) {
        return Ok(());
    }
    let (judging, command) = (instance.clone(), command.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let (config, pins) = (&judging.config, judging.pins());
        pins.is_none_or(|pins| pinning::may_start(&command, &config.job.0.redact, &config.name, pins))
    });
    if !may_refuse || looking.await.unwrap_or(false) {
        return Ok(());
    }
    let message = "the program of this server is not the pinned one: it is not started";
    let fault = instance.context.fault(FaultCode::ToolChanged, message).at(CallStage::Spawn);
    Err(fault.with_hint("`tsugi diff` shows what differs, `tsugi lock accept SERVER/command` pins it"))
}

/// One way of opening.
#[derive(Clone, Copy)]
struct ConnectAttempt<'a> {
    instance: &'a Arc<Instance>,
    terms: HandshakeTerms,
    give_up: &'a CancellationToken,
}

impl ConnectAttempt<'_> {
    async fn unless_given_up<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let stopped = || self.instance.context.fault(FaultCode::ServerNotRunning, "the server was stopped");
        tokio::select! {
            done = work => done,
            () = self.give_up.cancelled() => Err(stopped()),
        }
    }

    async fn over_stream(&self, link: Result<Link, TransportError>) -> Result<ServerConnection, Fault> {
        let link = link.map_err(|error| connect_fault(&error))?;
        // Before the handshake, so that the output of a server that never gets that far is kept.
        self.instance.begin_log(link.job.as_ref().map(ProcessRecord::of));
        self.instance.wire_up();
        let mux = StreamConnection::start(self.instance.context.clone(), link);
        match self.unless_given_up(handshake::over_stream(&self.instance.context, &mux, self.terms)).await {
            Ok(identity) => {
                mux.agree(identity);
                Ok(ServerConnection::Stream(Arc::new(mux)))
            }
            Err(fault) => {
                let fault = with_last_words(fault, &mux, &self.instance.context);
                mux.close().await;
                Err(fault)
            }
        }
    }

    async fn over_plain_rpc(&self, target: HttpTarget) -> Result<ServerConnection, Fault> {
        let connection = plain_rpc::open(self.instance.context.clone(), target).await?;
        self.instance.wire_up();
        Ok(ServerConnection::InProcess(Arc::new(connection)))
    }

    async fn over_web_socket(&self, target: &HttpTarget) -> Result<ServerConnection, Fault> {
        self.over_stream(ws::connect(target).await).await
    }

    /// The two-endpoint wire is older than the modern era.
    async fn over_sse(&self, target: HttpTarget) -> Result<ServerConnection, Fault> {
        let terms = HandshakeTerms::new(EraChoice::Legacy, Some(KnownEra::of(Era::Legacy)));
        ConnectAttempt { terms, ..*self }.over_stream(sse::connect(target).await).await
    }

    async fn over_http(&self, target: HttpTarget, may_be_sse: bool) -> Result<ServerConnection, Fault> {
        let opened = http::open(self.instance.context.clone(), target.clone(), self.terms).await?;
        self.instance.wire_up();
        match opened {
            HttpOpening::Exchange(exchange) => {
                self.instance.status.set_transport("http");
                Ok(ServerConnection::Http(Arc::new(*exchange)))
            }
            HttpOpening::MaybeSse(fault) if !may_be_sse => Err(fault),
            HttpOpening::MaybeSse(fault) => {
                // The first wire's failure explains more than that the second one failed too.
                let connection = self.over_sse(target).await.map_err(|_| fault)?;
                self.instance.status.set_transport("sse");
                Ok(connection)
            }
        }
    }
}

/// Adds what a server that never finished the handshake wrote: on its standard error, and on its output instead of
/// messages.
fn with_last_words(fault: Fault, mux: &StreamConnection, context: &ConnectionContext) -> Fault {
    let fault = match mux.job() {
        Some(job) if fault.process.is_none() => {
            let stderr = job.stderr().tail(STDERR_LINES);
            fault.with_process(ProcessEnd { status: "it was still running".to_owned(), stderr })
        }
        _ => fault,
    };
    match context.noise.lines().first() {
        Some(_) => fault.with_hint(
            "it writes lines to its standard output that are not messages, which breaks many clients: \
             have it write them to standard error, see `tsugi doctor`",
        ),
        None => fault,
    }
}

impl ProcessRecord {
    fn of(job: &SupervisedJob) -> Self {
        ProcessRecord { pid: job.pid(), tier: job.tier().name(), stderr: job.stderr() }
    }
}

async fn in_process(instance: &Arc<Instance>, server: Arc<dyn Answer>) -> Result<ServerConnection, Fault> {
    instance.wire_up();
    let unacceptable =
        |why: &str| instance.context.fault(FaultCode::InvalidResponse, format!("server/discover: {why}"));
    match server.answer(Call::bare(Method::Discover)).outcome().await {
        Outcome::Complete(complete) => {
            let identity = session::read_discover_result(&complete.body).map_err(unacceptable)?;
            Ok(ServerConnection::InProcess(Arc::new(InProcessConnection::new(
                instance.context.clone(),
                server,
                identity,
            ))))
        }
        Outcome::Failed(CallFailure::Fault(fault)) => Err(*fault),
        Outcome::Failed(CallFailure::Upstream(error)) => Err(unacceptable(&error.message())),
        Outcome::InputRequired(_) => Err(unacceptable("asks for input")),
    }
}

impl Instance {
    /// The fault with its cause named, from what the newest process printed.
    fn diagnosed(&self, fault: Fault) -> Fault {
        let newest = self.process.load_full().map(|process| process.stderr.tail(DIAGNOSED_LINES));
        let kept = || fault.process.as_ref().map(|process| process.stderr.clone());
        // A program that could not be started has printed nothing: the log is of an earlier process.
        let stderr = if fault.stage == CallStage::Spawn { None } else { newest.or_else(kept) };
        let (stderr, noise) = (stderr.unwrap_or_default(), self.context.noise.lines());
        diagnosis::diagnosed(&self.config, fault, &stderr, &noise)
    }

    fn wire_up(&self) {
        if self.status.state() == crate::connection::state::ConnectionState::Connecting {
            self.status.happen(ConnectionEvent::WireUp, None);
        }
    }
}
