//! A dependency: this task waits for that one.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, ProjectId, TaskId};
use super::time::Moment;
use super::word::words;

words! {
    DependencyKind {
        /// The task cannot begin before the other is done.
        Blocks = "blocks",
        /// Worth knowing, gates nothing.
        Related = "related",
    }
}

/// One edge of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskDependency {
    /// The project both tasks belong to.
    pub project_id: ProjectId,
    /// The task that waits.
    pub task_id: TaskId,
    /// The task it waits for.
    pub depends_on_id: TaskId,
    pub kind: DependencyKind,
    /// The agent that added it; none when the system did.
    pub created_by: Option<AgentId>,
    pub created_at: Moment,
    /// Always one: an edge is added and removed, never changed.
    pub version: i64,
}
