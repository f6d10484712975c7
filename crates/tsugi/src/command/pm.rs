//! `tsugi pm`: projects, tasks and handoffs for people, with the same verbs as the agents have.

mod admin;
mod advice;
mod doctor;
mod history;
mod layout;
pub(crate) mod mcp;
mod project;
mod show;
mod watch;
mod work;

use clap::Subcommand;
use serde::Serialize;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::project::ProjectRow;
use tsugi_pm::action::{Action, Pm};
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::id::{AgentId, ProjectRef};
use tsugi_pm::mcp::actor::local_agent;
use tsugi_pm::store::StoreLocation;

use crate::app::App;
use crate::builtin;
use crate::cli::NoServerFlags;
use crate::failure::CommandFailure;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi pm init --db team.db --project WEB \"Web shop\" --agent agt_a:worker --agent agt_b:manager
  tsugi pm new --db team.db --project WEB \"Sell shoes\"
  tsugi pm next --claim --agent agt_a --db team.db
  tsugi pm board --db team.db
  mcp-server-pm --db team.db --agent-id agt_a      what an agent's client starts

Without --db and TSUGI_PM_DB the database is pm.db in the state directory, as for the built-in server `pm`.
Exit codes: 0 success, 1 failed, 2 cannot be used, 3 not found, 4 conflict, 5 denied, 75 busy, 78 cannot start.";

/// Share projects, tasks, context and handoffs between agents
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PmArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    #[command(subcommand)]
    order: PmCommand,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Which database, and who acts.
#[derive(Debug, clap::Args)]
struct PmTarget {
    /// The database: a file, or postgres://…
    #[arg(long, value_name = "PATH", env = "TSUGI_PM_DB")]
    db: Option<String>,
    /// The acting agent; the database's operator when unset
    #[arg(long = "agent", value_name = "ID", env = "TSUGI_AGENT_ID")]
    agent: Option<String>,
    /// Allow a file on a network file system
    #[arg(long)]
    i_know: bool,
}

#[derive(Debug, Subcommand)]
enum PmCommand {
    /// Serve one agent over standard input and output
    Mcp(mcp::PmServerArgs),
    /// Create a project and its agents, and the database if there is none
    Init(admin::PmInitArgs),
    /// Show the tasks by status
    Board(show::BoardArgs),
    /// Show the tasks that can start now
    Ready(show::ReadyArgs),
    /// Show one task
    Show(show::ShowTaskArgs),
    /// Show active sessions and what they hold
    Who(show::WhoArgs),
    /// End a session and release its tasks
    End(admin::EndSessionArgs),
    /// Show the history
    Log(history::PmLogArgs),
    /// Find tasks, contexts and handoffs by words
    Search(history::PmSearchArgs),
    /// Print events as they happen
    Watch(watch::PmWatchArgs),
    /// Create a task
    New(work::NewTaskArgs),
    /// Show the best ready task; with --claim, claim it
    Next(work::NextTaskArgs),
    /// Claim a task
    Claim(work::ClaimTaskArgs),
    /// Release a task; without --agent, take it away from its holder
    Release(work::ReleaseArgs),
    /// Send a task to review, or judge it with --approve or --changes
    Review(work::ReviewArgs),
    /// Finish a task
    Done(work::DoneArgs),
    /// Mark a task as blocked, with the reason
    Block(work::BlockArgs),
    /// Move a task to another status: todo, backlog, cancelled and the others
    Move(work::MoveArgs),
    /// Hand a task over
    Handoff(work::HandoffArgs),
    /// Accept a handoff
    Accept(work::AcceptArgs),
    /// Export everything as JSON lines
    Export(admin::PmExportArgs),
    /// Import what export wrote
    Import(admin::PmImportArgs),
    /// Rebuild everything from its history and compare
    Verify(admin::PmVerifyArgs),
    /// Check the database and say what to do about each problem
    Doctor(doctor::PmDoctorArgs),
    /// Release what vanished agents held
    Sweep(admin::SweepArgs),
    /// List, create and change projects: rules, state, name
    Project(project::ProjectArgs),
    /// Add, list and change agents and their memberships
    Agent(admin::AgentArgs),
    /// Issue, list and revoke access tokens
    Token(admin::TokenArgs),
}

