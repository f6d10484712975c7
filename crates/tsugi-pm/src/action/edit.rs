//! Changing what a task says and what it waits for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::view::{TaskRow, TaskView, check_version, version_conflict};
use super::{Action, ActionEffect};
use crate::action::context::touch_hold;
use crate::action::create::{check_assignee, edge, parent_task, tell_assignee};
use crate::domain::dependency::DependencyKind;
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, TaskId, TaskRef};
use crate::domain::permission::Power;
use crate::domain::session::AgentSession;
use crate::domain::task::{AcceptanceCriterion, Priority, Task, title_key};
use crate::domain::time::Moment;

/// Changes to a list of labels.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabelChange {
    pub add: Vec<String>,
    pub remove: Vec<String>,
    /// To have instead of all.
    pub set: Option<Vec<String>>,
}

impl LabelChange {
    fn apply(&self, labels: &[String]) -> Vec<String> {
        // `set` replaces first; `add` and `remove` then apply to the new list.
        let mut labels = self.set.clone().unwrap_or_else(|| labels.to_vec());
        labels.retain(|label| !self.remove.contains(label));
        // Adding a label twice is not an error.
        let fresh: Vec<String> = self.add.iter().filter(|label| !labels.contains(label)).cloned().collect();
        labels.extend(fresh);
        labels
    }
}

/// Changes to the criteria: by place, counted from zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AcceptanceChange {
    pub check: Vec<usize>,
    pub uncheck: Vec<usize>,
    pub add: Vec<String>,
}

impl AcceptanceChange {
    fn apply(&self, criteria: &[AcceptanceCriterion]) -> Result<Vec<AcceptanceCriterion>, PmFault> {
        let mut criteria = criteria.to_vec();
        // An index that is out of range refuses the whole change.
        let ticks = self.check.iter().map(|at| (*at, true)).chain(self.uncheck.iter().map(|at| (*at, false)));
        for (at, done) in ticks {
            let one = criteria
                .get_mut(at)
                .ok_or_else(|| PmFault::invalid(format!("the task has no acceptance criterion {at}")))?;
            one.done = done;
        }
        // Appended after the ticks: their indexes mean the list that the caller saw.
        criteria.extend(self.add.iter().map(|text| AcceptanceCriterion { text: text.clone(), done: false }));
        Ok(criteria)
    }
}

/// Changes a task's fields; those not named stay as they are.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTask {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// one line
    #[schemars(extend("ja" = "件名"))]
    pub title: Option<String>,
    /// full text
    #[schemars(extend("ja" = "説明"))]
    pub description: Option<String>,
    /// urgency
    #[schemars(extend("ja" = "優先度"))]
    pub priority: Option<Priority>,
    /// what changes
    #[schemars(extend("ja" = "ラベルの変更"))]
    pub labels: Option<LabelChange>,
    /// by index
    #[schemars(extend("ja" = "条件"))]
    pub acceptance: Option<AcceptanceChange>,
    /// "" for none
    #[schemars(extend("ja" = "担当者"))]
    pub assignee_id: Option<String>,
    /// ms UTC
    #[schemars(extend("ja" = "期限(ms)"))]
    pub due_at: Option<Moment>,
    /// "" for none
    #[schemars(extend("ja" = "親タスク"))]
    pub parent_id: Option<String>,
    /// you saw
    #[schemars(extend("ja" = "確認済みの版", "rare" = true))]
    pub expected_version: Option<i64>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

impl UpdateTask {
    /// A change of nothing yet.
    pub fn of(task_id: impl Into<TaskRef>) -> Self {
        Self {
            task_id: task_id.into(),
            title: None,
            description: None,
            priority: None,
            labels: None,
            acceptance: None,
            assignee_id: None,
            due_at: None,
            parent_id: None,
            expected_version: None,
            idempotency_key: None,
        }
    }
}

/// A task that was changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdatedTask {
    pub task: TaskView,
}

