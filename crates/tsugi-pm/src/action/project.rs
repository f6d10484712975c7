//! Projects: making them, listing them, changing their rules, putting them away and back.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::caller::ActionCaller;
use super::status::StatusChange;
use super::truncate::contexts_within;
use super::view::{MOST_ROWS, PAGE_BYTES, cursor, fit, page, place};
use super::{Action, ActionEffect, Pm};
use crate::domain::agent::AgentType;
use crate::domain::context::ContextEntry;
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{ProjectId, ProjectRef, is_project_key};
use crate::domain::limit;
use crate::domain::member::{Membership, Role};
use crate::domain::permission::{Power, denied};
use crate::domain::policy::ProjectPolicy;
use crate::domain::project::{Project, ProjectStatus};
use crate::domain::task::TaskStatus;
use crate::store::tx::Tx;

/// Makes a project.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateProject {
    /// 2-10 of A-Z0-9
    #[schemars(extend("ja" = "大文字英数字2-10"))]
    pub key: String,
    /// for people
    #[schemars(extend("ja" = "名前"))]
    pub name: String,
    /// full text
    #[serde(default)]
    #[schemars(extend("ja" = "説明"))]
    pub description: String,
    /// its rules
    #[serde(default)]
    #[schemars(extend("ja" = "ルール"))]
    pub policy: ProjectPolicy,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProjectAnswer {
    /// The project, its description cut if it is long.
    pub project: Project,
}

impl ProjectAnswer {
    fn new(project: Project) -> Self {
        let description = limit::clip(&project.description, 4 * limit::KIB).0;
        Self { project: Project { description, ..project } }
    }
}

impl Action for CreateProject {
    const NAME: &'static str = "create_project";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = ProjectAnswer;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ProjectAnswer, PmFault> {
        // Before the database is asked whether the key is free.
        self.check()?;
        let role = founder_role(context)?;
        // The unique index would refuse it too, but without a hint.
        if context.tx.project_by_key(&self.key)?.is_some() {
            return Err(PmFault::new(Code::SimilarExists, format!("the key {} is taken", self.key))
                .hint("choose another key, or work in that project")
                .with("field", "key")
                .with("key", &self.key));
        }
        let now = context.tx.now;
        let project = Project {
            id: ProjectId::mint(Tx::bits()),
            key: self.key.clone(),
            name: self.name.clone(),
            description: self.description.clone(),
            status: ProjectStatus::Active,
            policy: self.policy.clone(),
            next_number: 1,
            version: 1,
            created_at: now,
            updated_at: now,
            archived_at: None,
        };
        context.tx.insert(&project, EventKind::ProjectCreated.note())?;
        // An operator creates a project without belonging to it.
        if let (Some(role), Some(agent)) = (role, context.agent_id().cloned()) {
            let membership = Membership { project_id: project.id.clone(), agent_id: agent, role, version: 1 };
            context.tx.insert(&membership, EventKind::MembershipAdded.note())?;
        }
        Ok(ProjectAnswer::new(project))
    }
}

impl CreateProject {
    fn check(&self) -> Result<(), PmFault> {
        if !is_project_key(&self.key) {
            return Err(PmFault::invalid("`key` is two to ten capital letters and digits, beginning with a letter")
                .with("field", "key"));
        }
        limit::chars("name", &self.name, 1, 120)?;
        limit::bytes("description", &self.description, 0, limit::LONG_TEXT)?;
        self.policy.check()
    }
}

/// What the one who makes a project becomes in it. A program that manages nothing yet may not make one, and never
/// becomes an owner this way.
fn founder_role(context: &mut ActionContext<'_, '_>) -> Result<Option<Role>, PmFault> {
    if context.agent_id().is_none() {
        return Ok(None);
    }
    let agent = context.agent()?;
    let manages = context.tx.membership_of_agent(&agent.id)?.iter().any(|one| one.role.may(Power::Manage));
    match agent.kind {
        // A person who founds a project owns it.
        AgentType::Human => Ok(Some(Role::Owner)),
        AgentType::Ai if manages => Ok(Some(Role::Manager)),
        AgentType::Ai => {
            let required = ["human", "owner", "manager"];
            Err(denied("an agent that manages no project may not make one", &required, None)
                .hint("ask a person: tsugi pm init"))
        }
    }
}

