//! The lifetime of a caller's session: tells two sessions of one caller apart, and notifies observers of the end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Caller;

/// A session that a face has opened for one client. What others keep for it alone ends with it: with
/// [`SessionLifetime::end`], or when this is dropped.
#[derive(Debug)]
pub struct SessionLifetime {
    caller: Caller,
    life: Arc<LifetimeCell>,
}

/// The owner of something that belongs to one session, such as a process.
pub trait SessionObserver: Send + Sync {
    /// The session of this caller is over.
    fn session_ended(&self, caller: &Caller);
}

/// Shared by all callers of a session: whether it has ended, and which observers to notify.
#[derive(Default)]
pub(super) struct LifetimeCell(Mutex<LifetimeState>);

#[derive(Default)]
struct LifetimeState {
    is_over: bool,
    keepers: Vec<Weak<dyn SessionObserver>>,
}

impl SessionLifetime {
    /// A new session of this caller, different from all others of this program.
    pub fn of(caller: &Caller) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let life = Arc::<LifetimeCell>::default();
        let caller = caller.in_living_session(NUMBERS.fetch_add(1, Relaxed).to_string(), life.clone());
        Self { caller, life }
    }

    /// The caller in this session.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Ends it and notifies its observers, once.
    pub fn end(&self) {
        self.life.end(&self.caller);
    }
}

impl Drop for SessionLifetime {
    fn drop(&mut self) {
        self.end();
    }
}

impl LifetimeCell {
    /// Registers an observer of the end, once; notifies it at once when the session is over already.
    pub(super) fn keep(&self, caller: &Caller, keeper: Weak<dyn SessionObserver>) {
        let mut state = self.0.lock();
        if state.is_over {
            drop(state);
            return notify_observer(&keeper, caller);
        }
        state.keepers.retain(|other| other.strong_count() > 0);
        if !state.keepers.iter().any(|other| other.ptr_eq(&keeper)) {
            state.keepers.push(keeper);
        }
    }

    fn end(&self, caller: &Caller) {
        let mut state = self.0.lock();
        state.is_over = true;
        let keepers = std::mem::take(&mut state.keepers);
        // They have locks of their own.
        drop(state);
        keepers.iter().for_each(|keeper| notify_observer(keeper, caller));
    }
}

fn notify_observer(keeper: &Weak<dyn SessionObserver>, caller: &Caller) {
    if let Some(keeper) = keeper.upgrade() {
        keeper.session_ended(caller);
    }
}

impl std::fmt::Debug for LifetimeCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Life")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Ended(Mutex<Vec<Caller>>);

    impl SessionObserver for Ended {
        fn session_ended(&self, caller: &Caller) {
            self.0.lock().push(caller.clone());
        }
    }

    fn keep(caller: &Caller, keeper: &Arc<Ended>) {
        let keeper: Arc<dyn SessionObserver> = keeper.clone();
        caller.when_session_ends(Arc::downgrade(&keeper));
    }

    #[test]
    fn two_sessions_of_one_caller_are_two_callers() {
        let ann = Caller::of_key("ann");
        let (one, two) = (SessionLifetime::of(&ann), SessionLifetime::of(&ann));
        assert_ne!(one.caller(), two.caller());
        assert_eq!(one.caller(), &one.caller().clone());
        assert_eq!(one.caller().identity().short_name(), "ann");
    }

    #[test]
    fn whoever_keeps_something_for_a_session_hears_once_that_it_is_over() {
        let (session, keeper) = (SessionLifetime::of(&Caller::of_key("ann")), Arc::<Ended>::default());
        let caller = session.caller().clone();
        keep(&caller, &keeper);
        keep(&caller, &keeper);
        session.end();
        drop(session);
        assert_eq!(*keeper.0.lock(), std::slice::from_ref(&caller));
        // An observer that comes too late is notified at once.
        keep(&caller, &keeper);
        assert_eq!(keeper.0.lock().len(), 2);
    }

    #[test]
    fn a_session_without_an_end_tells_nobody() {
        let keeper = Arc::<Ended>::default();
        keep(&Caller::of_key("ann"), &keeper);
        keep(&Caller::of_key("ann").in_session("one"), &keeper);
        assert!(keeper.0.lock().is_empty());
    }
}
