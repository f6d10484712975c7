//! The calls in flight on one connection: the table that every wire shares, and what a wire must offer for it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tsugi_protocol::answer::{Call, Fault, FaultCode, Outcome, Reply, SentState};
use tsugi_protocol::json::ObjectWriter;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::pending::{CallTicket, PendingCalls};
use tsugi_protocol::rpc::{RpcNotification, RpcRequest, RpcResponse};

use super::context::{ConnectionContext, RefusalReason};
use super::question_ledger::QuestionLedger;
use super::question_owner::QuestionClient;
use super::turnstile::{TurnKind, TurnPermit, Turnstile};

/// How many notifications may wait for a caller that does not read them.
pub(crate) const MAX_NOTES: usize = 256;

/// What arrives for a call.
pub(crate) enum CallArrival {
    /// The line with its answer, not validated yet.
    Answer(Bytes),
    /// Its outcome, for a wire that had to read the answer.
    Done(Box<Outcome>),
    Note(RpcNotification),
    /// A question that the server asks because of it, and the turn that a call gets which began before calls took turns.
    Question(RpcRequest, Option<TurnPermit>),
    /// A question that may have been this call's was refused.
    Refused(RefusalReason),
    /// The answer cannot be had. The connection goes on.
    Failed(Arc<Fault>),
    /// The connection is gone.
    Lost(Arc<Fault>),
}

/// What the table remembers of a call; no call for requests of our own, such as handshakes.
#[derive(Debug, Clone)]
pub(crate) struct InFlightCall(pub(super) Option<Call>);

impl InFlightCall {
    /// The call that a caller made. Our own listening to a server's changes is not one.
    pub(crate) fn of_caller(&self) -> Option<&Call> {
        self.0.as_ref().filter(|call| call.method != Method::Listen)
    }
}

/// Tells the connections of one server apart, for as long as the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionId(u64);

impl ConnectionId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) type CallSlot = CallTicket<CallArrival, InFlightCall>;

/// A connection that carries calls. The table, its questions and its replies are the same for all of them.
pub(crate) trait CallWire: Send + Sync + Sized + 'static {
    fn table(&self) -> &CallTable;

    fn identity(&self) -> Arc<ServerIdentity>;

    fn era(&self) -> Era;

    /// Sends a message that no call waits for.
    fn send(self: &Arc<Self>, message: Bytes);

    /// Sends the answer to a question of this call. The call fails when the answer cannot be delivered.
    fn deliver(self: &Arc<Self>, key: u64, answer: &RpcResponse);

    /// Makes a call that has its turn, if it needs one.
    fn start(self: &Arc<Self>, call: Call, turn: Option<TurnPermit>) -> Reply;

    /// True when messages arrive in the order in which the server sent them.
    fn is_ordered(&self) -> bool;

    /// True when giving up the reply of a modern call is enough to cancel it.
    fn cancels_by_closing(&self) -> bool;
}

/// The calls in flight, the questions that the server has asked because of them, and how the connection ended.
pub(crate) struct CallTable {
    pub(crate) context: Arc<ConnectionContext>,
    pub(crate) pending: Arc<PendingCalls<CallArrival, InFlightCall>>,
    pub(crate) id: ConnectionId,
    pub(super) turnstile: Arc<Turnstile>,
    pub(super) ledger: QuestionLedger,
    level: Mutex<Option<LogLevel>>,
    end: watch::Sender<Option<Arc<Fault>>>,
}

impl CallTable {
    pub(crate) fn new(context: Arc<ConnectionContext>) -> Self {
        Self {
            context,
            pending: Arc::default(),
            id: ConnectionId::next(),
            turnstile: Arc::default(),
            ledger: QuestionLedger::default(),
            level: Mutex::default(),
            end: watch::Sender::new(None),
        }
    }

    /// A slot for this call.
    pub(crate) fn open(&self, call: &Call) -> Result<CallSlot, Fault> {
        self.pending.open(InFlightCall(Some(call.clone()))).ok_or_else(|| self.open_fault())
    }

    /// A slot for a request of our own.
    pub(crate) fn open_own(&self) -> Result<CallSlot, Fault> {
        self.pending.open(InFlightCall(None)).ok_or_else(|| self.open_fault())
    }

    fn open_fault(&self) -> Fault {
        if !self.pending.is_closed() {
            return self.context.fault(FaultCode::Overloaded, "too many calls are in flight");
        }
        match self.end.borrow().as_deref() {
            // The old fault says why the server is gone, but this call was never sent.
            Some(fault) => fault.clone().sent(SentState::NotSent),
            None => self.context.fault(FaultCode::ServerNotRunning, "the server is not connected"),
        }
    }

