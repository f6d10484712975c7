//! Handing work to the next agent, and taking it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::claim::ClaimedTask;
use super::truncate::HandoffView;
use super::view::{ClaimView, TaskView, cursor, page, place, rows};
use super::{Action, ActionEffect};
use crate::action::claim::claimed;
use crate::action::context::add_note;
use crate::domain::advice::FaultAdvice;
use crate::domain::claim::ClaimState;
use crate::domain::context::ContextEntry;
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::handoff::{GitState, Handoff, HandoffAnswer, HandoffKind, HandoffStatus};
use crate::domain::id::{AgentId, HandoffId, ProjectRef, SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::Power;
use crate::domain::session::AgentSession;
use crate::domain::task::{Task, TaskStatus};
use crate::domain::time::Moment;
use crate::store::tx::{EventStamp, Tx};

/// How much of each handoff a list shows.
const LIST_BYTES: usize = 3 * limit::KIB;

/// Hands a task to another agent, or to any agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateHandoff {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// where things stand
    #[schemars(extend("ja" = "作業サマリ"))]
    pub summary: String,
    /// to do next
    #[schemars(extend("ja" = "次のステップ"))]
    pub next_steps: Vec<String>,
    /// anyone if unset
    #[schemars(extend("ja" = "引き継ぎ先エージェントID"))]
    pub to_agent_id: Option<AgentId>,
    /// to beware of
    #[serde(default)]
    #[schemars(extend("ja" = "注意点"))]
    pub warnings: Vec<String>,
    /// finished
    #[serde(default)]
    #[schemars(extend("ja" = "完了分", "rare" = true))]
    pub done: Vec<String>,
    /// unsure
    #[serde(default)]
    #[schemars(extend("ja" = "不確かな点", "rare" = true))]
    pub uncertain: Vec<String>,
    /// work tree
    #[schemars(extend("ja" = "作業ツリー", "rare" = true))]
    pub git: Option<GitState>,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

impl CreateHandoff {
    /// A minimal handoff to any agent.
    pub fn of(task: impl Into<TaskRef>, summary: impl Into<String>, next_steps: Vec<String>) -> Self {
        Self {
            task_id: task.into(),
            summary: summary.into(),
            next_steps,
            to_agent_id: None,
            warnings: Vec::new(),
            done: Vec::new(),
            uncertain: Vec::new(),
            git: None,
            session_id: None,
            idempotency_key: None,
        }
    }
}

/// A handoff and its task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedHandoff {
    pub handoff: HandoffView,
    pub task: TaskView,
    /// The session that handed it over, which may have begun with this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

impl Action for CreateHandoff {
    const NAME: &'static str = "create_handoff";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = CreatedHandoff;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<CreatedHandoff, PmFault> {
        let session = context.session(self.session_id.as_ref())?;
        let (handoff, task) = context.hand_over(&session, self)?;
        // The caller has just written it; a long one is not sent back in full.
        let handoff = HandoffView::within(handoff, LIST_BYTES);
        Ok(CreatedHandoff { handoff, task: TaskView::brief(&task), session_id: Some(session.id) })
    }
}

