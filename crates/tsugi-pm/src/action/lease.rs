//! Granting, ending and losing a hold on a task: the only places where claims change.

use super::action_context::{ActionContext, OpenTask};
use super::view::TaskRow;
use crate::domain::advice::FaultAdvice;
use crate::domain::claim::{Claim, ClaimState, lease};
use crate::domain::context::ContextEntry;
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::handoff::{Handoff, HandoffAnswer, HandoffKind, HandoffStatus};
use crate::domain::id::{AgentId, ClaimId, HandoffId, SessionId};
use crate::domain::limit;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::denied;
use crate::domain::project::Project;
use crate::domain::session::AgentSession;
use crate::domain::task::{Task, TaskStatus, machine};
use crate::store::tx::{EventStamp, ReadyPick, Tx};

/// How many pieces of what is known come with a hold at most.
const CONTEXTS: i64 = 30;

/// A new hold on a task, and the handoff it answers.
pub(super) struct LeaseGrant {
    pub(super) task: Task,
    pub(super) claim: Claim,
    pub(super) handoff: Option<Handoff>,
    /// What is known of the task: decisions first.
    pub(super) contexts: Vec<ContextEntry>,
}

impl ActionContext<'_, '_> {
    /// Gives a session the hold on a task that is to be done, or says exactly why not. Holding it already is fine.
    pub(super) fn grant(
        &mut self,
        session: &AgentSession,
        open: &OpenTask,
        ttl_s: Option<i64>,
    ) -> Result<LeaseGrant, PmFault> {
        // A held task is refused below, by a fault that knows its holder.
        if open.claim.is_none() && open.task.status != TaskStatus::Todo {
            return Err(self.not_to_be_done(session, open)?);
        }
        self.grant_moved(session, open, ttl_s)
    }

    /// The same for a task whose move to `in_progress` the machine has allowed: also its assignee's blocked one.
    pub(super) fn grant_moved(
        &mut self,
        session: &AgentSession,
        open: &OpenTask,
        ttl_s: Option<i64>,
    ) -> Result<LeaseGrant, PmFault> {
        if let Some(claim) = &open.claim {
            return self.grant_again(session, open, claim);
        }
        let is_others = open.task.assignee_id.as_ref().is_some_and(|owner| *owner != session.agent_id);
        // An expired handoff may be why the task is assigned to another agent.
        let freed = if is_others { self.without_due_handoff(open)? } else { open.clone() };
        let brief = self.tx.task_brief(&freed.task.id, &session.id, CONTEXTS)?;
        // Everything that could refuse comes before the first change.
        self.check_grantable(&freed, brief.held)?;
        let (before, handoff) = self.answer_pending(session, freed.task, brief.handoff)?;
        let claim = self.new_claim(session, open, ttl_s);
        // Every event of this transaction from here on names the claim.
        self.tx.stamp.claim = Some(claim.id.clone());
        self.tx.insert(&claim, EventKind::ClaimGranted.note())?;
        let task = Task {
            status: TaskStatus::InProgress,
            assignee_id: Some(session.agent_id.clone()),
            fence: claim.fence,
            blocked_reason: None,
            // The first start counts, however often the task changes hands.
            started_at: before.started_at.or(Some(self.tx.now)),
            ..before.clone()
        };
        let task = self.tx.task_update(&before, task, EventKind::TaskClaimed.note())?;
        Ok(LeaseGrant { task, claim, handoff, contexts: brief.contexts })
    }

    /// Takes the handoff that waits on a task, unless it has waited for too long.
    fn answer_pending(
        &mut self,
        session: &AgentSession,
        task: Task,
        pending: Option<Handoff>,
    ) -> Result<(Task, Option<Handoff>), PmFault> {
        let now = self.tx.now;
        match pending {
            Some(handoff) if handoff.is_due(now) => Ok((self.expire_handoff(&task, &handoff)?, None)),
            Some(handoff) => self.accept(session, &handoff).map(|handoff| (task, Some(handoff))),
            None => Ok((task, None)),
        }
    }

