//! How often a caller may call: a bucket of tokens that fills by itself.
//!
//! The crate `governor` is not used: it adds five packages to replace 20 lines, has no limit of zero calls, and hides the
//! clock that the test here turns by hand.

use std::time::{Duration, Instant};

/// So many calls per minute, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallQuota {
    /// Calls a minute in the long run.
    pub per_minute: u32,
    /// Calls that may come in one burst.
    pub burst: u32,
}

impl CallQuota {
    /// This many a minute, all of which may come at once.
    pub fn per_minute(calls: u32) -> Self {
        Self { per_minute: calls, burst: calls }
    }
}

/// The tokens one caller has left.
#[derive(Debug)]
pub struct TokenBucket {
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    pub fn full(quota: CallQuota, now: Instant) -> Self {
        Self { tokens: f64::from(quota.burst), filled_at: now }
    }

    /// Takes one token, or says how long until there is one.
    pub fn take(&mut self, quota: CallQuota, now: Instant) -> Result<(), Duration> {
        let per_second = f64::from(quota.per_minute) / 60.0;
        let waited = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + waited * per_second).min(f64::from(quota.burst));
        self.filled_at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        if per_second == 0.0 {
            return Err(Duration::from_secs(3600));
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_the_steady_rate() {
        let quota = CallQuota { per_minute: 60, burst: 3 };
        let start = Instant::now();
        let mut bucket = TokenBucket::full(quota, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(quota, start), Ok(()));
        }
        assert_eq!(bucket.take(quota, start), Err(Duration::from_secs(1)));
        assert_eq!(bucket.take(quota, start + Duration::from_secs(1)), Ok(()));
        assert!(bucket.take(quota, start + Duration::from_secs(1)).is_err());
        assert_eq!(bucket.take(quota, start + Duration::from_secs(3600)), Ok(()), "it never holds more than the burst");
    }
}
