//! Taking a task and giving it back.

use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::lease::LeaseGrant;
use super::status::StatusChange;
use super::truncate::{HandoffView, contexts_within};
use super::view::{ClaimView, TaskView};
use super::{Action, ActionEffect};
use crate::domain::claim::Claim;
use crate::domain::context::ContextEntry;
use crate::domain::fault::PmFault;
use crate::domain::id::{ProjectId, SessionId, TaskRef};
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClaimTask {
    /// Which one; the best ready one when unset.
    pub task_id: Option<TaskRef>,
    /// Where to look for one.
    pub project_id: Option<ProjectId>,
    /// With which labels.
    pub labels: Vec<String>,
    /// How long it may be idle; the project's usual time when unset.
    pub ttl_seconds: Option<i64>,
    /// For which session.
    pub session_id: Option<SessionId>,
    /// The same key has one effect.
    pub idempotency_key: Option<String>,
}

/// What was taken. Nothing being ready is not an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// Whether something was taken.
    pub claimed: bool,
    /// The session that holds it.
    pub session_id: SessionId,
    /// The hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    /// The task.
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
    type ErasedOutput = ClaimedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<ClaimedTask, PmFault> {
        check_ttl(self.ttl_seconds)?;
        let session = desk.session(self.session_id.as_ref())?;
        let open = match &self.task_id {
            Some(name) => Some(desk.task_to_change(name, Power::Work)?),
            None => self.next(desk, &session)?,
        };
        match open {
            Some(open) => {
                let grant = desk.grant(&session, &open, self.ttl_seconds)?;
                desk.claimed(&session, grant)
            }
            None => Ok(nothing_ready(&session)),
        }
    }
}

impl ClaimTask {
    /// The best ready task of the projects in question, locked. One that the session already holds comes first: an
    /// agent that asks for work after a restart should go on, not begin something new.
    fn next(&self, desk: &mut ActionContext<'_, '_>, session: &AgentSession) -> Result<Option<OpenTask>, PmFault> {
        let (held, places) = self.prospects(desk, session)?;
        if let Some(open) = self.in_hand(desk, session, held)? {
            return Ok(Some(open));
        }
        if let Some(open) = self.best(desk, &places)? {
            return Ok(Some(open));
        }
        // What dead agents held is work too, also when nobody has swept yet.
        let projects: Vec<ProjectId> = places.iter().map(|place| place.project_id.clone()).collect();
        match desk.expire_due(Some(&projects))? {
            0 => Ok(None),
            _ => self.best(desk, &places),
        }
    }

    /// What the session holds, and where its agent may take work.
    fn prospects(
        &self,
        desk: &mut ActionContext<'_, '_>,
        session: &AgentSession,
    ) -> Result<(Vec<Claim>, Vec<WorkSource>), PmFault> {
        if let (None, Some(agent)) = (&self.project_id, desk.caller.bound_agent()) {
            let (held, memberships) = desk.tx.claim_of_session_and_places(&session.id, agent)?;
            let able = memberships.into_iter().filter(|one| one.role.may(Power::Work));
            return Ok((
                held,
                able.map(|one| WorkSource { project_id: one.project_id, role: Some(one.role) }).collect(),
            ));
        }
        let held = desk.tx.claim_of_session(&session.id)?;
        let projects = match &self.project_id {
            Some(id) => vec![id.clone()],
            None => desk.projects_of_all(Power::Work)?,
        };
        Ok((held, projects.into_iter().map(|project_id| WorkSource { project_id, role: None }).collect()))
    }

    fn in_hand(
        &self,
        desk: &mut ActionContext<'_, '_>,
        session: &AgentSession,
        held: Vec<Claim>,
    ) -> Result<Option<OpenTask>, PmFault> {
        if held.is_empty() || !self.labels.is_empty() {
            return Ok(None);
        }
        let projects = desk.projects(self.project_id.as_ref())?;
        for claim in held {
            if projects.contains(&claim.project_id) {
                let open = desk.task_to_change(&claim.task_id.into(), Power::Work)?;
                if open.claim.as_ref().is_some_and(|claim| claim.session_id == session.id) {
                    return Ok(Some(open));
                }
            }
        }
        Ok(None)
    }

