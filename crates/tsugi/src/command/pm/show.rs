//! The verbs that look at what is: board, ready, show, who.

use serde_json::json;
use tsugi_pm::action::agent::{ListSessions, SessionRow};
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::list::{GetReadyTasks, ListTasks};
use tsugi_pm::action::view::TaskRow;
use tsugi_pm::domain::id::{ProjectRef, TaskRef};
use tsugi_pm::domain::task::{TaskSort, TaskStatus};

use super::{PmConsole, PmTarget, layout, named};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::output::table::TextTable;

/// The most rows of a list.
const ROWS: i64 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct BoardArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Only this project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// Also what is done or cancelled
    #[arg(long)]
    all: bool,
}

pub(super) async fn board(app: &App, order: &BoardArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let project_id = console.project_if_named(order.project.as_deref()).await?;
    let mut rows = Vec::new();
    // One list per status, so that each is complete and in order.
    for status in TaskStatus::ALL.iter().filter(|status| order.all || status.is_open()) {
        rows.extend(console.tasks_in(*status, project_id.clone(), |_| true, usize::MAX).await?);
    }
    if app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
        return Ok(app.output.page(|paint| layout::board(&rows, paint))?);
    }
    tasks(app, &rows, "no open tasks")
}

impl PmConsole<'_> {
    /// The tasks of one status that are wanted, the most urgent first: page after page, until there are enough.
    async fn tasks_in(
        &self,
        status: TaskStatus,
        project_id: Option<ProjectRef>,
        is_wanted: fn(&TaskRow) -> bool,
        enough: usize,
    ) -> Result<Vec<TaskRow>, CommandFailure> {
        // People want the most urgent first, whatever page it is on.
        let (status, sort, limit) = (vec![status], Some(TaskSort::Priority), Some(ROWS));
        let mut wish = ListTasks { project_id, status, sort, limit, ..ListTasks::default() };
        let mut rows = Vec::new();
        loop {
            let page = self.perform(wish.clone()).await?;
            rows.extend(page.tasks.into_iter().filter(is_wanted));
            wish.cursor = page.next_cursor;
            if wish.cursor.is_none() || rows.len() >= enough {
                rows.truncate(enough);
                return Ok(rows);
            }
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ReadyArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Only this project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
}

pub(super) async fn ready(app: &App, order: &ReadyArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let project_id = console.project_if_named(order.project.as_deref()).await?;
    tasks(app, &ready_tasks(&console, project_id, usize::MAX).await?, "nothing is ready")
}

/// Tasks that can start now, best first, up to a number: for the agent that acts, or for any agent when none does.
pub(super) async fn ready_tasks(
    console: &PmConsole<'_>,
    project_id: Option<ProjectRef>,
    enough: usize,
) -> Result<Vec<TaskRow>, CommandFailure> {
    // The operator has no capabilities to match: everything ready is listed.
    if console.caller.agent_id().is_none() {
        return console.tasks_in(TaskStatus::Todo, project_id, |task| task.ready, enough).await;
    }
    let wish = GetReadyTasks { project_id, limit: Some(ROWS), ..GetReadyTasks::default() };
    let ready = console.perform(wish).await?;
    if ready.tasks.len() as i64 == ROWS && enough > ready.tasks.len() {
        console.app.output.message(|_| format!("these are the best {ROWS}; there may be more"));
    }
    // What is in hand comes first: go on with that.
    let mut rows = [ready.in_hand, ready.tasks].concat();
    rows.truncate(enough);
    Ok(rows)
}

/// Tasks as data or as a table; where there are none, talk says so.
pub(super) fn tasks(app: &App, rows: &[TaskRow], none: &'static str) -> Result<(), CommandFailure> {
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(&json!({"tasks": rows}))?);
    }
    if app.output.is_data_watched() {
        return Ok(app.output.page(|paint| layout::ready(rows, paint))?);
    }
    if rows.is_empty() {
        app.output.message(|_| none.to_owned());
        return Ok(());
    }
    // Piped output is a plain table, for `cut` and `awk`.
    let mut table = TextTable::new(["task", "status", "priority", "assignee", "title"]);
    for task in rows {
        let waits = if task.waits_for > 0 {
            format!("{} (waits for {})", task.status, task.waits_for)
        } else {
            task.status.to_string()
        };
        let assignee = task.assignee_id.as_ref().map(ToString::to_string).unwrap_or_default();
        table.row([task.reference.clone(), waits, task.priority.to_string(), assignee, task.title.clone()]);
    }
    Ok(app.output.table(&table)?)
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowTaskArgs {
    #[command(flatten)]
    place: PmTarget,
    /// The task: KEY-n or tsk_…
    task: String,
}

pub(super) async fn task(app: &App, order: &ShowTaskArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let name = named(app, TaskRef::parse(&order.task))?;
    let detail = console.perform(GetTask::of(name)).await?;
    match app.output.form() {
        OutputFormat::Json => app.output.json(&detail)?,
        OutputFormat::Text => app.output.page(|paint| layout::task(&detail, layout::now(), paint))?,
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(super) struct WhoArgs {
    #[command(flatten)]
    place: PmTarget,
}

pub(super) async fn who(app: &App, order: &WhoArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let sessions = console.sessions().await?;
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(&json!({"sessions": sessions}))?);
    }
    if app.output.is_data_watched() {
        return Ok(app.output.page(|paint| layout::who(&sessions, layout::now(), paint))?);
    }
    let mut table = TextTable::new(["agent", "session", "state", "client", "holds", "checkpoint"]);
    for row in sessions {
        let holds: Vec<String> = row.tasks.iter().map(|task| task.reference.clone()).collect();
        table.row([
            row.session.agent_id.to_string(),
            row.session.id.to_string(),
            row.session.state.to_string(),
            row.session.client_name.unwrap_or_default(),
            holds.join(" "),
            row.checkpoint.unwrap_or_default(),
        ]);
    }
    Ok(app.output.table(&table)?)
}

impl PmConsole<'_> {
    /// Every session that is alive or whose claims wait.
    async fn sessions(&self) -> Result<Vec<SessionRow>, CommandFailure> {
        let (mut sessions, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.perform(ListSessions { limit: Some(ROWS), cursor }).await?;
            sessions.extend(page.sessions);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(sessions);
            }
        }
    }
}
