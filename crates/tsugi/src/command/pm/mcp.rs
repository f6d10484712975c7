//! `tsugi pm mcp` and `mcp-server-pm`: the project-management server over our own standard streams, for one agent.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tsugi_gateway::face;
use tsugi_gateway::face::stdio::stream;
use tsugi_pm::action::Pm;
use tsugi_pm::action::admin::RegisterAgent;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::id::AgentId;
use tsugi_pm::domain::session::{EndKind, SessionHost};
use tsugi_pm::mcp::actor::{ServerActor, is_there};
use tsugi_pm::mcp::process::ServerProcess;
use tsugi_pm::mcp::{Lang, Liveness, PmServerSettings, Profile};
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::report::exit::CommandExit;

/// How long releasing sessions may take at the end; the lease covers the rest.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long an answer may take to be written when the program ends because of it.
const LAST_ANSWER: Duration = Duration::from_millis(200);
/// By then a client has usually sent its first calls.
const SETTLED: Duration = Duration::from_secs(2);
/// One agent does little at a time, and many agents share the connections of one database.
const CONNECTIONS: usize = 3;
/// How often the parent process is checked.
const PARENT_LOOK: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  {\"mcpServers\": {\"pm\": {\"command\": \"mcp-server-pm\", \"args\": [\"--db\", \"team.db\", \"--agent-id\", \"agt_a\"]}}}

An unknown agent ends it with code 78 and one line of JSON on stderr; --create-agent registers it instead.";

/// Serve one agent over standard input and output
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PmServerArgs {
    /// The database: a file, or postgres://…
    #[arg(long, value_name = "PATH", env = "TSUGI_PM_DB")]
    db: String,
    /// Who acts
    #[arg(long, value_name = "ID", env = "TSUGI_AGENT_ID")]
    agent_id: String,
    /// Register the agent if it is unknown
    #[arg(long)]
    create_agent: bool,
    /// Which tools: seed, core, standard or all
    #[arg(long, value_name = "PROFILE", default_value = "core")]
    tools: Profile,
    /// The language of tools and prompts: en or ja; that of the client's locale when unset
    #[arg(long, value_name = "LANG")]
    lang: Option<Lang>,
    /// What keeps sessions alive: process, or calls alone under a supervisor that pools and restarts this program
    #[arg(long, default_value = "process", value_name = "WHAT")]
    session_liveness: Liveness,
    /// Allow a file on a network file system
    #[arg(long)]
    i_know: bool,
}

/// The name under which this program is the project-management server and nothing else.
const NAME: &str = "mcp-server-pm";

/// Whether the program was started as `mcp-server-pm`.
pub(crate) fn is_called_by_name() -> bool {
    let called = std::env::args_os().next();
    called.as_deref().map(std::path::Path::new).and_then(|path| path.file_stem()).is_some_and(|name| name == NAME)
}

/// Projects, tasks, context and handoffs for agents, over standard input and output.
#[derive(Debug, clap::Parser)]
#[command(name = NAME, version)]
struct PmServerCli {
    #[command(flatten)]
    args: PmServerArgs,
}

/// The program `mcp-server-pm`.
pub(crate) fn main() -> ExitCode {
    let cli = <PmServerCli as clap::Parser>::parse();
    // One agent does one thing at a time, so a second thread would cost more than it gains.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let served = runtime.block_on(run(&cli.args));
    // A thread still waits for input that will not come.
    runtime.shutdown_background();
    ExitCode::from(served.code())
}

/// Serves until the client closes its end, a signal arrives, the parent dies or the schema is newer than this program. What
/// keeps it from serving is written to standard error.
pub(crate) async fn run(args: &PmServerArgs) -> CommandExit {
    let process = match start(args).await {
        Ok(process) => process,
        Err(fault) => {
            let _ = writeln!(std::io::stderr(), "{}", json!({"error": fault.to_json()}));
            return CommandExit::CannotStart;
        }
    };
    tokio::spawn(forget_start_up());
    let serving = face::stdio::run(process.clone(), stream::input(), stream::output());
    tokio::pin!(serving);
    let kind = tokio::select! {
        _ = &mut serving => EndKind::Eof,
        () = until_told() => EndKind::Signal,
        () = until_orphaned() => EndKind::Signal,
        () = process.keep_alive() => EndKind::Signal,
        fault = process.until_outdated() => {
            // The call that found it is still to be answered.
            let _ = tokio::time::timeout(LAST_ANSWER, &mut serving).await;
            let _ = writeln!(std::io::stderr(), "{}", json!({"error": fault.to_json()}));
            return CommandExit::CannotStart;
        }
    };
    exit_anyway();
    process.end(kind).await;
    CommandExit::Success
}

/// Ends the program when the last words have taken too long: saying goodbye and closing the file both wait for a lock
/// that another process may hold much longer.
fn exit_anyway() {
    let patience = std::thread::Builder::new().name("last-words".to_owned()).spawn(|| {
        std::thread::sleep(LAST_WORDS);
        std::process::exit(0);
    });
    if let Err(error) = patience {
        tracing::warn!(%error, "the end may have to wait for the database");
    }
}

/// Releases memory that only the start needed: many of these processes may run on one machine.
async fn forget_start_up() {
    tokio::time::sleep(SETTLED).await;
    tsugi_process::forget_rare_code();
}

async fn start(args: &PmServerArgs) -> Result<std::sync::Arc<ServerProcess>, PmFault> {
    let agent = AgentId::parse(&args.agent_id)?;
    let pm = open(&args.db, args.i_know).await?;
    if !is_there(&pm, &agent).await? {
        if !args.create_agent {
            return Err(PmFault::new(Code::NotFound, format!("Agent not found: {agent}"))
                .hint("register it with --create-agent, or: tsugi pm agent add")
                .with("id", agent));
        }
        pm.perform(&ActionCaller::operator(), RegisterAgent::ai(agent.clone())).await?;
    }
    let settings = PmServerSettings {
        profile: args.tools,
        lang: args.lang.unwrap_or_else(lang_of_locale),
        liveness: args.session_liveness,
        ..PmServerSettings::new(ServerActor::Agent(agent.clone()))
    };
    ServerProcess::new(pm, agent, this_process(), settings).await
}

/// The client's locale, from the environment; the first variable that is set decides.
fn lang_of_locale() -> Lang {
    let said = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    match said.into_iter().find(|value| !value.is_empty()) {
        Some(locale) if locale.starts_with("ja") => Lang::Ja,
        _ => Lang::En,
    }
}

/// Opens a database.
pub(crate) async fn open(db: &str, i_know: bool) -> Result<Pm, PmFault> {
    // The defaults are for a gateway that serves many agents.
    let usual = StoreOptions::new(StoreLocation::parse(db));
    let connections = usual.connections.min(CONNECTIONS);
    let options = StoreOptions { allow_network_file_system: i_know, connections, ..usual };
    Pm::open(options).await.map_err(|error| {
        let hint = error.hint();
        PmFault::new(error.code(), error.to_string()).hint(hint).with("db", shown(db))
    })
}

/// A database as it may be shown: of an address only host, port and name, since the rest may hold a password.
pub(crate) fn shown(db: &str) -> &str {
    let StoreLocation::Postgres(_) = StoreLocation::parse(db) else { return db };
    let address = db.split_once("://").map_or(db, |(_, address)| address);
    let (place, query) = address.split_once('?').unwrap_or((address, ""));
    match place.rsplit_once('@') {
        Some((_, place)) => place,
        // A `?` in a password splits the address in the middle of the credentials.
        None if query.contains('@') => "a PostgreSQL database",
        None => place,
    }
}

fn this_process() -> SessionHost {
    SessionHost {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: i64::from(std::process::id()),
        process_nonce: format!("{:032x}", rand::random::<u128>()),
    }
}

async fn until_told() {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let Ok(signals) = kinds.into_iter().map(signal).collect::<Result<Vec<Signal>, _>>() else {
        return std::future::pending().await;
    };
    let waits = signals.into_iter().map(|mut signal| Box::pin(async move { signal.recv().await }));
    futures_util::future::select_all(waits).await;
}

/// A parent that died without closing our input leaves us to another parent. The system wakes us then, where it can;
/// it also does when only the thread that started us ended, so we look for ourselves.
async fn until_orphaned() {
    // Read once: a change means that the parent died.
    let parent = rustix::process::getppid();
    let mut wake = signal(SignalKind::user_defined1()).ok();
    #[cfg(target_os = "linux")]
    if wake.is_some() {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::USR1));
    }
    while rustix::process::getppid() == parent {
        let woken = async {
            match &mut wake {
                Some(wake) => wake.recv().await,
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(PARENT_LOOK, woken).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_shown_without_what_may_be_a_password() {
        let cases = [
            ("postgres://ann:s3cret@db.example:5432/team", "db.example:5432/team"),
            ("postgres://db.example/team?user=ann&password=s3cret", "db.example/team"),
            ("postgresql://ann:s@cret@db.example/team?password=s3cret", "db.example/team"),
            ("postgres://ann:s3?cret@db.example/team", "a PostgreSQL database"),
            ("team@home.db", "team@home.db"),
        ];
        for (db, wanted) in cases {
            assert_eq!(shown(db), wanted, "{db}");
        }
    }
}
