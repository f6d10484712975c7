//! The MCP surface: actions as tools, records as resources, guidance as prompts, for both eras at once.
//!
//! [`server`] makes an [`Answer`](tsugi_protocol::answer::Answer) that knows neither connection nor process.
//! [`process::Process`] adds what a process of its own owes its sessions: one for a legacy client, signs of life, and
//! a goodbye.

pub mod actor;
mod approval;
mod complete;
pub mod process;
mod prompt;
mod resource;
mod service;
mod text;
mod tool;
mod watch;

use std::sync::Arc;

use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::serve::InProcessServer;

use self::actor::ServerActor;
use self::service::PmService;
use crate::action::Pm;
use crate::domain::fault::PmFault;
use crate::domain::session::SessionHost;
use crate::domain::word::words;

/// The lists change only with the program.
const LISTS: CacheHints = CacheHints { ttl_ms: 3_600_000, scope: CacheScope::Public };

words! {
    /// Which tools are offered. Fewer tools cost a model less attention.
    Profile {
        /// The eight names of the first design.
        Seed = "seed",
        /// What daily work needs.
        Core = "core",
        /// Everything an agent may need.
        Standard = "standard",
        /// Also what keeps house: agents, memberships, tokens.
        All = "all",
    }
}

words! {
    /// What keeps a session of a process alive.
    Liveness {
        /// The process too: when it ends or falls silent, its sessions are taken for disconnected.
        Process = "process",
        /// Calls alone, for processes that a supervisor starts and stops.
        Calls = "calls",
    }
}

words! {
    /// In which language tools and prompts speak.
    Lang {
        En = "en",
        Ja = "ja",
    }
}

impl Lang {
    /// The text in this language.
    const fn pick<'a>(self, english: &'a str, japanese: &'a str) -> &'a str {
        match self {
            Self::En => english,
            Self::Ja => japanese,
        }
    }
}

/// How a server is made.
#[derive(Clone, Debug)]
pub struct PmServerSettings {
    pub profile: Profile,
    pub lang: Lang,
    pub actor: ServerActor,
    /// The process that hosts new sessions, when one does.
    pub host: Option<SessionHost>,
    /// What keeps its sessions alive.
    pub liveness: Liveness,
}

impl PmServerSettings {
    /// The usual tools in English, for this actor, hosted by no process.
    pub fn new(actor: ServerActor) -> Self {
        Self { profile: Profile::Core, lang: Lang::En, actor, host: None, liveness: Liveness::Process }
    }
}

/// Makes the server. Subscribers are notified of every change from here on, including those of other processes.
pub async fn server(pm: Pm, settings: PmServerSettings) -> Result<Arc<InProcessServer>, PmFault> {
    let service = PmService::new(pm, settings);
    let server = offer(&service);
    watch::start(&service, &server);
    Ok(server)
}

/// An answer as short text for people: one line per field, one line per task.
pub fn outline(answer: &serde_json::Value) -> String {
    text::outline(answer)
}

fn offer(service: &Arc<PmService>) -> Arc<InProcessServer> {
    let mut builder = InProcessServer::builder("mcp-server-pm", env!("CARGO_PKG_VERSION"))
        .title("tsugi project management")
        .instructions(text::instructions(service.lang()))
        .list_freshness(LISTS);
    for tool in tool::tools(service) {
        builder = builder.tool(tool);
    }
    let builder = prompt::add(service, resource::add(service, builder));
    let watched = Arc::clone(service);
    let prepare = move || {
        let service = Arc::clone(&watched);
        async move { service.place.prepare(&service).await }
    };
    complete::add(service, builder).before_watching(prepare).build()
}
