//! Tool results as text: JSON indented on a terminal, binary content as type and size.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::Value;
use tsugi_protocol::json::JsonObject;

use super::kept_files;
use crate::atomic_file;
use crate::failure::CommandFailure;
use crate::output::style::TextPaint;
use crate::output::{CommandOutput, printable};

/// How a text that happens to be JSON is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultReader {
    /// With line breaks.
    Person,
    /// Byte for byte as the server wrote it.
    Program,
}

impl ResultReader {
    pub(super) fn of(output: &CommandOutput) -> Self {
        if output.is_data_watched() { ResultReader::Person } else { ResultReader::Program }
    }
}

/// The files that were written for blocks of a result, by the block's place.
pub(super) type KeptFiles = BTreeMap<usize, PathBuf>;

/// Writes what is not text into a directory.
pub(super) fn keep_files(directory: &Path, tool: &str, body: &JsonObject) -> Result<KeptFiles, CommandFailure> {
    let mut kept = KeptFiles::new();
    for (index, block) in content(body).iter().enumerate() {
        if let Some(written) = kept_files::keep(directory, tool, block) {
            kept.insert(index, written.map_err(|error| atomic_file::unwritable(directory, &error))?);
        }
    }
    Ok(kept)
}

/// A tool's result: its blocks in their order, or its structured content where there is none.
pub(super) fn tool_result(output: &CommandOutput, body: &JsonObject, kept: &KeptFiles) -> io::Result<()> {
    let blocks = content(body);
    let structured: Option<Value> = body.get("structuredContent").and_then(|value| value.to_lossy().ok());
    match structured.filter(|value| blocks.is_empty() && !value.is_null()) {
        Some(value) => output.data(&format!("{value:#}")),
        None => blocks.iter().enumerate().try_for_each(|(index, block)| match kept.get(&index) {
            Some(path) => output.data(&path.display().to_string()),
            None => output.data(&text_of_block(block, ResultReader::of(output))),
        }),
    }
}

/// A tool's failure in its own words.
pub(super) fn tool_error(subject: &str, body: &JsonObject, paint: TextPaint) -> String {
    let words: Vec<String> = content(body).iter().map(|block| text_of_block(block, ResultReader::Person)).collect();
    let words = if words.is_empty() { "the tool failed".to_owned() } else { words.join("\n") };
    format!("{}: {subject}: {}", paint.error("error"), printable(&words))
}

fn content(body: &JsonObject) -> Vec<Value> {
    body.get("content").and_then(|content| content.to_lossy().ok()).unwrap_or_default()
}

/// One content block, of a tool's result or of a prompt's message.
pub(super) fn text_of_block(block: &Value, reader: ResultReader) -> String {
    let word = |key: &str| block[key].as_str().unwrap_or_default();
    match word("type") {
        "text" if reader == ResultReader::Program => word("text").to_owned(),
        "text" => indented(word("text")),
        "resource" => text_of_contents(&block["resource"]),
        "resource_link" => format!("{} ({})", word("uri"), word("name")),
        "image" | "audio" => format!("[{} {}, {} bytes]", word("type"), word("mimeType"), decoded_size(word("data"))),
        _ => format!("{block:#}"),
    }
}

/// One part of a resource's contents.
pub(super) fn text_of_contents(part: &Value) -> String {
    match (part["text"].as_str(), part["blob"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(blob)) => {
            let mime_type = part["mimeType"].as_str().unwrap_or("data");
            format!("[{} {mime_type}, {} bytes]", part["uri"].as_str().unwrap_or_default(), decoded_size(blob))
        }
        (None, None) => format!("{part:#}"),
    }
}

/// The bytes of a part that is not text.
pub(super) fn bytes_of_contents(part: &Value) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(part["blob"].as_str()?).ok()
}

fn decoded_size(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// Objects and arrays in JSON are easier to read with line breaks; other text is left alone.
fn indented(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() || value.is_array() => format!("{value:#}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_are_shown_as_people_read_them() {
        for (block, shown) in [
            (json!({"type": "text", "text": "plain {text}"}), "plain {text}"),
            (json!({"type": "text", "text": "{\"a\":1}"}), "{\n  \"a\": 1\n}"),
            (json!({"type": "text", "text": "42"}), "42"),
            (json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}), "[image image/png, 3 bytes]"),
            (json!({"type": "resource_link", "uri": "a://b", "name": "c"}), "a://b (c)"),
            (json!({"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}), "inside"),
            (json!({"type": "resource", "resource": {"uri": "a://b", "blob": "AAA="}}), "[a://b data, 2 bytes]"),
            (json!({"type": "new", "x": 1}), "{\n  \"type\": \"new\",\n  \"x\": 1\n}"),
        ] {
            assert_eq!(text_of_block(&block, ResultReader::Person), shown);
        }
    }

    #[test]
    fn a_program_gets_the_text_as_the_server_wrote_it() {
        let text = "{\"b\":1.50,  \"a\":\"\\u00e9\"}";
        assert_eq!(text_of_block(&json!({"type": "text", "text": text}), ResultReader::Program), text);
    }
}
