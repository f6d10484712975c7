//! The loss report: which parts of a tool's schema a model provider will not see.

use crate::pointer::JsonPointer;
use std::fmt;

/// What became of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossFate {
    /// It moved into the description, in words.
    Folded,
    /// It was replaced by something a little different.
    Changed,
    Dropped,
}

/// One thing that was not carried over as it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaLoss {
    /// Where in the schema, with references followed.
    pub pointer: JsonPointer,
    pub keyword: String,
    /// What became of it.
    pub fate: LossFate,
    pub note: String,
}

impl SchemaLoss {
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
