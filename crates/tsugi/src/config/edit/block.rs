//! Servers written line by line, by indentation.

use super::NewServer;
use crate::config::document::{NodeEntry, NodeValue};
use crate::config::yaml_text::{list, scalar};

/// One more server at the end of the block.
pub(super) fn add(text: &str, servers: &NodeEntry, server: &NewServer) -> Option<String> {
    let lines = BlockLines::of(text);
    let key_line = lines.at(servers.key_span.start);
    if servers.node.value == NodeValue::Empty {
        return Some(lines.with(key_line + 1, key_line + 1, &server.block_item("  ")));
    }
    let last = *starts(&lines, servers)?.last()?;
    let indent = lines.indent(last);
    let at = lines.end_of(last, indent);
    let item = match &servers.node.value {
        NodeValue::List(_) => server.block_item(&" ".repeat(indent)),
        _ => server.block_entry(&" ".repeat(indent)),
    };
    Some(lines.with(at, at, &item))
}

/// The first server of a file that has none.
pub(super) fn add_key(text: &str, server: &NewServer) -> Option<String> {
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{gap}servers:\n{}", server.block_item("  ")))
}

/// The block without one server.
pub(super) fn remove(text: &str, servers: &NodeEntry, index: usize) -> Option<String> {
    let lines = BlockLines::of(text);
    let starts = starts(&lines, servers)?;
    let start = lines.with_comments(starts[index]);
    let end = match starts.get(index + 1) {
        Some(next) => lines.with_comments(*next),
        None => lines.end_of(starts[index], lines.indent(starts[index])),
    };
    if starts.len() > 1 {
        return Some(lines.with(start, end, ""));
    }
    // The last server is gone, and a bare key would have no value, so it gets an empty list.
    let key_line = lines.at(servers.key_span.start);
    let key = lines.0[key_line].trim_end().trim_end_matches(':');
    let emptied = lines.with(start, end, "");
    Some(BlockLines::of(&emptied).with(key_line, key_line + 1, &format!("{key}: []\n")))
}

/// One more variable for a server.
pub(super) fn pass_variable(text: &str, servers: &NodeEntry, index: usize, variable: &str) -> Option<String> {
    let lines = BlockLines::of(text);
    let start = *starts(&lines, servers)?.get(index)?;
    let (node, inner) = match &servers.node.value {
        NodeValue::List(items) => (items.get(index)?, lines.indent(start) + 2),
        NodeValue::Map(entries) => (&entries.get(index)?.node, lines.indent(start) + 2),
        _ => return None,
    };
    let assignment = |indent: usize| format!("{}{variable}: \"${{{variable}}}\"\n", " ".repeat(indent));
    match node.entries()?.iter().find(|entry| matches!(entry.key.as_str(), "env" | "envs")) {
        Some(env) => {
            let first = env.node.entries()?.first()?;
            let last = env.node.entries()?.last()?;
            let line = lines.at(last.key_span.start);
            // Variables in braces are left to the person.
            (line > lines.at(env.key_span.start)).then_some(())?;
            let indent = lines.indent(lines.at(first.key_span.start));
            Some(lines.with(line + 1, line + 1, &assignment(indent)))
        }
        None => {
            let at = lines.end_of(start, lines.indent(start));
            Some(lines.with(at, at, &format!("{}env:\n{}", " ".repeat(inner), assignment(inner + 2))))
        }
    }
}

/// The line on which each server begins.
fn starts(lines: &BlockLines<'_>, servers: &NodeEntry) -> Option<Vec<usize>> {
    let starts: Vec<usize> = match &servers.node.value {
        NodeValue::List(items) => items.iter().map(|item| lines.dash(item.span.start)).collect::<Option<_>>()?,
        NodeValue::Map(entries) => entries.iter().map(|entry| lines.at(entry.key_span.start)).collect(),
        _ => return None,
    };
    (!starts.is_empty()).then_some(starts)
}

/// A text in lines, each with its end.
struct BlockLines<'a>(Vec<&'a str>);

