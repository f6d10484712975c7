//! Moments as people write them, in UTC: the plain board and the table of events go where no program formats them.

/// `2026-11-16T10:20:30.123Z`
pub(super) fn iso(milliseconds: i64) -> String {
    let (seconds, rest) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:03}Z")
}

/// `2026-11-16 10:20 UTC`
pub(super) fn minute(milliseconds: i64) -> String {
    format!("{} UTC", iso(milliseconds)[..16].replace('T', " "))
}

/// The date of a day, counted from 1970. Years are taken to begin in March, so that leap days come last in them.
fn date(day: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(ERA), day.rem_euclid(ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc_over_leap_days_and_before_1970() {
        for (milliseconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_794_824_430_000, "2026-11-16T10:20:30.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(milliseconds), expected);
        }
        assert_eq!(minute(1_794_824_430_000), "2026-11-16 10:20 UTC");
    }
}
