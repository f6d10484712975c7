//! A connection over a shared stream: many calls in flight, told apart by numbers of our own.

mod questions;
mod reader;
mod reply;

use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tsugi_process::SupervisedJob;
use tsugi_protocol::answer::{Answer, Call, Caller, Fault, FaultCode, Reply, SentState};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::era;
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::pending::{CallTicket, OpenCallError, PendingCalls};
use tsugi_protocol::rpc::{ResponsePayload, RpcMessage, RpcNotification, RpcRequest, RpcResponse};
use tsugi_transport::link::SendError;
use tsugi_transport::{FlushMode, Link, Outbox};

use super::context::ConnectionContext;
use super::question::HeldQuestions;
use super::turnstile::{TurnPermit, Turnstile};
use questions::QuestionLedger;
use reply::StreamReply;
pub(crate) use reply::for_caller;

/// With at most this many calls in flight a caller writes its own message.
const FEW: usize = 4;

/// The largest buffer for writing that a thread keeps.
const LARGEST_KEPT: usize = 64 * 1024;

/// How long to wait for the end of a server that closed its input: its exit status, or our stopping it.
const END_LIMIT: Duration = Duration::from_secs(2);

/// What arrives for a call.
pub(super) enum CallArrival {
    /// The line with its answer, not proved yet.
    Answer(bytes::Bytes),
    /// A notification that belongs to it.
    Note(RpcNotification),
    /// A question that the server asks because of it.
    Question(RpcRequest),
    /// The answer cannot be had, and this is why. The connection goes on.
    Failed(Arc<Fault>),
    /// The connection is gone.
    Lost(Arc<Fault>),
}

/// What is remembered of a call in flight.
#[derive(Debug, Clone)]
pub(super) struct InFlightCall {
    caller: Caller,
    may_ask: bool,
    wants_log: bool,
    /// False for what is our own: handshakes, and the listening to a server's changes.
    is_of_caller: bool,
}

impl InFlightCall {
    /// Of a request of our own.
    fn own() -> Self {
        Self { caller: Caller::local(), may_ask: false, wants_log: false, is_of_caller: false }
    }

    fn of(call: &Call) -> Self {
        Self {
            caller: call.caller.clone(),
            may_ask: call.method.may_ask(),
            wants_log: call.meta.log_level.is_some(),
            is_of_caller: call.method != Method::Listen,
        }
    }
}

/// A connection over a stream. The process dies with it.
pub(crate) struct StreamConnection {
    shared: Arc<StreamCore>,
    job: Option<SupervisedJob>,
    tasks: [AbortHandle; 2],
}

/// What the reader and the replies share. It does not hold the process: when the connection is dropped,
/// the process ends even while replies are alive.
pub(super) struct StreamCore {
    pub(super) context: Arc<ConnectionContext>,
    pub(super) pending: Arc<PendingCalls<CallArrival, InFlightCall>>,
    pub(super) outbox: Outbox,
    identity: OnceLock<Arc<ServerIdentity>>,
    held: HeldQuestions,
    turnstile: Arc<Turnstile>,
    questions: Mutex<QuestionLedger>,
    level: Mutex<Option<LogLevel>>,
    /// Set as soon as the end is certain, before it is known why: new calls should wait for the next connection.
    is_ending: AtomicBool,
    /// Set when the server is stopped because it closed its input.
    is_deaf: AtomicBool,
    end: watch::Sender<Option<Arc<Fault>>>,
}

impl StreamConnection {
    /// Starts reading from a wire. The handshake comes next.
    pub(crate) fn start(context: Arc<ConnectionContext>, link: Link) -> Self {
        let shared = Arc::new(StreamCore {
            context,
            pending: Arc::default(),
            outbox: link.outbox,
            identity: OnceLock::new(),
            held: HeldQuestions::default(),
            turnstile: Arc::default(),
            questions: Mutex::default(),
            level: Mutex::default(),
            is_ending: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            end: watch::Sender::new(None),
        });
        let reader = tokio::spawn(reader::run(shared.clone(), link.inbox, link.job.clone())).abort_handle();
        let watcher = tokio::spawn(reader::watch_input(shared.clone(), link.job.clone())).abort_handle();
        Self { shared, job: link.job, tasks: [reader, watcher] }
    }

