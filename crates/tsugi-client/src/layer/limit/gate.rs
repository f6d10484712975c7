//! A gate with a number of places and a queue in which callers take turns, however much each of them asks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

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
    lines: HashMap<String, VecDeque<GateWaiter>>,
    /// The callers who wait, the next one first.
    turns: VecDeque<String>,
}

type GateWaiter = oneshot::Sender<Result<GatePermit, GateRefusal>>;

/// Why a call got no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateRefusal {
    /// Too many wait already.
    Full,
    /// No place became free in time.
    Late,
}

/// One place inside, given back when dropped.
#[derive(Debug)]
pub(super) struct GatePermit(Arc<ConcurrencyGate>);

impl ConcurrencyGate {
    pub(crate) fn new(policy: LimitPolicy) -> Arc<Self> {
        Arc::new(Self { policy, state: Mutex::default() })
    }

    pub(crate) fn policy(&self) -> &LimitPolicy {
        &self.policy
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
    pub(super) async fn enter(self: &Arc<Self>, principal: &str) -> Result<GatePermit, GateRefusal> {
        let turn = match self.enqueue(principal)? {
            GateEntry::Inside(permit) => return Ok(permit),
            GateEntry::Waiting(turn) => turn,
        };
        match tokio::time::timeout(self.policy.wait, turn).await {
            Ok(Ok(turn)) => turn,
            // Dropping the receiver takes us out of the line: the next who leaves passes us over.
            _ => Err(GateRefusal::Late),
        }
    }

    fn enqueue(self: &Arc<Self>, principal: &str) -> Result<GateEntry, GateRefusal> {
        let mut state = self.state.lock();
        if state.inside < self.places() && state.waiting == 0 {
            state.inside += 1;
            return Ok(GateEntry::Inside(GatePermit(self.clone())));
        }
        if state.waiting >= self.policy.queue {
            state.forget_gone();
        }
        // A caller that fills the queue alone does not keep others out of it.
        if state.waiting >= self.policy.queue {
            let last = state.last_of_longest(principal).ok_or(GateRefusal::Full)?;
            // The waiter may have gone in this moment, and then it needs no answer.
            let _ = last.send(Err(GateRefusal::Full));
        }
        let (sender, receiver) = oneshot::channel();
        if !state.lines.contains_key(principal) {
            state.turns.push_back(principal.to_owned());
        }
        state.lines.entry(principal.to_owned()).or_default().push_back(sender);
        state.waiting += 1;
        drop(state);
        // A permit may have been released while only abandoned waiters were queued.
        self.release_next();
        Ok(GateEntry::Waiting(receiver))
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
            drop(waiter.send(Ok(GatePermit(self.clone()))));
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
    Waiting(oneshot::Receiver<Result<GatePermit, GateRefusal>>),
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
        let principal = self.turns.pop_front()?;
        let line = self.lines.get_mut(&principal)?;
        let waiter = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&principal);
        } else {
            self.turns.push_back(principal);
        }
        self.waiting -= usize::from(waiter.is_some());
        waiter
    }

    /// Takes the one out who came last of those who have most in line, if they have more than this newcomer would.
    fn last_of_longest(&mut self, newcomer: &str) -> Option<GateWaiter> {
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
        self.turns.retain(|principal| self.lines.contains_key(principal));
        self.waiting = self.lines.values().map(VecDeque::len).sum();
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        self.0.leave();
    }
}
