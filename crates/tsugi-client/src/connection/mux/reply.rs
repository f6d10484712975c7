//! The reply of a call on a shared stream: polled straight out of the table, without a channel or a task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use tsugi_protocol::answer::{Call, Event, Failure, Outcome, Reply, SentState, Source};
use tsugi_protocol::era::change;
use tsugi_protocol::json::{Raw, Splice};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::rpc::pending::Ticket;
use tsugi_protocol::rpc::{Notification, Request, Response};

use super::{Arrival, Shared, Tag};
use crate::connection::parked::Resume;
use crate::connection::reading;
use crate::connection::turnstile::Turn;

/// A call in flight. Dropping it cancels the call at the server.
pub(super) struct MuxReply {
    shared: Arc<Shared>,
    /// Gone once the call has ended, or was parked.
    flight: Option<Flight>,
}

struct Flight {
    ticket: Ticket<Arrival, Tag>,
    call: Call,
    /// What the caller lacks that the server asked for.
    lacking: Option<Raw>,
    turn: Option<Turn>,
}

impl Flight {
    fn set_parked(&mut self, is_parked: bool) {
        if let Some(turn) = &mut self.turn {
            turn.set_parked(is_parked);
        }
    }
}

impl MuxReply {
    pub(super) fn new(shared: Arc<Shared>, ticket: Ticket<Arrival, Tag>, call: Call, turn: Option<Turn>) -> Self {
        Self { shared, flight: Some(Flight { ticket, call, lacking: None, turn }) }
    }

    fn end(&mut self, outcome: Outcome) -> Event {
        if let Some(flight) = self.flight.take() {
            self.shared.stopped_asking(flight.ticket.key());
        }
        self.shared.settle();
        Event::Done(outcome)
    }

    /// Parks the call with its question, or sends the refusal and goes on.
    fn ask(&mut self, request: Request) -> Option<Event> {
        let mut flight = self.flight.take()?;
        if self.shared.is_answered(flight.ticket.key()) {
            // The answer is there already, so the question is another call's.
            self.flight = Some(flight);
            self.shared.route_question(request);
            return None;
        }
        let (key, id) = (flight.ticket.key(), request.id.clone());
        if !self.shared.is_open(key, &id) {
            self.flight = Some(flight);
            return None;
        }
        match self.shared.context.admit(&flight.call, &request) {
            Err(refusal) => {
                self.shared.respond(&refusal.response);
                flight.lacking = flight.lacking.or(refusal.lacking);
                self.shared.settled(key, &id);
                self.flight = Some(flight);
                None
            }
            Ok(question) => {
                let call = flight.call.clone();
                flight.set_parked(true);
                let rest = Box::new(MuxReply { shared: self.shared.clone(), flight: Some(flight) });
                let parked = self.shared.context.park(&call, request, question, rest);
                if !self.shared.is_open(key, &id) {
                    // Taken back in this very moment.
                    self.shared.context.parked.withdraw(self.shared.place(), &id);
                }
                if self.shared.turnstile.has_line() {
                    self.shared.hurry();
                }
                Some(Event::Done(parked))
            }
        }
    }
}

impl Source for MuxReply {
    fn poll_event(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Event> {
        loop {
            let this = &mut *self;
            let Some(flight) = &mut this.flight else { return Poll::Pending };
            let event = match ready!(flight.ticket.poll_next(task)) {
                Arrival::Answer(line) => {
                    let identity = this.shared.identity();
                    let key = flight.ticket.key();
                    let context = &this.shared.context;
                    let outcome = reading::answer(context, identity, &flight.call, key, line);
                    let outcome = context.explain(&flight.call, flight.lacking.as_ref(), outcome);
                    Some(this.end(outcome))
                }
                Arrival::Note(note) => for_caller(&flight.call, note).map(Event::Note),
                Arrival::Question(request) => this.ask(request),
                Arrival::Failed(fault) => Some(this.end(Outcome::Failed(Failure::from((*fault).clone())))),
                Arrival::Lost(fault) => {
                    let fault = (*fault).clone().sent(SentState::Unknown);
                    Some(this.end(Outcome::Failed(Failure::from(fault))))
                }
            };
            if let Some(event) = event {
                return Poll::Ready(event);
            }
        }
    }
}

impl Resume for MuxReply {
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

    fn resume(mut self: Box<Self>, answer: Option<Response>) -> Reply {
        if let Some(flight) = &mut self.flight {
            flight.set_parked(false);
        }
        if let Some(answer) = answer {
            if let (Some(flight), Some(id)) = (&self.flight, &answer.id) {
                self.shared.settled(flight.ticket.key(), id);
            }
            self.shared.respond(&answer);
        }
        Reply::from_source(*self)
    }

    fn abandon(self: Box<Self>, refusal: Response) {
        self.shared.respond(&refusal);
    }
}

impl Drop for MuxReply {
    fn drop(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        let mut params = Splice::with_capacity(64);
        params.number("requestId", flight.ticket.key());
        let cancelled = Notification::new(Method::Cancelled, Some(params.finish()));
        self.shared.send(&cancelled.to_bytes());
        self.shared.stopped_asking(flight.ticket.key());
        drop(flight);
        self.shared.settle();
    }
}

/// A note as this caller should see it: progress under the caller's own token, log lines only as severe
/// as asked for. Progress that the caller did not ask for keeps our token; it shows that the call is alive.
pub(crate) fn for_caller(call: &Call, note: Notification) -> Option<Notification> {
    match note.method {
        Method::Progress => Some(match &call.meta.progress_token {
            Some(token) => change::progress_with_token(&note, token),
            None => note,
        }),
        Method::LogMessage => is_wanted(call, &note).then_some(note),
        _ => Some(note),
    }
}

fn is_wanted(call: &Call, note: &Notification) -> bool {
    let Some(wanted) = call.meta.log_level else { return false };
    let level = note.params_object().get("level").as_ref().and_then(Raw::as_string);
    level.as_deref().and_then(LogLevel::parse).is_none_or(|level| level >= wanted)
}
