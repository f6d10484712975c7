//! `tsugi status`: shows the servers of a running gateway, once or continuously.

use std::time::Duration;

use serde_json::Value;

use super::input::duration;
use super::login::lasting;
use crate::app::App;
use crate::failure::CommandFailure;
use crate::gateway_client::{GatewayClient, GatewayFlags};
use crate::output::table::TextTable;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

/// The last lines of standard error of a server that is not connected.
const WORDS: &str = "lines=5";

/// Clears a terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

const EXAMPLES: &str = "\
With --watch the table is redrawn on a terminal; in a pipe each change is one line.

Examples:
  tsugi status
  tsugi status --watch
  tsugi status --gateway http://127.0.0.1:7600 --json";

/// Show the servers of a running gateway
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    which: GatewayFlags,
    /// Keep showing it until interrupted
    #[arg(long, short)]
    watch: bool,
    /// The polling interval of --watch
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &StatusArgs) -> Result<CommandExit, CommandFailure> {
    let remote = GatewayClient::of(app, &args.which)?;
    let mut answer = remote.get(&["servers"], "").await?;
    remote.identify(app, &mut answer);
    if args.watch {
        return watch(app, args, &remote, answer).await;
    }
    match app.output.form() {
        OutputFormat::Json => app.output.json(&answer)?,
        OutputFormat::Text => {
            app.output.table(&table(&answer))?;
            report_troubles(app, &remote, &answer).await;
        }
    }
    Ok(CommandExit::Success)
}

/// Shows every change until interrupted. If the gateway goes away, waits for it to return.
async fn watch(
    app: &App,
    args: &StatusArgs,
    remote: &GatewayClient,
    first: Value,
) -> Result<CommandExit, CommandFailure> {
    let mut shown = Value::Null;
    let mut next = Ok(first);
    loop {
        match next {
            Ok(answer) => {
                let seen = without_live_values(&answer);
                if seen != shown {
                    show(app, &shown, &answer)?;
                    shown = seen;
                }
            }
            // Reported once, not with every poll.
            Err(failure) if shown != Value::Null => {
                let failure: CommandFailure = failure;
                failure.report(&app.output);
                shown = Value::Null;
            }
            Err(_) => {}
        }
        tokio::time::sleep(args.interval).await;
        next = remote.get(&["servers"], "").await;
    }
}

/// The members whose changes matter, without counters that tick by themselves.
fn without_live_values(answer: &Value) -> Value {
    let keep = |server: &Value| -> Value {
        // Uptime and latencies change with every poll and would redraw the table each time.
        let keys = ["name", "state", "transport", "protocolVersion", "pid", "tools", "inFlight", "restarts"];
        keys.iter().map(|key| ((*key).to_owned(), server[*key].clone())).collect()
    };
    answer["servers"].as_array().into_iter().flatten().map(keep).collect()
}

fn show(app: &App, before: &Value, answer: &Value) -> Result<(), CommandFailure> {
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(answer)?);
    }
    // A terminal shows the current state, a pipe the history.
    if app.output.is_data_watched() {
        app.output.bytes(CLEAR)?;
        return Ok(app.output.table(&table(answer))?);
    }
    let was = |name: &Value| before.as_array().into_iter().flatten().find(|server| server["name"] == *name);
    for server in answer["servers"].as_array().into_iter().flatten() {
        let (name, state) = (&server["name"], &server["state"]);
        let changes = was(name).is_none_or(|was| {
            was["state"] != *state || was["pid"] != server["pid"] || was["restarts"] != server["restarts"]
        });
        if changes {
            let (pid, restarts) = (cell_text(&server["pid"]), cell_text(&server["restarts"]));
            app.output.data(&format!("{}\t{}\tpid {pid}\trestarts {restarts}", cell_text(name), cell_text(state)))?;
        }
    }
    Ok(())
}

