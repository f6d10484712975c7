//! Who belongs to which project, and as what.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, ProjectId};
use super::word::words;

words! {
    /// What a member may do; the table is in [`super::permission`].
    Role {
        /// Everything.
        Owner = "owner",
        /// Everything except the project's rules, its end, and its people.
        Manager = "manager",
        /// The work.
        Worker = "worker",
        /// Looking on.
        Viewer = "viewer",
    }
}

/// One agent's place in one project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Membership {
    /// The project.
    pub project_id: ProjectId,
    /// The agent.
    pub agent_id: AgentId,
    /// As what.
    pub role: Role,
    /// Grows by one with each change.
    pub version: i64,
}
