//! Suppresses a redundant wake-up of hyper's connection task.
//!
//! hyper wakes the connection task when the last frame of a request body is read, because the connection could now
//! read more. Over HTTP/1 that task is the one reading the frame, so it would be polled once more for every request,
//! through everything that waits in it for the response.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::switch::RuntimeTrick;

thread_local! {
    static SUPPRESSION: Cell<WakeSuppression> = const { Cell::new(WakeSuppression::Off) };
}

/// Whether this thread holds back the wake-ups of its connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeSuppression {
    Off,
    On,
    /// On, and at least one wake-up was held back.
    Woken,
}

/// Runs `read` and holds back the wake-ups of filtered wakers while it runs. Also returns whether there was one.
pub fn suppress_wakes<T>(read: impl FnOnce() -> T) -> (T, bool) {
    /// A panic in `read` must not leave the thread's connections asleep.
    struct SuppressionGuard;
    impl Drop for SuppressionGuard {
        fn drop(&mut self) {
            SUPPRESSION.set(WakeSuppression::Off);
        }
    }
    if RuntimeTrick::WakeFilter.is_plain() {
        return (read(), false);
    }
    SUPPRESSION.set(WakeSuppression::On);
    let _end = SuppressionGuard;
    let frame = read();
    (frame, SUPPRESSION.get() == WakeSuppression::Woken)
}

/// Wakes the task of a connection, unless wake-ups are suppressed.
pub struct FilteredWaker(Waker);

impl FilteredWaker {
    /// A waker of `task` whose wake-ups can be suppressed.
    pub fn of(task: &Waker) -> Waker {
        match RuntimeTrick::WakeFilter.is_plain() {
            true => task.clone(),
            false => Waker::from(Arc::new(FilteredWaker(task.clone()))),
        }
    }
}

impl Wake for FilteredWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match SUPPRESSION.get() {
            WakeSuppression::Off => self.0.wake_by_ref(),
            WakeSuppression::On | WakeSuppression::Woken => SUPPRESSION.set(WakeSuppression::Woken),
        }
    }
}

#[cfg(all(test, not(feature = "plain")))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_are_suppressed_only_while_reading() {
        let count = Arc::<WakeCount>::default();
        let waker = FilteredWaker::of(&Waker::from(count.clone()));
        let woken = || count.0.load(Ordering::Relaxed);
        assert_eq!(suppress_wakes(|| waker.wake_by_ref()), ((), true));
        assert_eq!(suppress_wakes(|| ()), ((), false), "there was no wake-up");
        assert_eq!(woken(), 0);
        std::panic::catch_unwind(|| suppress_wakes(|| panic!("a body that cannot be read"))).unwrap_err();
        waker.wake_by_ref();
        assert_eq!(woken(), 1, "suppression has ended");
    }
}
