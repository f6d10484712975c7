//! Points in time as records carry them: UTC, RFC 3339, microseconds.

use std::time::{SystemTime, UNIX_EPOCH};

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// Microseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditTime(u64);

impl AuditTime {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Days since 1970, which is what daily rotation compares.
    pub(crate) const fn day(self) -> u64 {
        self.0 / MICROS_PER_SECOND / SECONDS_PER_DAY
    }

    /// `2026-11-18T04:15:00.123456Z`.
    pub(crate) fn to_bytes(self) -> [u8; 27] {
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let seconds = self.0 / MICROS_PER_SECOND;
        let (year, month, day) = civil(seconds / SECONDS_PER_DAY);
        let of_day = seconds % SECONDS_PER_DAY;
        put(&mut text[0..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day);
        put(&mut text[11..13], of_day / 3600);
        put(&mut text[14..16], of_day / 60 % 60);
        put(&mut text[17..19], of_day % 60);
        put(&mut text[20..26], self.0 % MICROS_PER_SECOND);
        text
    }

    /// Reads RFC 3339 in UTC: a date, and a time with up to six decimals, where both parts after the date may be absent.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
        let mut parts = date.splitn(3, '-').map(number);
        let [year, month, day] = [parts.next()??, parts.next()??, parts.next()??];
        let time = time.strip_suffix('Z').unwrap_or(time);
        let (clock, decimals) = time.split_once('.').unwrap_or((time, "0"));
        let mut parts = clock.split(':').map(number);
        let [hour, minute] = [parts.next()??, parts.next()??];
        let second = parts.next().unwrap_or(Some(0))?;
        let is_calendar = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_calendar || hour > 23 || minute > 59 || second > 60 || decimals.len() > 6 || parts.next().is_some() {
            return None;
        }
        let fraction = number(decimals)? * 10_u64.pow(6 - decimals.len() as u32);
        let seconds = days(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        Some(Self(seconds * MICROS_PER_SECOND + fraction))
    }
}

impl std::fmt::Display for AuditTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_bytes()).map_err(|_| std::fmt::Error)?)
    }
}

fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn put(text: &mut [u8], mut value: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Year, month and day of a day since 1970. Years are counted from March, so that the leap day is the last of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The day since 1970 of a date from 1970 on.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_and_read_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (1_795_000_000_123_456, "2026-11-18T11:06:40.123456Z"),
        ] {
            assert_eq!(AuditTime::from_micros(micros).to_string(), text);
            assert_eq!(AuditTime::parse(text), Some(AuditTime::from_micros(micros)));
        }
    }

    #[test]
    fn short_forms_are_read_and_nonsense_is_not() {
        assert_eq!(AuditTime::parse("1970-01-02"), Some(AuditTime::from_micros(86_400_000_000)));
        assert_eq!(AuditTime::parse("1970-01-01 00:01"), Some(AuditTime::from_micros(60_000_000)));
        assert_eq!(AuditTime::parse("1970-01-01T00:00:00.5Z"), Some(AuditTime::from_micros(500_000)));
        for wrong in ["", "1969-01-01", "1970-13-01", "1970-01-01T24:00", "1970-01-01T00:00:00.0000001Z", "x-y-z"] {
            assert_eq!(AuditTime::parse(wrong), None, "{wrong}");
        }
    }
}
