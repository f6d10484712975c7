//! Creating tasks, one or many, with what they wait for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::action_context::ActionContext;
use super::view::{TaskRow, TaskView};
use super::{Action, ActionEffect};
use crate::domain::advice::FaultAdvice;
use crate::domain::dependency::{DependencyKind, TaskDependency};
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ProjectRef, TaskId, TaskRef};
use crate::domain::limit;
use crate::domain::member::Role;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::Power;
use crate::domain::policy::WorkerCreate;
use crate::domain::project::{Project, ProjectStatus};
use crate::domain::task::{AcceptanceCriterion, ExternalLink, Priority, Task, TaskStatus, title_key};
use crate::domain::time::Moment;
use crate::store::tx::Tx;

/// How deep tasks may be parts of tasks.
const DEEPEST: usize = 20;

/// What a new task is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NewTask {
    /// one line
    #[schemars(extend("ja" = "件名"))]
    pub title: String,
    /// full text
    #[schemars(extend("ja" = "説明"))]
    pub description: String,
    /// urgency
    #[schemars(extend("ja" = "優先度"))]
    pub priority: Option<Priority>,
    /// to begin in
    #[schemars(extend("ja" = "初期状態", "enum" = ["backlog", "todo"]))]
    pub status: Option<TaskStatus>,
    /// agent id
    #[schemars(extend("ja" = "担当者"))]
    pub assignee_id: Option<AgentId>,
    /// part of
    #[schemars(extend("ja" = "親タスク"))]
    pub parent_id: Option<TaskRef>,
    /// to find it by
    #[schemars(extend("ja" = "ラベル"))]
    pub labels: Vec<String>,
    /// criteria
    #[schemars(extend("ja" = "条件"))]
    pub acceptance: Vec<String>,
    /// done first
    #[schemars(extend("ja" = "前提タスク"))]
    pub depends_on: Vec<String>,
    /// of its holder
    #[schemars(extend("ja" = "必要な能力", "rare" = true))]
    pub required_capabilities: Vec<String>,
    /// ms UTC
    #[schemars(extend("ja" = "期限(ms)"))]
    pub due_at: Option<Moment>,
    /// How long it may take.
    #[schemars(skip)]
    pub estimate_min: Option<i64>,
    /// found during
    #[schemars(extend("ja" = "発見元タスク", "rare" = true))]
    pub discovered_from: Option<TaskRef>,
    /// The same task elsewhere.
    #[schemars(skip)]
    pub external: Vec<ExternalLink>,
    /// same title is fine
    #[schemars(extend("ja" = "重複可"))]
    pub similar_ok: bool,
}

/// Creates a task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["project_id", "title"]))]
pub struct CreateTask {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: ProjectRef,
    #[serde(flatten)]
    pub task: NewTask,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

impl CreateTask {
    /// A task with nothing but a title.
    pub fn titled(project_id: impl Into<ProjectRef>, title: &str) -> Self {
        let task = NewTask { title: title.to_owned(), ..NewTask::default() };
        Self { project_id: project_id.into(), task, idempotency_key: None }
    }
}

/// A task that was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedTask {
    pub task: TaskView,
    /// Open tasks with the same title.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<TaskRow>,
}

impl Action for CreateTask {
    const NAME: &'static str = "create_task";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = CreatedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<CreatedTask, PmFault> {
        let (project, role) = context.project_to_change(&self.project_id, Power::CreateTask)?;
        let similar = twins(context, &project, &self.task)?;
        let task = create(context, &project, role, &self.task, &BTreeMap::new())?;
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
        // The default has every field, so its keys are the known names.
        let known = serde_json::to_value(NewTask::default()).unwrap_or_default();
        if let Some(key) = fields.keys().find(|key| known.get(key.as_str()).is_none()) {
            return Err(format!("a task has no field `{key}`"));
        }
        let task = serde_json::from_value(Value::Object(fields)).map_err(|error| format!("task `{name}`: {error}"))?;
        Ok(Self { name, task })
    }
}

