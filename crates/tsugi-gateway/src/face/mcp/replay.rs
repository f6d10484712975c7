//! A stream that outlives its connection: numbered events, kept for a reader that comes back
//! ([Resumability](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery)).

mod budget;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_auth::challenge::ChallengeError;
use tsugi_protocol::answer::Caller;

use crate::face::event;
use crate::face::legacy_session::{LegacyChangeWatch, LegacyTurn};
use crate::face::running_call::TurnOutput;
use crate::gateway::Gateway;
use crate::guard::authority::Authority;
use crate::guard::oauth::resource::ChallengeReason;
use crate::guard::refusal::HttpRefusal;
pub(super) use budget::ReplayBudget;

/// Where a stream's events come from.
pub(super) enum ReplaySource {
    /// Requests that are being answered; the stream ends when all are.
    Turns(Vec<LegacyTurn>),
    /// Changes; the stream ends with the session.
    Watch(LegacyChangeWatch),
}

/// One stream of a session.
pub(super) struct ReplayStream {
    number: u64,
    limit: usize,
    budget: Arc<ReplayBudget>,
    state: Mutex<ReplayState>,
}

struct ReplayState {
    source: Option<ReplaySource>,
    /// Whose request its events answer. Another request of the same owner may have less authority.
    caller: Option<Caller>,
    events: VecDeque<(u64, Bytes)>,
    size: usize,
    next: u64,
    /// The newest reader; older ones end when they notice.
    reader: u64,
    waker: Option<Waker>,
    /// True while its client is gone and its requests go on.
    is_left: bool,
    ended_at: Option<Instant>,
    /// How many bytes of the budget it uses.
    shelved: usize,
    is_forgotten: bool,
}

impl ReplayStream {
    /// A stream that has no source yet.
    pub(super) fn new(number: u64, limit: usize, budget: Arc<ReplayBudget>) -> Self {
        let state = ReplayState {
            source: None,
            caller: None,
            events: VecDeque::new(),
            size: 0,
            next: 1,
            reader: 0,
            waker: None,
            is_left: false,
            ended_at: None,
            shelved: 0,
            is_forgotten: false,
        };
        Self { number, limit, budget, state: Mutex::new(state) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The id of the place before the first event.
    pub(super) fn start_id(&self) -> String {
        format!("{}-0", self.number)
    }

    /// Gives the stream a source for this caller, as when a client comes back to the changes. What was kept for a caller
    /// with more authority is dropped.
    pub(super) fn feed(&self, source: ReplaySource, caller: &Caller) {
        let mut state = self.state.lock();
        if !state.may_be_read_by(caller) {
            state.events.clear();
            state.size = 0;
        }
        state.caller = Some(caller.clone());
        state.source = Some(source);
    }

    /// Refuses a reader whose request may do less than the one that the events answer.
    pub(super) fn expect_reader(&self, caller: &Caller) -> Result<(), HttpRefusal> {
        let state = self.state.lock();
        if state.may_be_read_by(caller) {
            return Ok(());
        }
        let refused = HttpRefusal::forbidden("this stream answers a request with more authority").by("replay");
        let needed = state.caller.as_ref().and_then(Authority::of).and_then(Authority::granted_scopes);
        Err(match needed {
            Some(needed) => {
                let own = Authority::of(caller).and_then(Authority::granted_scopes).cloned().unwrap_or_default();
                refused.with_challenge(ChallengeReason {
                    error: ChallengeError::InsufficientScope,
                    description: "the token lacks a scope of the request that the stream answers",
                    scope: Some(needed.union(&own)),
                })
            }
            None => refused,
        })
    }

    /// Adds an event of our own.
    pub(super) fn push(&self, json: &Bytes) {
        self.state.lock().push(self.number, self.limit, json);
    }

    /// Ends the stream: readers get what is left, then the end.
    pub(super) fn end(self: &Arc<Self>) {
        self.state.lock().end();
        self.shelve();
    }

    /// From now on what is left of it counts among what all sessions keep.
    fn shelve(self: &Arc<Self>) {
        let mut state = self.state.lock();
        // Counted once, even when it ends twice.
        if state.shelved > 0 || state.is_forgotten {
            return;
        }
        let size = state.size;
        state.shelved = size;
        // The budget may forget this very stream, which takes the same lock.
        drop(state);
        self.budget.put(self, size);
    }

    fn shelved(&self) -> usize {
        self.state.lock().shelved
    }

    /// Keeps nothing any more: others need the room.
    fn forget(&self) {
        let mut state = self.state.lock();
        state.is_forgotten = true;
        state.events = VecDeque::new();
        state.size = 0;
        self.budget.take_back(std::mem::take(&mut state.shelved));
    }

    /// Whether no client can come back to it, although it may be there.
    pub(super) fn is_forgotten(&self) -> bool {
        self.state.lock().is_forgotten
    }

    /// How many bytes it holds, if it has ended.
    pub(super) fn size_at_end(&self) -> Option<usize> {
        let state = self.state.lock();
        state.ended_at.map(|_| state.size)
    }

    /// Whether its requests go on although its client is gone.
    pub(super) fn is_left(&self) -> bool {
        let state = self.state.lock();
        state.is_left && state.ended_at.is_none()
    }

    /// When it ended, if it did.
    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.state.lock().ended_at
    }

    /// A reader of everything after event `after`. Readers before it end.
    pub(super) fn read(self: &Arc<Self>, after: u64) -> ReplayReader {
        let mut state = self.state.lock();
        // A reader with an older number ends when it is polled next.
        state.reader += 1;
        state.is_left = false;
        // Wakes the reader before, so that it notices.
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        ReplayReader { number: state.reader, cursor: after, replay: self.clone() }
    }

    /// A reader of everything that is still to come.
    pub(super) fn read_new(self: &Arc<Self>) -> ReplayReader {
        let last = self.state.lock().next - 1;
        self.read(last)
    }
}

impl Drop for ReplayStream {
    fn drop(&mut self) {
        self.budget.take_back(self.state.get_mut().shelved);
    }
}

impl ReplayState {
    fn may_be_read_by(&self, caller: &Caller) -> bool {
        // Callers without an authority are this program itself.
        let Some(needed) = self.caller.as_ref().and_then(Authority::of) else { return true };
        Authority::of(caller).is_some_and(|authority| authority.covers(needed))
    }

