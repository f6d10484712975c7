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

/// The time that counts, and how far it is ahead of the clock, after a look at the clock and the last recorded moment.
///
/// Leases are compared with stored times: were time to run backwards, a lease granted "later" would outlive its term.
/// So a clock that jumped back is not followed; time goes on from the last recorded moment, at the clock's pace, until
/// the clock has caught up. Were it to stand still instead, after a clock that was years ahead for a minute, no lease
/// would ever end again.
pub fn steady(clock: Moment, ahead_ms: i64, last_recorded: Option<Moment>) -> (Moment, i64) {
    let Some(last) = last_recorded.filter(|last| clock.0 < last.0.saturating_sub(TOLERATED_STEP_BACK_MS)) else {
        return (clock, 0);
    };
    let now = clock.0.saturating_add(ahead_ms).max(last.0);
    (Moment(now), now.saturating_sub(clock.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumped_back_is_not_followed_until_it_has_caught_up() {
        let check = |clock, ahead, last: i64, expected| {
            assert_eq!(steady(Moment(clock), ahead, Some(Moment(last))), expected, "{clock} {ahead} {last}");
        };
        assert_eq!(steady(Moment(5_000), 7, None), (Moment(5_000), 0));
        check(5_000, 0, 4_000, (Moment(5_000), 0));
        // A small step back is followed.
        check(5_000, 0, 6_000, (Moment(5_000), 0));
        check(5_000, 0, 6_001, (Moment(6_001), 1_001));
        check(5_000, 0, 3_605_000, (Moment(3_605_000), 3_600_000));
        // Time goes on from there, also when nothing new is recorded, and also when others have recorded more.
        check(7_000, 3_600_000, 3_605_000, (Moment(3_607_000), 3_600_000));
        check(7_000, 3_600_000, 3_609_000, (Moment(3_609_000), 3_602_000));
        // The clock was set right.
        check(3_610_000, 3_600_000, 3_609_000, (Moment(3_610_000), 0));
        check(0, i64::MAX, i64::MAX, (Moment(i64::MAX), i64::MAX));
    }
}
