//! A claim: one session's hold on one task, with a lease that ends and a fence that only grows.

use serde::{Deserialize, Serialize};

use super::fault::{Code, PmFault};
use super::handoff::GitState;
use super::id::{AgentId, ClaimId, ProjectId, SessionId, TaskId};
use super::policy::ProjectPolicy;
use super::time::Moment;
use super::word::words;

words! {
    /// Where a claim stands; everything but `live` is final.
    ClaimState {
        Live = "live",
        /// The work went to review or is done.
        Completed = "completed",
        Released = "released",
        /// The lease ran out.
        Expired = "expired",
        /// Handed to another agent.
        Transferred = "transferred",
        /// Taken away by a person.
        Revoked = "revoked",
    }
}

impl ClaimState {
    /// Whether the holder learns of this end only when it next writes.
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Expired | Self::Transferred | Self::Revoked)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub id: ClaimId,
    /// The task it holds.
    pub task_id: TaskId,
    pub project_id: ProjectId,
    /// The session that holds it.
    pub session_id: SessionId,
    pub agent_id: AgentId,
    /// The task's fence at the time of the grant; a write with an older one is refused.
    pub fence: i64,
    pub state: ClaimState,
    /// How long it may be idle.
    pub ttl_s: i64,
    /// When it was granted.
    pub acquired_at: Moment,
    /// When its holder last touched the task. Not versioned.
    pub renewed_at: Moment,
    /// When it runs out unless renewed. Not versioned.
    pub expires_at: Moment,
    /// When it runs out in any case.
    pub deadline_at: Moment,
    /// What the holder last reported.
    pub checkpoint: Option<String>,
    /// The holder's work tree at its last report.
    pub git: Option<GitState>,
    pub end_reason: Option<String>,
    pub ended_at: Option<Moment>,
    /// Grows by one with each change.
    pub version: i64,
}

impl Claim {
    /// Whether the lease has run out, recorded or not.
    pub fn is_due(&self, now: Moment) -> bool {
        self.state == ClaimState::Live && self.expires_at <= now
    }

    /// The lease after a touch: renewed, but never beyond the deadline.
    #[must_use]
    pub fn renewed(&self, now: Moment) -> Self {
        let expires_at = lease_end(now, self.ttl_s, self.deadline_at);
        Self { renewed_at: now, expires_at, ..self.clone() }
    }

    /// Whether enough of the lease is used that a mere read should renew it.
    pub fn wants_renewal(&self, now: Moment) -> bool {
        now.seconds_since(self.renewed_at) * 8 >= self.ttl_s
    }

    /// The claim ended, once.
    pub fn ended(&self, state: ClaimState, reason: &str, now: Moment) -> Result<Self, PmFault> {
        if self.state != ClaimState::Live || state == ClaimState::Live {
            return Err(PmFault::new(Code::ClaimLost, format!("the claim is already {}", self.state)));
        }
        Ok(Self { state, end_reason: Some(reason.to_owned()), ended_at: Some(now), ..self.clone() })
    }
}

/// When a lease of a project's usual or the wished length ends: `(ttl, expires_at, deadline_at)`.
pub fn lease(policy: &ProjectPolicy, wished_ttl_s: Option<i64>, now: Moment) -> (i64, Moment, Moment) {
    let ttl_s = wished_ttl_s.unwrap_or(policy.claim_idle_ttl_s);
    let deadline_at = now.plus_seconds(policy.claim_max_age_s);
    (ttl_s, lease_end(now, ttl_s, deadline_at), deadline_at)
}

fn lease_end(now: Moment, ttl_s: i64, deadline_at: Moment) -> Moment {
    now.plus_seconds(ttl_s).min(deadline_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(now: Moment) -> Claim {
        let (ttl_s, expires_at, deadline_at) = lease(&ProjectPolicy::default(), Some(60), now);
        Claim {
            id: ClaimId::mint(1),
            task_id: TaskId::mint(1),
            project_id: ProjectId::mint(1),
            session_id: SessionId::mint(1),
            agent_id: AgentId::mint(1),
            fence: 1,
            state: ClaimState::Live,
            ttl_s,
            acquired_at: now,
            renewed_at: now,
            expires_at,
            deadline_at,
            checkpoint: None,
            git: None,
            end_reason: None,
            ended_at: None,
            version: 1,
        }
    }

    #[test]
    fn a_lease_is_renewed_by_touch_but_never_beyond_its_deadline() {
        let first = claim(Moment(0));
        assert!(!first.is_due(Moment(59_999)) && first.is_due(Moment(60_000)));
        assert_eq!(first.renewed(Moment(30_000)).expires_at, Moment(90_000));
        let late = Moment(86_400_000 - 10_000);
        assert_eq!(first.renewed(late).expires_at, Moment(86_400_000));
    }

    #[test]
    fn a_claim_ends_once() {
        let first = claim(Moment(0));
        for end in ClaimState::ALL {
            let ended = first.ended(*end, "why", Moment(5));
            assert_eq!(ended.is_ok(), *end != ClaimState::Live, "{end}");
            if let Ok(ended) = ended {
                assert!(ended.ended(ClaimState::Released, "again", Moment(6)).is_err(), "{end}");
            }
        }
    }
}
