//! What a completion refers to: a prompt or a resource template.

use crate::json::{JsonObject, ObjectWriter};

/// The thing whose argument is to be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionReference {
    /// A prompt by name.
    Prompt(String),
    /// A resource template by its pattern.
    Resource(String),
}

impl CompletionReference {
    /// Reads `ref` of a `completion/complete` request; `None` for kinds we do not know.
    pub fn of(params: &JsonObject) -> Option<Self> {
        let reference = params.get_object("ref")?;
        match reference.get_str("type").as_deref()? {
            "ref/prompt" => Some(Self::Prompt(reference.get_str("name")?.into_owned())),
            "ref/resource" => Some(Self::Resource(reference.get_str("uri")?.into_owned())),
            _ => None,
        }
    }

    /// The parameters with this reference instead of their own; the rest byte for byte.
    pub fn replace_in(&self, params: &JsonObject) -> JsonObject {
        let Some(old) = params.get_object("ref") else { return params.clone() };
        let (key, value) = match self {
            Self::Prompt(name) => ("name", name),
            Self::Resource(uri) => ("uri", uri),
        };
        let mut reference = ObjectWriter::with_capacity(64);
        reference.members_except(&old, &[key]).string(key, value);
        let mut replaced = ObjectWriter::with_capacity(params.bytes().len() + value.len());
        replaced.raw("ref", &reference.finish()).members_except(params, &["ref"]);
        replaced.finish_object()
    }
}