impl PmArgs {
    /// Whether it runs until it is stopped.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.order, PmCommand::Mcp(_) | PmCommand::Watch(_))
    }
}

pub(crate) async fn run(app: &App, args: PmArgs) -> Result<CommandExit, CommandFailure> {
    match args.order {
        PmCommand::Mcp(order) => {
            return Ok(mcp::run(&order).await);
        }
        PmCommand::Init(order) => admin::init(app, order).await?,
        PmCommand::Board(order) => show::board(app, &order).await?,
        PmCommand::Ready(order) => show::ready(app, &order).await?,
        PmCommand::Show(order) => show::task(app, &order).await?,
        PmCommand::Who(order) => show::who(app, &order).await?,
        PmCommand::End(order) => admin::end(app, order).await?,
        PmCommand::Log(order) => history::log(app, order).await?,
        PmCommand::Search(order) => history::search(app, order).await?,
        PmCommand::Watch(order) => return watch::watch(app, &order).await,
        PmCommand::New(order) => work::new(app, order).await?,
        PmCommand::Next(order) => work::next(app, &order).await?,
        PmCommand::Claim(order) => work::claim(app, &order).await?,
        PmCommand::Release(order) => work::release(app, order).await?,
        PmCommand::Review(order) => work::review(app, order).await?,
        PmCommand::Done(order) => work::done(app, order).await?,
        PmCommand::Block(order) => work::block(app, order).await?,
        PmCommand::Move(order) => work::change(app, order).await?,
        PmCommand::Handoff(order) => work::handoff(app, order).await?,
        PmCommand::Accept(order) => work::accept(app, &order).await?,
        PmCommand::Export(order) => admin::export(app, &order).await?,
        PmCommand::Import(order) => admin::import(app, &order).await?,
        PmCommand::Verify(order) => return admin::verify(app, &order).await,
        PmCommand::Doctor(order) => return doctor::doctor(app, &order).await,
        PmCommand::Sweep(order) => admin::sweep(app, &order).await?,
        PmCommand::Project(order) => project::project(app, order).await?,
        PmCommand::Agent(order) => admin::agent(app, order).await?,
        PmCommand::Token(order) => admin::token(app, order).await?,
    }
    Ok(CommandExit::Success)
}

/// An open database and who acts on it.
struct PmConsole<'a> {
    app: &'a App,
    pm: Pm,
    caller: ActionCaller,
}

impl<'a> PmConsole<'a> {
    /// Opens an existing database. A mistyped name must not look like an empty one.
    async fn open(app: &'a App, place: &PmTarget) -> Result<Self, CommandFailure> {
        let db = place.database()?;
        match StoreLocation::parse(&db) {
            // SQLite would create it.
            StoreLocation::Sqlite(file) if !file.exists() => Err(told(app, &no_database(place, &db))),
            _ => Self::at(app, place, &db).await,
        }
    }

    /// Opens a database and creates it if it does not exist: for the verbs that set one up.
    async fn make(app: &'a App, place: &PmTarget) -> Result<Self, CommandFailure> {
        let db = place.database()?;
        // Only our own state directory is created: a path that was typed must exist.
        if place.db.is_none()
            && let Some(folder) = std::path::Path::new(&db).parent()
        {
            std::fs::create_dir_all(folder)?;
        }
        Self::at(app, place, &db).await
    }

