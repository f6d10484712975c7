//! Who belongs to which project, and as what.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, ProjectId};
use super::word::words;

words! {
    /// What a member may do; the table is in [`super::permission`].
    Role {
        Owner = "owner",
        /// Everything except the project's rules, its end, and its people.
        Manager = "manager",
        Worker = "worker",
        Viewer = "viewer",
    }
}

/// One agent's place in one project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Membership {
    pub project_id: ProjectId,
    pub agent_id: AgentId,
    pub role: Role,
    /// Grows by one with each change.
    pub version: i64,
}
