//! Where the time comes from, so that tests can move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::time::{Moment, steady};

/// A source of time.
pub trait TimeSource: Send + Sync {
    /// The time now.
    fn now(&self) -> Moment;
}

/// How far the time that counts is ahead of the clock, for as long as a store is open.
#[derive(Debug, Default)]
pub(crate) struct ClockLead(AtomicI64);

impl ClockLead {
    /// The time that counts; see [`steady`].
    pub(crate) fn settle(&self, clock: Moment, last_recorded: Option<Moment>) -> Moment {
        let (now, ahead) = steady(clock, self.0.load(Ordering::Relaxed), last_recorded);
        self.0.store(ahead, Ordering::Relaxed);
        now
    }
}

/// This machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl TimeSource for SystemClock {
    fn now(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock standing at a moment.
    pub fn at(moment: Moment) -> Self {
        Self(Arc::new(AtomicI64::new(moment.0)))
    }

    /// Moves it, forwards or backwards.
    pub fn advance_seconds(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// Moves it by milliseconds.
    pub fn advance_millis(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl TimeSource for ManualClock {
    fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::SeqCst))
    }
}
