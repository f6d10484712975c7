//! A tool as a server describes it: the raw description, and typed views of its parts.

pub mod result;

use crate::json::{JsonObject, ObjectWriter, RawJson};

/// A tool. Its description is kept byte for byte; only the name is ever rewritten.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    name: String,
    object: JsonObject,
}

impl ToolDescription {
    /// Reads one entry of a tool list; `None` when it has no name.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        let object = JsonObject::of(raw)?;
        let name = object.get_str("name")?.into_owned();
        Some(Self { name, object })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The title for people, wherever the revision put it.
    pub fn title(&self) -> Option<String> {
        let annotated = || self.object.get_object("annotations").and_then(|object| object.get_lossy("title"));
        self.object.get_lossy("title").or_else(annotated)
    }

    /// The description for the model.
    pub fn description(&self) -> Option<String> {
        self.object.get_lossy("description")
    }

    /// The schema of the arguments.
    pub fn input_schema(&self) -> Option<RawJson> {
        self.object.get("inputSchema")
    }

    /// The schema of the structured result.
    pub fn output_schema(&self) -> Option<RawJson> {
        self.object.get("outputSchema")
    }

    /// The hints about its behaviour. They are a server's claim, not a proof.
    pub fn annotations(&self) -> Option<RawJson> {
        self.object.get("annotations")
    }

    /// True when the server claims that calling it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.hint("readOnlyHint")
    }

    /// True when the server claims that calling it twice has the effect of calling it once.
    pub fn is_idempotent(&self) -> bool {
        self.hint("idempotentHint")
    }

    fn hint(&self, key: &str) -> bool {
        self.object.get_object("annotations").is_some_and(|annotations| annotations.get_bytes(key) == Some(b"true"))
    }

    /// The description as the server wrote it.
    pub fn object(&self) -> &JsonObject {
        &self.object
    }

    /// The description with another name, everything else byte for byte.
    pub fn renamed(&self, name: &str) -> RawJson {
        renamed(&self.object, "name", name)
    }
}

/// True for a result in which a tool says that it failed
/// ([tool execution errors](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling)).
pub fn is_error(result: &JsonObject) -> bool {
    result.get_bytes("isError") == Some(b"true")
}

/// An entry of a list with another value under `key`, everything else byte for byte and in place.
pub(crate) fn renamed(object: &JsonObject, key: &str, value: &str) -> RawJson {
    let mut entry = ObjectWriter::with_capacity(object.bytes().len() + value.len());
    for member in object.members() {
        if object.key(*member) == key {
            entry.string(key, value);
        } else {
            entry.copy(object, *member);
        }
    }
    entry.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_changes_the_name_alone() {
        let raw = RawJson::literal(
            r#"{"x":1,"name":"a","inputSchema":{"type":"object","b":0,"a":1.0},"annotations":{"readOnlyHint":true}}"#,
        );
        let tool = ToolDescription::from_raw(&raw).unwrap();
        assert!(tool.is_read_only() && !tool.is_idempotent());
        assert_eq!(
            tool.renamed("s__a").as_str(),
            raw.as_str().replace("\"a\",\"inputSchema", "\"s__a\",\"inputSchema")
        );
    }
}
