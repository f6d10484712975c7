//! One clock for many deadlines.
//!
//! A timer of the runtime per call costs more than the call: while nothing else waits, each new timer wakes
//! the thread that sleeps in the kernel. Deadlines of seconds need no such precision, so one task looks at
//! all of them every few milliseconds while there are any.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often deadlines are looked at, and so how late one may be noticed.
const TICK: Duration = Duration::from_millis(20);
/// How many ticks without a deadline it takes until the task sleeps: calls that follow each other closely
/// should not have to wake it.
const QUIET_TICKS: u32 = 50;

/// Rings when deadlines pass. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Alarm(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Wakes the task when there is something to look at again.
    wanted: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    entries: Slab<Entry>,
    task: Task,
}

/// What the task does.
#[derive(Debug, Default, PartialEq, Eq)]
enum Task {
    #[default]
    NotStarted,
    Ticking,
    Asleep,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    has_rung: bool,
    waker: Waker,
}

/// One deadline; forgotten when dropped.
#[derive(Debug)]
pub(super) struct Bell {
    shared: Arc<Shared>,
    index: usize,
}

impl Alarm {
    /// Sets a deadline for the task of `context`. Must be called within a runtime.
    pub(super) fn set(&self, at: Instant, context: &Context<'_>) -> Bell {
        let waker = context.waker().clone();
        let mut table = self.0.table.lock();
        let index = table.entries.insert(Entry { at, has_rung: false, waker });
        let before = std::mem::replace(&mut table.task, Task::Ticking);
        drop(table);
        match before {
            Task::NotStarted => drop(tokio::spawn(tick(Arc::downgrade(&self.0), self.0.wanted.clone()))),
            Task::Asleep => self.0.wanted.notify_one(),
            Task::Ticking => {}
        }
        Bell { shared: self.0.clone(), index }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The task holds no deadline alive; it sees that nobody is left and ends.
        self.wanted.notify_one();
    }
}

impl Bell {
    /// Moves the deadline.
    pub(super) fn reset(&self, at: Instant) {
        let mut table = self.shared.table.lock();
        let entry = &mut table.entries[self.index];
        (entry.at, entry.has_rung) = (at, false);
    }

    /// Ready once the deadline was seen to have passed.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut table = self.shared.table.lock();
        let entry = &mut table.entries[self.index];
        if entry.has_rung {
            return Poll::Ready(());
        }
        entry.waker.clone_from(context.waker());
        Poll::Pending
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.shared.table.lock().entries.remove(self.index);
    }
}

/// Looks at the deadlines until nobody holds the alarm any more.
async fn tick(shared: Weak<Shared>, wanted: Arc<Notify>) {
    let mut quiet = 0;
    loop {
        tokio::time::sleep(TICK).await;
        let Some(strong) = shared.upgrade() else { return };
        quiet = if strong.ring() { 0 } else { quiet + 1 };
        let sleeps = quiet > QUIET_TICKS && strong.fall_asleep();
        drop(strong);
        if sleeps {
            wanted.notified().await;
            quiet = 0;
        }
    }
}

impl Shared {
    /// Wakes those whose time has come; false when there are no deadlines at all.
    fn ring(&self) -> bool {
        let now = Instant::now();
        let mut table = self.table.lock();
        let mut wakers = Vec::new();
        for (_, entry) in table.entries.iter_mut().filter(|(_, entry)| entry.at <= now && !entry.has_rung) {
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
            table.task = Task::Asleep;
        }
        is_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn set(alarm: &Alarm, at: Instant) -> Bell {
        std::future::poll_fn(|context| Poll::Ready(alarm.set(at, context))).await
    }

    async fn rung(bell: &Bell) {
        std::future::poll_fn(|context| bell.poll(context)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_rings_soon_after_its_time_and_not_before() {
        let alarm = Alarm::default();
        let start = Instant::now();
        rung(&set(&alarm, start + Duration::from_secs(30)).await).await;
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(30) && took <= Duration::from_secs(30) + 2 * TICK, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_that_is_moved_rings_at_its_new_time() {
        let alarm = Alarm::default();
        let start = Instant::now();
        let bell = set(&alarm, start + Duration::from_secs(1)).await;
        bell.reset(start + Duration::from_secs(5));
        rung(&bell).await;
        assert!(start.elapsed() >= Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_falls_asleep_and_is_woken_again() {
        let alarm = Alarm::default();
        rung(&set(&alarm, Instant::now() + TICK).await).await;
        tokio::time::sleep(TICK * (QUIET_TICKS + 10)).await;
        assert_eq!(alarm.0.table.lock().task, Task::Asleep);
        rung(&set(&alarm, Instant::now() + TICK).await).await;
        assert_eq!(alarm.0.table.lock().task, Task::Ticking);
    }
}
