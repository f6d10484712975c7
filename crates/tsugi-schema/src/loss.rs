//! The loss report: what a model provider will not be told about a tool, so that nobody finds out by surprise.

use crate::pointer::JsonPointer;
use std::fmt;

/// What became of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossFate {
    /// It is said in words, in the description.
    Folded,
    /// It was replaced by something a little different.
    Changed,
    /// It is gone.
    Dropped,
}

/// One thing that was not carried over as it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaLoss {
    /// Where in the schema, with references followed.
    pub pointer: JsonPointer,
    /// The keyword.
    pub keyword: String,
    /// What became of it.
    pub fate: LossFate,
    /// In words.
    pub note: String,
}

impl SchemaLoss {
    /// Notes one loss.
    pub fn new(pointer: &JsonPointer, keyword: impl Into<String>, fate: LossFate, note: impl Into<String>) -> Self {
        Self { pointer: pointer.clone(), keyword: keyword.into(), fate, note: note.into() }
    }
}

impl fmt::Display for SchemaLoss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.pointer.as_str() {
            "" => "/",
            place => place,
        };
        let fate = match self.fate {
            LossFate::Folded => "folded into the description",
            LossFate::Changed => "changed",
            LossFate::Dropped => "dropped",
        };
        write!(formatter, "{place}: {} {fate}: {}", self.keyword, self.note)
    }
}
