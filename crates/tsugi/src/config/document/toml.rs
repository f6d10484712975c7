//! TOML into the tree; its parser recovers, so that every fault of a file is said at once.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigNode, NodeEntry, NodeValue, SourceSpan, SourceText};
use crate::config::problem::ConfigProblem;

/// Reads TOML, or says everything that is wrong with it.
pub(super) fn parse(source: &SourceText) -> Result<ConfigNode, Vec<ConfigProblem>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        let span = SourceSpan { start: table.span().start, end: table.span().end };
        return Ok(map(source, span, table.into_inner()));
    }
    let mut problems: Vec<ConfigProblem> = errors.iter().map(|error| problem(source, error)).collect();
    // After a fault the rest of its line makes no sense either.
    problems.dedup_by_key(|problem| problem.place.as_ref().map(|place| place.line));
    Err(problems)
}

fn problem(source: &SourceText, error: &toml::de::Error) -> ConfigProblem {
    let range = error.span().unwrap_or_default();
    let message = format!("this is not valid TOML: {}", error.message().replace('\n', ", "));
    source.problem(SourceSpan { start: range.start, end: range.end }, message)
}

fn node(source: &SourceText, value: Spanned<DeValue<'_>>) -> ConfigNode {
    let span = SourceSpan { start: value.span().start, end: value.span().end };
    let scalar = |text: String| ConfigNode { span, value: NodeValue::Scalar(text) };
    match value.into_inner() {
        DeValue::String(text) => scalar(text.into_owned()),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            scalar(source.slice(span).to_owned())
        }
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| node(source, item)).collect();
            ConfigNode { span, value: NodeValue::List(items) }
        }
        DeValue::Table(table) => map(source, span, table),
    }
}

/// The parser keeps a table sorted by key; the order of the file is brought back.
fn map(source: &SourceText, span: SourceSpan, table: DeTable<'_>) -> ConfigNode {
    let entry = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, Spanned<DeValue<'_>>)| NodeEntry {
        key_span: SourceSpan { start: key.span().start, end: key.span().end },
        key: key.into_inner().into_owned(),
        node: node(source, value),
    };
    let mut entries: Vec<NodeEntry> = table.into_iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    ConfigNode { span, value: NodeValue::Map(entries) }
}