impl Action for UpdateTask {
    const NAME: &'static str = "update_task";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = UpdatedTask;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<UpdatedTask, PmFault> {
        // Editing needs no session; one that is clear renews its lease on the way.
        let session = context.session_if_clear()?;
        // Locked from here on, with an expired lease ended.
        let open = context.task_to_change(&self.task_id, Power::EditTask)?;
        // Optimistic locking: the caller acts on what it last read.
        check_version(&open.task, self.expected_version)?;
        self.check_free_text(context, &open.task, session.as_ref())?;
        touch_hold(context, &open, session.as_ref())?;
        let after = self.apply(context, &open)?;
        after.check()?;
        let is_new_owner = after.assignee_id != open.task.assignee_id;
        let task = context.tx.task_update(&open.task, after, EventKind::TaskUpdated.note())?;
        if is_new_owner {
            tell_assignee(context, &task)?;
        }
        Ok(UpdatedTask { task: TaskView::brief(&task) })
    }
}

impl UpdateTask {
    /// Another agent's description is not overwritten by a caller that may not have read it.
    fn check_free_text(
        &self,
        context: &mut ActionContext<'_, '_>,
        task: &Task,
        session: Option<&AgentSession>,
    ) -> Result<(), PmFault> {
        if self.expected_version.is_some() || self.description.as_ref().is_none_or(|new| *new == task.description) {
            return Ok(());
        }
        let events = context.tx.event_latest(task.id.as_str(), 200)?;
        let last = events.iter().find(|event| event.changes.iter().any(|change| change.field == "description"));
        // Another session of the same agent is another mind. What was written outside of any counts for all.
        let is_mine = last.is_some_and(|event| {
            let is_here = event.session_id.is_none() || event.session_id.as_ref() == session.map(|one| &one.id);
            event.actor_agent_id == context.tx.stamp.actor && is_here
        });
        if is_mine { Ok(()) } else { Err(version_conflict(task)) }
    }

    fn apply(&self, context: &mut ActionContext<'_, '_>, open: &OpenTask) -> Result<Task, PmFault> {
        let mut task = open.task.clone();
        if let Some(title) = &self.title {
            task.title.clone_from(title);
            task.title_key = title_key(title);
        }
        if let Some(description) = &self.description {
            task.description.clone_from(description);
        }
        task.priority = self.priority.unwrap_or(task.priority);
        if let Some(change) = &self.labels {
            task.labels = change.apply(&task.labels);
        }
        if let Some(change) = &self.acceptance {
            task.acceptance = change.apply(&task.acceptance)?;
        }
        if let Some(due_at) = self.due_at {
            task.due_at = Some(due_at).filter(|due| due.0 != 0);
        }
        if let Some(parent) = &self.parent_id {
            task.parent_id = self.new_parent(context, open, parent)?;
        }
        if let Some(assignee) = &self.assignee_id {
            task.assignee_id = self.new_assignee(context, open, assignee)?;
        }
        Ok(task)
    }

    fn new_parent(
        &self,
        context: &mut ActionContext<'_, '_>,
        open: &OpenTask,
        parent: &str,
    ) -> Result<Option<TaskId>, PmFault> {
        if parent.is_empty() {
            return Ok(None);
        }
        let parent = parent_task(context, &open.project, &TaskRef::parse(parent)?)?;
        // A task that becomes its own ancestor would make every walk up endless.
        let mut above = Some(parent.clone());
        while let Some(id) = above {
            if id == open.task.id {
                return Err(PmFault::new(Code::DependencyCycle, "a task cannot be a part of itself"));
            }
            above = context.tx.task_get(&id.into())?.parent_id;
        }
        Ok(Some(parent))
    }

    /// Assigning a task withdraws a pending handoff to another agent, and is refused while the task is held.
    fn new_assignee(
        &self,
        context: &mut ActionContext<'_, '_>,
        open: &OpenTask,
        assignee: &str,
    ) -> Result<Option<AgentId>, PmFault> {
        open.role.check(Power::Manage)?;
        let wished = if assignee.is_empty() { None } else { Some(AgentId::parse(assignee)?) };
        if wished == open.task.assignee_id {
            return Ok(wished);
        }
        if let Some(claim) = &open.claim {
            return Err(PmFault::new(
                Code::AlreadyClaimed,
                format!("{} works on {}", claim.agent_id, open.task.reference),
            )
            .hint("release it first: tsugi pm release")
            .with("holder", &claim.agent_id)
            .with("expires_at", claim.expires_at));
        }
        if let Some(agent) = &wished {
            check_assignee(context, &open.project, open.role, agent)?;
        }
        context.withdraw_handoff(&open.task, "the task was assigned to another agent")?;
        Ok(wished)
    }
}