/// Reports why servers are not connected, with their last lines of standard error.
async fn report_troubles(app: &App, remote: &GatewayClient, answer: &Value) {
    for server in answer["servers"].as_array().into_iter().flatten() {
        let (name, state) = (cell_text(&server["name"]), cell_text(&server["state"]));
        for problem in shortcomings(server) {
            let told = printable_line(&printable(&format!("{name} {problem}")));
            app.output.message(|paint| format!("{} {told}", paint.warning("warning:")));
        }
        // Disconnected is how a lazy or stopped server rests.
        if matches!(state.as_str(), "connected" | "disconnected") {
            continue;
        }
        let why = server["fault"]["message"].as_str().map(|message| format!(": {message}")).unwrap_or_default();
        app.output.message(|paint| printable_line(&format!("{} {name} is {state}{why}", paint.warning("warning:"))));
        // Best effort: the table is already printed.
        let said = remote.get(&["servers", &name, "logs"], WORDS).await.unwrap_or_default();
        for line in said["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            app.output.message(|paint| format!("  {} {}", paint.faint("|"), printable(line)));
        }
        if let Some(hint) = server["fault"]["hint"].as_str() {
            app.output.message(|paint| format!("{}: {}", paint.hint("hint"), printable(hint)));
        }
    }
}

/// Problems of a server, connected or not.
fn shortcomings(server: &Value) -> Vec<String> {
    let words = [("leftAlone", "is left alone"), ("sandboxLacks", "is not confined in every way")];
    words.iter().filter_map(|(key, what)| Some(format!("{what}: {}", server[key].as_str()?))).collect()
}

fn printable_line(text: &str) -> String {
    text.replace('\n', " ")
}

fn table(answer: &Value) -> TextTable {
    let mut table = TextTable::new([
        "server",
        "state",
        "transport",
        "revision",
        "pid",
        "sandbox",
        "tools",
        "running",
        "waiting",
        "restarts",
        "sign-in",
    ]);
    for server in answer["servers"].as_array().into_iter().flatten() {
        table.row([
            cell_text(&server["name"]),
            state_of(server),
            cell_text(&server["transport"]),
            cell_text(&server["protocolVersion"]),
            cell_text(&server["pid"]),
            cell_text(&server["sandbox"]),
            cell_text(&server["tools"]),
            cell_text(&server["inFlight"]),
            cell_text(&server["waiting"]),
            cell_text(&server["restarts"]),
            sign_in(&server["signIn"]),
        ]);
    }
    table
}

/// The state; a server stopped on request is `stopped`.
fn state_of(server: &Value) -> String {
    let state = cell_text(&server["state"]);
    match (state.as_str(), &server["stopped"]) {
        // The gateway reports both as disconnected.
        ("disconnected", Value::Bool(true)) => "stopped".to_owned(),
        ("needs-sign-in", _) => "needs sign-in".to_owned(),
        _ => state,
    }
}

/// How the sign-in stands; empty for a server that never asked for one.
fn sign_in(standing: &Value) -> String {
    match standing["state"].as_str() {
        Some("signed-in") => {
            let lasts = lasting(standing["until"].as_u64(), standing["renewed"] == Value::Bool(true));
            format!("signed in, {lasts}")
        }
        Some(_) => "needed".to_owned(),
        None => String::new(),
    }
}

/// A value as a table cell; empty for null.
fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_as_it_should_be_is_told_of_connected_servers_too() {
        let well = json!({"state": "connected", "leftAlone": null, "sandboxLacks": null});
        assert!(shortcomings(&well).is_empty());
        let ill = json!({"state": "connected", "leftAlone": "it keeps failing", "sandboxLacks": "no network rules"});
        let told = ["is left alone: it keeps failing", "is not confined in every way: no network rules"];
        assert_eq!(shortcomings(&ill), told);
    }

    #[test]
    fn a_server_that_was_stopped_by_order_says_so() {
        for (state, stopped, expected) in
            [("disconnected", true, "stopped"), ("disconnected", false, "disconnected"), ("draining", true, "draining")]
        {
            assert_eq!(state_of(&json!({"state": state, "stopped": stopped})), expected);
        }
    }
}
