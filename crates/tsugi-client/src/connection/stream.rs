//! A connection over a shared stream: many calls in flight, told apart by ids that we choose.

mod reader;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::task::AbortHandle;
use tsugi_process::SupervisedJob;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply, SentState};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::era;
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::{ResponsePayload, RpcMessage, RpcNotification, RpcResponse};
use tsugi_transport::{FlushMode, Link, Outbox, TransportError, TransportErrorKind};

use super::context::ConnectionContext;
use super::in_flight::{self, CallArrival, CallSlot, CallTable, CallWire, raise_level};
use super::question_router;
use super::reply::CallReply;
use super::turnstile::TurnPermit;
use crate::error::call_fault;

/// With at most this many calls in flight a caller writes its own message.
const FEW: usize = 4;

/// The largest buffer for writing that a thread keeps.
const LARGEST_KEPT: usize = 64 * 1024;

/// How long to wait for the end of a server that closed its input: its exit status, or our stopping it.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A connection over a stream. The process dies with it.
pub(crate) struct StreamConnection {
    core: Arc<StreamCore>,
    job: Option<SupervisedJob>,
    tasks: [AbortHandle; 2],
}

/// The part that the reader and the replies share. It does not hold the process: when the connection is dropped, the
/// process ends even while replies are alive.
pub(super) struct StreamCore {
    table: CallTable,
    outbox: Outbox,
    identity: OnceLock<Arc<ServerIdentity>>,
    /// Set as soon as the end is certain, before its reason is known: new calls should wait for the next connection.
    is_ending: AtomicBool,
    /// Set when the server is stopped because it closed its input.
    is_deaf: AtomicBool,
    /// Set when the connection is closed on purpose: the end of the process is then not a crash.
    is_closed: AtomicBool,
}

impl StreamConnection {
    /// Starts reading from a wire. The handshake comes next.
    pub(crate) fn start(context: Arc<ConnectionContext>, link: Link) -> Self {
        let core = Arc::new(StreamCore {
            table: CallTable::new(context),
            outbox: link.outbox,
            identity: OnceLock::new(),
            is_ending: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        });
        let reader = tokio::spawn(reader::run(core.clone(), link.inbox, link.job.clone())).abort_handle();
        let watcher = tokio::spawn(reader::watch_input(core.clone(), link.job.clone())).abort_handle();
        Self { core, job: link.job, tasks: [reader, watcher] }
    }

    /// Sets the result of the handshake. Calls can be made from now on.
    pub(crate) fn agree(&self, identity: ServerIdentity) {
        // Set once: a second handshake would be on another connection.
        let _ = self.core.identity.set(Arc::new(identity));
    }

    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        self.core.identity()
    }

    pub(crate) fn job(&self) -> Option<&SupervisedJob> {
        self.job.as_ref()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.core.table.in_flight()
    }

    /// True when no call should be made on it any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.core.is_ending.load(Ordering::Acquire)
    }

    /// Waits until the wire is gone.
    pub(crate) async fn lost(&self) -> Arc<Fault> {
        self.core.table.lost().await
    }

    /// How messages are framed in the stream.
    pub(crate) fn framing(&self) -> FramingKind {
        self.core.outbox.framing()
    }

    /// See [`Outbox::begin_to_count`].
    pub(crate) fn begin_to_count(&self) -> bool {
        self.core.outbox.begin_to_count()
    }

    /// A request of our own, outside the seam: handshakes.
    pub(crate) async fn request(&self, method: &Method, params: Option<&RawJson>) -> Result<ResponsePayload, Fault> {
        self.core.request(method, params).await
    }

    /// Sends a notification of our own.
    pub(crate) fn notify(&self, notification: &RpcNotification) {
        self.core.send(notification.to_bytes());
    }

    pub(crate) async fn close(&self) {
        self.core.is_closed.store(true, Ordering::Release);
        self.core.outbox.close();
        // Its input is closed, which is how a well-behaved server learns that it should exit.
        if let Some(job) = &self.job {
            job.stop().await;
        }
        self.end();
    }

    fn end(&self) {
        // The reader must not report the end that we cause as the server's.
        self.tasks.iter().for_each(AbortHandle::abort);
        self.core.outbox.close();
        let fault = self.core.table.context.fault(FaultCode::ServerNotRunning, "the server was stopped");
        self.core.finish(Arc::new(fault.sent(SentState::Unknown)));
    }
}

impl Drop for StreamConnection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Answer for StreamConnection {
    fn answer(&self, call: Call) -> Reply {
        in_flight::answer(&self.core, call)
    }
}

impl CallWire for StreamCore {
    fn table(&self) -> &CallTable {
        &self.table
    }

    fn identity(&self) -> Arc<ServerIdentity> {
        self.identity.get().expect("calls are made after the handshake").clone()
    }

    fn era(&self) -> Era {
        // A server that asks during the handshake is a legacy one: the modern era has no requests of servers.
        self.identity.get().map_or(Era::Legacy, |identity| identity.version.era())
    }

