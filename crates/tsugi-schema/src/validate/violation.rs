//! The violations found in a value, as data for programs and as text for models.

use crate::pointer::JsonPointer;
use std::fmt;

/// One thing wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaViolation {
    /// Where in the value.
    pub instance: JsonPointer,
    /// Which keyword of the schema says so.
    pub schema: JsonPointer,
    /// What is wrong; never repeats long values.
    pub message: String,
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instance.as_str().is_empty() {
            return formatter.write_str(&self.message);
        }
        write!(formatter, "{}: {}", self.instance, self.message)
    }
}

/// Everything wrong with a value, up to a limit.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, thiserror::Error)]
pub struct SchemaViolations {
    /// The faults in the order they were found; never empty.
    pub list: Vec<SchemaViolation>,
    /// There are more faults than listed.
    pub has_more: bool,
    /// The check was stopped because it cost too much: the value may or may not be right.
    pub is_undecided: bool,
}

impl fmt::Display for SchemaViolations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.list.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(formatter, "{separator}{fault}")?;
        }
        if self.has_more {
            formatter.write_str("; and more")?;
        }
        Ok(())
    }
}

impl SchemaViolations {
    pub(super) fn collect(mut faults: impl Iterator<Item = SchemaViolation>, limit: usize) -> Self {
        let list: Vec<SchemaViolation> = faults.by_ref().take(limit.max(1)).collect();
        let has_more = faults.next().is_some();
        if list.is_empty() {
            return Self::unexplained();
        }
        Self { list, has_more, is_undecided: false }
    }

    /// At least this one fault; the search for others was stopped.
    pub(super) fn cut_short(fault: Option<SchemaViolation>) -> Self {
        fault.map_or_else(Self::unexplained, |fault| Self { list: vec![fault], has_more: true, is_undecided: false })
    }

    pub(super) fn unexplained() -> Self {
        Self::whole("does not match the schema".to_owned())
    }

    pub(super) fn too_costly() -> Self {
        Self { is_undecided: true, ..Self::whole("checking this value against the schema takes too long".to_owned()) }
    }

    pub(super) fn too_deep(limit: usize) -> Self {
        Self::whole(format!("is nested more than {limit} levels deep"))
    }

    fn whole(message: String) -> Self {
        let fault = SchemaViolation { instance: JsonPointer::root(), schema: JsonPointer::root(), message };
        Self { list: vec![fault], has_more: false, is_undecided: false }
    }
}