    /// How many calls of callers are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        let mut count = 0;
        self.pending.for_each(|_, call| count += usize::from(call.of_caller().is_some()));
        count
    }

    /// The only call of a caller that is in flight, if there is exactly one.
    pub(crate) fn only_call(&self) -> Option<u64> {
        let mut keys = Vec::new();
        self.pending.for_each(|key, call| keys.extend(call.of_caller().map(|_| key)));
        <[u64; 1]>::try_from(keys).ok().map(|[key]| key)
    }

    /// Gives a notification to a call. A caller that does not read loses notifications, never its answer.
    pub(crate) fn note(&self, key: u64, note: RpcNotification) {
        let _ = self.pending.post_bounded(key, CallArrival::Note(note), MAX_NOTES);
    }

    /// Ends every call in flight with `fault`; no new one begins.
    pub(crate) fn close(&self, fault: &Arc<Fault>) {
        self.pending.close(|| CallArrival::Lost(fault.clone()));
    }

    /// Records why the connection ended; `false` when an earlier reason counts.
    pub(crate) fn record_end(&self, fault: Arc<Fault>) -> bool {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(fault);
            is_first
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Waits until the connection has ended.
    pub(crate) async fn lost(&self) -> Arc<Fault> {
        let mut end = self.end.subscribe();
        let fault = end.wait_for(|fault| fault.is_some()).await.map(|fault| fault.clone());
        match fault {
            Ok(Some(fault)) => fault,
            _ => std::future::pending().await,
        }
    }

    /// A new session of the server has forgotten which log level was set.
    pub(crate) fn forget_level(&self) {
        *self.level.lock() = None;
    }

    /// Makes calls take turns from now on, and remembers that the server asks.
    pub(super) fn begin_turns(&self) {
        self.turnstile.turn_on();
        self.context.asking.set_known();
    }

    /// How this call may run beside others; `None` when it needs no turn.
    fn turn_kind(&self, call: &Call) -> Option<TurnKind> {
        if !self.turnstile.is_on() || !call.method.may_ask() {
            return None;
        }
        self.ledger.turn_kind(call)
    }

    /// Waits for the turn of a call, but not until its deadline: a caller that gets `TIMEOUT` must assume that the call
    /// was made, and this one was not.
    async fn take_turn(&self, call: &Call, kind: TurnKind) -> Result<TurnPermit, Fault> {
        // The key of the call is not known yet. No other request has this one, which is all that matters here.
        let client = QuestionClient::of(unused_key(), call);
        let mut entering = pin!(self.turnstile.enter(kind, &call.caller, client));
        if let Some(turn) = entering.as_mut().now_or_never() {
            return Ok(turn);
        }
        // The turn may be held by a question whose client is away.
        self.hurry_parked();
        let limit = self.context.limits.idle_for(call) * 9 / 10;
        tokio::time::timeout(limit, entering).await.map_err(|_| self.no_turn(limit))
    }

    /// Shortens the time of calls that hold the turn while they are parked, because another call waits for it.
    pub(super) fn hurry_parked(&self) {
        self.context.parked.hurry(self.id, self.context.options.input_patience);
    }

    fn no_turn(&self, limit: Duration) -> Fault {
        let why = match self.turnstile.is_parked() {
            true => "the server waits for another caller's answer",
            false => "the server is busy with other callers' calls",
        };
        let mut fault = self.context.fault(FaultCode::Overloaded, format!("no turn within {limit:?}: {why}"));
        // An open question is given up after this time, so a turn will be free.
        fault.retry_after_ms = Some(self.context.options.input_patience.as_millis() as u64);
        fault.with_hint(
            "this server asks questions, so calls that may be asked take turns; give it `instances: auto`, \
             `instances: per-session` or a pool (`instances: {pool: 4}`) to serve callers side by side",
        )
    }
}

/// A number that is never the key of a call.
fn unused_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 60);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Answers a call over this wire: goes on with a parked one, or makes it when its turn comes.
pub(crate) fn answer<W: CallWire>(wire: &Arc<W>, call: Call) -> Reply {
    let call = match wire.table().context.resume_or_pass(call) {
        Ok(call) => call,
        Err(reply) => return reply,
    };
    let Some(kind) = wire.table().turn_kind(&call) else { return wire.start(call, None) };
    let wire = wire.clone();
    Reply::from_pending_reply(async move {
        match wire.table().take_turn(&call, kind).await {
            Ok(turn) => wire.start(call, Some(turn)),
            Err(fault) => Reply::fault(fault),
        }
    })
}

/// Sets the log level of a legacy server to the most verbose one that a caller wants.
pub(crate) fn raise_level<W: CallWire>(wire: &Arc<W>, call: &Call) {
    let Some(wanted) = call.meta.log_level else { return };
    if wire.era() == Era::Modern || !wire.identity().capabilities.has("logging") {
        return;
    }
    let mut level = wire.table().level.lock();
    if level.is_some_and(|level| level <= wanted) {
        return;
    }
    *level = Some(wanted);
    // Sending takes the lock of the table of calls.
    drop(level);
    let mut params = ObjectWriter::with_capacity(32);
    params.string("level", wanted.as_str());
    // The answer is not waited for. The slot only lends its number, which must not be another request's.
    if let Ok(slot) = wire.table().open_own() {
        wire.send(write_numbered(slot.key(), Method::SetLevel.as_str(), Some(&params.finish())));
    }
}