    fn send(self: &Arc<Self>, message: Bytes) {
        // A wire that is gone shows itself in the reader.
        let _ = self.outbox.send(&message, flush(self.table.pending.len()));
    }

    fn deliver(self: &Arc<Self>, _key: u64, answer: &RpcResponse) {
        self.send(answer.to_bytes());
    }

    fn start(self: &Arc<Self>, call: Call, turn: Option<TurnPermit>) -> Reply {
        if !self.outbox.is_congested() {
            return self.write_call(call, turn);
        }
        let core = self.clone();
        Reply::from_pending_reply(async move {
            core.outbox.ready().await;
            core.write_call(call, turn)
        })
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn cancels_by_closing(&self) -> bool {
        false
    }
}

impl StreamCore {
    /// Opens a slot, writes the request and returns the reply that waits for its answer.
    fn write_call(self: &Arc<Self>, call: Call, turn: Option<TurnPermit>) -> Reply {
        let slot = match self.table.open(&call) {
            Ok(slot) => slot,
            Err(fault) => return Reply::fault(fault),
        };
        // Before the call, so that its own log messages have the level.
        raise_level(self, &call);
        if let Err(error) = self.write(&call, &slot) {
            return Reply::fault(self.send_fault(&error));
        }
        Reply::from_source(CallReply::new(self.clone(), slot, call, turn, None))
    }

    /// Writes a call to the outbox, which copies it: the thread keeps the buffer for the next one.
    fn write(&self, call: &Call, slot: &CallSlot) -> Result<(), TransportError> {
        thread_local! {
            static BUFFER: Cell<BytesMut> = Cell::default();
        }
        let mut request = ObjectWriter::in_buffer(BUFFER.take());
        era::write_request(&mut request, slot.key(), call, self.era());
        let line = request.finish_line();
        let sent = self.outbox.send(&line, flush(slot.in_flight()));
        // One huge call must not cost its memory for ever.
        if line.capacity() <= LARGEST_KEPT {
            BUFFER.set(line);
        }
        sent
    }

    async fn request(self: &Arc<Self>, method: &Method, params: Option<&RawJson>) -> Result<ResponsePayload, Fault> {
        let mut slot = self.table.open_own()?;
        let line = write_numbered(slot.key(), method.as_str(), params);
        match self.outbox.send(&line, FlushMode::Now) {
            Ok(()) => self.body(&mut slot).await,
            Err(error) => Err(self.unsent(&error).await),
        }
    }

    /// Why a request of our own could not be sent. A server that ended before it read anything is about to be noticed:
    /// how it ended and its last output explain more than a closed input.
    async fn unsent(&self, error: &TransportError) -> Fault {
        let fault = self.send_fault(error);
        if error.kind != TransportErrorKind::Lost {
            return fault;
        }
        match tokio::time::timeout(END_LIMIT, self.table.lost()).await {
            Ok(end) => (*end).clone().sent(SentState::NotSent),
            Err(_) => fault,
        }
    }

    async fn body(self: &Arc<Self>, slot: &mut CallSlot) -> Result<ResponsePayload, Fault> {
        loop {
            match slot.next().await {
                CallArrival::Answer(line) => return self.read_body(line, slot.key()),
                CallArrival::Failed(fault) | CallArrival::Lost(fault) => return Err((*fault).clone()),
                CallArrival::Question(request, _) => question_router::refuse_no_call(self, request),
                CallArrival::Note(_) | CallArrival::Refused(_) | CallArrival::Done(_) => {}
            }
        }
    }

    fn read_body(&self, line: Bytes, key: u64) -> Result<ResponsePayload, Fault> {
        let unacceptable = |why: String| self.table.context.fault(FaultCode::InvalidResponse, why);
        match RpcMessage::parse(line) {
            Ok(RpcMessage::Response(response)) if response.id.as_ref().and_then(|id| id.as_u64()) == Some(key) => {
                Ok(response.body)
            }
            Ok(_) => Err(unacceptable("the answer has another id".into())),
            Err(error) => Err(unacceptable(error.to_string())),
        }
    }

    fn send_fault(&self, error: &TransportError) -> Fault {
        if error.kind == TransportErrorKind::Lost {
            self.begin_to_end();
        }
        call_fault(error).on_server(&self.table.context.server)
    }

    /// The end is certain.
    fn begin_to_end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    fn was_deaf(&self) -> bool {
        self.is_deaf.load(Ordering::Acquire)
    }

    /// The wire is gone: every call in flight ends with `fault`, and no new one begins. Only the first reason counts.
    fn finish(&self, fault: Arc<Fault>) {
        self.begin_to_end();
        if self.table.record_end(fault.clone()) {
            self.table.close(&fault);
        }
    }
}

/// When a message leaves, with so many calls in flight.
fn flush(in_flight: usize) -> FlushMode {
    if in_flight <= FEW { FlushMode::Now } else { FlushMode::Soon }
}