impl<'a> BlockLines<'a> {
    fn of(text: &'a str) -> Self {
        BlockLines(text.split_inclusive('\n').collect())
    }

    /// The line of a byte.
    fn at(&self, byte: usize) -> usize {
        let mut end = 0;
        self.0
            .iter()
            .position(|line| {
                end += line.len();
                byte < end
            })
            .unwrap_or(self.0.len().saturating_sub(1))
    }

    /// The line of the dash before an item.
    fn dash(&self, byte: usize) -> Option<usize> {
        let line = self.at(byte);
        // The dash may stand alone on the line above the item.
        (0..=line).rev().take(2).find(|line| self.0[*line].trim_start().starts_with('-'))
    }

    fn indent(&self, line: usize) -> usize {
        self.0[line].len() - self.0[line].trim_start().len()
    }

    fn is_empty(&self, line: usize) -> bool {
        let text = self.0[line].trim();
        text.is_empty() || text.starts_with('#')
    }

    /// The line after the last one that belongs to what begins on this line.
    fn end_of(&self, start: usize, indent: usize) -> usize {
        let mut end = start + 1;
        for line in start + 1..self.0.len() {
            // Blank lines and comments count only if more of the block follows them.
            if self.is_empty(line) {
                continue;
            }
            if self.indent(line) <= indent {
                break;
            }
            end = line + 1;
        }
        end
    }

    /// The first of the comment lines that stand directly above a line, and the empty line above them.
    fn with_comments(&self, line: usize) -> usize {
        // A comment at the margin is about the file, not about one server.
        let is_comment = |line: &usize| self.0[*line].trim_start().starts_with('#') && self.indent(*line) > 0;
        let first = (0..line).rev().take_while(is_comment).last().unwrap_or(line);
        let has_gap = first > 0 && self.0[first - 1].trim().is_empty();
        if has_gap { first - 1 } else { first }
    }

    /// The text with these lines replaced.
    fn with(&self, start: usize, end: usize, new: &str) -> String {
        let mut before = self.0[..start].concat();
        // A last line without a line break would run into the new text.
        if !before.is_empty() && !before.ends_with('\n') && !new.is_empty() {
            before.push('\n');
        }
        format!("{before}{new}{}", self.0[end..].concat())
    }
}

impl NewServer {
    /// As an item of a list.
    pub(crate) fn block_item(&self, indent: &str) -> String {
        let first = format!("{indent}- name: {}\n", scalar(&self.name));
        first + &self.block_fields(&format!("{indent}  "))
    }

    /// As an entry of a map.
    fn block_entry(&self, indent: &str) -> String {
        format!("{indent}{}:\n", scalar(&self.name)) + &self.block_fields(&format!("{indent}  "))
    }

    fn block_fields(&self, indent: &str) -> String {
        self.fields.iter().map(|(key, value)| field(indent, key, value)).collect()
    }
}

fn field(indent: &str, key: &str, value: &serde_json::Value) -> String {
    let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        // What is nested deeper stands there as JSON, which is YAML too.
        nested if is_nested(nested) => format!("{indent}{key}: {nested}\n"),
        serde_json::Value::Array(items) => {
            format!("{indent}{key}: {}\n", list(&items.iter().map(word).collect::<Vec<_>>()))
        }
        serde_json::Value::Object(pairs) => {
            let pair = |(name, value): (&String, &serde_json::Value)| {
                format!("{indent}  {}: {}\n", scalar(name), scalar(&word(value)))
            };
            format!("{indent}{key}:\n{}", pairs.iter().map(pair).collect::<String>())
        }
        other => format!("{indent}{key}: {}\n", scalar(&word(other))),
    }
}

/// Whether there are maps or lists within a map or a list.
fn is_nested(value: &serde_json::Value) -> bool {
    let is_deep = |value: &serde_json::Value| value.is_array() || value.is_object();
    match value {
        serde_json::Value::Array(items) => items.iter().any(is_deep),
        serde_json::Value::Object(members) => members.values().any(is_deep),
        _ => false,
    }
}
