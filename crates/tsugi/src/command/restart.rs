//! `tsugi restart`: stops a server of a running gateway and starts it again.

use crate::app::App;
use crate::control::{Remote, Which};
use crate::failure::Failure;
use crate::output::Form;
use crate::report::exit::Exit;

/// Stop a server of a running gateway and start it again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tsugi restart files")]
pub(crate) struct Args {
    /// The server
    #[arg(value_name = "SERVER")]
    name: String,
    #[command(flatten)]
    which: Which,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let answer = Remote::of(app, &args.which)?.post(&["servers", &args.name, "restart"]).await?;
    match app.output.form() {
        Form::Json => app.output.json(&answer)?,
        Form::Text => {
            let state = answer["server"]["state"].as_str().unwrap_or_default();
            app.output.say(|_| format!("{}: {state}", args.name));
        }
    }
    Ok(Exit::Success)
}
