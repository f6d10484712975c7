//! An agent: a person or a program that works on projects.

use serde::{Deserialize, Serialize};

use super::fault::{Code, PmFault};
use super::id::AgentId;
use super::limit;
use super::time::Moment;
use super::word::words;

words! {
    AgentType {
        Human = "human",
        Ai = "ai",
    }
}

words! {
    /// Whether the agent may act.
    AgentStatus {
        Active = "active",
        /// It may not act until it is activated.
        Inactive = "inactive",
        /// It is gone for good, but its history stays.
        Archived = "archived",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    /// Its name, unique in the database.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: AgentType,
    /// What it is: "frontend developer".
    pub role_title: String,
    /// What it can do, matched against what tasks require.
    pub capabilities: Vec<String>,
    /// How it should work, in words.
    pub instructions: String,
    /// Whether it may act.
    pub status: AgentStatus,
    /// Grows by one with each change.
    pub version: i64,
    /// When it was registered.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
}

impl Agent {
    /// Checks the texts a caller gave.
    pub fn check(&self) -> Result<(), PmFault> {
        limit::chars("name", &self.name, 1, 80)?;
        limit::chars("role_title", &self.role_title, 0, 120)?;
        limit::list("capabilities", &self.capabilities, 0, 32, 40)?;
        limit::bytes("instructions", &self.instructions, 0, limit::SUMMARY)
    }

    /// Refuses an agent that may not act.
    pub fn check_active(&self) -> Result<(), PmFault> {
        match self.status {
            AgentStatus::Active => Ok(()),
            AgentStatus::Inactive | AgentStatus::Archived => {
                Err(PmFault::new(Code::AgentInactive, format!("agent {} is {}", self.id, self.status))
                    .hint("an owner can activate it: tsugi pm agent"))
            }
        }
    }

    /// The capabilities that are required and that this agent lacks.
    pub fn lacks<'a>(&self, required: &'a [String]) -> Vec<&'a str> {
        required.iter().filter(|one| !self.capabilities.contains(one)).map(String::as_str).collect()
    }
}
