//! The reply of a call on any wire: polled straight out of the table of calls in flight, without a channel or a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker, ready};

use tsugi_protocol::answer::{Call, Fault, FaultCode, Outcome, Reply, ReplyEvent, ReplySource, SentState};
use tsugi_protocol::era::notification;
use tsugi_protocol::mcp::{Method, ProtocolVersion};
use tsugi_protocol::rpc::{RpcError, RpcNotification, RpcRequest, RpcResponse, code};

use super::context::{QuestionAdmission, RefusalReason};
use super::in_flight::{CallArrival, CallSlot, CallWire, ConnectionId};
use super::parked::{OpenQuestion, ParkedRest};
use super::question_batch::QuestionBatch;
use super::question_owner::QuestionClient;
use super::turnstile::TurnPermit;
use super::{parse_response, question_router};

/// The half of a call that posts a request and follows its answer, on wires where each call has its own exchange. What
/// it brings last is the answer.
pub(crate) type UpstreamHalf = Pin<Box<dyn Future<Output = CallArrival> + Send>>;

/// A call in flight. Dropping it cancels the call at the server.
pub(crate) struct CallReply<W: CallWire> {
    wire: Arc<W>,
    /// Gone once the call has ended, or was parked.
    flight: Option<CallFlight>,
}

struct CallFlight {
    slot: CallSlot,
    /// As its caller made it last: a retry with answers may carry another progress token.
    call: Call,
    upstream: Option<UpstreamHalf>,
    /// What the upstream half brought, until everything that arrived before is out.
    last: Option<CallArrival>,
    /// Why a question of its server was refused.
    refusal: Option<RefusalReason>,
    turn: Option<TurnPermit>,
    is_parked: bool,
    /// Its server has asked, or may have.
    was_asked: bool,
    /// Questions of the server that the call is about to be parked with.
    batch: Option<Box<QuestionBatch>>,
}

impl CallFlight {
    /// What arrives next; what came before the upstream half ended comes before what it brought.
    fn poll_arrival(&mut self, task: &mut TaskContext<'_>) -> Poll<CallArrival> {
        loop {
            if let Poll::Ready(arrival) = self.slot.poll_next(task) {
                return Poll::Ready(arrival);
            }
            if let Some(last) = self.last.take() {
                return Poll::Ready(last);
            }
            let Some(upstream) = &mut self.upstream else { return Poll::Pending };
            self.last = Some(ready!(upstream.as_mut().poll(task)));
            self.upstream = None;
        }
    }

    /// The questions that it has not been parked with, read or not.
    fn take_questions(&mut self) -> Vec<RpcRequest> {
        let mut questions: Vec<RpcRequest> =
            QuestionBatch::take(&mut self.batch).into_iter().map(|asked| asked.request).collect();
        while let Poll::Ready(arrival) = self.slot.poll_next(&mut TaskContext::from_waker(Waker::noop())) {
            if let CallArrival::Question(request, _) = arrival {
                questions.push(request);
            }
        }
        questions
    }

    fn set_parked(&mut self, is_parked: bool) {
        self.is_parked = is_parked;
        if let Some(turn) = &mut self.turn {
            turn.set_parked(is_parked);
        }
    }
}

impl<W: CallWire> CallReply<W> {
    pub(crate) fn new(
        wire: Arc<W>,
        slot: CallSlot,
        call: Call,
        turn: Option<TurnPermit>,
        upstream: Option<UpstreamHalf>,
    ) -> Self {
        let flight = CallFlight {
            slot,
            call,
            upstream,
            last: None,
            refusal: None,
            turn,
            is_parked: false,
            was_asked: false,
            batch: None,
        };
        Self { wire, flight: Some(flight) }
    }