impl JsonSchema for NamedTask {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NamedTask".into()
    }

    /// The fields of a new task, and its name in front.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut task = Value::from(generator.subschema_for::<NewTask>());
        let mut properties = Map::from_iter([("ref".to_owned(), json!({"type": "string"}))]);
        properties.extend(task["properties"].take().as_object().cloned().unwrap_or_default());
        json_schema!({"type": "object", "properties": properties, "required": ["ref", "title"]})
    }
}

/// Creates several tasks, all or none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTasks {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: ProjectRef,
    /// ref plus create_task's fields
    #[schemars(extend("ja" = "ref と create_task の項目"))]
    pub tasks: Vec<NamedTask>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
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
    type Output = CreatedTasks;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<CreatedTasks, PmFault> {
        // One transaction locks what it touches, so its size is bounded.
        if self.tasks.is_empty() || self.tasks.len() > limit::BATCH {
            return Err(PmFault::invalid(format!("`tasks` must have between 1 and {} entries", limit::BATCH)));
        }
        let (project, role) = context.project_to_change(&self.project_id, Power::CreateTask)?;
        // Names of the batch are resolved before ids and references of existing tasks.
        let (mut ids, mut refs) = (BTreeMap::new(), BTreeMap::new());
        // A task can wait only for one that has an id already.
        for at in self.creation_order()? {
            let NamedTask { name, task } = &self.tasks[at];
            twins(context, &project, task)?;
            let created = create(context, &project, role, task, &ids)?;
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
            // Quadratic, but a batch has at most a hundred.
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

/// Open tasks with the same title; an error unless the caller said that they are fine.
fn twins(context: &mut ActionContext<'_, '_>, project: &Project, new: &NewTask) -> Result<Vec<TaskRow>, PmFault> {
    limit::chars("title", &new.title, 1, 200)?;
    // Titles that differ only in case, spaces or punctuation count as the same.
    let key = title_key(&new.title);
    if key.is_empty() {
        return Ok(Vec::new());
    }
    let twins: Vec<TaskRow> = context.tx.task_twins(&project.id, &key)?.iter().map(TaskRow::new).collect();
    if twins.is_empty() || new.similar_ok {
        return Ok(twins);
    }
    Err(PmFault::new(Code::SimilarExists, format!("{} has the same title and is open", twins[0].reference))
        .advise(FaultAdvice::WorkOnTheOther)
        .with("similar", twins))
}

fn create(
    context: &mut ActionContext<'_, '_>,
    project: &Project,
    role: Role,
    new: &NewTask,
    names: &BTreeMap<String, TaskId>,
) -> Result<Task, PmFault> {
    // The policy may send a worker's task to the backlog first.
    let status = first_status(project, role, new.status, context.caller.is_approved)?;
    let prerequisites = prerequisites(context, project, &new.depends_on, names)?;
    let parent_id = new.parent_id.as_ref().map(|name| parent_task(context, project, name)).transpose()?;
    let discovered_from = new.discovered_from.as_ref().map(|name| context.task_to_read(name).map(|task| task.id));
    let discovered_from = discovered_from.transpose()?;
    if let Some(assignee) = &new.assignee_id {
        check_assignee(context, project, role, assignee)?;
    }
    // Taken last: until here a refusal costs no lock on the project.
    let number = context.tx.project_take_numbers(&project.id, 1)?;
    let now = context.tx.now;
    let task = Task {
        id: TaskId::mint(Tx::bits()),
        project_id: project.id.clone(),
        number,
        reference: format!("{}-{number}", project.key),
        title: new.title.clone(),
        // Stored, so that twins are found by an index.
        title_key: title_key(&new.title),
        description: new.description.clone(),
        acceptance: new.acceptance.iter().map(|text| AcceptanceCriterion { text: text.clone(), done: false }).collect(),
        status,
        priority: new.priority.unwrap_or(Priority::Medium),
        assignee_id: new.assignee_id.clone(),
        parent_id,
        labels: new.labels.clone(),
        required_capabilities: new.required_capabilities.clone(),
        due_at: new.due_at,
        estimate_min: new.estimate_min,
        created_by: context.agent_id().cloned(),
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
    // Also what the caller did not give, such as the reference, must hold.
    task.check()?;
    let reason = context.reason(None);
    context.tx.insert(&task, EventKind::TaskCreated.because(reason.as_deref()))?;
    // The search index is part of the same transaction.
    context.tx.task_index(&task)?;
    depend(context, &task, &prerequisites)?;
    tell_assignee(context, &task)?;
    // The counts were raised in the table while the edges were added.
    let open_blockers = prerequisites.iter().filter(|one| one.status != TaskStatus::Done).count() as i64;
    Ok(Task { open_blockers, ..task })
}

/// The tasks that a new one waits for, locked.
fn prerequisites(
    context: &mut ActionContext<'_, '_>,
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
            None => context.tx.task_get(&TaskRef::parse(name)?)?.id,
        });
    }
    // Locked, so that a prerequisite cannot be finished between the look and the count.
    let tasks = context.tx.task_lock_all(&ids)?;
    // A task of another project must look as if it did not exist.
    match tasks.iter().find(|task| task.project_id != project.id) {
        Some(stranger) => {
            Err(PmFault::not_found("task", &stranger.id).hint("tasks wait only for tasks of the same project"))
        }
        None => Ok(tasks),
    }
}

