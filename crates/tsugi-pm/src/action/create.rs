//! Creating tasks, one or many, with what they wait for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::action_context::ActionContext;
use super::view::{TaskRow, TaskView};
use super::{Action, ActionEffect};
use crate::domain::advice::FaultAdvice;
use crate::domain::dependency::{DependencyKind, TaskDependency};
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ProjectId, TaskId, TaskRef};
use crate::domain::limit;
use crate::domain::member::Role;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::Power;
use crate::domain::policy::WorkerCreate;
use crate::domain::project::{Project, ProjectStatus};
use crate::domain::task::{AcceptanceCriterion, ExternalLink, Priority, Task, TaskStatus, title_key};
use crate::domain::time::Moment;
use crate::store::tx::{Tx, what};

/// How deep tasks may be parts of tasks.
const DEEPEST: usize = 20;

/// What a new task is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NewTask {
    /// What it is, in a line.
    pub title: String,
    /// What it is, in full.
    pub description: String,
    /// How urgent it is.
    pub priority: Option<Priority>,
    /// `backlog` or `todo`.
    pub status: Option<TaskStatus>,
    /// Whose it is.
    pub assignee_id: Option<AgentId>,
    /// The task it is a part of.
    pub parent_id: Option<TaskRef>,
    /// Words to find it by.
    pub labels: Vec<String>,
    /// What must be true in the end.
    pub acceptance: Vec<String>,
    /// What it waits for: existing tasks, or names given in the same call.
    pub depends_on: Vec<String>,
    /// What its holder must be able to do.
    pub required_capabilities: Vec<String>,
    /// When it should be done.
    pub due_at: Option<Moment>,
    /// How long it may take.
    pub estimate_min: Option<i64>,
    /// The task during which it was found.
    pub discovered_from: Option<TaskRef>,
    /// The same task elsewhere.
    pub external: Vec<ExternalLink>,
    /// Whether an open task with the same title is fine.
    pub similar_ok: bool,
}

/// Creates a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateTask {
    /// Where.
    pub project_id: ProjectId,
    /// What it is.
    #[serde(flatten)]
    pub task: NewTask,
    /// The same key has one effect.
    pub idempotency_key: Option<String>,
}

impl CreateTask {
    /// A task with nothing but a title.
    pub fn titled(project_id: &ProjectId, title: &str) -> Self {
        let task = NewTask { title: title.to_owned(), ..NewTask::default() };
        Self { project_id: project_id.clone(), task, idempotency_key: None }
    }
}

/// A task that was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedTask {
    /// The task.
    pub task: TaskView,
    /// Open tasks with the same title.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<TaskRow>,
}

impl Action for CreateTask {
    const NAME: &'static str = "create_task";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type ErasedOutput = CreatedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<CreatedTask, PmFault> {
        let (project, role) = desk.project_to_change(&self.project_id, Power::CreateTask)?;
        let similar = desk.twins(&project, &self.task)?;
        let task = desk.create(&project, role, &self.task, &BTreeMap::new())?;
        let brief = TaskView::brief(&task);
        let ready = brief.ready && project.status == ProjectStatus::Active;
        Ok(CreatedTask { task: TaskView { ready, ..brief }, similar })
    }
}

/// One of several new tasks, with a name by which the others can wait for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct NamedTask {
    /// Its name in this call.
    #[serde(rename = "ref")]
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub task: NewTask,
}

/// A misspelt field is refused: a record with a flattened part cannot do that by itself, and would drop it in silence.
impl TryFrom<Map<String, Value>> for NamedTask {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        let Some(Value::String(name)) = fields.remove("ref") else {
            return Err("each task needs a `ref`, a text".to_owned());
        };
        let known = serde_json::to_value(NewTask::default()).unwrap_or_default();
        if let Some(key) = fields.keys().find(|key| known.get(key.as_str()).is_none()) {
            return Err(format!("a task has no field `{key}`"));
        }
        let task = serde_json::from_value(Value::Object(fields)).map_err(|error| format!("task `{name}`: {error}"))?;
        Ok(Self { name, task })
    }
}

/// Creates several tasks, all or none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateTasks {
    /// Where.
    pub project_id: ProjectId,
    /// The tasks.
    pub tasks: Vec<NamedTask>,
    /// The same key has one effect.
    pub idempotency_key: Option<String>,
}

/// The tasks that were created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedTasks {
    /// Their ids, by the names in the call.
    pub ids: BTreeMap<String, TaskId>,
    /// Their references, by the names in the call.
    pub refs: BTreeMap<String, String>,
}