/// Changes what a task waits for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateDependencies {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// task ids
    #[serde(default)]
    #[schemars(extend("ja" = "追加"))]
    pub add: Vec<TaskRef>,
    /// task ids
    #[serde(default)]
    #[schemars(extend("ja" = "削除"))]
    pub remove: Vec<TaskRef>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

/// What a task waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskDependencies {
    /// The tasks it waits for.
    pub dependencies: Vec<TaskRow>,
    /// Whether it could begin.
    pub ready: bool,
    pub version: i64,
}

impl Action for UpdateDependencies {
    const NAME: &'static str = "update_dependencies";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = TaskDependencies;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TaskDependencies, PmFault> {
        let session = context.session_if_clear()?;
        let seen = context.task_to_read(&self.task_id)?;
        context.tx.dependency_lock_graph(&seen.project_id)?;
        let mut ids = vec![seen.id.clone()];
        for name in self.add.iter().chain(&self.remove) {
            ids.push(context.task_to_read(name)?.id);
        }
        context.tx.task_lock_all(&ids)?;
        let open = context.task_to_change(&self.task_id, Power::EditTask)?;
        touch_hold(context, &open, session.as_ref())?;
        for name in &self.remove {
            self.drop_edge(context, &open, name)?;
        }
        for name in &self.add {
            self.add_edge(context, &open, name)?;
        }
        let edges = context.tx.dependency_list(&open.task.id)?;
        if edges.len() > crate::domain::limit::BATCH {
            return Err(PmFault::new(Code::TooLarge, "a task may wait for at most 100 others"));
        }
        let task = context.tx.task_get(&open.task.id.into())?;
        let rows =
            edges.into_iter().map(|edge| context.tx.task_get(&edge.depends_on_id.into()).map(|one| TaskRow::new(&one)));
        Ok(TaskDependencies {
            dependencies: rows.collect::<Result<_, _>>()?,
            ready: task.is_ready(),
            version: task.version,
        })
    }
}

impl UpdateDependencies {
    fn drop_edge(&self, context: &mut ActionContext<'_, '_>, open: &OpenTask, name: &TaskRef) -> Result<(), PmFault> {
        let prerequisite = context.tx.task_get(name)?;
        match context.tx.dependency_find(&open.task.id, &prerequisite.id)? {
            Some(edge) => context.tx.dependency_remove(&edge, &prerequisite, EventKind::DependencyRemoved.note()),
            None => Ok(()),
        }
    }

    fn add_edge(&self, context: &mut ActionContext<'_, '_>, open: &OpenTask, name: &TaskRef) -> Result<(), PmFault> {
        let prerequisite = context.tx.task_get(name)?;
        if prerequisite.project_id != open.project.id {
            return Err(PmFault::not_found("task", name).hint("tasks wait only for tasks of the same project"));
        }
        if context.tx.dependency_find(&open.task.id, &prerequisite.id)?.is_some() {
            return Ok(());
        }
        if context.tx.dependency_reaches(&prerequisite.id, &open.task.id)? {
            let message = format!("{} already waits for {}", prerequisite.reference, open.task.reference);
            return Err(PmFault::new(Code::DependencyCycle, message).with("task_id", &prerequisite.id));
        }
        let edge = edge(context, &open.task, &prerequisite, DependencyKind::Blocks);
        context.tx.dependency_add(&edge, &prerequisite, EventKind::DependencyAdded.note())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_then_removed_then_added_without_doubles() {
        let change = LabelChange { add: vec!["b".into(), "c".into()], remove: vec!["a".into()], set: None };
        assert_eq!(change.apply(&["a".into(), "b".into()]), ["b", "c"]);
        let change = LabelChange { set: Some(vec!["x".into()]), ..LabelChange::default() };
        assert_eq!(change.apply(&["a".into()]), ["x"]);
    }

    #[test]
    fn criteria_are_ticked_by_place_and_a_wrong_place_is_refused() {
        let criteria = [AcceptanceCriterion { text: "a".into(), done: false }];
        let change = AcceptanceChange { check: vec![0], add: vec!["b".into()], ..AcceptanceChange::default() };
        let after = change.apply(&criteria).unwrap();
        assert!(after[0].done && !after[1].done);
        assert!(AcceptanceChange { check: vec![1], ..AcceptanceChange::default() }.apply(&criteria).is_err());
    }
}
