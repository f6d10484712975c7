//! What answers look like: records cut to size, pages with cursors, and never more than a caller can read.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::domain::claim::Claim;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ClaimId, ProjectId, SessionId, TaskId};
use crate::domain::limit;
use crate::domain::task::{AcceptanceCriterion, ExternalLink, Priority, Task, TaskReview, TaskStatus, WorkResult};
use crate::domain::time::Moment;

/// The most a list answers when the caller did not ask for a certain number.
pub const PAGE_BYTES: usize = 24 * limit::KIB;
/// Rows of a list unless the caller says otherwise.
pub const PAGE_ROWS: i64 = 20;
/// The longest list a caller may ask for.
pub const MOST_ROWS: i64 = 200;

/// A task in a list: at most 400 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    pub id: TaskId,
    /// `KEY-n`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The title, cut if it is long.
    pub title: String,
    pub status: TaskStatus,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether work on it can start.
    pub ready: bool,
    /// How many prerequisites are not done.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waits_for: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee_id: Option<AgentId>,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Moment>,
    /// When it last changed.
    pub updated_at: Moment,
    pub version: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl TaskRow {
    /// The row of a task.
    pub fn new(task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            reference: task.reference.clone(),
            title: limit::clip(&task.title, 120).0,
            status: task.status,
            priority: task.priority,
            ready: task.is_ready(),
            waits_for: task.open_blockers,
            assignee_id: task.assignee_id.clone(),
            due_at: task.due_at,
            updated_at: task.updated_at,
            version: task.version,
        }
    }
}

/// A task in full, its long texts cut to a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    pub id: TaskId,
    /// `KEY-n`.
    #[serde(rename = "ref")]
    pub reference: String,
    pub project_id: ProjectId,
    pub number: i64,
    /// What it is, in a line.
    pub title: String,
    /// What it is, in full.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What must be true in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceCriterion>,
    pub status: TaskStatus,
    /// Whether work on it can start.
    pub ready: bool,
    /// How many prerequisites are not done.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waits_for: i64,
    /// How urgent it is.
    pub priority: Priority,
    pub assignee_id: Option<AgentId>,
    /// The task it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<TaskId>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What its holder must be able to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_capabilities: Vec<String>,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Moment>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_min: Option<i64>,
    pub created_by: Option<AgentId>,
    /// The task during which it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_from: Option<TaskId>,
    /// What is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<WorkResult>,
    /// What the reviewer said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<TaskReview>,
    /// The same task elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<ExternalLink>,
    /// The last grant's fence.
    pub fence: i64,
    pub version: i64,
    /// When it was created.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When it was first claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it was done or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// The fields that were cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// How much of a description an answer carries that is not about reading it.
const BRIEF: usize = 2 * limit::KIB;

impl TaskView {
    /// A task as the answer of a change: long texts are cut short.
    pub fn brief(task: &Task) -> Self {
        Self::within(task, BRIEF)
    }

    /// A task with at most so many bytes of description, and of its other long texts.
    pub fn within(task: &Task, budget: usize) -> Self {
        let mut truncated = Vec::new();
        // Every cut is named in the answer, so that a model knows that there is more.
        let mut cut = |field: &str, text: &str, most: usize| {
            let (text, was_cut) = limit::clip(text, most);
            if was_cut {
                truncated.push(field.to_owned());
            }
            text
        };
        // The description gets the caller's budget, the rest fixed shares.
        let description = cut("description", &task.description, budget);
        let result = task.result.as_ref().map(|result| WorkResult {
            summary: cut("result.summary", &result.summary, BRIEF),
            evidence: fit(result.evidence.clone(), BRIEF).0,
        });
        let (acceptance, is_cut) = fit(task.acceptance.clone(), 2 * BRIEF);
        if is_cut {
            truncated.push("acceptance".to_owned());
        }
        Self { description, result, acceptance, truncated, ..Self::without_texts(task) }
    }

    fn without_texts(task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            reference: task.reference.clone(),
            project_id: task.project_id.clone(),
            number: task.number,
            title: task.title.clone(),
            description: String::new(),
            acceptance: Vec::new(),
            status: task.status,
            ready: task.is_ready(),
            waits_for: task.open_blockers,
            priority: task.priority,
            assignee_id: task.assignee_id.clone(),
            parent_id: task.parent_id.clone(),
            labels: task.labels.clone(),
            required_capabilities: task.required_capabilities.clone(),
            due_at: task.due_at,
            estimate_min: task.estimate_min,
            created_by: task.created_by.clone(),
            discovered_from: task.discovered_from.clone(),
            blocked_reason: task.blocked_reason.clone(),
            result: None,
            review: task.review.clone(),
            // A list that an import may have made very long.
            external: task.external.iter().take(10).cloned().collect(),
            fence: task.fence,
            version: task.version,
            created_at: task.created_at,
            updated_at: task.updated_at,
            started_at: task.started_at,
            completed_at: task.completed_at,
            truncated: Vec::new(),
        }
    }
}