fn depend(context: &mut ActionContext<'_, '_>, task: &Task, prerequisites: &[Task]) -> Result<(), PmFault> {
    for prerequisite in prerequisites {
        let edge = edge(context, task, prerequisite, DependencyKind::Blocks);
        context.tx.dependency_add(&edge, prerequisite, EventKind::DependencyAdded.note())?;
    }
    Ok(())
}

pub(super) fn edge(
    context: &ActionContext<'_, '_>,
    task: &Task,
    prerequisite: &Task,
    kind: DependencyKind,
) -> TaskDependency {
    TaskDependency {
        project_id: task.project_id.clone(),
        task_id: task.id.clone(),
        depends_on_id: prerequisite.id.clone(),
        kind,
        created_by: context.agent_id().cloned(),
        created_at: context.tx.now,
        version: 1,
    }
}

/// The task that another becomes a part of: same project, and not too deep.
pub(super) fn parent_task(
    context: &mut ActionContext<'_, '_>,
    project: &Project,
    name: &TaskRef,
) -> Result<TaskId, PmFault> {
    let parent = context.tx.task_get(name)?;
    if parent.project_id != project.id {
        return Err(PmFault::not_found("task", name).hint("a task is part of a task of the same project"));
    }
    let (id, mut above) = (parent.id, parent.parent_id);
    for _ in 0..DEEPEST {
        match above {
            Some(next) => above = context.tx.task_get(&next.into())?.parent_id,
            None => return Ok(id),
        }
    }
    Err(PmFault::new(Code::TooLarge, format!("tasks may be nested at most {DEEPEST} deep")))
}

/// Workers may take work upon themselves; only managers give it to others.
pub(super) fn check_assignee(
    context: &mut ActionContext<'_, '_>,
    project: &Project,
    role: Role,
    assignee: &AgentId,
) -> Result<(), PmFault> {
    if context.agent_id() != Some(assignee) {
        role.check(Power::Manage)?;
    }
    context.tx.agent_get(assignee)?.check_active()?;
    if context.is_operator() && context.agent_id() == Some(assignee) {
        return Ok(());
    }
    match context.tx.membership_find(&project.id, assignee)? {
        Some(member) if member.role.may(Power::Work) => Ok(()),
        _ => Err(PmFault::invalid(format!("{assignee} does not work in this project")).with("field", "assignee_id")),
    }
}

pub(super) fn tell_assignee(context: &mut ActionContext<'_, '_>, task: &Task) -> Result<(), PmFault> {
    let Some(assignee) = &task.assignee_id else { return Ok(()) };
    let text = format!("{} was assigned to you: {}", task.reference, task.title);
    context.tx.notice_add(assignee, NoticeKind::Assigned, task.id.as_str(), &text)
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
