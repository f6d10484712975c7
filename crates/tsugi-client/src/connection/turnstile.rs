//! Calls to a server that asks take turns, so that it is always clear which call a question belongs to.
//!
//! A call that may be asked runs *alone*. Calls of tools that are known not to ask *share*: they run beside each other,
//! and pass a call that is parked with a question. One legacy session is one client, so its calls run together; while
//! others wait, its further calls join the queue too, unless one of its calls is parked: the answer may depend on them.
//! Each caller has a queue, and the queues take turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tsugi_protocol::answer::Caller;

use super::question_owner::QuestionClient;

/// How a call may run beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnKind {
    /// It may be asked.
    Alone,
    /// It is not expected to ask, or cannot be asked.
    Shared,
}

/// Lets calls through one client at a time, once a server is known to ask.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    is_on: AtomicBool,
    state: Mutex<TurnstileState>,
}

#[derive(Debug, Default)]
struct TurnstileState {
    holder: Option<TurnHolder>,
    /// Shared calls in flight.
    shared: usize,
    /// The caller whose turn it is next is first.
    queues: VecDeque<CallerQueue>,
    /// Parked calls that go on once no shared call is in flight.
    resuming: Vec<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct TurnHolder {
    client: QuestionClient,
    calls: usize,
    /// How many of them are parked.
    parked: usize,
    /// Parked calls among those that did not pass a waiting caller.
    parked_in_turn: usize,
}

#[derive(Debug)]
struct CallerQueue {
    caller: Caller,
    waiters: VecDeque<TurnWaiter>,
}

#[derive(Debug)]
struct TurnWaiter {
    kind: TurnKind,
    client: QuestionClient,
    permit: oneshot::Sender<TurnPermit>,
}

/// The right to be in flight. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct TurnPermit {
    turnstile: Arc<Turnstile>,
    kind: TurnKind,
    /// It was let in although others waited.
    has_passed: bool,
    is_parked: bool,
}

/// Admits the next call when a waiting one is dropped.
struct AdmitOnDrop<'a>(&'a Arc<Turnstile>);

impl Drop for AdmitOnDrop<'_> {
    fn drop(&mut self) {
        self.0.admit();
    }
}

impl Turnstile {
    /// From now on calls take turns.
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Waits for the turn. Dropping the future leaves the queue.
    pub(crate) async fn enter(self: &Arc<Self>, kind: TurnKind, caller: &Caller, client: QuestionClient) -> TurnPermit {
        // Declared before the receiver and so dropped after it: `admit` must find this waiter gone.
        let _leaving = AdmitOnDrop(self);
        let (permit, turn) = oneshot::channel();
        self.state.lock().enqueue(caller, TurnWaiter { kind, client, permit });
        self.admit();
        turn.await.expect("a waiter stays in its queue until it gets its permit")
    }

    /// The turn for a call that is in flight already; `None` when another client has it.
    pub(crate) fn adopt(self: &Arc<Self>, client: QuestionClient) -> Option<TurnPermit> {
        let mut state = self.state.lock();
        match &mut state.holder {
            Some(holder) if holder.client == client => holder.calls += 1,
            Some(_) => return None,
            none => *none = Some(TurnHolder { client, calls: 1, parked: 0, parked_in_turn: 0 }),
        }
        Some(TurnPermit { turnstile: self.clone(), kind: TurnKind::Alone, has_passed: false, is_parked: false })
    }

    pub(crate) fn has_queue(&self) -> bool {
        let mut state = self.state.lock();
        state.forget_gone();
        !state.queues.is_empty()
    }

    /// Whether the turn is held by a call that waits for its caller's answer.
    pub(crate) fn is_parked(&self) -> bool {
        self.state.lock().holder.as_ref().is_some_and(|holder| holder.parked > 0)
    }

    /// Lets in every call whose turn it is.
    fn admit(self: &Arc<Self>) {
        loop {
            let Some((waiter, has_passed)) = self.state.lock().next() else { return };
            let permit = TurnPermit { turnstile: self.clone(), kind: waiter.kind, has_passed, is_parked: false };
            // A waiter that is gone gives the permit back here, which admits the next one: not under the lock.
            drop(waiter.permit.send(permit));
        }
    }
}

