//! Looking: one's own profile and tasks, what is ready, lists, and one task in full.

use serde::{Deserialize, Serialize};

use super::desk::Desk;
use super::view::{ClaimView, TaskRow, TaskView, contexts_within, cursor, fit, handoff_within, page, place, rows};
use super::{Action, Effect};
use crate::domain::agent::{Agent, AgentStatus};
use crate::domain::context::Context;
use crate::domain::event::Event;
use crate::domain::fault::Fault;
use crate::domain::handoff::Handoff;
use crate::domain::id::{AgentId, ProjectId, SessionId, TaskRef};
use crate::domain::limit::{self, KIB};
use crate::domain::member::Membership;
use crate::domain::session::Session;
use crate::domain::task::{Task, TaskSort, TaskStatus};
use crate::domain::word::words;
use crate::store::tx::{ReadyPick, TaskFilter};

/// Waiting tasks are counted up to here.
const COUNT_UP_TO: i64 = 100;

/// Who am I?
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetMyProfile {}

/// The caller, where it belongs, and what it is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The agent.
    pub agent: Agent,
    /// Where it belongs.
    pub memberships: Vec<Membership>,
    /// Its active sessions.
    pub sessions: Vec<Session>,
    /// What it holds.
    pub claims: Vec<ClaimView>,
    /// How many handoffs wait for it.
    pub pending_handoffs: usize,
}

impl Action for GetMyProfile {
    const NAME: &'static str = "get_my_profile";
    const EFFECT: Effect = Effect::Read;
    type Output = Profile;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Profile, Fault> {
        let agent = desk.agent()?;
        let memberships = desk.tx.membership_of_agent(&agent.id)?;
        let projects: Vec<ProjectId> = memberships.iter().map(|one| one.project_id.clone()).collect();
        let pending = desk.tx.handoff_for(&agent.id, &projects, true, Default::default(), 100)?;
        let instructions = limit::clip(&agent.instructions, 8 * KIB).0;
        Ok(Profile {
            sessions: fit(desk.tx.session_active(&agent.id)?, 6 * KIB).0,
            claims: desk.tx.claim_of_agent(&agent.id)?.iter().take(30).map(ClaimView::new).collect(),
            memberships: fit(memberships, 4 * KIB).0,
            agent: Agent { instructions, ..agent },
            pending_handoffs: pending.len(),
        })
    }
}

/// Lists agents.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListAgents {
    /// Of one project.
    pub project_id: Option<ProjectId>,
    /// In this state.
    pub status: Option<AgentStatus>,
    /// Able to do this.
    pub capability: Option<String>,
    /// How many.
    pub limit: Option<i64>,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// An agent in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentRow {
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// Person or program.
    #[serde(rename = "type")]
    pub kind: crate::domain::agent::AgentType,
    /// What it is.
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

/// Agents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agents {
    /// By id.
    pub agents: Vec<AgentRow>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Action for ListAgents {
    const NAME: &'static str = "list_agents";
    const EFFECT: Effect = Effect::ReadAfterSweep;
    type Output = Agents;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Agents, Fault> {
        if let Some(project) = &self.project_id {
            desk.project_to_read(project)?;
        }
        let mut after: String = place(self.cursor.as_deref())?.unwrap_or_default();
        let wanted = rows(self.limit)? + 1;
        let mut found = Vec::new();
        // The filters are rare and agents are few: read on until the page is full.
        while (found.len() as i64) < wanted {
            let batch = desk.tx.agent_list(self.project_id.as_ref(), &after, 100)?;
            let Some(last) = batch.last() else { break };
            after = last.id.to_string();
            found.extend(batch.into_iter().filter(|agent| self.admits(agent)));
        }
        let list = found.into_iter().map(|agent| desk.agent_row(agent)).collect::<Result<Vec<_>, _>>()?;
        let (agents, has_more) = page(list, self.limit)?;
        let next_cursor = agents.last().filter(|_| has_more).map(|last| cursor(&last.id));
        Ok(Agents { agents, next_cursor })
    }
}

impl ListAgents {
    fn admits(&self, agent: &Agent) -> bool {
        self.status.is_none_or(|status| status == agent.status)
            && self.capability.as_ref().is_none_or(|one| agent.capabilities.contains(one))
    }
}

