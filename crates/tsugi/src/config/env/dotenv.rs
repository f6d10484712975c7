//! Environment files: `NAME=value` lines with comments and quotes.
//!
//! The crate `dotenvy` is not used: it replaces `$NAME` in unquoted and double-quoted values (`parse_value` of its
//! `parse.rs`), which would change every secret that has a dollar sign in it, and it has no switch for that. Its errors
//! also repeat the line that cannot be read, which may be a secret. What it would save is 45 lines.

use crate::config::problem::ConfigProblem;

/// The variables of a file, in its order. A complaint does not repeat the text of a line, as it may be secret.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, ConfigProblem> {
    let meaningful = |(_, line): &(usize, &str)| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines = text.lines().enumerate().filter(meaningful);
    lines.map(|(index, line)| pair(line).ok_or_else(|| not_a_pair(index + 1))).collect()
}

fn not_a_pair(line: usize) -> ConfigProblem {
    ConfigProblem::new(format!("line {line} is not NAME=value"))
}

fn pair(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let name = name.trim();
    let is_name =
        !name.is_empty() && name.chars().all(|character| character == '_' || character.is_ascii_alphanumeric());
    is_name.then(|| (name.to_owned(), unquote(value.trim())))
}

fn unquote(value: &str) -> String {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inner.to_owned();
    }
    if let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return unescape(inner);
    }
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

fn unescape(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => result.push('\n'),
                Some('t') => result.push('\t'),
                Some(other) => result.push(other),
                None => result.push('\\'),
            },
            (other, false) => result.push(other),
        }
    }
    result
}

/// A line that reads back as this variable.
pub(super) fn line(name: &str, value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    // A shell that reads the file would replace what follows a dollar sign.
    let escaped = escaped.replace('$', "\\$");
    format!("{name}=\"{escaped}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_variables_and_comments_do_not() {
        let text = "# note\nexport A=1\nB = two words # note\nC=\"x\\ny\"\nD='a#b'\n\nE=\n";
        let pairs = parse(text).unwrap();
        let shown: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        assert_eq!(shown.join(" "), "A=\"1\" B=\"two words\" C=\"x\\ny\" D=\"a#b\" E=\"\"");
    }

    #[test]
    fn a_line_that_is_no_assignment_is_named_by_number_only() {
        assert_eq!(parse("A=1\ncanary\n").unwrap_err().message, "line 2 is not NAME=value");
    }

    #[test]
    fn a_written_line_reads_back() {
        for value in ["plain", "with \"quotes\" and \\", "two\nlines\t", "a$b${c}", ""] {
            assert_eq!(parse(&line("X", value)).unwrap(), [("X".to_owned(), value.to_owned())]);
        }
    }
}
