//! Reads single keys: looks them up, expands them, checks them, and collects what is wrong.

use std::path::{Path, PathBuf};

use tsugi_outbound::OutboundRules;

use super::EntryTrust;
use crate::config::document::{ConfigNode, NodeEntry, NodeValue, SourceSpan, SourceText};
use crate::config::env::VariableExpander;
use crate::config::key::{Setting, SettingKey, SettingTable};
use crate::config::parse::{ExpectedValue, ParseResult};
use crate::config::problem::ConfigProblem;
use crate::config::secret::{self, MaskedText, Secret};

/// What is known while a file is read.
pub(in crate::config) struct SettingsReader<'a> {
    pub(super) source: &'a SourceText,
    pub(super) expander: VariableExpander,
    pub(super) trust: EntryTrust,
    /// What holds for addresses of others. It is read before the servers are.
    pub(super) outbound: OutboundRules,
    pub(super) problems: Vec<ConfigProblem>,
    /// References that cannot be replaced. What is switched off may have some.
    pub(super) unresolved: Vec<ConfigProblem>,
    pub(super) warnings: Vec<ConfigProblem>,
    /// References of servers that are switched off.
    pub(super) dormant: Vec<ConfigProblem>,
    pub(super) secrets: Vec<Secret>,
}

/// A map whose keys are known.
pub(in crate::config) struct SettingsSection<'a> {
    entries: &'a [NodeEntry],
}

impl<'a> SettingsSection<'a> {
    /// The map at this node; without one, or with something else there, a map in which nothing is written.
    pub(super) fn open(
        reader: &mut SettingsReader<'_>,
        node: Option<&'a ConfigNode>,
        table: &'static SettingTable,
    ) -> Self {
        let entries = match node {
            Some(node) => node.entries().unwrap_or_else(|| {
                reader.problem(node, format!("`{}` must be a map, but this is {}", table.path, node.kind()));
                &[]
            }),
            None => &[],
        };
        for (index, entry) in entries.iter().enumerate() {
            // Only the entries before it, so that the second of two spellings is the one reported.
            check_key(reader, table, entry, &entries[..index]);
        }
        SettingsSection { entries }
    }