    /// Sets what the handshake found out. Calls can be made from now on.
    pub(crate) fn agree(&self, identity: ServerIdentity) {
        let _ = self.shared.identity.set(Arc::new(identity));
    }

    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        self.shared.identity().clone()
    }

    pub(crate) fn job(&self) -> Option<&SupervisedJob> {
        self.job.as_ref()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shared.in_flight()
    }

    /// True when no call should be made on it any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.is_ending.load(Ordering::Acquire)
    }

    /// Waits until the wire is gone.
    pub(crate) async fn lost(&self) -> Arc<Fault> {
        self.shared.lost().await
    }

    /// How messages are cut out of the stream.
    pub(crate) fn framing(&self) -> FramingKind {
        self.shared.outbox.framing()
    }

    /// See [`Outbox::begin_to_count`].
    pub(crate) fn begin_to_count(&self) -> bool {
        self.shared.outbox.begin_to_count()
    }

    /// A request of our own, outside the seam: handshakes.
    pub(crate) async fn request(&self, method: &Method, params: Option<&RawJson>) -> Result<ResponsePayload, Fault> {
        self.shared.request(method, params).await
    }

    /// A notification of our own.
    pub(crate) fn notify(&self, notification: &RpcNotification) {
        self.shared.send(&notification.to_bytes());
    }

    pub(crate) async fn close(&self) {
        self.shared.outbox.close();
        if let Some(job) = &self.job {
            job.stop().await;
        }
        self.end();
    }

    fn end(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.shared.outbox.close();
        let fault = self.shared.context.fault(FaultCode::ServerNotRunning, "the server was stopped");
        self.shared.finish(Arc::new(fault.sent(SentState::Unknown)));
    }
}

impl Drop for StreamConnection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Answer for StreamConnection {
    fn answer(&self, call: Call) -> Reply {
        let shared = &self.shared;
        let call = match shared.context.resume_or_pass(call) {
            Ok(call) => call,
            Err(reply) => return reply,
        };
        if shared.turnstile.is_on() && call.method.may_ask() && shared.era() == Era::Legacy {
            let shared = shared.clone();
            return Reply::from_pending_reply(async move {
                match shared.take_turn(&call).await {
                    Ok(turn) => shared.start(call, Some(turn)),
                    Err(fault) => Reply::fault(fault),
                }
            });
        }
        if shared.outbox.is_congested() {
            let shared = shared.clone();
            return Reply::from_pending_reply(async move {
                shared.outbox.ready().await;
                shared.start(call, None)
            });
        }
        shared.start(call, None)
    }
}

impl StreamCore {
    fn identity(&self) -> &Arc<ServerIdentity> {
        self.identity.get().expect("calls are made after the handshake")
    }

    fn era(&self) -> Era {
        self.identity.get().map_or(Era::Legacy, |identity| identity.version.era())
    }

    /// Waits for the turn of a call, but not until its time is over: whoever hears that the time is over has to fear
    /// that the call was made.
    async fn take_turn(&self, call: &Call) -> Result<TurnPermit, Fault> {
        let mut entering = pin!(self.turnstile.enter(&call.caller));
        if let Some(turn) = entering.as_mut().now_or_never() {
            return Ok(turn);
        }
        self.hurry();
        let limit = self.context.limits.idle_for(call) * 9 / 10;
        tokio::time::timeout(limit, entering).await.map_err(|_| self.kept_out(limit))
    }

    /// Those who leave a question unanswered have less time from now on, since somebody waits for them.
    pub(super) fn hurry(&self) {
        self.context.parked.hurry(self.context.options.input_patience);
    }

    fn kept_out(&self, limit: Duration) -> Fault {
        let why = match self.turnstile.is_parked() {
            true => "the server waits for another caller's answer",
            false => "the server is busy with another caller's call",
        };
        let mut fault = self.context.fault(FaultCode::Overloaded, format!("no turn within {limit:?}: {why}"));
        fault.retry_after_ms = Some(self.context.options.input_patience.as_millis() as u64);
        fault.with_hint("callers of a server that asks take turns; give each its own with `instances: per-session`")
    }

    /// Opens a slot, writes the request and gives the reply that waits for its answer.
    fn start(self: &Arc<Self>, call: Call, turn: Option<TurnPermit>) -> Reply {
        let ticket = match self.pending.open(InFlightCall::of(&call)) {
            Ok(ticket) => ticket,
            Err(error) => return Reply::fault(self.open_fault(error)),
        };
        self.raise_level(&call);
        if let Err(error) = self.write(&call, &ticket) {
            return Reply::fault(self.send_fault(error));
        }
        Reply::from_source(StreamReply::new(self.clone(), ticket, call, turn))
    }

    /// Writes a call to the outbox. The line is made in a buffer that the thread keeps, since the outbox copies it.
    fn write(&self, call: &Call, ticket: &CallTicket<CallArrival, InFlightCall>) -> Result<(), SendError> {
        thread_local! {
            static BUFFER: Cell<BytesMut> = Cell::default();
        }
        let mut request = ObjectWriter::in_buffer(BUFFER.take());
        era::write_request(&mut request, ticket.key(), call, self.era());
        let line = request.finish_line();
        let sent = self.outbox.send(&line, flush(ticket.in_flight()));
        if line.capacity() <= LARGEST_KEPT {
            BUFFER.set(line);
        }
        sent
    }

    /// Sends a message that nobody waits for. A wire that is gone shows itself elsewhere.
    pub(super) fn send(&self, message: &[u8]) {
        let _ = self.outbox.send(message, flush(self.pending.len()));
    }

    pub(super) fn respond(&self, response: &RpcResponse) {
        self.send(&response.to_bytes());
    }