impl TurnstileState {
    fn enqueue(&mut self, caller: &Caller, waiter: TurnWaiter) {
        match self.queues.iter_mut().find(|queue| queue.caller == *caller) {
            Some(queue) => queue.waiters.push_back(waiter),
            None => self.queues.push_back(CallerQueue { caller: caller.clone(), waiters: [waiter].into() }),
        }
    }

    /// The call that enters now, and whether it passes others that wait.
    fn next(&mut self) -> Option<(TurnWaiter, bool)> {
        self.forget_gone();
        match &self.holder {
            // Strictly in order, so that shared calls cannot keep one that must be alone out for ever.
            None => self.next_in_line().map(|waiter| (waiter, false)),
            Some(holder) if holder.parked == holder.calls => {
                self.take_first(|waiter, _| waiter.kind == TurnKind::Shared).or_else(|| self.next_of_holder())
            }
            Some(_) => self.next_of_holder(),
        }
        .inspect(|(waiter, _)| self.enter(waiter))
    }

    /// The first call of the first queue, unless it has to wait for shared ones. The next call is another caller's.
    fn next_in_line(&mut self) -> Option<TurnWaiter> {
        let queue = self.queues.front_mut()?;
        if queue.waiters.front()?.kind == TurnKind::Alone && self.shared > 0 {
            return None;
        }
        let mut queue = self.queues.pop_front()?;
        let waiter = queue.waiters.pop_front();
        if !queue.waiters.is_empty() {
            // To the end: the next turn is another caller's.
            self.queues.push_back(queue);
        }
        waiter
    }

    /// A further call of the client that holds the turn.
    fn next_of_holder(&mut self) -> Option<(TurnWaiter, bool)> {
        let holder = self.holder.as_ref()?;
        let (client, may_pass) = (holder.client.clone(), holder.parked_in_turn > 0);
        self.take_first(|waiter, has_others| waiter.client == client && (may_pass || !has_others))
    }

    /// Takes the first waiter that `may_enter`, which also sees whether clients other than the waiter's wait.
    fn take_first(&mut self, may_enter: impl Fn(&TurnWaiter, bool) -> bool) -> Option<(TurnWaiter, bool)> {
        let has_others = |waiter: &TurnWaiter| {
            self.queues.iter().flat_map(|queue| &queue.waiters).any(|other| other.client != waiter.client)
        };
        let found = self.queues.iter().enumerate().find_map(|(row, queue)| {
            let place = queue.waiters.iter().position(|waiter| may_enter(waiter, has_others(waiter)))?;
            Some((row, place, has_others(&queue.waiters[place])))
        });
        let (row, place, has_passed) = found?;
        let waiter = self.queues[row].waiters.remove(place)?;
        Some((waiter, has_passed))
    }

    fn enter(&mut self, waiter: &TurnWaiter) {
        match (waiter.kind, &mut self.holder) {
            (TurnKind::Shared, _) => self.shared += 1,
            (TurnKind::Alone, Some(holder)) => holder.calls += 1,
            (TurnKind::Alone, holder) => {
                *holder = Some(TurnHolder { client: waiter.client.clone(), calls: 1, parked: 0, parked_in_turn: 0 });
            }
        }
    }

    fn leave(&mut self, kind: TurnKind) {
        match kind {
            TurnKind::Shared => {
                self.shared -= 1;
                if self.shared == 0 {
                    for resuming in self.resuming.drain(..) {
                        // A call that no longer waits is gone.
                        let _ = resuming.send(());
                    }
                }
            }
            TurnKind::Alone => {
                let Some(holder) = &mut self.holder else { return };
                // Calls of one session hold the turn together; the last one passes it on.
                holder.calls -= 1;
                if holder.calls == 0 {
                    self.holder = None;
                }
            }
        }
    }

    fn forget_gone(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.waiters.retain(|waiter| !waiter.permit.is_closed()));
        self.queues.retain(|queue| !queue.waiters.is_empty());
    }
}

