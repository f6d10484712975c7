//! The headers that mirror a request's body, values that cannot stand in a header as they are, and what an answer's
//! headers ask for.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The revision of a request.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What the request is about.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The session of a legacy conversation.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The last event that was seen of a legacy stream.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const SENTINEL_START: &str = "=?base64?";
const SENTINEL_END: &str = "?=";

/// A text as a header value: as it is where that is safe, otherwise in the base64 sentinel
/// ([Value Encoding](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding)).
pub fn encode(text: &str) -> HeaderValue {
    let is_plain = is_safe(text) && !(text.starts_with(SENTINEL_START) && text.ends_with(SENTINEL_END));
    if is_plain && let Ok(value) = HeaderValue::from_str(text) {
        return value;
    }
    let wrapped = format!("{SENTINEL_START}{}{SENTINEL_END}", STANDARD.encode(text));
    HeaderValue::from_str(&wrapped).expect("base64 in its sentinel is plain ASCII")
}

/// A text as a header value, byte for byte; `None` where no header may hold it. Servers compare the ids of their
/// events with what comes back, and know nothing of the sentinel.
pub fn verbatim(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

fn is_safe(text: &str) -> bool {
    let has_space_outside = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    !has_space_outside && text.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t'))
}

/// The text of a header value; `None` when it has bytes that no header may have, or a broken sentinel.
pub fn decode(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    if !text.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t')) {
        return None;
    }
    match text.strip_prefix(SENTINEL_START).and_then(|rest| rest.strip_suffix(SENTINEL_END)) {
        Some(body) => String::from_utf8(STANDARD.decode(body).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

/// How long an answer asks to wait: in seconds, or until a time, which may have passed
/// ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#name-retry-after)).
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_to_wait_in_seconds_or_until_a_time() {
        // The example of RFC 9110, a minute before it.
        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_799 - 60);
        for (text, seconds) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            (date, Some(60)),
            ("Fri, 31 Dec 1999 23:00:00 GMT", Some(0)),
            ("soon", None),
            ("-3", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn values_are_written_as_the_specification_shows() {
        for (text, written) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(encode(text), written);
            assert_eq!(decode(encode(text).as_bytes()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_goes_back_to_its_writer_is_not_wrapped() {
        for text in ["e1", "é1", "=?base64?literal?=", " padded "] {
            assert_eq!(verbatim(text).unwrap().as_bytes(), text.as_bytes());
        }
        assert_eq!(verbatim("line1\nline2"), None);
    }

    #[test]
    fn a_broken_sentinel_is_refused() {
        for broken in ["=?base64?*?=", "=?base64?/w==?=", "caf\u{e9}", "a\u{1}"] {
            assert_eq!(decode(broken.as_bytes()), None, "{broken:?}");
        }
    }
}
