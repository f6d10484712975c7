//! The administration verbs: init, export, import, verify, sweep, end, agent, token.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;
use tsugi_pm::action::admin::{
    ForceEndSession, IssueToken, ListTokens, RegisterAgent, RevokeToken, SetMembership, UpdateAgent,
};
use tsugi_pm::action::agent::{AgentRow, ListAgents};
use tsugi_pm::action::init_project::{FirstMember, InitProject};
use tsugi_pm::action::project::CreateProject;
use tsugi_pm::action::session::EndSession;
use tsugi_pm::domain::agent::{AgentStatus, AgentType};
use tsugi_pm::domain::id::{AgentId, ProjectRef, SessionId, TokenId};
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::mcp::actor::is_there;

use super::{PmConsole, PmTarget, layout, mcp, named, told};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::exit::CommandExit;

#[derive(Debug, clap::Args)]
pub(super) struct PmInitArgs {
    /// The database: a file, or postgres://…
    #[arg(long, value_name = "PATH", env = "TSUGI_PM_DB")]
    db: Option<String>,
    /// The key of the project: what stands before its task numbers
    #[arg(long, value_name = "KEY")]
    project: String,
    /// The project's name
    name: String,
    /// An agent and its role (owner, manager, worker, viewer); may be repeated. An owner is a person
    #[arg(long = "agent", value_name = "ID:ROLE")]
    agents: Vec<String>,
    /// Let a program own the project: an owner is then not a person
    #[arg(long)]
    allow_ai_owner: bool,
    /// Allow a file on a network file system
    #[arg(long)]
    i_know: bool,
}

pub(super) async fn init(app: &App, order: PmInitArgs) -> Result<(), CommandFailure> {
    // Read before the database is created: a bad argument must leave nothing behind.
    let members = order.agents.iter().map(|text| member(app, text)).collect::<Result<Vec<_>, _>>()?;
    let console = PmConsole::make(app, &PmTarget { db: order.db.clone(), agent: None, i_know: order.i_know }).await?;
    let project = CreateProject {
        key: order.project,
        name: order.name,
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    // One transaction: a project without its agents would be of no use.
    let wish = InitProject { project, members: members.clone(), allow_ai_owner: order.allow_ai_owner };
    let project = console.perform(wish).await?.project;
    if app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
        app.output.page(|paint| layout::founded(&project, &members, paint))?;
    } else {
        let agents: Vec<_> = members.iter().map(|one| json!({"id": one.agent_id, "role": one.role})).collect();
        console
            .print(&json!({"project_id": project.id, "key": project.key, "name": project.name, "agents": agents}))?;
    }
    say_next(app, order.db.as_deref(), &members);
    Ok(())
}

/// Suggests the next commands. A client has its own environment, so its command names the database.
fn say_next(app: &App, db: Option<&str>, members: &[FirstMember]) {
    // Without --db the default applies to the next commands too.
    let flag = db.map(|db| format!(" --db {}", mcp::shown(db))).unwrap_or_default();
    let agent = members.first().map_or("agt_a", |one| one.agent_id.as_str());
    app.output.message(|paint| {
        let task = paint.hint(format!("tsugi pm new{flag} \"First task\""));
        let server = paint.hint(format!("mcp-server-pm{flag} --agent-id {agent}"));
        format!("next: {task}; an agent's client starts {server}")
    });
}

/// `agt_a:worker`; without a role, a worker.
fn member(app: &App, text: &str) -> Result<FirstMember, CommandFailure> {
    // A worker is the usual case.
    let (id, role) = text.split_once(':').unwrap_or((text, "worker"));
    Ok(FirstMember { agent_id: named(app, AgentId::parse(id))?, role: named(app, role.parse())? })
}

