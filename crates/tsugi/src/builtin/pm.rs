//! The built-in project-management server: a caller's key or token names its agent.

mod board;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use tokio::sync::OnceCell;
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_pm::action::Pm;
use tsugi_pm::mcp::actor::ServerActor;
use tsugi_pm::mcp::{Lang, PmServerSettings, Profile, server};
use tsugi_pm::store::{StoreLocation, StoreOptions};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::serve::InProcessServer;

pub(crate) use board::PmBoards;

/// The `args` of its entry.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct BuiltinPmArgs {
    /// The database; a file in the state directory when unset.
    #[arg(long)]
    db: Option<String>,
    #[arg(long, default_value = "standard")]
    tools: Profile,
    #[arg(long, default_value = "en")]
    lang: Lang,
    /// A file on a network file system is used all the same.
    #[arg(long)]
    i_know: bool,
}

impl PmBoards {
    /// Creates a server. Its database is opened by the first call, because this function must not wait.
    pub(crate) fn server_of(&self, name: &str, args: &[String]) -> Result<Arc<dyn Answer>, Fault> {
        let args = BuiltinPmArgs::try_parse_from(args).map_err(|error| {
            Fault::new(FaultCode::ConfigInvalid, error.to_string().lines().next().unwrap_or_default())
        })?;
        let location = match &args.db {
            Some(db) => StoreLocation::parse(db),
            None => StoreLocation::Sqlite(default_file()?),
        };
        let permit = AccessPermit::new(&[globset::escape(name)], &[]);
        let permit = permit.map_err(|error| Fault::new(FaultCode::ConfigInvalid, error.to_string()))?;
        let shared = Arc::new(PmServerState {
            name: name.to_owned(),
            args,
            location,
            permit: Arc::new(permit),
            pm: OnceCell::new(),
            server: OnceCell::new(),
        });
        self.remember(&shared);
        Ok(Arc::new(LazyPmServer(shared)))
    }
}

/// The default database.
pub(crate) fn default_file() -> Result<PathBuf, Fault> {
    let filled = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = filled("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| filled("HOME").map(|home| Path::new(&home).join(".local/state")));
    let no_home = || Fault::new(FaultCode::ConfigInvalid, "there is no state directory: name a database with --db");
    Ok(base.ok_or_else(no_home)?.join("tsugi").join("pm.db"))
}

struct LazyPmServer(Arc<PmServerState>);

/// One server: its arguments, and what was opened from them.
struct PmServerState {
    name: String,
    args: BuiltinPmArgs,
    location: StoreLocation,
    /// What the holders of its tokens may use: this server.
    permit: Arc<AccessPermit>,
    pm: OnceCell<Pm>,
    server: OnceCell<Arc<InProcessServer>>,
}

impl Answer for LazyPmServer {
    fn answer(&self, call: Call) -> Reply {
        if let Some(server) = self.0.server.get() {
            return server.answer(call);
        }
        let shared = self.0.clone();
        Reply::from_pending_reply(async move {
            match shared.server.get_or_try_init(|| shared.serve()).await {
                Ok(server) => server.answer(call),
                Err(fault) => Reply::fault(fault),
            }
        })
    }
}

impl PmServerState {
    async fn pm(&self) -> Result<&Pm, Fault> {
        self.pm.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Pm, Fault> {
        if let StoreLocation::Sqlite(path) = &self.location
            && let Some(folder) = path.parent()
        {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        let usual = StoreOptions::new(self.location.clone());
        Pm::open(StoreOptions { allow_network_file_system: self.args.i_know, ..usual })
            .await
            .map_err(|error| failed(&error))
    }

    async fn serve(&self) -> Result<Arc<InProcessServer>, Fault> {
        let (profile, lang) = (self.args.tools, self.args.lang);
        let settings = PmServerSettings { profile, lang, ..PmServerSettings::new(ServerActor::Principal) };
        server(self.pm().await?.clone(), settings).await.map_err(|fault| failed(&fault))
    }
}

fn failed(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(FaultCode::ServerNotRunning, format!("the project database cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_is_used_when_somebody_says_so() {
        assert!(BuiltinPmArgs::try_parse_from(["--db", "team.db", "--i-know"]).is_ok_and(|args| args.i_know));
    }
}
