//! Reads what it can from text that is rejected as JSON: which call it answers, and which entries of a list are too
//! deep. Without it one hostile entry would cost the whole list, and its caller the whole deadline.
//!
//! Nothing is validated here: text that comes out of it is parsed like any other.

use bytes::Bytes;

use super::scan::{MAX_DEPTH, skip_key, skip_space, skip_string};

/// The member that stands in place of an entry's others when it was left out; its value is the reason.
pub const LEFT_OUT: &str = "tsugi/leftOut";

/// The depth is counted from the list on, as where a result is read along with its envelope.
const AROUND_AN_ENTRY: usize = 1;

/// The members by which an entry of a list is known.
const NAMES: [&str; 3] = ["name", "uri", "uriTemplate"];

/// One member of an object or one item of an array.
struct LenientMember {
    start: usize,
    end: usize,
    /// How deep it is nested in itself.
    depth: usize,
}

/// The pieces of the container that opens at `open`, as far as the text goes.
fn pieces(bytes: &[u8], open: usize) -> Vec<LenientMember> {
    let mut pieces = Vec::new();
    let (mut at, mut start, mut depth, mut deepest) = (open + 1, open + 1, 0, 0);
    loop {
        let byte = bytes.get(at).copied();
        match byte {
            Some(b'"') => {
                at = skip_string(bytes, at).unwrap_or(bytes.len());
                continue;
            }
            Some(b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            Some(b'}' | b']') if depth > 0 => depth -= 1,
            Some(b',' | b'}' | b']') | None if depth == 0 || byte.is_none() => {
                pieces.push(LenientMember { start, end: at, depth: deepest });
                if byte != Some(b',') {
                    return pieces;
                }
                (start, deepest) = (at + 1, 0);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Where the value of a member starts, in the object that opens at `open`.
fn value_of(bytes: &[u8], open: usize, name: &str) -> Option<usize> {
    let value = |piece: &LenientMember| {
        let start = skip_space(bytes, piece.start);
        let key = skip_key(bytes, start).ok()?;
        (bytes.get(start + 1..key.end - 1)? == name.as_bytes()).then_some(key.value)
    };
    pieces(bytes, open).iter().find_map(value)
}

/// The number of the request that a line answers, though the line cannot be read whole.
pub fn response_id(line: &[u8]) -> Option<u64> {
    let open = opening(line)?;
    let has = |name: &str| value_of(line, open, name).is_some();
    if has("method") || !(has("result") || has("error")) {
        return None;
    }
    let digits = &line[value_of(line, open, "id")?..];
    let end = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn opening(line: &[u8]) -> Option<usize> {
    let open = skip_space(line, 0);
    (line.get(open) == Some(&b'{')).then_some(open)
}

/// A response whose list `key` holds entries that are nested too deeply, with only their names and a reason
/// ([`LEFT_OUT`]) in their place. `None` when there are none.
pub fn without_deep_entries(line: &[u8], key: &str) -> Option<Bytes> {
    let result = value_of(line, opening(line)?, "result").filter(|at| line.get(*at) == Some(&b'{'))?;
    let list = value_of(line, result, key).filter(|at| line.get(*at) == Some(&b'['))?;
    let mut text = Vec::with_capacity(line.len());
    let mut copied = 0;
    for entry in pieces(line, list).iter().filter(|entry| entry.depth + AROUND_AN_ENTRY > MAX_DEPTH) {
        text.extend_from_slice(&line[copied..entry.start]);
        text.extend_from_slice(names_and_reason(line, skip_space(line, entry.start)).as_bytes());
        copied = entry.end;
    }
    text.extend_from_slice(&line[copied..]);
    (copied > 0).then(|| text.into())
}

/// What stands in the place of an entry that is left out.
fn names_and_reason(line: &[u8], open: usize) -> String {
    let mut left = String::from("{");
    for name in NAMES {
        let text = value_of(line, open, name)
            .and_then(|start| Some(&line[start..skip_string(line, start).ok()?]))
            .and_then(|text| std::str::from_utf8(text).ok());
        if let Some(text) = text {
            left.push_str(&format!("\"{name}\":{text},"));
        }
    }
    left.push_str(&format!("\"{LEFT_OUT}\":\"it is nested more than {} levels deep\"}}", MAX_DEPTH - AROUND_AN_ENTRY));
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonObject;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn the_id_of_an_answer_that_cannot_be_read_is_found() {
        let deep = nested(200);
        for line in [
            format!(r#"{{"jsonrpc": "2.0", "id": 7, "result": {deep}}}"#),
            format!(r#" {{ "result" : {deep} , "id" : 7 }}"#),
            r#"{"jsonrpc": "2.0", "id": 7, "result": {"cut": "o"#.to_owned(),
        ] {
            assert_eq!(response_id(line.as_bytes()), Some(7), "{line}");
        }
        for line in ["", "{", "[7]", "id 7", r#"{"id": 7, "method": "x", "result": ["#, r#"{"id": 7, "level": "#] {
            assert_eq!(response_id(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn only_the_entries_that_are_too_deep_are_left_out_and_the_rest_is_as_it_was_written() {
        let fits = format!(r#"{{"name":"fits","s":{}}}"#, nested(MAX_DEPTH - 2));
        let over = format!(r#" {{"s": {}, "name": "over]" }} "#, nested(MAX_DEPTH - 1));
        let line = format!(r#"{{"id": 7, "result": {{"tools": [{fits},{over},{{"name":"last"}}], "x": [1]}}}}"#);
        assert!(JsonObject::parse_nested(line.clone().into(), "result").is_err());
        let text = without_deep_entries(line.as_bytes(), "tools").expect("one is too deep");
        let (_, result) = JsonObject::parse_nested(text, "result").expect("what is left can be read");
        let tools: Vec<crate::json::RawJson> = result.expect("it is an object").get("tools").unwrap().to().unwrap();
        assert_eq!((tools.len(), &tools[0].bytes()[..]), (3, fits.as_bytes()));
        let left = JsonObject::of(&tools[1]).expect("it is an object");
        assert_eq!(left.get_str("name").as_deref(), Some("over]"));
        assert!(left.get_str(LEFT_OUT).unwrap().contains("127 levels"), "{left:?}");
        assert_eq!(without_deep_entries(br#"{"id":7,"result":{"tools":[{}]}}"#, "tools"), None);
    }
}