impl PmConsole<'_> {
    async fn register(&self, id: &AgentId, kind: AgentType, name: Option<String>) -> Result<(), CommandFailure> {
        if is_there(&self.pm, id).await.map_err(|fault| told(self.app, &fault))? {
            return Ok(());
        }
        self.perform(RegisterAgent { kind, name, ..RegisterAgent::ai(id.clone()) }).await.map(drop)
    }

    async fn join(
        &self,
        project: &ProjectRef,
        id: &AgentId,
        role: Role,
        allow_ai_owner: bool,
    ) -> Result<(), CommandFailure> {
        let (project_id, agent_id) = (project.clone(), id.clone());
        let place = SetMembership { project_id, agent_id, role: Some(role), allow_ai_owner };
        self.perform(place).await.map(drop)
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct PmExportArgs {
    #[command(flatten)]
    place: PmTarget,
}

pub(super) async fn export(app: &App, order: &PmExportArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let mut lines = console.pm.export();
    while let Some(line) = lines.recv().await {
        let line = line.map_err(|fault| told(app, &fault))?;
        // Not through the formatter: an export must be exact.
        app.output.bytes(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(super) struct PmImportArgs {
    #[command(flatten)]
    place: PmTarget,
    /// What export wrote; - reads standard input
    file: PathBuf,
}

pub(super) async fn import(app: &App, order: &PmImportArgs) -> Result<(), CommandFailure> {
    let text = match order.file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(&order.file),
    };
    let text =
        text.map_err(|error| CommandFailure::usage(format!("{} cannot be read: {error}", order.file.display())))?;
    // The file was read first: a bad path must not leave an empty database.
    let console = PmConsole::make(app, &order.place).await?;
    let imported = console.pm.import(text).await.map_err(|fault| told(app, &fault))?;
    console.print(&imported)
}

#[derive(Debug, clap::Args)]
pub(super) struct PmVerifyArgs {
    #[command(flatten)]
    place: PmTarget,
}

pub(super) async fn verify(app: &App, order: &PmVerifyArgs) -> Result<CommandExit, CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let found = console.pm.verify().await.map_err(|fault| told(app, &fault))?;
    match app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
        true => app.output.page(|paint| layout::verified(&found, paint))?,
        false => console.print(&found)?,
    }
    // For scripts and cron jobs the exit code is the result.
    Ok(if found.problems.is_empty() { CommandExit::Success } else { CommandExit::Failed })
}

#[derive(Debug, clap::Args)]
pub(super) struct SweepArgs {
    #[command(flatten)]
    place: PmTarget,
}

pub(super) async fn sweep(app: &App, order: &SweepArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let swept = console.pm.sweep().await.map_err(|fault| told(app, &fault))?;
    if app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
        return Ok(app.output.page(|_| layout::swept(&swept))?);
    }
    console.print(&swept)
}

#[derive(Debug, clap::Args)]
pub(super) struct EndSessionArgs {
    #[command(flatten)]
    place: PmTarget,
    /// The session: ses_…; `tsugi pm who` shows them
    session: String,
    /// Why
    #[arg(long, default_value = "ended with tsugi pm end")]
    reason: String,
}

