//! How long to wait before trying again: the one jitter function, and what the supervisor does after a failure.
//!
//! The crate `backon` is not used: it would replace the eight lines of [`grown`] and [`full_jitter`], and its jitter only
//! lengthens a wait, so that clients that failed together do not come back over the whole interval.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

/// While an address has been away for a short time, no wait is longer than this: a server that starts a few seconds
/// after us, or is restarted, is used almost at once.
const QUICK: Duration = Duration::from_secs(2);

/// A server whose next attempt is further away than this counts as down: calls fail at once instead of waiting.
const DOWN: Duration = Duration::from_secs(5);

/// Calls may wake an unreachable address this often, however long it has been away.
const WAKE_ADDRESS: Duration = Duration::from_secs(10);

/// A connection to an address that held this long ends the absence before it.
const BACK: Duration = Duration::from_secs(10);

/// The waits between attempts to connect one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// The longest wait before the second attempt. It doubles with every failure.
    pub first: Duration,
    /// The longest wait between two starts of a program that keeps failing.
    pub longest: Duration,
    /// The longest wait between two attempts to reach an address. With the default, an address that stays away costs
    /// fewer than 100 attempts a day.
    pub longest_away: Duration,
    /// How many failures of a program within `window` are a crash loop.
    pub burst: usize,
    /// The time in which failures are counted.
    pub window: Duration,
    /// How long a crash loop pauses; doubled with every start that fails after it, up to `longest`.
    pub pause: Duration,
    /// How long a program must run before its earlier failures are forgotten.
    pub healthy_after: Duration,
    /// Give up after this many failures in a row; `None` means never.
    pub max_retries: Option<u32>,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(15 * 60),
            longest_away: Duration::from_secs(45 * 60),
            burst: 5,
            window: Duration::from_secs(10),
            pause: Duration::from_secs(60),
            healthy_after: Duration::from_secs(60),
            max_retries: None,
        }
    }
}

/// What failed, since a program and an address fail in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackoffKind {
    /// A program of ours. Every start costs the machine something, and one that dies at once will die again.
    Program,
    /// A server elsewhere. Asking is cheap, and it may be back at any moment without our help.
    Address,
}

/// Remembers failures and decides what to do next.
#[derive(Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    kind: BackoffKind,
    failures: u32,
    /// How often in a row the pause of a crash loop was taken.
    pauses: u32,
    recent: VecDeque<Instant>,
    /// When the absence began that still lasts.
    away_since: Option<Instant>,
    connected_at: Option<Instant>,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackoffVerdict {
    Retry(RetryPlan),
    GiveUp,
}

/// When the next attempt takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlan {
    /// After how long it takes place by itself.
    pub wait: Duration,
    /// After how long a call may bring it forward. This bounds what calls can start.
    pub wake_after: Duration,
    /// Whether the server counts as down until then, so that calls do not wait for it.
    pub is_down: bool,
}

impl Backoff {
    pub fn new(policy: BackoffPolicy, kind: BackoffKind) -> Self {
        let recent = VecDeque::new();
        Self { policy, kind, failures: 0, pauses: 0, recent, away_since: None, connected_at: None }
    }

