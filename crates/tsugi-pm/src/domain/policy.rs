//! What a project allows and how long things last in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::PmFault;
use super::word::words;

words! {
    /// What happens when a worker creates a task.
    WorkerCreate {
        /// A manager has to create it.
        Deny = "deny",
        /// It goes to the backlog until a manager promotes it.
        Triage = "triage",
        /// It is created as asked.
        Allow = "allow",
    }
}

/// A project's rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectPolicy {
    /// Whether finished work needs a second pair of eyes; unset means: when the project has a human member.
    pub review_required: Option<bool>,
    /// What happens when a worker creates a task.
    pub worker_create: WorkerCreate,
    /// A claim ends after this long without a call that touches its task.
    pub claim_idle_ttl_s: i64,
    /// A claim ends after this long in any case.
    pub claim_max_age_s: i64,
    /// How long a vanished session's claims wait for it.
    pub resume_grace_s: i64,
    /// How many tasks one session may hold.
    pub max_claims_per_session: i64,
    /// How long a handoff waits.
    pub handoff_ttl_s: i64,
    /// Whether finished work must name its evidence.
    pub require_evidence: bool,
    /// Whether viewers may add notes.
    pub viewer_notes: bool,
}

impl Default for ProjectPolicy {
    fn default() -> Self {
        Self {
            review_required: None,
            worker_create: WorkerCreate::Triage,
            claim_idle_ttl_s: 3600,
            claim_max_age_s: 86_400,
            resume_grace_s: 900,
            max_claims_per_session: 3,
            handoff_ttl_s: 86_400,
            require_evidence: false,
            viewer_notes: false,
        }
    }
}

impl ProjectPolicy {
    /// Checks that every number is within its bounds.
    pub fn check(&self) -> Result<(), PmFault> {
        within("claim_idle_ttl_s", self.claim_idle_ttl_s, 60, 86_400)?;
        within("claim_max_age_s", self.claim_max_age_s, 60, 30 * 86_400)?;
        within("resume_grace_s", self.resume_grace_s, 0, 7 * 86_400)?;
        within("max_claims_per_session", self.max_claims_per_session, 1, 1000)?;
        within("handoff_ttl_s", self.handoff_ttl_s, 60, 30 * 86_400)
    }
}

fn within(field: &str, value: i64, least: i64, most: i64) -> Result<(), PmFault> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PmFault::invalid(format!("`{field}` must be between {least} and {most}")).with("field", field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_take_their_defaults_and_unknown_ones_are_refused() {
        let policy: ProjectPolicy = serde_json::from_str(r#"{"max_claims_per_session": 5}"#).unwrap();
        assert_eq!(policy, ProjectPolicy { max_claims_per_session: 5, ..ProjectPolicy::default() });
        assert!(serde_json::from_str::<ProjectPolicy>(r#"{"max_claims": 5}"#).is_err());
    }

    #[test]
    fn the_idle_lease_is_between_a_minute_and_a_day() {
        for (seconds, is_fine) in [(59, false), (60, true), (86_400, true), (86_401, false)] {
            let policy = ProjectPolicy { claim_idle_ttl_s: seconds, ..ProjectPolicy::default() };
            assert_eq!(policy.check().is_ok(), is_fine, "{seconds}");
        }
    }
}
