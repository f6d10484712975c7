//! Context: what agents learn and decide, kept beside the task or the project, never rewritten.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, ContextId, ProjectId, SessionId, TaskId};
use super::time::Moment;
use super::word::words;

words! {
    /// What kind of knowledge it is.
    ContextType {
        Note = "note",
        /// Something that was decided.
        Decision = "decision",
        /// Something taken for true.
        Assumption = "assumption",
        /// Something in the way.
        Blocker = "blocker",
        Reference = "reference",
        /// Something that was made.
        Artifact = "artifact",
    }
}

words! {
    /// Whether it still holds.
    ContextState {
        Active = "active",
        /// A newer one replaces it.
        Superseded = "superseded",
        /// It was taken back.
        Retracted = "retracted",
    }
}

/// A piece of context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextEntry {
    pub id: ContextId,
    pub project_id: ProjectId,
    /// The task, unless it belongs to the whole project.
    pub task_id: Option<TaskId>,
    pub agent_id: AgentId,
    pub session_id: Option<SessionId>,
    /// What kind of knowledge it is.
    #[serde(rename = "type")]
    pub kind: ContextType,
    pub content: String,
    /// Where more is to be found.
    pub uri: Option<String>,
    /// The one it replaces.
    pub supersedes: Option<ContextId>,
    /// Whether it still holds.
    pub state: ContextState,
    /// When it was written.
    pub created_at: Moment,
    /// Grows by one with each change.
    pub version: i64,
}
