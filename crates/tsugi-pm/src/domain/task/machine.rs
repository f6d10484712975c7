//! Which status moves exist, who may make them, and what each brings about: the table of the design, as data.

use super::super::claim::ClaimState;
use super::super::fault::{Code, PmFault};
use super::super::member::Role;
use super::super::permission::{Power, denied};
use super::TaskStatus;
use crate::domain::advice::FaultAdvice;

/// How the caller stands to the task.
#[derive(Clone, Copy, Debug)]
pub struct TaskStanding {
    /// The caller's role in the project.
    pub role: Role,
    /// Whether the caller's session holds the live claim.
    pub is_holder: bool,
    /// Whether the task is assigned to the caller.
    pub is_assignee: bool,
    /// Whether the caller's agent held the last claim, and would be judging its own work.
    pub is_last_worker: bool,
    /// Whether finished work needs a second pair of eyes here.
    pub is_review_required: bool,
}

/// What a move brings about besides the new status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveEffect {
    None,
    /// The caller's session claims the task.
    Claim,
    /// The live claim ends in this state.
    EndClaim(ClaimState),
}

/// What a move asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveRequirement {
    Nothing,
    Reason,
    /// What came out of the work.
    Result,
}

/// Who may make a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveActor {
    Manager,
    Worker,
    Assignee,
    Holder,
    HolderUnlessReviewed,
    Reviewer,
}

impl MoveActor {
    fn admits(self, standing: &TaskStanding) -> bool {
        let manages = standing.role.may(Power::Manage);
        let works = standing.role.may(Power::Work);
        match self {
            Self::Manager => manages,
            Self::Worker => works,
            Self::Assignee => works && standing.is_assignee,
            // A manager may act for a holder that does not answer.
            Self::Holder => manages || (works && standing.is_holder),
            Self::HolderUnlessReviewed => manages || (works && standing.is_holder && !standing.is_review_required),
            Self::Reviewer => manages || (standing.role.may(Power::Review) && !standing.is_last_worker),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct StatusMove {
    from: TaskStatus,
    to: TaskStatus,
    who: MoveActor,
    /// What it asks of the caller.
    pub need: MoveRequirement,
    /// What it brings about.
    pub effect: MoveEffect,
}

const fn row(
    from: TaskStatus,
    to: TaskStatus,
    who: MoveActor,
    need: MoveRequirement,
    effect: MoveEffect,
) -> StatusMove {
    StatusMove { from, to, who, need, effect }
}

use TaskStatus::{Backlog, Blocked, Cancelled, Done, InProgress, Review, Todo};

/// Every legal move. A cancelled prerequisite does not satisfy its dependents; a person has to decide.
const MOVES: &[StatusMove] = &[
    row(Backlog, Todo, MoveActor::Manager, MoveRequirement::Nothing, MoveEffect::None),
    row(Todo, Backlog, MoveActor::Manager, MoveRequirement::Nothing, MoveEffect::None),
    row(Todo, InProgress, MoveActor::Worker, MoveRequirement::Nothing, MoveEffect::Claim),
    // Giving back. `release_task` is the usual way; a status move to `todo` means the same.
    row(InProgress, Todo, MoveActor::Holder, MoveRequirement::Nothing, MoveEffect::EndClaim(ClaimState::Released)),
    row(InProgress, Blocked, MoveActor::Holder, MoveRequirement::Reason, MoveEffect::EndClaim(ClaimState::Released)),
    row(InProgress, Review, MoveActor::Holder, MoveRequirement::Result, MoveEffect::EndClaim(ClaimState::Completed)),
    row(
        InProgress,
        Done,
        MoveActor::HolderUnlessReviewed,
        MoveRequirement::Result,
        MoveEffect::EndClaim(ClaimState::Completed),
    ),
    row(Review, Done, MoveActor::Reviewer, MoveRequirement::Nothing, MoveEffect::None),
    row(Review, Todo, MoveActor::Reviewer, MoveRequirement::Reason, MoveEffect::None),
    row(Blocked, Todo, MoveActor::Worker, MoveRequirement::Nothing, MoveEffect::None),
    row(Blocked, InProgress, MoveActor::Assignee, MoveRequirement::Nothing, MoveEffect::Claim),
    row(Done, Todo, MoveActor::Manager, MoveRequirement::Reason, MoveEffect::None),
    row(Backlog, Cancelled, MoveActor::Manager, MoveRequirement::Reason, MoveEffect::None),
    row(Todo, Cancelled, MoveActor::Manager, MoveRequirement::Reason, MoveEffect::None),
    row(InProgress, Cancelled, MoveActor::Manager, MoveRequirement::Reason, MoveEffect::EndClaim(ClaimState::Revoked)),
    row(Review, Cancelled, MoveActor::Manager, MoveRequirement::Reason, MoveEffect::None),
    row(Blocked, Cancelled, MoveActor::Manager, MoveRequirement::Reason, MoveEffect::None),
    row(Cancelled, Backlog, MoveActor::Manager, MoveRequirement::Nothing, MoveEffect::None),
];

/// The statuses this caller could move the task to.
pub fn allowed(from: TaskStatus, standing: &TaskStanding) -> Vec<TaskStatus> {
    MOVES.iter().filter(|one| one.from == from && one.who.admits(standing)).map(|one| one.to).collect()
}

/// The move from one status to another, or why this caller cannot make it. Staying is not a move; ask before.
pub fn next(from: TaskStatus, to: TaskStatus, standing: &TaskStanding) -> Result<StatusMove, PmFault> {
    // Eighteen rows: a scan is as quick as any index.
    let found = MOVES.iter().find(|one| one.from == from && one.to == to);
    match found {
        Some(one) if one.who.admits(standing) => Ok(*one),
        Some(one) if one.who == MoveActor::HolderUnlessReviewed && standing.is_holder => Err(review_first()),
        Some(one) if one.who == MoveActor::Reviewer && standing.is_last_worker => Err(own_work(standing.role)),
        Some(_) | None => Err(refused(from, to, standing)),
    }
}

fn review_first() -> PmFault {
    PmFault::new(Code::ApprovalRequired, "finished work needs a review in this project")
        .advise(FaultAdvice::SendToReview)
}

fn own_work(role: Role) -> PmFault {
    denied("an agent may not review its own work", &["owner", "manager", "another worker"], Some(role))
        .hint("ask another worker or a manager")
}

fn refused(from: TaskStatus, to: TaskStatus, standing: &TaskStanding) -> PmFault {
    // The moves that are possible instead are the most useful hint.
    let allowed = allowed(from, standing);
    let hint = match allowed.as_slice() {
        [] => format!("a {} cannot move a task that is {from}", standing.role),
        some => format!("allowed: {}", some.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ")),
    };
    PmFault::new(Code::InvalidTransition, format!("no move from {from} to {to} for you"))
        .hint(hint)
        .with("from", from)
        .with("to", to)
        .with("allowed", allowed)
}

#[cfg(test)]
mod tests;
