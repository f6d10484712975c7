//! `tsugi pm`: projects, tasks and handoffs for people, with the same verbs as the agents have.

mod advice;
mod doctor;
mod history;
mod house;
pub(crate) mod mcp;
mod page;
mod project;
mod show;
mod watch;
mod work;

use clap::Subcommand;
use serde::Serialize;
use tsugi_pm::action::caller::Caller;
use tsugi_pm::action::project::ProjectRow;
use tsugi_pm::action::{Action, Pm};
use tsugi_pm::domain::fault::{Code, Fault};
use tsugi_pm::domain::id::{AgentId, ProjectId};
use tsugi_pm::mcp::actor::local_agent;
use tsugi_pm::store::Location;

use crate::app::App;
use crate::args::NoServers;
use crate::builtin;
use crate::failure::{Failure, printable};
use crate::output::Form;
use crate::report::exit::Exit;

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
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    _no_servers: NoServers,
    #[command(subcommand)]
    order: Order,
    /// Print data only
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Which database, and who acts.
#[derive(Debug, clap::Args)]
struct Place {
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
enum Order {
    /// Serve one agent over standard input and output
    Mcp(mcp::Args),
    /// Make a database ready: a project and its agents
    Init(house::Init),
    /// Show the tasks by status
    Board(show::Board),
    /// Show what can be started now
    Ready(show::Ready),
    /// Show one task
    Show(show::Show),
    /// Show who is at work
    Who(show::Who),
    /// End a session; what it holds is given back
    End(house::End),
    /// Show what happened
    Log(history::Log),
    /// Find tasks, contexts and handoffs by words
    Search(history::Search),
    /// Tell what happens, as it happens
    Watch(watch::Watch),
    /// Create a task
    New(work::New),
    /// Show the best ready task, and with --claim take it
    Next(work::Next),
    /// Take a task
    Claim(work::Claim),
    /// Give a task back; without --agent take it away from whoever holds it
    Release(work::Release),
    /// Send a task to review, or judge it with --approve or --changes
    Review(work::Review),
    /// Finish a task
    Done(work::Done),
    /// Say what is in the way of a task
    Block(work::Block),
    /// Move a task to another status, as far as whoever acts may: todo, backlog, cancelled and the others
    Move(work::Move),
    /// Hand a task over
    Handoff(work::Handoff),
    /// Take a handoff
    Accept(work::Accept),
    /// Write everything as JSON lines
    Export(house::Export),
    /// Read what export wrote
    Import(house::Import),
    /// Rebuild everything from its history and compare
    Verify(house::Verify),
    /// Say whether the database is well, and what to do where it is not
    Doctor(doctor::Doctor),
    /// Bring back what vanished agents held
    Sweep(house::Sweep),
    /// List, make and change projects: rules, state, name
    Project(project::Project),
    /// Add, list and change agents, and give them a place
    Agent(house::Agent),
    /// Make, list and revoke access tokens
    Token(house::Token),
}

impl Args {
    /// Whether it runs until someone ends it.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.order, Order::Mcp(_) | Order::Watch(_))
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.order {
        Order::Mcp(order) => return Ok(mcp::run(&order).await.map_or(Exit::CannotStart, |()| Exit::Success)),
        Order::Init(order) => house::init(app, order).await?,
        Order::Board(order) => show::board(app, &order).await?,
        Order::Ready(order) => show::ready(app, &order).await?,
        Order::Show(order) => show::task(app, &order).await?,
        Order::Who(order) => show::who(app, &order).await?,
        Order::End(order) => house::end(app, order).await?,
        Order::Log(order) => history::log(app, order).await?,
        Order::Search(order) => history::search(app, order).await?,
        Order::Watch(order) => return watch::watch(app, &order).await,
        Order::New(order) => work::new(app, order).await?,
        Order::Next(order) => work::next(app, &order).await?,
        Order::Claim(order) => work::claim(app, &order).await?,
        Order::Release(order) => work::release(app, order).await?,
        Order::Review(order) => work::review(app, order).await?,
        Order::Done(order) => work::done(app, order).await?,
        Order::Block(order) => work::block(app, order).await?,
        Order::Move(order) => work::change(app, order).await?,
        Order::Handoff(order) => work::handoff(app, order).await?,
        Order::Accept(order) => work::accept(app, &order).await?,
        Order::Export(order) => house::export(app, &order).await?,
        Order::Import(order) => house::import(app, &order).await?,
        Order::Verify(order) => return house::verify(app, &order).await,
        Order::Doctor(order) => return doctor::doctor(app, &order).await,
        Order::Sweep(order) => house::sweep(app, &order).await?,
        Order::Project(order) => project::project(app, order).await?,
        Order::Agent(order) => house::agent(app, order).await?,
        Order::Token(order) => house::token(app, order).await?,
    }
    Ok(Exit::Success)
}

/// An open database and who acts on it.
struct Desk<'a> {
    app: &'a App,
    pm: Pm,
    caller: Caller,
}