    fn best(&self, desk: &mut ActionContext<'_, '_>, places: &[WorkSource]) -> Result<Option<OpenTask>, PmFault> {
        let agent = desk.agent()?;
        let capabilities = Some(agent.capabilities.as_slice());
        let pick = ReadyPick { agent: &agent.id, capabilities, labels: &self.labels };
        let projects = places.iter().map(|place| place.project_id.clone()).collect();
        for id in desk.best_first(&pick, projects)? {
            let known = places.iter().find(|place| place.project_id == id).and_then(|place| place.role);
            let role = known.map_or_else(|| desk.role(&id), Ok)?;
            let (project, first) = desk.tx.project_share_and_ready(&pick, &id)?;
            role.check(Power::Work)?;
            project.check_writable()?;
            project.check_workable()?;
            if let Some(task) = first.map_or_else(|| look_again(desk, &pick, &id), |task| Ok(Some(task)))? {
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

/// Locks the best ready task after none was found: others may hold every candidate right now.
fn look_again(
    desk: &mut ActionContext<'_, '_>,
    pick: &ReadyPick<'_>,
    project: &ProjectId,
) -> Result<Option<Task>, PmFault> {
    for look in 1..LOOKS {
        if desk.tx.task_ready(pick, project, 1)?.is_empty() {
            return Ok(None);
        }
        std::thread::sleep(std::time::Duration::from_micros(rand::random_range(500..2_000 << look)));
        if let Some(task) = desk.tx.task_ready_lock(pick, project)? {
            return Ok(Some(task));
        }
    }
    Ok(None)
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

impl ActionContext<'_, '_> {
    /// The answer to a successful claim: the task and all the next holder should know.
    pub(super) fn claimed(&mut self, session: &AgentSession, grant: LeaseGrant) -> Result<ClaimedTask, PmFault> {
        let (contexts, is_cut) = contexts_within(grant.contexts, CONTEXT_BYTES);
        Ok(ClaimedTask {
            claimed: true,
            session_id: session.id.clone(),
            claim: Some(ClaimView::new(&grant.claim)),
            task: Some(TaskView::within(&grant.task, 4 * limit::KIB)),
            handoff: grant.handoff.map(|handoff| HandoffView::within(handoff, HANDOFF_BYTES)),
            contexts,
            truncated: if is_cut { vec!["contexts".to_owned()] } else { Vec::new() },
            hint: None,
        })
    }
}

/// Gives a task back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseTask {
    /// Which one.
    pub task_id: TaskRef,
    /// Why.
    pub reason: String,
    /// What the next one should know; kept as context.
    pub note: Option<String>,
    /// From which session.
    pub session_id: Option<SessionId>,
    /// The same key has one effect.
    pub idempotency_key: Option<String>,
}

/// A task that was given back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleasedTask {
    /// The task.
    pub task: TaskView,
    /// The session that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

impl Action for ReleaseTask {
    const NAME: &'static str = "release_task";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type ErasedOutput = ReleasedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<ReleasedTask, PmFault> {
        limit::chars("reason", &self.reason, 1, 2000)?;
        let session = desk.session(self.session_id.as_ref())?;
        let open = desk.task_to_change(&self.task_id, Power::Work)?;
        desk.held(&open, &session)?;
        if let Some(note) = &self.note {
            desk.add_note(&open, Some(&session), note)?;
        }
        let change = StatusChange { to: TaskStatus::Todo, reason: Some(&self.reason), result: None };
        let task = desk.change_status(&open, Some(&session.id), &change)?;
        Ok(ReleasedTask { task: TaskView::brief(&task), session_id: Some(session.id) })
    }
}