    /// The connection stands.
    pub fn connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
    }

    /// The attempt failed, or the connection broke.
    pub fn failed(&mut self, now: Instant) -> BackoffVerdict {
        let needed = match self.kind {
            BackoffKind::Program => self.policy.healthy_after,
            BackoffKind::Address => self.policy.healthy_after.min(BACK),
        };
        if self.connected_at.take().is_some_and(|since| now.duration_since(since) >= needed) {
            self.reset();
        }
        self.failures += 1;
        // Before the waits are planned: a command that gives up after three tries must not pause first.
        if self.policy.max_retries.is_some_and(|most| self.failures > most) {
            return BackoffVerdict::GiveUp;
        }
        BackoffVerdict::Retry(match self.kind {
            BackoffKind::Program => self.after_program(now),
            BackoffKind::Address => self.after_address(now),
        })
    }

    /// Forgets the past: an operator asked for a fresh start.
    pub fn reset(&mut self) {
        (self.failures, self.pauses, self.away_since) = (0, 0, None);
        self.recent.clear();
    }

    /// How many failures in a row there were.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn after_program(&mut self, now: Instant) -> RetryPlan {
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|first| now.duration_since(*first) > self.policy.window) {
            self.recent.pop_front();
        }
        // Once in a crash loop, a single start that fails is enough to pause again, and for longer.
        if self.pauses > 0 || self.recent.len() >= self.policy.burst {
            let longest = self.policy.longest.max(self.policy.pause);
            let wait = grown(self.policy.pause, 2.0, self.pauses, longest);
            self.pauses += 1;
            return RetryPlan { wait, wake_after: wait / 4, is_down: true };
        }
        let ceiling = grown(self.policy.first, 2.0, self.failures - 1, self.policy.longest);
        RetryPlan { wait: spread(ceiling), wake_after: ceiling / 4, is_down: ceiling > DOWN }
    }

    fn after_address(&mut self, now: Instant) -> RetryPlan {
        let away = now.duration_since(*self.away_since.get_or_insert(now));
        let quick = grown(self.policy.first, 2.0, self.failures - 1, QUICK);
        // In step with the absence: however long it lasted, it grows by half at most before it is noticed to be over.
        let ceiling = quick.max(away / 2).min(self.policy.longest_away);
        RetryPlan { wait: spread(ceiling), wake_after: (ceiling / 4).min(WAKE_ADDRESS), is_down: ceiling > DOWN }
    }
}

/// The longest wait after `times` earlier ones: it grows by `factor` with each, up to `longest`.
pub(crate) fn grown(first: Duration, factor: f64, times: u32, longest: Duration) -> Duration {
    let grown = first.as_secs_f64() * factor.max(1.0).powi(times.min(64) as i32);
    // The sum may be beyond what a duration can hold, so the smaller is taken before the conversion.
    Duration::from_secs_f64(grown.min(longest.as_secs_f64()))
}

/// Full jitter: anything from nothing to the ceiling, so that many clients do not return as one.
pub(crate) fn full_jitter(ceiling: Duration) -> Duration {
    ceiling.mul_f64(rand::rng().random_range(0.0..=1.0))
}

