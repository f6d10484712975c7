//! A prompt as a server describes it.

use serde::Deserialize;

use crate::json::{JsonObject, RawJson};

/// A prompt: its name, its arguments and the raw description.
#[derive(Debug, Clone)]
pub struct PromptDescription {
    name: String,
    object: JsonObject,
}

/// One argument of a prompt. Prompt arguments are always strings.
#[derive(Debug, Clone, Deserialize)]
pub struct PromptArgument {
    pub name: String,
    /// What it is, in words.
    pub description: Option<String>,
    /// Whether the prompt needs it.
    #[serde(default)]
    pub required: bool,
}

impl PromptDescription {
    /// Reads one entry of `prompts/list`.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        let object = JsonObject::of(raw)?;
        let name = object.get_str("name")?.into_owned();
        Some(Self { name, object })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, in words.
    pub fn description(&self) -> Option<String> {
        self.object.get_lossy("description")
    }

    /// The arguments; none when they cannot be read.
    pub fn arguments(&self) -> Vec<PromptArgument> {
        self.object.get("arguments").and_then(|arguments| arguments.to_lossy().ok()).unwrap_or_default()
    }

    /// The description as the server wrote it.
    pub fn object(&self) -> &JsonObject {
        &self.object
    }

    /// The description with another name, everything else byte for byte.
    pub fn renamed(&self, name: &str) -> RawJson {
        super::tool::renamed(&self.object, "name", name)
    }
}