    /// Ends the call. Questions that were taken for its own and are still open are another call's of the same session:
    /// a server does not answer a call while it waits for an answer itself.
    fn end(&mut self, outcome: Outcome) -> ReplyEvent {
        let Some(mut flight) = self.flight.take() else { return ReplyEvent::Done(outcome) };
        let table = self.wire.table();
        let outcome = table.context.explain(&flight.call, flight.refusal.as_ref(), outcome);
        // Calls of servers that never ask are spared this and its locks.
        if !table.turnstile.is_on() && !table.ledger.has_asked() {
            return ReplyEvent::Done(outcome);
        }
        let open = flight.take_questions();
        let client = QuestionClient::of(flight.slot.key(), &flight.call);
        // A call that failed may have ended before the point where its tool asks.
        let has_succeeded = matches!(&outcome, Outcome::Complete(complete) if !complete.is_tool_error());
        let was_alone = flight.turn.as_ref().is_some_and(TurnPermit::is_alone);
        let is_quiet = has_succeeded && was_alone && !flight.was_asked;
        table.ledger.end(flight.slot.key(), &flight.call, is_quiet);
        // The slot and the turn are given back first, so that the questions cannot come back here.
        drop(flight);
        for request in open {
            question_router::route_question(&self.wire, request, Some(&client));
        }
        ReplyEvent::Done(outcome)
    }

    /// Takes a question of the server: it joins others that came at the same time, or is refused.
    fn ask(&mut self, request: RpcRequest) {
        let Some(flight) = &mut self.flight else { return };
        let table = self.wire.table();
        flight.was_asked = true;
        // Withdrawn while it waited for this call to look.
        if !table.ledger.is_open(flight.slot.key(), &request.id) {
            return;
        }
        match table.context.admit(&flight.call, &request) {
            QuestionAdmission::Ask(question) => {
                QuestionBatch::add(&mut flight.batch, OpenQuestion { question, request });
            }
            QuestionAdmission::Refuse { response, reason } => {
                table.ledger.remove(&request.id);
                self.wire.send(response.to_bytes());
                flight.refusal = flight.refusal.take().or(reason);
            }
        }
    }

    /// Parks the call with those of these questions that are still open. It goes on when there are none, or when too
    /// many calls are parked: it was sent already, so it cannot be refused as a whole.
    fn park(&mut self, mut asked: Vec<OpenQuestion>) -> Option<ReplyEvent> {
        let mut flight = self.flight.take()?;
        let (table, key) = (self.wire.table(), flight.slot.key());
        asked.retain(|asked| table.ledger.is_open(key, &asked.request.id));
        if table.context.parked.len() >= table.context.options.max_parked {
            for asked in asked.drain(..) {
                table.ledger.remove(&asked.request.id);
                let error = RpcError::new(code::INTERNAL_ERROR, "too many calls wait for input");
                self.wire.send(RpcResponse::error(Some(asked.request.id), error).to_bytes());
                flight.refusal.get_or_insert(RefusalReason::TooManyParked);
            }
        }
        if asked.is_empty() {
            self.flight = Some(flight);
            return None;
        }
        let (call, ids) = (flight.call.clone(), asked.iter().map(|asked| asked.request.id.clone()).collect::<Vec<_>>());
        flight.set_parked(true);
        let rest = Box::new(CallReply { wire: self.wire.clone(), flight: Some(flight) });
        let parked = table.context.park(&call, asked, rest);
        for id in ids.iter().filter(|id| !table.ledger.is_open(key, id)) {
            // Withdrawn between the look above and the parking.
            table.context.parked.withdraw(table.id, id);
        }
        if table.turnstile.has_queue() {
            table.hurry_parked();
        }
        Some(ReplyEvent::Done(parked))
    }
}

impl<W: CallWire> ReplySource for CallReply<W> {
    fn poll_event(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<ReplyEvent> {
        loop {
            let this = &mut *self;
            let Some(flight) = &mut this.flight else { return Poll::Pending };
            let Poll::Ready(arrival) = flight.poll_arrival(task) else {
                let asked = ready!(QuestionBatch::poll(&mut flight.batch, task));
                match this.park(asked) {
                    Some(event) => return Poll::Ready(event),
                    None => continue,
                }
            };
            let event = match arrival {
                CallArrival::Answer(line) => {
                    let (context, identity) = (&this.wire.table().context, this.wire.identity());
                    let key = flight.slot.key();
                    let outcome = parse_response::answer(context, &identity, &flight.call, key, line);
                    Some(this.end(outcome))
                }
                CallArrival::Done(outcome) => Some(this.end(*outcome)),
                CallArrival::Note(note) => for_caller(&flight.call, note).map(ReplyEvent::Note),
                CallArrival::Question(request, turn) => {
                    flight.turn = flight.turn.take().or(turn);
                    this.ask(request);
                    None
                }
                CallArrival::Refused(reason) => {
                    flight.was_asked = true;
                    flight.refusal.get_or_insert(reason);
                    None
                }
                CallArrival::Failed(fault) => Some(this.end(Outcome::fault((*fault).clone()))),
                CallArrival::Lost(fault) => Some(this.end(Outcome::fault(lost(&fault)))),
            };
            if let Some(event) = event {
                return Poll::Ready(event);
            }
        }
    }
}

impl<W: CallWire> ParkedRest for CallReply<W> {
    fn connection(&self) -> ConnectionId {
        self.wire.table().id
    }