impl Action for CreateTasks {
    const NAME: &'static str = "create_tasks";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type ErasedOutput = CreatedTasks;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<CreatedTasks, PmFault> {
        if self.tasks.is_empty() || self.tasks.len() > limit::BATCH {
            return Err(PmFault::invalid(format!("`tasks` must have between 1 and {} entries", limit::BATCH)));
        }
        let (project, role) = desk.project_to_change(&self.project_id, Power::CreateTask)?;
        let (mut ids, mut refs) = (BTreeMap::new(), BTreeMap::new());
        for at in self.creation_order()? {
            let NamedTask { name, task } = &self.tasks[at];
            desk.twins(&project, task)?;
            let created = desk.create(&project, role, task, &ids)?;
            ids.insert(name.clone(), created.id);
            refs.insert(name.clone(), created.reference);
        }
        Ok(CreatedTasks { ids, refs })
    }
}

impl CreateTasks {
    /// An order in which every task comes after those it waits for; the given order as far as possible.
    fn creation_order(&self) -> Result<Vec<usize>, PmFault> {
        let mut names = BTreeMap::new();
        for (at, one) in self.tasks.iter().enumerate() {
            limit::chars("ref", &one.name, 1, 60)?;
            if names.insert(one.name.as_str(), at).is_some() {
                return Err(PmFault::invalid(format!("two tasks are called `{}`", one.name)));
            }
        }
        let waits_for: Vec<Vec<usize>> = self
            .tasks
            .iter()
            .map(|one| one.task.depends_on.iter().filter_map(|name| names.get(name.as_str()).copied()).collect())
            .collect();
        let mut order: Vec<usize> = Vec::with_capacity(self.tasks.len());
        let mut is_placed = vec![false; self.tasks.len()];
        while order.len() < self.tasks.len() {
            let next =
                (0..self.tasks.len()).find(|at| !is_placed[*at] && waits_for[*at].iter().all(|on| is_placed[*on]));
            let next =
                next.ok_or_else(|| PmFault::new(Code::DependencyCycle, "these tasks wait for each other in a circle"))?;
            is_placed[next] = true;
            order.push(next);
        }
        Ok(order)
    }
}

impl ActionContext<'_, '_> {
    /// Open tasks with the same title; an error unless the caller said that they are fine.
    fn twins(&mut self, project: &Project, new: &NewTask) -> Result<Vec<TaskRow>, PmFault> {
        limit::chars("title", &new.title, 1, 200)?;
        let key = title_key(&new.title);
        if key.is_empty() {
            return Ok(Vec::new());
        }
        let twins: Vec<TaskRow> = self.tx.task_twins(&project.id, &key)?.iter().map(TaskRow::new).collect();
        if twins.is_empty() || new.similar_ok {
            return Ok(twins);
        }
        Err(PmFault::new(Code::SimilarExists, format!("{} has the same title and is open", twins[0].reference))
            .advise(FaultAdvice::WorkOnTheOther)
            .with("similar", twins))
    }

    fn create(
        &mut self,
        project: &Project,
        role: Role,
        new: &NewTask,
        names: &BTreeMap<String, TaskId>,
    ) -> Result<Task, PmFault> {
        let status = first_status(project, role, new.status, self.caller.is_approved)?;
        let prerequisites = self.prerequisites(project, &new.depends_on, names)?;
        let parent_id = new.parent_id.as_ref().map(|name| self.parent(project, name)).transpose()?;
        let discovered_from = new.discovered_from.as_ref().map(|name| self.task_to_read(name).map(|task| task.id));
        let discovered_from = discovered_from.transpose()?;
        if let Some(assignee) = &new.assignee_id {
            self.check_assignee(project, role, assignee)?;
        }
        let number = self.tx.project_take_numbers(&project.id, 1)?;
        let now = self.tx.now;
        let task = Task {
            id: TaskId::mint(Tx::bits()),
            project_id: project.id.clone(),
            number,
            reference: format!("{}-{number}", project.key),
            title: new.title.clone(),
            title_key: title_key(&new.title),
            description: new.description.clone(),
            acceptance: new
                .acceptance
                .iter()
                .map(|text| AcceptanceCriterion { text: text.clone(), done: false })
                .collect(),
            status,
            priority: new.priority.unwrap_or(Priority::Medium),
            assignee_id: new.assignee_id.clone(),
            parent_id,
            labels: new.labels.clone(),
            required_capabilities: new.required_capabilities.clone(),
            due_at: new.due_at,
            estimate_min: new.estimate_min,
            created_by: self.agent_id().cloned(),
            discovered_from,
            blocked_reason: None,
            result: None,
            review: None,
            fence: 0,
            open_blockers: 0,
            unblocks: 0,
            external: new.external.clone(),
            version: 1,
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
        };
        task.check()?;
        let reason = self.reason(None);
        self.tx.insert(&task, what("task.created").because(reason.as_deref()))?;
        self.tx.task_index(&task)?;
        self.depend(&task, &prerequisites)?;
        self.tell_assignee(&task)?;
        // The counts were raised in the table while the edges were added.
        let open_blockers = prerequisites.iter().filter(|one| one.status != TaskStatus::Done).count() as i64;
        Ok(Task { open_blockers, ..task })
    }