impl ActionContext<'_, '_> {
    /// Ends the hold, frees the task and leaves the handoff.
    pub(super) fn hand_over(
        &mut self,
        session: &AgentSession,
        wish: &CreateHandoff,
    ) -> Result<(Handoff, Task), PmFault> {
        let open = self.task_to_change(&wish.task_id, Power::HandOff)?;
        // Before anything is changed: what follows must be all or nothing.
        self.check_may_hand_over(&open, session)?;
        // An expired handoff must not block a new one.
        let open = self.without_due_handoff(&open)?;
        if let Some(pending) = self.tx.handoff_pending(&open.task.id)? {
            return Err(PmFault::new(
                Code::HandoffExists,
                format!("{} already has a pending handoff", open.task.reference),
            )
            .hint("wait until it is accepted or rejected")
            .with("handoff_id", &pending.id)
            .with("to_agent_id", &pending.to_agent_id));
        }
        if let Some(target) = &wish.to_agent_id {
            self.check_target(&open, target)?;
        }
        let handoff = self.new_handoff(&open, session, wish);
        // Limits are checked on the record, so that automatic handoffs obey them too.
        handoff.check()?;
        if let Some(claim) = &open.claim {
            self.tx.stamp.claim = Some(claim.id.clone());
            self.end_claim(claim, ClaimState::Transferred, "handed over")?;
        }
        self.tx.insert(&handoff, EventKind::HandoffCreated.note())?;
        // Searchable at once, in the same transaction.
        self.tx.handoff_index(&handoff, Some(&open.task))?;
        if let Some(target) = &wish.to_agent_id {
            let text = format!("{} hands {} to you", handoff.from_agent_id, open.task.reference);
            self.tx.notice_add(target, NoticeKind::HandoffOffered, handoff.id.as_str(), &text)?;
        }
        let freed = Task {
            status: TaskStatus::Todo,
            assignee_id: wish.to_agent_id.clone(),
            blocked_reason: None,
            ..open.task.clone()
        };
        let task = self.tx.task_update(&open.task, freed, EventKind::TaskHandedOver.note())?;
        Ok((handoff, task))
    }

    fn check_may_hand_over(&mut self, open: &OpenTask, session: &AgentSession) -> Result<(), PmFault> {
        let is_holder = open.claim.as_ref().is_some_and(|claim| claim.session_id == session.id);
        // An assignee may pass on work that it has not started.
        let is_waiting = matches!(open.task.status, TaskStatus::Todo | TaskStatus::Blocked);
        let is_assignee = open.task.assignee_id.as_ref() == Some(&session.agent_id);
        if is_holder || (is_waiting && is_assignee) {
            return Ok(());
        }
        Err(self.claim_lost(open, &session.id)?)
    }

    fn check_target(&mut self, open: &OpenTask, target: &AgentId) -> Result<(), PmFault> {
        self.tx.agent_get(target)?.check_active()?;
        let member = self.tx.membership_find(&open.project.id, target)?;
        match member {
            Some(member) if member.role.may(Power::Work) => Ok(()),
            _ => Err(PmFault::invalid(format!("{target} does not work in this project"))
                .advise(FaultAdvice::LeaveTargetOut)
                .with("field", "to_agent_id")),
        }
    }

    fn new_handoff(&self, open: &OpenTask, session: &AgentSession, wish: &CreateHandoff) -> Handoff {
        Handoff {
            id: HandoffId::mint(Tx::bits()),
            task_id: open.task.id.clone(),
            project_id: open.project.id.clone(),
            from_agent_id: session.agent_id.clone(),
            from_session_id: Some(session.id.clone()),
            to_agent_id: wish.to_agent_id.clone(),
            kind: HandoffKind::Manual,
            summary: wish.summary.clone(),
            next_steps: wish.next_steps.clone(),
            warnings: wish.warnings.clone(),
            done: wish.done.clone(),
            uncertain: wish.uncertain.clone(),
            // The last checkpoint's work tree is better than none.
            git: wish.git.clone().or_else(|| open.claim.as_ref().and_then(|claim| claim.git.clone())),
            status: HandoffStatus::Pending,
            accepted_by: None,
            accepted_session_id: None,
            accepted_at: None,
            reason: None,
            expires_at: self.tx.now.plus_seconds(open.project.policy.handoff_ttl_s),
            created_at: self.tx.now,
            version: 1,
        }
    }

    /// A handoff in a project of the caller's, with its task opened. The handoff is read after the task is locked.
    fn handoff_to_answer(&mut self, id: &HandoffId) -> Result<(Handoff, OpenTask), PmFault> {
        // A handoff of another project must look as if it did not exist.
        let hidden = |_| PmFault::not_found("handoff", id);
        let seen = self.tx.handoff_get(id)?;
        self.role(&seen.project_id).map_err(hidden)?;
        let open = self.task_to_change(&seen.task_id.into(), Power::HandOff)?;
        let open = self.without_due_handoff(&open)?;
        Ok((self.tx.handoff_get(id)?, open))
    }

