//! Beginning and ending a stretch of work, and the signs of life in between.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::handoff::CreateHandoff;
use super::status::StatusChange;
use super::truncate::HandoffView;
use super::view::{ClaimView, TaskRow};
use super::{Action, ActionEffect};
use crate::domain::claim::Claim;
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::handoff::GitState;
use crate::domain::id::{AgentId, HandoffId, ProjectRef, SessionId, TaskId, TaskRef};
use crate::domain::limit;
use crate::domain::permission::Power;
use crate::domain::policy::ProjectPolicy;
use crate::domain::session::{self, AgentSession, EndKind, LifeSignal, SessionState};
use crate::domain::task::{Task, TaskStatus};
use crate::domain::time::Moment;
use crate::store::tx::ReadyPick;

/// How much of each pending handoff a new session sees.
const HANDOFF_BYTES: usize = 2 * limit::KIB;

/// How many ready tasks a new session sees.
const PREVIEW: i64 = 5;

/// Begins a session, perhaps taking over from an earlier one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StartSession {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// about you
    #[schemars(extend("ja" = "説明", "rare" = true))]
    pub client_note: Option<String>,
    /// session to resume
    #[schemars(extend("ja" = "再開元"))]
    pub resume: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

/// A session that began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartedSession {
    pub session_id: SessionId,
    /// The holds it took over.
    pub resumed_claims: Vec<ClaimView>,
    /// Handoffs that wait for the agent.
    pub pending_handoffs: Vec<HandoffView>,
    /// What could be done.
    pub ready_preview: Vec<TaskRow>,
    pub policy: ProjectPolicy,
    /// How long things last.
    pub note: String,
}

impl Action for StartSession {
    const NAME: &'static str = "start_session";
    const EFFECT: ActionEffect = ActionEffect::WriteAfterSweep;
    type Output = StartedSession;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<StartedSession, PmFault> {
        limit::chars("client_note", self.client_note.as_deref().unwrap_or(""), 0, 500)?;
        let agent = context.agent()?;
        let projects = context.projects(self.project_id.as_ref())?;
        // Locked before the new session exists: two resumes of one session wait for each other.
        let old = self.resume.as_ref().map(|id| context.session_to_resume(id)).transpose()?;
        let named = context.project_id_if_named(self.project_id.as_ref())?;
        let project_id = named.or_else(|| old.as_ref().and_then(|one| one.project_id.clone()));
        let session = context.session_begin(project_id.clone(), self.client_note.clone(), self.resume.clone())?;
        let resumed = match &old {
            Some(old) => context.take_over(old, &session)?,
            None => Vec::new(),
        };
        // Without a project the first one's rules are as good a guess as any.
        let policy = match project_id.as_ref().or(projects.first()) {
            Some(id) => context.tx.project_get(id)?.policy,
            None => ProjectPolicy::default(),
        };
        let pending = context.tx.handoff_for(&agent.id, &projects, true, (Moment(0), ""), 5)?;
        // A preview of what `claim_task` would choose from.
        let pick = ReadyPick { agent: &agent.id, capabilities: Some(&agent.capabilities), labels: &[] };
        let at_work = context.projects_at_work(self.project_id.as_ref())?;
        let ready = context.ready(&pick, &at_work, PREVIEW)?;
        Ok(StartedSession {
            session_id: session.id,
            resumed_claims: resumed.iter().map(ClaimView::new).collect(),
            pending_handoffs: pending.into_iter().map(|one| HandoffView::within(one, HANDOFF_BYTES)).collect(),
            ready_preview: ready.iter().map(TaskRow::new).collect(),
            note: format!("sessions end after 12 h without a call; claims after {} s", policy.claim_idle_ttl_s),
            policy,
        })
    }
}

impl ActionContext<'_, '_> {
    fn session_to_resume(&mut self, id: &SessionId) -> Result<AgentSession, PmFault> {
        let old = self.session_mine(id)?;
        session::next(old.state, LifeSignal::Resume).map_err(|fault| fault.with("session_id", id))?;
        Ok(old)
    }

    /// Moves the holds of an old session to a new one, each under a new fence, and ends the old one.
    fn take_over(&mut self, old: &AgentSession, new: &AgentSession) -> Result<Vec<Claim>, PmFault> {
        let mut taken = Vec::new();
        for claim in self.tx.claim_of_session(&old.id)? {
            let open = self.task_to_change(&claim.task_id.clone().into(), Power::Read)?;
            // Opening the task may have ended an expired claim.
            let Some(claim) = open.claim.filter(|live| live.id == claim.id) else { continue };
            // The old process may still run: its writes are stale from here on.
            let fence = open.task.fence + 1;
            self.tx.stamp.claim = Some(claim.id.clone());
            let task = Task { fence, ..open.task.clone() };
            self.tx.task_update(&open.task, task, EventKind::TaskResumed.note())?;
            let rebound = Claim { session_id: new.id.clone(), fence, ..claim.renewed(self.tx.now) };
            taken.push(self.tx.update(&claim, rebound, EventKind::ClaimResumed.note())?);
        }
        // What follows is about the session, not about the last claim.
        self.tx.stamp.claim = None;
        let ended = AgentSession {
            state: session::next(old.state, LifeSignal::Resume)?,
            ended_at: Some(self.tx.now),
            end_kind: Some(EndKind::Resumed),
            ..old.clone()
        };
        self.tx.update(old, ended, EventKind::SessionResumed.note())?;
        Ok(taken)
    }
}

