//! A moment on the server's clock, so that no rule ever reads a clock by itself.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC, taken from the database host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub i64);

impl Moment {
    /// This moment moved by whole seconds; saturates instead of overflowing.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// How many whole seconds have passed since `earlier`; negative when `earlier` is later.
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        (self.0 - earlier.0) / 1000
    }
}

/// How far the clock may step back before we hold it still instead.
const TOLERATED_STEP_BACK_MS: i64 = 1000;

/// Clamps a clock that jumped backwards to the last recorded moment.
///
/// Leases are compared with stored times: were time to run backwards, a lease granted "later" would outlive its term.
pub fn clamp(now: Moment, last_recorded: Option<Moment>) -> Moment {
    match last_recorded {
        Some(last) if now.0 < last.0 - TOLERATED_STEP_BACK_MS => last,
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_of_more_than_a_second_is_clamped() {
        let check = |now, last, expected| assert_eq!(clamp(Moment(now), last), Moment(expected));
        check(5_000, None, 5_000);
        check(5_000, Some(Moment(4_000)), 5_000);
        check(5_000, Some(Moment(6_000)), 5_000);
        check(5_000, Some(Moment(6_001)), 6_001);
        check(5_000, Some(Moment(3_605_000)), 3_605_000);
    }
}
