//! Reads single keys: looks them up, expands them, checks them, and collects what is wrong.

use std::path::{Path, PathBuf};

use super::Trust;
use crate::config::document::{Entry, Node, Source, Span, Value};
use crate::config::env::Expander;
use crate::config::key::{Key, Table};
use crate::config::parse::{Expected, Parsed};
use crate::config::problem::Problem;
use crate::config::secret::{self, Secret, Text};

/// What is known while a file is read.
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source,
    pub(super) expander: Expander,
    pub(super) trust: Trust,
    pub(super) problems: Vec<Problem>,
    /// References that cannot be replaced. What is switched off may have some.
    pub(super) unresolved: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// References of servers that are switched off.
    pub(super) dormant: Vec<Problem>,
    pub(super) secrets: Vec<Secret>,
}

/// A map whose keys are known.
pub(super) struct Section<'a> {
    entries: &'a [Entry],
}

impl<'a> Section<'a> {
    /// The map at this node; without one, or with something else there, a map in which nothing is written.
    pub(super) fn open(reader: &mut Reader<'_>, node: Option<&'a Node>, table: &'static Table) -> Self {
        let entries = match node {
            Some(node) => node.entries().unwrap_or_else(|| {
                reader.problem(node, format!("`{}` must be a map, but this is {}", table.path, node.kind()));
                &[]
            }),
            None => &[],
        };
        for (index, entry) in entries.iter().enumerate() {
            check_key(reader, table, entry, &entries[..index]);
        }
        Section { entries }
    }

    /// The value of a key; a key without a value counts as absent.
    pub(super) fn get(&self, key: &'static Key) -> Option<&'a Node> {
        let entry = self.entries.iter().find(|entry| key.is_called(&entry.key))?;
        (entry.node.value != Value::Empty).then_some(&entry.node)
    }

    /// Where the key itself stands.
    pub(super) fn key_span(&self, key: &'static Key) -> Option<Span> {
        self.entries.iter().find(|entry| key.is_called(&entry.key)).map(|entry| entry.key_span)
    }
}

/// An unknown key is a problem, and so is one that another spelling gave already.
fn check_key(reader: &mut Reader<'_>, table: &'static Table, entry: &Entry, earlier: &[Entry]) {
    let Some(key) = table.find(&entry.key) else {
        let problem =
            reader.source.problem(entry.key_span, format!("unknown key `{}` in {}", entry.key, table.place()));
        let hint = match table.nearest(&entry.key) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are: {}", names(table)),
        };
        return reader.problems.push(problem.with_hint(hint));
    };
    if let Some(same) = earlier.iter().find(|earlier| key.is_called(&earlier.key)) {
        let message = format!("`{}` says the same as `{}` above", entry.key, same.key);
        reader.problems.push(reader.source.problem(entry.key_span, message));
    }
}