/// A handoff written at the end of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndHandoff {
    pub task_id: TaskRef,
    /// The receiver; any agent when unset.
    pub to_agent_id: Option<AgentId>,
    /// What was done and where things stand.
    pub summary: String,
    /// What to do next.
    pub next_steps: Vec<String>,
}

/// Ends a session: its tasks are handed over, kept for a successor, or given back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndSession {
    /// what was done
    #[schemars(extend("ja" = "セッションサマリ"))]
    pub summary: String,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// to hand over
    #[serde(default)]
    #[schemars(extend("ja" = "引継ぎ"))]
    pub handoffs: Vec<EndHandoff>,
    /// for a resume
    #[serde(default)]
    #[schemars(extend("ja" = "維持"))]
    pub keep_claims: bool,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

/// How a session ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndedSession {
    /// Whether it is over.
    pub ended: bool,
    pub session_id: SessionId,
    /// The tasks it gave back.
    pub released: Vec<TaskId>,
    /// The handoffs it left.
    pub handoffs: Vec<HandoffId>,
    /// The tasks that wait for a successor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<TaskId>,
}

impl Action for EndSession {
    const NAME: &'static str = "end_session";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = EndedSession;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<EndedSession, PmFault> {
        limit::bytes("summary", &self.summary, 1, limit::SUMMARY)?;
        let named = self.session_id.clone().or_else(|| context.caller.default_session.clone());
        // Ending twice returns the first answer, so that a retry is safe without a key.
        if let Some(first) = named.as_ref().map(|id| context.first_end(id)).transpose()?.flatten() {
            return Ok(first);
        }
        let session = context.session_if_any(self.session_id.as_ref())?;
        let session = session.ok_or_else(|| {
            PmFault::new(Code::SessionRequired, "you have no active session").hint("there is nothing to end")
        })?;
        // Opens all before changing any: see below.
        self.open_all(context, &session)?;
        let handoffs = self.hand_over(context, &session)?;
        let (released, kept) = self.let_go(context, &session)?;
        context.finish_session(
            &session,
            EndKind::Tool,
            &self.summary,
            EndedSession { ended: kept.is_empty(), session_id: session.id.clone(), released, handoffs, kept },
        )
    }
}

impl EndSession {
    /// Opens every task that is handed over or given back before any of them changes, always in the same order: a
    /// lease that is over ends here, and stays ended although the rest may be refused.
    fn open_all(&self, context: &mut ActionContext<'_, '_>, session: &AgentSession) -> Result<(), PmFault> {
        let held = context.tx.claim_of_session(&session.id)?.into_iter().map(|claim| claim.task_id);
        // A sorted set: locks are always taken in the same order.
        let mut ids: BTreeSet<TaskId> = held.collect();
        for one in &self.handoffs {
            ids.insert(context.task_to_read(&one.task_id)?.id);
        }
        ids.into_iter().try_for_each(|id| context.task_to_change(&id.into(), Power::Read).map(drop))
    }

    fn hand_over(
        &self,
        context: &mut ActionContext<'_, '_>,
        session: &AgentSession,
    ) -> Result<Vec<HandoffId>, PmFault> {
        let mut ids = Vec::new();
        for one in &self.handoffs {
            let wish = CreateHandoff {
                to_agent_id: one.to_agent_id.clone(),
                ..CreateHandoff::of(one.task_id.clone(), one.summary.clone(), one.next_steps.clone())
            };
            // The same rules as for `create_handoff`.
            ids.push(context.hand_over(session, &wish)?.0.id);
        }
        Ok(ids)
    }

    fn let_go(
        &self,
        context: &mut ActionContext<'_, '_>,
        session: &AgentSession,
    ) -> Result<(Vec<TaskId>, Vec<TaskId>), PmFault> {
        let held: Vec<TaskId> =
            context.tx.claim_of_session(&session.id)?.into_iter().map(|claim| claim.task_id).collect();
        if self.keep_claims {
            return Ok((Vec::new(), held));
        }
        Ok((context.release_all(session, "the session ended")?, Vec::new()))
    }
}

impl ActionContext<'_, '_> {
    /// What the first `end_session` answered, when there was one.
    fn first_end(&mut self, id: &SessionId) -> Result<Option<EndedSession>, PmFault> {
        let session = self.session_mine(id)?;
        match session.end_result.filter(|_| session.state == SessionState::Ended) {
            Some(result) => {
                serde_json::from_value(result).map(Some).map_err(|error| PmFault::internal(error.to_string()))
            }
            None => Ok(None),
        }
    }

