//! Validates that bytes are JSON: a strict, non-recursive scanner with a depth limit.
//!
//! It accepts exactly what `serde_json` accepts for an ignored value (a fuzz target compares the two),
//! but it also reports where each member of the outermost object lies, so that one pass is both the
//! proof and the index.

mod string;

use std::fmt;

pub(super) use string::is_plain;
use string::skip_short;
pub(crate) use string::skip_string;

/// How deep arrays and objects may nest. Deeper input is refused, not followed.
pub const MAX_DEPTH: usize = 128;

/// Why bytes are not acceptable JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanError {
    /// Offset of the first byte that cannot be accepted.
    pub at: usize,
    /// What is wrong there.
    pub kind: ScanErrorKind,
}

/// The kinds of [`ScanError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanErrorKind {
    /// A byte that JSON does not allow here.
    Unexpected,
    /// The input ends in the middle of a value.
    Truncated,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// Not UTF-8.
    NotUtf8,
    /// The same key twice in an object whose keys must be unique.
    DuplicateKey,
    /// Bytes after the value.
    TrailingBytes,
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ScanErrorKind::Unexpected => "unexpected character",
            ScanErrorKind::Truncated => "input ends too early",
            ScanErrorKind::TooDeep => "nested too deeply",
            ScanErrorKind::NotUtf8 => "not UTF-8",
            ScanErrorKind::DuplicateKey => "duplicate key",
            ScanErrorKind::TrailingBytes => "characters after the value",
        };
        write!(f, "{what} at byte {}", self.at)
    }
}

impl std::error::Error for ScanError {}

type ScanResult<T> = Result<T, ScanError>;

fn fail<T>(at: usize, kind: ScanErrorKind) -> ScanResult<T> {
    Err(ScanError { at, kind })
}

/// Proves that `bytes` is one JSON value in UTF-8, with nothing but white space around it.
pub fn validate(bytes: &[u8]) -> ScanResult<()> {
    validate_utf8(bytes)?;
    // White space around the value is allowed, other bytes are not.
    let start = skip_space(bytes, 0);
    let end = skip_value(bytes, start)?;
    expect_end(bytes, end)
}

/// Proves that `bytes` is UTF-8.
pub fn validate_utf8(bytes: &[u8]) -> ScanResult<()> {
    // Most payloads are ASCII, which is seen in larger steps; of others this looks at no more than it must.
    if bytes.is_ascii() {
        return Ok(());
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => fail(error.valid_up_to(), ScanErrorKind::NotUtf8),
    }
}

/// Proves that only white space follows `at`.
pub fn expect_end(bytes: &[u8], at: usize) -> ScanResult<()> {
    let end = skip_space(bytes, at);
    if end == bytes.len() { Ok(()) } else { fail(end, ScanErrorKind::TrailingBytes) }
}

/// The first offset at or after `at` that is not JSON white space.
#[inline]
pub fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The containers that are open: one bit each, set for an object, so that nesting needs no heap.
#[derive(Default)]
struct NestingStack {
    objects: u128,
    depth: usize,
}

