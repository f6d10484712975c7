//! `tsugi check`: what is wrong with a configuration, and with `--connect` which of its servers work.

use serde_json::{Value, json};

use super::servers::{ServerReport, standings, worst};
use crate::app::App;
use crate::config::layer::{self, ConfigOrigin, ConfigSelection, LoadedConfig};
use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::config::settings::ServerSettings;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::{self, exit::CommandExit};

/// Check the configuration, and with --connect the servers
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  tsugi check\n  tsugi check --config other.yaml --connect")]
pub(crate) struct CheckArgs {
    /// Also connect to each server
    #[arg(long)]
    connect: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &CheckArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = match app.configuration() {
        Ok(loaded) => loaded,
        Err(CommandFailure::Problems(problems)) => return refuse(app, problems),
        Err(failure) => return Err(failure),
    };
    app.report_dormant(&loaded);
    let standings = if args.connect { standings(app, &loaded).await? } else { Vec::new() };
    match app.output.form() {
        OutputFormat::Json => app.output.json(&described(&loaded, &standings))?,
        OutputFormat::Text => print(app, &loaded, &standings)?,
    }
    Ok(worst(&standings))
}

/// All problems, to people or as data.
fn refuse(app: &App, problems: ConfigProblems) -> Result<CommandExit, CommandFailure> {
    if app.output.form() == OutputFormat::Text {
        return Err(CommandFailure::Problems(problems));
    }
    let wish = ConfigSelection { config: app.common.config.clone(), ..ConfigSelection::default() };
    let origin = layer::choose(&wish, &app.context);
    app.output.json(&json!({
        "source": source(&origin),
        "valid": false,
        "problems": problems.0.iter().map(problem).collect::<Vec<_>>(),
    }))?;
    Ok(CommandExit::Usage)
}

fn problem(problem: &ConfigProblem) -> Value {
    json!({
        "message": problem.message,
        "file": problem.place.as_ref().map(|place| &place.path),
        "line": problem.place.as_ref().map(|place| place.line),
        "column": problem.place.as_ref().map(|place| place.column),
        "hint": problem.hint,
    })
}

/// Where the configuration comes from, in words.
fn source(origin: &ConfigOrigin) -> String {
    match origin {
        ConfigOrigin::Named(path) | ConfigOrigin::WorkingDirectory(path) | ConfigOrigin::User(path) => {
            path.display().to_string()
        }
        ConfigOrigin::AdHoc => "the command line".to_owned(),
        ConfigOrigin::Variable => "MCP_URLS".to_owned(),
        ConfigOrigin::Nothing => "the built-in servers".to_owned(),
    }
}

fn print(app: &App, loaded: &LoadedConfig, standings: &[ServerReport]) -> Result<(), CommandFailure> {
    let mut table = TextTable::new(["server", "what it is", "state"]);
    for server in &loaded.settings.servers {
        table.row([server.name.clone(), server.shown_target(), state(server, standings)]);
    }
    app.output.table(&table)?;
    for fault in standings.iter().filter_map(|standing| standing.fault.as_ref()) {
        app.output.message(|paint| format!("\n{}", report::fault(fault, paint)));
    }
    let summary = summary(loaded, standings);
    app.output.message(|paint| match worst(standings) {
        CommandExit::Success => paint.good(&summary),
        _ => paint.warning(&summary),
    });
    Ok(())
}

fn state(server: &ServerSettings, standings: &[ServerReport]) -> String {
    let standing = standings.iter().find(|standing| standing.name == server.name);
    match (standing, server.enabled) {
        (_, false) => "switched off".to_owned(),
        (None, true) => "not tried".to_owned(),
        (Some(ServerReport { counts: Some(counts), took, .. }), _) => {
            let ms = took.unwrap_or_default().as_millis();
            format!("{} tools, {} prompts, {} resources in {ms} ms", counts.tools, counts.prompts, counts.resources)
        }
        (Some(standing), _) => standing.state.clone(),
    }
}

fn summary(loaded: &LoadedConfig, standings: &[ServerReport]) -> String {
    let count = loaded.settings.servers.len();
    let servers = if count == 1 { "1 server".to_owned() } else { format!("{count} servers") };
    let failed = standings.iter().filter(|standing| standing.fault.is_some()).count();
    let warnings = loaded.warnings.len() + loaded.dormant.len();
    let mut summary = format!("{}: {servers}, no problems", source(&loaded.origin));
    if failed > 0 {
        summary = format!("{}: {servers}, {failed} cannot be reached", source(&loaded.origin));
    }
    match warnings {
        0 => summary,
        1 => format!("{summary}, 1 warning"),
        count => format!("{summary}, {count} warnings"),
    }
}

fn described(loaded: &LoadedConfig, standings: &[ServerReport]) -> Value {
    let server = |server: &ServerSettings| {
        let standing = standings.iter().find(|standing| standing.name == server.name);
        json!({
            "name": server.name,
            "target": server.shown_target(),
            "enabled": server.enabled,
            "state": standing.map(|standing| &standing.state),
            "error": standing.and_then(|standing| standing.fault.as_ref()),
        })
    };
    json!({
        "source": source(&loaded.origin),
        "valid": true,
        "servers": loaded.settings.servers.iter().map(server).collect::<Vec<_>>(),
        "warnings": loaded.warnings.iter().chain(&loaded.dormant).map(problem).collect::<Vec<_>>(),
    })
}