/// Lists the projects the caller can see.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListProjects {
    /// only these
    #[schemars(extend("ja" = "状態"))]
    pub status: Option<ProjectStatus>,
    /// How many; as many as an answer holds when unset.
    #[schemars(skip)]
    pub limit: Option<i64>,
    /// next_cursor
    #[schemars(extend("ja" = "続き"))]
    pub cursor: Option<String>,
}

/// A project in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProjectRow {
    pub id: ProjectId,
    pub key: String,
    pub name: String,
    pub status: ProjectStatus,
    pub role: Role,
    pub version: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProjectList {
    pub projects: Vec<ProjectRow>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Action for ListProjects {
    const NAME: &'static str = "list_projects";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = ProjectList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ProjectList, PmFault> {
        let after: String = place(self.cursor.as_deref())?.unwrap_or_default();
        let found = context.tx.project_roles(context.caller.bound_agent())?.into_iter();
        let wanted = found
            .filter(|(project, _)| project.key > after && self.status.is_none_or(|status| status == project.status));
        let projects = wanted.map(|(Project { id, key, name, status, version, .. }, role)| ProjectRow {
            id,
            key,
            name,
            status,
            role,
            version,
        });
        let mut projects: Vec<ProjectRow> = projects.collect();
        // A database may sort by its own locale; the cursor goes by the bytes of the key.
        projects.sort_by(|one, other| one.key.cmp(&other.key));
        let (projects, has_more) = match self.limit {
            Some(limit) => page(projects, Some(limit))?,
            None => fit(projects, PAGE_BYTES),
        };
        let next_cursor = projects.last().filter(|_| has_more).map(|last| cursor(&last.key));
        Ok(ProjectList { projects, next_cursor })
    }
}

/// One project, its people and its state, for people and for the resource `project://{id}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetProject {
    pub project_id: ProjectRef,
}

/// A project and its surroundings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProjectDetail {
    /// The project, its description cut if it is long.
    pub project: Project,
    /// Who belongs to it.
    pub members: Vec<Membership>,
    /// How many tasks stand where.
    pub tasks: BTreeMap<String, i64>,
    /// What is known about the whole of it, newest first.
    pub contexts: Vec<ContextEntry>,
}

impl Action for GetProject {
    const NAME: &'static str = "get_project";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = ProjectDetail;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ProjectDetail, PmFault> {
        let project = context.project_to_read(&self.project_id)?;
        // More than fits the answer; the bytes decide.
        let contexts = context.tx.context_of_project(&project.id, 50)?;
        Ok(ProjectDetail {
            members: fit(context.tx.membership_of_project(&project.id)?, 8 * limit::KIB).0,
            tasks: context.tx.task_counts(&project.id)?.into_iter().collect(),
            contexts: contexts_within(contexts, 8 * limit::KIB).0,
            project: ProjectAnswer::new(project).project,
        })
    }
}

impl Pm {
    /// Every project that a caller can see, by key.
    pub async fn projects_of(&self, caller: &ActionCaller) -> Result<Vec<ProjectRow>, PmFault> {
        let mut wish = ListProjects { limit: Some(MOST_ROWS), ..ListProjects::default() };
        let mut all = Vec::new();
        loop {
            let found = self.perform(caller, wish.clone()).await?;
            all.extend(found.projects);
            match found.next_cursor {
                Some(cursor) => wish.cursor = Some(cursor),
                None => return Ok(all),
            }
        }
    }

    /// The key of a project, if there is one of this id.
    pub async fn project_key(&self, id: &ProjectId) -> Option<String> {
        let id = id.clone();
        self.store().read(move |tx| tx.project_get(&id)).await.ok().map(|project| project.key)
    }
}