impl Desk<'_, '_> {
    fn agent_row(&mut self, agent: Agent) -> Result<AgentRow, Fault> {
        let online = !self.tx.session_active(&agent.id)?.is_empty();
        let live_claims = self.tx.claim_of_agent(&agent.id)?.len();
        let Agent { id, name, kind, role_title, capabilities, status, .. } = agent;
        Ok(AgentRow { id, name, kind, role_title, capabilities, status, online, live_claims })
    }
}

words! {
    /// How a task can be mine.
    Mine {
        /// I hold it.
        Claimed = "claimed",
        /// It is assigned to me.
        Assigned = "assigned",
        /// I created it.
        Created = "created",
        /// It waits for a review that I could give.
        Reviewing = "reviewing",
    }
}

/// Lists the caller's tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetMyTasks {
    /// In this status; `open` means neither done nor cancelled.
    pub status: Option<String>,
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// How they are mine: held and assigned ones unless said otherwise.
    pub include: Vec<Mine>,
    /// How many.
    pub limit: Option<i64>,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// A page of tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tasks {
    /// The tasks.
    pub tasks: Vec<TaskRow>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A place in a list of tasks: how far in which part.
type TaskPlace = (usize, i64, String);

impl Action for GetMyTasks {
    const NAME: &'static str = "get_my_tasks";
    const EFFECT: Effect = Effect::ReadAfterSweep;
    type Output = Tasks;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Tasks, Fault> {
        let parts = self.parts(desk)?;
        let (part, key, id) = place::<TaskPlace>(self.cursor.as_deref())?.unwrap_or_default();
        let wanted = rows(self.limit)? + 1;
        let mut found: Vec<(usize, Task)> = Vec::new();
        for (at, filter) in parts.iter().enumerate().skip(part) {
            let after = (at == part && !id.is_empty()).then(|| (key, id.clone()));
            let filter = TaskFilter { after, limit: wanted, ..filter.clone() };
            for task in desk.tx.task_list(&filter)? {
                // A task that an earlier part has shown is not shown again.
                if !parts[..at].iter().any(|earlier| is_in(earlier, &task)) {
                    found.push((at, task));
                }
            }
            if found.len() as i64 >= wanted {
                break;
            }
        }
        let places: Vec<TaskPlace> =
            found.iter().map(|(at, task)| (*at, TaskSort::Updated.key(task), task.id.to_string())).collect();
        let (tasks, has_more) = page(found.iter().map(|(_, task)| TaskRow::new(task)).collect(), self.limit)?;
        let next_cursor = tasks.len().checked_sub(1).filter(|_| has_more).map(|last| cursor(&places[last]));
        Ok(Tasks { tasks, next_cursor })
    }
}

impl GetMyTasks {
    fn parts(&self, desk: &mut Desk<'_, '_>) -> Result<Vec<TaskFilter>, Fault> {
        let me = desk.agent()?.id;
        let base = TaskFilter {
            projects: desk.projects(self.project_id.as_ref())?,
            statuses: self.statuses()?,
            ..everything()
        };
        // A task one holds is assigned to one, so "assigned" covers both; held ones come first when asked for alone.
        let include = if self.include.is_empty() { vec![Mine::Assigned] } else { self.include.clone() };
        Ok(include
            .into_iter()
            .map(|how| match how {
                Mine::Claimed => TaskFilter { holder: Some(me.clone()), ..base.clone() },
                Mine::Assigned => TaskFilter { assignee: Some(me.clone()), ..base.clone() },
                Mine::Created => TaskFilter { author: Some(me.clone()), ..base.clone() },
                Mine::Reviewing => TaskFilter { statuses: vec![TaskStatus::Review], ..base.clone() },
            })
            .collect())
    }

    fn statuses(&self) -> Result<Vec<TaskStatus>, Fault> {
        match self.status.as_deref() {
            None => Ok(Vec::new()),
            Some("open") => Ok(TaskStatus::ALL.iter().copied().filter(|status| status.is_open()).collect()),
            Some(one) => Ok(vec![one.parse()?]),
        }
    }
}

/// Whether a task belongs to a part that was listed before.
fn is_in(filter: &TaskFilter, task: &Task) -> bool {
    let by_owner = filter.assignee.is_some() && task.assignee_id == filter.assignee;
    let by_author = filter.author.is_some() && task.created_by == filter.author;
    let by_holder =
        filter.holder.is_some() && task.status == TaskStatus::InProgress && task.assignee_id == filter.holder;
    by_owner || by_author || by_holder
}