/// Full jitter for short waits. Long ones are at least half of their ceiling, which bounds the attempts per day.
fn spread(ceiling: Duration) -> Duration {
    match ceiling > DOWN {
        true => ceiling / 2 + full_jitter(ceiling / 2),
        false => full_jitter(ceiling),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(kind: BackoffKind) -> Backoff {
        Backoff::new(BackoffPolicy::default(), kind)
    }

    fn plan(verdict: BackoffVerdict) -> RetryPlan {
        match verdict {
            BackoffVerdict::Retry(plan) => plan,
            BackoffVerdict::GiveUp => panic!("given up"),
        }
    }

    /// When the attempts of this long take place, the first at once, each failing after `takes`.
    fn attempts(kind: BackoffKind, takes: Duration, during: Duration) -> Vec<Duration> {
        let start = Instant::now();
        let (mut backoff, mut now, mut times) = (backoff(kind), start, Vec::new());
        while now - start < during {
            times.push(now - start);
            now += takes;
            now += plan(backoff.failed(now)).wait;
        }
        times
    }

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn waits_grow_and_are_spread_over_the_whole_range() {
        let now = Instant::now();
        let policy = BackoffPolicy { burst: usize::MAX, ..BackoffPolicy::default() };
        let mut backoff = Backoff::new(policy, BackoffKind::Program);
        let mut longest_seen = Duration::ZERO;
        for attempt in 0u32..40 {
            let wait = plan(backoff.failed(now)).wait;
            let ceiling = Duration::from_millis(100).saturating_mul(1 << attempt.min(16)).min(policy.longest);
            assert!(wait <= ceiling, "attempt {attempt}: {wait:?} > {ceiling:?}");
            longest_seen = longest_seen.max(wait);
        }
        assert!(longest_seen > policy.longest / 2);
    }

    #[test]
    fn an_address_that_is_away_for_a_short_time_is_tried_within_two_seconds_of_its_return() {
        for _ in 0..100 {
            let times = attempts(BackoffKind::Address, Duration::ZERO, Duration::from_secs(10));
            for back in [Duration::from_secs(2), Duration::from_secs(3)] {
                let found = times.iter().find(|time| **time >= back).unwrap();
                assert!(*found - back <= QUICK, "back after {back:?}, tried at {found:?}");
            }
        }
    }

    #[test]
    fn an_address_that_stays_away_costs_fewer_than_100_attempts_a_day() {
        for _ in 0..100 {
            let count = attempts(BackoffKind::Address, Duration::ZERO, DAY).len();
            assert!(count < 100, "{count} attempts");
        }
    }

    #[test]
    fn a_call_may_wake_an_address_that_has_been_away_for_long_but_not_all_the_time() {
        let start = Instant::now();
        let mut backoff = backoff(BackoffKind::Address);
        backoff.failed(start);
        let late = plan(backoff.failed(start + DAY));
        assert!(late.is_down && late.wake_after == WAKE_ADDRESS && late.wait > WAKE_ADDRESS, "{late:?}");
    }

    #[test]
    fn an_address_that_was_back_for_a_while_begins_with_short_waits() {
        let start = Instant::now();
        let mut backoff = backoff(BackoffKind::Address);
        backoff.failed(start);
        assert!(plan(backoff.failed(start + DAY)).is_down);
        backoff.connected(start + DAY);
        assert!(plan(backoff.failed(start + DAY + BACK)).wait <= Duration::from_millis(100));
    }

    #[test]
    fn five_failures_in_ten_seconds_are_a_crash_loop_whose_pauses_double() {
        let start = Instant::now();
        let mut backoff = backoff(BackoffKind::Program);
        for second in 0..4 {
            assert!(!plan(backoff.failed(start + Duration::from_secs(second))).is_down);
        }
        let mut now = start + Duration::from_secs(4);
        for minutes in [1, 2, 4, 8, 15, 15] {
            let plan = plan(backoff.failed(now));
            assert_eq!((plan.wait, plan.is_down), (Duration::from_secs(minutes * 60), true));
            now += plan.wait;
        }
    }

    #[test]
    fn a_program_that_keeps_failing_is_started_less_and_less_however_slowly_it_fails() {
        for takes in [Duration::ZERO, Duration::from_secs(3), Duration::from_secs(30)] {
            let in_40_minutes = attempts(BackoffKind::Program, takes, Duration::from_secs(40 * 60)).len();
            assert!(in_40_minutes < 25, "{in_40_minutes} starts, each failing after {takes:?}");
        }
    }

    #[test]
    fn calls_that_never_stop_start_a_failing_program_less_and_less() {
        let start = Instant::now();
        let (mut backoff, mut now, mut starts) = (backoff(BackoffKind::Program), start, 0);
        while now - start < Duration::from_secs(40 * 60) {
            starts += 1;
            let plan = plan(backoff.failed(now));
            now += plan.wake_after.min(plan.wait).max(Duration::from_millis(1));
        }
        assert!(starts < 40, "{starts} starts");
    }

    #[test]
    fn a_program_that_ran_for_a_minute_starts_afresh() {
        let start = Instant::now();
        let policy = BackoffPolicy { max_retries: Some(1), ..BackoffPolicy::default() };
        let mut backoff = Backoff::new(policy, BackoffKind::Program);
        assert!(matches!(backoff.failed(start), BackoffVerdict::Retry(_)));
        backoff.connected(start);
        assert!(matches!(backoff.failed(start + Duration::from_secs(61)), BackoffVerdict::Retry(_)));
        backoff.connected(start + Duration::from_secs(62));
        assert_eq!(backoff.failed(start + Duration::from_secs(63)), BackoffVerdict::GiveUp);
    }
}
