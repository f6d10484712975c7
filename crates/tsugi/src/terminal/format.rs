//! The formats of elicitation: without it a server would be sent an address or a date that is none.
//!
//! [Requested schema](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema)
//! names `email`, `uri`, `date` and `date-time`; other formats are not looked at.

use url::Url;

/// What a text of this format must be, where this one is not.
pub(super) fn lacking(format: &str, text: &str) -> Option<&'static str> {
    let (is_fit, wanted) = match format {
        "email" => (is_email(text), "an email address such as ann@example.com"),
        "uri" => (Url::parse(text).is_ok(), "an address such as https://example.com/"),
        "date" => (is_date(text), "a date such as 2026-07-28"),
        "date-time" => (is_date_time(text), "a date and time such as 2026-07-28T09:30:00Z"),
        _ => return None,
    };
    (!is_fit).then_some(wanted)
}

/// A rough check: only the mail server knows whether the address exists.
fn is_email(text: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
    text.rsplit_once('@').is_some_and(|(name, host)| is_plain(name) && is_plain(host) && !host.contains(['@', '/']))
}

/// `YYYY-MM-DD`, a day that there is.
fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// As RFC 3339 writes it: with a zone, and perhaps parts of a second.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once(['T', 't', ' ']) else { return false };
    let Some(zone) = rest.find(['Z', 'z', '+', '-']) else { return false };
    let (time, zone) = rest.split_at(zone);
    let (time, parts) = time.split_once('.').unwrap_or((time, "0"));
    let is_parts = !parts.is_empty() && parts.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = numbers(time, ':', [2, 2, 2]).is_some_and(|[hour, minute, second]| {
        // A leap second is the sixtieth.
        hour < 24 && minute < 60 && second <= 60
    });
    is_date(date) && is_time && is_parts && is_zone(zone)
}

fn is_zone(zone: &str) -> bool {
    let offset = zone.strip_prefix(['+', '-']).and_then(|offset| numbers(offset, ':', [2, 2]));
    matches!(zone, "Z" | "z") || offset.is_some_and(|[hours, minutes]| hours < 24 && minutes < 60)
}

/// Numbers of exactly so many digits each.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(separator);
    let mut found = [0; N];
    for (place, length) in found.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *place = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_a_format_is_taken_and_what_does_not_is_said() {
        for (format, fit, unfit) in [
            (
                "email",
                &["ann@example.com", "a+b@localhost"][..],
                &["ann", "@example.com", "ann@", "a b@c.d", "a@b c"][..],
            ),
            ("uri", &["https://example.com/", "urn:isbn:1"], &["example", "/path", ""]),
            (
                "date",
                &["2026-07-28", "2024-02-29"],
                &["28.7.2026", "2026-02-29", "2026-13-01", "2026-7-28", "2026-07-28x"],
            ),
            (
                "date-time",
                &["2026-07-28T09:30:00Z", "2026-07-28T09:30:00.25+09:00"],
                &["2026-07-28", "2026-07-28T09:30:00", "2026-07-28T24:00:00Z", "2026-07-28T09:30:00+9", "T09:30:00Z"],
            ),
        ] {
            fit.iter().for_each(|text| assert_eq!(lacking(format, text), None, "{format} {text}"));
            unfit.iter().for_each(|text| assert!(lacking(format, text).is_some(), "{format} {text}"));
        }
        assert_eq!(lacking("phone", "x"), None);
    }
}