    /// A task whose handoff has waited for too long is opened without it, for good.
    pub(super) fn without_due_handoff(&mut self, open: &OpenTask) -> Result<OpenTask, PmFault> {
        let now = self.tx.now;
        let due = self.tx.handoff_pending(&open.task.id)?.filter(|handoff| handoff.is_due(now));
        let Some(handoff) = due else { return Ok(open.clone()) };
        let is_first = !self.tx.is_changed();
        let task = self.expire_handoff(&open.task, &handoff)?;
        if is_first {
            self.tx.keep()?;
        }
        Ok(OpenTask { task, ..open.clone() })
    }

    /// Ends a handoff that was not accepted in time. The event is the system's, not the caller's that noticed.
    pub(super) fn expire_handoff(&mut self, task: &Task, handoff: &Handoff) -> Result<Task, PmFault> {
        let expired = handoff.answered(HandoffAnswer::Expire)?;
        // The expiry is not signed by the caller that happened to notice it.
        let system = EventStamp { session: handoff.from_session_id.clone(), ..EventStamp::default() };
        let caller = std::mem::replace(&mut self.tx.stamp, system);
        self.tx.update(handoff, expired, EventKind::HandoffExpired.note())?;
        let task = self.free_for_all(task, handoff, "the handoff was not accepted in time")?;
        let text = format!("your handoff of {} was not accepted in time", task.reference);
        self.tx.notice_add(&handoff.from_agent_id, NoticeKind::HandoffExpired, handoff.id.as_str(), &text)?;
        self.tx.stamp = caller;
        Ok(task)
    }
}

/// Takes a handoff and with it the task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptHandoff {
    /// hnd_…
    #[schemars(extend("ja" = "ハンドオフID"))]
    pub handoff_id: HandoffId,
    /// to the sender
    #[schemars(extend("ja" = "メモ"))]
    pub note: Option<String>,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AcceptedHandoff {
    pub handoff: HandoffView,
    /// The hold on the task.
    pub claim: ClaimView,
    pub task: TaskView,
    /// What is known: decisions first.
    pub contexts: Vec<ContextEntry>,
    /// The session that holds it.
    pub session_id: SessionId,
    /// What was cut besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Action for AcceptHandoff {
    const NAME: &'static str = "accept_handoff";
    const EFFECT: ActionEffect = ActionEffect::WriteAfterSweep;
    type Output = AcceptedHandoff;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AcceptedHandoff, PmFault> {
        let session = context.session(self.session_id.as_ref())?;
        let (handoff, open) = context.handoff_to_answer(&self.handoff_id)?;
        handoff.answered(HandoffAnswer::Accept)?;
        // Before the grant, whose refusal would tell who holds the task.
        check_for_me(&handoff, &session.agent_id)?;
        let grant = context.grant(&session, &open, None)?;
        if let Some(note) = &self.note {
            add_note(context, &open, Some(&session), note)?;
        }
        let ClaimedTask { claim, task, handoff, contexts, session_id, truncated, .. } = claimed(&session, grant);
        match (claim, task, handoff) {
            (Some(claim), Some(task), Some(handoff)) => {
                Ok(AcceptedHandoff { handoff, claim, task, contexts, session_id, truncated })
            }
            _ => Err(PmFault::internal("a granted handoff has a claim, a task and itself")),
        }
    }
}

fn check_for_me(handoff: &Handoff, agent: &AgentId) -> Result<(), PmFault> {
    if handoff.is_for(agent) {
        return Ok(());
    }
    Err(PmFault::new(Code::HandoffNotForYou, "this handoff is for another agent")
        .with("to_agent_id", &handoff.to_agent_id))
}

