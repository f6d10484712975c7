//! A gate with a number of places and a queue in which callers take turns, however much each of them asks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tsugi_protocol::answer::{Fault, FaultCode, Identity};

use crate::config::LimitPolicy;

/// Counts who is inside. Entering takes one short lock.
#[derive(Debug)]
pub(crate) struct ConcurrencyGate {
    policy: LimitPolicy,
    state: Mutex<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    inside: usize,
    waiting: usize,
    /// Those who wait, by caller, each in the order they came.
    lines: HashMap<Identity, VecDeque<GateWaiter>>,
    /// The callers who wait, the next one first.
    turns: VecDeque<Identity>,
}

/// Receives a permit, or `None` when the place in the line went to a caller with fewer calls in it.
type GateWaiter = oneshot::Sender<Option<GatePermit>>;

/// One place inside, given back when dropped.
#[derive(Debug)]
pub(super) struct GatePermit(Arc<ConcurrencyGate>);

impl ConcurrencyGate {
    pub(crate) fn new(policy: LimitPolicy) -> Arc<Self> {
        Arc::new(Self { policy, state: Mutex::default() })
    }

    /// How many are inside and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.inside, state.waiting)
    }

    /// A permit, if one is free and no call waits.
    pub(super) fn enter_now(self: &Arc<Self>) -> Option<GatePermit> {
        let mut state = self.state.lock();
        if state.inside >= self.places() || state.waiting > 0 {
            return None;
        }
        state.inside += 1;
        Some(GatePermit(self.clone()))
    }

    fn places(&self) -> usize {
        self.policy.in_flight.max(1)
    }

    /// A place, when it is this caller's turn.
    pub(super) async fn enter(self: &Arc<Self>, identity: &Identity) -> Result<GatePermit, Fault> {
        let turn = match self.enqueue(identity).ok_or_else(|| self.full())? {
            GateEntry::Inside(permit) => return Ok(permit),
            GateEntry::Waiting(turn) => turn,
        };
        match tokio::time::timeout(self.policy.wait, turn).await {
            Ok(Ok(turn)) => turn.ok_or_else(|| self.full()),
            // Dropping the receiver takes us out of the line: the next who leaves passes us over.
            _ => Err(self.late()),
        }
    }

    fn full(&self) -> Fault {
        let LimitPolicy { in_flight, queue, .. } = &self.policy;
        self.overloaded(format!("too much at once: {in_flight} calls are under way and {queue} wait"))
    }

    fn late(&self) -> Fault {
        let LimitPolicy { in_flight, wait, .. } = &self.policy;
        self.overloaded(format!("no call could begin within {wait:?}: {in_flight} are under way"))
    }

    fn overloaded(&self, message: String) -> Fault {
        let mut fault = Fault::new(FaultCode::Overloaded, message);
        // A queue that is full now is likely to have moved on after one full wait.
        fault.retry_after_ms = Some(self.policy.wait.as_millis().max(1) as u64);
        fault.with_hint("raise `maxInFlight` if the server can take more")
    }

    /// A place inside or in the line; `None` when the line is full.
    fn enqueue(self: &Arc<Self>, identity: &Identity) -> Option<GateEntry> {
        let mut state = self.state.lock();
        if state.inside < self.places() && state.waiting == 0 {
            state.inside += 1;
            return Some(GateEntry::Inside(GatePermit(self.clone())));
        }
        if state.waiting >= self.policy.queue {
            state.forget_gone();
        }
        // A caller that fills the queue alone does not keep others out of it.
        if state.waiting >= self.policy.queue {
            let last = state.last_of_longest(identity)?;
            // The waiter may have gone in this moment, and then it needs no answer.
            let _ = last.send(None);
        }
        let (sender, receiver) = oneshot::channel();
        if !state.lines.contains_key(identity) {
            state.turns.push_back(identity.clone());
        }
        state.lines.entry(identity.clone()).or_default().push_back(sender);
        state.waiting += 1;
        drop(state);
        // A permit may have been released while only abandoned waiters were queued.
        self.release_next();
        Some(GateEntry::Waiting(receiver))
    }

    /// Gives free places to those whose turn it is.
    fn release_next(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            if state.inside >= self.places() {
                return;
            }
            let Some(waiter) = state.next() else { return };
            state.inside += 1;
            drop(state);
            // A waiter that goes this very moment gives the permit back by dropping it, outside the lock.
            drop(waiter.send(Some(GatePermit(self.clone()))));
        }
    }

    fn leave(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.inside -= 1;
        let has_waiting = state.waiting > 0;
        drop(state);
        if has_waiting {
            self.release_next();
        }
    }
}

enum GateEntry {
    Inside(GatePermit),
    Waiting(oneshot::Receiver<Option<GatePermit>>),
}

impl GateState {
    /// The next in line who still waits.
    fn next(&mut self) -> Option<GateWaiter> {
        loop {
            let waiter = self.first()?;
            if !waiter.is_closed() {
                return Some(waiter);
            }
        }
    }

    /// The first of the caller whose turn it is, who then goes to the end of the round.
    fn first(&mut self) -> Option<GateWaiter> {
        let identity = self.turns.pop_front()?;
        let line = self.lines.get_mut(&identity)?;
        let waiter = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&identity);
        } else {
            self.turns.push_back(identity);
        }
        self.waiting -= usize::from(waiter.is_some());
        waiter
    }

    /// Takes the one out who came last of those who have most in line, if they have more than this newcomer would.
    fn last_of_longest(&mut self, newcomer: &Identity) -> Option<GateWaiter> {
        let own = self.lines.get(newcomer).map_or(0, VecDeque::len);
        let (_, longest) = self.lines.iter_mut().max_by_key(|(_, line)| line.len())?;
        // Two at least, so that no line is left empty.
        if longest.len() <= own + 1 {
            return None;
        }
        self.waiting -= 1;
        longest.pop_back()
    }

    /// Takes those out of the queue who no longer wait.
    fn forget_gone(&mut self) {
        for line in self.lines.values_mut() {
            line.retain(|waiter| !waiter.is_closed());
        }
        self.lines.retain(|_, line| !line.is_empty());
        self.turns.retain(|identity| self.lines.contains_key(identity));
        self.waiting = self.lines.values().map(VecDeque::len).sum();
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        self.0.leave();
    }
}