/// Changes a project's name, description, rules or state; archiving and restoring are states too.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateProject {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: ProjectRef,
    /// for people
    #[schemars(extend("ja" = "名前"))]
    pub name: Option<String>,
    /// full text
    #[schemars(extend("ja" = "説明"))]
    pub description: Option<String>,
    /// its rules
    #[schemars(extend("ja" = "ルール"))]
    pub policy: Option<ProjectPolicy>,
    /// the new one
    #[schemars(extend("ja" = "状態"))]
    pub status: Option<ProjectStatus>,
    /// why
    #[schemars(extend("ja" = "理由"))]
    pub reason: Option<String>,
}

impl UpdateProject {
    /// A change of nothing yet.
    pub fn of(project_id: impl Into<ProjectRef>) -> Self {
        Self { project_id: project_id.into(), name: None, description: None, policy: None, status: None, reason: None }
    }

    /// A change of state.
    pub fn to_status(project_id: impl Into<ProjectRef>, status: ProjectStatus) -> Self {
        Self { status: Some(status), ..Self::of(project_id) }
    }
}

impl UpdateProject {
    /// A manager may rename, describe, pause and resume; the rules, putting away and taking out again are the owner's.
    fn power(&self, before: &Project) -> Power {
        let is_put_away = |status: ProjectStatus| status == ProjectStatus::Archived;
        let is_moved = self.status.is_some_and(|after| is_put_away(after) || is_put_away(before.status));
        if self.policy.is_some() || is_moved { Power::Own } else { Power::Manage }
    }
}

impl Action for UpdateProject {
    const NAME: &'static str = "update_project";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = ProjectAnswer;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ProjectAnswer, PmFault> {
        let id = context.project_id(&self.project_id)?;
        let role = context.role(&id)?;
        role.check(Power::Manage)?;
        // Alone: no task may be created while the project is put away.
        let before = context.tx.project_lock(&id)?;
        role.check(self.power(&before))?;
        // The one change an archived project allows is being restored (I15).
        if self.status.is_none_or(|status| status == ProjectStatus::Archived) {
            before.check_writable()?;
        }
        let status = self.status.unwrap_or(before.status);
        // Before the status changes: nothing can be released in an archived project.
        if status == ProjectStatus::Archived {
            put_work_down(context, &before)?;
        }
        let after = Project {
            name: self.name.clone().unwrap_or_else(|| before.name.clone()),
            description: self.description.clone().unwrap_or_else(|| before.description.clone()),
            policy: self.policy.clone().unwrap_or_else(|| before.policy.clone()),
            status,
            // Cleared when the project is restored.
            archived_at: (status == ProjectStatus::Archived).then_some(context.tx.now),
            ..before.clone()
        };
        limit::chars("name", &after.name, 1, 120)?;
        limit::bytes("description", &after.description, 0, limit::LONG_TEXT)?;
        after.policy.check()?;
        let kind = match (before.status, status) {
            (old, new) if old == new => EventKind::ProjectUpdated,
            (ProjectStatus::Archived, _) => EventKind::ProjectRestored,
            (_, ProjectStatus::Archived) => EventKind::ProjectArchived,
            (_, ProjectStatus::Paused) => EventKind::ProjectPaused,
            (_, ProjectStatus::Active) => EventKind::ProjectResumed,
        };
        let project = context.tx.update(&before, after, kind.because(self.reason.as_deref()))?;
        Ok(ProjectAnswer::new(project))
    }
}

/// Ends every hold and handoff of a project that is put away: nothing in it may change later, not even by itself.
fn put_work_down(context: &mut ActionContext<'_, '_>, project: &Project) -> Result<(), PmFault> {
    let reason = "the project was archived";
    for claim in context.tx.claim_of_project(&project.id)? {
        let task = context.tx.task_lock(&claim.task_id)?;
        let open = OpenTask { task, project: project.clone(), role: Role::Owner, claim: Some(claim) };
        let change = StatusChange { to: TaskStatus::Todo, reason: Some(reason), result: None };
        context.change_status(&open, None, &change)?;
    }
    for handoff in context.tx.handoff_of_project(&project.id)? {
        let task = context.tx.task_lock(&handoff.task_id)?;
        context.withdraw_handoff(&task, reason)?;
    }
    Ok(())
}
