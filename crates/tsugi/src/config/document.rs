//! What the user wrote, as a tree in which every key and value knows its place in the file.
//!
//! YAML, JSON with comments and TOML all become the same tree, so that the rest of the room reads one
//! shape and every complaint can point at the user's own words. Values stay text: whether `1.10` is a
//! number or a version is decided by the key that reads it, not by the parser.

mod json;
mod toml;
mod yaml;

use std::fmt;
use std::path::{Path, PathBuf};

use super::problem::{ConfigProblem, SourcePosition};

/// Where something stands in its file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SourceSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// One value and its place.
#[derive(Clone, PartialEq)]
pub(crate) struct ConfigNode {
    pub(crate) span: SourceSpan,
    pub(crate) value: NodeValue,
}

/// What a value is.
#[derive(Clone, PartialEq)]
pub(crate) enum NodeValue {
    /// Nothing: `null`, `~`, or a key with no value.
    Empty,
    /// Anything that is not a list or a map, as written, without its quotes.
    Scalar(String),
    List(Vec<ConfigNode>),
    Map(Vec<NodeEntry>),
}

/// One key of a map with its value.
#[derive(Clone, PartialEq)]
pub(crate) struct NodeEntry {
    pub(crate) key: String,
    pub(crate) key_span: SourceSpan,
    pub(crate) node: ConfigNode,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentFormat {
    Yaml,
    /// With comments and trailing commas.
    Json,
    Toml,
}

/// A file as read: its name, its text and the tree.
#[derive(Clone)]
pub(crate) struct ConfigDocument {
    pub(crate) source: SourceText,
    pub(crate) root: ConfigNode,
}

/// A file's name and text, kept for pointing at.
#[derive(Clone)]
pub(crate) struct SourceText {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Larger files are not configuration.
const LARGEST: usize = 4 << 20;

impl DocumentFormat {
    /// The format that a file's name promises; YAML where it promises nothing.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json" | "jsonc" | "json5") => DocumentFormat::Json,
            Some("toml") => DocumentFormat::Toml,
            _ => DocumentFormat::Yaml,
        }
    }
}

impl ConfigDocument {
    /// Reads the text, or says everything that keeps it from being read.
    pub(crate) fn parse(path: &Path, text: String, format: DocumentFormat) -> Result<Self, Vec<ConfigProblem>> {
        let source = SourceText { path: path.to_owned(), text: text.trim_start_matches('\u{feff}').to_owned() };
        if source.text.len() > LARGEST {
            return Err(vec![ConfigProblem::new(format!("`{}` is too large to be a configuration", path.display()))]);
        }
        let parsed = match format {
            DocumentFormat::Yaml => yaml::parse(&source),
            DocumentFormat::Json => json::parse(&source),
            DocumentFormat::Toml => toml::parse(&source),
        };
        let root = parsed?;
        // A file of comments alone counts as empty too.
        if matches!(root.value, NodeValue::Empty) {
            return Err(vec![empty(path)]);
        }
        Ok(ConfigDocument { source, root })
    }
}

/// A tree, and warnings about it.
type ForeignDocument = (ConfigDocument, Vec<ConfigProblem>);

impl ConfigDocument {
    /// Reads a file of another program. A key that stands twice is a warning there: those programs take the last one.
    pub(crate) fn parse_foreign(
        path: &Path,
        text: String,
        format: DocumentFormat,
    ) -> Result<ForeignDocument, Vec<ConfigProblem>> {
        // TOML does not allow a key twice, so there is nothing to be lenient about.
        if format != DocumentFormat::Json {
            return ConfigDocument::parse(path, text, format).map(|document| (document, Vec::new()));
        }
        let source = SourceText { path: path.to_owned(), text: text.trim_start_matches('\u{feff}').to_owned() };
        let (mut root, duplicates) = json::parse_lenient(&source)?;
        keep_last(&mut root);
        let warn = |problem: ConfigProblem| ConfigProblem {
            message: format!("{}; the last one counts", problem.message),
            ..problem
        };
        let warnings = duplicates.into_iter().map(warn).collect();
        Ok((ConfigDocument { source, root }, warnings))
    }
}

