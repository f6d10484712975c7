//! One read under way for everybody who asks the same: it goes on while anybody waits, whoever began it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use tsugi_protocol::answer::{Answer, Call, Event, Note, Outcome, Reply, Source};

use super::Lifetime;
use super::key::Key;
use super::store::Store;

/// A read under way. Its reply is polled by whoever waits; when the last of them goes, it is cancelled.
pub(super) struct Flight {
    store: Arc<Store>,
    pub(super) key: Key,
    pub(super) lifetime: Lifetime,
    state: Mutex<State>,
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    /// Absent before the call is made and after it ended.
    reply: Option<Reply>,
    outcome: Option<Outcome>,
    /// The last note and how many there were: a sign of life for those who wait.
    note: Option<Note>,
    notes: u64,
}

/// Wakes everybody who waits. Apart from the flight, since the server's side holds it: it must not keep
/// a flight alive that nobody waits for.
#[derive(Default)]
struct Bell {
    next: AtomicU64,
    waiting: Mutex<Vec<(u64, Waker)>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

impl Bell {
    fn listen(&self, number: u64, waker: &Waker) {
        let mut waiting = self.waiting.lock();
        match waiting.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((number, waker.clone())),
        }
    }

    fn leave(&self, number: u64) {
        self.waiting.lock().retain(|(known, _)| *known != number);
    }
}

impl Flight {
    pub(super) fn new(store: Arc<Store>, key: Key, lifetime: Lifetime) -> Arc<Self> {
        let bell = Arc::<Bell>::default();
        let waker = Waker::from(bell.clone());
        Arc::new(Self { store, key, lifetime, state: Mutex::default(), bell, waker })
    }

    /// The call was made; whoever waits may poll its reply.
    pub(super) fn depart(&self, reply: Reply) {
        self.state.lock().reply = Some(reply);
        self.bell.wake_by_ref();
    }

    /// The call ended.
    pub(super) fn land(self: &Arc<Self>, outcome: &Outcome) {
        let mut state = self.state.lock();
        state.outcome = Some(outcome.clone());
        let reply = state.reply.take();
        drop(state);
        drop(reply);
        self.store.land(self, outcome);
        self.bell.wake_by_ref();
    }

    /// The reply of the one who made the call.
    pub(super) fn lead(self: &Arc<Self>) -> Reply {
        self.board(None)
    }

    /// The reply of somebody who asks the same. A question that the server asks back was sealed for the one
    /// who made the call, so then everybody makes a call of their own.
    pub(super) fn follow(self: &Arc<Self>, inner: Arc<dyn Answer>, call: Call) -> Reply {
        self.board(Some((inner, call)))
    }

    fn board(self: &Arc<Self>, own: Option<(Arc<dyn Answer>, Call)>) -> Reply {
        let number = self.bell.next.fetch_add(1, Relaxed);
        Reply::from_source(Rider { flight: self.clone(), number, seen: 0, own, reply: None })
    }

    fn poll(self: &Arc<Self>, seen: &mut u64) -> Poll<Event> {
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
        let Some(reply) = &mut state.reply else { return Poll::Pending };
        match reply.poll_event(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Event::Note(note)) => {
                state.note = Some(note.clone());
                state.notes += 1;
                *seen = state.notes;
                drop(state);
                self.bell.wake_by_ref();
                Poll::Ready(Event::Note(note))
            }
            Poll::Ready(Event::Done(outcome)) => {
                drop(state);
                self.land(&outcome);
                Poll::Ready(Event::Done(outcome))
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.store.forget_flight(&self.key, self);
    }
}

/// Somebody who waits.
struct Rider {
    flight: Arc<Flight>,
    number: u64,
    seen: u64,
    own: Option<(Arc<dyn Answer>, Call)>,
    reply: Option<Reply>,
}

impl Source for Rider {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(reply) = &mut self.reply {
            return reply.poll_event(context);
        }
        let rider = &mut *self;
        rider.flight.bell.listen(rider.number, context.waker());
        match std::task::ready!(rider.flight.poll(&mut rider.seen)) {
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
        self.flight.bell.leave(self.number);
    }
}
