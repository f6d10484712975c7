//! Moving a task from one status to another, and judging finished work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::view::{TaskRow, TaskView, check_version};
use super::{Action, ActionEffect};
use crate::action::context::touch_hold;
use crate::domain::advice::FaultAdvice;
use crate::domain::claim::ClaimState;
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::Power;
use crate::domain::session::AgentSession;
use crate::domain::task::machine::{self, MoveRequirement, StatusMove};
use crate::domain::task::{Task, TaskReview, TaskStatus, Verdict, WorkResult};

/// Moves a task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTaskStatus {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// the new one
    #[schemars(extend("ja" = "新しいステータス"))]
    pub status: TaskStatus,
    /// why
    #[schemars(extend("ja" = "変更理由"))]
    pub reason: Option<String>,
    /// outcome
    #[schemars(extend("ja" = "成果"))]
    pub result: Option<WorkResult>,
    /// you saw
    #[schemars(extend("ja" = "確認済みの版", "rare" = true))]
    pub expected_version: Option<i64>,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

impl UpdateTaskStatus {
    /// A move with nothing but its goal.
    pub fn new(task_id: impl Into<TaskRef>, status: TaskStatus) -> Self {
        Self {
            task_id: task_id.into(),
            status,
            reason: None,
            result: None,
            expected_version: None,
            session_id: None,
            idempotency_key: None,
        }
    }
}

/// A task that was moved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedTask {
    pub task: TaskView,
    /// Whether anything changed; asking twice is fine.
    pub changed: bool,
    /// The session that made the move, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The tasks that can begin now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub newly_ready: Vec<TaskRow>,
}

pub(super) struct StatusChange<'a> {
    pub(super) to: TaskStatus,
    pub(super) reason: Option<&'a str>,
    pub(super) result: Option<&'a WorkResult>,
}

impl Action for UpdateTaskStatus {
    const NAME: &'static str = "update_task_status";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = MovedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<MovedTask, PmFault> {
        limit::chars("reason", self.reason.as_deref().unwrap_or(""), 0, 2000)?;
        let session = self.session(context)?;
        let open = context.task_to_change(&self.task_id, Power::Read)?;
        let holder = session.as_ref().map(|one| one.id.clone());
        if is_there_already(&open, self.status, holder.as_ref()) {
            touch_hold(context, &open, session.as_ref())?;
            return Ok(MovedTask {
                task: TaskView::brief(&open.task),
                changed: false,
                session_id: holder,
                newly_ready: Vec::new(),
            });
        }
        check_version(&open.task, self.expected_version)?;
        if self.status == TaskStatus::InProgress {
            return self.claim(context, &open, session);
        }
        // A process whose session is over may still believe in a claim of it.
        let believer = holder.clone().or_else(|| context.caller.default_session.clone());
        self.refuse_stale(context, &open, believer.as_ref())?;
        let reason = context.reason(self.reason.as_deref());
        let change = StatusChange { to: self.status, reason: reason.as_deref(), result: self.result.as_ref() };
        let task = context.change_status(&open, holder.as_ref(), &change)?;
        context.moved(&task, holder)
    }
}

impl UpdateTaskStatus {
    /// The session of the call. A manager with several sessions, or with none, can move tasks without naming one.
    fn session(&self, context: &mut ActionContext<'_, '_>) -> Result<Option<AgentSession>, PmFault> {
        if self.status == TaskStatus::InProgress {
            return context.session(self.session_id.as_ref()).map(Some);
        }
        match context.session_if_any(self.session_id.as_ref()) {
            Err(fault) if fault.code == Code::SessionAmbiguous || context.agent_id().is_none() => {
                let task = context.task_to_read(&self.task_id)?;
                if context.role(&task.project_id)?.may(Power::Manage) { Ok(None) } else { Err(fault) }
            }
            other => other,
        }
    }

    fn claim(
        &self,
        context: &mut ActionContext<'_, '_>,
        open: &OpenTask,
        session: Option<AgentSession>,
    ) -> Result<MovedTask, PmFault> {
        let session = session.ok_or_else(|| PmFault::new(Code::SessionRequired, "a claim needs a session"))?;
        // A task that is already held is refused by the grant, which knows by whom and until when.
        if open.claim.is_none() {
            let standing = context.standing(open, Some(&session.id))?;
            machine::next(open.task.status, TaskStatus::InProgress, &standing)?;
        }
        let grant = context.grant_moved(&session, open, None)?;
        context.moved(&grant.task, Some(session.id))
    }

