//! A resource or a template as a server describes it.

use crate::json::{Object, Raw};

/// A resource or a resource template: its address (or pattern) and the raw description.
#[derive(Debug, Clone)]
pub struct Resource {
    uri: String,
    key: &'static str,
    object: Object,
}

impl Resource {
    /// Reads one entry of `resources/list`.
    pub fn from_raw(raw: &Raw) -> Option<Self> {
        Self::read(raw, "uri")
    }

    /// Reads one entry of `resources/templates/list`.
    pub fn template_from_raw(raw: &Raw) -> Option<Self> {
        Self::read(raw, "uriTemplate")
    }

    fn read(raw: &Raw, key: &'static str) -> Option<Self> {
        let object = Object::of(raw)?;
        let uri = object.get_str(key)?.into_owned();
        Some(Self { uri, key, object })
    }

    /// The address, or the pattern of a template.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name for people.
    pub fn name(&self) -> Option<String> {
        self.object.get_shown("title").or_else(|| self.object.get_shown("name"))
    }

    /// What it is, in words.
    pub fn description(&self) -> Option<String> {
        self.object.get_shown("description")
    }

    /// The media type of its contents.
    pub fn mime_type(&self) -> Option<String> {
        self.object.get_str("mimeType").map(|text| text.into_owned())
    }

    /// The description as the server wrote it.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The description with another address, everything else byte for byte.
    pub fn moved(&self, uri: &str) -> Raw {
        super::tool::renamed(&self.object, self.key, uri)
    }
}
