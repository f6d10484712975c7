//! A resource or a template as a server describes it.

use crate::json::{JsonObject, RawJson};

/// A resource or a resource template: its address (or pattern) and the raw description.
#[derive(Debug, Clone)]
pub struct ResourceDescription {
    uri: String,
    key: &'static str,
    object: JsonObject,
}

impl ResourceDescription {
    /// Reads one entry of `resources/list`.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        Self::read(raw, "uri")
    }

    /// Reads one entry of `resources/templates/list`.
    pub fn template_from_raw(raw: &RawJson) -> Option<Self> {
        Self::read(raw, "uriTemplate")
    }

    fn read(raw: &RawJson, key: &'static str) -> Option<Self> {
        let object = JsonObject::of(raw)?;
        let uri = object.get_str(key)?.into_owned();
        Some(Self { uri, key, object })
    }

    /// The address, or the pattern of a template.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name for people.
    pub fn name(&self) -> Option<String> {
        self.object.get_lossy("title").or_else(|| self.object.get_lossy("name"))
    }

    /// What it is, in words.
    pub fn description(&self) -> Option<String> {
        self.object.get_lossy("description")
    }

    /// The media type of its contents.
    pub fn mime_type(&self) -> Option<String> {
        self.object.get_str("mimeType").map(|text| text.into_owned())
    }

    /// The description as the server wrote it.
    pub fn object(&self) -> &JsonObject {
        &self.object
    }

    /// The description with another address, everything else byte for byte.
    pub fn with_uri(&self, uri: &str) -> RawJson {
        super::tool::renamed(&self.object, self.key, uri)
    }
}
