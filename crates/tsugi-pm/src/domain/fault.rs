//! The one error of this crate: a stable code, what happened, what to try, and the facts behind it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::advice::FaultAdvice;
use super::word::words;

words! {
    /// Every situation a caller can act on. The words are part of the wire contract.
    Code {
        /// No such thing, or not visible to this caller.
        NotFound = "not_found",
        /// The caller's role does not allow it.
        PermissionDenied = "permission_denied",
        /// An argument has the wrong shape.
        InvalidArgument = "invalid_argument",
        /// The status machine has no such move for this caller.
        InvalidTransition = "invalid_transition",
        NotReady = "not_ready",
        /// Another session holds the task.
        AlreadyClaimed = "already_claimed",
        /// This session held the task and no longer does.
        ClaimLost = "claim_lost",
        /// The session holds as many tasks as it may.
        ClaimLimit = "claim_limit",
        /// A session is needed and none can be chosen.
        SessionRequired = "session_required",
        /// Several sessions are active; one must be named.
        SessionAmbiguous = "session_ambiguous",
        /// The session is over.
        SessionEnded = "session_ended",
        /// The handoff was already taken, rejected, withdrawn or has expired.
        HandoffNotPending = "handoff_not_pending",
        /// The handoff is for another agent.
        HandoffNotForYou = "handoff_not_for_you",
        /// The dependency would close a circle.
        DependencyCycle = "dependency_cycle",
        /// The row changed since the caller read it.
        VersionConflict = "version_conflict",
        /// The idempotency key was used with other arguments.
        IdempotencyConflict = "idempotency_conflict",
        /// A person has to agree first.
        ApprovalRequired = "approval_required",
        /// The project is paused or archived.
        ProjectNotActive = "project_not_active",
        /// The agent is inactive or archived.
        AgentInactive = "agent_inactive",
        /// A text or list exceeds its limit.
        TooLarge = "too_large",
        /// The database was locked or the queue full for too long.
        Busy = "busy",
        /// The disk is full.
        StorageFull = "storage_full",
        /// The database cannot be written.
        StorageReadonly = "storage_readonly",
        /// A newer program has changed the database's schema.
        Outdated = "outdated",
        /// An open task with the same title, or a project with the same key, exists.
        SimilarExists = "similar_exists",
        /// The task already has a pending handoff.
        HandoffExists = "handoff_exists",
        /// A defect or a broken database; the protocol layer answers -32603.
        Internal = "internal",
    }
}

impl Code {
    /// Whether the same call may succeed later without the caller changing anything.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::StorageFull)
    }
}

/// A refused or failed call. Nothing was changed, except that leases found to be over stay ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct PmFault {
    pub code: Code,
    /// What happened, lower case, without a full stop.
    pub message: String,
    /// Whether trying the same call again could help.
    pub retryable: bool,
    /// What to try, in the words of the tools.
    pub hint: String,
    /// The same where a person does it by other means; it does not travel.
    #[serde(skip)]
    pub advice: Option<FaultAdvice>,
    /// Facts for a program: who holds it, what is allowed, which version is current.
    pub details: Box<Map<String, Value>>,
}

impl PmFault {
    /// A fault with a message and neither hint nor details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: code.is_retryable(),
            hint: String::new(),
            advice: None,
            details: Box::default(),
        }
    }

    /// An argument of the wrong shape.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// A thing that does not exist, or that this caller may not know of.
    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("no {what} `{id}`")).with("id", id.to_string())
    }

    /// A defect or a broken database.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds what to try, where agents and people do it by different means.
    #[must_use]
    pub fn advise(mut self, advice: FaultAdvice) -> Self {
        self.hint = advice.to_agent();
        self.advice = Some(advice);
        self
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.details.insert(name.to_owned(), value);
        self
    }

    /// The error object of the wire.
    pub fn to_json(&self) -> Value {
        json!(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_object_has_the_five_fields_of_the_contract() {
        let fault = PmFault::new(Code::Busy, "locked for 10 s").hint("try again").with("waited_ms", 10_000);
        assert_eq!(
            fault.to_json(),
            json!({"code": "busy", "message": "locked for 10 s", "retryable": true, "hint": "try again", "details": {"waited_ms": 10_000}})
        );
    }
}
