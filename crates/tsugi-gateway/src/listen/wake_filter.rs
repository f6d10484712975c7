//! Wakes in vain: whoever takes the last piece of a request's body wakes the connection that brought it.
//!
//! hyper does so because the connection could bring more now. Over HTTP/1 that connection is the very task that takes
//! the piece, and it would be polled once more for every request, through all that waits in it for the answer.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

thread_local! {
    static HUSHED: Cell<WakeSuppression> = const { Cell::new(WakeSuppression::No) };
}

/// Whether this thread keeps back the wakes of its connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeSuppression {
    No,
    Yes,
    /// It does, and there was one.
    Woken,
}

/// Does this, and keeps back the wakes of connections meanwhile. Says whether there was one.
pub(crate) fn suppress_wakes<T>(take: impl FnOnce() -> T) -> (T, bool) {
    /// Also one who panics must not leave the thread's connections asleep.
    struct SuppressionGuard;
    impl Drop for SuppressionGuard {
        fn drop(&mut self) {
            HUSHED.set(WakeSuppression::No);
        }
    }
    HUSHED.set(WakeSuppression::Yes);
    let _end = SuppressionGuard;
    let taken = take();
    (taken, HUSHED.get() == WakeSuppression::Woken)
}

/// Wakes the task of a connection, unless that is kept back.
pub(super) struct FilteredWaker(Waker);

impl FilteredWaker {
    /// A waker of this task that can be kept back.
    pub(super) fn of(task: &Waker) -> Waker {
        Waker::from(Arc::new(FilteredWaker(task.clone())))
    }
}

impl Wake for FilteredWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match HUSHED.get() {
            WakeSuppression::No => self.0.wake_by_ref(),
            WakeSuppression::Yes | WakeSuppression::Woken => HUSHED.set(WakeSuppression::Woken),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_are_kept_back_only_meanwhile() {
        let count = Arc::<Count>::default();
        let ear = FilteredWaker::of(&Waker::from(count.clone()));
        let woken = || count.0.load(Ordering::Relaxed);
        assert_eq!(suppress_wakes(|| ear.wake_by_ref()), ((), true));
        assert_eq!(suppress_wakes(|| ()), ((), false), "nobody woke it");
        assert_eq!(woken(), 0);
        std::panic::catch_unwind(|| suppress_wakes(|| panic!("a body that cannot be read"))).unwrap_err();
        ear.wake_by_ref();
        assert_eq!(woken(), 1, "nothing is kept back any more");
    }
}