impl TurnPermit {
    /// True when no other call could be asked while this one ran.
    pub(crate) fn is_alone(&self) -> bool {
        self.kind == TurnKind::Alone
    }

    /// The call waits for its caller's answer, or no longer does.
    pub(crate) fn set_parked(&mut self, is_parked: bool) {
        if self.is_parked == is_parked || self.kind == TurnKind::Shared {
            return;
        }
        self.is_parked = is_parked;
        if let Some(holder) = &mut self.turnstile.state.lock().holder {
            let in_turn = usize::from(!self.has_passed);
            if is_parked {
                (holder.parked, holder.parked_in_turn) = (holder.parked + 1, holder.parked_in_turn + in_turn);
            } else {
                (holder.parked, holder.parked_in_turn) = (holder.parked - 1, holder.parked_in_turn - in_turn);
            }
        }
        self.turnstile.admit();
    }

    /// Ends the parking. Shared calls that passed must end before the call goes on: a question that comes
    /// while they are in flight could not be told from theirs. `None` when there are none.
    pub(crate) fn resume(&mut self) -> Option<oneshot::Receiver<()>> {
        self.set_parked(false);
        let mut state = self.turnstile.state.lock();
        if self.kind == TurnKind::Shared || state.shared == 0 {
            return None;
        }
        let (sender, drained) = oneshot::channel();
        state.resuming.push(sender);
        Some(drained)
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        // The count of parked calls must not outlive this one.
        self.set_parked(false);
        self.turnstile.state.lock().leave(self.kind);
        self.turnstile.admit();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt;

    use super::*;

    /// A call that has begun to wait, or has its turn already.
    struct Visitor(Pin<Box<dyn Future<Output = TurnPermit> + Send>>);

    impl Visitor {
        fn enter(
            turnstile: &Arc<Turnstile>,
            kind: TurnKind,
            caller: &str,
            client: QuestionClient,
        ) -> (Self, Option<TurnPermit>) {
            let (turnstile, caller) = (turnstile.clone(), Caller::of_key(caller));
            let mut visitor = Self(Box::pin(async move { turnstile.enter(kind, &caller, client).await }));
            let permit = visitor.poll();
            (visitor, permit)
        }

        fn poll(&mut self) -> Option<TurnPermit> {
            (&mut self.0).now_or_never()
        }
    }

    fn session(turnstile: &Arc<Turnstile>, name: &str) -> (Visitor, Option<TurnPermit>) {
        Visitor::enter(turnstile, TurnKind::Alone, name, QuestionClient::Session(Caller::of_key(name).in_session("1")))
    }

    fn modern(turnstile: &Arc<Turnstile>, caller: &str, key: u64) -> (Visitor, Option<TurnPermit>) {
        Visitor::enter(turnstile, TurnKind::Alone, caller, QuestionClient::Request(key))
    }

    fn shared(turnstile: &Arc<Turnstile>, key: u64) -> (Visitor, Option<TurnPermit>) {
        Visitor::enter(turnstile, TurnKind::Shared, "quiet", QuestionClient::Request(key))
    }

    #[test]
    fn sessions_take_turns_but_one_session_may_call_twice() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = session(&turnstile, "ann");
        let (_, second) = session(&turnstile, "ann");
        assert!(first.is_some() && second.is_some());
        let (mut bob, permit) = session(&turnstile, "bob");
        assert!(permit.is_none());
        drop(first);
        assert!(bob.poll().is_none());
        drop(second);
        assert!(bob.poll().is_some());
    }