/// Says no to a handoff; the task is then free for everybody.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectHandoff {
    /// hnd_…
    #[schemars(extend("ja" = "ハンドオフID"))]
    pub handoff_id: HandoffId,
    /// why
    #[schemars(extend("ja" = "理由"))]
    pub reason: String,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

impl Action for RejectHandoff {
    const NAME: &'static str = "reject_handoff";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = CreatedHandoff;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<CreatedHandoff, PmFault> {
        limit::chars("reason", &self.reason, 1, 2000)?;
        let agent = context.agent()?;
        let (handoff, open) = context.handoff_to_answer(&self.handoff_id)?;
        // The status is checked first: a handoff that is over cannot be rejected.
        let rejected = Handoff { reason: Some(self.reason.clone()), ..handoff.answered(HandoffAnswer::Reject)? };
        // A manager may reject a handoff on behalf of an agent that does not answer.
        if !open.role.may(Power::Manage) {
            check_for_me(&handoff, &agent.id)?;
        }
        let rejected = context.tx.update(&handoff, rejected, EventKind::HandoffRejected.because(Some(&self.reason)))?;
        let task = context.free_for_all(&open.task, &handoff, "handoff rejected")?;
        let text = format!("{} rejected your handoff of {}: {}", agent.id, task.reference, self.reason);
        context.tx.notice_add(&handoff.from_agent_id, NoticeKind::HandoffRejected, handoff.id.as_str(), &text)?;
        let handoff = HandoffView::within(rejected, LIST_BYTES);
        Ok(CreatedHandoff { handoff, task: TaskView::brief(&task), session_id: None })
    }
}

impl ActionContext<'_, '_> {
    /// A task whose handoff came to nothing is ready for everybody again.
    pub(super) fn free_for_all(&mut self, task: &Task, handoff: &Handoff, reason: &str) -> Result<Task, PmFault> {
        // The task was assigned to another agent in between, or to none at all.
        if handoff.to_agent_id.is_none() || task.assignee_id != handoff.to_agent_id {
            return Ok(task.clone());
        }
        let freed = Task { assignee_id: None, ..task.clone() };
        self.tx.task_update(task, freed, EventKind::TaskUnassigned.because(Some(reason)))
    }
}

/// Lists handoffs that wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GetPendingHandoffs {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// for anyone; true
    #[schemars(extend("ja" = "宛先なしも含む", "rare" = true))]
    pub include_open: Option<bool>,
    /// yours instead
    #[schemars(extend("ja" = "自分が送った分", "rare" = true))]
    pub sent: bool,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
    /// next_cursor
    #[schemars(extend("ja" = "続き"))]
    pub cursor: Option<String>,
}

/// Handoffs that wait, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PendingHandoffs {
    /// The handoffs, their texts cut if they are long.
    pub handoffs: Vec<HandoffView>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Action for GetPendingHandoffs {
    const NAME: &'static str = "get_pending_handoffs";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = PendingHandoffs;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<PendingHandoffs, PmFault> {
        let agent = context.agent()?;
        let projects = context.projects(self.project_id.as_ref())?;
        let (at, id) = place::<(Moment, String)>(self.cursor.as_deref())?.unwrap_or_default();
        let most = rows(self.limit)? + 1;
        // The two lists have the same order and cursor.
        let found = if self.sent {
            context.tx.handoff_from(&agent.id, &projects, (at, &id), most)?
        } else {
            context.tx.handoff_for(&agent.id, &projects, self.include_open.unwrap_or(true), (at, &id), most)?
        };
        let short = found.into_iter().map(|one| HandoffView::within(one, LIST_BYTES)).collect();
        let (handoffs, has_more): (Vec<HandoffView>, bool) = page(short, self.limit)?;
        let next_cursor = handoffs.last().filter(|_| has_more).map(|last| cursor(&(last.created_at, &last.id)));
        Ok(PendingHandoffs { handoffs, next_cursor })
    }
}
