//! Who is who: one's own profile, the agents, and the sessions that are alive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::view::{ClaimView, TaskRow, cursor, fit, page, place, rows};
use super::{Action, ActionEffect, Pm};
use crate::domain::advice::FaultAdvice;
use crate::domain::agent::{Agent, AgentStatus, AgentType};
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId, ProjectRef, SessionId};
use crate::domain::limit::{self, KIB};
use crate::domain::member::Membership;
use crate::domain::session::AgentSession;
use crate::domain::time::Moment;

/// Who am I?
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetMyProfile {}

/// The caller, where it belongs, and what it is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentProfile {
    pub agent: Agent,
    pub memberships: Vec<Membership>,
    pub sessions: Vec<AgentSession>,
    pub claims: Vec<ClaimView>,
    /// How many handoffs wait for it.
    pub pending_handoffs: usize,
}

impl Action for GetMyProfile {
    const NAME: &'static str = "get_my_profile";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = AgentProfile;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AgentProfile, PmFault> {
        let agent = context.agent()?;
        let memberships = context.tx.membership_of_agent(&agent.id)?;
        let projects: Vec<ProjectId> = memberships.iter().map(|one| one.project_id.clone()).collect();
        // Counted up to a hundred: the exact number of more does not matter.
        let pending = context.tx.handoff_for(&agent.id, &projects, true, Default::default(), 100)?;
        let instructions = limit::clip(&agent.instructions, 8 * KIB).0;
        Ok(AgentProfile {
            sessions: fit(context.tx.session_active(&agent.id)?, 6 * KIB).0,
            claims: context.tx.claim_of_agent(&agent.id)?.iter().take(30).map(ClaimView::new).collect(),
            memberships: fit(memberships, 4 * KIB).0,
            agent: Agent { instructions, ..agent },
            pending_handoffs: pending.len(),
        })
    }
}

/// Lists agents.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListAgents {
    /// id or key
    #[schemars(extend("ja" = "プロジェクトID"))]
    pub project_id: Option<ProjectRef>,
    /// only these
    #[schemars(extend("ja" = "状態"))]
    pub status: Option<AgentStatus>,
    /// can do this
    #[schemars(extend("ja" = "能力", "rare" = true))]
    pub capability: Option<String>,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
    /// next_cursor
    #[schemars(extend("ja" = "続き"))]
    pub cursor: Option<String>,
}

/// An agent in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentRow {
    pub id: AgentId,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: AgentType,
    pub role_title: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Whether it may act.
    pub status: AgentStatus,
    /// Whether it has an active session.
    pub online: bool,
    /// How many tasks it holds.
    pub live_claims: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentList {
    pub agents: Vec<AgentRow>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Action for ListAgents {
    const NAME: &'static str = "list_agents";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = AgentList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AgentList, PmFault> {
        let project = self.project_id.as_ref().map(|name| context.project_to_read(name)).transpose()?;
        let project_id = project.map(|project| project.id);
        let mut after: String = place(self.cursor.as_deref())?.unwrap_or_default();
        // One more than asked for tells whether there is a next page.
        let wanted = rows(self.limit)? + 1;
        let mut found = Vec::new();
        // The filters are rare and agents are few: read on until the page is full.
        while (found.len() as i64) < wanted {
            let batch = context.tx.agent_list(project_id.as_ref(), &after, 100)?;
            let Some(last) = batch.last() else { break };
            after = last.id.to_string();
            found.extend(batch.into_iter().filter(|agent| self.admits(agent)));
        }
        let list = found.into_iter().map(|agent| agent_row(context, agent)).collect::<Result<Vec<_>, _>>()?;
        let (agents, has_more) = page(list, self.limit)?;
        let next_cursor = agents.last().filter(|_| has_more).map(|last| cursor(&last.id));
        Ok(AgentList { agents, next_cursor })
    }
}

impl ListAgents {
    fn admits(&self, agent: &Agent) -> bool {
        self.status.is_none_or(|status| status == agent.status)
            && self.capability.as_ref().is_none_or(|one| agent.capabilities.contains(one))
    }
}

fn agent_row(context: &mut ActionContext<'_, '_>, agent: Agent) -> Result<AgentRow, PmFault> {
    // A session whose process is silent counts until a sweep disconnects it.
    let online = !context.tx.session_active(&agent.id)?.is_empty();
    let live_claims = context.tx.claim_of_agent(&agent.id)?.len();
    let Agent { id, name, kind, role_title, capabilities, status, .. } = agent;
    Ok(AgentRow { id, name, kind, role_title, capabilities, status, online, live_claims })
}

/// One agent, for the resource `agent://{id}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAgent {
    pub agent_id: AgentId,
}