    /// Gives back everything a session holds.
    pub(super) fn release_all(&mut self, session: &AgentSession, reason: &str) -> Result<Vec<TaskId>, PmFault> {
        let mut released = Vec::new();
        for claim in self.tx.claim_of_session(&session.id)? {
            let open = self.task_to_change(&claim.task_id.clone().into(), Power::Read)?;
            if open.claim.as_ref().is_none_or(|live| live.id != claim.id) {
                continue;
            }
            let change = StatusChange { to: TaskStatus::Todo, reason: Some(reason), result: None };
            self.change_status(&open, Some(&session.id), &change)?;
            released.push(claim.task_id);
        }
        self.tx.stamp.claim = None;
        Ok(released)
    }

    /// Ends a session, or, when it keeps claims for a successor, leaves it disconnected for as long as they wait.
    fn finish_session(
        &mut self,
        session: &AgentSession,
        kind: EndKind,
        summary: &str,
        ended: EndedSession,
    ) -> Result<EndedSession, PmFault> {
        // A session that keeps claims only disconnects; they wait for a successor.
        let signal = if ended.kept.is_empty() { LifeSignal::End } else { LifeSignal::Disconnect };
        let state = session::next(session.state, signal)?;
        // Stored with the session, for a repeated call.
        let result = serde_json::to_value(&ended).map_err(|error| PmFault::internal(error.to_string()))?;
        let after = AgentSession {
            state,
            ended_at: (state == SessionState::Ended).then_some(self.tx.now),
            disconnected_at: (state == SessionState::Disconnected).then_some(self.tx.now),
            end_kind: Some(kind),
            summary: Some(summary.to_owned()),
            end_result: Some(result),
            ..session.clone()
        };
        let kind = if state == SessionState::Ended { EventKind::SessionEnded } else { EventKind::SessionDisconnected };
        self.tx.update(session, after, kind.note())?;
        Ok(ended)
    }
}

/// A sign of life from an agent: renews its leases and keeps its checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionHeartbeat {
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// all if unset
    #[schemars(extend("ja" = "対象タスク"))]
    pub task_ids: Vec<TaskRef>,
    /// where you are
    #[schemars(extend("ja" = "現在の状況"))]
    pub checkpoint: Option<String>,
    /// work tree
    #[schemars(extend("ja" = "作業ツリー", "rare" = true))]
    pub git: Option<GitState>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseStatus {
    pub task_id: TaskId,
    /// The fence of the grant.
    pub fence: i64,
    /// When it runs out now.
    pub expires_at: Moment,
    /// When it runs out in any case.
    pub deadline_at: Moment,
}

/// What a sign of life brought.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    pub session_id: SessionId,
    /// The leases that were renewed.
    pub leases: Vec<LeaseStatus>,
    /// The tasks that are no longer the session's, with the reason.
    pub lost: Vec<PmFault>,
}

impl Action for SessionHeartbeat {
    const NAME: &'static str = "heartbeat";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = HeartbeatAnswer;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<HeartbeatAnswer, PmFault> {
        limit::bytes("checkpoint", self.checkpoint.as_deref().unwrap_or(""), 0, 4 * limit::KIB)?;
        self.git.as_ref().map_or(Ok(()), GitState::check)?;
        let session = context.session(self.session_id.as_ref())?;
        let mut beat = HeartbeatAnswer { session_id: session.id.clone(), leases: Vec::new(), lost: Vec::new() };
        for name in self.tasks(context, &session)? {
            let open = context.task_to_change(&name, Power::Read)?;
            match context.held(&open, &session) {
                Ok(claim) => beat.leases.push(self.note(context, claim)?),
                // One lost claim must not keep the others from being renewed.
                Err(fault) if fault.code == Code::ClaimLost => beat.lost.push(fault),
                Err(fault) => return Err(fault),
            }
        }
        Ok(beat)
    }
}

impl SessionHeartbeat {
    fn tasks(&self, context: &mut ActionContext<'_, '_>, session: &AgentSession) -> Result<Vec<TaskRef>, PmFault> {
        if !self.task_ids.is_empty() {
            return Ok(self.task_ids.clone());
        }
        Ok(context.tx.claim_of_session(&session.id)?.into_iter().map(|claim| claim.task_id.into()).collect())
    }

    fn note(&self, context: &mut ActionContext<'_, '_>, claim: Claim) -> Result<LeaseStatus, PmFault> {
        let noted = Claim {
            checkpoint: self.checkpoint.clone().or_else(|| claim.checkpoint.clone()),
            git: self.git.clone().or_else(|| claim.git.clone()),
            ..claim.clone()
        };
        let claim = context.tx.update(&claim, noted, EventKind::ClaimCheckpoint.note())?;
        Ok(LeaseStatus {
            task_id: claim.task_id,
            fence: claim.fence,
            expires_at: claim.expires_at,
            deadline_at: claim.deadline_at,
        })
    }
}
