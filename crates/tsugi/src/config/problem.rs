//! What is wrong with a configuration, where, and what to try: every problem of a file, not only the first.

use std::fmt;
use std::path::{Path, PathBuf};

use super::secret::{self, Secret};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigProblem {
    /// What is wrong, lower case, without a final stop.
    pub(crate) message: String,
    /// Where, if it is in a file.
    pub(crate) place: Option<SourcePosition>,
    /// What to try.
    pub(crate) hint: Option<String>,
    pub(crate) reason: ProblemReason,
}

/// What kind of problem it is, for code that treats some of them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ProblemReason {
    #[default]
    Other,
    /// A reference to a variable that is not set. Setting it is all it takes.
    UnsetVariable,
}

/// A place in a file, with the line that stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    pub(crate) path: PathBuf,
    /// Counted from one.
    pub(crate) line: usize,
    /// In characters, counted from one.
    pub(crate) column: usize,
    /// The line with secrets and control characters masked, cropped around the place.
    excerpt: String,
    /// Characters of the excerpt before the place.
    before: usize,
    /// Characters to underline, at least one.
    width: usize,
}

/// Everything that keeps a configuration from being used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct ConfigProblems(pub(crate) Vec<ConfigProblem>);

/// Excerpts show this many characters before the place, and twice as many in all.
const AROUND: usize = 60;

impl ConfigProblem {
    /// A problem that is not in a file, unless [`ConfigProblem::at`] says where.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ConfigProblem {
            // A message may quote the file, which must not control the terminal.
            message: secret::printable(&message.into()),
            place: None,
            hint: None,
            reason: ProblemReason::Other,
        }
    }

    /// At this place.
    pub(crate) fn at(mut self, place: SourcePosition) -> Self {
        self.place = Some(place);
        self
    }

    /// With advice.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(secret::printable(&hint.into()));
        self
    }

    /// Whether setting a variable is all it takes.
    pub(crate) fn is_unset_variable(&self) -> bool {
        self.reason == ProblemReason::UnsetVariable
    }

    /// Masks these values wherever they appear.
    pub(crate) fn redact(&mut self, secrets: &[Secret]) {
        for secret in secrets {
            self.message = secret.mask(&self.message);
            self.hint = self.hint.take().map(|hint| secret.mask(&hint));
            if let Some(place) = &mut self.place {
                // The carets below the excerpt must still point at the same column.
                place.excerpt = secret.mask_keeping_width(&place.excerpt);
            }
        }
    }
}

impl SourcePosition {
    /// The place of `start..end` in the text of a file.
    pub(crate) fn find(path: &Path, text: &str, start: usize, end: usize) -> Self {
        // An offset inside a character would make slicing panic.
        let start = floor_boundary(text, start);
        let line_start = text[..start].rfind('\n').map_or(0, |index| index + 1);
        let line_text = text[line_start..].lines().next().unwrap_or_default();
        let column = text[line_start..start].chars().count();
        // A value of several lines is underlined on its first line only.
        let end = floor_boundary(text, end.min(line_start + line_text.len())).max(start);
        let width = text[start..end].trim_end().chars().count().max(1);
        let skipped = column.saturating_sub(AROUND);
        // Masked before cropping, because half a token would not be recognised.
        let shown: String = secret::conceal(line_text).chars().skip(skipped).take(2 * AROUND).collect();
        SourcePosition {
            path: path.to_owned(),
            line: text[..line_start].matches('\n').count() + 1,
            column: column + 1,
            width: width.min(2 * AROUND - (column - skipped)).max(1),
            excerpt: shown.trim_end().to_owned(),
            before: column - skipped,
        }
    }

    /// The line below the excerpt: carets under the place, aligned also after tabs and wide characters.
    fn underline(&self) -> String {
        let pad: String = self.excerpt.chars().take(self.before).map(blank).collect();
        // The place may lie among the blanks that were trimmed from the end.
        let missing = self.before.saturating_sub(self.excerpt.chars().count());
        format!("{pad}{}{}", " ".repeat(missing), "^".repeat(self.width))
    }
}

/// A blank as wide as this character on a terminal.
fn blank(character: char) -> char {
    match character {
        '\t' => '\t',
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' => '\u{3000}',
        '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff60}' => '\u{3000}',
        '\u{1f300}'..='\u{1faff}' => '\u{3000}',
        _ => ' ',
    }
}

fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// The problem as people read it; the hint stands on its own line.
impl fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        if let Some(place) = &self.place {
            let gutter = " ".repeat(place.line.to_string().len());
            write!(formatter, "\n{gutter}--> {place}")?;
            write!(formatter, "\n{gutter} |")?;
            write!(formatter, "\n{} | {}", place.line, place.excerpt)?;
            write!(formatter, "\n{gutter} | {}", place.underline())?;
        }
        match &self.hint {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        Ok(())
    }
}

impl From<ConfigProblem> for ConfigProblems {
    fn from(problem: ConfigProblem) -> Self {
        ConfigProblems(vec![problem])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, needle: &str) -> ConfigProblem {
        let start = text.find(needle).unwrap();
        ConfigProblem::new("no").at(SourcePosition::find(Path::new("f.yaml"), text, start, start + needle.len()))
    }

    #[test]
    fn a_problem_shows_file_line_column_and_a_caret_under_the_words() {
        let shown = at("a: 1\n  timout: 3\n", "timout").with_hint("did you mean `timeout`?").to_string();
        let expected = "no\n --> f.yaml:2:3\n  |\n2 |   timout: 3\n  |   ^^^^^^\nhint: did you mean `timeout`?";
        assert_eq!(shown, expected);
    }

    #[test]
    fn carets_stay_aligned_after_wide_characters() {
        assert!(at("名前: x", "x").to_string().ends_with("| \u{3000}\u{3000}  ^"));
    }

    #[test]
    fn long_lines_are_cropped_around_the_place() {
        let text = format!("{}needle{}", "a".repeat(500), "b".repeat(500));
        let shown = at(&text, "needle").to_string();
        assert!(shown.lines().all(|line| line.chars().count() < 140) && shown.contains("needle"));
    }

    #[test]
    fn a_place_beyond_the_end_of_the_file_is_the_end() {
        let place = SourcePosition::find(Path::new("f"), "a: é", 99, 120);
        assert_eq!((place.line, place.column), (1, 5));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let problem =
            ConfigProblem::new("bad \u{1b}[31m").at(SourcePosition::find(Path::new("f"), "x: \u{1b}[2J", 0, 1));
        assert!(!problem.to_string().contains('\u{1b}'));
    }
}