    /// The tasks that a new one waits for, locked.
    fn prerequisites(
        &mut self,
        project: &Project,
        wanted: &[String],
        names: &BTreeMap<String, TaskId>,
    ) -> Result<Vec<Task>, PmFault> {
        if wanted.len() > limit::BATCH {
            return Err(PmFault::new(Code::TooLarge, format!("a task may wait for at most {} others", limit::BATCH)));
        }
        let mut ids = Vec::with_capacity(wanted.len());
        for name in wanted {
            ids.push(match names.get(name) {
                Some(id) => id.clone(),
                None => self.tx.task_get(&TaskRef::parse(name)?)?.id,
            });
        }
        let tasks = self.tx.task_lock_all(&ids)?;
        match tasks.iter().find(|task| task.project_id != project.id) {
            Some(stranger) => {
                Err(PmFault::not_found("task", &stranger.id).hint("tasks wait only for tasks of the same project"))
            }
            None => Ok(tasks),
        }
    }

    fn depend(&mut self, task: &Task, prerequisites: &[Task]) -> Result<(), PmFault> {
        for prerequisite in prerequisites {
            let edge = self.edge(task, prerequisite, DependencyKind::Blocks);
            self.tx.dependency_add(&edge, prerequisite, what("dependency.added"))?;
        }
        Ok(())
    }

    pub(super) fn edge(&self, task: &Task, prerequisite: &Task, kind: DependencyKind) -> TaskDependency {
        TaskDependency {
            project_id: task.project_id.clone(),
            task_id: task.id.clone(),
            depends_on_id: prerequisite.id.clone(),
            kind,
            created_by: self.agent_id().cloned(),
            created_at: self.tx.now,
            version: 1,
        }
    }

    /// The task that another becomes a part of: same project, and not too deep.
    pub(super) fn parent(&mut self, project: &Project, name: &TaskRef) -> Result<TaskId, PmFault> {
        let parent = self.tx.task_get(name)?;
        if parent.project_id != project.id {
            return Err(PmFault::not_found("task", name).hint("a task is part of a task of the same project"));
        }
        let (id, mut above) = (parent.id, parent.parent_id);
        for _ in 0..DEEPEST {
            match above {
                Some(next) => above = self.tx.task_get(&next.into())?.parent_id,
                None => return Ok(id),
            }
        }
        Err(PmFault::new(Code::TooLarge, format!("tasks may be nested at most {DEEPEST} deep")))
    }

    /// Workers may take work upon themselves; only managers give it to others.
    pub(super) fn check_assignee(&mut self, project: &Project, role: Role, assignee: &AgentId) -> Result<(), PmFault> {
        if self.agent_id() != Some(assignee) {
            role.check(Power::Manage)?;
        }
        self.tx.agent_get(assignee)?.check_active()?;
        if self.is_operator() && self.agent_id() == Some(assignee) {
            return Ok(());
        }
        match self.tx.membership_find(&project.id, assignee)? {
            Some(member) if member.role.may(Power::Work) => Ok(()),
            _ => {
                Err(PmFault::invalid(format!("{assignee} does not work in this project")).with("field", "assignee_id"))
            }
        }
    }

    pub(super) fn tell_assignee(&mut self, task: &Task) -> Result<(), PmFault> {
        let Some(assignee) = &task.assignee_id else { return Ok(()) };
        let text = format!("{} was assigned to you: {}", task.reference, task.title);
        self.tx.notice_add(assignee, NoticeKind::Assigned, task.id.as_str(), &text)
    }
}

/// Where a new task starts. What workers add goes through triage unless the project says otherwise.
fn first_status(
    project: &Project,
    role: Role,
    wished: Option<TaskStatus>,
    is_approved: bool,
) -> Result<TaskStatus, PmFault> {
    let wished = wished.unwrap_or(TaskStatus::Todo);
    if !matches!(wished, TaskStatus::Backlog | TaskStatus::Todo) {
        return Err(PmFault::invalid("a new task is `backlog` or `todo`").with("field", "status"));
    }
    match project.policy.worker_create {
        _ if role.may(Power::Manage) => Ok(wished),
        WorkerCreate::Allow => Ok(wished),
        WorkerCreate::Triage => Ok(TaskStatus::Backlog),
        WorkerCreate::Deny if is_approved => Ok(TaskStatus::Backlog),
        WorkerCreate::Deny => Err(PmFault::new(Code::ApprovalRequired, "workers do not create tasks in this project")
            .advise(FaultAdvice::AskManager)),
    }
}