    async fn at(app: &'a App, place: &PmTarget, db: &str) -> Result<Self, CommandFailure> {
        let agent = place.agent.as_deref().map(AgentId::parse).transpose().map_err(|fault| told(app, &fault))?;
        let pm = mcp::open(db, place.i_know).await.map_err(|fault| told(app, &fault))?;
        // Access to the database file means the person at this machine; the history records that name.
        let person = || ActionCaller::operator_signing_as(local_agent());
        Ok(Self { app, pm, caller: agent.map_or_else(person, ActionCaller::agent) })
    }

    async fn perform<A: Action>(&self, action: A) -> Result<A::Output, CommandFailure> {
        self.pm.perform(&self.caller, action).await.map_err(|fault| told(self.app, &fault))
    }

    /// Performs an action and prints its result.
    async fn show<A: Action>(&self, action: A) -> Result<(), CommandFailure> {
        let output = self.perform(action).await?;
        self.print(&output)
    }

    fn print<T: Serialize>(&self, output: &T) -> Result<(), CommandFailure> {
        let value = serde_json::json!(output);
        // Answers that have a task are shown as a task; others as an outline.
        let outcome = serde_json::from_value(value.clone()).ok().filter(|_| self.app.output.is_data_watched());
        match (self.app.output.form(), outcome) {
            // For programs the answer is printed as it is.
            (OutputFormat::Json, _) => self.app.output.json(&value)?,
            (OutputFormat::Text, Some(outcome)) => {
                self.app.output.page(|paint| layout::outcome(&outcome, layout::now(), paint))?
            }
            (OutputFormat::Text, None) => self.app.output.data(&tsugi_pm::mcp::outline(&value))?,
        }
        Ok(())
    }

    /// The project that is named, or the only one there is.
    async fn project(&self, name: Option<&str>) -> Result<ProjectRef, CommandFailure> {
        if let Some(name) = name {
            return named(self.app, ProjectRef::parse(name));
        }
        let all = self.projects().await?;
        if let [one] = all.as_slice() {
            return Ok(one.id.clone().into());
        }
        // The choices are part of the error.
        let keys: Vec<&str> = all.iter().map(|one| one.key.as_str()).collect();
        Err(CommandFailure::usage("which project? name it with --project").with_details(vec![keys.join(" ")]))
    }

    /// Every project that the caller can see.
    async fn projects(&self) -> Result<Vec<ProjectRow>, CommandFailure> {
        self.pm.projects_of(&self.caller).await.map_err(|fault| told(self.app, &fault))
    }

    async fn project_if_named(&self, name: Option<&str>) -> Result<Option<ProjectRef>, CommandFailure> {
        match name {
            Some(name) => self.project(Some(name)).await.map(Some),
            None => Ok(None),
        }
    }
}

impl PmTarget {
    /// The database that is meant.
    fn database(&self) -> Result<String, CommandFailure> {
        match &self.db {
            Some(db) => Ok(db.clone()),
            None => Ok(builtin::pm::default_file()?.to_string_lossy().into_owned()),
        }
    }
}

fn no_database(place: &PmTarget, db: &str) -> PmFault {
    // The suggested command works as it stands.
    let flag = place.db.as_ref().map(|db| format!(" --db {db}")).unwrap_or_default();
    PmFault::new(Code::NotFound, format!("no database at {db}"))
        .hint(format!("`tsugi pm init{flag} --project KEY \"Name\"` makes one"))
}

/// Prints the error and its hint, and returns the exit code.
fn told(app: &App, fault: &PmFault) -> CommandFailure {
    app.output.message(|paint| {
        let mut text = format!("{}: {}", paint.error("error"), printable(&fault.message));
        let hint = advice::hint(fault);
        if !hint.is_empty() {
            text.push_str(&format!("\n{}: {}", paint.hint("hint"), printable(&hint)));
        }
        text
    });
    CommandFailure::Reported(fault.code.into())
}

/// Reads an id or a task's name.
fn named<T>(app: &App, read: Result<T, PmFault>) -> Result<T, CommandFailure> {
    read.map_err(|fault| told(app, &fault))
}