    fn version(&self) -> ProtocolVersion {
        self.wire.identity().version
    }

    fn identity(&self) -> Option<(u64, QuestionClient)> {
        let flight = self.flight.as_ref()?;
        Some((flight.slot.key(), QuestionClient::of(flight.slot.key(), &flight.call)))
    }

    fn holds_turn(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.turn.is_some())
    }

    fn withdrawn(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.set_parked(false);
        }
    }

    fn resume(mut self: Box<Self>, call: &Call, answers: Vec<RpcResponse>, unanswered: Vec<OpenQuestion>) -> Reply {
        let Some(flight) = &mut self.flight else { return Reply::from_source(*self) };
        // Progress and log messages follow the request that is answered now.
        flight.call = call.clone();
        flight.is_parked = false;
        flight.batch = QuestionBatch::of(unanswered);
        let Some(drained) = flight.turn.as_mut().and_then(TurnPermit::resume) else {
            return self.go_on(&answers);
        };
        // Shared calls have passed. The server may ask again as soon as it has its answer, so they end first.
        let patience = self.wire.table().context.options.input_patience;
        Reply::from_pending_reply(async move {
            let _ = tokio::time::timeout(patience, drained).await;
            self.go_on(&answers)
        })
    }

    fn abandon(self: Box<Self>, refusals: Vec<RpcResponse>) {
        refusals.iter().for_each(|refusal| self.wire.send(refusal.to_bytes()));
    }
}

impl<W: CallWire> CallReply<W> {
    fn go_on(self: Box<Self>, answers: &[RpcResponse]) -> Reply {
        let Some(flight) = &self.flight else { return Reply::from_source(*self) };
        for answer in answers {
            // A question that was withdrawn in the meantime must not be answered.
            if answer.id.as_ref().is_some_and(|id| self.wire.table().ledger.remove(id)) {
                self.wire.deliver(flight.slot.key(), answer);
            }
        }
        Reply::from_source(*self)
    }
}

impl<W: CallWire> Drop for CallReply<W> {
    fn drop(&mut self) {
        let Some(mut flight) = self.flight.take() else { return };
        // The server must not wait for answers that will not come.
        for request in flight.take_questions() {
            question_router::refuse(&self.wire, request, code::INTERNAL_ERROR, "the call was cancelled");
        }
        // Before the slot and the turn are given back: the next call must come after the cancellation.
        let turn = flight.turn.take();
        question_router::cancel(&self.wire, flight.slot.key(), &flight.call, flight.is_parked, turn);
    }
}

/// The fault of a call that was sent when its connection ended. `SERVER_NOT_RUNNING` would say that it was not.
fn lost(fault: &Fault) -> Fault {
    let code = match fault.code {
        FaultCode::ServerNotRunning => FaultCode::ConnectionLost,
        code => code,
    };
    Fault { code, ..fault.clone() }.sent(SentState::Unknown)
}

/// A notification as this caller should see it: progress under the caller's own token, log messages only as severe as
/// asked for. Progress that the caller did not ask for keeps our token; it shows that the call is alive.
fn for_caller(call: &Call, note: RpcNotification) -> Option<RpcNotification> {
    match note.method {
        Method::Progress => Some(match &call.meta.progress_token {
            Some(token) => notification::progress_with_token(&note, token),
            None => note,
        }),
        Method::LogMessage => notification::is_log_wanted(&note, call.meta.log_level).then_some(note),
        _ => Some(note),
    }
}
