//! The verbs that move work: new, next, claim, release, review, done, block, move, handoff, accept.

use tsugi_pm::action::admin::ForceRelease;
use tsugi_pm::action::claim::{ClaimTask, ReleaseTask};
use tsugi_pm::action::create::{CreateTask, NewTask};
use tsugi_pm::action::get_task::{GetTask, Section};
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff};
use tsugi_pm::action::status::{ReviewTask, UpdateTaskStatus};
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::id::{AgentId, HandoffId, SessionId, TaskRef};
use tsugi_pm::domain::task::{Priority, TaskStatus, Verdict, WorkResult};

use super::{PmConsole, PmTarget, named, show, told};
use crate::app::App;
use crate::failure::CommandFailure;

#[derive(Debug, clap::Args)]
pub(super) struct NewTaskArgs {
    #[command(flatten)]
    place: PmTarget,
    /// What it is, in a line
    title: String,
    /// In which project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// What it is, in full
    #[arg(long, default_value = "")]
    description: String,
    /// How urgent it is: critical, high, medium or low
    #[arg(long)]
    priority: Option<Priority>,
    /// What it waits for; may be repeated
    #[arg(long = "after", alias = "depends-on", value_name = "TASK")]
    depends_on: Vec<String>,
    /// A word to find it by; may be repeated
    #[arg(long = "label", value_name = "WORD")]
    labels: Vec<String>,
    /// Create it although an open task has the same title
    #[arg(long)]
    similar_ok: bool,
}

pub(super) async fn new(app: &App, order: NewTaskArgs) -> Result<(), CommandFailure> {
    let desk = PmConsole::open(app, &order.place).await?;
    let project_id = desk.project(order.project.as_deref()).await?;
    let task = NewTask {
        title: order.title,
        description: order.description,
        priority: order.priority,
        depends_on: order.depends_on,
        labels: order.labels,
        similar_ok: order.similar_ok,
        ..NewTask::default()
    };
    desk.show(CreateTask { project_id, task, idempotency_key: None }).await
}

#[derive(Debug, clap::Args)]
pub(super) struct NextTaskArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Only in this project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// Take it
    #[arg(long)]
    claim: bool,
    /// For which session of the agent, where it has several
    #[arg(long, value_name = "ID", requires = "claim")]
    session: Option<String>,
}

pub(super) async fn next(app: &App, order: &NextTaskArgs) -> Result<(), CommandFailure> {
    let desk = PmConsole::open(app, &order.place).await?;
    let project_id = desk.project_if_named(order.project.as_deref()).await?;
    if order.claim {
        let session_id = session(app, order.session.as_deref())?;
        return desk.show(ClaimTask { project_id, session_id, ..ClaimTask::default() }).await;
    }
    show::tasks(app, &show::ready_tasks(&desk, project_id, 1).await?, "nothing is ready")
}

fn session(app: &App, text: Option<&str>) -> Result<Option<SessionId>, CommandFailure> {
    named(app, text.map(SessionId::parse).transpose())
}

/// A task, and who moves it.
#[derive(Debug, clap::Args)]
struct TaskArg {
    #[command(flatten)]
    place: PmTarget,
    /// The task: KEY-n or tsk_…
    task: String,
    /// From which session of the agent; the one that holds the task, or its only one, when unset
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// An open database, a task in it, and the session that moves it when that is clear.
struct OpenedTask<'a> {
    desk: PmConsole<'a>,
    task_id: TaskRef,
    session_id: Option<SessionId>,
}

impl TaskArg {
    async fn open<'a>(&self, app: &'a App) -> Result<OpenedTask<'a>, CommandFailure> {
        let task_id = named(app, TaskRef::parse(&self.task))?;
        let named = session(app, self.session.as_deref())?;
        let desk = PmConsole::open(app, &self.place).await?;
        let session_id = match named {
            None => desk.holding_session(&task_id).await?,
            named => named,
        };
        Ok(OpenedTask { desk, task_id, session_id })
    }
}

