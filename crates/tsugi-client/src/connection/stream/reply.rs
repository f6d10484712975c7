//! The reply of a call on a shared stream: polled straight out of the table, without a channel or a task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use tsugi_protocol::answer::{Call, CallFailure, Outcome, Reply, ReplyEvent, ReplySource, SentState};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::rpc::pending::CallTicket;
use tsugi_protocol::rpc::{RpcNotification, RpcRequest, RpcResponse};

use super::questions::QuestionStanding;
use super::{CallArrival, InFlightCall, StreamCore};
use crate::connection::parked::{OpenQuestion, ParkedRest};
use crate::connection::parse_response;
use crate::connection::question_batch::QuestionBatch;
use crate::connection::turnstile::TurnPermit;

/// A call in flight. Dropping it cancels the call at the server.
pub(super) struct StreamReply {
    shared: Arc<StreamCore>,
    /// Gone once the call has ended, or was parked.
    flight: Option<StreamFlight>,
}

struct StreamFlight {
    ticket: CallTicket<CallArrival, InFlightCall>,
    call: Call,
    /// What the caller lacks that the server asked for.
    lacking: Option<RawJson>,
    turn: Option<TurnPermit>,
    /// Questions of the server that the call is about to be parked with.
    gathering: Option<Box<QuestionBatch>>,
}

impl StreamFlight {
    fn set_parked(&mut self, is_parked: bool) {
        if let Some(turn) = &mut self.turn {
            turn.set_parked(is_parked);
        }
    }
}

impl StreamReply {
    pub(super) fn new(
        shared: Arc<StreamCore>,
        ticket: CallTicket<CallArrival, InFlightCall>,
        call: Call,
        turn: Option<TurnPermit>,
    ) -> Self {
        Self { shared, flight: Some(StreamFlight { ticket, call, lacking: None, turn, gathering: None }) }
    }

    fn end(&mut self, outcome: Outcome) -> ReplyEvent {
        if let Some(flight) = self.flight.take() {
            self.shared.stopped_asking(flight.ticket.key());
        }
        self.shared.settle();
        ReplyEvent::Done(outcome)
    }

    /// Takes a question of the server: it is gathered with others, refused, or goes where it belongs.
    fn ask(&mut self, request: RpcRequest) {
        let Some(flight) = &mut self.flight else { return };
        let (key, id) = (flight.ticket.key(), request.id.clone());
        match self.shared.standing(key, &id) {
            QuestionStanding::Withdrawn => return,
            QuestionStanding::Misplaced => return self.shared.route_question(request),
            QuestionStanding::Open => {}
        }
        match self.shared.context.admit(&flight.call, &request) {
            Ok(question) => {
                QuestionBatch::add(&mut flight.gathering, OpenQuestion { question, request, is_guess: true })
            }
            Err(refusal) => {
                self.shared.respond(&refusal.response);
                flight.lacking = flight.lacking.take().or(refusal.lacking);
                self.shared.settled(key, &id);
            }
        }
    }

    /// Parks the call with these questions. It goes on when none of them is its own and open any more.
    fn park(&mut self, asked: Vec<OpenQuestion>) -> Option<ReplyEvent> {
        let mut flight = self.flight.take()?;
        let key = flight.ticket.key();
        let (open, others): (Vec<OpenQuestion>, Vec<OpenQuestion>) =
            asked.into_iter().partition(|asked| self.shared.standing(key, &asked.request.id) == QuestionStanding::Open);
        self.route_misplaced(key, others);
        if open.is_empty() {
            self.flight = Some(flight);
            return None;
        }
        let (call, ids) = (flight.call.clone(), open.iter().map(|asked| asked.request.id.clone()).collect::<Vec<_>>());
        flight.set_parked(true);
        let rest = Box::new(StreamReply { shared: self.shared.clone(), flight: Some(flight) });
        let parked = self.shared.context.park(&call, open, rest);
        for id in ids.iter().filter(|id| self.shared.standing(key, id) == QuestionStanding::Withdrawn) {
            // Taken back in this very moment.
            self.shared.context.parked.withdraw(self.shared.place(), id);
        }
        if self.shared.turnstile.has_line() {
            self.shared.hurry();
        }
        Some(ReplyEvent::Done(parked))
    }