    #[test]
    fn modern_requests_of_one_caller_take_turns_too() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = modern(&turnstile, "anonymous", 1);
        let (mut second, permit) = modern(&turnstile, "anonymous", 2);
        assert!(first.is_some() && permit.is_none());
        drop(first);
        assert!(second.poll().is_some());
    }

    #[test]
    fn callers_get_turns_in_rotation_however_many_calls_one_of_them_makes() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, mut turn) = modern(&turnstile, "ann", 0);
        let mut anns: Vec<Visitor> = (1..=3).map(|key| modern(&turnstile, "ann", key).0).collect();
        let mut bobs: Vec<Visitor> = (4..=5).map(|key| modern(&turnstile, "bob", key).0).collect();
        let mut order = Vec::new();
        while let Some(permit) = turn.take() {
            drop(permit);
            for (name, visitors) in [("ann", &mut anns), ("bob", &mut bobs)] {
                if let Some(at) = (0..visitors.len()).find(|at| {
                    turn = visitors[*at].poll();
                    turn.is_some()
                }) {
                    visitors.remove(at);
                    order.push(name);
                    break;
                }
            }
        }
        assert_eq!(order, ["ann", "bob", "ann", "bob", "ann"]);
    }

    #[test]
    fn overlapping_calls_of_one_session_do_not_keep_another_waiting_for_ever() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = session(&turnstile, "ann");
        let (mut bob, _) = session(&turnstile, "bob");
        let (mut again, permit) = session(&turnstile, "ann");
        assert!(permit.is_none(), "bob was there before");
        let (mut carl, _) = session(&turnstile, "carl");
        drop(first);
        let bobs = bob.poll().expect("it is bob's turn");
        assert!(again.poll().is_none() && carl.poll().is_none());
        drop(bobs);
        let anns = again.poll().expect("then ann's");
        assert!(carl.poll().is_none());
        drop(anns);
        assert!(carl.poll().is_some(), "and then carl's");
    }

    #[test]
    fn a_parked_call_does_not_keep_its_own_sessions_other_calls_out() {
        let turnstile = Arc::new(Turnstile::default());
        let mut asking = session(&turnstile, "ann").1.unwrap();
        let (mut bob, _) = session(&turnstile, "bob");
        let (mut helping, _) = session(&turnstile, "ann");
        asking.set_parked(true);
        let helping = helping.poll().expect("her answer may depend on it");
        asking.set_parked(false);
        drop(asking);
        assert!(session(&turnstile, "ann").1.is_none(), "now it is bob's turn");
        assert!(bob.poll().is_none());
        drop(helping);
        assert!(bob.poll().is_some());
    }

    #[test]
    fn calls_that_passed_others_do_not_let_further_ones_pass() {
        let turnstile = Arc::new(Turnstile::default());
        let mut asking = session(&turnstile, "ann").1.unwrap();
        let (_bob, _) = session(&turnstile, "bob");
        asking.set_parked(true);
        let mut passing = session(&turnstile, "ann").1.unwrap();
        passing.set_parked(true);
        drop(asking);
        assert!(session(&turnstile, "ann").1.is_none(), "one question after another would keep bob out");
    }

    #[test]
    fn a_waiter_that_is_gone_keeps_no_call_out() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = session(&turnstile, "ann");
        let (bob, _) = session(&turnstile, "bob");
        let (mut again, _) = session(&turnstile, "ann");
        drop(bob);
        assert!(again.poll().is_some());
        drop(first);
    }

    #[test]
    fn quiet_calls_run_together_and_pass_a_parked_call_which_waits_for_them_before_it_goes_on() {
        let turnstile = Arc::new(Turnstile::default());
        let mut asking = modern(&turnstile, "ann", 1).1.unwrap();
        let (mut one, permit) = shared(&turnstile, 2);
        assert!(permit.is_none(), "a call that may ask runs alone");
        asking.set_parked(true);
        let one = one.poll().expect("it passes the parked call");
        let two = shared(&turnstile, 3).1.expect("and so does the next");
        let mut drained = asking.resume().expect("two calls have passed");
        assert!(shared(&turnstile, 4).1.is_none(), "no more pass");
        drop(one);
        assert!((&mut drained).now_or_never().is_none());
        drop(two);
        assert!(drained.now_or_never().is_some());
    }

    #[test]
    fn a_call_that_may_ask_is_not_kept_out_by_a_stream_of_quiet_ones() {
        let turnstile = Arc::new(Turnstile::default());
        let first = shared(&turnstile, 1).1.unwrap();
        let (mut asking, permit) = modern(&turnstile, "ann", 2);
        assert!(permit.is_none());
        assert!(shared(&turnstile, 3).1.is_none(), "it waits behind the call that may ask");
        drop(first);
        assert!(asking.poll().is_some());
    }
}
