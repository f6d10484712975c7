//! `tsugi export`: writes the configured servers in another program's format.

use std::path::PathBuf;

use serde_json::json;

use super::add::place;
use crate::app::App;
use crate::atomic_file;
use crate::cli::NoServerFlags;
use crate::config::adapter::ClientProgram;
use crate::config::adapter::export::export;
use crate::config::file;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Known programs: claude, claude-desktop, cursor, vscode, gemini, codex, windsurf, zed.
References such as ${TOKEN} stay references, in that program's syntax; no secret is written.
To point a program at tsugi itself, see `tsugi init --write-clients`.

Examples:
  tsugi export claude > .mcp.json
  tsugi export codex -o servers.toml";

/// Write the configured servers as another program's file
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The program
    #[arg(value_name = "PROGRAM", value_parser = clap::builder::PossibleValuesParser::new(ClientProgram::ALL.map(ClientProgram::word)))]
    client: String,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &ExportArgs) -> Result<CommandExit, CommandFailure> {
    let client = ClientProgram::ALL.into_iter().find(|client| client.word() == args.client);
    let client =
        client.ok_or_else(|| CommandFailure::usage(format!("`{}` is not a program that is known", args.client)))?;
    let exported = export(&file::read(&place(app))?, client);
    for note in &exported.notes {
        app.output.message(|paint| format!("{}: {note}", paint.warning("warning")));
    }
    let is_json = app.output.form() == OutputFormat::Json;
    let Some(output) = &args.output else {
        match is_json {
            true => app.output.json(&json!({"text": exported.text, "warnings": exported.notes}))?,
            false => app.output.data(&exported.text)?,
        }
        return Ok(CommandExit::Success);
    };
    let path = app.context.directory.join(output);
    if path.exists() && !args.force {
        return Err(CommandFailure::usage(format!("`{}` is there already", path.display()))
            .with_hint("write over it with --force"));
    }
    atomic_file::replace(&path, exported.text.as_bytes()).map_err(|error| atomic_file::unwritable(&path, &error))?;
    if is_json {
        app.output.json(&json!({"file": path, "warnings": exported.notes}))?;
    }
    app.output.message(|paint| paint.faint(format!("wrote {}", path.display())));
    Ok(CommandExit::Success)
}
