//! `tsugi logs`: the last lines that a server of a running gateway wrote to its standard error.

use crate::app::App;
use crate::control::{Remote, Which};
use crate::failure::Failure;
use crate::output::Form;
use crate::report::exit::Exit;

/// Show what a server of a running gateway wrote to its standard error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tsugi logs files\n  tsugi logs files --lines 500")]
pub(crate) struct Args {
    /// The server
    #[arg(value_name = "SERVER")]
    name: String,
    /// How many lines at most
    #[arg(long, short = 'n', default_value_t = 100)]
    lines: usize,
    #[command(flatten)]
    which: Which,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let remote = Remote::of(app, &args.which)?;
    let answer = remote.get(&["servers", &args.name, "logs"], &format!("lines={}", args.lines)).await?;
    if app.output.form() == Form::Json {
        app.output.json(&answer)?;
        return Ok(Exit::Success);
    }
    for line in answer["lines"].as_array().into_iter().flatten().filter_map(|line| line.as_str()) {
        app.output.data(line)?;
    }
    Ok(Exit::Success)
}
