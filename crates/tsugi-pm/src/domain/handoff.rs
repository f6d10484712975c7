//! A handoff: what one agent tells the next, taken by exactly one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Code, PmFault};
use super::id::{AgentId, HandoffId, ProjectId, SessionId, TaskId};
use super::limit;
use super::time::Moment;
use super::word::words;
use crate::domain::advice::FaultAdvice;

words! {
    HandoffKind {
        Manual = "manual",
        /// The system, when a lease ran out.
        Auto = "auto",
    }
}

words! {
    HandoffStatus {
        /// It waits to be accepted.
        Pending = "pending",
        Accepted = "accepted",
        /// The one it was meant for said no.
        Rejected = "rejected",
        /// It was taken back.
        Withdrawn = "withdrawn",
        /// It was not accepted in time.
        Expired = "expired",
        /// The one who took it finished the work.
        Completed = "completed",
    }
}

/// The state of a work tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GitState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether there are changes that are not committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    /// The files that were touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl GitState {
    /// Checks the texts a caller gave.
    pub fn check(&self) -> Result<(), PmFault> {
        limit::chars("git.branch", self.branch.as_deref().unwrap_or(""), 0, 300)?;
        limit::chars("git.commit", self.commit.as_deref().unwrap_or(""), 0, 80)?;
        limit::list("git.files", &self.files, 0, 100, 300)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    pub id: HandoffId,
    pub task_id: TaskId,
    pub project_id: ProjectId,
    pub from_agent_id: AgentId,
    /// From which session, when there was one.
    pub from_session_id: Option<SessionId>,
    /// The receiver; any agent when unset.
    pub to_agent_id: Option<AgentId>,
    /// Written by the agent or by the system.
    pub kind: HandoffKind,
    /// What was done and where things stand.
    pub summary: String,
    /// What to do next.
    pub next_steps: Vec<String>,
    /// What to beware of.
    pub warnings: Vec<String>,
    pub done: Vec<String>,
    /// What is not certain.
    pub uncertain: Vec<String>,
    pub git: Option<GitState>,
    pub status: HandoffStatus,
    pub accepted_by: Option<AgentId>,
    pub accepted_session_id: Option<SessionId>,
    /// When; the simplest set of tools calls it `acknowledged_at`.
    pub accepted_at: Option<Moment>,
    /// Why it was rejected or withdrawn.
    pub reason: Option<String>,
    /// When it stops waiting.
    pub expires_at: Moment,
    /// When it was written.
    pub created_at: Moment,
    /// Grows by one with each change.
    pub version: i64,
}

/// What can happen to a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoffAnswer {
    /// An agent accepts it.
    Accept,
    /// The one it was meant for says no.
    Reject,
    /// It is taken back.
    Withdraw,
    /// It was not accepted in time.
    Expire,
    /// The one who took it finished the work.
    Complete,
}

/// The status after an answer, or who was faster.
pub fn next(status: HandoffStatus, answer: HandoffAnswer) -> Result<HandoffStatus, PmFault> {
    // Everything that is not listed is an answer to a handoff that is over.
    use HandoffStatus as Status;
    match (status, answer) {
        (Status::Pending, HandoffAnswer::Accept) => Ok(Status::Accepted),
        (Status::Pending, HandoffAnswer::Reject) => Ok(Status::Rejected),
        (Status::Pending, HandoffAnswer::Withdraw) => Ok(Status::Withdrawn),
        (Status::Pending, HandoffAnswer::Expire) => Ok(Status::Expired),
        (Status::Accepted, HandoffAnswer::Complete) => Ok(Status::Completed),
        _ => {
            Err(PmFault::new(Code::HandoffNotPending, format!("the handoff is already {status}"))
                .with("status", status))
        }
    }
}

impl Handoff {
    /// Whether it has waited too long, recorded or not.
    pub fn is_due(&self, now: Moment) -> bool {
        self.status == HandoffStatus::Pending && self.expires_at <= now
    }

    /// Whether this agent may take it.
    pub fn is_for(&self, agent_id: &AgentId) -> bool {
        // Without a target it is for every agent.
        self.to_agent_id.as_ref().is_none_or(|target| target == agent_id)
    }

    /// The handoff after an answer; a late answer learns who took it.
    pub fn answered(&self, answer: HandoffAnswer) -> Result<Self, PmFault> {
        match next(self.status, answer) {
            Ok(status) => Ok(Self { status, ..self.clone() }),
            // Who was faster is part of the refusal.
            Err(fault) => Err(fault
                .advise(FaultAdvice::LookForOtherWork)
                .with("handoff_id", &self.id)
                .with("accepted_by", &self.accepted_by)
                .with("accepted_at", self.accepted_at)),
        }
    }

    /// Checks the texts a caller gave.
    pub fn check(&self) -> Result<(), PmFault> {
        // A handoff that the system wrote knows no next steps.
        let least_steps = usize::from(self.kind == HandoffKind::Manual);
        limit::bytes("summary", &self.summary, 1, limit::SUMMARY)?;
        limit::list("next_steps", &self.next_steps, least_steps, 30, 500)?;
        limit::list("warnings", &self.warnings, 0, 30, 500)?;
        limit::list("done", &self.done, 0, 30, 500)?;
        limit::list("uncertain", &self.uncertain, 0, 30, 500)?;
        self.git.as_ref().map_or(Ok(()), GitState::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handoff_machine_is_this_table() {
        use HandoffStatus::{Accepted, Completed, Expired, Pending, Rejected, Withdrawn};
        let answers = [
            HandoffAnswer::Accept,
            HandoffAnswer::Reject,
            HandoffAnswer::Withdraw,
            HandoffAnswer::Expire,
            HandoffAnswer::Complete,
        ];
        let table = [
            (Pending, [Some(Accepted), Some(Rejected), Some(Withdrawn), Some(Expired), None]),
            (Accepted, [None, None, None, None, Some(Completed)]),
            (Rejected, [None; 5]),
            (Withdrawn, [None; 5]),
            (Expired, [None; 5]),
            (Completed, [None; 5]),
        ];
        for (status, row) in table {
            for (answer, expected) in answers.into_iter().zip(row) {
                assert_eq!(next(status, answer).ok(), expected, "{status} + {answer:?}");
            }
        }
    }
}
