//! One read under way for everybody who asks the same: it goes on while anybody waits, whoever began it.
//!
//! Whoever waits polls the one reply with a waker of their own, and the last who polled is woken by the server's side.
//! That one wakes the others when something came, and when it goes away itself. So a read that nobody shares costs
//! no more than one that cannot be shared.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tsugi_protocol::answer::{Answer, Call, Event, Note, Outcome, Reply, Source};

use super::Lifetime;
use super::key::Key;
use super::store::Store;

/// A read under way. When the last who waits for it goes, it is cancelled.
pub(super) struct Flight {
    store: Arc<Store>,
    pub(super) key: Key,
    pub(super) lifetime: Lifetime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Absent before the call is made and after it ended.
    reply: Option<Reply>,
    /// Set at the end, when there is more than one to take it.
    outcome: Option<Outcome>,
    /// The last note and how many there were: a sign of life for those who wait.
    note: Option<Note>,
    notes: u64,
    /// How many wait, and the number of the next.
    riders: usize,
    next: u64,
    /// Those to be woken, by number.
    waiting: SmallVec<[(u64, Waker); 2]>,
}

impl State {
    fn listen(&mut self, number: u64, waker: &Waker) {
        match self.waiting.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => known.clone_from(waker),
            None => self.waiting.push((number, waker.clone())),
        }
    }

    /// Everybody but this one, to be woken once the lock is free.
    fn others(&mut self, number: u64) -> SmallVec<[Waker; 2]> {
        let all = std::mem::take(&mut self.waiting);
        all.into_iter().filter(|(known, _)| *known != number).map(|(_, waker)| waker).collect()
    }
}

fn wake(wakers: SmallVec<[Waker; 2]>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl Flight {
    pub(super) fn new(store: Arc<Store>, key: Key, lifetime: Lifetime) -> Arc<Self> {
        Arc::new(Self { store, key, lifetime, state: Mutex::default() })
    }

    /// One more who waits.
    pub(super) fn board(self: Arc<Self>) -> Rider {
        let mut state = self.state.lock();
        state.riders += 1;
        state.next += 1;
        let number = state.next;
        drop(state);
        Rider { flight: self, number, seen: 0, own: None, reply: None }
    }

    fn poll(&self, number: u64, seen: &mut u64, context: &mut Context<'_>) -> Poll<Event> {
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(Event::Done(outcome.clone()));
        }
        if *seen < state.notes
            && let Some(note) = state.note.clone()
        {
            *seen = state.notes;
            return Poll::Ready(Event::Note(note));
        }
        let polled = match &mut state.reply {
            Some(reply) => reply.poll_event(context),
            None => Poll::Pending,
        };
        match polled {
            Poll::Pending => {
                state.listen(number, context.waker());
                Poll::Pending
            }
            Poll::Ready(Event::Note(note)) => {
                state.note = Some(note.clone());
                state.notes += 1;
                *seen = state.notes;
                let others = state.others(number);
                drop(state);
                wake(others);
                Poll::Ready(Event::Note(note))
            }
            Poll::Ready(Event::Done(outcome)) => {
                let reply = state.reply.take();
                drop(state);
                drop(reply);
                self.land(number, &outcome);
                Poll::Ready(Event::Done(outcome))
            }
        }
    }

    /// The call ended.
    fn land(&self, number: u64, outcome: &Outcome) {
        // From here on nobody joins, so that whoever is counted below is everybody.
        self.store.land(self, outcome);
        let mut state = self.state.lock();
        if state.riders > 1 {
            state.outcome = Some(outcome.clone());
        }
        let others = state.others(number);
        drop(state);
        wake(others);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.store.forget_flight(self);
    }
}

/// Somebody who waits.
pub(super) struct Rider {
    flight: Arc<Flight>,
    number: u64,
    seen: u64,
    own: Option<(Arc<dyn Answer>, Call)>,
    reply: Option<Reply>,
}

impl Rider {
    /// The call was made; its reply is everybody's.
    pub(super) fn depart(self, reply: Reply) -> Reply {
        match reply.into_ready() {
            Ok(outcome) => {
                self.flight.land(self.number, &outcome);
                Reply::ready(outcome)
            }
            Err(reply) => {
                let mut state = self.flight.state.lock();
                state.reply = Some(reply);
                let others = state.others(self.number);
                drop(state);
                wake(others);
                Reply::from_source(self)
            }
        }
    }

    /// The reply of somebody who asks the same. A question that the server asks back was sealed for the one
    /// who made the call, so then everybody makes a call of their own.
    pub(super) fn follow(mut self, inner: Arc<dyn Answer>, call: Call) -> Reply {
        self.own = Some((inner, call));
        Reply::from_source(self)
    }
}

impl Source for Rider {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(reply) = &mut self.reply {
            return reply.poll_event(context);
        }
        let rider = &mut *self;
        match std::task::ready!(rider.flight.poll(rider.number, &mut rider.seen, context)) {
            Event::Done(Outcome::InputRequired(asked)) => match rider.own.take() {
                None => Poll::Ready(Event::Done(Outcome::InputRequired(asked))),
                Some((inner, call)) => rider.reply.insert(inner.answer(call)).poll_event(context),
            },
            event => Poll::Ready(event),
        }
    }
}

impl Drop for Rider {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        state.riders -= 1;
        // The server's side may know only our waker, so the others have to ask again.
        let others = state.others(self.number);
        drop(state);
        wake(others);
    }
}
