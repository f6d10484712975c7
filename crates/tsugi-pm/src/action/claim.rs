//! Taking a task and giving it back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::lease::LeaseGrant;
use super::status::StatusChange;
use super::truncate::{HandoffView, contexts_within};
use super::view::{ClaimView, TaskView};
use super::{Action, ActionEffect};
use crate::action::context::add_note;
use crate::action::sweep::expire_due;
use crate::domain::claim::Claim;
use crate::domain::context::ContextEntry;
use crate::domain::fault::PmFault;
use crate::domain::id::{ProjectId, ProjectRef, SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::member::Role;
use crate::domain::permission::Power;
use crate::domain::session::AgentSession;
use crate::domain::task::{Task, TaskStatus};
use crate::store::tx::ReadyPick;

/// How much context comes with a claim.
const CONTEXT_BYTES: usize = 8 * limit::KIB;
/// How much of the handoff comes with a claim.
const HANDOFF_BYTES: usize = 8 * limit::KIB;
/// Looks at a list whose every entry another claimer holds at this moment, before saying that there is nothing.
const LOOKS: u32 = 3;

/// Takes a task, or the best one that is ready.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClaimTask {
    /// id or KEY-n
    #[schemars(extend("ja" = "省略時は最優先"))]
    pub task_id: Option<TaskRef>,
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// having all
    #[schemars(extend("ja" = "ラベル"))]
    pub labels: Vec<String>,
    /// idle time allowed
    #[schemars(extend("ja" = "有効秒数"))]
    pub ttl_seconds: Option<i64>,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

/// What was taken. Nothing being ready is not an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// Whether something was taken.
    pub claimed: bool,
    /// The session that holds it.
    pub session_id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskView>,
    /// What the one before left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffView>,
    /// What is known: decisions first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextEntry>,
    /// What was cut besides; `get_task` and `context://` have more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
    /// What to do when nothing was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Action for ClaimTask {
    const NAME: &'static str = "claim_task";
    const EFFECT: ActionEffect = ActionEffect::WriteAfterSweep;
    type Output = ClaimedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ClaimedTask, PmFault> {
        // Checked before a session is started for a call that is refused anyway.
        check_ttl(self.ttl_seconds)?;
        let session = context.session(self.session_id.as_ref())?;
        let open = match &self.task_id {
            Some(name) => Some(context.task_to_change(name, Power::Work)?),
            None => self.next(context, &session)?,
        };
        match open {
            Some(open) => {
                let grant = context.grant(&session, &open, self.ttl_seconds)?;
                Ok(claimed(&session, grant))
            }
            None => Ok(nothing_ready(&session)),
        }
    }
}

impl ClaimTask {
    /// The best ready task of the projects in question, locked. One that the session already holds comes first: an
    /// agent that asks for work after a restart should go on, not begin something new.
    fn next(&self, context: &mut ActionContext<'_, '_>, session: &AgentSession) -> Result<Option<OpenTask>, PmFault> {
        // One trip for both in the usual case.
        let (held, places) = self.prospects(context, session)?;
        if let Some(open) = self.in_hand(context, session, held)? {
            return Ok(Some(open));
        }
        if let Some(open) = self.best(context, &places)? {
            return Ok(Some(open));
        }
        // What dead agents held is ready too, even if no sweep has released it yet.
        let projects: Vec<ProjectId> = places.iter().map(|place| place.project_id.clone()).collect();
        match expire_due(context, Some(&projects))? {
            0 => Ok(None),
            _ => self.best(context, &places),
        }
    }

    /// What the session holds, and where its agent may take work.
    fn prospects(
        &self,
        context: &mut ActionContext<'_, '_>,
        session: &AgentSession,
    ) -> Result<(Vec<Claim>, Vec<WorkSource>), PmFault> {
        if let (None, Some(agent)) = (&self.project_id, context.caller.bound_agent()) {
            let (held, memberships) = context.tx.claim_of_session_and_places(&session.id, agent)?;
            // A viewer's projects give out no work.
            let able = memberships.into_iter().filter(|one| one.role.may(Power::Work));
            return Ok((
                held,
                able.map(|one| WorkSource { project_id: one.project_id, role: Some(one.role) }).collect(),
            ));
        }
        let held = context.tx.claim_of_session(&session.id)?;
        let projects = match &self.project_id {
            Some(name) => vec![context.project_id(name)?],
            None => context.projects_of_all(Power::Work)?,
        };
        Ok((held, projects.into_iter().map(|project_id| WorkSource { project_id, role: None }).collect()))
    }

