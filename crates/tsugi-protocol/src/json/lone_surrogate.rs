//! Replaces lone surrogates, so that a cut emoji does not make a whole text unreadable.

/// What stands for a character that cannot be told, as an escape.
const UNKNOWN: &[u8] = b"\\ufffd";
/// How long an escape such as `\ud83d` is.
const ESCAPE: usize = 6;

/// Proved JSON with U+FFFD in the place of every half of a surrogate pair; `None` when there is none.
pub(super) fn replace_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut copied, mut at) = (0, 0);
    // Backslashes occur only in strings, so there is no need to find the strings first.
    while let Some(found) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        let (length, is_lone) = escape(&json[at..]);
        if is_lone {
            out.extend_from_slice(&json[copied..at]);
            out.extend_from_slice(UNKNOWN);
            copied = at + length;
        }
        at += length;
    }
    (copied > 0).then(|| [&out, &json[copied..]].concat())
}

/// How long the escape is that begins here (a pair counts as one), and whether it is half a pair.
fn escape(json: &[u8]) -> (usize, bool) {
    match unit(json) {
        None => (2, false),
        Some(0xd800..=0xdbff) if matches!(unit(&json[ESCAPE..]), Some(0xdc00..=0xdfff)) => (2 * ESCAPE, false),
        Some(0xd800..=0xdfff) => (ESCAPE, true),
        Some(_) => (ESCAPE, false),
    }
}

/// The unit of UTF-16 that `\uXXXX` names.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced_and_all_else_stays() {
        for (written, expected) in [
            (r#""cut \ud83d""#, Some(r#""cut \ufffd""#)),
            (r#"["\uDE00 and \ud83d\ud83d\ude00!", 1]"#, Some(r#"["\ufffd and \ufffd\ud83d\ude00!", 1]"#)),
            (r#"{"\ud800":"\\ud800"}"#, Some(r#"{"\ufffd":"\\ud800"}"#)),
            (r#""\ud83d\n""#, Some(r#""\ufffd\n""#)),
            (r#""\ud83d\ude00 \u00e9 \\ud83d \"""#, None),
            (r#"{"a":[1,"é"]}"#, None),
        ] {
            let mended = replace_lone_surrogates(written.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(mended.as_deref(), expected, "{written}");
        }
    }
}
