//! A tool as a server describes it: the raw description, and the parts we look at.

pub mod result;

use crate::json::{Object, Raw, Splice};

/// A tool. Its description is kept byte for byte; only the name is ever rewritten.
#[derive(Debug, Clone)]
pub struct Tool {
    name: String,
    object: Object,
}

impl Tool {
    /// Reads one entry of a tool list; `None` when it has no name.
    pub fn from_raw(raw: &Raw) -> Option<Self> {
        let object = Object::of(raw)?;
        let name = object.get_str("name")?.into_owned();
        Some(Self { name, object })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The title for people, wherever the revision put it.
    pub fn title(&self) -> Option<String> {
        let annotated = || self.object.get_object("annotations").and_then(|object| object.get_shown("title"));
        self.object.get_shown("title").or_else(annotated)
    }

    /// The description for the model.
    pub fn description(&self) -> Option<String> {
        self.object.get_shown("description")
    }

    /// The schema of the arguments.
    pub fn input_schema(&self) -> Option<Raw> {
        self.object.get("inputSchema")
    }

    /// The schema of the structured result.
    pub fn output_schema(&self) -> Option<Raw> {
        self.object.get("outputSchema")
    }

    /// The hints about its behaviour. They are a server's claim, not a proof.
    pub fn annotations(&self) -> Option<Raw> {
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
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The description with another name, everything else byte for byte.
    pub fn renamed(&self, name: &str) -> Raw {
        renamed(&self.object, "name", name)
    }
}

/// True for a result in which a tool says that it failed
/// ([tool execution errors](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling)).
pub fn is_error(result: &Object) -> bool {
    result.get_bytes("isError") == Some(b"true")
}

/// An entry of a list with another value under `key`, everything else byte for byte and in place.
pub(crate) fn renamed(object: &Object, key: &str, value: &str) -> Raw {
    let mut entry = Splice::with_capacity(object.bytes().len() + value.len());
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
        let raw = Raw::literal(
            r#"{"x":1,"name":"a","inputSchema":{"type":"object","b":0,"a":1.0},"annotations":{"readOnlyHint":true}}"#,
        );
        let tool = Tool::from_raw(&raw).unwrap();
        assert!(tool.is_read_only() && !tool.is_idempotent());
        assert_eq!(
            tool.renamed("s__a").as_str(),
            raw.as_str().replace("\"a\",\"inputSchema", "\"s__a\",\"inputSchema")
        );
    }
}