fn everything() -> TaskFilter {
    TaskFilter {
        projects: Vec::new(),
        statuses: Vec::new(),
        assignee: None,
        author: None,
        holder: None,
        label: None,
        parent: None,
        untouched_since: None,
        text: None,
        sort: TaskSort::Updated,
        after: None,
        limit: 0,
    }
}

/// Lists tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListTasks {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// In one of these statuses.
    pub status: Vec<TaskStatus>,
    /// Assigned to.
    pub assignee_id: Option<AgentId>,
    /// With this label.
    pub label: Option<String>,
    /// Parts of this task.
    pub parent_id: Option<TaskRef>,
    /// Unchanged for this long.
    pub stale_after_s: Option<i64>,
    /// With these words.
    pub text: Option<String>,
    /// In this order.
    pub sort: Option<TaskSort>,
    /// How many.
    pub limit: Option<i64>,
    /// Where to go on.
    pub cursor: Option<String>,
}

impl Action for ListTasks {
    const NAME: &'static str = "list_tasks";
    const EFFECT: Effect = Effect::ReadAfterSweep;
    type Output = Tasks;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Tasks, Fault> {
        let sort = self.sort.unwrap_or(TaskSort::Updated);
        let parent = self.parent_id.as_ref().map(|name| desk.task_to_read(name).map(|task| task.id)).transpose()?;
        let filter = TaskFilter {
            projects: desk.projects(self.project_id.as_ref())?,
            statuses: self.status.clone(),
            assignee: self.assignee_id.clone(),
            label: self.label.clone(),
            parent,
            untouched_since: self.stale_after_s.map(|seconds| desk.tx.now.plus_seconds(-seconds)),
            text: self.text.clone(),
            sort,
            after: place(self.cursor.as_deref())?,
            limit: rows(self.limit)? + 1,
            ..everything()
        };
        let found = desk.tx.task_list(&filter)?;
        let (tasks, has_more) = page(found.iter().map(TaskRow::new).collect::<Vec<_>>(), self.limit)?;
        let last = tasks.len().checked_sub(1).filter(|_| has_more).map(|at| &found[at]);
        Ok(Tasks { next_cursor: last.map(|task| cursor(&(sort.key(task), &task.id))), tasks })
    }
}

/// What could be done now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetReadyTasks {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// With these labels.
    pub labels: Vec<String>,
    /// Whether only what the caller is able to do counts; it does unless said otherwise.
    pub capability_match: Option<bool>,
    /// How many; ten unless said otherwise.
    pub limit: Option<i64>,
}

/// Why more is not ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockedSummary {
    /// How many tasks wait for others, counted up to a hundred.
    pub n: i64,
    /// The open tasks that most others wait for.
    pub top_blockers: Vec<TaskRow>,
}

/// What could be done, best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// What the session holds already: go on with these first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_hand: Vec<TaskRow>,
    /// What is ready.
    pub tasks: Vec<TaskRow>,
    /// Why more is not.
    pub blocked_summary: BlockedSummary,
}

impl Action for GetReadyTasks {
    const NAME: &'static str = "get_ready_tasks";
    const EFFECT: Effect = Effect::ReadAfterSweep;
    type Output = Ready;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Ready, Fault> {
        let wanted = self.limit.map_or(Ok(10), |limit| rows(Some(limit)))?;
        let agent = desk.agent()?;
        let projects = desk.projects(self.project_id.as_ref())?;
        let able = if self.capability_match.unwrap_or(true) {
            agent.capabilities.clone()
        } else {
            desk.all_capabilities(&projects)?
        };
        let mut ready = Ready {
            in_hand: Vec::new(),
            tasks: Vec::new(),
            blocked_summary: BlockedSummary { n: 0, top_blockers: Vec::new() },
        };
        for claim in
            desk.tx.claim_of_agent(&agent.id)?.iter().filter(|claim| projects.contains(&claim.project_id)).take(10)
        {
            ready.in_hand.push(TaskRow::new(&desk.tx.task_get(&claim.task_id.clone().into())?));
        }
        for project in &projects {
            let pick = ReadyPick { agent: &agent.id, project, capabilities: &able, labels: &self.labels };
            let room = wanted - ready.tasks.len() as i64;
            if room > 0 {
                ready.tasks.extend(desk.tx.task_ready(&pick, room)?.iter().map(TaskRow::new));
            }
            ready.blocked_summary.n += desk.tx.task_waiting_count(project, COUNT_UP_TO)?;
            let blockers = desk.tx.task_top_blockers(project, 3)?;
            ready.blocked_summary.top_blockers.extend(blockers.iter().map(TaskRow::new));
        }
        ready.blocked_summary.top_blockers.truncate(3);
        Ok(ready)
    }
}

