//! Who is at work: every live session of a project's people, what it holds, and how long its lease still runs.

use serde::{Deserialize, Serialize};

use super::super::action_context::ActionContext;
use super::super::{Action, ActionEffect};
use crate::action::board::board_of;
use crate::domain::claim::Claim;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ClaimId, ProjectRef, SessionId, TaskId};
use crate::domain::limit;
use crate::domain::project::Project;
use crate::domain::session::{AgentSession, SessionState};
use crate::domain::time::Moment;

/// Sessions that are listed.
const SESSIONS: i64 = 100;
/// How much of a checkpoint is shown.
const CHECKPOINT: usize = 600;

/// Who is at work in a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetCrew {
    pub project_id: ProjectRef,
}

/// A task that a session holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrewHold {
    pub id: ClaimId,
    pub task_id: TaskId,
    /// Its `KEY-n`.
    #[serde(rename = "ref")]
    pub reference: String,
    pub title: String,
    /// Its version, for a change of it.
    pub version: i64,
    pub project: String,
    /// The fence of this grant.
    pub fence: i64,
    pub acquired_at: Moment,
    /// When its holder last touched it.
    pub renewed_at: Moment,
    /// When it runs out.
    pub expires_at: Moment,
    /// What its holder last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrewMember {
    pub session_id: SessionId,
    pub agent_id: AgentId,
    /// Whether it works, or waits for its process.
    pub state: SessionState,
    /// What it works with.
    pub client_name: Option<String>,
    pub client_version: Option<String>,
    /// The project it was begun for, by key.
    pub project: Option<String>,
    pub started_at: Moment,
    /// When it was last heard.
    pub last_activity_at: Moment,
    pub holds: Vec<CrewHold>,
}

/// Who is at work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrewView {
    /// Holders first, then who was heard last.
    pub members: Vec<CrewMember>,
}

impl Action for GetCrew {
    const NAME: &'static str = "get_crew";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = CrewView;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<CrewView, PmFault> {
        let (project, _) = board_of(context, &self.project_id)?;
        let sessions = context.tx.board_sessions(&project.id, SESSIONS)?;
        let members = sessions.into_iter().map(|session| at_work(context, session, &project));
        Ok(CrewView { members: members.collect::<Result<_, _>>()? })
    }
}

fn at_work(
    context: &mut ActionContext<'_, '_>,
    session: AgentSession,
    project: &Project,
) -> Result<CrewMember, PmFault> {
    let held = context.tx.claim_of_session(&session.id)?;
    // What it does in projects that the caller does not see stays there.
    let here = held.into_iter().filter(|claim| claim.project_id == project.id);
    let holds = here.map(|claim| hold(context, claim, project)).collect::<Result<_, _>>()?;
    let is_here = session.project_id.as_ref() == Some(&project.id);
    Ok(CrewMember {
        project: is_here.then(|| project.key.clone()),
        session_id: session.id,
        agent_id: session.agent_id,
        state: session.state,
        client_name: session.client_name,
        client_version: session.client_version,
        started_at: session.started_at,
        last_activity_at: session.last_activity_at,
        holds,
    })
}

fn hold(context: &mut ActionContext<'_, '_>, claim: Claim, project: &Project) -> Result<CrewHold, PmFault> {
    let task = context.tx.task_get(&claim.task_id.clone().into())?;
    Ok(CrewHold {
        id: claim.id,
        task_id: task.id,
        reference: task.reference,
        title: limit::clip(&task.title, 120).0,
        version: task.version,
        project: project.key.clone(),
        fence: claim.fence,
        acquired_at: claim.acquired_at,
        renewed_at: claim.renewed_at,
        expires_at: claim.expires_at,
        checkpoint: claim.checkpoint.as_deref().map(|text| limit::clip(text, CHECKPOINT).0),
    })
}
