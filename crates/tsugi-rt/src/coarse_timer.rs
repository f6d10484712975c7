//! One timer task for many deadlines.
//!
//! Each new tokio timer wakes the thread that sleeps in the kernel when nothing else is due, which costs more than the
//! call that the timer guards. Deadlines of seconds do not need that precision, so one task checks all of them every
//! few milliseconds while there are any.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::switch::RuntimeTrick;
use plain::PlainTimer;
use ticking::TickingTimer;

/// How long after its deadline an entry expires: a layer below with a limit of the same length knows better what is
/// wrong, so it gets to report first.
const GRACE: Duration = Duration::from_millis(5);

/// A timer that wakes tasks when their deadlines pass, a few milliseconds late.
#[derive(Debug, Default)]
pub struct CoarseTimer(TimerCore);

#[derive(Debug)]
enum TimerCore {
    Ticking(TickingTimer),
    /// Where the trick is switched off.
    Plain(PlainTimer),
}

impl Default for TimerCore {
    fn default() -> Self {
        match RuntimeTrick::CoarseTimer.is_plain() {
            true => Self::Plain(PlainTimer::default()),
            false => Self::Ticking(TickingTimer::default()),
        }
    }
}

/// One deadline of a [`CoarseTimer`]. Give it back with [`CoarseTimer::remove`].
#[derive(Debug)]
pub struct TimerKey(usize);

impl CoarseTimer {
    /// Sets a deadline for the task of `context`. Must be called within a runtime.
    pub fn set(&self, at: Instant, context: &mut Context<'_>) -> TimerKey {
        TimerKey(match &self.0 {
            TimerCore::Ticking(timer) => timer.set(at, context),
            TimerCore::Plain(timer) => timer.set(at, context),
        })
    }

    /// Runs a future until it completes or the deadline passes; `None` in the latter case.
    pub async fn timeout_at<F: Future>(&self, at: Instant, future: F) -> Option<F::Output> {
        let mut guard = TimerGuard { timer: self, key: None };
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            // Polled first: a future that is ready at once sets no deadline at all.
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            guard.poll(at, context).map(|()| None)
        })
        .await
    }

    /// Moves a deadline.
    pub fn move_to(&self, key: &TimerKey, at: Instant) {
        match &self.0 {
            TimerCore::Ticking(timer) => timer.move_to(key.0, at),
            TimerCore::Plain(timer) => timer.move_to(key.0, at),
        }
    }

    /// Ready once the deadline was seen to have passed.
    pub fn poll(&self, key: &TimerKey, context: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            TimerCore::Ticking(timer) => timer.poll(key.0, context),
            TimerCore::Plain(timer) => timer.poll(key.0, context),
        }
    }

    /// Removes a deadline.
    pub fn remove(&self, key: TimerKey) {
        match &self.0 {
            TimerCore::Ticking(timer) => timer.remove(key.0),
            TimerCore::Plain(timer) => timer.remove(key.0),
        }
    }
}

/// A waiting task that removes its deadline when it is done or dropped.
struct TimerGuard<'timer> {
    timer: &'timer CoarseTimer,
    key: Option<TimerKey>,
}

impl TimerGuard<'_> {
    fn poll(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        match &self.key {
            Some(key) => self.timer.poll(key, context),
            None => {
                self.key = Some(self.timer.set(at, context));
                Poll::Pending
            }
        }
    }
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.timer.remove(key);
        }
    }
}

mod ticking {
    use std::sync::{Arc, Weak};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use parking_lot::Mutex;
    use slab::Slab;
    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::GRACE;

    /// How often deadlines are checked, and so how late one may be noticed.
    pub(super) const TICK: Duration = Duration::from_millis(20);
    /// How many ticks without a deadline pass before the task sleeps. Calls that follow each other closely should not
    /// have to wake it.
    pub(super) const QUIET_TICKS: u32 = 50;

    /// One task that looks at all deadlines now and then.
    #[derive(Debug, Default)]
    pub(super) struct TickingTimer(Arc<SharedTable>);

    #[derive(Debug, Default)]
    struct SharedTable {
        table: Mutex<TimerTable>,
        /// Wakes the ticker when there is a deadline again.
        wanted: Arc<Notify>,
    }

    #[derive(Debug, Default)]
    struct TimerTable {
        entries: Slab<TimerEntry>,
        ticker: TickerState,
    }

    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    pub(super) enum TickerState {
        #[default]
        NotStarted,
        Ticking,
        Asleep,
    }

    #[derive(Debug)]
    struct TimerEntry {
        at: Instant,
        has_expired: bool,
        waker: Waker,
    }

    impl TickingTimer {
        pub(super) fn set(&self, at: Instant, context: &mut Context<'_>) -> usize {
            let waker = context.waker().clone();
            let mut table = self.0.table.lock();
            let index = table.entries.insert(TimerEntry { at, has_expired: false, waker });
            let before = std::mem::replace(&mut table.ticker, TickerState::Ticking);
            drop(table);
            match before {
                TickerState::NotStarted => drop(tokio::spawn(tick(Arc::downgrade(&self.0), self.0.wanted.clone()))),
                TickerState::Asleep => self.0.wanted.notify_one(),
                TickerState::Ticking => {}
            }
            index
        }

        pub(super) fn move_to(&self, index: usize, at: Instant) {
            let mut table = self.0.table.lock();
            let entry = &mut table.entries[index];
            // The ticker looks at every entry in each tick, so it need not be woken.
            (entry.at, entry.has_expired) = (at, false);
        }

