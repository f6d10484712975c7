//! What is pinned: which things of a server count, and which of their members.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::canonical::{PinDigest, canonical};

/// A definition of more bytes is pinned by its digest alone.
pub const LARGEST_DEFINITION: usize = 256 << 10;

/// What kind of thing a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PinKind {
    /// The program that is run, by platform.
    Command,
    /// `serverInfo`.
    Info,
    Instructions,
    /// A list that was pinned as a whole: what it gains later is an addition.
    List,
    Prompt,
    Resource,
    Template,
    Tool,
}

impl PinKind {
    pub const ALL: [PinKind; 8] = [
        PinKind::Command,
        PinKind::Info,
        PinKind::Instructions,
        PinKind::List,
        PinKind::Prompt,
        PinKind::Resource,
        PinKind::Template,
        PinKind::Tool,
    ];

    /// The word in the lock file.
    pub fn as_str(self) -> &'static str {
        match self {
            PinKind::Command => "command",
            PinKind::Info => "info",
            PinKind::Instructions => "instructions",
            PinKind::List => "list",
            PinKind::Prompt => "prompt",
            PinKind::Resource => "resource",
            PinKind::Template => "template",
            PinKind::Tool => "tool",
        }
    }

    /// The kind that a word of the lock file means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The list whose first sight counts for a thing of this kind.
    pub fn list(self) -> &'static str {
        match self {
            PinKind::Command => "command",
            PinKind::Info | PinKind::Instructions | PinKind::List => "identity",
            PinKind::Prompt => "prompts",
            PinKind::Resource => "resources",
            PinKind::Template => "templates",
            PinKind::Tool => "tools",
        }
    }
}

impl fmt::Display for PinKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing of one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PinKey {
    pub server: String,
    pub kind: PinKind,
    /// A name, an address or a template; empty for what a server has once.
    pub name: String,
}

impl PinKey {
    pub fn new(server: impl Into<String>, kind: PinKind, name: impl Into<String>) -> Self {
        Self { server: server.into(), kind, name: name.into() }
    }

    /// The line that says that a list was pinned as a whole.
    pub fn list(server: &str, list: &str) -> Self {
        Self::new(server, PinKind::List, list)
    }
}

/// `files/read`, `files/prompt:ask`, `files/instructions`: as a person names it.
impl fmt::Display for PinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.name.as_str()) {
            (PinKind::Tool, name) => write!(f, "{}/{name}", self.server),
            (kind, "") => write!(f, "{}/{kind}", self.server),
            (kind, name) => write!(f, "{}/{kind}:{name}", self.server),
        }
    }
}

/// A definition and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedDefinition {
    pub digest: PinDigest,
    /// The members that count, in canonical form; `None` for one that is too large to be kept, and as the server wrote
    /// it for one that has no canonical form.
    pub text: Option<String>,
}

impl PinnedDefinition {
    /// Of what a server wrote about a thing of this kind.
    pub fn of(kind: PinKind, json: &str) -> Self {
        let counted = canonical(json.as_bytes()).and_then(|text| counted_members(kind, &text));
        let text = counted.unwrap_or_else(|| json.to_owned());
        let digest = PinDigest::of_json(text.as_bytes());
        // A line break would end the line of the lock file: it can only stand between tokens of what has no
        // canonical form, which is then pinned by its digest.
        let is_kept = text.len() <= LARGEST_DEFINITION && !text.contains(['\n', '\r']);
        Self { digest, text: is_kept.then_some(text) }
    }

    /// The definition as a value, for showing it.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(self.text.as_deref()?).ok()
    }
}

/// The canonical form without the members that do not count. `_meta` is transport, and the size and the time of a
/// resource are its content's and not its definition's.
fn counted_members(kind: PinKind, text: &str) -> Option<String> {
    if !text.starts_with('{') {
        return Some(text.to_owned());
    }
    // Values stay as they are written: only whole members are taken out.
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
    members.remove("_meta");
    if kind == PinKind::Resource {
        members.remove("size");
        if let Some(annotations) = members.get_mut("annotations") {
            let counted = without_time(annotations.get());
            *annotations = counted.unwrap_or_else(|| annotations.clone());
        }
    }
    canonical(serde_json::to_string(&members).ok()?.as_bytes())
}

fn without_time(annotations: &str) -> Option<Box<RawValue>> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(annotations).ok()?;
    members.remove("lastModified");
    serde_json::value::to_raw_value(&members).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(json: &str) -> PinDigest {
        PinnedDefinition::of(PinKind::Tool, json).digest
    }

    #[test]
    fn every_member_counts_but_for_meta() {
        let plain = tool(r#"{"name":"a","inputSchema":{"type":"object"}}"#);
        assert_eq!(plain, tool(r#"{"_meta":{"x":1},"inputSchema":{"type":"object"},"name":"a"}"#));
        for more in ["title", "description", "outputSchema", "annotations", "icons", "execution", "unknown"] {
            let json = format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},"{more}":{{}}}}"#);
            assert_ne!(plain, tool(&json), "{more}");
        }
        // Only the outermost: inside a schema it is a name like any other.
        assert_ne!(plain, tool(r#"{"name":"a","inputSchema":{"type":"object","_meta":1}}"#));
    }

    #[test]
    fn the_content_of_a_resource_is_not_its_definition() {
        let of = |kind, json: &str| PinnedDefinition::of(kind, json).digest;
        let one = r#"{"uri":"a:b","size":1,"annotations":{"priority":1,"lastModified":"x"}}"#;
        let other = r#"{"uri":"a:b","size":2,"annotations":{"priority":1,"lastModified":"y"}}"#;
        assert_eq!(of(PinKind::Resource, one), of(PinKind::Resource, other));
        assert_ne!(of(PinKind::Tool, one), of(PinKind::Tool, other));
        assert_ne!(of(PinKind::Resource, one), of(PinKind::Resource, &other.replace(":1", ":3")));
    }

    #[test]
    fn an_ambiguous_definition_counts_as_it_is_written() {
        let twice = PinnedDefinition::of(PinKind::Tool, r#"{"name":"a","description":"x","description":"y"}"#);
        assert_ne!(twice.digest, tool(r#"{"name":"a","description":"z","description":"y"}"#));
        assert_eq!(twice.digest, PinDigest::of_json(twice.text.unwrap().as_bytes()));
    }
}