/// Ends a session and releases its tasks: the agent's own, or any session for the operator.
pub(super) async fn end(app: &App, order: EndSessionArgs) -> Result<(), CommandFailure> {
    let session_id = named(app, SessionId::parse(&order.session))?;
    let console = PmConsole::open(app, &order.place).await?;
    // An agent ends only its own sessions; the operator may end any.
    if console.caller.agent_id().is_some() {
        let (summary, session_id) = (order.reason, Some(session_id));
        let wish = EndSession { summary, session_id, handoffs: Vec::new(), keep_claims: false, idempotency_key: None };
        console.perform(wish).await?;
    } else {
        console.perform(ForceEndSession { session_id, reason: order.reason }).await?;
    }
    match app.output.form() {
        OutputFormat::Json => app.output.json(&json!({"ended": order.session}))?,
        OutputFormat::Text => {
            app.output.data(&format!("{} is over; what it held can be taken again", order.session))?
        }
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(super) struct AgentArgs {
    #[command(subcommand)]
    order: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Register an agent, and give it a place in a project
    Add(AddAgentArgs),
    /// List the agents
    List {
        #[command(flatten)]
        place: PmTarget,
    },
    /// Change an agent: name, state, what it can do
    Set(SetAgentArgs),
    /// Take an agent out of a project
    Leave {
        #[command(flatten)]
        place: PmTarget,
        /// Its id: agt_…
        id: String,
        /// Which project: its key or id
        #[arg(long, value_name = "KEY")]
        project: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct SetAgentArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Its id: agt_…
    id: String,
    /// A new name
    #[arg(long)]
    name: Option<String>,
    /// What it is
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// active, inactive or archived
    #[arg(long)]
    status: Option<AgentStatus>,
    /// What it can do; may be repeated, and replaces what was said before
    #[arg(long = "capability", value_name = "WORD")]
    capabilities: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct AddAgentArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Its id: agt_…
    id: String,
    /// Its name; the id when unset
    #[arg(long)]
    name: Option<String>,
    /// It is a person
    #[arg(long)]
    human: bool,
    /// In which project: its key or id
    #[arg(long, value_name = "KEY", requires = "role")]
    project: Option<String>,
    /// As what: owner, manager, worker or viewer
    #[arg(long)]
    role: Option<Role>,
    /// Let a program be an owner
    #[arg(long)]
    allow_ai_owner: bool,
}

pub(super) async fn agent(app: &App, order: AgentArgs) -> Result<(), CommandFailure> {
    match order.order {
        AgentCommand::Add(add) => add_agent(app, add).await,
        AgentCommand::List { place } => list_agents(app, &place).await,
        AgentCommand::Set(set) => set_agent(app, set).await,
        AgentCommand::Leave { place, id, project } => {
            let agent_id = named(app, AgentId::parse(&id))?;
            let console = PmConsole::open(app, &place).await?;
            let project_id = console.project(project.as_deref()).await?;
            console.perform(SetMembership { project_id, agent_id, role: None, allow_ai_owner: false }).await?;
            console.print(&json!({"id": id, "role": null}))
        }
    }
}

async fn set_agent(app: &App, set: SetAgentArgs) -> Result<(), CommandFailure> {
    let change = UpdateAgent {
        agent_id: named(app, AgentId::parse(&set.id))?,
        name: set.name,
        role_title: set.title,
        // clap has no difference between an empty list and none.
        capabilities: (!set.capabilities.is_empty()).then_some(set.capabilities),
        instructions: None,
        status: set.status,
    };
    PmConsole::open(app, &set.place).await?.show(change).await
}

async fn add_agent(app: &App, add: AddAgentArgs) -> Result<(), CommandFailure> {
    let id = named(app, AgentId::parse(&add.id))?;
    let console = PmConsole::make(app, &add.place).await?;
    let kind = if add.human { AgentType::Human } else { AgentType::Ai };
    // An agent that exists is only given a place, so that the command can be repeated.
    console.register(&id, kind, add.name).await?;
    if let Some(role) = add.role {
        let project = console.project(add.project.as_deref()).await?;
        console.join(&project, &id, role, add.allow_ai_owner).await?;
    }
    console.print(&json!({"id": id, "role": add.role}))
}

async fn list_agents(app: &App, place: &PmTarget) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, place).await?;
    let agents = console.agents().await?;
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(&json!({"agents": agents}))?);
    }
    let mut table = TextTable::new(["id", "name", "type", "status", "online", "holds"]);
    for agent in agents {
        let online = if agent.online { "yes" } else { "no" }.to_owned();
        let (kind, status) = (agent.kind.to_string(), agent.status.to_string());
        table.row([agent.id.to_string(), agent.name, kind, status, online, agent.live_claims.to_string()]);
    }
    Ok(app.output.table(&table)?)
}

impl PmConsole<'_> {
    /// Every agent, page after page.
    async fn agents(&self) -> Result<Vec<AgentRow>, CommandFailure> {
        let mut wish = ListAgents { limit: Some(200), ..ListAgents::default() };
        let mut agents = Vec::new();
        loop {
            let page = self.perform(wish.clone()).await?;
            agents.extend(page.agents);
            wish.cursor = page.next_cursor;
            if wish.cursor.is_none() {
                return Ok(agents);
            }
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    order: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token; its secret is shown this once
    New {
        #[command(flatten)]
        place: PmTarget,
        /// For whom: agt_…
        #[arg(value_name = "AGENT")]
        id: String,
        /// For how many seconds; for ever when unset
        #[arg(long, value_name = "SECONDS")]
        expires_in: Option<i64>,
    },
    /// List the tokens
    List {
        #[command(flatten)]
        place: PmTarget,
    },
    /// Withdraw a token
    Revoke {
        #[command(flatten)]
        place: PmTarget,
        /// Which one: tok_…
        id: String,
    },
}

pub(super) async fn token(app: &App, order: TokenArgs) -> Result<(), CommandFailure> {
    match order.order {
        TokenCommand::New { place, id, expires_in } => {
            let agent_id = named(app, AgentId::parse(&id))?;
            // Scopes are refused by the action; the command does not offer them.
            let wish = IssueToken { agent_id, scopes: Vec::new(), expires_in_s: expires_in };
            PmConsole::open(app, &place).await?.show(wish).await
        }
        TokenCommand::List { place } => {
            let console = PmConsole::open(app, &place).await?;
            let tokens = console.perform(ListTokens::default()).await?;
            if app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
                return Ok(app.output.page(|paint| layout::tokens(&tokens, layout::now(), paint))?);
            }
            console.print(&json!({"tokens": tokens}))
        }
        TokenCommand::Revoke { place, id } => {
            let token_id = named(app, TokenId::parse(&id))?;
            let console = PmConsole::open(app, &place).await?;
            let revoked = console.perform(RevokeToken { token_id }).await?;
            console.print(&json!({"revoked": revoked}))
        }
    }
}