/// Drops every entry of a map that a later one of the same key replaces.
fn keep_last(node: &mut ConfigNode) {
    match &mut node.value {
        NodeValue::Map(entries) => {
            let keys: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
            let mut index = 0;
            entries.retain(|entry| {
                index += 1;
                // `retain` goes in order, so `index` is now one past this entry.
                !keys[index..].contains(&entry.key)
            });
            entries.iter_mut().for_each(|entry| keep_last(&mut entry.node));
        }
        NodeValue::List(items) => items.iter_mut().for_each(keep_last),
        NodeValue::Empty | NodeValue::Scalar(_) => {}
    }
}

fn empty(path: &Path) -> ConfigProblem {
    ConfigProblem::new(format!("`{}` is empty", path.display()))
        .with_hint("a smallest configuration is: servers: [{ name: demo, builtin: demo }]")
}

impl SourceText {
    /// The place of a span, with its line, for showing.
    pub(crate) fn place(&self, span: SourceSpan) -> SourcePosition {
        SourcePosition::find(&self.path, &self.text, span.start, span.end)
    }

    /// A problem at a span.
    pub(crate) fn problem(&self, span: SourceSpan, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem::new(message).at(self.place(span))
    }

    /// The text of a span; nothing if it is not one of this file.
    pub(crate) fn slice(&self, span: SourceSpan) -> &str {
        // A span of another file may be out of range, or split a character.
        self.text.get(span.start..span.end).unwrap_or_default()
    }
}

impl ConfigNode {
    /// The kind of value, for "expected …, found …".
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Empty => "nothing",
            NodeValue::Scalar(_) => "a single value",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a map",
        }
    }

    /// The text of a single value.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The entries of a map.
    pub(crate) fn entries(&self) -> Option<&[NodeEntry]> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Option<&[ConfigNode]> {
        match &self.value {
            NodeValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// The tree without its places; every scalar is text.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            NodeValue::Empty => serde_json::Value::Null,
            NodeValue::Scalar(text) => text.as_str().into(),
            NodeValue::List(items) => items.iter().map(ConfigNode::to_json).collect(),
            NodeValue::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
        }
    }

    /// The value under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&ConfigNode> {
        // Keys that stand twice are rejected or dropped while reading, so the first match is the only one.
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }
}

/// A tree may hold secrets that were written into the file, so it never prints its values.
impl fmt::Debug for ConfigNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Node({} at {}..{})", self.kind(), self.span.start, self.span.end)
    }
}

impl fmt::Debug for SourceText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may hold secrets as well.
        write!(formatter, "Source({})", self.path.display())
    }
}

impl fmt::Debug for ConfigDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Document({}, {:?})", self.source.path.display(), self.root)
    }
}