impl PmConsole<'_> {
    /// The session of whoever acts that holds a task. An agent may have several, and only one of them can mean this.
    async fn holding_session(&self, task_id: &TaskRef) -> Result<Option<SessionId>, CommandFailure> {
        let Some(agent) = self.caller.agent_id() else { return Ok(None) };
        let wish = GetTask { task_id: task_id.clone(), include: vec![Section::Claim], max_bytes: None };
        let claim = self.perform(wish).await?.claim;
        Ok(claim.filter(|claim| claim.agent_id == *agent).map(|claim| claim.session_id))
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ClaimTaskArgs {
    #[command(flatten)]
    of: TaskArg,
}

pub(super) async fn claim(app: &App, order: &ClaimTaskArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    desk.show(ClaimTask { task_id: Some(task_id), session_id, ..ClaimTask::default() }).await
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    of: TaskArg,
    /// Why
    reason: String,
}

pub(super) async fn release(app: &App, order: ReleaseArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    if desk.caller.agent_id().is_none() {
        // Nobody in particular holds nothing: whoever has the database in hand takes the task away.
        desk.refuse_free(&task_id).await?;
        return desk.show(ForceRelease { task_id, reason: order.reason }).await;
    }
    desk.show(ReleaseTask { task_id, reason: order.reason, note: None, session_id, idempotency_key: None }).await
}

impl PmConsole<'_> {
    /// Taking away what nobody holds would look as if something had been done.
    async fn refuse_free(&self, task_id: &TaskRef) -> Result<(), CommandFailure> {
        let wish = GetTask { task_id: task_id.clone(), include: vec![Section::Claim], max_bytes: None };
        let found = self.perform(wish).await?;
        match found.claim {
            Some(_) => Ok(()),
            None => {
                let text = format!("nobody holds {}", found.task.reference);
                Err(told(
                    self.app,
                    &PmFault::new(Code::InvalidTransition, text).hint("`tsugi pm who` shows who holds what"),
                ))
            }
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ReviewArgs {
    #[command(flatten)]
    of: TaskArg,
    /// What was done
    #[arg(long)]
    summary: Option<String>,
    /// The work is good
    #[arg(long, conflicts_with = "changes")]
    approve: bool,
    /// The work needs this
    #[arg(long, value_name = "NOTES")]
    changes: Option<String>,
}

pub(super) async fn review(app: &App, order: ReviewArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    let verdict = if order.changes.is_some() { Verdict::Changes } else { Verdict::Approve };
    if order.approve || order.changes.is_some() {
        return desk.show(ReviewTask { task_id, verdict, notes: order.changes, idempotency_key: None }).await;
    }
    desk.show(UpdateTaskStatus { session_id, ..finished(task_id, TaskStatus::Review, order.summary) }).await
}

#[derive(Debug, clap::Args)]
pub(super) struct DoneArgs {
    #[command(flatten)]
    of: TaskArg,
    /// What was done
    #[arg(long)]
    summary: Option<String>,
}

pub(super) async fn done(app: &App, order: DoneArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    desk.show(UpdateTaskStatus { session_id, ..finished(task_id, TaskStatus::Done, order.summary) }).await
}

fn finished(task_id: TaskRef, status: TaskStatus, summary: Option<String>) -> UpdateTaskStatus {
    let result = summary.map(|summary| WorkResult { summary, evidence: Vec::new() });
    UpdateTaskStatus { result, ..UpdateTaskStatus::new(task_id, status) }
}

#[derive(Debug, clap::Args)]
pub(super) struct BlockArgs {
    #[command(flatten)]
    of: TaskArg,
    /// What is in the way
    reason: String,
}

pub(super) async fn block(app: &App, order: BlockArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    let reason = Some(order.reason);
    desk.show(UpdateTaskStatus { reason, session_id, ..UpdateTaskStatus::new(task_id, TaskStatus::Blocked) }).await
}

#[derive(Debug, clap::Args)]
pub(super) struct MoveArgs {
    #[command(flatten)]
    of: TaskArg,
    /// Where to: backlog, todo, in_progress, review, blocked, done or cancelled
    status: TaskStatus,
    /// Why; some moves need a reason
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn change(app: &App, order: MoveArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    desk.show(UpdateTaskStatus { reason: order.reason, session_id, ..UpdateTaskStatus::new(task_id, order.status) })
        .await
}

#[derive(Debug, clap::Args)]
pub(super) struct HandoffArgs {
    #[command(flatten)]
    of: TaskArg,
    /// What was done and where things stand
    #[arg(long)]
    summary: String,
    /// What to do next; may be repeated
    #[arg(long = "next", value_name = "STEP", required = true)]
    next_steps: Vec<String>,
    /// What to beware of; may be repeated
    #[arg(long = "warning", value_name = "TEXT")]
    warnings: Vec<String>,
    /// To whom; whoever comes when unset
    #[arg(long, value_name = "ID")]
    to: Option<String>,
}

pub(super) async fn handoff(app: &App, order: HandoffArgs) -> Result<(), CommandFailure> {
    let OpenedTask { desk, task_id, session_id } = order.of.open(app).await?;
    let to_agent_id = named(app, order.to.as_deref().map(AgentId::parse).transpose())?;
    desk.show(CreateHandoff {
        task_id,
        summary: order.summary,
        next_steps: order.next_steps,
        to_agent_id,
        warnings: order.warnings,
        done: Vec::new(),
        uncertain: Vec::new(),
        git: None,
        session_id,
        idempotency_key: None,
    })
    .await
}

#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    #[command(flatten)]
    place: PmTarget,
    /// The handoff: hnd_…, or the task it is about
    handoff: String,
    /// For which session of the agent, where it has several
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub(super) async fn accept(app: &App, order: &AcceptArgs) -> Result<(), CommandFailure> {
    let desk = PmConsole::open(app, &order.place).await?;
    let handoff_id = match HandoffId::parse(&order.handoff) {
        Ok(id) => id,
        Err(_) => handoff_on(&desk, &order.handoff).await?,
    };
    let session_id = session(app, order.session.as_deref())?;
    desk.show(AcceptHandoff { handoff_id, note: None, session_id, idempotency_key: None }).await
}

/// The handoff that waits on a task, or was the last to.
async fn handoff_on(desk: &PmConsole<'_>, task: &str) -> Result<HandoffId, CommandFailure> {
    let task_id = named(desk.app, TaskRef::parse(task))?;
    let wish = GetTask { task_id, include: vec![Section::Handoff], max_bytes: None };
    let missing = || PmFault::not_found("handoff", task).hint("nobody has handed this task over");
    desk.perform(wish).await?.handoff.map(|handoff| handoff.id.clone()).ok_or_else(|| told(desk.app, &missing()))
}