/// A hold as its holder sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimView {
    pub id: ClaimId,
    pub task_id: TaskId,
    pub session_id: SessionId,
    pub agent_id: AgentId,
    /// The fence of this grant.
    pub fence: i64,
    /// When it was granted.
    pub acquired_at: Moment,
    /// When it runs out unless its holder touches the task.
    pub expires_at: Moment,
    /// When it runs out in any case.
    pub deadline_at: Moment,
}

impl ClaimView {
    /// The view of a claim.
    pub fn new(claim: &Claim) -> Self {
        Self {
            id: claim.id.clone(),
            task_id: claim.task_id.clone(),
            session_id: claim.session_id.clone(),
            agent_id: claim.agent_id.clone(),
            fence: claim.fence,
            acquired_at: claim.acquired_at,
            expires_at: claim.expires_at,
            deadline_at: claim.deadline_at,
        }
    }
}

/// Keeps as many items as fit into a number of bytes (always the first); says whether some were left out.
pub fn fit<T: Serialize>(items: Vec<T>, budget: usize) -> (Vec<T>, bool) {
    let total = items.len();
    let mut used = 0;
    let mut kept = Vec::with_capacity(total);
    for item in items {
        used += serde_json::to_string(&item).map_or(0, |text| text.len() + 1);
        // One item is always kept: a page without any would never end.
        if used > budget && !kept.is_empty() {
            break;
        }
        kept.push(item);
    }
    let is_cut = kept.len() < total;
    (kept, is_cut)
}

/// How many rows a caller gets.
pub(crate) fn rows(limit: Option<i64>) -> Result<i64, PmFault> {
    match limit {
        None => Ok(PAGE_ROWS),
        Some(limit) if (1..=MOST_ROWS).contains(&limit) => Ok(limit),
        Some(_) => Err(PmFault::invalid(format!("`limit` must be between 1 and {MOST_ROWS}"))),
    }
}

/// Cuts a list that was read with one row too many to a page: rows, then bytes unless the caller chose the number.
pub(crate) fn page<T: Serialize>(mut items: Vec<T>, limit: Option<i64>) -> Result<(Vec<T>, bool), PmFault> {
    let rows = usize::try_from(rows(limit)?).unwrap_or(usize::MAX);
    let has_more = items.len() > rows;
    // The extra row only told that there are more.
    items.truncate(rows);
    // A caller that names a limit wants that many, however large they are.
    if limit.is_some() {
        return Ok((items, has_more));
    }
    // Without a limit the bytes decide, for models.
    let (items, is_cut) = fit(items, PAGE_BYTES);
    Ok((items, has_more || is_cut))
}

/// Writes a place in a list as an opaque text.
pub(crate) fn cursor<T: Serialize>(place: &T) -> String {
    // Opaque on purpose: what is in it may change.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default())
}

/// Reads a place in a list.
pub(crate) fn place<T: DeserializeOwned>(cursor: Option<&str>) -> Result<Option<T>, PmFault> {
    let Some(text) = cursor else { return Ok(None) };
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let place = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    place.map(Some).ok_or_else(|| PmFault::invalid("this cursor is not from here").hint("begin again without a cursor"))
}

/// Refuses a change to a version that is no longer current.
pub(crate) fn check_version(task: &Task, expected: Option<i64>) -> Result<(), PmFault> {
    match expected {
        Some(expected) if expected != task.version => Err(version_conflict(task)),
        _ => Ok(()),
    }
}

/// The fault that carries the current state.
pub(crate) fn version_conflict(task: &Task) -> PmFault {
    PmFault::new(Code::VersionConflict, format!("{} is at version {}", task.reference, task.version))
        .hint("look at the current state, then try again with its version as expected_version")
        .with("current", TaskView::brief(task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_by_bytes_but_never_to_nothing() {
        let items: Vec<String> = vec!["x".repeat(100); 10];
        assert_eq!(fit(items.clone(), 250).0.len(), 2);
        assert_eq!(fit(items.clone(), 1).0.len(), 1);
        assert_eq!(fit(items, 10_000), (vec!["x".repeat(100); 10], false));
    }

    #[test]
    fn a_cursor_reads_back_and_a_foreign_one_is_refused() {
        let text = cursor(&(5_i64, "tsk_x".to_owned()));
        assert_eq!(place::<(i64, String)>(Some(&text)).unwrap(), Some((5, "tsk_x".to_owned())));
        assert!(place::<(i64, String)>(Some("!!")).is_err());
        assert!(place::<(i64, String)>(Some(&cursor(&"other"))).is_err());
    }
}
