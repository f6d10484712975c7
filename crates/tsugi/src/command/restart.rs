//! `tsugi restart`: restarts a server of a running gateway.

use std::time::Duration;

use serde_json::Value;

use crate::app::App;
use crate::failure::CommandFailure;
use crate::gateway_client::{GatewayClient, GatewayFlags, PATIENCE};
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

/// Restart a server of a running gateway
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  tsugi restart files")]
pub(crate) struct RestartArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    name: String,
    #[command(flatten)]
    which: GatewayFlags,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(app: &App, args: &RestartArgs) -> Result<CommandExit, CommandFailure> {
    let remote = GatewayClient::of(app, &args.which)?;
    let mut answer = remote.post(&["servers", &args.name, "restart"]).await?;
    remote.identify(app, &mut answer);
    let server = settled(&remote, &args.name, answer["server"].take()).await?;
    let state = server["state"].as_str().unwrap_or_default().to_owned();
    let why = server["fault"]["message"].as_str().map(|why| format!(": {}", printable(why)));
    answer["server"] = server;
    match app.output.form() {
        OutputFormat::Json => app.output.json(&answer)?,
        OutputFormat::Text => app.output.message(|_| match is_trouble(&state) {
            true => format!("{}: {state}{}", args.name, why.unwrap_or_default()),
            false => format!("{}: {state}", args.name),
        }),
    }
    Ok(if is_trouble(&state) { CommandExit::Unreachable } else { CommandExit::Success })
}

/// The server once it has connected or failed. After [`PATIENCE`] it is shown as it is.
async fn settled(remote: &GatewayClient, name: &str, mut server: Value) -> Result<Value, CommandFailure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while matches!(server["state"].as_str(), Some("connecting" | "initializing" | "draining")) {
        if tokio::time::Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(INTERVAL).await;
        let all = remote.get(&["servers"], "").await?;
        let found = all["servers"].as_array().into_iter().flatten().find(|one| one["name"] == name);
        server = found.cloned().unwrap_or_default();
    }
    Ok(server)
}

fn is_trouble(state: &str) -> bool {
    matches!(state, "failed" | "reconnecting")
}