/// Says which keys stand twice in a map, since a reader that takes either one would surprise.
fn duplicates(source: &SourceText, entries: &[NodeEntry]) -> Vec<ConfigProblem> {
    let again = |(index, entry): (usize, &NodeEntry)| {
        // The first one is fine. Every later one is reported at its own place.
        let twice = entries[..index].iter().any(|earlier| earlier.key == entry.key);
        twice.then(|| source.problem(entry.key_span, format!("the key `{}` stands here a second time", entry.key)))
    };
    entries.iter().enumerate().filter_map(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in a compact form, with the source text of every span.
    fn sketch(source: &SourceText, node: &ConfigNode) -> String {
        match &node.value {
            NodeValue::Empty => "~".to_owned(),
            NodeValue::Scalar(text) => format!("{text}@{}", source.slice(node.span)),
            NodeValue::List(items) => {
                format!("[{}]", items.iter().map(|item| sketch(source, item)).collect::<Vec<_>>().join(" "))
            }
            NodeValue::Map(entries) => {
                let entry = |entry: &NodeEntry| {
                    format!("{}@{}={}", entry.key, source.slice(entry.key_span), sketch(source, &entry.node))
                };
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn check(format: DocumentFormat, text: &str, expected: &str) {
        let document = ConfigDocument::parse(Path::new("test"), text.to_owned(), format).unwrap();
        assert_eq!(sketch(&document.source, &document.root), expected);
    }

    #[test]
    fn yaml_keeps_every_scalar_as_it_was_written_and_knows_where() {
        check(
            DocumentFormat::Yaml,
            "a: 1.10\nb: [no, 'x', \"y\", 0x1F]\nc:\nd: ~\né: {f: true}\ng: Bearer ${K}\n",
            "{a@a=1.10@1.10 b@b=[no@no x@'x' y@\"y\" 0x1F@0x1F] c@c=~ d@d=~ é@é={f@f=true@true} g@g=Bearer ${K}@Bearer ${K}}",
        );
    }

    #[test]
    fn json_with_comments_and_trailing_commas_becomes_the_same_tree() {
        check(
            DocumentFormat::Json,
            "{ // note\n \"a\": 1.10, \"b\": [true, null, \"x\\n\"], /* c */ \"d\": {}, }",
            "{a@\"a\"=1.10@1.10 b@\"b\"=[true@true ~ x\n@\"x\\n\"] d@\"d\"={}}",
        );
    }

    #[test]
    fn toml_becomes_the_same_tree_in_the_order_of_the_file() {
        check(
            DocumentFormat::Toml,
            "z = 1.10\n[t.two]\nb = true\na = ['x', 3]\n",
            "{z@z=1.10@1.10 t@t={two@two={b@b=true@true a@a=[x@'x' 3@3]}}}",
        );
    }

    #[test]
    fn yaml_anchors_and_merges_work_and_complaints_point_at_their_use() {
        check(
            DocumentFormat::Yaml,
            "base: &b {x: 1}\nuse: *b\nmore:\n  <<: *b\n  y: 2\n",
            "{base@base={x@x=1@1} use@use={x@*b=1@*b} more@more={y@y=2@2 x@*b=1@*b}}",
        );
    }

    fn problems(format: DocumentFormat, text: &str) -> Vec<String> {
        let problems = ConfigDocument::parse(Path::new("tsugi.yaml"), text.to_owned(), format).unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_key_that_stands_twice_is_a_problem_in_every_format() {
        for (format, text) in [
            (DocumentFormat::Yaml, "a: 1\na: 2\n"),
            (DocumentFormat::Json, "{\"a\":1,\n\"a\":2}"),
            (DocumentFormat::Toml, "a = 1\na = 2\n"),
        ] {
            let problems = problems(format, text);
            assert!(problems[0].contains("tsugi.yaml:2:1"), "{format:?}: {problems:?}");
        }
    }

    #[test]
    fn an_alias_bomb_is_stopped_early() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let before = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", vec![before; 9].join(", "));
        }
        assert_eq!(problems(DocumentFormat::Yaml, &text).len(), 1);
    }

    #[test]
    fn an_empty_or_half_written_file_gives_a_clean_problem() {
        for format in [DocumentFormat::Yaml, DocumentFormat::Json] {
            assert!(problems(format, "").join("").contains("is empty"));
            assert!(problems(format, "\n  \n").join("").contains("is empty"));
        }
        assert!(problems(DocumentFormat::Yaml, "# only a comment\n").join("").contains("is empty"));
        assert!(problems(DocumentFormat::Json, "{\"servers\": [{\"na").join("").contains("tsugi.yaml:1:"));
        assert!(problems(DocumentFormat::Yaml, "servers:\n  - name: \"x").join("").contains("tsugi.yaml:2:"));
        assert!(problems(DocumentFormat::Toml, "a = 1\n[mcp_servers.x").join("").contains("tsugi.yaml:2:"));
    }

    #[test]
    fn every_fault_of_a_toml_file_is_said() {
        assert_eq!(problems(DocumentFormat::Toml, "a = \nb = 1\nc = = 3\n").len(), 2);
    }

    #[test]
    fn a_plain_value_that_begins_with_an_at_sign_is_explained() {
        let problem = problems(DocumentFormat::Yaml, "a: 1\ncommand: @akiojin/mcp-filesystem\n").join("");
        assert!(problem.contains("tsugi.yaml:2:10"), "{problem}");
        assert!(problem.contains("command: \"@akiojin/mcp-filesystem\""), "{problem}");
    }

    #[test]
    fn an_unquoted_reference_inside_braces_is_explained() {
        let problem = problems(DocumentFormat::Yaml, "headers: { Authorization: Bearer ${KEY} }\n").join("");
        assert!(problem.contains("hint: inside { } and [ ]"), "{problem}");
    }

    #[test]
    fn a_tab_as_indentation_is_explained() {
        let problem = problems(DocumentFormat::Yaml, "servers:\n\t- name: x\n").join("");
        assert!(problem.contains("spaces"), "{problem}");
    }

    #[test]
    fn nothing_of_a_file_appears_when_it_is_debug_printed() {
        let text = "env: {K: canary-value}".to_owned();
        let document = ConfigDocument::parse(Path::new("t"), text, DocumentFormat::Yaml).unwrap();
        assert!(!format!("{document:?}").contains("canary"));
    }
}
