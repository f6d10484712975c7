//! YAML as a tree in which every value knows its place; the only file here that knows the YAML library.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A value and the bytes of the file where it stands.
#[derive(Debug, Clone)]
pub(super) struct FileNode {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) content: NodeContent,
}

#[derive(Debug, Clone)]
pub(super) enum NodeContent {
    Empty,
    Text(String),
    List(Vec<FileNode>),
    Map(Vec<(FileNode, FileNode)>),
}

/// Why a text is not YAML.
pub(super) struct NodeError {
    pub(super) offset: usize,
    pub(super) message: String,
}

impl FileNode {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn entries(&self) -> Option<&[(FileNode, FileNode)]> {
        match &self.content {
            NodeContent::Map(entries) => Some(entries),
            _ => None,
        }
    }
}

pub(super) fn parse(text: &str) -> Result<FileNode, NodeError> {
    let parsed: Result<Option<Spanned<YamlContent>>, _> = serde_saphyr::from_str_with_options(text, options());
    match parsed {
        Ok(Some(root)) => Ok(node(text, root)),
        Ok(None) => Ok(FileNode { start: 0, end: 0, content: NodeContent::Empty }),
        Err(error) => {
            let error = error.without_snippet();
            let offset = span(text, &error.location().unwrap_or(Location::UNKNOWN)).0;
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default();
            let message = message.split(" at line ").next().unwrap_or_default();
            Err(NodeError { offset, message: message.trim_start_matches("error: ").to_owned() })
        }
    }
}

/// Far above what an honest file needs, and far below what an alias bomb needs.
fn options() -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! {
        max_events: 400_000,
        max_nodes: 200_000,
        max_aliases: 1_000,
        max_anchors: 1_000,
        max_depth: 16,
        max_documents: 1,
        max_recorded_anchor_events: 100_000,
    };
    let alias_limits = serde_saphyr::alias_limits! {
        max_total_replayed_events: 20_000,
    };
    serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        strict_booleans: true,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

enum YamlContent {
    Text(String),
    /// A number or a flag, which is read again from the file as it is written.
    Plain,
    Empty,
    List(Vec<Spanned<YamlContent>>),
    Map(Vec<(Spanned<YamlContent>, Spanned<YamlContent>)>),
}

impl<'de> Deserialize<'de> for YamlContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = YamlContent;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlContent, E> {
        Ok(YamlContent::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<YamlContent, E> {
        Ok(YamlContent::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<YamlContent, E> {
        Ok(YamlContent::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<YamlContent, E> {
        Ok(YamlContent::Plain)
    }

    fn visit_i128<E>(self, _: i128) -> Result<YamlContent, E> {
        Ok(YamlContent::Plain)
    }

    fn visit_u128<E>(self, _: u128) -> Result<YamlContent, E> {
        Ok(YamlContent::Plain)
    }

    fn visit_f64<E>(self, _: f64) -> Result<YamlContent, E> {
        Ok(YamlContent::Plain)
    }

    fn visit_unit<E>(self) -> Result<YamlContent, E> {
        Ok(YamlContent::Empty)
    }

    fn visit_none<E>(self) -> Result<YamlContent, E> {
        Ok(YamlContent::Empty)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlContent, D::Error> {
        YamlContent::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlContent, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlContent::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlContent, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(YamlContent::Map(map))
    }
}

fn node(text: &str, raw: Spanned<YamlContent>) -> FileNode {
    let (start, end) = span(text, &raw.referenced);
    let written = span(text, &raw.defined);
    let content = match raw.value {
        YamlContent::Text(value) => NodeContent::Text(value),
        YamlContent::Plain => NodeContent::Text(text.get(written.0..written.1).unwrap_or_default().trim().to_owned()),
        YamlContent::Empty => NodeContent::Empty,
        YamlContent::List(items) => NodeContent::List(items.into_iter().map(|item| node(text, item)).collect()),
        YamlContent::Map(entries) => {
            NodeContent::Map(entries.into_iter().map(|(key, value)| (node(text, key), node(text, value))).collect())
        }
    };
    FileNode { start, end, content }
}

/// The bytes of a place. The parser counts characters where it does not know them.
fn span(text: &str, location: &Location) -> (usize, usize) {
    let place = location.span();
    if let (Some(start), Some(length)) = (place.byte_offset(), place.byte_len()) {
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(text.len());
        return (start, start.saturating_add(usize::try_from(length).unwrap_or(0)).min(text.len()));
    }
    let line = usize::try_from(location.line()).unwrap_or(1);
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>().min(text.len());
    (start, start)
}
