//! Lists of tasks: one's own, all of them, and those that could be done now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::view::{TaskRow, cursor, page, place, rows};
use super::{Action, ActionEffect};
use crate::domain::claim::Claim;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ProjectRef, SessionId, TaskRef};
use crate::domain::task::{Task, TaskSort, TaskStatus};
use crate::domain::word::words;
use crate::store::tx::{ReadyPick, TaskFilter};

/// Waiting tasks are counted up to here.
const COUNT_UP_TO: i64 = 100;

words! {
    /// How a task can be mine.
    Mine {
        Claimed = "claimed",
        /// It is assigned to me.
        Assigned = "assigned",
        Created = "created",
        /// It waits for a review that I could give.
        Reviewing = "reviewing",
    }
}

/// Lists the caller's tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GetMyTasks {
    /// a status, or open
    #[schemars(extend("ja" = "ステータスフィルタ"))]
    pub status: Option<String>,
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// which of yours
    #[schemars(extend("ja" = "対象"))]
    pub include: Vec<Mine>,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
    /// next_cursor
    #[schemars(extend("ja" = "続き"))]
    pub cursor: Option<String>,
}

/// A page of tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskList {
    pub tasks: Vec<TaskRow>,
    /// Where to go on, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A place in a list of tasks: how far in which part.
type TaskCursor = (usize, i64, String);

impl Action for GetMyTasks {
    const NAME: &'static str = "get_my_tasks";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = TaskList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TaskList, PmFault> {
        // Each way of being mine is one query; the cursor says in which part to continue.
        let parts = self.parts(context)?;
        let (part, key, id) = place::<TaskCursor>(self.cursor.as_deref())?.unwrap_or_default();
        let wanted = rows(self.limit)? + 1;
        let mut found: Vec<(usize, Task)> = Vec::new();
        for (at, filter) in parts.iter().enumerate().skip(part) {
            let after = (at == part && !id.is_empty()).then(|| (key, id.clone()));
            // Only the part in which the last page ended starts in the middle.
            let filter = TaskFilter { after, limit: wanted, ..filter.clone() };
            for task in context.tx.task_list(&filter)? {
                // A task that an earlier part has shown is not shown again.
                if !parts[..at].iter().any(|earlier| is_in(earlier, &task)) {
                    found.push((at, task));
                }
            }
            if found.len() as i64 >= wanted {
                break;
            }
        }
        let places: Vec<TaskCursor> =
            found.iter().map(|(at, task)| (*at, TaskSort::Updated.key(task), task.id.to_string())).collect();
        let found: Vec<Task> = found.into_iter().map(|(_, task)| task).collect();
        let (tasks, has_more) = page(context.rows(&found)?, self.limit)?;
        let next_cursor = tasks.len().checked_sub(1).filter(|_| has_more).map(|last| cursor(&places[last]));
        Ok(TaskList { tasks, next_cursor })
    }
}

