//! `tsugi remove`: removes a server from the configuration, and keeps everything else as written.

use serde_json::json;

use super::add::place;
use crate::app::App;
use crate::atomic_file;
use crate::cli::NoServerFlags;
use crate::config::{edit, file};
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

/// Remove a server from the configuration
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Comments and the order of the file are kept.\n\nExamples:\n  tsugi remove files")]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The server
    name: String,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &RemoveArgs) -> Result<CommandExit, CommandFailure> {
    let path = place(app);
    let text = edit::remove(&file::read(&path)?, &args.name)?;
    atomic_file::replace(&path, text.as_bytes()).map_err(|error| atomic_file::unwritable(&path, &error))?;
    match app.output.form() {
        OutputFormat::Json => app.output.json(&json!({"removed": args.name, "file": path}))?,
        OutputFormat::Text => {
            app.output.message(|paint| format!("{} {} from {}", paint.good("removed"), args.name, path.display()));
        }
    }
    Ok(CommandExit::Success)
}
