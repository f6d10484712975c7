//! One read in flight shared by all callers that ask for the same: it goes on while any of them waits.
//!
//! A single waiter polls the reply with its own waker, so that a read that is not shared costs no more than one that
//! cannot be. From the second waiter on, a shared waker wakes all of them: the one that polled last may not look at its
//! reply for a while.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tsugi_protocol::answer::{Answer, Call, CallNote, Outcome, Reply, ReplyEvent, ReplySource};

use super::CacheLifetime;
use super::lru::CacheTicket;
use super::store::CacheStore;

/// A read under way. When the last who waits for it goes, it is cancelled.
pub(super) struct SharedRead {
    store: Arc<CacheStore>,
    pub(super) place: CacheTicket,
    pub(super) lifetime: CacheLifetime,
    state: Mutex<SharedReadState>,
    /// Set when the store has heard of the end.
    has_landed: AtomicBool,
}

#[derive(Default)]
struct SharedReadState {
    /// Absent before the call is made and after it ended.
    reply: Option<Reply>,
    /// Set at the end, when there is more than one to take it.
    outcome: Option<Outcome>,
    /// The last note and how many there were: a sign of life for those who wait.
    note: Option<CallNote>,
    notes: u64,
    /// How many wait, and the number of the next.
    riders: usize,
    next: u64,
    /// The waiters to wake while the read is not shared.
    waiting: WakerList,
    /// The waiters to wake once it is.
    bell: Option<Arc<SharedWaker>>,
}

/// Those to be woken, by number.
type WakerList = SmallVec<[(u64, Waker); 2]>;

/// Those to be woken once the lock is free.
type WakeBatch = SmallVec<[Waker; 2]>;

/// The number of the one who makes the call.
const FIRST: u64 = 1;

/// Wakes all waiters. It does not refer to the read: a waker that the read's own reply holds must not keep
/// the read alive.
#[derive(Default)]
struct SharedWaker(Mutex<WakerList>);

