//! A moment on the server's clock, so that no rule ever reads a clock by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC, taken from the database host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
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

/// How far a clock may be ahead of the time that has passed on its machine before it is not believed.
pub const TOLERATED_LEAD_MS: i64 = 120_000;

/// The time that counts, and how far it is ahead of the clock, after a look at the clock, the last recorded moment and,
/// where that is known, the moment that is expected by the machine's uptime.
///
/// A clock far ahead of the expected moment was set: following it would end every lease at once, and its events would
/// become the others' time. The expected moment counts instead.
///
/// Leases are compared with stored times: were time to run backwards, a lease granted "later" would outlive its term.
/// So a clock that jumped back is not followed; time goes on from the last recorded moment, at the clock's pace, until
/// the clock has caught up. Were it to stand still instead, after a clock that was years ahead for a minute, no lease
/// would ever end again.
pub fn steady(clock: Moment, ahead_ms: i64, last_recorded: Option<Moment>, expected: Option<Moment>) -> (Moment, i64) {
    let believed = expected.map_or(clock, |expected| match clock.0 > expected.0.saturating_add(TOLERATED_LEAD_MS) {
        true => expected,
        false => clock,
    });
    let Some(last) = last_recorded.filter(|last| believed.0 < last.0.saturating_sub(TOLERATED_STEP_BACK_MS)) else {
        return (believed, 0);
    };
    let now = believed.0.saturating_add(ahead_ms).max(last.0);
    // A process that has just started has recorded no lead yet; the uptime gives it the time of the others.
    let now = expected.map_or(now, |expected| now.max(expected.0));
    (Moment(now), now.saturating_sub(believed.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumped_back_is_not_followed_until_it_has_caught_up() {
        let check = |clock, ahead, last: i64, expected| {
            assert_eq!(steady(Moment(clock), ahead, Some(Moment(last)), None), expected, "{clock} {ahead} {last}");
        };
        assert_eq!(steady(Moment(5_000), 7, None, None), (Moment(5_000), 0));
        check(5_000, 0, 4_000, (Moment(5_000), 0));
        // A small step back is followed.
        check(5_000, 0, 6_000, (Moment(5_000), 0));
        check(5_000, 0, 6_001, (Moment(6_001), 1_001));
        check(5_000, 0, 3_605_000, (Moment(3_605_000), 3_600_000));
        // Time continues from there, whether nothing new is recorded or others have recorded more.
        check(7_000, 3_600_000, 3_605_000, (Moment(3_607_000), 3_600_000));
        check(7_000, 3_600_000, 3_609_000, (Moment(3_609_000), 3_602_000));
        // The clock was set right.
        check(3_610_000, 3_600_000, 3_609_000, (Moment(3_610_000), 0));
        check(0, i64::MAX, i64::MAX, (Moment(i64::MAX), i64::MAX));
    }

    #[test]
    fn a_clock_that_was_set_ahead_is_not_followed() {
        let check = |clock: i64, last: i64, expected: i64, now: i64| {
            let settled = steady(Moment(clock), 0, Some(Moment(last)), Some(Moment(expected))).0;
            assert_eq!(settled, Moment(now), "{clock} {last} {expected}");
        };
        // Within two minutes the clock counts: it is the more exact of the two.
        check(1_119_000, 990_000, 1_000_000, 1_119_000);
        check(8_200_000, 990_000, 1_000_000, 1_000_000);
        check(i64::MAX, 990_000, 1_000_000, 1_000_000);
        // What was recorded stays in the past, whatever the uptime says.
        check(8_200_000, 1_010_000, 1_000_000, 1_010_000);
        // After a clock that had been ahead, time goes on at the pace of the uptime, also for a new process.
        check(1_000_000, 8_200_000, 8_260_000, 8_260_000);
    }
}