    /// Refuses a session that lost its claim, instead of moving a task that it no longer holds. A caller that
    /// names the current version has seen what happened and knows what it is doing.
    fn refuse_stale(
        &self,
        context: &mut ActionContext<'_, '_>,
        open: &OpenTask,
        session: Option<&SessionId>,
    ) -> Result<(), PmFault> {
        let Some(session) = session else { return Ok(()) };
        let is_holder = open.claim.as_ref().is_some_and(|claim| claim.session_id == *session);
        if is_holder || self.expected_version.is_some() {
            return Ok(());
        }
        let last = context.tx.claim_last_of_session(&open.task.id, session)?;
        let was_lost = last.is_some_and(|claim| claim.state.is_lost());
        let standing = context.standing(open, Some(session))?;
        let is_legal = machine::next(open.task.status, self.status, &standing).is_ok();
        if was_lost && (!is_legal || open.task.status == TaskStatus::InProgress) {
            return Err(context.claim_lost(open, session)?);
        }
        Ok(())
    }
}

/// Whether the task is where it should go. One that is in progress elsewhere is not.
fn is_there_already(open: &OpenTask, to: TaskStatus, session: Option<&SessionId>) -> bool {
    let is_mine = open.claim.as_ref().is_none_or(|claim| Some(&claim.session_id) == session);
    open.task.status == to && is_mine
}

impl ActionContext<'_, '_> {
    fn moved(&mut self, task: &Task, session_id: Option<SessionId>) -> Result<MovedTask, PmFault> {
        let newly_ready = match task.status {
            TaskStatus::Done if self.is_active(&task.project_id)? => {
                self.tx.task_newly_ready(&task.id)?.iter().map(TaskRow::new).collect()
            }
            _ => Vec::new(),
        };
        Ok(MovedTask { task: TaskView::brief(task), changed: true, session_id, newly_ready })
    }

    /// Makes a legal move that is not a claim, with all it brings about.
    pub(super) fn change_status(
        &mut self,
        open: &OpenTask,
        session: Option<&SessionId>,
        change: &StatusChange<'_>,
    ) -> Result<Task, PmFault> {
        let standing = self.standing(open, session)?;
        let step = machine::next(open.task.status, change.to, &standing)?;
        // Before the hold ends: a refused move leaves the claim as it was.
        check_need(step, change, open)?;
        self.end_hold(open, step, standing.is_holder, change.reason)?;
        // A handoff of work that is not to be done now cannot be accepted.
        if matches!(change.to, TaskStatus::Cancelled | TaskStatus::Backlog) {
            let why = format!("the task was moved to {}", change.to);
            self.withdraw_handoff(&open.task, change.reason.unwrap_or(&why))?;
        }
        let after = self.moved_task(open, step, change);
        let note = EventKind::of_status(change.to).because(change.reason);
        // Also counts the open prerequisites of the tasks behind it.
        let task = self.tx.task_update(&open.task, after, note)?;
        if open.task.status == TaskStatus::Done {
            self.tell_dependents(&task, change.reason)?;
        }
        Ok(task)
    }

    fn end_hold(
        &mut self,
        open: &OpenTask,
        step: StatusMove,
        is_holder: bool,
        reason: Option<&str>,
    ) -> Result<(), PmFault> {
        let (machine::MoveEffect::EndClaim(state), Some(claim)) = (step.effect, &open.claim) else { return Ok(()) };
        // A holder releases its task; another caller revokes the claim.
        let state = if state == ClaimState::Released && !is_holder { ClaimState::Revoked } else { state };
        self.tx.stamp.claim = Some(claim.id.clone());
        self.end_claim(claim, state, reason.unwrap_or(state.as_str()))?;
        if !is_holder {
            let text =
                format!("your claim on {} was {state}: {}", open.task.reference, reason.unwrap_or("no reason given"));
            self.tx.notice_add(&claim.agent_id, NoticeKind::ClaimRevoked, open.task.id.as_str(), &text)?;
        }
        Ok(())
    }

    fn moved_task(&self, open: &OpenTask, step: StatusMove, change: &StatusChange<'_>) -> Task {
        let (task, now, from) = (&open.task, self.tx.now, open.task.status);
        let review = match (from, change.to) {
            (TaskStatus::Review, TaskStatus::Done) => self.review(Verdict::Approve, change.reason),
            (TaskStatus::Review, TaskStatus::Todo) => self.review(Verdict::Changes, change.reason),
            _ => task.review.clone(),
        };
        // A task that goes back to `todo` is free for every agent.
        let is_given_back = from == TaskStatus::InProgress && change.to == TaskStatus::Todo;
        Task {
            status: change.to,
            assignee_id: if is_given_back { None } else { task.assignee_id.clone() },
            blocked_reason: change.reason.filter(|_| change.to == TaskStatus::Blocked).map(str::to_owned),
            result: outcome(open, step, change),
            review,
            // Cleared when a finished task is reopened.
            completed_at: if change.to.is_open() { None } else { Some(now) },
            ..task.clone()
        }
    }

