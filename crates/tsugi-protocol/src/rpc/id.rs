//! A request id that keeps its type: `1` is not `"1"`.

use std::fmt;

use crate::json::RawJson;

/// The id of a request, as the JSON token it was written as. It is echoed verbatim.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(RawJson);

impl RequestId {
    /// An id from a JSON value; only strings and numbers are ids (`null` is not, see
    /// [Requests](https://modelcontextprotocol.io/specification/2026-07-28/basic#requests)).
    pub fn from_raw(raw: RawJson) -> Option<Self> {
        matches!(raw.bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')).then_some(Self(raw))
    }

    /// A number of our own.
    pub fn number(value: u64) -> Self {
        Self(RawJson::from_value(&value))
    }

    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// The [whole number](whole_number) this id stands for.
    pub fn as_u64(&self) -> Option<u64> {
        whole_number(self.0.bytes())
    }
}

/// The whole number that the id with this token stands for. A number that came back as a string of digits counts too,
/// because some servers answer `"7"` to `7`.
pub fn whole_number(token: &[u8]) -> Option<u64> {
    let digits = token.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(token);
    let add = |number: u64, digit: &u8| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    };
    digits.split_first().and_then(|_| digits.iter().try_fold(0, add))
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &'static str) -> Option<RequestId> {
        RequestId::from_raw(RawJson::literal(text))
    }

    #[test]
    fn a_number_and_a_string_of_the_same_digits_differ() {
        assert_ne!(id("1"), id("\"1\""));
        assert_eq!(id("\"a\"").unwrap().raw().as_str(), "\"a\"");
    }

    #[test]
    fn null_objects_and_arrays_are_no_ids() {
        for text in ["null", "{}", "[1]", "true"] {
            assert!(id(text).is_none(), "{text}");
        }
    }

    #[test]
    fn digits_are_read_back_in_either_type() {
        assert_eq!(id("7").unwrap().as_u64(), Some(7));
        assert_eq!(id("\"7\"").unwrap().as_u64(), Some(7));
        assert_eq!(id("18446744073709551615").unwrap().as_u64(), Some(u64::MAX));
        for other in ["7.0", "-7", "\"x\"", "1e3", "\"\"", "18446744073709551616"] {
            assert_eq!(id(other).unwrap().as_u64(), None, "{other}");
        }
    }
}
