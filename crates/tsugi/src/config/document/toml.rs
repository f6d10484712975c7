//! TOML into the tree; its parser recovers, so that every fault of a file is said at once.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Node, Source, Span, Value};
use crate::config::problem::Problem;

/// Reads TOML, or says everything that is wrong with it.
pub(super) fn parse(source: &Source) -> Result<Node, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        let span = Span { start: table.span().start, end: table.span().end };
        return Ok(map(source, span, table.into_inner()));
    }
    let mut problems: Vec<Problem> = errors.iter().map(|error| problem(source, error)).collect();
    // After a fault the rest of its line makes no sense either.
    problems.dedup_by_key(|problem| problem.place.as_ref().map(|place| place.line));
    Err(problems)
}

fn problem(source: &Source, error: &toml::de::Error) -> Problem {
    let range = error.span().unwrap_or_default();
    let message = format!("this is not valid TOML: {}", error.message().replace('\n', ", "));
    source.problem(Span { start: range.start, end: range.end }, message)
}

fn node(source: &Source, value: Spanned<DeValue<'_>>) -> Node {
    let span = Span { start: value.span().start, end: value.span().end };
    let scalar = |text: String| Node { span, value: Value::Scalar(text) };
    match value.into_inner() {
        DeValue::String(text) => scalar(text.into_owned()),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            scalar(source.slice(span).to_owned())
        }
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| node(source, item)).collect();
            Node { span, value: Value::List(items) }
        }
        DeValue::Table(table) => map(source, span, table),
    }
}

/// The parser keeps a table sorted by key; the order of the file is brought back.
fn map(source: &Source, span: Span, table: DeTable<'_>) -> Node {
    let entry = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, Spanned<DeValue<'_>>)| Entry {
        key_span: Span { start: key.span().start, end: key.span().end },
        key: key.into_inner().into_owned(),
        node: node(source, value),
    };
    let mut entries: Vec<Entry> = table.into_iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Node { span, value: Value::Map(entries) }
}
