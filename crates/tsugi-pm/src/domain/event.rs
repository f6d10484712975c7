//! An event: one change, who made it and why, chained by hash to the one before.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::claim::ClaimState;
use super::id::{AgentId, ClaimId, EventId, ProjectId, SessionId, TaskId};
use super::task::TaskStatus;
use super::time::Moment;
use super::word::words;

words! {
    /// What kind of thing changed.
    EntityType {
        Project = "project",
        Agent = "agent",
        Membership = "membership",
        Session = "session",
        Task = "task",
        Dependency = "dependency",
        Claim = "claim",
        /// A piece of context.
        Context = "context",
        Handoff = "handoff",
        Token = "token",
    }
}

words! {
    /// What happened. The words are stored in every history and hashed, so none may ever change.
    EventKind {
        ProjectCreated = "project.created",
        ProjectUpdated = "project.updated",
        ProjectPaused = "project.paused",
        ProjectResumed = "project.resumed",
        ProjectArchived = "project.archived",
        ProjectRestored = "project.restored",
        AgentRegistered = "agent.registered",
        AgentUpdated = "agent.updated",
        MembershipAdded = "membership.added",
        MembershipChanged = "membership.changed",
        MembershipRemoved = "membership.removed",
        SessionStarted = "session.started",
        SessionRevived = "session.revived",
        SessionResumed = "session.resumed",
        SessionDisconnected = "session.disconnected",
        SessionEnded = "session.ended",
        SessionExpired = "session.expired",
        TaskCreated = "task.created",
        TaskUpdated = "task.updated",
        TaskClaimed = "task.claimed",
        TaskResumed = "task.resumed",
        TaskHandedOver = "task.handed_over",
        TaskUnassigned = "task.unassigned",
        TaskExpired = "task.expired",
        TaskPrerequisiteReopened = "task.prerequisite_reopened",
        TaskBacklog = "task.backlog",
        TaskTodo = "task.todo",
        TaskInProgress = "task.in_progress",
        TaskBlocked = "task.blocked",
        TaskReview = "task.review",
        TaskDone = "task.done",
        TaskCancelled = "task.cancelled",
        DependencyAdded = "dependency.added",
        DependencyRemoved = "dependency.removed",
        ClaimGranted = "claim.granted",
        ClaimCheckpoint = "claim.checkpoint",
        ClaimResumed = "claim.resumed",
        ClaimCompleted = "claim.completed",
        ClaimReleased = "claim.released",
        ClaimExpired = "claim.expired",
        ClaimTransferred = "claim.transferred",
        ClaimRevoked = "claim.revoked",
        ContextAdded = "context.added",
        ContextSuperseded = "context.superseded",
        HandoffCreated = "handoff.created",
        HandoffAccepted = "handoff.accepted",
        HandoffRejected = "handoff.rejected",
        HandoffWithdrawn = "handoff.withdrawn",
        HandoffExpired = "handoff.expired",
        HandoffCompleted = "handoff.completed",
        TokenMade = "token.made",
        TokenRevoked = "token.revoked",
    }
}

impl EventKind {
    /// The event of a task that moved to a status.
    pub const fn of_status(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Backlog => Self::TaskBacklog,
            TaskStatus::Todo => Self::TaskTodo,
            TaskStatus::InProgress => Self::TaskInProgress,
            TaskStatus::Blocked => Self::TaskBlocked,
            TaskStatus::Review => Self::TaskReview,
            TaskStatus::Done => Self::TaskDone,
            TaskStatus::Cancelled => Self::TaskCancelled,
        }
    }

    /// The event of a claim that reached a state.
    pub const fn of_claim(state: ClaimState) -> Self {
        match state {
            // A claim is live only by its grant.
            ClaimState::Live => Self::ClaimGranted,
            ClaimState::Completed => Self::ClaimCompleted,
            ClaimState::Released => Self::ClaimReleased,
            ClaimState::Expired => Self::ClaimExpired,
            ClaimState::Transferred => Self::ClaimTransferred,
            ClaimState::Revoked => Self::ClaimRevoked,
        }
    }
}

/// One field before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    pub field: String,
    /// Its value before; null when the thing is new.
    pub old: Value,
    /// Its value after; null when the thing is gone.
    pub new: Value,
}

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// Its place in this store's history; grows, and no event ever appears before one already seen.
    pub seq: i64,
    /// Its id, the same in every store it is copied to.
    pub id: EventId,
    pub at: Moment,
    /// In which project, if in one.
    pub project_id: Option<ProjectId>,
    /// What kind of thing changed.
    pub entity_type: EntityType,
    pub entity_id: String,
    /// What happened: `task.claimed`.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// Who did it; the system when unset.
    pub actor_agent_id: Option<AgentId>,
    pub session_id: Option<SessionId>,
    pub claim_id: Option<ClaimId>,
    pub reason: Option<String>,
    /// The fields that changed.
    pub changes: Vec<FieldChange>,
    /// The thing's version afterwards.
    pub version_after: i64,
    /// The hash of the event before it on the same thing; empty for the first.
    pub prev_hash: String,
    /// The hash of this event.
    pub hash: String,
}

