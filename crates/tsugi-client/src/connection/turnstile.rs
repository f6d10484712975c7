//! Callers of a server that asks take turns, so that it is always known whose call a question belongs to.
//!
//! One caller at a time is inside, with as many calls as it likes. When others wait, a further call of the caller inside
//! joins the line too, so that nobody can stay inside for ever by making calls that overlap. Only while one of the calls
//! that were inside before is parked with a question do further ones pass: the answer may depend on them.
//! When the last call has left, the caller who has waited longest enters with all of its calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tsugi_protocol::answer::Caller;

/// Lets calls of one caller at a time through, once a server is known to ask.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    is_on: AtomicBool,
    state: Mutex<TurnstileState>,
}

#[derive(Debug, Default)]
struct TurnstileState {
    inside: Option<TurnHolder>,
    /// Those who wait, by caller; the caller who has waited longest is first.
    lines: VecDeque<CallerQueue>,
}

#[derive(Debug)]
struct TurnHolder {
    caller: Caller,
    calls: usize,
    /// Calls that wait for an answer of their caller, of those that passed nobody.
    parked: usize,
}

#[derive(Debug)]
struct CallerQueue {
    caller: Caller,
    waiters: Vec<TurnWaiter>,
}

type TurnWaiter = oneshot::Sender<TurnPermit>;

/// The right to be in flight; given back when dropped.
#[derive(Debug)]
pub(crate) struct TurnPermit {
    turnstile: Arc<Turnstile>,
    /// It was let in although others waited.
    has_passed: bool,
    is_parked: bool,
}

/// Looks who may enter when somebody no longer waits.
struct AdmitOnDrop<'a>(&'a Arc<Turnstile>);

impl Drop for AdmitOnDrop<'_> {
    fn drop(&mut self) {
        self.0.admit();
    }
}

impl Turnstile {
    /// From now on callers take turns.
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Waits for the turn.
    pub(crate) async fn enter(self: &Arc<Self>, caller: &Caller) -> TurnPermit {
        // Dropped after the receiver, so that it finds us gone.
        let _leaving = AdmitOnDrop(self);
        let (sender, turn) = oneshot::channel();
        self.state.lock().line_up(caller, sender);
        self.admit();
        turn.await.expect("who still waits is in a line, and the lines live as long as we do")
    }

    /// Whether somebody waits.
    pub(crate) fn has_line(&self) -> bool {
        let mut state = self.state.lock();
        state.forget_gone();
        !state.lines.is_empty()
    }

    /// Whether a call that is inside waits for an answer of its caller.
    pub(crate) fn is_parked(&self) -> bool {
        self.state.lock().inside.as_ref().is_some_and(|inside| inside.parked > 0)
    }

    /// Lets everybody in whose turn it is.
    fn admit(self: &Arc<Self>) {
        let (waiters, has_passed) = self.state.lock().next();
        for waiter in waiters {
            // A waiter that goes this very moment gives its turn back by dropping it, outside the lock.
            drop(waiter.send(TurnPermit { turnstile: self.clone(), has_passed, is_parked: false }));
        }
    }
}

impl TurnstileState {
    fn line_up(&mut self, caller: &Caller, waiter: TurnWaiter) {
        match self.lines.iter_mut().find(|line| line.caller == *caller) {
            Some(line) => line.waiters.push(waiter),
            None => self.lines.push_back(CallerQueue { caller: caller.clone(), waiters: vec![waiter] }),
        }
    }

    /// The calls that enter now, which are all of one caller, and whether they pass others who wait.
    fn next(&mut self) -> (Vec<TurnWaiter>, bool) {
        self.forget_gone();
        let Some(inside) = &mut self.inside else { return (self.next_caller(), false) };
        let own = self.lines.iter().position(|line| line.caller == inside.caller);
        let has_others = self.lines.len() > usize::from(own.is_some());
        let Some(own) = own.filter(|_| !has_others || inside.parked > 0) else { return (Vec::new(), false) };
        let waiters = self.lines.remove(own).map(|line| line.waiters).unwrap_or_default();
        inside.calls += waiters.len();
        (waiters, has_others)
    }

    /// All calls of the caller who has waited longest.
    fn next_caller(&mut self) -> Vec<TurnWaiter> {
        let Some(CallerQueue { caller, waiters }) = self.lines.pop_front() else { return Vec::new() };
        self.inside = Some(TurnHolder { caller, calls: waiters.len(), parked: 0 });
        waiters
    }

