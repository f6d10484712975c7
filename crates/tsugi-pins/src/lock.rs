//! `tsugi.lock`: text, sorted, one line per thing, made to be reviewed where it is committed.
//!
//! ```text
//! tsugi-lock 1
//! "files" list "tools"
//! "files" tool "read" sha256:… {"description":"Reads a file.","inputSchema":{…},"name":"read"}
//! ```
//!
//! The definition stands beside its digest, so that a review shows what was agreed to and not a number, and so that the
//! old definition can be listed while a server offers another one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;

use crate::canonical::{DigestFormatError, PinDigest, canonical};
use crate::definition::{LARGEST_DEFINITION, PinKey, PinKind, PinnedDefinition};
use crate::visible::{escape_hidden, hidden_characters};

/// The first line: which format this is.
const VERSION: &str = "tsugi-lock 1";

const HEADER: &str = "\
# What the servers offered when it was agreed to. `tsugi diff` shows what differs now, `tsugi lock` writes this file.
# Commit it, and review changes to it as you review code.
";

/// A larger file is not read.
pub const LARGEST_FILE: usize = 64 << 20;

/// What is pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockFile {
    lines: BTreeMap<PinKey, Option<PinnedDefinition>>,
}

/// Why a lock file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LockParseError {
    /// Counted from 1.
    pub line: usize,
    pub problem: LockProblem,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockProblem {
    #[error("expected `{VERSION}` before anything else")]
    Version,
    #[error("a merge left a conflict marker here")]
    Conflict,
    #[error("the line ends early: expected {0}")]
    Incomplete(&'static str),
    #[error("{0} must be a string in JSON's quotes")]
    Quotes(&'static str),
    #[error("`{0}` is not a kind: expected command, info, instructions, list, prompt, resource, template or tool")]
    Kind(String),
    #[error("{0}")]
    Digest(#[from] DigestFormatError),
    #[error("the definition is not JSON")]
    Definition,
    #[error("the digest is not that of the definition, which has {0}")]
    Mismatch(PinDigest),
    #[error("a line of the kind `list` has neither digest nor definition")]
    ListWithDefinition,
    #[error("there is something after the definition")]
    Trailing,
    #[error("{key} stands in line {first} already")]
    Duplicate { key: String, first: usize },
    #[error("the file is larger than 64 MiB")]
    TooLarge,
}

impl LockFile {
    /// Reads a lock file. Lines may stand in any order, as a merge leaves them; nothing else is forgiven.
    pub fn parse(text: &str) -> Result<Self, LockParseError> {
        if text.len() > LARGEST_FILE {
            return Err(LockParseError { line: 1, problem: LockProblem::TooLarge });
        }
        let mut file = Self::default();
        let mut places: BTreeMap<PinKey, usize> = BTreeMap::new();
        let mut has_version = false;
        for (index, line) in text.lines().enumerate() {
            let at = |problem| LockParseError { line: index + 1, problem };
            match line {
                "" => continue,
                comment if comment.starts_with('#') => continue,
                marker if is_conflict_marker(marker) => return Err(at(LockProblem::Conflict)),
                VERSION if !has_version => has_version = true,
                _ if !has_version => return Err(at(LockProblem::Version)),
                line => {
                    let (key, definition) = parse_line(line).map_err(at)?;
                    match places.entry(key.clone()) {
                        Entry::Occupied(place) => {
                            let (key, first) = (key.to_string(), *place.get());
                            return Err(at(LockProblem::Duplicate { key, first }));
                        }
                        Entry::Vacant(place) => place.insert(index + 1),
                    };
                    file.lines.insert(key, definition);
                }
            }
        }
        match has_version {
            true => Ok(file),
            false => Err(LockParseError { line: text.lines().count().max(1), problem: LockProblem::Version }),
        }
    }

    /// What is pinned of a thing.
    pub fn get(&self, key: &PinKey) -> Option<&PinnedDefinition> {
        self.lines.get(key)?.as_ref()
    }

    /// Whether a list was pinned as a whole.
    pub fn has_list(&self, server: &str, list: &str) -> bool {
        self.lines.contains_key(&PinKey::list(server, list))
    }

    /// Everything that is pinned of a server, without the lists.
    pub fn of_server<'a>(&'a self, server: &'a str) -> impl Iterator<Item = (&'a PinKey, &'a PinnedDefinition)> {
        self.iter().filter(move |(key, _)| key.server == server)
    }

    /// Everything that is pinned, without the lists.
    pub fn iter(&self) -> impl Iterator<Item = (&PinKey, &PinnedDefinition)> {
        self.lines.iter().filter_map(|(key, definition)| Some((key, definition.as_ref()?)))
    }

    /// The servers that are pinned.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        self.lines.keys().map(|key| key.server.as_str()).filter(move |server| last.replace(*server) != Some(*server))
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub fn insert(&mut self, key: PinKey, definition: PinnedDefinition) {
        self.lines.insert(key, Some(definition));
    }

    /// Says that a list was pinned as a whole.
    pub fn insert_list(&mut self, server: &str, list: &str) {
        self.lines.insert(PinKey::list(server, list), None);
    }

    pub fn remove(&mut self, key: &PinKey) -> bool {
        self.lines.remove(key).is_some()
    }

    /// Takes over the lists of `other` that are not pinned here, each as a whole.
    pub(crate) fn adopt_lists(&mut self, other: &LockFile) {
        let lists = other.lines.iter().filter(|(_, definition)| definition.is_none()).map(|(key, _)| key);
        for list in lists.filter(|list| !self.lines.contains_key(list)).cloned().collect::<Vec<_>>() {
            let pins = other.of_server(&list.server).filter(|(key, _)| key.kind.list() == list.name);
            self.lines.extend(pins.map(|(key, definition)| (key.clone(), Some(definition.clone()))));
            self.lines.insert(list, None);
        }
    }

    /// The list that a thing belongs to, with all that is pinned of it; empty where the list is not pinned.
    pub(crate) fn list_of(&self, key: &PinKey) -> LockFile {
        let list = key.kind.list();
        let mut part = LockFile::default();
        if self.has_list(&key.server, list) {
            part.insert_list(&key.server, list);
            let pins = self.of_server(&key.server).filter(|(pin, _)| pin.kind.list() == list);
            part.lines.extend(pins.map(|(pin, definition)| (pin.clone(), Some(definition.clone()))));
        }
        part
    }

    /// Forgets a server.
    pub fn remove_server(&mut self, server: &str) {
        self.lines.retain(|key, _| key.server != server);
    }
}

/// The file, sorted.
impl std::fmt::Display for LockFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HEADER)?;
        writeln!(f, "{VERSION}")?;
        for (key, definition) in &self.lines {
            write!(f, "{} {} {}", quoted(&key.server), key.kind, quoted(&key.name))?;
            if let Some(definition) = definition {
                write!(f, " {}", definition.digest)?;
                if let Some(text) = definition.text.as_deref().and_then(|text| line_text(text, definition.digest)) {
                    write!(f, " {text}")?;
                }
            }
            f.write_char('\n')?;
        }
        Ok(())
    }
}