/// What changed of these fields from one record to the next, in their order; a field that is absent counts as null.
pub fn changes<'a>(
    fields: impl Iterator<Item = &'a str>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<FieldChange> {
    fields
        .filter_map(|field| {
            // A field that a later version added is null in older records.
            let old = before.get(field).unwrap_or(&Value::Null);
            // A field that is gone counts as null, so that removing and re-adding it can be replayed.
            let new = after.get(field).unwrap_or(&Value::Null);
            (old != new).then(|| FieldChange { field: field.to_owned(), old: old.clone(), new: new.clone() })
        })
        .collect()
}

/// Applies changes to a set of fields, as `verify` does to rebuild a thing from its history.
///
/// Fails with the field's name when its value is not the one the change started from.
pub fn replay(fields: &mut Map<String, Value>, changes: &[FieldChange]) -> Result<(), String> {
    for change in changes {
        let current = fields.get(&change.field).cloned().unwrap_or(Value::Null);
        // The history must lead from one value to the next without a gap.
        if current != change.old {
            return Err(change.field.clone());
        }
        fields.insert(change.field.clone(), change.new.clone());
    }
    Ok(())
}

impl HistoryEvent {
    /// The task it is about. Claims, contexts and handoffs name theirs when they are new; what changes them later
    /// changes the task too.
    pub fn task(&self) -> Option<TaskId> {
        if self.entity_type == EntityType::Task {
            return TaskId::parse(&self.entity_id).ok();
        }
        // The first event of a claim, context or handoff names its task.
        let change = self.changes.iter().find(|change| change.field == "task_id")?;
        change.new.as_str().or(change.old.as_str()).and_then(|id| TaskId::parse(id).ok())
    }

    /// The text whose digest is the event's hash: everything but its place in this store.
    pub fn digest_text(&self) -> String {
        // A tuple, so that the order of the fields can never change with the struct.
        let parts = (
            &self.prev_hash,
            &self.id,
            self.at,
            &self.project_id,
            self.entity_type,
            &self.entity_id,
            &self.kind,
            &self.actor_agent_id,
            &self.session_id,
            &self.claim_id,
            &self.reason,
            &self.changes,
            self.version_after,
        );
        serde_json::to_string(&parts).expect("an event has nothing that JSON lacks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn replaying_the_changes_gives_the_later_fields() {
        let before = fields(json!({"a": 1, "b": "x", "gone": true}));
        let after = fields(json!({"a": 2, "b": "x", "new": [1]}));
        let changes = changes(["a", "b", "gone", "new"].into_iter(), &before, &after);
        assert_eq!(changes.iter().map(|change| change.field.as_str()).collect::<Vec<_>>(), ["a", "gone", "new"]);
        let mut rebuilt = before.clone();
        replay(&mut rebuilt, &changes).unwrap();
        assert_eq!(rebuilt, fields(json!({"a": 2, "b": "x", "gone": null, "new": [1]})));
    }

    /// Histories hold these words for good: a new kind is added here, and no line is ever changed.
    #[test]
    fn every_kind_of_event_is_listed_and_keeps_its_word() {
        let listed = [
            "project.created",
            "project.updated",
            "project.paused",
            "project.resumed",
            "project.archived",
            "project.restored",
            "agent.registered",
            "agent.updated",
            "membership.added",
            "membership.changed",
            "membership.removed",
            "session.started",
            "session.revived",
            "session.resumed",
            "session.disconnected",
            "session.ended",
            "session.expired",
            "task.created",
            "task.updated",
            "task.claimed",
            "task.resumed",
            "task.handed_over",
            "task.unassigned",
            "task.expired",
            "task.prerequisite_reopened",
            "task.backlog",
            "task.todo",
            "task.in_progress",
            "task.blocked",
            "task.review",
            "task.done",
            "task.cancelled",
            "dependency.added",
            "dependency.removed",
            "claim.granted",
            "claim.checkpoint",
            "claim.resumed",
            "claim.completed",
            "claim.released",
            "claim.expired",
            "claim.transferred",
            "claim.revoked",
            "context.added",
            "context.superseded",
            "handoff.created",
            "handoff.accepted",
            "handoff.rejected",
            "handoff.withdrawn",
            "handoff.expired",
            "handoff.completed",
            "token.made",
            "token.revoked",
        ];
        assert_eq!(EventKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>(), listed);
        for status in TaskStatus::ALL {
            assert_eq!(EventKind::of_status(*status).as_str(), format!("task.{status}"));
        }
        for state in ClaimState::ALL.iter().filter(|state| **state != ClaimState::Live) {
            assert_eq!(EventKind::of_claim(*state).as_str(), format!("claim.{state}"));
        }
    }

    #[test]
    fn replaying_on_other_fields_names_the_first_that_differs() {
        let changes = [FieldChange { field: "a".into(), old: json!(1), new: json!(2) }];
        assert_eq!(replay(&mut fields(json!({"a": 5})), &changes), Err("a".to_owned()));
    }
}