    /// The value of a key; a key without a value counts as absent.
    pub(in crate::config) fn get(&self, key: &'static SettingKey) -> Option<&'a ConfigNode> {
        let entry = self.entries.iter().find(|entry| key.is_called(&entry.key))?;
        (entry.node.value != NodeValue::Empty).then_some(&entry.node)
    }

    /// Where the key itself stands.
    pub(super) fn key_span(&self, key: &'static SettingKey) -> Option<SourceSpan> {
        self.entries.iter().find(|entry| key.is_called(&entry.key)).map(|entry| entry.key_span)
    }
}

/// An unknown key is a problem, and so is one that another spelling gave already.
fn check_key(reader: &mut SettingsReader<'_>, table: &'static SettingTable, entry: &NodeEntry, earlier: &[NodeEntry]) {
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

fn names(table: &SettingTable) -> String {
    table.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

impl<'a> SettingsReader<'a> {
    pub(super) fn new(source: &'a SourceText, expander: VariableExpander, trust: EntryTrust) -> Self {
        SettingsReader {
            source,
            expander,
            trust,
            outbound: OutboundRules::default(),
            problems: Vec::new(),
            unresolved: Vec::new(),
            warnings: Vec::new(),
            dormant: Vec::new(),
            secrets: Vec::new(),
        }
    }

    /// Says what is wrong with a value.
    pub(super) fn problem(&mut self, node: &ConfigNode, message: impl Into<String>) {
        let problem = self.source.problem(node.span, message);
        self.problems.push(problem);
    }

    /// Two of one name would answer for each other. A map cannot have them; a list can.
    pub(super) fn reject_duplicates(&mut self, node: &ConfigNode, what: &str) {
        let mut seen: Vec<String> = Vec::new();
        for name in node.items().unwrap_or_default().iter().filter_map(|item| item.get("name")) {
            // Compared after expansion, since two variables may hold the same name.
            let Some(text) = name.text().and_then(|text| self.expander.expand(text).ok()) else { continue };
            if seen.contains(&text.expose()) {
                self.problem(name, format!("a second {what} is called `{text}`"));
            }
            seen.push(text.expose());
        }
    }

    /// Says what should be looked at.
    pub(super) fn warn(&mut self, span: SourceSpan, message: impl Into<String>) {
        let warning = self.source.problem(span, message);
        self.warnings.push(warning);
    }

    /// A free text with its references replaced. Its secret parts are masked from now on, wherever they appear.
    pub(super) fn text(&mut self, node: &ConfigNode) -> Option<MaskedText> {
        let text = self.expanded(node)?;
        self.secrets.extend(text.secrets().cloned());
        Some(text)
    }

    /// A single value with its references replaced.
    fn expanded(&mut self, node: &ConfigNode) -> Option<MaskedText> {
        let Some(text) = node.text() else {
            self.problem(node, format!("a single value is expected here, but this is {}", node.kind()));
            return None;
        };
        if self.trust != EntryTrust::Own {
            return self.unexpanded(node, text);
        }
        match self.expander.expand(text) {
            Ok(text) => Some(text),
            Err(faults) => {
                // All of them, so that one run shows every variable that is missing.
                for fault in faults {
                    let mut problem = self.source.problem(self.find(node.span, &fault.reference), fault.message);
                    problem.hint = fault.hint;
                    problem.reason = fault.reason;
                    // Not a problem yet: the server may be switched off.
                    self.unresolved.push(problem);
                }
                None
            }
        }
    }

    /// Clients may not read our variables: an entry that refers to one is refused, not left literal.
    fn unexpanded(&mut self, node: &ConfigNode, text: &str) -> Option<MaskedText> {
        if text.contains("${") {
            self.problem(node, "variables are not expanded in entries that come over the network");
            return None;
        }
        Some(MaskedText::plain(text))
    }

    /// Where a reference stands within its value.
    fn find(&self, span: SourceSpan, reference: &str) -> SourceSpan {
        match self.source.slice(span).find(reference) {
            Some(index) => SourceSpan { start: span.start + index, end: span.start + index + reference.len() },
            // Quotes and escapes may make the source differ from the value. Then all of it is underlined.
            None => span,
        }
    }

    /// A value that is marked as secret when its name says so.
    pub(super) fn named_text(&mut self, name: &str, node: &ConfigNode) -> Option<MaskedText> {
        let text = self.text(node)?;
        let is_secret = secret::is_secret_name(name) || secret::is_secret_value(&text.expose());
        Some(if is_secret { self.hide(text) } else { text })
    }

    /// Marks all of a text as secret.
    pub(super) fn hide(&mut self, text: MaskedText) -> MaskedText {
        let text = text.into_secret();
        self.secrets.extend(text.secrets().cloned());
        text
    }

    /// The checked value at a node.
    pub(super) fn value<T>(
        &mut self,
        name: &str,
        node: &ConfigNode,
        parse: impl Fn(&str) -> ParseResult<T>,
    ) -> Option<T> {
        // A number, a switch or a name is not a secret, even if it comes from a variable. It is hidden in the complaint
        // all the same, since a wrong value may be anything.
        let text = self.expanded(node)?;
        match parse(&text.expose()) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.secrets.extend(text.secrets().cloned());
                self.unexpected(name, node, &text, expected);
                None
            }
        }
    }

    fn unexpected(&mut self, name: &str, node: &ConfigNode, text: &MaskedText, expected: ExpectedValue) {
        // The value may be a token under a harmless key.
        let shown = secret::conceal(&text.to_string());
        let message = format!("`{name}` cannot be `{shown}`: expected {}", expected.what);
        let mut problem = self.source.problem(node.span, message);
        problem.hint = expected.hint;
        self.problems.push(problem);
    }

    /// The checked value of a key, if it is there.
    pub(in crate::config) fn optional<T>(
        &mut self,
        section: &SettingsSection<'_>,
        setting: &'static Setting<T>,
    ) -> Option<T> {
        section.get(setting).and_then(|node| self.value(setting.name, node, setting.value.parse))
    }

    /// The checked value of a key, or its default.
    pub(in crate::config) fn or_default<T>(
        &mut self,
        section: &SettingsSection<'_>,
        setting: &'static Setting<T>,
    ) -> T {
        self.optional(section, setting).unwrap_or_else(|| default(setting))
    }

    /// The checked items of a key's list, if it is there.
    pub(in crate::config) fn optional_list<T>(
        &mut self,
        section: &SettingsSection<'_>,
        setting: &'static Setting<T>,
    ) -> Option<Vec<T>> {
        section.get(setting).map(|node| self.list(setting.name, node, setting.value.parse))
    }

    /// The checked items of a key's list, or those of its default.
    pub(in crate::config) fn list_or_default<T>(
        &mut self,
        section: &SettingsSection<'_>,
        setting: &'static Setting<T>,
    ) -> Vec<T> {
        let parse = setting.value.parse;
        self.optional_list(section, setting)
            .unwrap_or_else(|| super::default_items(setting).map(|item| valid(setting, parse(item))).collect())
    }

    /// A list of paths, meant from the directory of the configuration.
    pub(in crate::config) fn paths(
        &mut self,
        section: &SettingsSection<'_>,
        key: &'static SettingKey,
    ) -> Option<Vec<PathBuf>> {
        let directory = self.expander.directory().to_owned();
        let node = section.get(key)?;
        Some(self.list(key.name, node, |text| Ok(directory.join(text))))
    }

    /// The checked items of a list; a single value counts as a list of one.
    pub(super) fn list<T>(&mut self, name: &str, node: &ConfigNode, parse: impl Fn(&str) -> ParseResult<T>) -> Vec<T> {
        let items = match &node.value {
            NodeValue::List(items) => items.as_slice(),
            NodeValue::Scalar(_) => std::slice::from_ref(node),
            _ => {
                self.problem(node, format!("`{name}` must be a list, but this is {}", node.kind()));
                &[]
            }
        };
        items.iter().filter_map(|item| self.value(name, item, &parse)).collect()
    }

    /// A map of names and texts.
    pub(super) fn pairs(&mut self, name: &str, node: &ConfigNode) -> Vec<(String, MaskedText)> {
        let Some(entries) = node.entries() else {
            self.problem(node, format!("`{name}` must be a map, but this is {}", node.kind()));
            return Vec::new();
        };
        entries.iter().filter_map(|entry| self.pair(entry)).collect()
    }

    fn pair(&mut self, entry: &NodeEntry) -> Option<(String, MaskedText)> {
        let value = match entry.node.value {
            // `NAME:` without a value sets the variable to an empty text.
            NodeValue::Empty => MaskedText::default(),
            _ => self.named_text(&entry.key, &entry.node)?,
        };
        Some((entry.key.clone(), value))
    }

    /// The directory that programs are started in: that of the configuration, so that a relative argument means the same
    /// regardless of who starts tsugi and from where. Servers without a file are started in the caller's directory.
    pub(super) fn working_directory(&self) -> Option<PathBuf> {
        let directory = self.expander.directory();
        (!directory.as_os_str().is_empty()).then(|| directory.to_owned())
    }

    /// A path, meant from the directory of the configuration.
    pub(super) fn beside_file(&self, name: &str) -> PathBuf {
        self.expander.directory().join(name)
    }

    pub(super) fn path(&mut self, node: &ConfigNode) -> Option<PathBuf> {
        let text = self.text(node)?.expose();
        Some(self.expander.directory().join(text))
    }

    /// The content of a file that the configuration names.
    pub(super) fn file(&mut self, node: &ConfigNode, path: &Path) -> Option<String> {
        if self.trust != EntryTrust::Own {
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
pub(super) fn default<T>(setting: &'static Setting<T>) -> T {
    valid(setting, (setting.value.parse)(setting.default))
}

/// Every default is read whenever a configuration is, so a bad one cannot hide.
fn valid<T>(key: &'static SettingKey, parsed: ParseResult<T>) -> T {
    parsed.unwrap_or_else(|expected| unreachable!("the default of `{}` must be {}", key.name, expected.what))
}
