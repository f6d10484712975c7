//! The table of calls in flight: a numbered slot each, found by index, so that late, repeated and forged ids fall out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use slab::Slab;

/// How many bits of a key are the slot's index; the rest counts how often slots were opened.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// Keys stay below 2^53, so that a peer that reads numbers as doubles gives them back whole.
const GENERATION_MASK: u64 = (1 << (53 - INDEX_BITS)) - 1;

/// Calls in flight on one link. `T` is what arrives for a call: notes, questions, the answer.
/// `G` is what is remembered of the call itself.
#[derive(Debug)]
pub struct PendingCalls<T, G = ()> {
    table: Mutex<PendingTable<T, G>>,
}

#[derive(Debug)]
struct PendingTable<T, G> {
    slots: Slab<PendingSlot<T, G>>,
    opened: u64,
    is_closed: bool,
}

/// The first arrival lies in the slot itself: a call without notes never allocates a queue.
#[derive(Debug)]
struct PendingSlot<T, G> {
    generation: u64,
    tag: G,
    waker: Option<Waker>,
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T, G> Default for PendingCalls<T, G> {
    fn default() -> Self {
        Self { table: Mutex::new(PendingTable { slots: Slab::new(), opened: 0, is_closed: false }) }
    }
}

impl<T, G> PendingCalls<T, G> {
    /// Opens a slot. Dropping the ticket forgets the call; what arrives for it later is refused. `None` once the table
    /// [is closed](Self::is_closed), or when as many calls are in flight as it can number.
    pub fn open(self: &Arc<Self>, tag: G) -> Option<CallTicket<T, G>> {
        let mut table = self.table.lock();
        // The index must fit into its part of the key.
        if table.is_closed || table.slots.len() as u64 > INDEX_MASK {
            return None;
        }
        table.opened += 1;
        // A slot is used again, its generation is not: late answers do not match.
        let generation = table.opened & GENERATION_MASK;
        let index =
            table.slots.insert(PendingSlot { generation, tag, waker: None, first: None, rest: VecDeque::new() });
        let key = generation << INDEX_BITS | index as u64;
        Some(CallTicket { pending: self.clone(), key, in_flight: table.slots.len() as u32 })
    }

    /// Puts an arrival into its call's slot and wakes the waiter. An unknown key gives the arrival back.
    pub fn post(&self, key: u64, arrival: T) -> Result<(), T> {
        let mut table = self.table.lock();
        let waker = table.post(key, arrival, usize::MAX)?;
        drop(table);
        wake(waker);
        Ok(())
    }

    /// Like [`PendingCalls::post`] for arrivals that may be dropped: no more than `limit` wait in one slot.
    /// A server that floods a slow caller with notes loses notes, never answers.
    pub fn post_bounded(&self, key: u64, arrival: T, limit: usize) -> Result<(), T> {
        let mut table = self.table.lock();
        let waker = table.post(key, arrival, limit)?;
        drop(table);
        wake(waker);
        Ok(())
    }

    /// True once [`PendingCalls::close`] was called. It stays so.
    pub fn is_closed(&self) -> bool {
        self.table.lock().is_closed
    }

    /// Posts a whole read's worth of arrivals under one lock; returns those that no call waits for.
    pub fn post_batch(&self, batch: &mut Vec<(u64, T)>, unknown: &mut Vec<(u64, T)>) {
        // Woken after the lock is released: a woken task takes the lock first of all.
        let mut wakers: smallvec::SmallVec<[Waker; 32]> = smallvec::SmallVec::new();
        let mut table = self.table.lock();
        for (key, arrival) in batch.drain(..) {
            match table.post(key, arrival, usize::MAX) {
                Ok(waker) => wakers.extend(waker),
                Err(arrival) => unknown.push((key, arrival)),
            }
        }
        drop(table);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Refuses further calls and posts `last()` to every call in flight. What arrived before stays in
    /// front of it, so an answer that made it is still delivered.
    pub fn close(&self, mut last: impl FnMut() -> T) {
        let mut wakers = Vec::new();
        let mut table = self.table.lock();
        // Under the same lock, so that no call is opened after the last arrival.
        table.is_closed = true;
        for (_, slot) in &mut table.slots {
            slot.push(last());
            wakers.extend(slot.waker.take());
        }
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// True when the key names a call in flight.
    pub fn has(&self, key: u64) -> bool {
        self.table.lock().slot(key).is_some()
    }

    /// Looks at every call in flight: its key and what is remembered of it. For rare questions only.
    pub fn for_each(&self, mut look: impl FnMut(u64, &G)) {
        let table = self.table.lock();
        for (index, slot) in &table.slots {
            look(slot.generation << INDEX_BITS | index as u64, &slot.tag);
        }
    }

    /// How many calls are in flight.
    pub fn len(&self) -> usize {
        self.table.lock().slots.len()
    }

    /// True when no call is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T, G> PendingTable<T, G> {
    fn slot(&mut self, key: u64) -> Option<&mut PendingSlot<T, G>> {
        let slot = self.slots.get_mut((key & INDEX_MASK) as usize)?;
        (slot.generation == key >> INDEX_BITS).then_some(slot)
    }

    fn post(&mut self, key: u64, arrival: T, limit: usize) -> Result<Option<Waker>, T> {
        let Some(slot) = self.slot(key) else { return Err(arrival) };
        // Over the limit an arrival is dropped, but the caller still exists.
        if slot.rest.len() < limit {
            slot.push(arrival);
        }
        Ok(slot.waker.take())
    }
}

impl<T, G> PendingSlot<T, G> {
    fn push(&mut self, arrival: T) {
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(arrival);
        } else {
            self.rest.push_back(arrival);
        }
    }

    fn pop(&mut self) -> Option<T> {
        self.first.take().or_else(|| self.rest.pop_front())
    }
}

/// The right to what arrives for one call.
#[derive(Debug)]
pub struct CallTicket<T, G = ()> {
    pending: Arc<PendingCalls<T, G>>,
    key: u64,
    in_flight: u32,
}

impl<T, G> CallTicket<T, G> {
    /// The number to use as request id and progress token.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// How many calls were in flight when this one was opened, with it.
    pub fn in_flight(&self) -> usize {
        self.in_flight as usize
    }

