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

use super::problem::{Place, Problem};

/// Where something stands in its file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// One value and its place.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing: `null`, `~`, or a key with no value.
    Empty,
    /// Anything that is not a list or a map, as written, without its quotes.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map with its value.
#[derive(Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    /// With comments and trailing commas.
    Json,
    Toml,
}

/// A file as read: its name, its text and the tree.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) source: Source,
    pub(crate) root: Node,
}

/// A file's name and text, kept for pointing at.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Larger files are not configuration.
const LARGEST: usize = 4 << 20;

impl Format {
    /// The format that a file's name promises; YAML where it promises nothing.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json" | "jsonc" | "json5") => Format::Json,
            Some("toml") => Format::Toml,
            _ => Format::Yaml,
        }
    }
}

impl Document {
    /// Reads the text, or says everything that keeps it from being read.
    pub(crate) fn parse(path: &Path, text: String, format: Format) -> Result<Self, Vec<Problem>> {
        let source = Source { path: path.to_owned(), text: text.trim_start_matches('\u{feff}').to_owned() };
        if source.text.len() > LARGEST {
            return Err(vec![Problem::new(format!("`{}` is too large to be a configuration", path.display()))]);
        }
        let parsed = match format {
            Format::Yaml => yaml::parse(&source),
            Format::Json => json::parse(&source),
            Format::Toml => toml::parse(&source),
        };
        let root = parsed?;
        if matches!(root.value, Value::Empty) {
            return Err(vec![empty(path)]);
        }
        Ok(Document { source, root })
    }
}

fn empty(path: &Path) -> Problem {
    Problem::new(format!("`{}` is empty", path.display()))
        .with_hint("a smallest configuration is: servers: [{ name: demo, builtin: demo }]")
}

impl Source {
    /// The place of a span, with its line, for showing.
    pub(crate) fn place(&self, span: Span) -> Place {
        Place::find(&self.path, &self.text, span.start, span.end)
    }

    /// A problem at a span.
    pub(crate) fn problem(&self, span: Span, message: impl Into<String>) -> Problem {
        Problem::new(message).at(self.place(span))
    }

    /// The text of a span; nothing if it is not one of this file.
    pub(crate) fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }
}

impl Node {
    /// The kind of value, for "expected …, found …".
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Empty => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The text of a single value.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The entries of a map.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The value under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }
}

/// A tree may hold secrets that were written into the file, so it never prints its values.
impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Node({} at {}..{})", self.kind(), self.span.start, self.span.end)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Source({})", self.path.display())
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Document({}, {:?})", self.source.path.display(), self.root)
    }
}