    fn review(&self, verdict: Verdict, notes: Option<&str>) -> Option<TaskReview> {
        Some(TaskReview {
            reviewer_id: self.agent_id().cloned(),
            verdict,
            notes: notes.map(str::to_owned),
            at: self.tx.now,
        })
    }

    /// Those that wait for a reopened task stay as they are, but their history says what happened.
    fn tell_dependents(&mut self, task: &Task, reason: Option<&str>) -> Result<(), PmFault> {
        for id in self.tx.dependency_dependents(&task.id)? {
            let dependent = self.tx.task_lock(&id)?;
            self.tx.remark(&dependent, EventKind::TaskPrerequisiteReopened.because(reason))?;
        }
        Ok(())
    }
}

fn check_need(step: StatusMove, change: &StatusChange<'_>, open: &OpenTask) -> Result<(), PmFault> {
    let evidence_wanted = open.project.policy.require_evidence;
    match step.need {
        MoveRequirement::Nothing => Ok(()),
        MoveRequirement::Reason if change.reason.is_none_or(|reason| reason.trim().is_empty()) => {
            Err(PmFault::invalid(format!("a move to {} needs a `reason`", change.to))
                .advise(FaultAdvice::GiveReason)
                .with("field", "reason"))
        }
        MoveRequirement::Reason => Ok(()),
        MoveRequirement::Result => match change.result.or(open.task.result.as_ref()) {
            Some(result) if !evidence_wanted || !result.evidence.is_empty() => result.check(),
            // The simplest set of tools has no result argument, so its absence is only an error where the project wants evidence.
            None if !evidence_wanted => Ok(()),
            _ => Err(PmFault::invalid(format!("this project wants `result.evidence` before {}", change.to))
                .hint("say what was done and what shows it: result: {summary, evidence: [{kind, uri}]}")
                .with("field", "result.evidence")),
        },
    }
}

/// The result of the work: the caller's, or the best that is known when it gives none. Reopened work
/// has no result: what shows that the old work was done says nothing of the new, and stays in the history.
fn outcome(open: &OpenTask, step: StatusMove, change: &StatusChange<'_>) -> Option<WorkResult> {
    let was_over = matches!(open.task.status, TaskStatus::Review | TaskStatus::Done | TaskStatus::Cancelled);
    if was_over && matches!(change.to, TaskStatus::Todo | TaskStatus::Backlog) {
        return None;
    }
    let known = change.result.cloned().or_else(|| open.task.result.clone());
    if step.need != MoveRequirement::Result || known.is_some() {
        return known;
    }
    // The last checkpoint describes the work better than nothing.
    let checkpoint = open.claim.as_ref().and_then(|claim| claim.checkpoint.clone());
    let summary = change.reason.map(str::to_owned).or(checkpoint).unwrap_or_else(|| "no summary was given".to_owned());
    Some(WorkResult { summary, evidence: Vec::new() })
}

/// Judges finished work.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewTask {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// judgement
    #[schemars(extend("ja" = "判定"))]
    pub verdict: Verdict,
    /// why
    #[schemars(extend("ja" = "所見"))]
    pub notes: Option<String>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

impl Action for ReviewTask {
    const NAME: &'static str = "review_task";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = MovedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<MovedTask, PmFault> {
        limit::chars("notes", self.notes.as_deref().unwrap_or(""), 0, 2000)?;
        let open = context.task_to_change(&self.task_id, Power::Review)?;
        if open.task.status != TaskStatus::Review {
            let standing = context.standing(&open, None)?;
            return Err(PmFault::new(
                Code::InvalidTransition,
                format!("{} is {}", open.task.reference, open.task.status),
            )
            .hint("only work that waits for a review can be judged")
            .with("allowed", machine::allowed(open.task.status, &standing)));
        }
        let to = match self.verdict {
            Verdict::Approve => TaskStatus::Done,
            Verdict::Changes => TaskStatus::Todo,
        };
        let change = StatusChange { to, reason: self.notes.as_deref(), result: None };
        let task = context.change_status(&open, None, &change)?;
        if let Some(worker) = context.tx.claim_last(&task.id)? {
            let notes = self.notes.as_deref().unwrap_or("no notes");
            let text = format!("{}: {} ({notes})", task.reference, self.verdict);
            context.tx.notice_add(&worker.agent_id, NoticeKind::Reviewed, task.id.as_str(), &text)?;
        }
        context.moved(&task, None)
    }
}