    fn in_hand(
        &self,
        context: &mut ActionContext<'_, '_>,
        session: &AgentSession,
        held: Vec<Claim>,
    ) -> Result<Option<OpenTask>, PmFault> {
        // A caller that asks for labels wants new work, not what it has.
        if held.is_empty() || !self.labels.is_empty() {
            return Ok(None);
        }
        let projects = context.projects(self.project_id.as_ref())?;
        for claim in held {
            if projects.contains(&claim.project_id) {
                let open = context.task_to_change(&claim.task_id.into(), Power::Work)?;
                if open.claim.as_ref().is_some_and(|claim| claim.session_id == session.id) {
                    return Ok(Some(open));
                }
            }
        }
        Ok(None)
    }

    fn best(&self, context: &mut ActionContext<'_, '_>, places: &[WorkSource]) -> Result<Option<OpenTask>, PmFault> {
        let agent = context.agent()?;
        let capabilities = Some(agent.capabilities.as_slice());
        let pick = ReadyPick { agent: &agent.id, capabilities, labels: &self.labels };
        let projects = places.iter().map(|place| place.project_id.clone()).collect();
        for id in context.best_first(&pick, projects)? {
            let known = places.iter().find(|place| place.project_id == id).and_then(|place| place.role);
            let role = known.map_or_else(|| context.role(&id), Ok)?;
            // The task comes locked: from here on no other claimer can take it.
            let (project, first) = context.tx.project_share_and_ready(&pick, &id)?;
            role.check(Power::Work)?;
            project.check_writable()?;
            // A paused project gives out nothing.
            project.check_workable()?;
            if let Some(task) = first.map_or_else(|| none_unlocked(context, &pick, &id), |task| Ok(Some(task)))? {
                return Ok(Some(OpenTask { task, project, role, claim: None }));
            }
        }
        Ok(None)
    }
}

/// A project that may give out work, and the caller's role there where it is known already.
struct WorkSource {
    project_id: ProjectId,
    role: Option<Role>,
}

/// No ready task could be locked: either there is none, or other claimers hold every one right now. Then the transaction
/// runs again, a few times: they may be undone, and then there is work after all.
fn none_unlocked(
    context: &mut ActionContext<'_, '_>,
    pick: &ReadyPick<'_>,
    project: &ProjectId,
) -> Result<Option<Task>, PmFault> {
    let is_last = context.tx.attempt.number + 1 >= LOOKS;
    if is_last || context.tx.task_ready(pick, project, 1)?.is_empty() {
        return Ok(None);
    }
    Err(context.tx.overtaken("list of ready tasks"))
}

fn nothing_ready(session: &AgentSession) -> ClaimedTask {
    ClaimedTask {
        claimed: false,
        session_id: session.id.clone(),
        claim: None,
        task: None,
        handoff: None,
        contexts: Vec::new(),
        truncated: Vec::new(),
        hint: Some("nothing is ready for you; get_ready_tasks says what is in the way".to_owned()),
    }
}

fn check_ttl(ttl_seconds: Option<i64>) -> Result<(), PmFault> {
    match ttl_seconds {
        Some(ttl) if !(60..=86_400).contains(&ttl) => {
            Err(PmFault::invalid("`ttl_seconds` must be between 60 and 86400"))
        }
        _ => Ok(()),
    }
}

/// The answer to a successful claim: the task and all the next holder should know.
pub(super) fn claimed(session: &AgentSession, grant: LeaseGrant) -> ClaimedTask {
    let (contexts, is_cut) = contexts_within(grant.contexts, CONTEXT_BYTES);
    ClaimedTask {
        claimed: true,
        session_id: session.id.clone(),
        claim: Some(ClaimView::new(&grant.claim)),
        task: Some(TaskView::within(&grant.task, 4 * limit::KIB)),
        handoff: grant.handoff.map(|handoff| HandoffView::within(handoff, HANDOFF_BYTES)),
        contexts,
        // The caller learns that `get_task` has more.
        truncated: if is_cut { vec!["contexts".to_owned()] } else { Vec::new() },
        hint: None,
    }
}

/// Gives a task back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseTask {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// why
    #[schemars(extend("ja" = "理由"))]
    pub reason: String,
    /// for the next
    #[schemars(extend("ja" = "次の人へ"))]
    pub note: Option<String>,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

/// A task that was given back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleasedTask {
    pub task: TaskView,
    /// The session that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

impl Action for ReleaseTask {
    const NAME: &'static str = "release_task";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = ReleasedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ReleasedTask, PmFault> {
        limit::chars("reason", &self.reason, 1, 2000)?;
        let session = context.session(self.session_id.as_ref())?;
        let open = context.task_to_change(&self.task_id, Power::Work)?;
        context.held(&open, &session)?;
        if let Some(note) = &self.note {
            add_note(context, &open, Some(&session), note)?;
        }
        // Releasing is a move to `todo`, with everything that the status machine attaches to it.
        let change = StatusChange { to: TaskStatus::Todo, reason: Some(&self.reason), result: None };
        let task = context.change_status(&open, Some(&session.id), &change)?;
        Ok(ReleasedTask { task: TaskView::brief(&task), session_id: Some(session.id) })
    }
}
