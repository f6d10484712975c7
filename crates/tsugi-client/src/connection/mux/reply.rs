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

use super::asking::Standing;
use super::{Arrival, Shared, Tag};
use crate::connection::gathering::Gathering;
use crate::connection::parked::{Asked, Resume};
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
    /// Questions of the server that the call is about to be parked with.
    gathering: Option<Box<Gathering>>,
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
        Self { shared, flight: Some(Flight { ticket, call, lacking: None, turn, gathering: None }) }
    }

    fn end(&mut self, outcome: Outcome) -> Event {
        if let Some(flight) = self.flight.take() {
            self.shared.stopped_asking(flight.ticket.key());
        }
        self.shared.settle();
        Event::Done(outcome)
    }

    /// Takes a question of the server: it is gathered with others, refused, or goes where it belongs.
    fn ask(&mut self, request: Request) {
        let Some(flight) = &mut self.flight else { return };
        let (key, id) = (flight.ticket.key(), request.id.clone());
        match self.shared.standing(key, &id) {
            Standing::Withdrawn => return,
            Standing::Misplaced => return self.shared.route_question(request),
            Standing::Open => {}
        }
        match self.shared.context.admit(&flight.call, &request) {
            Ok(question) => Gathering::add(&mut flight.gathering, Asked { question, request, is_guess: true }),
            Err(refusal) => {
                self.shared.respond(&refusal.response);
                flight.lacking = flight.lacking.take().or(refusal.lacking);
                self.shared.settled(key, &id);
            }
        }
    }

    /// Parks the call with these questions. It goes on when none of them is its own and open any more.
    fn park(&mut self, asked: Vec<Asked>) -> Option<Event> {
        let mut flight = self.flight.take()?;
        let key = flight.ticket.key();
        let (open, others): (Vec<Asked>, Vec<Asked>) =
            asked.into_iter().partition(|asked| self.shared.standing(key, &asked.request.id) == Standing::Open);
        self.route_misplaced(key, others);
        if open.is_empty() {
            self.flight = Some(flight);
            return None;
        }
        let (call, ids) = (flight.call.clone(), open.iter().map(|asked| asked.request.id.clone()).collect::<Vec<_>>());
        flight.set_parked(true);
        let rest = Box::new(MuxReply { shared: self.shared.clone(), flight: Some(flight) });
        let parked = self.shared.context.park(&call, open, rest);
        for id in ids.iter().filter(|id| self.shared.standing(key, id) == Standing::Withdrawn) {
            // Taken back in this very moment.
            self.shared.context.parked.withdraw(self.shared.place(), id);
        }
        if self.shared.turnstile.has_line() {
            self.shared.hurry();
        }
        Some(Event::Done(parked))
    }

    /// The server has answered this call, so its questions are another call's.
    fn route_misplaced(&self, key: u64, asked: Vec<Asked>) {
        for asked in asked {
            if self.shared.standing(key, &asked.request.id) == Standing::Misplaced {
                self.shared.route_question(asked.request);
            }
        }
    }
}

impl Source for MuxReply {
    fn poll_event(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Event> {
        loop {
            let this = &mut *self;
            let Some(flight) = &mut this.flight else { return Poll::Pending };
            let Poll::Ready(arrival) = flight.ticket.poll_next(task) else {
                let asked = ready!(Gathering::poll(&mut flight.gathering, task));
                match this.park(asked) {
                    Some(event) => return Poll::Ready(event),
                    None => continue,
                }
            };
            let event = match arrival {
                Arrival::Answer(line) => {
                    let asked = Gathering::take(&mut flight.gathering);
                    let identity = this.shared.identity();
                    let key = flight.ticket.key();
                    let context = &this.shared.context;
                    let outcome = reading::answer(context, identity, &flight.call, key, line);
                    let outcome = context.explain(&flight.call, flight.lacking.as_ref(), outcome);
                    if !asked.is_empty() {
                        // The reader may be about to note it, and the questions must not come back here.
                        this.shared.answered(key);
                        this.route_misplaced(key, asked);
                    }
                    Some(this.end(outcome))
                }
                Arrival::Note(note) => for_caller(&flight.call, note).map(Event::Note),
                Arrival::Question(request) => {
                    this.ask(request);
                    None
                }
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

    fn resume(mut self: Box<Self>, answers: Vec<Response>, unanswered: Vec<Asked>) -> Reply {
        let Some(flight) = &mut self.flight else { return Reply::from_source(*self) };
        flight.set_parked(false);
        flight.gathering = Gathering::of(unanswered);
        let key = flight.ticket.key();
        for answer in &answers {
            if let Some(id) = &answer.id {
                self.shared.settled(key, id);
            }
            self.shared.respond(answer);
        }
        Reply::from_source(*self)
    }

    fn abandon(self: Box<Self>, refusals: Vec<Response>) {
        refusals.iter().for_each(|refusal| self.shared.respond(refusal));
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
