//! One clock for many deadlines.
//!
//! A timer of the runtime per call costs more than the call: while nothing else waits, each new timer wakes
//! the thread that sleeps in the kernel. Deadlines of seconds need no such precision, so one task looks at
//! all of them every few milliseconds while there are any.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often deadlines are looked at, and so how late one may be noticed.
const TICK: Duration = Duration::from_millis(20);
/// How long after its time a deadline rings: whoever below has a limit of the same length knows better what is wrong.
const GRACE: Duration = Duration::from_millis(5);
/// How many ticks without a deadline it takes until the task sleeps: calls that follow each other closely
/// should not have to wake it.
const QUIET_TICKS: u32 = 50;

/// Rings when deadlines pass.
#[derive(Debug, Default)]
pub struct CoarseTimer(Arc<TimerCore>);

#[derive(Debug, Default)]
struct TimerCore {
    table: Mutex<TimerTable>,
    /// Wakes the task when there is something to look at again.
    wanted: Arc<Notify>,
}

#[derive(Debug, Default)]
struct TimerTable {
    entries: Slab<TimerEntry>,
    task: TickerState,
}

/// What the task does.
#[derive(Debug, Default, PartialEq, Eq)]
enum TickerState {
    #[default]
    NotStarted,
    Ticking,
    Asleep,
}

#[derive(Debug)]
struct TimerEntry {
    at: Instant,
    has_rung: bool,
    waker: Waker,
}

/// One deadline of an alarm, to be given back to it.
#[derive(Debug)]
pub struct TimerKey(usize);

impl CoarseTimer {
    /// Sets a deadline for the task of `context`. Must be called within a runtime.
    pub fn set(&self, at: Instant, context: &Context<'_>) -> TimerKey {
        let waker = context.waker().clone();
        let mut table = self.0.table.lock();
        let index = table.entries.insert(TimerEntry { at, has_rung: false, waker });
        let before = std::mem::replace(&mut table.task, TickerState::Ticking);
        drop(table);
        match before {
            TickerState::NotStarted => drop(tokio::spawn(tick(Arc::downgrade(&self.0), self.0.wanted.clone()))),
            TickerState::Asleep => self.0.wanted.notify_one(),
            TickerState::Ticking => {}
        }
        TimerKey(index)
    }

    /// What a future gives, unless the deadline passes before.
    pub async fn timeout_at<F: Future>(&self, at: Instant, future: F) -> Option<F::Output> {
        let mut waiting = TimerGuard { alarm: self, bell: None };
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            waiting.poll(at, context).map(|()| None)
        })
        .await
    }

    /// Moves a deadline.
    pub fn move_to(&self, bell: &TimerKey, at: Instant) {
        let mut table = self.0.table.lock();
        let entry = &mut table.entries[bell.0];
        (entry.at, entry.has_rung) = (at, false);
    }

    /// Ready once the deadline was seen to have passed.
    pub fn poll(&self, bell: &TimerKey, context: &mut Context<'_>) -> Poll<()> {
        let mut table = self.0.table.lock();
        let entry = &mut table.entries[bell.0];
        if entry.has_rung {
            return Poll::Ready(());
        }
        entry.waker.clone_from(context.waker());
        Poll::Pending
    }

    /// Takes a deadline back.
    pub fn remove(&self, bell: TimerKey) {
        let entry = self.0.table.lock().entries.remove(bell.0);
        drop(entry);
    }
}

/// Somebody who waits, and takes the deadline back when done.
struct TimerGuard<'alarm> {
    alarm: &'alarm CoarseTimer,
    bell: Option<TimerKey>,
}

impl TimerGuard<'_> {
    fn poll(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        match &self.bell {
            Some(bell) => self.alarm.poll(bell, context),
            None => {
                self.bell = Some(self.alarm.set(at, context));
                Poll::Pending
            }
        }
    }
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        if let Some(bell) = self.bell.take() {
            self.alarm.remove(bell);
        }
    }
}

impl Drop for TimerCore {
    fn drop(&mut self) {
        // The task holds no deadline alive; it sees that nobody is left and ends.
        self.wanted.notify_one();
    }
}

/// Looks at the deadlines until nobody holds the alarm any more.
async fn tick(shared: Weak<TimerCore>, wanted: Arc<Notify>) {
    let mut quiet = 0;
    loop {
        tokio::time::sleep(TICK).await;
        let Some(strong) = shared.upgrade() else { return };
        quiet = if strong.wake_expired() { 0 } else { quiet + 1 };
        let sleeps = quiet > QUIET_TICKS && strong.fall_asleep();
        drop(strong);
        if sleeps {
            wanted.notified().await;
            quiet = 0;
        }
    }
}

impl TimerCore {
    /// Wakes those whose time has come; false when there are no deadlines at all.
    fn wake_expired(&self) -> bool {
        let now = Instant::now();
        let mut table = self.table.lock();
        let mut wakers = Vec::new();
        for (_, entry) in table.entries.iter_mut().filter(|(_, entry)| entry.at + GRACE <= now && !entry.has_rung) {
            entry.has_rung = true;
            wakers.push(entry.waker.clone());
        }
        let is_busy = !table.entries.is_empty();
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
        is_busy
    }

    /// Goes to sleep, unless a deadline was set in the meantime.
    fn fall_asleep(&self) -> bool {
        let mut table = self.table.lock();
        let is_empty = table.entries.is_empty();
        if is_empty {
            table.task = TickerState::Asleep;
        }
        is_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn set(alarm: &CoarseTimer, at: Instant) -> TimerKey {
        std::future::poll_fn(|context| Poll::Ready(alarm.set(at, context))).await
    }

    async fn rung(alarm: &CoarseTimer, bell: TimerKey) {
        std::future::poll_fn(|context| alarm.poll(&bell, context)).await;
        alarm.remove(bell);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_rings_soon_after_its_time_and_not_before() {
        let alarm = CoarseTimer::default();
        let start = Instant::now();
        let bell = set(&alarm, start + Duration::from_secs(30)).await;
        rung(&alarm, bell).await;
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(30) && took <= Duration::from_secs(30) + 2 * TICK, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_that_is_moved_rings_at_its_new_time() {
        let alarm = CoarseTimer::default();
        let start = Instant::now();
        let bell = set(&alarm, start + Duration::from_secs(1)).await;
        alarm.move_to(&bell, start + Duration::from_secs(5));
        rung(&alarm, bell).await;
        assert!(start.elapsed() >= Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_falls_asleep_and_is_woken_again() {
        let alarm = CoarseTimer::default();
        rung(&alarm, set(&alarm, Instant::now() + TICK).await).await;
        tokio::time::sleep(TICK * (QUIET_TICKS + 10)).await;
        assert_eq!(alarm.0.table.lock().task, TickerState::Asleep);
        rung(&alarm, set(&alarm, Instant::now() + TICK).await).await;
        assert_eq!(alarm.0.table.lock().task, TickerState::Ticking);
    }
}
