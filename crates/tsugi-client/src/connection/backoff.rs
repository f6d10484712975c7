//! Decides how long to wait before the next attempt to connect, and when to stop.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

/// Waiting times that double from the first to the longest, with full jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// The longest wait before the second attempt.
    pub first: Duration,
    /// The longest wait ever.
    pub longest: Duration,
    /// How many failures within `window` are a crash loop.
    pub burst: usize,
    /// The time in which failures are counted.
    pub window: Duration,
    /// How long a crash loop is left alone.
    pub pause: Duration,
    /// How long a connection must hold before earlier failures are forgotten.
    pub healthy_after: Duration,
    /// Give up after this many failures in a row; `None` means never.
    pub max_retries: Option<u32>,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
            burst: 5,
            window: Duration::from_secs(10),
            pause: Duration::from_secs(60),
            healthy_after: Duration::from_secs(60),
            max_retries: None,
        }
    }
}

/// Counts failures and decides what to do next.
#[derive(Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
    recent: VecDeque<Instant>,
    connected_at: Option<Instant>,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackoffVerdict {
    /// Try again after this long.
    RetryAfter(Duration),
    /// A crash loop: leave it alone this long, then probe once.
    Pause(Duration),
    /// Stop trying.
    GiveUp,
}

impl Backoff {
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: 0, recent: VecDeque::new(), connected_at: None }
    }

    pub fn connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
    }

    /// The attempt failed, or the connection broke.
    pub fn failed(&mut self, now: Instant) -> BackoffVerdict {
        // A connection that held for a while shows that the earlier failures are over.
        if self.connected_at.take().is_some_and(|since| now.duration_since(since) >= self.policy.healthy_after) {
            self.failures = 0;
            self.recent.clear();
        }
        self.failures += 1;
        // Only failures within the window count towards a crash loop.
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|first| now.duration_since(*first) > self.policy.window) {
            self.recent.pop_front();
        }
        // Giving up comes before the crash loop: a pause would hide that no attempt is left.
        if self.policy.max_retries.is_some_and(|most| self.failures > most) {
            return BackoffVerdict::GiveUp;
        }
        if self.recent.len() >= self.policy.burst {
            return BackoffVerdict::Pause(self.policy.pause);
        }
        BackoffVerdict::RetryAfter(self.jittered())
    }

    /// Forgets all failures, because a fresh start was asked for.
    pub fn reset(&mut self) {
        self.failures = 0;
        self.recent.clear();
    }

    /// The number of failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Full jitter: anything from nothing to the doubled time, so that many clients do not return as one.
    fn jittered(&self) -> Duration {
        let doubled = self.policy.first.saturating_mul(1 << (self.failures - 1).min(16));
        let longest = doubled.min(self.policy.longest);
        longest.mul_f64(rand::rng().random_range(0.0..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(policy: BackoffPolicy) -> BackoffPolicy {
        BackoffPolicy { burst: usize::MAX, ..policy }
    }

    #[test]
    fn waits_grow_to_the_longest_and_are_spread_over_the_whole_range() {
        let now = Instant::now();
        let mut backoff = Backoff::new(spread(BackoffPolicy::default()));
        let mut longest_seen = Duration::ZERO;
        for attempt in 0u32..40 {
            let BackoffVerdict::RetryAfter(wait) = backoff.failed(now) else { panic!("no retry") };
            let ceiling = Duration::from_millis(100).saturating_mul(1 << attempt.min(16)).min(Duration::from_secs(30));
            assert!(wait <= ceiling, "attempt {attempt}: {wait:?} > {ceiling:?}");
            longest_seen = longest_seen.max(wait);
        }
        assert!(longest_seen > Duration::from_secs(5));
    }

    #[test]
    fn five_failures_in_ten_seconds_are_a_crash_loop() {
        let start = Instant::now();
        let mut backoff = Backoff::new(BackoffPolicy::default());
        for second in 0..4 {
            assert!(matches!(backoff.failed(start + Duration::from_secs(second)), BackoffVerdict::RetryAfter(_)));
        }
        assert_eq!(backoff.failed(start + Duration::from_secs(4)), BackoffVerdict::Pause(Duration::from_secs(60)));
    }

    #[test]
    fn a_connection_that_held_for_a_minute_starts_afresh() {
        let start = Instant::now();
        let mut backoff = Backoff::new(BackoffPolicy { max_retries: Some(1), ..BackoffPolicy::default() });
        assert!(matches!(backoff.failed(start), BackoffVerdict::RetryAfter(_)));
        backoff.connected(start);
        assert!(matches!(backoff.failed(start + Duration::from_secs(61)), BackoffVerdict::RetryAfter(_)));
        backoff.connected(start + Duration::from_secs(62));
        assert_eq!(backoff.failed(start + Duration::from_secs(63)), BackoffVerdict::GiveUp);
    }
}