impl Wake for SharedWaker {
    fn wake(self: Arc<Self>) {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl SharedReadState {
    /// Polls the reply so that all waiters are woken when there is more.
    fn ask(&mut self, number: u64, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if self.riders < 2 && self.bell.is_none() {
            listen(&mut self.waiting, number, context.waker());
            return self.ask_with(context);
        }
        let waiting = &mut self.waiting;
        let bell = self.bell.get_or_insert_with(|| Arc::new(SharedWaker(Mutex::new(std::mem::take(waiting))))).clone();
        // Before the reply is asked: it may ring at once.
        listen(&mut bell.0.lock(), number, context.waker());
        self.ask_with(&mut Context::from_waker(&Waker::from(bell)))
    }

    fn ask_with(&mut self, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        match &mut self.reply {
            Some(reply) => reply.poll_event(context),
            None => Poll::Pending,
        }
    }

    /// All waiters but this one, to be woken once the lock is free.
    fn others(&mut self, number: u64) -> WakeBatch {
        let mut all = std::mem::take(&mut self.waiting);
        if let Some(bell) = &self.bell {
            all.append(&mut bell.0.lock());
        }
        all.into_iter().filter(|(known, _)| *known != number).map(|(_, waker)| waker).collect()
    }
}

fn listen(waiting: &mut WakerList, number: u64, waker: &Waker) {
    match waiting.iter_mut().find(|(known, _)| *known == number) {
        Some((_, known)) => known.clone_from(waker),
        None => waiting.push((number, waker.clone())),
    }
}

fn wake(wakers: WakeBatch) {
    wakers.into_iter().for_each(Waker::wake);
}

impl SharedRead {
    /// With one who waits.
    pub(super) fn new(store: Arc<CacheStore>, place: CacheTicket, lifetime: CacheLifetime) -> Arc<Self> {
        let state = Mutex::new(SharedReadState { riders: 1, next: FIRST, ..SharedReadState::default() });
        Arc::new(Self { store, place, lifetime, state, has_landed: AtomicBool::new(false) })
    }

    /// One more who waits.
    pub(super) fn join(self: Arc<Self>) -> ReadWaiter {
        let mut state = self.state.lock();
        state.riders += 1;
        state.next += 1;
        let number = state.next;
        drop(state);
        ReadWaiter::new(self, number)
    }

    fn poll(&self, number: u64, seen: &mut u64, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let mut state = self.state.lock();
        // Another waiter polled the end.
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(ReplyEvent::Done(outcome.clone()));
        }
        if *seen < state.notes
            && let Some(note) = state.note.clone()
        {
            *seen = state.notes;
            return Poll::Ready(ReplyEvent::Note(note));
        }
        match state.ask(number, context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(ReplyEvent::Note(note)) => {
                state.note = Some(note.clone());
                state.notes += 1;
                *seen = state.notes;
                let others = state.others(number);
                drop(state);
                wake(others);
                Poll::Ready(ReplyEvent::Note(note))
            }
            Poll::Ready(ReplyEvent::Done(outcome)) => {
                let reply = state.reply.take();
                drop(state);
                // Dropped without the lock: its drop may wake or cancel.
                drop(reply);
                self.land(number, &outcome);
                Poll::Ready(ReplyEvent::Done(outcome))
            }
        }
    }

    fn land(&self, number: u64, outcome: &Outcome) {
        // No waiter joins from here on, so the count below is final.
        self.store.land(self, outcome);
        self.has_landed.store(true, Relaxed);
        let mut state = self.state.lock();
        if state.riders < 2 {
            return;
        }
        state.outcome = Some(outcome.clone());
        let others = state.others(number);
        drop(state);
        wake(others);
    }
}

impl Drop for SharedRead {
    fn drop(&mut self) {
        if !*self.has_landed.get_mut() {
            self.store.forget_flight(self);
        }
    }
}

/// One waiter of a read.
pub(super) struct ReadWaiter {
    flight: Arc<SharedRead>,
    number: u64,
    seen: u64,
    own: Option<(Arc<dyn Answer>, Call)>,
    reply: Option<Reply>,
}

impl ReadWaiter {
    fn new(flight: Arc<SharedRead>, number: u64) -> Self {
        Self { flight, number, seen: 0, own: None, reply: None }
    }

    /// The one who makes the call.
    pub(super) fn first(flight: Arc<SharedRead>) -> Self {
        Self::new(flight, FIRST)
    }

    /// The call was made; its reply is shared from now on.
    pub(super) fn lead(self, reply: Reply) -> Reply {
        match reply.into_ready() {
            Ok(outcome) => {
                self.flight.land(self.number, &outcome);
                Reply::ready(outcome)
            }
            Err(reply) => {
                let mut state = self.flight.state.lock();
                state.reply = Some(reply);
                // A waiter that joined in between polled before there was a reply to poll.
                let others = if state.riders > 1 { state.others(self.number) } else { WakeBatch::new() };
                drop(state);
                wake(others);
                Reply::from_source(self)
            }
        }
    }

    /// The reply of a waiter that did not make the call. A question that the server asks back is sealed for the one
    /// that made it, so each waiter then makes its own call.
    pub(super) fn follow(mut self, inner: Arc<dyn Answer>, call: Call) -> Reply {
        self.own = Some((inner, call));
        Reply::from_source(self)
    }
}

impl ReplySource for ReadWaiter {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if let Some(reply) = &mut self.reply {
            return reply.poll_event(context);
        }
        let rider = &mut *self;
        match std::task::ready!(rider.flight.poll(rider.number, &mut rider.seen, context)) {
            ReplyEvent::Done(Outcome::InputRequired(asked)) => match rider.own.take() {
                None => Poll::Ready(ReplyEvent::Done(Outcome::InputRequired(asked))),
                Some((inner, call)) => rider.reply.insert(inner.answer(call)).poll_event(context),
            },
            event => Poll::Ready(event),
        }
    }
}

impl Drop for ReadWaiter {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        state.riders -= 1;
        if state.riders == 0 {
            return;
        }
        // The server's side may know only our waker, so the others have to ask again.
        let others = state.others(self.number);
        drop(state);
        wake(others);
    }
}
