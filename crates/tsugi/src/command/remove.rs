//! `tsugi remove`: one server less in the configuration, which otherwise stays as it was written.

use serde_json::json;

use super::add::place;
use crate::app::App;
use crate::config::{edit, file};
use crate::failure::Failure;
use crate::files;
use crate::output::Form;
use crate::report::exit::Exit;

/// Remove a server from the configuration
#[derive(Debug, clap::Args)]
#[command(after_help = "Comments and the order of the file stay.\n\nExamples:\n  tsugi remove files")]
pub(crate) struct Args {
    /// The server
    name: String,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let path = place(app);
    let text = edit::remove(&file::read(&path)?, &args.name)?;
    files::replace(&path, text.as_bytes()).map_err(|error| files::unwritable(&path, &error))?;
    match app.output.form() {
        Form::Json => app.output.json(&json!({"removed": args.name, "file": path}))?,
        Form::Text => {
            app.output.say(|paint| format!("{} {} from {}", paint.good("removed"), args.name, path.display()));
        }
    }
    Ok(Exit::Success)
}