impl Action for GetAgent {
    const NAME: &'static str = "get_agent";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = AgentRow;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AgentRow, PmFault> {
        let agent = context.tx.agent_get(&self.agent_id)?;
        agent_row(context, agent)
    }
}

impl Pm {
    /// The agent that a verified name stands for: an agent's id with or without `agt_`, or its name.
    pub async fn agent_named(&self, name: &str) -> Result<Option<AgentId>, PmFault> {
        let name = name.to_owned();
        let found = self.store().read(move |tx| {
            // Keys of the gateway are usually named without the prefix.
            for id in [name.clone(), format!("agt_{name}")] {
                if let Ok(id) = AgentId::parse(&id)
                    && let Some(agent) = tx.agent_find(&id)?
                {
                    return Ok(Some(agent));
                }
            }
            tx.agent_by_name(&name)
        });
        Ok(found.await?.map(|agent| agent.id))
    }
}

/// The sessions that are alive or whose claims wait, for people.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListSessions {
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
    /// next_cursor
    #[schemars(extend("ja" = "続き"))]
    pub cursor: Option<String>,
}

/// How many holds a session is shown with.
const MOST_HOLDS: usize = 20;

/// A session and what it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRow {
    pub session: AgentSession,
    pub claims: Vec<ClaimView>,
    /// The tasks of these claims, in the same order.
    #[serde(default)]
    pub tasks: Vec<TaskRow>,
    /// What it last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

/// Who is at work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionList {
    pub sessions: Vec<SessionRow>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Action for ListSessions {
    const NAME: &'static str = "list_sessions";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = SessionList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<SessionList, PmFault> {
        let projects = context.projects(None)?;
        let mut after: SessionCursor = place(self.cursor.as_deref())?;
        let wanted = rows(self.limit)? + 1;
        let mut found = Vec::new();
        // Others' sessions elsewhere are passed over: read on until the page is full.
        while (found.len() as i64) < wanted {
            let batch = context.tx.session_live(after.as_ref(), 100)?;
            let Some(last) = batch.last() else { break };
            after = Some((last.last_activity_at, last.id.to_string()));
            found.extend(batch.into_iter().filter(|session| may_see_session(context, session, &projects)));
        }
        // Rows cost several queries each, so they are made only for what is shown.
        found.truncate(usize::try_from(wanted).unwrap_or(0));
        let list = found.into_iter().map(|session| session_row(context, session)).collect::<Result<Vec<_>, _>>()?;
        let (sessions, has_more) = page(list, self.limit)?;
        let last = sessions.last().filter(|_| has_more).map(|row| &row.session);
        Ok(SessionList { next_cursor: last.map(|one| cursor(&(one.last_activity_at, &one.id))), sessions })
    }
}

/// A place in the list of sessions.
type SessionCursor = Option<(Moment, String)>;

/// One session of the caller's, for the resources `session://current` and `session://{id}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetSession {
    /// Which one; the one a call without a name would use when unset.
    pub session_id: Option<SessionId>,
}

impl Action for GetSession {
    const NAME: &'static str = "get_session";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = SessionRow;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<SessionRow, PmFault> {
        let id = context.session_id(self.session_id.as_ref())?;
        let id = id.ok_or_else(|| PmFault::not_found("session", "current").advise(FaultAdvice::BeginSession))?;
        let session = context
            .tx
            .session_find(&id)?
            .filter(|one| Some(&one.agent_id) == context.agent_id() || context.is_operator());
        let session = session.ok_or_else(|| PmFault::not_found("session", &id))?;
        session_row(context, session)
    }
}

fn may_see_session(context: &ActionContext<'_, '_>, session: &AgentSession, projects: &[ProjectId]) -> bool {
    let is_shared = session.project_id.as_ref().is_some_and(|one| projects.contains(one));
    context.is_operator() || is_shared || context.agent_id() == Some(&session.agent_id)
}

fn session_row(context: &mut ActionContext<'_, '_>, session: AgentSession) -> Result<SessionRow, PmFault> {
    let mut held = context.tx.claim_of_session(&session.id)?;
    let checkpoint = held.iter().rev().find_map(|claim| claim.checkpoint.as_deref());
    let checkpoint = checkpoint.map(|text| limit::clip(text, KIB).0);
    held.truncate(MOST_HOLDS);
    let summary = session.summary.as_deref().map(|text| limit::clip(text, KIB).0);
    // The stored answer of `end_session` is for repeated calls, and says nothing new here.
    let session = AgentSession { summary, end_result: None, ..session };
    let tasks = held.iter().map(|claim| Ok(TaskRow::new(&context.tx.task_get(&claim.task_id.clone().into())?)));
    let tasks = tasks.collect::<Result<Vec<_>, PmFault>>()?;
    Ok(SessionRow { session, claims: held.iter().map(ClaimView::new).collect(), tasks, checkpoint })
}
