//! What the board for people shows and lets them do, beside the tools that agents have: columns of any size, what
//! waits for a person, who is at work, a task's whole story, and the health of the database.
//!
//! None of this is a tool: agents have no use for it, and every model of every session would pay for its description.

pub mod crew;
pub mod message;
pub mod needs;
pub mod state;
pub mod story;
pub mod timeline;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::view::TaskRow;
use super::{Action, ActionEffect};
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId, ProjectRef, TaskId};
use crate::domain::limit;
use crate::domain::member::Role;
use crate::domain::permission::Power;
use crate::domain::project::{Project, ProjectStatus};
use crate::domain::task::{Priority, Task, TaskStatus};
use crate::store::tx::{BoardFilter, WaitingTask};

/// How long something that is done stays on the board.
pub const DONE_DAYS: i64 = 7;
/// Cards of a column unless asked for more, and at most.
const CARDS: i64 = 40;
const MOST_CARDS: i64 = 1000;
/// How many labels can be chosen from.
const LABELS: i64 = 200;
/// How many prerequisites a card names.
const NAMED: usize = 3;
/// How much of a reason or a result a card shows.
const BRIEF: usize = 600;

/// The columns, in the order in which work goes through them.
const COLUMNS: [TaskStatus; 6] = [
    TaskStatus::Backlog,
    TaskStatus::Todo,
    TaskStatus::InProgress,
    TaskStatus::Review,
    TaskStatus::Blocked,
    TaskStatus::Done,
];

/// A project as columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetBoard {
    pub project_id: ProjectRef,
    /// Only the caller's own tasks.
    #[serde(default)]
    pub mine: bool,
    /// Only tasks of this agent.
    pub assignee_id: Option<AgentId>,
    /// Only tasks with this label.
    pub label: Option<String>,
    /// Only tasks of this priority.
    pub priority: Option<Priority>,
    /// Only tasks with this in their title or reference.
    pub text: Option<String>,
    /// Without what cannot be begun yet.
    #[serde(default)]
    pub ready_only: bool,
    /// How many cards of which column.
    #[serde(default)]
    pub cards: BTreeMap<TaskStatus, i64>,
}

impl GetBoard {
    /// All of a project.
    pub fn of(project_id: impl Into<ProjectRef>) -> Self {
        Self {
            project_id: project_id.into(),
            mine: false,
            assignee_id: None,
            label: None,
            priority: None,
            text: None,
            ready_only: false,
            cards: BTreeMap::new(),
        }
    }
}

/// A task that another waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardPrerequisite {
    pub id: TaskId,
    /// `KEY-n`.
    #[serde(rename = "ref")]
    pub reference: String,
    pub status: TaskStatus,
}

impl From<&WaitingTask> for CardPrerequisite {
    fn from(waiting: &WaitingTask) -> Self {
        Self { id: waiting.on.clone(), reference: waiting.reference.clone(), status: waiting.status }
    }
}

/// A task on the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCard {
    /// The task as in any list.
    #[serde(flatten)]
    pub row: TaskRow,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What it waits for: the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_on: Vec<CardPrerequisite>,
    /// What is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    /// What came out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<AgentId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BoardColumn {
    pub status: TaskStatus,
    /// How many tasks fit.
    pub total: i64,
    /// The first of them.
    pub cards: Vec<TaskCard>,
}

/// A project as columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BoardView {
    pub project_status: ProjectStatus,
    /// What the caller is in it.
    pub role: Role,
    /// Who the caller is.
    pub me: Option<AgentId>,
    pub columns: Vec<BoardColumn>,
    /// Labels to choose from.
    pub labels: Vec<String>,
    /// For how many days what is done is shown.
    pub done_days: i64,
}

impl Action for GetBoard {
    const NAME: &'static str = "get_board";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = BoardView;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<BoardView, PmFault> {
        let (project, role) = board_of(context, &self.project_id)?;
        let filter = self.filter(context, &project.id)?;
        // The counts are of all cards that match, not only of those that fit.
        let counts: BTreeMap<TaskStatus, i64> = context.tx.board_counts(&filter)?.into_iter().collect();
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for status in COLUMNS {
            let total = counts.get(&status).copied().unwrap_or(0);
            // The page asks for more cards of one column at a time.
            let limit = self.cards.get(&status).copied().unwrap_or(CARDS).clamp(1, MOST_CARDS);
            // An empty column costs no query.
            let found = if total == 0 { Vec::new() } else { context.tx.board_column(&filter, status, limit)? };
            columns.push(BoardColumn { status, total, cards: cards(context, &found)? });
        }
        Ok(BoardView {
            project_status: project.status,
            role,
            me: context.agent_id().cloned(),
            columns,
            labels: context.tx.board_labels(&project.id, LABELS)?,
            done_days: DONE_DAYS,
        })
    }
}

impl GetBoard {
    fn filter(&self, context: &ActionContext<'_, '_>, project: &ProjectId) -> Result<BoardFilter, PmFault> {
        // `mine` wins over a chosen assignee: the page offers one or the other.
        let mine = if self.mine { Some(context.agent()?.id) } else { None };
        let text = self.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        limit::chars("text", text.unwrap_or_default(), 0, 200)?;
        Ok(BoardFilter {
            project: project.clone(),
            assignee: mine.or_else(|| self.assignee_id.clone()),
            label: self.label.clone(),
            priority: self.priority,
            text: text.map(str::to_owned),
            is_ready_only: self.ready_only,
            // Old finished work would fill the board.
            done_since: context.tx.now.plus_seconds(-DONE_DAYS * 24 * 3600),
        })
    }
}

/// A project whose board the caller may look at.
pub(super) fn board_of(context: &mut ActionContext<'_, '_>, name: &ProjectRef) -> Result<(Project, Role), PmFault> {
    let id = context.project_id(name)?;
    let role = context.role(&id)?;
    role.check(Power::Read)?;
    Ok((context.tx.project_get(&id)?, role))
}

pub(super) fn cards(context: &mut ActionContext<'_, '_>, tasks: &[Task]) -> Result<Vec<TaskCard>, PmFault> {
    // Prerequisites are read once for all cards, and only for those that wait.
    let held_up: Vec<&TaskId> = tasks.iter().filter(|task| task.open_blockers > 0).map(|task| &task.id).collect();
    let waiting = if held_up.is_empty() { Vec::new() } else { context.tx.board_waiting(&held_up)? };
    let rows = context.rows(tasks)?;
    Ok(rows.into_iter().zip(tasks).map(|(row, task)| card(row, task, &waiting)).collect())
}

fn card(row: TaskRow, task: &Task, waiting: &[WaitingTask]) -> TaskCard {
    let brief = |text: &str| limit::clip(text, BRIEF).0;
    TaskCard {
        labels: task.labels.clone(),
        waiting_on: waiting.iter().filter(|one| one.task == task.id).take(NAMED).map(CardPrerequisite::from).collect(),
        blocked_reason: task.blocked_reason.as_deref().map(brief),
        result: task.result.as_ref().map(|result| brief(&result.summary)),
        created_by: task.created_by.clone(),
        row,
    }
}
