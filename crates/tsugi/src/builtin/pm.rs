//! The project-management server as part of a gateway, where a caller's key or token names its agent.

mod board;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use tokio::sync::OnceCell;
use tsugi_gateway::guard::permit::Permit;
use tsugi_pm::action::Pm;
use tsugi_pm::mcp::actor::Actor;
use tsugi_pm::mcp::{Lang, Profile, Settings, server};
use tsugi_pm::store::{Location, Options};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::serve::Server;

pub(crate) use board::Boards;

/// What may stand in `args`.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Args {
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

impl Boards {
    /// The server of this name. Its database is opened by the first call, since making a server may not wait.
    pub(crate) fn server_of(&self, name: &str, args: &[String]) -> Result<Arc<dyn Answer>, Fault> {
        let args = Args::try_parse_from(args).map_err(|error| {
            Fault::new(FaultCode::ConfigInvalid, error.to_string().lines().next().unwrap_or_default())
        })?;
        let location = match &args.db {
            Some(db) => Location::parse(db),
            None => Location::Sqlite(default_file()?),
        };
        let permit = Permit::new(&[globset::escape(name)], &[]);
        let permit = permit.map_err(|error| Fault::new(FaultCode::ConfigInvalid, error.to_string()))?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            args,
            location,
            permit: Arc::new(permit),
            pm: OnceCell::new(),
            server: OnceCell::new(),
        });
        self.remember(&shared);
        Ok(Arc::new(Late(shared)))
    }
}

/// Where the database lies when nobody says so.
pub(crate) fn default_file() -> Result<PathBuf, Fault> {
    let filled = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = filled("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| filled("HOME").map(|home| Path::new(&home).join(".local/state")));
    let no_home = || Fault::new(FaultCode::ConfigInvalid, "there is no state directory: name a database with --db");
    Ok(base.ok_or_else(no_home)?.join("tsugi").join("pm.db"))
}

struct Late(Arc<Shared>);

/// One server, what it was told, and what it opened.
struct Shared {
    name: String,
    args: Args,
    location: Location,
    /// What the holders of its tokens may use: this server.
    permit: Arc<Permit>,
    pm: OnceCell<Pm>,
    server: OnceCell<Arc<Server>>,
}

impl Answer for Late {
    fn answer(&self, call: Call) -> Reply {
        if let Some(server) = self.0.server.get() {
            return server.answer(call);
        }
        let shared = self.0.clone();
        Reply::from_late(async move {
            match shared.server.get_or_try_init(|| shared.serve()).await {
                Ok(server) => server.answer(call),
                Err(fault) => Reply::fault(fault),
            }
        })
    }
}

impl Shared {
    /// The open database.
    async fn pm(&self) -> Result<&Pm, Fault> {
        self.pm.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Pm, Fault> {
        if let Location::Sqlite(path) = &self.location
            && let Some(folder) = path.parent()
        {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        let usual = Options::new(self.location.clone());
        Pm::open(Options { allow_network_file_system: self.args.i_know, ..usual }).await.map_err(|error| failed(&error))
    }

    async fn serve(&self) -> Result<Arc<Server>, Fault> {
        let (profile, lang) = (self.args.tools, self.args.lang);
        let settings = Settings { profile, lang, ..Settings::new(Actor::Principal) };
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
        assert!(Args::try_parse_from(["--db", "team.db", "--i-know"]).is_ok_and(|args| args.i_know));
    }
}
