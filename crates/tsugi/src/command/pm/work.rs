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
    let console = PmConsole::open(app, &order.place).await?;
    // The only project need not be named.
    let project_id = console.project(order.project.as_deref()).await?;
    let task = NewTask {
        title: order.title,
        description: order.description,
        priority: order.priority,
        depends_on: order.depends_on,
        labels: order.labels,
        similar_ok: order.similar_ok,
        ..NewTask::default()
    };
    console.show(CreateTask { project_id, task, idempotency_key: None }).await
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
    let console = PmConsole::open(app, &order.place).await?;
    let project_id = console.project_if_named(order.project.as_deref()).await?;
    if order.claim {
        // Without a session the claim starts one, which stays until it is ended.
        let session_id = session(app, order.session.as_deref())?;
        return console.show(ClaimTask { project_id, session_id, ..ClaimTask::default() }).await;
    }
    show::tasks(app, &show::ready_tasks(&console, project_id, 1).await?, "nothing is ready")
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
    console: PmConsole<'a>,
    task_id: TaskRef,
    session_id: Option<SessionId>,
}

impl TaskArg {
    async fn open<'a>(&self, app: &'a App) -> Result<OpenedTask<'a>, CommandFailure> {
        let task_id = named(app, TaskRef::parse(&self.task))?;
        let named = session(app, self.session.as_deref())?;
        let console = PmConsole::open(app, &self.place).await?;
        let session_id = match named {
            // Otherwise an agent with several sessions would have to name one.
            None => console.holding_session(&task_id).await?,
            named => named,
        };
        Ok(OpenedTask { console, task_id, session_id })
    }
}

impl PmConsole<'_> {
    /// The caller's session that holds a task. An agent may have several, and only one of them can be meant.
    async fn holding_session(&self, task_id: &TaskRef) -> Result<Option<SessionId>, CommandFailure> {
        // The operator acts without a session.
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
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    console.show(ClaimTask { task_id: Some(task_id), session_id, ..ClaimTask::default() }).await
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    of: TaskArg,
    /// Why
    reason: String,
}

pub(super) async fn release(app: &App, order: ReleaseArgs) -> Result<(), CommandFailure> {
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    if console.caller.agent_id().is_none() {
        // The operator holds no tasks, so without --agent the task is taken away from its holder.
        console.refuse_free(&task_id).await?;
        return console.show(ForceRelease { task_id, reason: order.reason }).await;
    }
    console.show(ReleaseTask { task_id, reason: order.reason, note: None, session_id, idempotency_key: None }).await
}

impl PmConsole<'_> {
    /// Refuses to take away a task that is not held: success would look as if something had changed.
    async fn refuse_free(&self, task_id: &TaskRef) -> Result<(), CommandFailure> {
        let wish = GetTask { task_id: task_id.clone(), include: vec![Section::Claim], max_bytes: None };
        let found = self.perform(wish).await?;
        match found.claim {
            Some(_) => Ok(()),
            None => {
                let text = format!("{} is not held", found.task.reference);
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
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    // One verb for both sides of a review: sending to it and judging.
    let verdict = if order.changes.is_some() { Verdict::Changes } else { Verdict::Approve };
    if order.approve || order.changes.is_some() {
        return console.show(ReviewTask { task_id, verdict, notes: order.changes, idempotency_key: None }).await;
    }
    console.show(UpdateTaskStatus { session_id, ..finished(task_id, TaskStatus::Review, order.summary) }).await
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
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    console.show(UpdateTaskStatus { session_id, ..finished(task_id, TaskStatus::Done, order.summary) }).await
}

fn finished(task_id: TaskRef, status: TaskStatus, summary: Option<String>) -> UpdateTaskStatus {
    // Without a summary the last checkpoint becomes the result.
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
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    let reason = Some(order.reason);
    console.show(UpdateTaskStatus { reason, session_id, ..UpdateTaskStatus::new(task_id, TaskStatus::Blocked) }).await
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
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    console
        .show(UpdateTaskStatus { reason: order.reason, session_id, ..UpdateTaskStatus::new(task_id, order.status) })
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
    /// The receiving agent; any agent when unset
    #[arg(long, value_name = "ID")]
    to: Option<String>,
}

pub(super) async fn handoff(app: &App, order: HandoffArgs) -> Result<(), CommandFailure> {
    let OpenedTask { console, task_id, session_id } = order.of.open(app).await?;
    let to_agent_id = named(app, order.to.as_deref().map(AgentId::parse).transpose())?;
    console
        .show(CreateHandoff {
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
    let console = PmConsole::open(app, &order.place).await?;
    let handoff_id = match HandoffId::parse(&order.handoff) {
        Ok(id) => id,
        // People know the task, not the id of its handoff.
        Err(_) => handoff_on(&console, &order.handoff).await?,
    };
    let session_id = session(app, order.session.as_deref())?;
    console.show(AcceptHandoff { handoff_id, note: None, session_id, idempotency_key: None }).await
}

/// The handoff that waits on a task, or was the last to.
async fn handoff_on(console: &PmConsole<'_>, task: &str) -> Result<HandoffId, CommandFailure> {
    let task_id = named(console.app, TaskRef::parse(task))?;
    let wish = GetTask { task_id, include: vec![Section::Handoff], max_bytes: None };
    let missing = || PmFault::not_found("handoff", task).hint("this task has no pending handoff");
    console.perform(wish).await?.handoff.map(|handoff| handoff.id.clone()).ok_or_else(|| told(console.app, &missing()))
}