    /// Tells a legacy server to log as much as the most curious caller wants.
    fn raise_level(&self, call: &Call) {
        let Some(wanted) = call.meta.log_level else { return };
        if self.era() == Era::Modern || !self.identity().capabilities.has("logging") {
            return;
        }
        let mut level = self.level.lock();
        if level.is_some_and(|level| level <= wanted) {
            return;
        }
        *level = Some(wanted);
        drop(level);
        let mut params = ObjectWriter::with_capacity(32);
        params.string("level", wanted.as_str());
        // Nobody waits for the answer; the slot only lends its number.
        if let Ok(ticket) = self.pending.open(InFlightCall::own()) {
            self.send(&write_numbered(ticket.key(), Method::SetLevel.as_str(), Some(&params.finish())));
        }
    }

    async fn request(&self, method: &Method, params: Option<&RawJson>) -> Result<ResponsePayload, Fault> {
        let mut ticket = self.pending.open(InFlightCall::own()).map_err(|error| self.open_fault(error))?;
        let line = write_numbered(ticket.key(), method.as_str(), params);
        match self.outbox.send(&line, FlushMode::Now) {
            Ok(()) => self.body(&mut ticket).await,
            Err(error) => Err(self.unsent(error).await),
        }
    }

    /// Why a request of our own could not be sent. A server that ended before it read anything is about to be
    /// noticed: how it ended and what it said last explains more than that it does not listen.
    async fn unsent(&self, error: SendError) -> Fault {
        let fault = self.send_fault(error);
        if error != SendError::Closed {
            return fault;
        }
        match tokio::time::timeout(END_LIMIT, self.lost()).await {
            Ok(end) => (*end).clone().sent(SentState::NotSent),
            Err(_) => fault,
        }
    }

    async fn body(&self, ticket: &mut CallTicket<CallArrival, InFlightCall>) -> Result<ResponsePayload, Fault> {
        loop {
            match ticket.next().await {
                CallArrival::Answer(line) => return self.read_body(line, ticket.key()),
                CallArrival::Failed(fault) | CallArrival::Lost(fault) => return Err((*fault).clone()),
                CallArrival::Question(request) => self.refuse(request),
                CallArrival::Note(_) => {}
            }
        }
    }

    fn read_body(&self, line: bytes::Bytes, key: u64) -> Result<ResponsePayload, Fault> {
        let unacceptable = |why: String| self.context.fault(FaultCode::InvalidResponse, why);
        match RpcMessage::parse(line) {
            Ok(RpcMessage::Response(response)) if response.id.as_ref().and_then(|id| id.as_u64()) == Some(key) => {
                Ok(response.body)
            }
            Ok(_) => Err(unacceptable("the answer has another id".into())),
            Err(error) => Err(unacceptable(error.to_string())),
        }
    }

    fn open_fault(&self, error: OpenCallError) -> Fault {
        let end = self.end.borrow().clone();
        match (error, end) {
            // The old fault tells why the server is gone, but this call was never sent.
            (OpenCallError::Closed, Some(fault)) => (*fault).clone().sent(SentState::NotSent),
            (OpenCallError::Closed, None) => {
                self.context.fault(FaultCode::ServerNotRunning, "the server is not connected")
            }
            (OpenCallError::Full, _) => self.context.fault(FaultCode::Overloaded, "too many calls are in flight"),
        }
    }

    fn send_fault(&self, error: SendError) -> Fault {
        match error {
            SendError::Closed => {
                self.begin_to_end();
                let fault = self.context.fault(FaultCode::ConnectionLost, "the server closed its input");
                fault.sent(SentState::NotSent)
            }
            SendError::Full => self.context.fault(FaultCode::Overloaded, "the server does not read its input"),
        }
    }

    /// How many calls of callers are in flight.
    fn in_flight(&self) -> usize {
        let mut count = 0;
        self.pending.for_each(|_, tag| count += usize::from(tag.is_of_caller));
        count
    }

    /// The end is certain.
    fn begin_to_end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    fn was_deaf(&self) -> bool {
        self.is_deaf.load(Ordering::Acquire)
    }

    async fn lost(&self) -> Arc<Fault> {
        let mut end = self.end.subscribe();
        let fault = end.wait_for(|fault| fault.is_some()).await.map(|fault| fault.clone());
        match fault {
            Ok(Some(fault)) => fault,
            _ => std::future::pending().await,
        }
    }

    /// The wire is gone: every call in flight ends with `fault`, and no new one begins. Only the first
    /// reason counts.
    fn finish(&self, fault: Arc<Fault>) {
        self.begin_to_end();
        let is_first = self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert_with(|| fault.clone());
            is_first
        });
        if is_first {
            self.pending.close(|| CallArrival::Lost(fault.clone()));
        }
    }
}

/// When a message leaves, with so many calls in flight.
fn flush(in_flight: usize) -> FlushMode {
    if in_flight <= FEW { FlushMode::Now } else { FlushMode::Soon }
}
