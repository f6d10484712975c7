//! `tsugi servers`: connects to each server and shows its state, protocol and offers.

use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::ServerStatus;
use tsugi_client::connection::state::ConnectionState;
use tsugi_gateway::hub::observe::confinement;
use tsugi_protocol::answer::{Fault, FaultCode};

use crate::app::{App, StartOptions, select};
use crate::config::layer::LoadedConfig;
use crate::config::settings::{ServerSettings, ServerTarget};
use crate::failure::CommandFailure;
use crate::locate::{ReachedServer, reach};
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::{self, exit::CommandExit};

/// Connect to the servers and show their state
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  tsugi servers\n  tsugi servers --server files --json")]
pub(crate) struct ServersArgs {
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) struct ServerReport {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) transport: &'static str,
    pub(super) status: Option<ServerStatus>,
    pub(super) counts: Option<OfferCounts>,
    pub(super) took: Option<Duration>,
    /// The state of its sandbox, and the restrictions that are not enforced.
    pub(super) sandbox: Option<(&'static str, Option<String>)>,
    pub(super) fault: Option<Fault>,
}

pub(super) struct OfferCounts {
    pub(super) tools: usize,
    pub(super) prompts: usize,
    pub(super) resources: usize,
}

pub(crate) async fn run(app: &App, _: &ServersArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.configuration()?;
    let standings = standings(app, &loaded).await?;
    match app.output.form() {
        OutputFormat::Json => {
            app.output.json(&json!({"servers": standings.iter().map(described).collect::<Vec<_>>()}))?
        }
        OutputFormat::Text => {
            app.output.table(&table(&standings))?;
            for fault in standings.iter().filter_map(|standing| standing.fault.as_ref()) {
                app.output.message(|paint| format!("\n{}", report::fault(fault, paint)));
            }
        }
    }
    Ok(worst(&standings))
}

/// Success, or the exit code of the first server that failed.
pub(super) fn worst(standings: &[ServerReport]) -> CommandExit {
    standings.iter().find_map(|standing| standing.fault.as_ref()).map_or(CommandExit::Success, CommandExit::of_fault)
}

/// Connects to the selected servers in parallel. Disabled ones are only listed.
pub(super) async fn standings(app: &App, loaded: &LoadedConfig) -> Result<Vec<ServerReport>, CommandFailure> {
    let names = app.chosen(loaded);
    let wanted = select(loaded, names)?;
    let started = app.start(&loaded.settings, &wanted, &StartOptions::default());
    let mut reached = reach(app, started.servers, |_, _| false).await;
    let mut failed = started.failed;
    // Disabled servers are listed too, so that they are not forgotten.
    let listed = loaded.settings.servers.iter().filter(|server| names.is_empty() || names.contains(&server.name));
    let stand = |settings: &ServerSettings| {
        if let Some(index) = reached.iter().position(|one| one.server.name() == settings.name) {
            return ServerReport::of_reached(reached.swap_remove(index));
        }
        let fault = failed.iter().position(|fault| fault.server.as_deref() == Some(&settings.name));
        ServerReport::unreached(settings, fault.map(|index| failed.swap_remove(index)))
    };
    Ok(listed.map(stand).collect())
}

impl ServerReport {
    fn of_reached(reached: ReachedServer) -> Self {
        let (status, sandbox) = (reached.server.status(), confinement(&reached.server));
        let (counts, fault) = match reached.catalog {
            Ok(catalog) => {
                // People count what they can read, templates included.
                let resources = catalog.resources.items.len() + catalog.templates.items.len();
                let (tools, prompts) = (catalog.tools.items.len(), catalog.prompts.items.len());
                (Some(OfferCounts { tools, prompts, resources }), catalog.faults().next().cloned())
            }
            Err(fault) => (None, Some(fault)),
        };
        ServerReport {
            name: reached.server.name().to_owned(),
            state: match &fault {
                Some(fault) if fault.code == FaultCode::AuthRequired => "needs-sign-in",
                // A server whose list failed is connected, but not usable.
                Some(_) => ConnectionState::Failed.as_str(),
                None => status.state_word(),
            }
            .to_owned(),
            transport: status.transport,
            status: Some(status),
            counts,
            took: Some(reached.took),
            sandbox,
            fault,
        }
    }

    fn unreached(settings: &ServerSettings, fault: Option<Fault>) -> Self {
        let transport = match &settings.target {
            ServerTarget::Command(_) => "stdio",
            ServerTarget::Remote(_) => "http",
            ServerTarget::Builtin(_) => "builtin",
        };
        // Not even registered: the entry cannot be used.
        let state = if fault.is_some() { "failed" } else { "switched off" }.to_owned();
        let name = settings.name.clone();
        ServerReport { name, state, transport, status: None, counts: None, took: None, sandbox: None, fault }
    }

    /// Era and revision, if known.
    fn version(&self) -> Option<(String, String)> {
        let version = self.status.as_ref()?.version?;
        Some((version.era().to_string(), version.to_string()))
    }
}

fn table(standings: &[ServerReport]) -> TextTable {
    let mut table =
        TextTable::new(["server", "state", "transport", "era", "revision", "sandbox", "tools", "time", "title"]);
    for standing in standings {
        let (era, revision) = standing.version().unwrap_or_default();
        let title = standing.status.as_ref().and_then(|status| status.identity.as_ref()?.display_name());
        table.row([
            standing.name.clone(),
            standing.state.clone(),
            standing.transport.to_owned(),
            era,
            revision,
            standing.sandbox.as_ref().map(|(word, _)| (*word).to_owned()).unwrap_or_default(),
            standing.counts.as_ref().map(|counts| counts.tools.to_string()).unwrap_or_default(),
            // The time of a failure would be the time of the limit.
            standing.took.filter(|_| standing.counts.is_some()).map(milliseconds).unwrap_or_default(),
            title.unwrap_or_default(),
        ]);
    }
    table
}

fn milliseconds(took: Duration) -> String {
    format!("{} ms", took.as_millis())
}

fn described(standing: &ServerReport) -> Value {
    let (era, revision) = standing.version().unzip();
    let identity = standing.status.as_ref().and_then(|status| status.identity.clone());
    let info = identity.as_ref().and_then(|identity| identity.info.clone());
    json!({
        "name": standing.name,
        "state": standing.state,
        "transport": standing.transport,
        "era": era,
        "revision": revision,
        "serverInfo": info,
        "capabilities": identity.as_ref().map(|identity| identity.capabilities.raw()),
        "instructions": identity.as_ref().and_then(|identity| identity.instructions.clone()),
        "tools": standing.counts.as_ref().map(|counts| counts.tools),
        "prompts": standing.counts.as_ref().map(|counts| counts.prompts),
        "resources": standing.counts.as_ref().map(|counts| counts.resources),
        "sandbox": standing.sandbox.as_ref().map(|(word, _)| word),
        "sandboxLacks": standing.sandbox.as_ref().and_then(|(_, lacks)| lacks.as_ref()),
        "tier": standing.status.as_ref().and_then(|status| status.tier),
        "connectMs": standing.took.map(|took| took.as_millis() as u64),
        "error": standing.fault,
    })
}
