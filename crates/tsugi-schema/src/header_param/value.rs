//! Writes an argument as a header value, reads one back, and compares a received one with the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";
/// Integers beyond this are not exact as IEEE 754 doubles, which peers may use.
const SAFE: i64 = (1 << 53) - 1;

/// Why an argument has no header form, or why a received header does not agree with the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderValueError {
    /// Only strings, integers and booleans have a header form.
    #[error("only a string, an integer or a boolean can be sent as a header")]
    Type,
    /// The integer is outside ±(2^53 − 1).
    #[error("the integer is outside the range that every peer can represent exactly")]
    Range,
    /// The body has a value and the header is absent.
    #[error("header is missing")]
    Missing,
    /// The header is there and the body has no such value.
    #[error("header is present but the argument is not")]
    Unexpected,
    /// The header has bytes that may not stand in a header, or Base64 that is not Base64.
    #[error("header value is malformed")]
    Malformed,
    /// Both are there and differ.
    #[error("header value does not match the argument")]
    Different,
}

/// Writes a value; the caller has already left out `null` and absent values.
pub(super) fn encode(value: &Value) -> Result<String, HeaderValueError> {
    match value {
        Value::String(text) => Ok(encode_text(text)),
        Value::Bool(true) => Ok("true".to_owned()),
        Value::Bool(false) => Ok("false".to_owned()),
        Value::Number(number) => {
            integer(number).ok_or(HeaderValueError::Type).and_then(safe).map(|integer| integer.to_string())
        }
        _ => Err(HeaderValueError::Type),
    }
}

/// Writes text as a header value: plain where that is safe, else `=?base64?…?=`. Also used for `Mcp-Name`.
pub fn encode_text(text: &str) -> String {
    if is_plain(text) && !is_wrapped(text) {
        return text.to_owned();
    }
    format!("{OPEN}{}{CLOSE}", STANDARD.encode(text))
}

/// Reads a header value back to the text that [`encode_text`] was given.
pub fn decode(received: &[u8]) -> Result<String, HeaderValueError> {
    let text = std::str::from_utf8(received).map_err(|_| HeaderValueError::Malformed)?;
    if !text.bytes().all(is_field_byte) {
        return Err(HeaderValueError::Malformed);
    }
    let Some(encoded) = unwrapped(text) else {
        return Ok(text.to_owned());
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| HeaderValueError::Malformed)?;
    String::from_utf8(bytes).map_err(|_| HeaderValueError::Malformed)
}

pub(super) fn compare(received: Option<&[u8]>, expected: Option<&Value>) -> Result<(), HeaderValueError> {
    match (received, expected) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(HeaderValueError::Missing),
        (Some(_), None) => Err(HeaderValueError::Unexpected),
        (Some(received), Some(expected)) => {
            let received = decode(received)?;
            let equal = is_same(&received, expected);
            equal.then_some(()).ok_or(HeaderValueError::Different)
        }
    }
}

fn is_same(received: &str, expected: &Value) -> bool {
    match expected {
        Value::String(text) => text == received,
        Value::Bool(flag) => received == if *flag { "true" } else { "false" },
        // Numerically, as the specification asks: `42.0` and `42` are equal.
        Value::Number(number) => same_number(received, number),
        _ => false,
    }
}

fn same_number(received: &str, expected: &Number) -> bool {
    let Ok(received) = serde_json::from_str::<Number>(received) else {
        return false;
    };
    match (integer(&received), integer(expected)) {
        (Some(received), Some(expected)) => received == expected,
        _ => false,
    }
}

/// The integer a JSON number stands for, also when it is written `42.0`.
fn integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        let is_exact = float.fract() == 0.0 && float.abs() <= SAFE as f64;
        is_exact.then_some(float as i64)
    })
}

fn safe(integer: i64) -> Result<i64, HeaderValueError> {
    (-SAFE..=SAFE).contains(&integer).then_some(integer).ok_or(HeaderValueError::Range)
}

fn is_plain(text: &str) -> bool {
    let padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    !padded && text.bytes().all(is_field_byte)
}

/// Visible ASCII, space and tab: RFC 9110, section 5.5.
fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~')
}

fn is_wrapped(text: &str) -> bool {
    text.starts_with(OPEN) && text.ends_with(CLOSE)
}

fn unwrapped(text: &str) -> Option<&str> {
    text.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_examples_of_the_specification_hold() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode_text(value), header);
            assert_eq!(decode(header.as_bytes()).as_deref(), Ok(value));
        }
    }

    #[test]
    fn values_are_written_by_type() {
        assert_eq!(encode(&json!(42)), Ok("42".into()));
        assert_eq!(encode(&json!(-7)), Ok("-7".into()));
        assert_eq!(encode(&json!(42.0)), Ok("42".into()));
        assert_eq!(encode(&json!(true)), Ok("true".into()));
        assert_eq!(encode(&json!("")), Ok(String::new()));
        assert_eq!(encode(&json!(1.5)), Err(HeaderValueError::Type));
        assert_eq!(encode(&json!([1])), Err(HeaderValueError::Type));
        assert_eq!(encode(&json!(1u64 << 53)), Err(HeaderValueError::Range));
        assert_eq!(encode(&json!(-(1i64 << 53) + 1)), Ok("-9007199254740991".into()));
    }

    #[test]
    fn integers_are_compared_as_numbers() {
        let same = |received: &str, body: Value| compare(Some(received.as_bytes()), Some(&body));
        assert_eq!(same("42.0", json!(42)), Ok(()));
        assert_eq!(same("42", json!(42.0)), Ok(()));
        assert_eq!(same("=?base64?NDI=?=", json!(42)), Ok(()));
        assert_eq!(same("43", json!(42)), Err(HeaderValueError::Different));
        assert_eq!(same("42.5", json!(42)), Err(HeaderValueError::Different));
        assert_eq!(same("42", json!("42")), Ok(()));
        assert_eq!(same("42.0", json!("42")), Err(HeaderValueError::Different));
        assert_eq!(same("TRUE", json!(true)), Err(HeaderValueError::Different));
    }

    #[test]
    fn presence_must_agree() {
        assert_eq!(compare(None, None), Ok(()));
        assert_eq!(compare(None, Some(&json!("x"))), Err(HeaderValueError::Missing));
        assert_eq!(compare(Some(b"x"), None), Err(HeaderValueError::Unexpected));
        assert_eq!(compare(Some(b""), Some(&json!(""))), Ok(()));
    }

    #[test]
    fn malformed_values_are_refused() {
        for bad in [&b"a\x00b"[..], b"caf\xc3\xa9", b"\xff", b"=?base64?!!?=", b"=?base64?/w==?="] {
            assert_eq!(decode(bad), Err(HeaderValueError::Malformed));
        }
    }

    #[test]
    fn the_marks_are_case_sensitive() {
        assert_eq!(decode(b"=?BASE64?NDI=?=").as_deref(), Ok("=?BASE64?NDI=?="));
    }

    #[test]
    fn overlapping_marks_are_plain_text() {
        // Shorter than both marks together: it begins and ends like an encoded value but is none.
        let text = "=?base64?=";
        assert_eq!(decode(encode_text(text).as_bytes()).as_deref(), Ok(text));
    }
}
