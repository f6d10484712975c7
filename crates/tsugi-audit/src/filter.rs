//! Which lines a reader wants to see, and how they look to a person.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::reader::{LONGEST_LINE, next_piece};
use crate::timestamp::AuditTime;

/// What a line must have. An empty filter lets every line pass.
#[derive(Debug, Clone, Default)]
pub struct LineFilter {
    pub identity: Option<String>,
    pub tenant: Option<String>,
    /// A kind, or its beginning before a dot: `call` stands for `call.begun` and `call.ended`.
    pub kind: Option<String>,
    pub server: Option<String>,
    pub name: Option<String>,
    pub outcome: Option<String>,
    pub since: Option<AuditTime>,
    pub until: Option<AuditTime>,
}

impl LineFilter {
    pub fn allows(&self, line: &Value) -> bool {
        let is = |name: &str, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| line.get(name).and_then(Value::as_str) == Some(wanted))
        };
        let time = line.get("time").and_then(Value::as_str).and_then(AuditTime::parse);
        let kind = line.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_kind = self
            .kind
            .as_deref()
            .is_none_or(|wanted| kind == wanted || kind.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.')));
        is_kind
            && is("identity", &self.identity)
            && is("tenant", &self.tenant)
            && is("server", &self.server)
            && is("name", &self.name)
            && is("outcome", &self.outcome)
            && self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
    }
}

/// Gives each line of the files that passes the filter to `show`, until it says to stop. What is not a line of ours is
/// passed over: `verify` reports it.
pub fn for_each_line(
    files: &[impl AsRef<Path>],
    filter: &LineFilter,
    mut show: impl FnMut(&[u8], &Value) -> io::Result<bool>,
) -> io::Result<()> {
    for file in files {
        let mut reader = BufReader::with_capacity(LONGEST_LINE, File::open(file.as_ref())?);
        while let Some(piece) = next_piece(&mut reader)? {
            let Ok(line @ Value::Object(_)) = serde_json::from_slice(&piece.bytes) else { continue };
            if filter.allows(&line) && !show(&piece.bytes, &line)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The last lines of a file that pass the filter, newest first. Only its last `bytes` are looked at.
pub fn last_lines(file: &Path, filter: &LineFilter, limit: usize, bytes: u64) -> io::Result<Vec<Value>> {
    let mut file = File::open(file)?;
    let start = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(LONGEST_LINE, file);
    if start > 0 {
        // The window begins somewhere within a line.
        next_piece(&mut reader)?;
    }
    let mut lines = VecDeque::new();
    while let Some(piece) = next_piece(&mut reader)? {
        let Ok(line @ Value::Object(_)) = serde_json::from_slice(&piece.bytes) else { continue };
        if filter.allows(&line) {
            lines.push_front(line);
            lines.truncate(limit);
        }
    }
    Ok(lines.into())
}

/// Text as it is safe on a terminal: control characters and those that change the direction of text are shown by number.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_hidden = letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
            || matches!(letter, '\u{e0000}'..='\u{e007f}');
        match is_hidden {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_compares_whole_values_and_kinds_by_their_first_word() {
        let line = json!({"kind": "call.begun", "identity": "key:ann", "time": "2026-01-02T00:00:00.000000Z"});
        let with = |change: fn(&mut LineFilter)| {
            let mut filter = LineFilter::default();
            change(&mut filter);
            filter.allows(&line)
        };
        assert!(with(|_| {}));
        assert!(with(|filter| filter.kind = Some("call".into())));
        assert!(with(|filter| filter.kind = Some("call.begun".into())));
        assert!(!with(|filter| filter.kind = Some("call.b".into())));
        assert!(with(|filter| filter.identity = Some("key:ann".into())));
        assert!(!with(|filter| filter.identity = Some("key:an".into())));
        assert!(!with(|filter| filter.server = Some("files".into())));
        assert!(with(|filter| filter.since = AuditTime::parse("2026-01-02")));
        assert!(!with(|filter| filter.since = AuditTime::parse("2026-01-03")));
        assert!(!with(|filter| filter.until = AuditTime::parse("2026-01-02")));
    }

    #[test]
    fn the_last_lines_come_newest_first_and_from_the_end_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text: String = (1..=9).map(|seq| json!({"kind": "denied", "seq": seq}).to_string() + "\n").collect();
        std::fs::write(&path, text).unwrap();
        let seqs = |limit, bytes| {
            let lines = last_lines(&path, &LineFilter::default(), limit, bytes).unwrap();
            lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(seqs(3, 1 << 20), [9, 8, 7]);
        assert_eq!(seqs(100, 60), [9, 8]);
    }

    #[test]
    fn text_that_could_fool_a_terminal_is_shown_by_number() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}\u{9b}é"), r"a\u{1b}[2J\u{202e}\u{9b}é");
    }
}