impl GetMyTasks {
    fn parts(&self, context: &mut ActionContext<'_, '_>) -> Result<Vec<TaskFilter>, PmFault> {
        let me = context.agent()?.id;
        // The filters that all parts share.
        let base = TaskFilter {
            projects: context.projects(self.project_id.as_ref())?,
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

    fn statuses(&self) -> Result<Vec<TaskStatus>, PmFault> {
        match self.status.as_deref() {
            None => Ok(Vec::new()),
            // `open` is what the first design called everything that is not finished.
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
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListTasks {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// any of
    #[schemars(extend("ja" = "ステータス"))]
    pub status: Vec<TaskStatus>,
    /// agent id
    #[schemars(extend("ja" = "担当者"))]
    pub assignee_id: Option<AgentId>,
    /// having it
    #[schemars(extend("ja" = "ラベル"))]
    pub label: Option<String>,
    /// part of
    #[schemars(extend("ja" = "親タスク"))]
    pub parent_id: Option<TaskRef>,
    /// unchanged for
    #[schemars(extend("ja" = "未更新秒"))]
    pub stale_after_s: Option<i64>,
    /// words in it
    #[schemars(extend("ja" = "検索語"))]
    pub text: Option<String>,
    /// order
    #[schemars(extend("ja" = "並び順"))]
    pub sort: Option<TaskSort>,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
    /// next_cursor
    #[schemars(extend("ja" = "続き"))]
    pub cursor: Option<String>,
}

impl Action for ListTasks {
    const NAME: &'static str = "list_tasks";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = TaskList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TaskList, PmFault> {
        let sort = self.sort.unwrap_or(TaskSort::Updated);
        let parent = self.parent_id.as_ref().map(|name| context.task_to_read(name).map(|task| task.id)).transpose()?;
        let filter = TaskFilter {
            projects: context.projects(self.project_id.as_ref())?,
            statuses: self.status.clone(),
            assignee: self.assignee_id.clone(),
            label: self.label.clone(),
            parent,
            untouched_since: self.stale_after_s.map(|seconds| context.tx.now.plus_seconds(-seconds)),
            text: self.text.clone(),
            // The cursor holds the sort key of the last row, so pages stay stable while rows change.
            sort,
            after: place(self.cursor.as_deref())?,
            limit: rows(self.limit)? + 1,
            ..everything()
        };
        let found = context.tx.task_list(&filter)?;
        let (tasks, has_more) = page(context.rows(&found)?, self.limit)?;
        let last = tasks.len().checked_sub(1).filter(|_| has_more).map(|at| &found[at]);
        Ok(TaskList { next_cursor: last.map(|task| cursor(&(sort.key(task), &task.id))), tasks })
    }
}

/// What could be done now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GetReadyTasks {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// having all
    #[schemars(extend("ja" = "ラベル"))]
    pub labels: Vec<String>,
    /// only yours; true
    #[schemars(extend("ja" = "能力で絞る", "rare" = true))]
    pub capability_match: Option<bool>,
    /// at most
    #[schemars(extend("ja" = "件数"))]
    pub limit: Option<i64>,
    /// Whose holds are shown.
    #[schemars(skip)]
    pub session_id: Option<SessionId>,
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
pub struct ReadyList {
    /// What the session holds already: go on with these first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_hand: Vec<TaskRow>,
    pub tasks: Vec<TaskRow>,
    /// Why more is not.
    pub blocked_summary: BlockedSummary,
}

impl Action for GetReadyTasks {
    const NAME: &'static str = "get_ready_tasks";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = ReadyList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ReadyList, PmFault> {
        // A short list by default: an agent takes the first.
        let wanted = self.limit.map_or(Ok(10), |limit| rows(Some(limit)))?;
        let agent = context.agent()?;
        let projects = context.projects_at_work(self.project_id.as_ref())?;
        let is_able = self.capability_match.unwrap_or(true);
        let capabilities = is_able.then_some(agent.capabilities.as_slice());
        let pick = ReadyPick { agent: &agent.id, capabilities, labels: &self.labels };
        let mut summary = BlockedSummary { n: 0, top_blockers: Vec::new() };
        for project in &projects {
            summary.n += context.tx.task_waiting_count(project, COUNT_UP_TO)?;
            let blockers = context.tx.task_top_blockers(project, 3)?;
            summary.top_blockers.extend(blockers.iter().map(TaskRow::new));
        }
        // Enough to see what to do first.
        summary.top_blockers.truncate(3);
        Ok(ReadyList {
            in_hand: self.in_hand(context, &agent.id)?,
            tasks: context.ready(&pick, &projects, wanted)?.iter().map(TaskRow::new).collect(),
            blocked_summary: summary,
        })
    }
}

impl GetReadyTasks {
    /// What the caller's session holds; nothing when it is not clear which session that is. What another session of
    /// the same agent holds is that one's work.
    fn in_hand(&self, context: &mut ActionContext<'_, '_>, agent: &AgentId) -> Result<Vec<TaskRow>, PmFault> {
        let held = context.tx.claim_of_agent(agent)?;
        let project = context.project_id_if_named(self.project_id.as_ref())?;
        let is_here = |claim: &&Claim| project.as_ref().is_none_or(|project| claim.project_id == *project);
        let mut held: Vec<&Claim> = held.iter().filter(is_here).collect();
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let session = match context.session_id(self.session_id.as_ref()) {
            Err(fault) if fault.code == Code::SessionAmbiguous => None,
            other => other?,
        };
        held.retain(|claim| session.as_ref() == Some(&claim.session_id));
        held.iter()
            .take(10)
            .map(|claim| context.tx.task_get(&claim.task_id.clone().into()).map(|task| TaskRow::new(&task)))
            .collect()
    }
}