impl Desk<'_, '_> {
    /// Every capability that any agent of these projects has: what somebody could do.
    fn all_capabilities(&mut self, projects: &[ProjectId]) -> Result<Vec<String>, Fault> {
        let mut all = Vec::new();
        for project in projects {
            for agent in self.tx.agent_list(Some(project), "", 1000)? {
                all.extend(agent.capabilities);
            }
        }
        all.sort();
        all.dedup();
        Ok(all)
    }
}

words! {
    /// A part of a task's answer.
    Section {
        /// The full description.
        Description = "description",
        /// The criteria.
        Acceptance = "acceptance",
        /// What was learnt.
        Contexts = "contexts",
        /// The last handoff.
        Handoff = "handoff",
        /// What it waits for.
        Dependencies = "dependencies",
        /// Who holds it.
        Claim = "claim",
        /// What happened.
        History = "history",
    }
}

/// One task, with what the caller wants to know of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetTask {
    /// Which one.
    pub task_id: TaskRef,
    /// Which parts; everything but the history unless said otherwise.
    #[serde(default)]
    pub include: Vec<Section>,
    /// How long the answer may be.
    pub max_bytes: Option<usize>,
}

impl GetTask {
    /// A task with the usual parts.
    pub fn of(task_id: impl Into<TaskRef>) -> Self {
        Self { task_id: task_id.into(), include: Vec::new(), max_bytes: None }
    }
}

/// A task and its surroundings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskDetail {
    /// The task.
    pub task: TaskView,
    /// What was learnt: decisions first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<Context>>,
    /// The handoff that waits, or else the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<TaskRow>>,
    /// What waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependents: Option<Vec<TaskRow>>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    /// Who held it before, newest first: session and fence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim_history: Vec<ClaimView>,
    /// What happened, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Event>>,
    /// What was cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Action for GetTask {
    const NAME: &'static str = "get_task";
    const EFFECT: Effect = Effect::Read;
    type Output = TaskDetail;

    fn touches(&self) -> Option<&TaskRef> {
        Some(&self.task_id)
    }

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<TaskDetail, Fault> {
        let budget = self.max_bytes.unwrap_or(16 * KIB);
        if !(1024..=256 * KIB).contains(&budget) {
            return Err(Fault::invalid("`max_bytes` must be between 1024 and 262144"));
        }
        let task = desk.task_to_read(&self.task_id)?;
        let room = if self.wants(Section::Description) { budget / 4 } else { 0 };
        let mut view = TaskView::within(&task, room.max(1));
        if !self.wants(Section::Acceptance) {
            view.acceptance.clear();
        }
        let mut detail = TaskDetail {
            truncated: view.truncated.clone(),
            task: view,
            contexts: None,
            handoff: None,
            dependencies: None,
            dependents: None,
            claim: None,
            claim_history: Vec::new(),
            history: None,
        };
        self.surroundings(desk, &task, budget, &mut detail)?;
        Ok(detail)
    }
}

impl GetTask {
    fn wants(&self, section: Section) -> bool {
        if self.include.is_empty() { section != Section::History } else { self.include.contains(&section) }
    }