/// Says which keys stand twice in a map, since a reader that takes either one would surprise.
fn duplicates(source: &Source, entries: &[Entry]) -> Vec<Problem> {
    let again = |(index, entry): (usize, &Entry)| {
        let twice = entries[..index].iter().any(|earlier| earlier.key == entry.key);
        twice.then(|| source.problem(entry.key_span, format!("the key `{}` stands here a second time", entry.key)))
    };
    entries.iter().enumerate().filter_map(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in a compact form, with the source text of every span.
    fn sketch(source: &Source, node: &Node) -> String {
        match &node.value {
            Value::Empty => "~".to_owned(),
            Value::Scalar(text) => format!("{text}@{}", source.slice(node.span)),
            Value::List(items) => {
                format!("[{}]", items.iter().map(|item| sketch(source, item)).collect::<Vec<_>>().join(" "))
            }
            Value::Map(entries) => {
                let entry = |entry: &Entry| {
                    format!("{}@{}={}", entry.key, source.slice(entry.key_span), sketch(source, &entry.node))
                };
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn check(format: Format, text: &str, expected: &str) {
        let document = Document::parse(Path::new("test"), text.to_owned(), format).unwrap();
        assert_eq!(sketch(&document.source, &document.root), expected);
    }

    #[test]
    fn yaml_keeps_every_scalar_as_it_was_written_and_knows_where() {
        check(
            Format::Yaml,
            "a: 1.10\nb: [no, 'x', \"y\", 0x1F]\nc:\nd: ~\né: {f: true}\ng: Bearer ${K}\n",
            "{a@a=1.10@1.10 b@b=[no@no x@'x' y@\"y\" 0x1F@0x1F] c@c=~ d@d=~ é@é={f@f=true@true} g@g=Bearer ${K}@Bearer ${K}}",
        );
    }

    #[test]
    fn json_with_comments_and_trailing_commas_becomes_the_same_tree() {
        check(
            Format::Json,
            "{ // note\n \"a\": 1.10, \"b\": [true, null, \"x\\n\"], /* c */ \"d\": {}, }",
            "{a@\"a\"=1.10@1.10 b@\"b\"=[true@true ~ x\n@\"x\\n\"] d@\"d\"={}}",
        );
    }

    #[test]
    fn toml_becomes_the_same_tree_in_the_order_of_the_file() {
        check(
            Format::Toml,
            "z = 1.10\n[t.two]\nb = true\na = ['x', 3]\n",
            "{z@z=1.10@1.10 t@t={two@two={b@b=true@true a@a=[x@'x' 3@3]}}}",
        );
    }

    #[test]
    fn yaml_anchors_and_merges_work_and_complaints_point_at_their_use() {
        check(
            Format::Yaml,
            "base: &b {x: 1}\nuse: *b\nmore:\n  <<: *b\n  y: 2\n",
            "{base@base={x@x=1@1} use@use={x@*b=1@*b} more@more={y@y=2@2 x@*b=1@*b}}",
        );
    }

    fn problems(format: Format, text: &str) -> Vec<String> {
        let problems = Document::parse(Path::new("tsugi.yaml"), text.to_owned(), format).unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_key_that_stands_twice_is_a_problem_in_every_format() {
        for (format, text) in
            [(Format::Yaml, "a: 1\na: 2\n"), (Format::Json, "{\"a\":1,\n\"a\":2}"), (Format::Toml, "a = 1\na = 2\n")]
        {
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
        assert_eq!(problems(Format::Yaml, &text).len(), 1);
    }

    #[test]
    fn an_empty_or_half_written_file_gives_a_clean_problem() {
        for format in [Format::Yaml, Format::Json] {
            assert!(problems(format, "").join("").contains("is empty"));
            assert!(problems(format, "\n  \n").join("").contains("is empty"));
        }
        assert!(problems(Format::Yaml, "# only a comment\n").join("").contains("is empty"));
        assert!(problems(Format::Json, "{\"servers\": [{\"na").join("").contains("tsugi.yaml:1:"));
        assert!(problems(Format::Yaml, "servers:\n  - name: \"x").join("").contains("tsugi.yaml:2:"));
        assert!(problems(Format::Toml, "a = 1\n[mcp_servers.x").join("").contains("tsugi.yaml:2:"));
    }

    #[test]
    fn every_fault_of_a_toml_file_is_said() {
        assert_eq!(problems(Format::Toml, "a = \nb = 1\nc = = 3\n").len(), 2);
    }

    #[test]
    fn a_plain_value_that_begins_with_an_at_sign_is_explained() {
        let problem = problems(Format::Yaml, "a: 1\ncommand: @akiojin/mcp-filesystem\n").join("");
        assert!(problem.contains("tsugi.yaml:2:10"), "{problem}");
        assert!(problem.contains("command: \"@akiojin/mcp-filesystem\""), "{problem}");
    }

    #[test]
    fn an_unquoted_reference_inside_braces_is_explained() {
        let problem = problems(Format::Yaml, "headers: { Authorization: Bearer ${KEY} }\n").join("");
        assert!(problem.contains("hint: inside { } and [ ]"), "{problem}");
    }

    #[test]
    fn a_tab_as_indentation_is_explained() {
        let problem = problems(Format::Yaml, "servers:\n\t- name: x\n").join("");
        assert!(problem.contains("spaces"), "{problem}");
    }

    #[test]
    fn nothing_of_a_file_appears_when_it_is_debug_printed() {
        let text = "env: {K: canary-value}".to_owned();
        let document = Document::parse(Path::new("t"), text, Format::Yaml).unwrap();
        assert!(!format!("{document:?}").contains("canary"));
    }
}
