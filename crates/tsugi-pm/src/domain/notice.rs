//! A notice: something an agent should know although it did not ask.

use serde::{Deserialize, Serialize};

use super::word::words;

words! {
    /// What it is about.
    NoticeKind {
        /// A handoff waits for you.
        HandoffOffered = "handoff_offered",
        /// Your handoff was taken.
        HandoffAccepted = "handoff_accepted",
        /// Your handoff was rejected.
        HandoffRejected = "handoff_rejected",
        /// Your handoff was not accepted in time.
        HandoffExpired = "handoff_expired",
        /// Your claim was taken away.
        ClaimRevoked = "claim_revoked",
        /// Your claim ran out.
        ClaimExpired = "claim_expired",
        /// Your work got a verdict.
        Reviewed = "reviewed",
        /// A task was given to you.
        Assigned = "assigned",
        /// Context was added to a task you hold.
        ContextAdded = "context_added",
    }
}

/// A notice as its reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Its place in the agent's notices; also the cursor.
    pub id: i64,
    /// What it is about.
    pub kind: NoticeKind,
    /// What it refers to: a task or handoff id.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What happened, in one sentence.
    pub text: String,
}
