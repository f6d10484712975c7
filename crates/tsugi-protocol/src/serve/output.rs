//! The result of a tool: text, structured content, blocks of other kinds, or a raw result.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::{JsonObject, ObjectWriter, RawJson};

use super::schema::schema_of;

/// The result of a tool.
#[derive(Debug, Clone)]
pub struct ToolOutput(OutputForm);

#[derive(Debug, Clone)]
enum OutputForm {
    Parts { content: Vec<RawJson>, structured: Option<RawJson>, is_error: bool },
    Whole(JsonObject),
}

impl ToolOutput {
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::blocks(vec![block::text(text.as_ref())])
    }

    /// Content blocks, see [`block`].
    pub fn blocks(content: Vec<RawJson>) -> Self {
        Self(OutputForm::Parts { content, structured: None, is_error: false })
    }

    /// Structured content, and the same as a text block for clients that do not look at it
    /// ([Structured Content](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#structured-content)).
    pub fn structured(value: RawJson) -> Self {
        // Older clients read only the text, so it repeats the value.
        Self::text(value.as_str()).with_structured(value)
    }

    /// A failure that the model should read and act on.
    pub fn error(text: impl AsRef<str>) -> Self {
        Self::text(text).into_error()
    }

    /// A result object of one's own making; `resultType` and the server's identity are added when absent.
    pub fn result(result: JsonObject) -> Self {
        Self(OutputForm::Whole(result))
    }

    /// The same with structured content; the content blocks stay. Nothing changes for a result of one's own.
    pub fn with_structured(mut self, value: RawJson) -> Self {
        // A raw result is sent as it is.
        if let OutputForm::Parts { structured, .. } = &mut self.0 {
            *structured = Some(value);
        }
        self
    }

    /// The same, marked as a failure. Nothing changes for a result of one's own.
    pub fn into_error(mut self) -> Self {
        if let OutputForm::Parts { is_error, .. } = &mut self.0 {
            *is_error = true;
        }
        self
    }

    /// The text of the first block, for failures reported as plain text.
    pub(super) fn first_text(&self) -> String {
        let first = match &self.0 {
            OutputForm::Parts { content, .. } => content.first().and_then(JsonObject::of),
            OutputForm::Whole(_) => None,
        };
        first.and_then(|block| block.get_str("text").map(|text| text.into_owned())).unwrap_or_default()
    }

    /// Writes the members of the result. Those that the server adds itself are left to it.
    pub(super) fn write(&self, result: &mut ObjectWriter) {
        match &self.0 {
            // The server writes these two itself, merged with its own.
            OutputForm::Whole(object) => _ = result.members(object, |key| !matches!(key, "resultType" | "_meta")),
            OutputForm::Parts { content, structured, is_error } => {
                result.raw("content", &array_of(content));
                if let Some(structured) = structured {
                    result.raw("structuredContent", structured);
                }
                // `false` is the default and not written.
                if *is_error {
                    result.raw("isError", &RawJson::literal("true"));
                }
            }
        }
    }

    /// What a result of one's own says in these members.
    pub(super) fn own(&self, key: &str) -> Option<RawJson> {
        match &self.0 {
            OutputForm::Whole(object) => object.get(key),
            OutputForm::Parts { .. } => None,
        }
    }
}

/// An array of values that are JSON already, without reading them again.
pub(super) fn array_of(items: &[RawJson]) -> RawJson {
    // The exact size, since results may be large.
    let mut array = Vec::with_capacity(items.iter().map(|item| item.bytes().len() + 1).sum::<usize>() + 2);
    array.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        array.extend_from_slice(item.bytes());
    }
    array.push(b']');
    RawJson::from_validated(array.into())
}

/// What a tool's handler may return.
pub trait IntoToolOutput {
    fn into_output(self) -> ToolOutput;

    /// The schema of the structured content, where the type has one. It becomes the tool's `outputSchema`
    /// unless the tool gives another.
    fn output_schema() -> Option<RawJson> {
        None
    }
}

impl IntoToolOutput for ToolOutput {
    fn into_output(self) -> ToolOutput {
        self
    }
}

#[derive(Debug, Clone)]
pub struct TextOutput<T>(pub T);

impl<T: AsRef<str>> IntoToolOutput for TextOutput<T> {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self.0)
    }
}

impl IntoToolOutput for String {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for &str {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

/// Structured content whose schema is derived.
#[derive(Debug, Clone)]
pub struct StructuredOutput<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolOutput for StructuredOutput<T> {
    fn into_output(self) -> ToolOutput {
        ToolOutput::structured(RawJson::from_value(&self.0))
    }

    fn output_schema() -> Option<RawJson> {
        Some(schema_of::<T>())
    }
}

/// Content blocks
/// ([Tool Result](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result)).
/// Binary data is given in base64, as it travels.
pub mod block {
    use crate::json::{ObjectWriter, RawJson};

    pub fn text(text: &str) -> RawJson {
        let mut block = ObjectWriter::with_capacity(text.len() + 32);
        block.string("type", "text").string("text", text);
        block.finish()
    }

    pub fn image(base64: &str, mime_type: &str) -> RawJson {
        data("image", base64, mime_type)
    }

    pub fn audio(base64: &str, mime_type: &str) -> RawJson {
        data("audio", base64, mime_type)
    }

    fn data(kind: &str, base64: &str, mime_type: &str) -> RawJson {
        let mut block = ObjectWriter::with_capacity(base64.len() + 64);
        block.string("type", kind).string("data", base64).string("mimeType", mime_type);
        block.finish()
    }

    /// A pointer to a resource.
    pub fn resource_link(uri: &str, name: &str) -> RawJson {
        let mut block = ObjectWriter::with_capacity(uri.len() + name.len() + 48);
        block.string("type", "resource_link").string("uri", uri).string("name", name);
        block.finish()
    }

    /// A resource with its contents, as `resources/read` would give it.
    pub fn resource(contents: &RawJson) -> RawJson {
        let mut block = ObjectWriter::with_capacity(contents.bytes().len() + 48);
        block.string("type", "resource").raw("resource", contents);
        block.finish()
    }
}