impl<'a> Desk<'a> {
    /// Opens a database that is there. A mistyped name must not look like an empty database.
    async fn open(app: &'a App, place: &Place) -> Result<Self, Failure> {
        let db = place.database()?;
        match Location::parse(&db) {
            Location::Sqlite(file) if !file.exists() => Err(told(app, &no_database(place, &db))),
            _ => Self::at(app, place, &db).await,
        }
    }

    /// Opens a database, and makes it if it is not there: for the verbs with which one begins.
    async fn make(app: &'a App, place: &Place) -> Result<Self, Failure> {
        let db = place.database()?;
        if place.db.is_none()
            && let Some(folder) = std::path::Path::new(&db).parent()
        {
            std::fs::create_dir_all(folder)?;
        }
        Self::at(app, place, &db).await
    }

    async fn at(app: &'a App, place: &Place, db: &str) -> Result<Self, Failure> {
        let agent = place.agent.as_deref().map(AgentId::parse).transpose().map_err(|fault| told(app, &fault))?;
        let pm = mcp::open(db, place.i_know).await.map_err(|fault| told(app, &fault))?;
        // Whoever has the database in hand is the person at this machine, and the history says so.
        let person = || Caller::operator_signing_as(local_agent());
        Ok(Self { app, pm, caller: agent.map_or_else(person, Caller::agent) })
    }

    async fn perform<A: Action>(&self, action: A) -> Result<A::Output, Failure> {
        self.pm.perform(&self.caller, action).await.map_err(|fault| told(self.app, &fault))
    }

    /// Does something and shows what came of it.
    async fn show<A: Action>(&self, action: A) -> Result<(), Failure> {
        let output = self.perform(action).await?;
        self.print(&output)
    }

    fn print<T: Serialize>(&self, output: &T) -> Result<(), Failure> {
        let value = serde_json::json!(output);
        let outcome = serde_json::from_value(value.clone()).ok().filter(|_| self.app.output.is_data_watched());
        match (self.app.output.form(), outcome) {
            (Form::Json, _) => self.app.output.json(&value)?,
            (Form::Text, Some(outcome)) => self.app.output.page(|paint| page::outcome(&outcome, page::now(), paint))?,
            (Form::Text, None) => self.app.output.data(&tsugi_pm::mcp::outline(&value))?,
        }
        Ok(())
    }

    /// A project by id or key; the only one there is when none is named.
    async fn project(&self, name: Option<&str>) -> Result<ProjectId, Failure> {
        let all = self.projects().await?;
        let found = match (name, all.as_slice()) {
            (Some(name), all) => all.iter().find(|one| one.key == name || one.id.as_str() == name),
            (None, [one]) => Some(one),
            (None, _) => {
                let keys: Vec<&str> = all.iter().map(|one| one.key.as_str()).collect();
                return Err(Failure::usage("which project? name it with --project").with_details(vec![keys.join(" ")]));
            }
        };
        let missing = || told(self.app, &Fault::not_found("project", name.unwrap_or_default()));
        found.map(|one| one.id.clone()).ok_or_else(missing)
    }

    /// Every project that whoever acts can see.
    async fn projects(&self) -> Result<Vec<ProjectRow>, Failure> {
        self.pm.projects_of(&self.caller).await.map_err(|fault| told(self.app, &fault))
    }

    async fn project_if_named(&self, name: Option<&str>) -> Result<Option<ProjectId>, Failure> {
        match name {
            Some(name) => self.project(Some(name)).await.map(Some),
            None => Ok(None),
        }
    }
}

impl Place {
    /// The database that is meant.
    fn database(&self) -> Result<String, Failure> {
        match &self.db {
            Some(db) => Ok(db.clone()),
            None => Ok(builtin::pm::default_file()?.to_string_lossy().into_owned()),
        }
    }
}

fn no_database(place: &Place, db: &str) -> Fault {
    let flag = place.db.as_ref().map(|db| format!(" --db {db}")).unwrap_or_default();
    Fault::new(Code::NotFound, format!("there is no database {db}"))
        .hint(format!("`tsugi pm init{flag} --project KEY \"Name\"` makes one"))
}

/// Says why, once, and gives the code to end with.
fn told(app: &App, fault: &Fault) -> Failure {
    app.output.say(|paint| {
        let mut text = format!("{}: {}", paint.error("error"), printable(&fault.message));
        let hint = advice::hint(fault);
        if !hint.is_empty() {
            text.push_str(&format!("\n{}: {}", paint.hint("hint"), printable(&hint)));
        }
        text
    });
    Failure::Said(fault.code.into())
}

/// Reads an id or a task's name.
fn named<T>(app: &App, read: Result<T, Fault>) -> Result<T, Failure> {
    read.map_err(|fault| told(app, &fault))
}