    fn surroundings(
        &self,
        desk: &mut Desk<'_, '_>,
        task: &Task,
        budget: usize,
        detail: &mut TaskDetail,
    ) -> Result<(), Fault> {
        let cut = |what: &str, is_cut: bool, detail: &mut TaskDetail| {
            if is_cut {
                detail.truncated.push(what.to_owned());
            }
        };
        if self.wants(Section::Contexts) {
            let (contexts, is_cut) = contexts_within(desk.tx.context_of_task(&task.id, 100)?, budget / 4);
            detail.contexts = Some(contexts);
            cut("contexts", is_cut, detail);
        }
        if self.wants(Section::Handoff) {
            let pending = desk.tx.handoff_pending(&task.id)?;
            let last = pending.or(desk.tx.handoff_history(&task.id, 1)?.into_iter().next());
            detail.handoff = last.map(|handoff| handoff_within(handoff, budget / 8));
        }
        if self.wants(Section::Dependencies) {
            let (on, by) = (desk.prerequisites_of(task)?, desk.dependents_of(task)?);
            let ((on, on_cut), (by, by_cut)) = (fit(on, budget / 16), fit(by, budget / 16));
            (detail.dependencies, detail.dependents) = (Some(on), Some(by));
            cut("dependencies", on_cut || by_cut, detail);
        }
        if self.wants(Section::Claim) {
            detail.claim = desk.tx.claim_live(&task.id)?.as_ref().map(ClaimView::new);
            detail.claim_history = desk.tx.claim_history(&task.id, 3)?.iter().map(ClaimView::new).collect();
        }
        if self.wants(Section::History) {
            let events = desk.tx.event_latest(task.id.as_str(), 50)?;
            let (events, is_cut) = fit(events.into_iter().map(super::find::short_event).collect(), budget / 8);
            detail.history = Some(events);
            cut("history", is_cut, detail);
        }
        Ok(())
    }
}

impl Desk<'_, '_> {
    fn prerequisites_of(&mut self, task: &Task) -> Result<Vec<TaskRow>, Fault> {
        let edges = self.tx.dependency_list(&task.id)?;
        edges.into_iter().map(|edge| Ok(TaskRow::new(&self.tx.task_get(&edge.depends_on_id.into())?))).collect()
    }

    fn dependents_of(&mut self, task: &Task) -> Result<Vec<TaskRow>, Fault> {
        let ids = self.tx.dependency_dependents(&task.id)?;
        ids.into_iter().take(20).map(|id| Ok(TaskRow::new(&self.tx.task_get(&id.into())?))).collect()
    }
}

/// One agent, for the resource `agent://{id}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAgent {
    /// Which one.
    pub agent_id: AgentId,
}

impl Action for GetAgent {
    const NAME: &'static str = "get_agent";
    const EFFECT: Effect = Effect::Read;
    type Output = AgentRow;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<AgentRow, Fault> {
        let agent = desk.tx.agent_get(&self.agent_id)?;
        desk.agent_row(agent)
    }
}

/// The sessions that are alive or whose claims wait, for people.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListSessions {
    /// How many.
    pub limit: Option<i64>,
}

/// A session and what it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    pub session: Session,
    /// What it holds.
    pub claims: Vec<ClaimView>,
    /// What it last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

impl Action for ListSessions {
    const NAME: &'static str = "list_sessions";
    const EFFECT: Effect = Effect::ReadAfterSweep;
    type Output = Vec<SessionRow>;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Vec<SessionRow>, Fault> {
        let projects = desk.projects(None)?;
        let is_operator = desk.agent_id().is_none();
        let mut list = Vec::new();
        for session in desk.tx.session_live(rows(self.limit)?)? {
            let is_shared = session.project_id.as_ref().is_some_and(|one| projects.contains(one));
            if !is_operator && !is_shared && desk.agent_id() != Some(&session.agent_id) {
                continue;
            }
            let claims = desk.tx.claim_of_session(&session.id)?;
            let checkpoint = claims.iter().rev().find_map(|claim| claim.checkpoint.clone());
            list.push(SessionRow { session, claims: claims.iter().map(ClaimView::new).collect(), checkpoint });
        }
        Ok(list)
    }
}

/// One session of the caller's, for the resources `session://current` and `session://{id}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GetSession {
    /// Which one; the one a call without a name would use when unset.
    pub session_id: Option<SessionId>,
}

impl Action for GetSession {
    const NAME: &'static str = "get_session";
    const EFFECT: Effect = Effect::Read;
    type Output = SessionRow;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<SessionRow, Fault> {
        let id = desk.session_id(self.session_id.as_ref())?;
        let id = id.ok_or_else(|| Fault::not_found("session", "current").hint("begin one with start_session"))?;
        let session = desk
            .tx
            .session_find(&id)?
            .filter(|one| Some(&one.agent_id) == desk.agent_id() || desk.agent_id().is_none());
        let session = session.ok_or_else(|| Fault::not_found("session", &id))?;
        let claims = desk.tx.claim_of_session(&id)?;
        let checkpoint = claims.iter().rev().find_map(|claim| claim.checkpoint.clone());
        Ok(SessionRow { session, claims: claims.iter().map(ClaimView::new).collect(), checkpoint })
    }
}
