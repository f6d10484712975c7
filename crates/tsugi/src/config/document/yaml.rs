//! YAML into the tree; the only place that knows the YAML library.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::{ConfigNode, NodeEntry, NodeValue, SourceSpan, SourceText};
use crate::config::problem::ConfigProblem;

/// Reads YAML, or says what is wrong with it: one problem, since the parser cannot go on after a fault.
pub(super) fn parse(source: &SourceText) -> Result<ConfigNode, Vec<ConfigProblem>> {
    let raw: Option<Spanned<YamlValue>> =
        serde_saphyr::from_str_with_options(&source.text, options()).map_err(|error| vec![explain(source, &error)])?;
    match raw {
        Some(raw) => Ok(node(source, raw)),
        None => Ok(ConfigNode { span: SourceSpan::default(), value: NodeValue::Empty }),
    }
}

/// Limits far above any honest configuration and far below what an alias bomb needs.
fn options() -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! {
        max_events: 200_000,
        max_nodes: 100_000,
        max_aliases: 1_000,
        max_anchors: 1_000,
        max_depth: 32,
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
        // Problems show the line themselves, with secrets masked.
        with_snippet: false,
    }
}

/// A value as the parser gives it. What it took for a number or a boolean is read again from the source.
enum YamlValue {
    Text(String),
    Plain,
    Empty,
    List(Vec<Spanned<YamlValue>>),
    Map(Vec<(Spanned<YamlValue>, Spanned<YamlValue>)>),
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Plain)
    }

    fn visit_i128<E>(self, _: i128) -> Result<YamlValue, E> {
        Ok(YamlValue::Plain)
    }

    fn visit_u128<E>(self, _: u128) -> Result<YamlValue, E> {
        Ok(YamlValue::Plain)
    }

    // The parser's number is dropped: as a version, `1.10` must keep its zero.
    fn visit_f64<E>(self, _: f64) -> Result<YamlValue, E> {
        Ok(YamlValue::Plain)
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Empty)
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Empty)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlValue, D::Error> {
        YamlValue::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(YamlValue::Map(map))
    }
}

fn node(source: &SourceText, raw: Spanned<YamlValue>) -> ConfigNode {
    // An alias is used in one place and written in another. Complaints point at its use.
    let (used, written) = (span(source, &raw.referenced), span(source, &raw.defined));
    let value = match raw.value {
        YamlValue::Text(text) => NodeValue::Scalar(text),
        YamlValue::Plain => NodeValue::Scalar(source.slice(written).trim().to_owned()),
        YamlValue::Empty => NodeValue::Empty,
        YamlValue::List(items) => NodeValue::List(items.into_iter().map(|item| node(source, item)).collect()),
        YamlValue::Map(entries) => {
            NodeValue::Map(entries.into_iter().map(|(key, value)| entry(source, key, value)).collect())
        }
    };
    ConfigNode { span: used, value }
}

fn entry(source: &SourceText, key: Spanned<YamlValue>, value: Spanned<YamlValue>) -> NodeEntry {
    let key = node(source, key);
    let text = key.text().unwrap_or_default().to_owned();
    NodeEntry { key: text, key_span: key.span, node: node(source, value) }
}

/// The parser counts characters; we count bytes.
fn span(source: &SourceText, location: &Location) -> SourceSpan {
    let span = location.span();
    if let (Some(start), Some(length)) = (span.byte_offset(), span.byte_len()) {
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(source.text.len());
        let end = start.saturating_add(usize::try_from(length).unwrap_or(0)).min(source.text.len());
        return SourceSpan { start, end };
    }
    // Without a byte offset, the line and the column are enough to point at the place.
    let line = usize::try_from(location.line()).unwrap_or(1);
    let column = usize::try_from(location.column()).unwrap_or(1);
    let start = offset(&source.text, line, column);
    SourceSpan { start, end: start }
}

/// The byte at which a line and column begin, both counted from one.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = &text[before..];
    let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(index, _)| index);
    before + within
}

/// The parser's complaint in our form, with advice for the faults that people make most.
fn explain(source: &SourceText, error: &serde_saphyr::Error) -> ConfigProblem {
    let error = error.without_snippet();
    let location = error.location().unwrap_or(Location::UNKNOWN);
    let mut at = span(source, &location);
    // The parser says where it stopped, not how far the mistake reaches.
    at.end = at.start;
    let problem = ConfigProblem::new(format!("this is not valid YAML: {}", message(error))).at(source.place(at));
    match advice(source, at) {
        Some(advice) => problem.with_hint(advice),
        None => problem,
    }
}

/// The complaint alone: the place is said in our own way, and only the first line says what happened.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let end = line.find(" at line ").or_else(|| line.find(" (line ")).unwrap_or(line.len());
    // The library's advice to programmers does not help the author of the file.
    let end = line.find(", set DuplicateKeyPolicy").unwrap_or(end).min(end);
    line[..end].trim().trim_end_matches([':', ',']).to_owned()
}

fn advice(source: &SourceText, at: SourceSpan) -> Option<String> {
    let start = source.text[..at.start].rfind('\n').map_or(0, |index| index + 1);
    let line = source.text[start..].lines().next().unwrap_or_default();
    if line.starts_with('\t') || line.trim_start_matches(' ').starts_with('\t') {
        return Some("YAML is indented with spaces, not with tabs".to_owned());
    }
    // A brace or bracket before the reference opens a flow collection, in which `{` is syntax.
    if line.contains("${") && line.find(['{', '[']) < line.find("${").map(|index| index + 1) {
        return Some("inside { } and [ ] a value that contains `${…}` needs quotes".to_owned());
    }
    let (key, value) = line.split_once(": ").or_else(|| line.split_once("- "))?;
    let value = value.trim();
    let (first, separator) = (value.chars().next()?, if line.contains(": ") { ": " } else { "- " });
    let needs_quotes = matches!(first, '@' | '`' | '%') && !value.contains('"');
    needs_quotes
        .then(|| format!("a value that begins with `{first}` needs quotes: {}{separator}\"{value}\"", key.trim_start()))
}