    /// The server has answered this call, so its questions are another call's.
    fn route_misplaced(&self, key: u64, asked: Vec<OpenQuestion>) {
        for asked in asked {
            if self.shared.standing(key, &asked.request.id) == QuestionStanding::Misplaced {
                self.shared.route_question(asked.request);
            }
        }
    }
}

impl ReplySource for StreamReply {
    fn poll_event(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<ReplyEvent> {
        loop {
            let this = &mut *self;
            let Some(flight) = &mut this.flight else { return Poll::Pending };
            let Poll::Ready(arrival) = flight.ticket.poll_next(task) else {
                let asked = ready!(QuestionBatch::poll(&mut flight.gathering, task));
                match this.park(asked) {
                    Some(event) => return Poll::Ready(event),
                    None => continue,
                }
            };
            let event = match arrival {
                CallArrival::Answer(line) => {
                    let asked = QuestionBatch::take(&mut flight.gathering);
                    let identity = this.shared.identity();
                    let key = flight.ticket.key();
                    let context = &this.shared.context;
                    let outcome = parse_response::answer(context, identity, &flight.call, key, line);
                    let outcome = context.explain_lacking(&flight.call, flight.lacking.as_ref(), outcome);
                    if !asked.is_empty() {
                        // The reader may be about to note it, and the questions must not come back here.
                        this.shared.answered(key);
                        this.route_misplaced(key, asked);
                    }
                    Some(this.end(outcome))
                }
                CallArrival::Note(note) => for_caller(&flight.call, note).map(ReplyEvent::Note),
                CallArrival::Question(request) => {
                    this.ask(request);
                    None
                }
                CallArrival::Failed(fault) => Some(this.end(Outcome::Failed(CallFailure::from((*fault).clone())))),
                CallArrival::Lost(fault) => {
                    let fault = (*fault).clone().sent(SentState::Unknown);
                    Some(this.end(Outcome::Failed(CallFailure::from(fault))))
                }
            };
            if let Some(event) = event {
                return Poll::Ready(event);
            }
        }
    }
}

impl ParkedRest for StreamReply {
    fn key(&self) -> Option<u64> {
        self.flight.as_ref().map(|flight| flight.ticket.key())
    }

    fn connection(&self) -> usize {
        self.shared.place()
    }

    fn withdrawn(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.set_parked(false);
        }
    }

    fn resume(mut self: Box<Self>, answers: Vec<RpcResponse>, unanswered: Vec<OpenQuestion>) -> Reply {
        let Some(flight) = &mut self.flight else { return Reply::from_source(*self) };
        flight.set_parked(false);
        flight.gathering = QuestionBatch::of(unanswered);
        let key = flight.ticket.key();
        for answer in &answers {
            if let Some(id) = &answer.id {
                self.shared.settled(key, id);
            }
            self.shared.respond(answer);
        }
        Reply::from_source(*self)
    }

    fn abandon(self: Box<Self>, refusals: Vec<RpcResponse>) {
        refusals.iter().for_each(|refusal| self.shared.respond(refusal));
    }
}

impl Drop for StreamReply {
    fn drop(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        let mut params = ObjectWriter::with_capacity(64);
        params.number("requestId", flight.ticket.key());
        let cancelled = RpcNotification::new(Method::Cancelled, Some(params.finish()));
        self.shared.send(&cancelled.to_bytes());
        self.shared.stopped_asking(flight.ticket.key());
        drop(flight);
        self.shared.settle();
    }
}

/// A note as this caller should see it: progress under the caller's own token, log lines only as severe
/// as asked for. Progress that the caller did not ask for keeps our token; it shows that the call is alive.
pub(crate) fn for_caller(call: &Call, note: RpcNotification) -> Option<RpcNotification> {
    match note.method {
        Method::Progress => Some(match &call.meta.progress_token {
            Some(token) => notification::progress_with_token(&note, token),
            None => note,
        }),
        Method::LogMessage => is_wanted(call, &note).then_some(note),
        _ => Some(note),
    }
}

fn is_wanted(call: &Call, note: &RpcNotification) -> bool {
    let Some(wanted) = call.meta.log_level else { return false };
    let level = note.params_object().get("level").as_ref().and_then(RawJson::as_string);
    level.as_deref().and_then(LogLevel::parse).is_none_or(|level| level >= wanted)
}