fn names(table: &Table) -> String {
    table.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Source, expander: Expander, trust: Trust) -> Self {
        Reader {
            source,
            expander,
            trust,
            problems: Vec::new(),
            unresolved: Vec::new(),
            warnings: Vec::new(),
            dormant: Vec::new(),
            secrets: Vec::new(),
        }
    }

    /// Says what is wrong with a value.
    pub(super) fn problem(&mut self, node: &Node, message: impl Into<String>) {
        let problem = self.source.problem(node.span, message);
        self.problems.push(problem);
    }

    /// Two of one name would answer for each other. A map cannot have them; a list can.
    pub(super) fn reject_duplicates(&mut self, node: &Node, what: &str) {
        let mut seen: Vec<String> = Vec::new();
        for name in node.items().unwrap_or_default().iter().filter_map(|item| item.get("name")) {
            let Some(text) = name.text().and_then(|text| self.expander.expand(text).ok()) else { continue };
            if seen.contains(&text.expose()) {
                self.problem(name, format!("a second {what} is called `{text}`"));
            }
            seen.push(text.expose());
        }
    }

    /// Says what should be looked at.
    pub(super) fn warn(&mut self, span: Span, message: impl Into<String>) {
        let warning = self.source.problem(span, message);
        self.warnings.push(warning);
    }

    /// A single value with its references replaced.
    pub(super) fn text(&mut self, node: &Node) -> Option<Text> {
        let Some(text) = node.text() else {
            self.problem(node, format!("a single value is expected here, but this is {}", node.kind()));
            return None;
        };
        if self.trust != Trust::Own {
            return self.unexpanded(node, text);
        }
        match self.expander.expand(text) {
            Ok(text) => {
                self.secrets.extend(text.secrets().cloned());
                Some(text)
            }
            Err(faults) => {
                for fault in faults {
                    let mut problem = self.source.problem(self.find(node.span, &fault.reference), fault.message);
                    problem.hint = fault.hint;
                    self.unresolved.push(problem);
                }
                None
            }
        }
    }

    /// Our variables are nobody else's business: an entry that asks for one is refused, not left literal.
    fn unexpanded(&mut self, node: &Node, text: &str) -> Option<Text> {
        if text.contains("${") {
            self.problem(node, "variables are not expanded in entries that come over the network");
            return None;
        }
        Some(Text::plain(text))
    }

    /// Where a reference stands within its value.
    fn find(&self, span: Span, reference: &str) -> Span {
        match self.source.slice(span).find(reference) {
            Some(index) => Span { start: span.start + index, end: span.start + index + reference.len() },
            None => span,
        }
    }

    /// A value that is marked as secret when its name says so.
    pub(super) fn named_text(&mut self, name: &str, node: &Node) -> Option<Text> {
        let text = self.text(node)?;
        let is_secret = secret::is_secret_name(name) || secret::is_secret_value(&text.expose());
        Some(if is_secret { self.hide(text) } else { text })
    }

    /// Marks all of a text as secret.
    pub(super) fn hide(&mut self, text: Text) -> Text {
        let text = text.into_secret();
        self.secrets.extend(text.secrets().cloned());
        text
    }

    /// The checked value at a node.
    pub(super) fn value<T>(&mut self, name: &str, node: &Node, parse: impl Fn(&str) -> Parsed<T>) -> Option<T> {
        let text = self.text(node)?;
        match parse(&text.expose()) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.unexpected(name, node, &text, expected);
                None
            }
        }
    }

    fn unexpected(&mut self, name: &str, node: &Node, text: &Text, expected: Expected) {
        let shown = secret::conceal(&text.to_string());
        let message = format!("`{name}` cannot be `{shown}`: expected {}", expected.what);
        let mut problem = self.source.problem(node.span, message);
        problem.hint = expected.hint;
        self.problems.push(problem);
    }

    /// The checked value of a key, if it is there.
    pub(super) fn optional<T>(
        &mut self,
        section: &Section<'_>,
        key: &'static Key,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Option<T> {
        section.get(key).and_then(|node| self.value(key.name, node, parse))
    }

    /// The checked value of a key, or its default.
    pub(super) fn or_default<T>(
        &mut self,
        section: &Section<'_>,
        key: &'static Key,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> T {
        self.optional(section, key, &parse).unwrap_or_else(|| default(key, parse))
    }

    /// The checked items of a list; a single value counts as a list of one.
    pub(super) fn list<T>(&mut self, name: &str, node: &Node, parse: impl Fn(&str) -> Parsed<T>) -> Vec<T> {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Scalar(_) => std::slice::from_ref(node),
            _ => {
                self.problem(node, format!("`{name}` must be a list, but this is {}", node.kind()));
                &[]
            }
        };
        items.iter().filter_map(|item| self.value(name, item, &parse)).collect()
    }

    /// The checked items of a key's list, or those of its default.
    pub(super) fn list_or_default<T>(
        &mut self,
        section: &Section<'_>,
        key: &'static Key,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Vec<T> {
        match section.get(key) {
            Some(node) => self.list(key.name, node, parse),
            None => super::default_items(key).map(|item| valid(key, parse(item))).collect(),
        }
    }

    /// A map of names and texts.
    pub(super) fn pairs(&mut self, name: &str, node: &Node) -> Vec<(String, Text)> {
        let Some(entries) = node.entries() else {
            self.problem(node, format!("`{name}` must be a map, but this is {}", node.kind()));
            return Vec::new();
        };
        entries.iter().filter_map(|entry| self.pair(entry)).collect()
    }

    fn pair(&mut self, entry: &Entry) -> Option<(String, Text)> {
        let value = match entry.node.value {
            Value::Empty => Text::default(),
            _ => self.named_text(&entry.key, &entry.node)?,
        };
        Some((entry.key.clone(), value))
    }

    /// A path, meant from the directory of the configuration.
    pub(super) fn path(&mut self, node: &Node) -> Option<PathBuf> {
        let text = self.text(node)?.expose();
        Some(self.expander.directory().join(text))
    }

    /// The content of a file that the configuration names.
    pub(super) fn file(&mut self, node: &Node, path: &Path) -> Option<String> {
        if self.trust != Trust::Own {
            self.problem(node, "files are not read for entries that come over the network");
            return None;
        }
        match std::fs::read_to_string(path) {
            Ok(content) => Some(content),
            Err(error) => {
                self.problem(node, format!("the file `{}` cannot be read: {error}", path.display()));
                None
            }
        }
    }
}

/// The default of a key, read by the same parser as what people write.
pub(super) fn default<T>(key: &'static Key, parse: impl Fn(&str) -> Parsed<T>) -> T {
    valid(key, parse(key.default))
}

/// Every default is read whenever a configuration is, so a bad one cannot hide.
fn valid<T>(key: &'static Key, parsed: Parsed<T>) -> T {
    parsed.unwrap_or_else(|expected| unreachable!("the default of `{}` must be {}", key.name, expected.what))
}
