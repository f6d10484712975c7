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
use tsugi_pm::domain::id::{AgentId, ProjectId};
use tsugi_pm::mcp::actor::local_agent;
use tsugi_pm::store::StoreLocation;

use crate::app::App;
use crate::builtin;
use crate::cli::NoServerFlags;
use crate::failure::{CommandFailure, printable};
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi pm init --db team.db --project WEB \"Web shop\" --agent agt_a:worker --agent agt_b:manager
  tsugi pm new --db team.db --project WEB \"Sell shoes\"
  tsugi pm next --claim --agent agt_a --db team.db
  tsugi pm board --db team.db
  mcp-server-pm --db team.db --agent-id agt_a      what an agent's client starts

Without --db and TSUGI_PM_DB the database is pm.db in the state directory, as for the built-in server `pm`.
Exit codes: 0 well, 1 failed, 2 cannot be used, 3 not found, 4 conflict, 5 denied, 75 busy, 78 cannot start.";

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
    /// Who acts; whoever has the database in hand when unset
    #[arg(long = "agent", value_name = "ID", env = "TSUGI_AGENT_ID")]
    agent: Option<String>,
    /// Use a file on a network file system all the same
    #[arg(long)]
    i_know: bool,
}

#[derive(Debug, Subcommand)]
enum PmCommand {
    /// Serve one agent over standard input and output
    Mcp(mcp::PmServerArgs),
    /// Make a database ready: a project and its agents
    Init(admin::PmInitArgs),
    /// Show the tasks by status
    Board(show::BoardArgs),
    /// Show what can be started now
    Ready(show::ReadyArgs),
    /// Show one task
    Show(show::ShowTaskArgs),
    /// Show who is at work
    Who(show::WhoArgs),
    /// End a session; what it holds is given back
    End(admin::EndSessionArgs),
    /// Show what happened
    Log(history::PmLogArgs),
    /// Find tasks, contexts and handoffs by words
    Search(history::PmSearchArgs),
    /// Tell what happens, as it happens
    Watch(watch::PmWatchArgs),
    /// Create a task
    New(work::NewTaskArgs),
    /// Show the best ready task, and with --claim take it
    Next(work::NextTaskArgs),
    /// Take a task
    Claim(work::ClaimTaskArgs),
    /// Give a task back; without --agent take it away from whoever holds it
    Release(work::ReleaseArgs),
    /// Send a task to review, or judge it with --approve or --changes
    Review(work::ReviewArgs),
    /// Finish a task
    Done(work::DoneArgs),
    /// Say what is in the way of a task
    Block(work::BlockArgs),
    /// Move a task to another status, as far as whoever acts may: todo, backlog, cancelled and the others
    Move(work::MoveArgs),
    /// Hand a task over
    Handoff(work::HandoffArgs),
    /// Take a handoff
    Accept(work::AcceptArgs),
    /// Write everything as JSON lines
    Export(admin::PmExportArgs),
    /// Read what export wrote
    Import(admin::PmImportArgs),
    /// Rebuild everything from its history and compare
    Verify(admin::PmVerifyArgs),
    /// Say whether the database is well, and what to do where it is not
    Doctor(doctor::PmDoctorArgs),
    /// Bring back what vanished agents held
    Sweep(admin::SweepArgs),
    /// List, make and change projects: rules, state, name
    Project(project::ProjectArgs),
    /// Add, list and change agents, and give them a place
    Agent(admin::AgentArgs),
    /// Make, list and revoke access tokens
    Token(admin::TokenArgs),
}

impl PmArgs {
    /// Whether it runs until someone ends it.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.order, PmCommand::Mcp(_) | PmCommand::Watch(_))
    }
}

pub(crate) async fn run(app: &App, args: PmArgs) -> Result<CommandExit, CommandFailure> {
    match args.order {
        PmCommand::Mcp(order) => {
            return Ok(mcp::run(&order).await.map_or(CommandExit::CannotStart, |()| CommandExit::Success));
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
    /// Opens a database that is there. A mistyped name must not look like an empty database.
    async fn open(app: &'a App, place: &PmTarget) -> Result<Self, CommandFailure> {
        let db = place.database()?;
        match StoreLocation::parse(&db) {
            StoreLocation::Sqlite(file) if !file.exists() => Err(told(app, &no_database(place, &db))),
            _ => Self::at(app, place, &db).await,
        }
    }

    /// Opens a database, and makes it if it is not there: for the verbs with which one begins.
    async fn make(app: &'a App, place: &PmTarget) -> Result<Self, CommandFailure> {
        let db = place.database()?;
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
        // Whoever has the database in hand is the person at this machine, and the history says so.
        let person = || ActionCaller::operator_signing_as(local_agent());
        Ok(Self { app, pm, caller: agent.map_or_else(person, ActionCaller::agent) })
    }

    async fn perform<A: Action>(&self, action: A) -> Result<A::ErasedOutput, CommandFailure> {
        self.pm.perform(&self.caller, action).await.map_err(|fault| told(self.app, &fault))
    }

    /// Does something and shows what came of it.
    async fn show<A: Action>(&self, action: A) -> Result<(), CommandFailure> {
        let output = self.perform(action).await?;
        self.print(&output)
    }

    fn print<T: Serialize>(&self, output: &T) -> Result<(), CommandFailure> {
        let value = serde_json::json!(output);
        let outcome = serde_json::from_value(value.clone()).ok().filter(|_| self.app.output.is_data_watched());
        match (self.app.output.form(), outcome) {
            (OutputFormat::Json, _) => self.app.output.json(&value)?,
            (OutputFormat::Text, Some(outcome)) => {
                self.app.output.page(|paint| layout::outcome(&outcome, layout::now(), paint))?
            }
            (OutputFormat::Text, None) => self.app.output.data(&tsugi_pm::mcp::outline(&value))?,
        }
        Ok(())
    }

    /// A project by id or key; the only one there is when none is named.
    async fn project(&self, name: Option<&str>) -> Result<ProjectId, CommandFailure> {
        let all = self.projects().await?;
        let found = match (name, all.as_slice()) {
            (Some(name), all) => all.iter().find(|one| one.key == name || one.id.as_str() == name),
            (None, [one]) => Some(one),
            (None, _) => {
                let keys: Vec<&str> = all.iter().map(|one| one.key.as_str()).collect();
                return Err(
                    CommandFailure::usage("which project? name it with --project").with_details(vec![keys.join(" ")])
                );
            }
        };
        let missing = || told(self.app, &PmFault::not_found("project", name.unwrap_or_default()));
        found.map(|one| one.id.clone()).ok_or_else(missing)
    }

    /// Every project that whoever acts can see.
    async fn projects(&self) -> Result<Vec<ProjectRow>, CommandFailure> {
        self.pm.projects_of(&self.caller).await.map_err(|fault| told(self.app, &fault))
    }

    async fn project_if_named(&self, name: Option<&str>) -> Result<Option<ProjectId>, CommandFailure> {
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
    let flag = place.db.as_ref().map(|db| format!(" --db {db}")).unwrap_or_default();
    PmFault::new(Code::NotFound, format!("there is no database {db}"))
        .hint(format!("`tsugi pm init{flag} --project KEY \"Name\"` makes one"))
}

/// Says why, once, and gives the code to end with.
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
