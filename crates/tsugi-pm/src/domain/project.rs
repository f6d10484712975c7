//! A project: what tasks belong to, and the rules they live under.

use serde::{Deserialize, Serialize};

use super::fault::{Code, PmFault};
use super::id::ProjectId;
use super::policy::ProjectPolicy;
use super::time::Moment;
use super::word::words;

words! {
    /// Whether work goes on.
    ProjectStatus {
        Active = "active",
        /// Nothing new is claimed.
        Paused = "paused",
        /// Nothing changes until it is restored.
        Archived = "archived",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Project {
    pub id: ProjectId,
    /// The short upper-case name in front of task numbers; never changes.
    pub key: String,
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Whether work goes on.
    pub status: ProjectStatus,
    pub policy: ProjectPolicy,
    /// The number the next task gets. Not versioned: it is a counter, and the task's own event tells the story.
    pub next_number: i64,
    /// Grows by one with each change.
    pub version: i64,
    /// When it was created.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When it was archived.
    pub archived_at: Option<Moment>,
}

impl Project {
    /// Refuses changes to an archived project (I15).
    pub fn check_writable(&self) -> Result<(), PmFault> {
        match self.status {
            ProjectStatus::Archived => Err(self.not_active("restore it first")),
            ProjectStatus::Active | ProjectStatus::Paused => Ok(()),
        }
    }

    /// Refuses claims in a project where no work goes on.
    pub fn check_workable(&self) -> Result<(), PmFault> {
        match self.status {
            ProjectStatus::Active => Ok(()),
            ProjectStatus::Paused => Err(self.not_active("wait until it is resumed")),
            ProjectStatus::Archived => Err(self.not_active("restore it first")),
        }
    }

    fn not_active(&self, hint: &str) -> PmFault {
        PmFault::new(Code::ProjectNotActive, format!("project {} is {}", self.key, self.status))
            .hint(hint)
            .with("project_id", &self.id)
            .with("status", self.status)
    }
}
