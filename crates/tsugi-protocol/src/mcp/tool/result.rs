//! A tool's result for a program: its value, or the text of its failure.

use crate::json::{JsonObject, RawJson};

/// What a tool gave: the structured content if there is any; else a single text, read as JSON where it is; else the
/// content. `None` for a result that has neither.
///
/// A structured `null` gives way to content, because servers of older revisions write it where they mean nothing.
pub fn data(result: &JsonObject) -> Option<RawJson> {
    let structured = result.get("structuredContent");
    let content = result.get("content");
    let blocks = content.as_ref().and_then(RawJson::items).unwrap_or_default();
    match (structured, blocks.as_slice()) {
        (Some(value), []) => Some(value),
        (Some(value), _) if !value.is_null() => Some(value),
        (_, [only]) => single_text(only).or(content),
        _ => content,
    }
}

/// Why a tool failed, in its own words.
pub fn failure(result: &JsonObject) -> String {
    let texts = texts(result);
    if texts.is_empty() { "the tool failed".to_owned() } else { texts.join("\n") }
}

/// The first text of a result.
pub fn first_text(result: &JsonObject) -> Option<String> {
    texts(result).into_iter().next()
}

fn texts(result: &JsonObject) -> Vec<String> {
    let blocks = result.get("content").and_then(|content| content.items()).unwrap_or_default();
    blocks.iter().filter_map(text_of).filter_map(|text| text.to_lossy().ok()).collect()
}

/// The text of a block of text.
fn text_of(block: &RawJson) -> Option<RawJson> {
    let block = JsonObject::of(block)?;
    let is_text = block.get_str("type")? == "text";
    is_text.then(|| block.get("text"))?.filter(|text| text.bytes().starts_with(b"\""))
}

fn single_text(block: &RawJson) -> Option<RawJson> {
    let text = text_of(block)?;
    json_within(&text).or(Some(text))
}

/// The JSON value that a string holds, if it holds one.
fn json_within(text: &RawJson) -> Option<RawJson> {
    let inner = text.bytes().strip_prefix(b"\"")?.trim_ascii_start();
    // A large text that cannot be JSON is not unescaped to find that out.
    let may_be_json = match inner.first()? {
        b'{' | b'[' | b'-' | b'0'..=b'9' | b'\\' => true,
        _ => [&b"true"[..], b"false", b"null"].iter().any(|word| inner.starts_with(word)),
    };
    may_be_json.then(|| text.as_string())?.and_then(|text| RawJson::parse(text.into()).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn given(result: Value) -> Option<String> {
        data(&JsonObject::from(result)).map(|data| data.to_string())
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn a_single_text_is_given_as_the_json_it_holds_or_as_it_is() {
        for (said, shown) in [
            ("x y", "\"x y\""),
            ("line\none", "\"line\\none\""),
            ("{\"a\": [1]}", "{\"a\": [1]}"),
            ("\n [1] ", "[1]"),
            ("\"quoted\"", "\"quoted\""),
            ("-1.5", "-1.5"),
            ("true", "true"),
            ("null", "null"),
            ("true story", "\"true story\""),
            ("{not json", "\"{not json\""),
            ("", "\"\""),
        ] {
            assert_eq!(given(json!({"content": [text(said)]})).as_deref(), Some(shown));
        }
    }

    #[test]
    fn structured_content_comes_first_then_a_single_text_then_the_content() {
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        for (result, shown) in [
            (json!({"content": [text("1")], "structuredContent": {"a": 1}}), Some(json!({"a": 1}))),
            (json!({"content": [text("1")], "structuredContent": false}), Some(json!(false))),
            (json!({"content": [text("1")], "structuredContent": null}), Some(json!(1))),
            (json!({"content": [], "structuredContent": null}), Some(json!(null))),
            (json!({"structuredContent": [2]}), Some(json!([2]))),
            (json!({"content": []}), Some(json!([]))),
            (json!({"content": [7]}), Some(json!([7]))),
            (json!({"content": [image]}), Some(json!([image]))),
            (json!({"content": [{"type": "text"}]}), Some(json!([{"type": "text"}]))),
            (json!({"content": [text("1"), image]}), Some(json!([text("1"), image]))),
            (json!({}), None),
        ] {
            assert_eq!(given(result.clone()), shown.map(|shown| shown.to_string()), "{result}");
        }
    }

    #[test]
    fn a_failure_is_told_in_all_words_of_the_tool() {
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        for (content, words) in [
            (json!([text("no such file")]), "no such file"),
            (json!([text("no"), image, text("such file")]), "no\nsuch file"),
            (json!([image]), "the tool failed"),
            (json!([]), "the tool failed"),
        ] {
            assert_eq!(failure(&JsonObject::from(json!({"content": content, "isError": true}))), words);
        }
        let cut = JsonObject::parse(r#"{"content":[{"type":"text","text":"cut \ud83d"}]}"#.into()).unwrap();
        assert_eq!(failure(&cut), "cut \u{fffd}");
        assert_eq!(
            first_text(&JsonObject::from(json!({"content": [image, text("a"), text("b")]}))).as_deref(),
            Some("a")
        );
    }
}