        pub(super) fn poll(&self, index: usize, context: &mut Context<'_>) -> Poll<()> {
            let mut table = self.0.table.lock();
            let entry = &mut table.entries[index];
            if entry.has_expired {
                return Poll::Ready(());
            }
            entry.waker.clone_from(context.waker());
            Poll::Pending
        }

        pub(super) fn remove(&self, index: usize) {
            let entry = self.0.table.lock().entries.remove(index);
            // Outside the lock: dropping a waker may run foreign code.
            drop(entry);
        }

        #[cfg(test)]
        pub(super) fn ticker_state(&self) -> TickerState {
            self.0.table.lock().ticker
        }
    }

    impl Drop for SharedTable {
        fn drop(&mut self) {
            // The ticker holds only a weak reference; it wakes up, finds the table gone, and ends.
            self.wanted.notify_one();
        }
    }

    /// Checks the deadlines until the timer is dropped.
    async fn tick(shared: Weak<SharedTable>, wanted: Arc<Notify>) {
        let mut quiet = 0;
        loop {
            tokio::time::sleep(TICK).await;
            let Some(strong) = shared.upgrade() else { return };
            quiet = if strong.wake_expired() { 0 } else { quiet + 1 };
            let sleeps = quiet > QUIET_TICKS && strong.fall_asleep();
            // Not held while sleeping, or the timer could never be dropped.
            drop(strong);
            if sleeps {
                wanted.notified().await;
                quiet = 0;
            }
        }
    }

    impl SharedTable {
        /// Wakes the tasks whose deadline has passed; false when there are no deadlines at all.
        fn wake_expired(&self) -> bool {
            let now = Instant::now();
            let mut table = self.table.lock();
            let mut wakers = Vec::new();
            let is_due = |entry: &TimerEntry| entry.at + GRACE <= now && !entry.has_expired;
            for (_, entry) in table.entries.iter_mut().filter(|(_, entry)| is_due(entry)) {
                entry.has_expired = true;
                wakers.push(entry.waker.clone());
            }
            let is_busy = !table.entries.is_empty();
            drop(table);
            // Woken tasks may lock the table at once, on another thread.
            wakers.into_iter().for_each(Waker::wake);
            is_busy
        }

        /// Marks the ticker as asleep, unless a deadline was set since it last looked.
        fn fall_asleep(&self) -> bool {
            let mut table = self.table.lock();
            let is_empty = table.entries.is_empty();
            if is_empty {
                table.ticker = TickerState::Asleep;
            }
            is_empty
        }
    }
}

mod plain {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use parking_lot::Mutex;
    use slab::Slab;
    use tokio::time::{Instant, Sleep};

    use super::GRACE;

    /// A tokio timer for each deadline.
    #[derive(Debug, Default)]
    pub(super) struct PlainTimer(Mutex<Slab<Pin<Box<Sleep>>>>);

    impl PlainTimer {
        pub(super) fn set(&self, at: Instant, context: &mut Context<'_>) -> usize {
            let mut sleep = Box::pin(tokio::time::sleep_until(at + GRACE));
            // Registers the waker. Should the deadline have passed already, the next poll must come by itself.
            if sleep.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
            self.0.lock().insert(sleep)
        }

        pub(super) fn move_to(&self, index: usize, at: Instant) {
            self.0.lock()[index].as_mut().reset(at + GRACE);
        }

        pub(super) fn poll(&self, index: usize, context: &mut Context<'_>) -> Poll<()> {
            self.0.lock()[index].as_mut().poll(context)
        }

        pub(super) fn remove(&self, index: usize) {
            let sleep = self.0.lock().remove(index);
            drop(sleep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn set(timer: &CoarseTimer, at: Instant) -> TimerKey {
        std::future::poll_fn(|context| Poll::Ready(timer.set(at, context))).await
    }

    async fn expired(timer: &CoarseTimer, key: TimerKey) {
        std::future::poll_fn(|context| timer.poll(&key, context)).await;
        timer.remove(key);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_expires_soon_after_its_time_and_not_before() {
        let timer = CoarseTimer::default();
        let start = Instant::now();
        let key = set(&timer, start + Duration::from_secs(30)).await;
        expired(&timer, key).await;
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(30) && took <= Duration::from_millis(30_040), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_is_moved_expires_at_its_new_time() {
        let timer = CoarseTimer::default();
        let start = Instant::now();
        let key = set(&timer, start + Duration::from_secs(1)).await;
        timer.move_to(&key, start + Duration::from_secs(5));
        expired(&timer, key).await;
        assert!(start.elapsed() >= Duration::from_secs(5));
    }

    fn ticker_state(timer: &CoarseTimer) -> ticking::TickerState {
        let TimerCore::Ticking(timer) = &timer.0 else { panic!("it should tick") };
        timer.ticker_state()
    }

    #[tokio::test(start_paused = true)]
    async fn the_ticker_falls_asleep_and_is_woken_again() {
        use ticking::{QUIET_TICKS, TICK, TickerState};
        let timer = CoarseTimer(TimerCore::Ticking(TickingTimer::default()));
        expired(&timer, set(&timer, Instant::now() + TICK).await).await;
        tokio::time::sleep(TICK * (QUIET_TICKS + 10)).await;
        assert_eq!(ticker_state(&timer), TickerState::Asleep);
        expired(&timer, set(&timer, Instant::now() + TICK).await).await;
        assert_eq!(ticker_state(&timer), TickerState::Ticking);
    }
}