fn quoted(text: &str) -> String {
    escape_hidden(&serde_json::to_string(text).unwrap_or_default())
}

/// A definition as it stands in the file. One that has no canonical form counts as it is written, so it stands there as
/// it is or not at all.
fn line_text(text: &str, digest: PinDigest) -> Option<String> {
    let escaped = escape_hidden(text);
    let reads_the_same = escaped == text || PinDigest::of_json(escaped.as_bytes()) == digest;
    reads_the_same.then_some(escaped)
}

fn is_conflict_marker(line: &str) -> bool {
    ["<<<<<<<", "=======", ">>>>>>>", "|||||||"].iter().any(|marker| line.starts_with(marker))
}

fn parse_line(line: &str) -> Result<(PinKey, Option<PinnedDefinition>), LockProblem> {
    let (server, rest) = parse_quoted(line, "the server")?;
    let (word, rest) = next_word(rest, "a kind")?;
    let kind = PinKind::from_word(word).ok_or_else(|| LockProblem::Kind(printable(word)))?;
    let (name, rest) = parse_quoted(rest.ok_or(LockProblem::Incomplete("a name"))?, "the name")?;
    let key = PinKey { server, kind, name };
    if kind == PinKind::List {
        return if rest.is_none() { Ok((key, None)) } else { Err(LockProblem::ListWithDefinition) };
    }
    let (digest, rest) = next_word(rest, "a digest")?;
    let digest: PinDigest = digest.parse()?;
    let Some(written) = rest else { return Ok((key, Some(PinnedDefinition { digest, text: None }))) };
    let text = parse_definition(written)?;
    let actual = PinDigest::of_json(text.as_bytes());
    // A hand that changed one of the two, or a merge that mixed two lines, is found here.
    if actual != digest {
        return Err(LockProblem::Mismatch(actual));
    }
    Ok((key, Some(PinnedDefinition { digest, text: Some(text) })))
}

/// The canonical form of a definition, or the definition as it stands when it has none.
fn parse_definition(written: &str) -> Result<String, LockProblem> {
    let mut values = serde_json::Deserializer::from_str(written).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        Some(Ok(_)) if values.byte_offset() < written.len() => Err(LockProblem::Trailing),
        Some(Ok(_)) if written.len() <= 2 * LARGEST_DEFINITION * 6 => {
            Ok(canonical(written.as_bytes()).unwrap_or_else(|| written.to_owned()))
        }
        _ => Err(LockProblem::Definition),
    }
}

