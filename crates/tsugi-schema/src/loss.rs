//! The loss report: what a model provider will not be told about a tool, so that nobody finds out by surprise.

use crate::pointer::Pointer;
use std::fmt;

/// What became of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is said in words, in the description.
    Folded,
    /// It was replaced by something a little different.
    Changed,
    /// It is gone.
    Dropped,
}

/// One thing that was not carried over as it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Loss {
    /// Where in the schema, with references followed.
    pub pointer: Pointer,
    /// The keyword.
    pub keyword: String,
    /// What became of it.
    pub fate: Fate,
    /// In words.
    pub note: String,
}

impl Loss {
    /// Notes one loss.
    pub fn new(pointer: &Pointer, keyword: impl Into<String>, fate: Fate, note: impl Into<String>) -> Self {
        Self { pointer: pointer.clone(), keyword: keyword.into(), fate, note: note.into() }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.pointer.as_str() {
            "" => "/",
            place => place,
        };
        let fate = match self.fate {
            Fate::Folded => "folded into the description",
            Fate::Changed => "changed",
            Fate::Dropped => "dropped",
        };
        write!(formatter, "{place}: {} {fate}: {}", self.keyword, self.note)
    }
}
