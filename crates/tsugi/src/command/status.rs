//! `tsugi status`: how the servers of a running gateway stand.

use serde_json::Value;

use crate::app::App;
use crate::control::{Remote, Which};
use crate::failure::Failure;
use crate::output::Form;
use crate::output::table::Table;
use crate::report::exit::Exit;

/// Show how the servers of a running gateway stand
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tsugi status\n  tsugi status --gateway http://127.0.0.1:7600 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let answer = Remote::of(app, &args.which)?.get(&["servers"], "").await?;
    match app.output.form() {
        Form::Json => app.output.json(&answer)?,
        Form::Text => app.output.table(&table(&answer))?,
    }
    Ok(Exit::Success)
}

fn table(answer: &Value) -> Table {
    let mut table = Table::new(["server", "state", "transport", "revision", "pid", "tools", "running", "restarts"]);
    for server in answer["servers"].as_array().into_iter().flatten() {
        table.row([
            word(&server["name"]),
            word(&server["state"]),
            word(&server["transport"]),
            word(&server["protocolVersion"]),
            word(&server["pid"]),
            word(&server["tools"]),
            word(&server["inFlight"]),
            word(&server["restarts"]),
        ]);
    }
    table
}

/// A value as a cell; nothing for what is not there.
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
