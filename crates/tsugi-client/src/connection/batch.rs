//! Splits batches: several messages in one, which servers of 2025-03-26 may send
//! ([Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching)).

use bytes::Bytes;
use tsugi_protocol::json::RawJson;

/// The messages of a batch; `None` when the text is not a batch, such as a single message or `[info] ready`. A batch
/// within a batch is not split.
pub(crate) fn messages(text: &Bytes) -> Option<Vec<Bytes>> {
    if text.first() != Some(&b'[') {
        return None;
    }
    let items = RawJson::parse(text.clone()).ok()?.items()?;
    items.iter().all(|item| item.bytes().first() == Some(&b'{')).then(|| {
        let bytes = |item: &RawJson| item.bytes().clone();
        items.iter().map(bytes).collect()
    })
}

/// The same; any other text is one message.
pub(crate) fn messages_or_one(text: Bytes) -> Vec<Bytes> {
    messages(&text).unwrap_or_else(|| vec![text])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &'static str, expected: Option<&[&str]>) {
        let found = messages(&Bytes::from_static(text.as_bytes()));
        let expected = expected.map(|parts| parts.iter().map(|part| Bytes::from(part.to_string())).collect());
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn only_an_array_of_objects_is_a_batch() {
        check(r#"[{"id":1}, {"id":2}]"#, Some(&[r#"{"id":1}"#, r#"{"id":2}"#]));
        check("[]", Some(&[]));
        for other in [r#"{"id":[1]}"#, "[info] ready", "[1]", r#"[[{"id":1}]]"#, r#"[{"id":1}"#, ""] {
            check(other, None);
        }
    }
}
