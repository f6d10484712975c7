//! Where the time comes from, so that tests can move it.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::time::{Moment, steady};

/// How long the machine has been up. Setting its clock changes neither part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineUptime {
    /// Which boot of which machine; uptimes of different boots cannot be compared.
    pub boot: Arc<str>,
    /// Since that boot, with the time that the machine was asleep.
    pub millis: i64,
}

/// A source of time.
pub trait TimeSource: Send + Sync {
    fn now(&self) -> Moment;

    /// How long the machine has been up, where that is known.
    fn uptime(&self) -> Option<MachineUptime> {
        None
    }
}

/// How far the time that counts is ahead of the clock, for as long as a store is open.
#[derive(Debug, Default)]
pub(crate) struct ClockLead(AtomicI64);

impl ClockLead {
    /// The time that counts; see [`steady`].
    pub(crate) fn settle(&self, clock: Moment, last_recorded: Option<Moment>, expected: Option<Moment>) -> Moment {
        let (now, ahead) = steady(clock, self.0.load(Ordering::Relaxed), last_recorded, expected);
        self.0.store(ahead, Ordering::Relaxed);
        now
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl TimeSource for SystemClock {
    fn now(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    #[cfg(target_os = "linux")]
    fn uptime(&self) -> Option<MachineUptime> {
        static BOOT: OnceLock<Option<Arc<str>>> = OnceLock::new();
        let boot = BOOT.get_or_init(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(id.trim().into())
        });
        // `CLOCK_BOOTTIME` counts sleep too; `Instant` does not, and a lease would be held longer by every nap.
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Some(MachineUptime { boot: boot.clone()?, millis: up.tv_sec * 1000 + up.tv_nsec / 1_000_000 })
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    passed_ms: Arc<AtomicI64>,
    wrong_by_ms: i64,
}

impl ManualClock {
    /// A clock standing at a moment.
    pub fn at(moment: Moment) -> Self {
        Self { passed_ms: Arc::new(AtomicI64::new(moment.0)), wrong_by_ms: 0 }
    }

    /// Moves it, forwards or backwards.
    pub fn advance_seconds(&self, seconds: i64) {
        self.passed_ms.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// Moves it by milliseconds.
    pub fn advance_millis(&self, millis: i64) {
        self.passed_ms.fetch_add(millis, Ordering::SeqCst);
    }

    /// The clock of another process on the same machine, which shows a time that is wrong by so many seconds.
    #[must_use]
    pub fn wrong_by_seconds(&self, seconds: i64) -> Self {
        Self { wrong_by_ms: seconds * 1000, ..self.clone() }
    }
}

impl TimeSource for ManualClock {
    fn now(&self) -> Moment {
        Moment(self.passed_ms.load(Ordering::SeqCst).saturating_add(self.wrong_by_ms))
    }

    fn uptime(&self) -> Option<MachineUptime> {
        Some(MachineUptime { boot: "manual".into(), millis: self.passed_ms.load(Ordering::SeqCst) })
    }
}
