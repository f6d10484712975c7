//! Servers written in brackets, as JSON writes them and as YAML may.

use serde_json::{Value as Json, json};

use super::NewServer;
use crate::config::document::{ConfigNode, NodeEntry, NodeValue, SourceSpan};

/// One more server behind the last one.
pub(super) fn add(text: &str, servers: &ConfigNode, server: &NewServer) -> Option<String> {
    let (spans, new) = match &servers.value {
        NodeValue::List(_) => (spans(text, servers), server.item()),
        NodeValue::Map(_) => (spans(text, servers), server.entry()),
        _ => return None,
    };
    let (at, before) = match spans.last() {
        Some(last) => (last.end, separator(text, last.start)),
        None => (servers.span.start + 1, String::new()),
    };
    Some(format!("{}{before}{new}{}", text.get(..at)?, text.get(at..)?))
}

/// The first server of a file that has none.
pub(super) fn add_key(text: &str, root: &ConfigNode, server: &NewServer) -> Option<String> {
    let is_first = root.entries()?.is_empty();
    let at = root.span.start + 1;
    let comma = if is_first { "" } else { "," };
    Some(format!("{}\n  \"servers\": [{}]{comma}{}", text.get(..at)?, server.item(), text.get(at..)?))
}

/// The list without one server.
pub(super) fn remove(text: &str, servers: &ConfigNode, index: usize) -> Option<String> {
    let spans = spans(text, servers);
    let one = spans.get(index)?;
    let (start, end) = match (spans.get(index + 1), index.checked_sub(1).map(|before| spans[before])) {
        (Some(next), _) => (one.start, next.start),
        (None, Some(before)) => (before.end, one.end),
        (None, None) => (one.start, one.end),
    };
    Some(format!("{}{}", text.get(..start)?, text.get(end..)?))
}

/// Where each server stands.
fn spans(text: &str, servers: &ConfigNode) -> Vec<SourceSpan> {
    match &servers.value {
        NodeValue::List(items) => {
            items.iter().map(|item| SourceSpan { end: end(text, item.span), ..item.span }).collect()
        }
        NodeValue::Map(entries) => {
            let span = |entry: &NodeEntry| SourceSpan { start: entry.key_span.start, end: end(text, entry.node.span) };
            entries.iter().map(span).collect()
        }
        _ => Vec::new(),
    }
}

/// Where a value in brackets ends. Of such values the parser of YAML only knows the beginning.
fn end(text: &str, span: SourceSpan) -> usize {
    let value = &text[span.start..];
    if !value.starts_with(['{', '[']) || text[..span.end].ends_with(['}', ']']) {
        return span.end;
    }
    let (mut depth, mut quote, mut is_escaped) = (0usize, None, false);
    for (index, character) in value.char_indices() {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (Some('"'), '\\') => is_escaped = true,
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') if depth == 1 => return span.start + index + 1,
            (None, '}' | ']') => depth -= 1,
            _ => {}
        }
    }
    span.end
}

/// A comma, and a new line as the item before has one.
fn separator(text: &str, item: usize) -> String {
    let line = text[..item].rfind('\n').map_or("", |start| &text[start + 1..item]);
    let has_own_line = text[..item].contains('\n') && line.trim().is_empty();
    if has_own_line { format!(",\n{line}") } else { ", ".to_owned() }
}

impl NewServer {
    fn item(&self) -> String {
        let mut object = serde_json::Map::from_iter([("name".to_owned(), Json::from(self.name.as_str()))]);
        object.extend(self.fields.clone());
        Json::Object(object).to_string()
    }

    fn entry(&self) -> String {
        format!("{}: {}", json!(self.name), Json::Object(self.fields.clone()))
    }
}
