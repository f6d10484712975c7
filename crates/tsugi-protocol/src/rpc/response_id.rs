//! The id of a response without parsing the rest, so that one reader can serve many callers.
//!
//! This only routes and validates nothing. The receiver parses the whole line and checks the id again,
//! so a line that fools the peek can only spoil the call it was routed to.

use memchr::memmem;

/// The id of `line` when it plainly is a response to one of our own numbered requests.
/// `None` means "read it whole".
pub fn response_id(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"jsonrpc\":\"2.0\",").unwrap_or_else(|| line.strip_prefix(b"{").unwrap_or(line));
    if let Some(after) = rest.strip_prefix(b"\"id\":") {
        let (id, rest) = leading_number(after)?;
        return is_answer(rest.strip_prefix(b",")?).then_some(id);
    }
    if is_answer(rest) { trailing_id(line) } else { None }
}

fn is_answer(rest: &[u8]) -> bool {
    rest.starts_with(b"\"result\":") || rest.starts_with(b"\"error\":")
}

/// `…,"id":7}` at the very end, as the TypeScript SDK writes it.
fn trailing_id(line: &[u8]) -> Option<u64> {
    let tail = &line[line.len().saturating_sub(64)..];
    let at = memmem::rfind(tail, b",\"id\":")?;
    let (id, rest) = leading_number(&tail[at + 6..])?;
    (rest == b"}" || rest == b",\"jsonrpc\":\"2.0\"}").then_some(id)
}

fn leading_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take(19).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let value = bytes[..digits].iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    Some((value, &bytes[digits..]))
}

#[cfg(test)]
mod tests {
    use super::response_id;

    #[test]
    fn the_usual_shapes_are_recognised() {
        for line in [
            r#"{"jsonrpc":"2.0","id":42,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":42,"error":{}}"#,
            r#"{"id":42,"result":{}}"#,
            r#"{"result":{"content":[]},"jsonrpc":"2.0","id":42}"#,
            r#"{"jsonrpc":"2.0","result":{},"id":42}"#,
            r#"{"result":{},"id":42,"jsonrpc":"2.0"}"#,
        ] {
            assert_eq!(response_id(line.as_bytes()), Some(42), "{line}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_parser() {
        for line in [
            r#"{"jsonrpc":"2.0","id":42,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"id":42}}"#,
            r#"{"jsonrpc":"2.0","id":"42","result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{"a":{"id":42}}}"#,
            r#"{ "jsonrpc":"2.0","id":42,"result":{}}"#,
            "",
            "{",
            "42",
            "not json",
        ] {
            assert_eq!(response_id(line.as_bytes()), None, "{line}");
        }
    }
}
