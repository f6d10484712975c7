//! What is wrong with a policy file, where, and what to try.

use std::fmt;
use std::path::PathBuf;

/// One thing that keeps a policy file from being used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyProblem {
    pub file: PathBuf,
    /// Counted from one.
    pub line: usize,
    /// The bytes of the file that are meant.
    pub start: usize,
    pub end: usize,
    /// Lower case, without a final stop.
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The nearest of the known words, as a hint; `None` when none is near.
pub(crate) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = word.to_lowercase();
    let near = known.into_iter().map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known));
    let (distance, known) = near.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may be wrong: more would be another word.
    (distance <= word.chars().count().max(3) / 3).then(|| format!("did you mean `{known}`?"))
}
