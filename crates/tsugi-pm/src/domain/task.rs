//! A task: the work itself, and where it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::PmFault;
use super::id::{AgentId, ProjectId, TaskId};
use super::limit;
use super::time::Moment;
use super::word::words;

pub mod machine;

words! {
    /// Where a task stands.
    TaskStatus {
        /// Not yet agreed on.
        Backlog = "backlog",
        /// To be done; ready when its prerequisites are done.
        Todo = "todo",
        /// A session holds it.
        InProgress = "in_progress",
        /// A person or the outside world is in the way.
        Blocked = "blocked",
        /// Done, and waiting for a second pair of eyes.
        Review = "review",
        Done = "done",
        /// Will not be done.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether it is neither done nor cancelled.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Done | Self::Cancelled)
    }
}

words! {
    /// How urgent it is, most urgent first.
    Priority {
        Critical = "critical",
        High = "high",
        Medium = "medium",
        Low = "low",
    }
}

words! {
    /// In which order tasks are listed.
    TaskSort {
        /// Most recently changed first.
        Updated = "updated",
        Created = "created",
        Priority = "priority",
        /// Due soonest first; those without a date last.
        Due = "due",
    }
}

impl TaskSort {
    /// What a cursor remembers of the last task of a page.
    pub fn key(self, task: &Task) -> i64 {
        match self {
            Self::Updated => task.updated_at.0,
            Self::Created => task.created_at.0,
            Self::Priority => task.priority as i64,
            Self::Due => task.due_at.map_or(NO_DATE, |due| due.0),
        }
    }
}

/// Where tasks without a date stand when sorted by date.
pub const NO_DATE: i64 = 9_000_000_000_000_000;

words! {
    Verdict {
        Approve = "approve",
        Changes = "changes",
    }
}

/// One thing that must be true when the task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceCriterion {
    /// What must be true.
    pub text: String,
    pub done: bool,
}

/// Something that shows that the work was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkEvidence {
    /// What it is: `test`, `commit`, `screenshot`.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What came out of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkResult {
    pub summary: String,
    #[serde(default)]
    pub evidence: Vec<WorkEvidence>,
}

/// What the reviewer said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReview {
    pub reviewer_id: Option<AgentId>,
    pub verdict: Verdict,
    pub notes: Option<String>,
    pub at: Moment,
}

/// The same task in another system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalLink {
    pub system: String,
    pub id: String,
    #[serde(default)]
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub project_id: ProjectId,
    /// Its number in the project, never reused.
    pub number: i64,
    /// `KEY-n`, for people.
    pub reference: String,
    /// What it is, in a line.
    pub title: String,
    /// The title without case, spaces and punctuation, for finding twins. Not versioned.
    pub title_key: String,
    /// What it is, in full.
    pub description: String,
    /// What must be true in the end.
    pub acceptance: Vec<AcceptanceCriterion>,
    pub status: TaskStatus,
    /// How urgent it is.
    pub priority: Priority,
    /// Whose it is; only that agent may claim it.
    pub assignee_id: Option<AgentId>,
    /// The task it is a part of.
    pub parent_id: Option<TaskId>,
    /// Words to find it by.
    pub labels: Vec<String>,
    /// What its holder must be able to do.
    pub required_capabilities: Vec<String>,
    /// When it should be done.
    pub due_at: Option<Moment>,
    /// How long it may take.
    pub estimate_min: Option<i64>,
    /// Its author; none when it was imported without one.
    pub created_by: Option<AgentId>,
    /// The task during which it was found.
    pub discovered_from: Option<TaskId>,
    /// What is in the way, when blocked.
    pub blocked_reason: Option<String>,
    pub result: Option<WorkResult>,
    /// What the reviewer said last.
    pub review: Option<TaskReview>,
    /// Grows by one with each grant; an older grant's writes are refused.
    pub fence: i64,
    /// How many prerequisites are not done. A count kept for the index, not versioned; `verify` recounts it.
    pub open_blockers: i64,
    /// How many tasks wait for it. A count kept for the index, not versioned; `verify` recounts it.
    pub unblocks: i64,
    /// The same task elsewhere.
    pub external: Vec<ExternalLink>,
    /// Grows by one with each change.
    pub version: i64,
    /// When it was created.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When it was first claimed.
    pub started_at: Option<Moment>,
    /// When it was done or cancelled.
    pub completed_at: Option<Moment>,
}

impl Task {
    /// Checks the texts a caller gave.
    pub fn check(&self) -> Result<(), PmFault> {
        // The limits of a list of texts apply to the texts of the criteria.
        let criteria: Vec<String> = self.acceptance.iter().map(|one| one.text.clone()).collect();
        limit::chars("title", &self.title, 1, 200)?;
        limit::bytes("description", &self.description, 0, limit::LONG_TEXT)?;
        limit::list("acceptance", &criteria, 0, 30, 300)?;
        limit::list("labels", &self.labels, 0, 20, 40)?;
        limit::list("required_capabilities", &self.required_capabilities, 0, 32, 40)?;
        self.result.as_ref().map_or(Ok(()), WorkResult::check)
    }

    /// Whether its prerequisites are done and work can start.
    ///
    /// Whether *this* agent may is a matter of the assignee: a handoff to an agent makes it the assignee.
    pub fn is_ready(&self) -> bool {
        // The same condition as the partial index of ready tasks.
        self.status == TaskStatus::Todo && self.open_blockers == 0
    }
}

impl WorkResult {
    /// Checks the texts a caller gave.
    pub fn check(&self) -> Result<(), PmFault> {
        limit::bytes("result.summary", &self.summary, 1, limit::SUMMARY)?;
        // Links to evidence, not the evidence itself.
        if self.evidence.len() > 30 {
            return Err(PmFault::invalid("`result.evidence` has more than 30 entries"));
        }
        // Named after the path in the arguments, so that a caller finds the field.
        self.evidence.iter().try_for_each(|one| {
            limit::chars("evidence.kind", &one.kind, 1, 40)?;
            limit::bytes("evidence.uri", one.uri.as_deref().unwrap_or(""), 0, 2 * limit::KIB)?;
            limit::bytes("evidence.text", one.text.as_deref().unwrap_or(""), 0, 4 * limit::KIB)
        })
    }
}

/// The title without case, spaces and punctuation: two titles with one key are twins.
pub fn title_key(title: &str) -> String {
    // Works for scripts without case, too.
    title.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_only_in_case_spaces_and_punctuation() {
        assert_eq!(title_key("Fix the  Login-page!"), title_key("fix the login page"));
        assert_ne!(title_key("fix login"), title_key("fix logout"));
        assert_eq!(title_key("ログイン画面、直す"), "ログイン画面直す");
    }
}