impl NestingStack {
    fn open(&mut self, is_object: bool, at: usize) -> ScanResult<()> {
        if self.depth == MAX_DEPTH {
            return fail(at, ScanErrorKind::TooDeep);
        }
        // The innermost container is the lowest bit.
        self.objects = (self.objects << 1) | u128::from(is_object);
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// The offset just after the JSON value that starts at `start`. White space in front is not skipped.
#[inline]
pub fn skip_value(bytes: &[u8], start: usize) -> ScanResult<usize> {
    match bytes.get(start) {
        // Strings are the common case and need no nesting.
        Some(b'"') => skip_string(bytes, start),
        _ => skip_nested(bytes, start),
    }
}

fn skip_nested(bytes: &[u8], start: usize) -> ScanResult<usize> {
    // Not recursive: hostile nesting must not use up the stack.
    let mut nesting = NestingStack::default();
    let mut at = start;
    loop {
        at = match begin_value(bytes, at, &mut nesting)? {
            ValueStart::Open(next) => next,
            ValueStart::Ended(end) => match after_value(bytes, end, &mut nesting)? {
                AfterValue::Next(next) => next,
                AfterValue::Done(end) => return Ok(end),
            },
        };
    }
}

enum ValueStart {
    /// A container was opened; its first value starts here.
    Open(usize),
    /// A value ended here.
    Ended(usize),
}

fn begin_value(bytes: &[u8], at: usize, nesting: &mut NestingStack) -> ScanResult<ValueStart> {
    match bytes.get(at) {
        Some(b'"') => skip_string(bytes, at).map(ValueStart::Ended),
        Some(b'{') => open_object(bytes, at, nesting),
        Some(b'[') => open_array(bytes, at, nesting),
        Some(b'-' | b'0'..=b'9') => skip_number(bytes, at).map(ValueStart::Ended),
        Some(b't') => skip_word(bytes, at, b"true").map(ValueStart::Ended),
        Some(b'f') => skip_word(bytes, at, b"false").map(ValueStart::Ended),
        Some(b'n') => skip_word(bytes, at, b"null").map(ValueStart::Ended),
        Some(_) => fail(at, ScanErrorKind::Unexpected),
        None => fail(at, ScanErrorKind::Truncated),
    }
}

fn open_object(bytes: &[u8], at: usize, nesting: &mut NestingStack) -> ScanResult<ValueStart> {
    nesting.open(true, at)?;
    let first = skip_space(bytes, at + 1);
    if bytes.get(first) == Some(&b'}') {
        nesting.close();
        return Ok(ValueStart::Ended(first + 1));
    }
    Ok(ValueStart::Open(skip_key(bytes, first)?.value))
}

fn open_array(bytes: &[u8], at: usize, nesting: &mut NestingStack) -> ScanResult<ValueStart> {
    nesting.open(false, at)?;
    let first = skip_space(bytes, at + 1);
    if bytes.get(first) == Some(&b']') {
        nesting.close();
        return Ok(ValueStart::Ended(first + 1));
    }
    Ok(ValueStart::Open(first))
}

enum AfterValue {
    /// Another value of the same container starts here.
    Next(usize),
    /// The outermost value ended here.
    Done(usize),
}

fn after_value(bytes: &[u8], mut end: usize, nesting: &mut NestingStack) -> ScanResult<AfterValue> {
    loop {
        if nesting.depth == 0 {
            return Ok(AfterValue::Done(end));
        }
        let at = skip_space(bytes, end);
        match (bytes.get(at), nesting.in_object()) {
            (Some(b','), true) => {
                return Ok(AfterValue::Next(skip_key(bytes, skip_space(bytes, at + 1))?.value));
            }
            (Some(b','), false) => return Ok(AfterValue::Next(skip_space(bytes, at + 1))),
            (Some(b'}'), true) | (Some(b']'), false) => {
                nesting.close();
                end = at + 1;
            }
            (Some(_), _) => return fail(at, ScanErrorKind::Unexpected),
            (None, _) => return fail(at, ScanErrorKind::Truncated),
        }
    }
}

/// Where a key that was skipped ends, and where its value starts.
pub(crate) struct KeySpan {
    /// The offset just after the key's closing quote.
    pub end: usize,
    /// The first byte of the value.
    pub value: usize,
    /// True when something in the key is escaped.
    pub is_escaped: bool,
}

/// Skips `"key" :` and white space.
#[inline]
pub(crate) fn skip_key(bytes: &[u8], at: usize) -> ScanResult<KeySpan> {
    match bytes.get(at) {
        Some(b'"') => {}
        Some(_) => return fail(at, ScanErrorKind::Unexpected),
        None => return fail(at, ScanErrorKind::Truncated),
    }
    let (end, is_escaped) = match skip_short(bytes, at) {
        Ok(end) => (end, false),
        Err(_) => {
            let end = skip_string(bytes, at)?;
            // A long key may have escapes or not.
            (end, memchr::memchr(b'\\', &bytes[at..end]).is_some())
        }
    };
    let colon = skip_space(bytes, end);
    match bytes.get(colon) {
        Some(b':') => Ok(KeySpan { end, value: skip_space(bytes, colon + 1), is_escaped }),
        Some(_) => fail(colon, ScanErrorKind::Unexpected),
        None => fail(colon, ScanErrorKind::Truncated),
    }
}

fn skip_digits(bytes: &[u8], at: usize) -> ScanResult<usize> {
    let mut end = at;
    while let Some(b'0'..=b'9') = bytes.get(end) {
        end += 1;
    }
    match (end > at, bytes.get(end)) {
        (true, _) => Ok(end),
        (false, Some(_)) => fail(end, ScanErrorKind::Unexpected),
        (false, None) => fail(end, ScanErrorKind::Truncated),
    }
}

fn skip_number(bytes: &[u8], start: usize) -> ScanResult<usize> {
    let mut at = start + usize::from(bytes[start] == b'-');
    at = match bytes.get(at) {
        Some(b'0') => at + 1,
        _ => skip_digits(bytes, at)?,
    };
    // A leading zero, as in `01`.
    if let Some(b'0'..=b'9') = bytes.get(at) {
        return fail(at, ScanErrorKind::Unexpected);
    }
    if bytes.get(at) == Some(&b'.') {
        at = skip_digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = skip_digits(bytes, at + 1 + sign)?;
    }
    Ok(at)
}

fn skip_word(bytes: &[u8], at: usize, word: &[u8]) -> ScanResult<usize> {
    for (offset, expected) in word.iter().enumerate() {
        match bytes.get(at + offset) {
            Some(byte) if byte == expected => {}
            Some(_) => return fail(at + offset, ScanErrorKind::Unexpected),
            None => return fail(at + offset, ScanErrorKind::Truncated),
        }
    }
    Ok(at + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str) -> bool {
        validate(text.as_bytes()).is_ok()
    }

    #[test]
    fn it_accepts_what_serde_json_accepts_and_nothing_else() {
        let cases = [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1.5",
            "1e9",
            "-1.25E-7",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "\"\"",
            "\"a\\n\\u00e9\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "[]",
            "[1,2]",
            "[1,]",
            "[,]",
            "{}",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\" : [ {\"b\":null} ] }",
            "[1}",
            "{\"a\":1]",
            "tru",
            "nul",
            "",
            " ",
            "1 2",
            "\"unterminated",
            "[[[[]]]]",
            "{\"a\"}",
            "{\"a\":}",
            "\"\\ud800\"",
            "1e",
            "1e+",
            "[\"\\\\\"]",
            "\u{feff}1",
        ];
        for case in cases {
            let serde = serde_json::from_str::<serde::de::IgnoredAny>(case).is_ok();
            assert_eq!(accepts(case), serde, "{case:?}");
        }
    }

    #[test]
    fn nesting_is_followed_to_the_limit_and_not_beyond() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(accepts(&deep(MAX_DEPTH)));
        let error = validate(deep(MAX_DEPTH + 1).as_bytes()).unwrap_err();
        assert_eq!(error.kind, ScanErrorKind::TooDeep);
        assert_eq!(validate("[".repeat(200_000).as_bytes()).unwrap_err().kind, ScanErrorKind::TooDeep);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        assert_eq!(validate(b"\"\xff\"").unwrap_err().kind, ScanErrorKind::NotUtf8);
    }
}