    fn new_claim(&self, session: &AgentSession, open: &OpenTask, ttl_s: Option<i64>) -> Claim {
        let now = self.tx.now;
        let (ttl_s, expires_at, deadline_at) = lease(&open.project.policy, ttl_s, now);
        Claim {
            id: ClaimId::mint(Tx::bits()),
            task_id: open.task.id.clone(),
            project_id: open.project.id.clone(),
            session_id: session.id.clone(),
            agent_id: session.agent_id.clone(),
            // A higher fence makes every write of an earlier holder stale.
            fence: open.task.fence + 1,
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

    fn grant_again(&mut self, session: &AgentSession, open: &OpenTask, claim: &Claim) -> Result<LeaseGrant, PmFault> {
        if claim.session_id != session.id {
            return Err(self.already_claimed(open, claim)?);
        }
        let renewed = claim.renewed(self.tx.now);
        self.tx.touch(claim, &renewed)?;
        // A holder that asks again after a restart gets its handoff again.
        let handoff = self.tx.handoff_accepted(claim)?;
        let contexts = self.tx.context_of_task(&open.task.id, CONTEXTS)?;
        Ok(LeaseGrant { task: open.task.clone(), claim: renewed, handoff, contexts })
    }

    fn check_grantable(&mut self, open: &OpenTask, held: i64) -> Result<(), PmFault> {
        let (agent, task) = (self.agent()?, &open.task);
        // A paused project grants nothing, whatever the task says.
        open.project.check_workable()?;
        if let Some(owner) = task.assignee_id.as_ref().filter(|owner| **owner != agent.id) {
            return Err(self.not_yours(open, owner)?);
        }
        if task.open_blockers > 0 {
            return Err(self.not_ready(task)?);
        }
        // Last but one: the agent could never do this task, while the other reasons may pass.
        let lacking = agent.lacks(&task.required_capabilities);
        if !lacking.is_empty() {
            let message = format!("{} needs {}", task.reference, lacking.join(", "));
            return Err(denied(message, &lacking, Some(open.role)).hint("leave it to an agent with these capabilities"));
        }
        let most = open.project.policy.max_claims_per_session;
        if held >= most {
            return Err(PmFault::new(Code::ClaimLimit, format!("this session already holds {held} tasks"))
                .hint("finish, hand over or release one first")
                .with("held", held)
                .with("max", most));
        }
        Ok(())
    }

    fn not_to_be_done(&mut self, session: &AgentSession, open: &OpenTask) -> Result<PmFault, PmFault> {
        let standing = self.standing(open, Some(&session.id))?;
        let allowed = machine::allowed(open.task.status, &standing);
        let fault = PmFault::new(Code::InvalidTransition, format!("{} is {}", open.task.reference, open.task.status));
        let fault = match open.task.blocked_reason.as_ref().filter(|_| open.task.status == TaskStatus::Blocked) {
            Some(reason) => fault.advise(FaultAdvice::WaitUntilOver(reason.clone())),
            None => fault.hint("only tasks to be done can be claimed"),
        };
        Ok(fault.with("from", open.task.status).with("to", TaskStatus::InProgress).with("allowed", allowed))
    }

    fn not_yours(&mut self, open: &OpenTask, owner: &AgentId) -> Result<PmFault, PmFault> {
        let task = &open.task;
        if self.tx.handoff_pending(&task.id)?.is_some() {
            let message = format!("{} is being handed to {owner}", task.reference);
            return Ok(PmFault::new(Code::HandoffNotForYou, message).with("to_agent_id", owner));
        }
        Ok(denied(format!("{} is assigned to {owner}", task.reference), &["assignee"], Some(open.role))
            .hint("a manager can assign it to you")
            .with("assignee_id", owner))
    }

    fn not_ready(&mut self, task: &Task) -> Result<PmFault, PmFault> {
        let blockers = self.tx.dependency_blockers(&task.id, 10)?;
        let list: Vec<_> = blockers
            .iter()
            .map(|one| serde_json::json!({"id": one.id, "ref": one.reference, "status": one.status}))
            .collect();
        let names: Vec<&str> = blockers.iter().map(|one| one.reference.as_str()).collect();
        Ok(PmFault::new(Code::NotReady, format!("{} waits for {}", task.reference, names.join(", ")))
            .advise(FaultAdvice::TakePrerequisites)
            .with("blocked_by", list))
    }

    /// The loser learns who holds it, since when, until when, and what else could be done.
    fn already_claimed(&mut self, open: &OpenTask, claim: &Claim) -> Result<PmFault, PmFault> {
        let agent = self.agent()?;
        let pick = ReadyPick { agent: &agent.id, capabilities: Some(&agent.capabilities), labels: &[] };
        let others = match open.project.check_workable() {
            Ok(()) => self.tx.task_ready(&pick, &open.project.id, 3)?,
            Err(_) => Vec::new(),
        };
        let names: Vec<&str> = others.iter().map(|one| one.reference.as_str()).collect();
        let hint = match names.as_slice() {
            [] => "nothing else is ready now; get_ready_tasks says what is in the way".to_owned(),
            names => format!("claim one of these instead: {}", names.join(", ")),
        };
        let others: Vec<TaskRow> = others.iter().map(TaskRow::new).collect();
        Ok(PmFault::new(Code::AlreadyClaimed, format!("{} is held by {}", open.task.reference, claim.agent_id))
            .hint(hint)
            .with("holder", &claim.agent_id)
            .with("session_id", &claim.session_id)
            .with("since", claim.acquired_at)
            .with("expires_at", claim.expires_at)
            .with("alternatives", others))
    }

    /// Takes a pending handoff for a session; claiming a task means taking the handoff that waits on it.
    fn accept(&mut self, session: &AgentSession, handoff: &Handoff) -> Result<Handoff, PmFault> {
        let accepted = Handoff {
            accepted_by: Some(session.agent_id.clone()),
            accepted_session_id: Some(session.id.clone()),
            accepted_at: Some(self.tx.now),
            ..handoff.answered(HandoffAnswer::Accept)?
        };
        let text = format!("{} took your handoff", session.agent_id);
        self.tx.notice_add(&handoff.from_agent_id, NoticeKind::HandoffAccepted, handoff.id.as_str(), &text)?;
        self.tx.update(handoff, accepted, EventKind::HandoffAccepted.note())
    }

    /// The live claim of a session on a task, renewed; or `claim_lost`.
    pub(super) fn held(&mut self, open: &OpenTask, session: &AgentSession) -> Result<Claim, PmFault> {
        match &open.claim {
            Some(claim) if claim.session_id == session.id => {
                let renewed = claim.renewed(self.tx.now);
                self.tx.touch(claim, &renewed)?;
                self.tx.stamp.claim = Some(claim.id.clone());
                Ok(renewed)
            }
            _ => Err(self.claim_lost(open, &session.id)?),
        }
    }

    /// The refusal for a session that no longer holds a task.
    pub(super) fn claim_lost(&mut self, open: &OpenTask, session: &SessionId) -> Result<PmFault, PmFault> {
        // The reason is in the claim that the session had.
        let last = self.tx.claim_last_of_session(&open.task.id, session)?;
        let message = match &last {
            Some(claim) => format!("your claim on {} was {}", open.task.reference, claim.state),
            None => format!("this session does not hold {}", open.task.reference),
        };
        let other = open.claim.as_ref().filter(|claim| Some(&claim.agent_id) == self.agent_id());
        let fault = PmFault::new(Code::ClaimLost, message);
        let fault = match other {
            Some(claim) => fault.advise(FaultAdvice::NameHolder(claim.session_id.to_string())),
            None => fault.hint("stop working on it; claim it again if it is free, and look at what changed"),
        };
        Ok(fault
            .with("task_id", &open.task.id)
            .with("status", open.task.status)
            .with("fence", open.task.fence)
            .with("your_fence", last.as_ref().map(|claim| claim.fence))
            .with("reason", last.and_then(|claim| claim.end_reason))
            .with("holder", open.claim.as_ref().map(|claim| &claim.agent_id)))
    }

    /// Ends a claim; work that is finished completes the handoff it began with.
    pub(super) fn end_claim(&mut self, claim: &Claim, state: ClaimState, reason: &str) -> Result<Claim, PmFault> {
        let handoff = match state {
            ClaimState::Completed => self.tx.handoff_accepted(claim)?,
            _ => None,
        };
        if let Some(handoff) = handoff {
            self.tx.update(&handoff, handoff.answered(HandoffAnswer::Complete)?, EventKind::HandoffCompleted.note())?;
        }
        let ended = claim.ended(state, reason, self.tx.now)?;
        self.tx.update(claim, ended, EventKind::of_claim(state).because(Some(reason)))
    }

    /// Takes work back from a session that is gone or idle: the claim ends, the task is free, and what is known is
    /// left as an open handoff. The event is the system's, not the caller's that noticed.
    pub(crate) fn expire_claim(
        &mut self,
        task: &Task,
        claim: &Claim,
        project: &Project,
        reason: &str,
    ) -> Result<Task, PmFault> {
        let system = EventStamp { actor: None, session: Some(claim.session_id.clone()), claim: Some(claim.id.clone()) };
        // Restored below: the rest of the transaction is the caller's.
        let caller = std::mem::replace(&mut self.tx.stamp, system);
        self.end_claim(claim, ClaimState::Expired, reason)?;
        // Unassigned, so that any agent may continue.
        let freed = Task { status: TaskStatus::Todo, assignee_id: None, ..task.clone() };
        let task = self.tx.task_update(task, freed, EventKind::TaskExpired.because(Some(reason)))?;
        if self.tx.handoff_pending(&task.id)?.is_none() {
            let handoff = self.auto_handoff(&task, claim, project)?;
            self.tx.insert(&handoff, EventKind::HandoffCreated.because(Some(reason)))?;
            self.tx.handoff_index(&handoff, Some(&task))?;
        }
        let text = format!("your claim on {} ran out", task.reference);
        self.tx.notice_add(&claim.agent_id, NoticeKind::ClaimExpired, task.id.as_str(), &text)?;
        self.tx.stamp = caller;
        Ok(task)
    }

    fn auto_handoff(&mut self, task: &Task, claim: &Claim, project: &Project) -> Result<Handoff, PmFault> {
        let contexts = self.tx.context_since(&task.id, claim.acquired_at, 10)?;
        // The checkpoint first, then the newest note: an agent that vanished cannot be asked.
        let note = contexts.first().map(|one| one.content.clone());
        let nothing = || format!("the claim of {} ran out and left no checkpoint", claim.agent_id);
        let summary = claim.checkpoint.clone().or(note).unwrap_or_else(nothing);
        let done = contexts.iter().map(|one| limit::clip(&format!("{}: {}", one.kind, one.content), 400).0);
        Ok(Handoff {
            id: HandoffId::mint(Tx::bits()),
            task_id: task.id.clone(),
            project_id: task.project_id.clone(),
            from_agent_id: claim.agent_id.clone(),
            from_session_id: Some(claim.session_id.clone()),
            to_agent_id: None,
            kind: HandoffKind::Auto,
            summary: limit::clip(&summary, limit::SUMMARY).0,
            next_steps: Vec::new(),
            warnings: Vec::new(),
            done: done.collect(),
            uncertain: Vec::new(),
            git: claim.git.clone(),
            status: HandoffStatus::Pending,
            accepted_by: None,
            accepted_session_id: None,
            accepted_at: None,
            reason: None,
            expires_at: self.tx.now.plus_seconds(project.policy.handoff_ttl_s),
            created_at: self.tx.now,
            version: 1,
        })
    }

    /// Takes back the handoff that waits on a task, if one does.
    pub(super) fn withdraw_handoff(&mut self, task: &Task, reason: &str) -> Result<(), PmFault> {
        let Some(handoff) = self.tx.handoff_pending(&task.id)? else { return Ok(()) };
        let withdrawn = Handoff { reason: Some(reason.to_owned()), ..handoff.answered(HandoffAnswer::Withdraw)? };
        self.tx.update(&handoff, withdrawn, EventKind::HandoffWithdrawn.because(Some(reason))).map(drop)
    }
}