    /// The event after this one, or the oldest that is left. They are numbered without gaps.
    fn after(&self, number: u64) -> Option<&(u64, Bytes)> {
        let (first, _) = self.events.front()?;
        // Numbers have no gaps, so the place follows from the first one.
        self.events.get((number + 1).saturating_sub(*first) as usize)
    }

    fn push(&mut self, stream: u64, limit: usize, json: &Bytes) {
        let number = self.next;
        self.next += 1;
        let event = event::numbered(&format!("{stream}-{number}"), json);
        self.size += event.len();
        self.events.push_back((number, event));
        // The newest event always stays, however large: it may be the response.
        while self.size > limit && self.events.len() > 1 {
            if let Some((_, oldest)) = self.events.pop_front() {
                self.size -= oldest.len();
            }
        }
    }

    fn end(&mut self) {
        self.source = None;
        self.ended_at.get_or_insert_with(Instant::now);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Asks the source for one more event; true when it gave one or ended.
    fn advance(&mut self, stream: u64, limit: usize, context: &mut Context<'_>) -> bool {
        let polled = match &mut self.source {
            None => return false,
            Some(ReplaySource::Watch(watch)) => watch.poll(context).map(Some),
            Some(ReplaySource::Turns(turns)) => poll_turns(turns, context),
        };
        match polled {
            Poll::Pending => false,
            Poll::Ready(message) => {
                if let Some(json) = message {
                    self.push(stream, limit, &json);
                }
                if matches!(&self.source, Some(ReplaySource::Turns(turns)) if turns.is_empty()) {
                    self.end();
                }
                true
            }
        }
    }
}

/// The next message of any of these turns; `None` when one ended without a word.
fn poll_turns(turns: &mut Vec<LegacyTurn>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
    for index in 0..turns.len() {
        match turns[index].poll(context) {
            Poll::Pending => {}
            Poll::Ready(TurnOutput::Message(message)) => return Poll::Ready(Some(message)),
            Poll::Ready(TurnOutput::Response(response)) => {
                // Order among turns does not matter: each response names its request.
                turns.swap_remove(index);
                return Poll::Ready(Some(response.into_bytes()));
            }
            Poll::Ready(TurnOutput::Silence) => {
                turns.swap_remove(index);
                return Poll::Ready(None);
            }
        }
    }
    Poll::Pending
}

/// One reader of a stream. The reader also drives the source, so a stream needs no task.
pub(super) struct ReplayReader {
    number: u64,
    cursor: u64,
    replay: Arc<ReplayStream>,
}

impl ReplayReader {
    /// The next event; `None` at the end, or when a newer reader has taken over.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.replay.state.lock();
        loop {
            if state.reader != self.number {
                return Poll::Ready(None);
            }
            if let Some((number, event)) = state.after(self.cursor) {
                self.cursor = *number;
                return Poll::Ready(Some(event.clone()));
            }
            if state.ended_at.is_some() {
                return Poll::Ready(None);
            }
            if !state.advance(self.replay.number, self.replay.limit, context) {
                state.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            if state.ended_at.is_some() {
                drop(state);
                self.replay.shelve();
                state = self.replay.state.lock();
            }
        }
    }

    /// What becomes of the stream when its connection is gone: changes are no longer watched, but requests
    /// go on, since a disconnect does not cancel a request in this era.
    pub(super) fn leave(&self, gateway: &Gateway) {
        let mut state = self.replay.state.lock();
        if state.reader != self.number || state.ended_at.is_some() {
            return;
        }
        match &state.source {
            Some(ReplaySource::Turns(_)) => {
                drop(state);
                let mut reader = self.replay.read(self.cursor);
                self.replay.state.lock().is_left = true;
                gateway.run_detached(async move {
                    while std::future::poll_fn(|context| reader.poll(context)).await.is_some() {}
                });
            }
            _ => state.source = None,
        }
    }
}