    fn forget_gone(&mut self) {
        self.lines.iter_mut().for_each(|line| line.waiters.retain(|waiter| !waiter.is_closed()));
        self.lines.retain(|line| !line.waiters.is_empty());
    }
}

impl TurnPermit {
    /// The call waits for an answer of its caller, or no longer does.
    pub(crate) fn set_parked(&mut self, is_parked: bool) {
        if self.is_parked == is_parked || self.has_passed {
            return;
        }
        self.is_parked = is_parked;
        if let Some(inside) = &mut self.turnstile.state.lock().inside {
            inside.parked = if is_parked { inside.parked + 1 } else { inside.parked.saturating_sub(1) };
        }
        self.turnstile.admit();
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        let mut state = self.turnstile.state.lock();
        if let Some(inside) = &mut state.inside {
            inside.calls -= 1;
            inside.parked -= usize::from(self.is_parked);
            if inside.calls == 0 {
                state.inside = None;
            }
        }
        drop(state);
        self.turnstile.admit();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt;

    use super::*;

    /// Somebody who has begun to wait, or is inside already.
    struct Visitor(Pin<Box<dyn Future<Output = TurnPermit> + Send>>);

    impl Visitor {
        fn comes(turnstile: &Arc<Turnstile>, name: &str) -> (Self, Option<TurnPermit>) {
            let (turnstile, caller) = (turnstile.clone(), Caller::new(name));
            let mut visitor = Self(Box::pin(async move { turnstile.enter(&caller).await }));
            let turn = visitor.looks();
            (visitor, turn)
        }

        fn looks(&mut self) -> Option<TurnPermit> {
            (&mut self.0).now_or_never()
        }
    }

    #[test]
    fn callers_take_turns_but_one_caller_may_call_twice() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = Visitor::comes(&turnstile, "ann");
        let (_, second) = Visitor::comes(&turnstile, "ann");
        assert!(first.is_some() && second.is_some());
        let (mut bob, turn) = Visitor::comes(&turnstile, "bob");
        assert!(turn.is_none());
        drop(first);
        assert!(bob.looks().is_none());
        drop(second);
        assert!(bob.looks().is_some());
    }

    #[test]
    fn overlapping_calls_of_one_caller_do_not_keep_another_waiting_for_ever() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = Visitor::comes(&turnstile, "ann");
        let (mut bob, _) = Visitor::comes(&turnstile, "bob");
        let (mut again, turn) = Visitor::comes(&turnstile, "ann");
        assert!(turn.is_none(), "bob was there before");
        let (mut carl, _) = Visitor::comes(&turnstile, "carl");
        drop(first);
        let bobs = bob.looks().expect("it is bob's turn");
        assert!(again.looks().is_none() && carl.looks().is_none());
        drop(bobs);
        let anns = again.looks().expect("then ann's");
        assert!(carl.looks().is_none());
        drop(anns);
        assert!(carl.looks().is_some(), "and then carl's");
    }

    #[test]
    fn a_call_that_waits_for_its_caller_does_not_keep_that_callers_other_calls_out() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, asking) = Visitor::comes(&turnstile, "ann");
        let mut asking = asking.unwrap();
        let (mut bob, _) = Visitor::comes(&turnstile, "bob");
        let (mut helping, _) = Visitor::comes(&turnstile, "ann");
        asking.set_parked(true);
        let helping = helping.looks().expect("her answer may depend on it");
        asking.set_parked(false);
        drop(asking);
        assert!(Visitor::comes(&turnstile, "ann").1.is_none(), "now it is bob's turn");
        assert!(bob.looks().is_none());
        drop(helping);
        assert!(bob.looks().is_some());
    }

    #[test]
    fn calls_that_passed_others_do_not_let_further_ones_pass() {
        let turnstile = Arc::new(Turnstile::default());
        let mut asking = Visitor::comes(&turnstile, "ann").1.unwrap();
        let (_bob, _) = Visitor::comes(&turnstile, "bob");
        asking.set_parked(true);
        let mut passing = Visitor::comes(&turnstile, "ann").1.unwrap();
        passing.set_parked(true);
        drop(asking);
        assert!(Visitor::comes(&turnstile, "ann").1.is_none(), "one question after another would keep bob out");
    }

    #[test]
    fn somebody_who_no_longer_waits_keeps_nobody_out() {
        let turnstile = Arc::new(Turnstile::default());
        let (_, first) = Visitor::comes(&turnstile, "ann");
        let (bob, _) = Visitor::comes(&turnstile, "bob");
        let (mut again, _) = Visitor::comes(&turnstile, "ann");
        drop(bob);
        assert!(again.looks().is_some());
        drop(first);
    }
}