    /// The next arrival, in order.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<T> {
        let mut table = self.pending.table.lock();
        let slot = table.slot(self.key).expect("a slot lives as long as its ticket");
        if let Some(arrival) = slot.pop() {
            return Poll::Ready(arrival);
        }
        match &mut slot.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    pub async fn next(&mut self) -> T {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

impl<T, G> Drop for CallTicket<T, G> {
    fn drop(&mut self) {
        let mut table = self.pending.table.lock();
        // The slot is taken out under the lock and dropped after it: an arrival may own other tickets.
        let slot = table.slots.try_remove((self.key & INDEX_MASK) as usize);
        drop(table);
        drop(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take<T>(ticket: &mut CallTicket<T>) -> Option<T> {
        match ticket.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(arrival) => Some(arrival),
            Poll::Pending => None,
        }
    }

    #[test]
    fn arrivals_come_in_order_and_only_to_their_own_call() {
        let pending = Arc::new(PendingCalls::<_, ()>::default());
        let (mut one, mut two) = (pending.open(()).unwrap(), pending.open(()).unwrap());
        for arrival in ["a", "b", "c"] {
            pending.post(one.key(), arrival).unwrap();
        }
        pending.post(two.key(), "z").unwrap();
        assert_eq!(
            [take(&mut one), take(&mut one), take(&mut one), take(&mut one)],
            [Some("a"), Some("b"), Some("c"), None]
        );
        assert_eq!(take(&mut two), Some("z"));
    }

    #[test]
    fn a_late_answer_to_a_forgotten_call_never_reaches_the_next_one() {
        let pending = Arc::new(PendingCalls::<_, ()>::default());
        let old = pending.open(()).unwrap();
        let old_key = old.key();
        drop(old);
        let mut new = pending.open(()).unwrap();
        assert_eq!(pending.post(old_key, "late"), Err("late"));
        assert_eq!(take(&mut new), None);
        assert_eq!(pending.len(), 1);
    }

    #[test]
    fn keys_stay_below_two_to_the_fifty_third() {
        let pending: Arc<PendingCalls<()>> = Arc::new(PendingCalls::<_, ()>::default());
        pending.table.lock().opened = u64::MAX / 2;
        assert!(pending.open(()).unwrap().key() < 1 << 53);
    }

    #[test]
    fn closing_reaches_every_call_after_what_arrived_before() {
        let pending = Arc::new(PendingCalls::<_, ()>::default());
        let (mut one, mut two) = (pending.open(()).unwrap(), pending.open(()).unwrap());
        pending.post(one.key(), "answer").unwrap();
        pending.close(|| "lost");
        assert_eq!((take(&mut one), take(&mut one), take(&mut two)), (Some("answer"), Some("lost"), Some("lost")));
        assert!(pending.open(()).is_none() && pending.is_closed());
    }

    #[test]
    fn a_flood_of_notes_is_bounded_but_the_answer_still_arrives() {
        let pending = Arc::new(PendingCalls::<_, ()>::default());
        let mut ticket = pending.open(()).unwrap();
        for note in 0..1000 {
            pending.post_bounded(ticket.key(), note, 8).unwrap();
        }
        pending.post(ticket.key(), -1).unwrap();
        let arrivals: Vec<i32> = std::iter::from_fn(|| take(&mut ticket)).collect();
        assert_eq!(arrivals.len(), 10);
        assert_eq!(arrivals.last(), Some(&-1));
    }
}