/// A string in quotes, and what follows after one space.
fn parse_quoted<'a>(text: &'a str, what: &'static str) -> Result<(String, Option<&'a str>), LockProblem> {
    if !text.starts_with('"') {
        return Err(LockProblem::Quotes(what));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let Some(Ok(value)) = values.next() else { return Err(LockProblem::Quotes(what)) };
    let rest = &text[values.byte_offset()..];
    match rest.strip_prefix(' ') {
        Some(rest) => Ok((value, Some(rest))),
        None if rest.is_empty() => Ok((value, None)),
        None => Err(LockProblem::Quotes(what)),
    }
}

fn next_word<'a>(text: Option<&'a str>, what: &'static str) -> Result<(&'a str, Option<&'a str>), LockProblem> {
    let text = text.filter(|text| !text.is_empty()).ok_or(LockProblem::Incomplete(what))?;
    Ok(match text.split_once(' ') {
        Some((word, rest)) => (word, Some(rest)),
        None => (text, None),
    })
}

/// A word of the file for an error message.
fn printable(word: &str) -> String {
    let cut: String = word.chars().take(40).collect();
    if hidden_characters(&cut).next().is_some() { crate::visible::make_visible(&cut) } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> LockFile {
        let mut file = LockFile::default();
        file.insert_list("files", "tools");
        let tool = |json: &str| PinnedDefinition::of(PinKind::Tool, json);
        file.insert(
            PinKey::new("files", PinKind::Tool, "read"),
            tool(r#"{"name":"read","description":"Reads ü 読む"}"#),
        );
        file.insert(
            PinKey::new("files", PinKind::Tool, "a \"b\"\n"),
            tool("{\"description\":\"x\u{202e}y\u{e0061}\"}"),
        );
        file.insert(
            PinKey::new("a", PinKind::Instructions, ""),
            PinnedDefinition::of(PinKind::Instructions, "\"Be kind.\""),
        );
        file
    }

    #[test]
    fn a_file_is_read_as_it_was_written_sorted_and_with_hidden_characters_escaped() {
        let text = sample().to_string();
        assert_eq!(LockFile::parse(&text), Ok(sample()));
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert!(lines.is_sorted(), "{text}");
        assert!(text.contains(r#""x\u202ey\udb40\udc61""#) && text.contains("読む"), "{text}");
        assert_eq!(hidden_characters(&text).next(), None);
        let shuffled: String =
            text.lines().take(3).chain(lines.iter().rev().copied()).map(|line| format!("{line}\n")).collect();
        assert_eq!(LockFile::parse(&shuffled), Ok(sample()));
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let digest = PinDigest::of_json(b"{}");
        let other = PinDigest::of_json(b"[]");
        for (line, problem) in [
            ("<<<<<<< HEAD".to_owned(), LockProblem::Conflict),
            ("files tool".to_owned(), LockProblem::Quotes("the server")),
            (r#""files""#.to_owned(), LockProblem::Incomplete("a kind")),
            (r#""files" toll "a""#.to_owned(), LockProblem::Kind("toll".into())),
            (r#""files" tool"#.to_owned(), LockProblem::Incomplete("a name")),
            (r#""files" tool read"#.to_owned(), LockProblem::Quotes("the name")),
            (r#""files" tool "read""#.to_owned(), LockProblem::Incomplete("a digest")),
            (r#""files" tool "read" sha256:0"#.to_owned(), LockProblem::Digest(DigestFormatError)),
            (format!(r#""files" tool "read" {digest} {{"#), LockProblem::Definition),
            (format!(r#""files" tool "read" {digest} {{}} x"#), LockProblem::Trailing),
            (format!(r#""files" tool "read" {other} {{}}"#), LockProblem::Mismatch(digest)),
            (format!(r#""files" list "tools" {digest}"#), LockProblem::ListWithDefinition),
        ] {
            let text = format!("# comment\ntsugi-lock 1\n\n{line}\n");
            assert_eq!(LockFile::parse(&text), Err(LockParseError { line: 4, problem }), "{line}");
        }
        let twice = format!("tsugi-lock 1\n\"a\" tool \"b\" {digest}\n\"a\" tool \"\\u0062\" {digest}\n");
        let problem = LockProblem::Duplicate { key: "a/b".into(), first: 2 };
        assert_eq!(LockFile::parse(&twice), Err(LockParseError { line: 3, problem }));
        for empty in ["", "# nothing\n", "\"a\" list \"tools\"\n", "tsugi-lock 2\n"] {
            assert_eq!(LockFile::parse(empty).unwrap_err().problem, LockProblem::Version, "{empty:?}");
        }
    }

    #[test]
    fn one_changed_letter_of_a_definition_is_found() {
        let text = sample().to_string().replace("Reads", "reads");
        assert!(matches!(LockFile::parse(&text).unwrap_err().problem, LockProblem::Mismatch(_)));
    }

    proptest! {
        #[test]
        fn any_names_and_definitions_survive_the_file(server: String, name: String, text: String) {
            let mut file = LockFile::default();
            let json = serde_json::json!({"name": name, "description": text}).to_string();
            file.insert(PinKey::new(server.clone(), PinKind::Tool, name.clone()), PinnedDefinition::of(PinKind::Tool, &json));
            file.insert_list(&server, "tools");
            prop_assert_eq!(LockFile::parse(&file.to_string()), Ok(file));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text: String) {
            let _ = LockFile::parse(&text);
            let _ = LockFile::parse(&format!("tsugi-lock 1\n{text}"));
        }
    }
}
