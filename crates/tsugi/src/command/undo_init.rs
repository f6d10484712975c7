//! `tsugi undo-init`: other programs' files as they were before `tsugi init --write-clients`.

use serde_json::json;

use crate::app::App;
use crate::backup::{ClientBackup, ClientBackups, RestoreOutcome};
use crate::cli::NoServerFlags;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

/// Bring back the files of other programs that `tsugi init --write-clients` changed
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Each file comes back byte for byte.\n\nExamples:\n  tsugi undo-init\n  tsugi undo-init --list"
)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// Only show what would be brought back
    #[arg(long)]
    list: bool,
    /// Also bring back files that somebody changed since; those changes are lost
    #[arg(long)]
    force: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &RestoreArgs) -> Result<CommandExit, CommandFailure> {
    let backups = backups(app)?;
    let kept = backups.list().map_err(|error| CommandFailure::usage(format!("the backups cannot be read: {error}")))?;
    if kept.is_empty() {
        app.output.message(|paint| paint.faint("there is nothing to bring back"));
    }
    let mut states = Vec::new();
    for one in &kept {
        let state = if args.list { "kept" } else { restore_file(app, &backups, one, args.force) };
        states.push(json!({"program": one.program, "file": one.path, "state": state}));
        if args.list && app.output.form() == OutputFormat::Text {
            app.output.data(&format!("{}: {}", one.program, one.path.display()))?;
        }
    }
    let is_well = states.iter().all(|file| matches!(file["state"].as_str(), Some("kept" | "restored")));
    if app.output.form() == OutputFormat::Json {
        app.output.json(&json!({"files": states}))?;
    }
    Ok(if is_well { CommandExit::Success } else { CommandExit::Failed })
}

/// Brings back one file, tells what came of it, and gives the word for it.
fn restore_file(app: &App, backups: &ClientBackups, one: &ClientBackup, force: bool) -> &'static str {
    let (program, path) = (&one.program, one.path.display());
    match backups.restore(one, force) {
        Ok(RestoreOutcome::Back) => {
            app.output.message(|paint| format!("{} {program}: {path}", paint.good("restored")));
            "restored"
        }
        Ok(RestoreOutcome::ChangedSince) => {
            app.output.message(|paint| {
                let (label, hint) = (paint.warning("warning"), paint.hint("hint"));
                format!("{label}: {program}: {path} was changed since and is left alone\n{hint}: --force brings the old one back and loses the changes")
            });
            "changed-since"
        }
        Err(error) => {
            app.output.message(|paint| {
                format!("{}: {program}: {path} cannot be brought back: {error}", paint.error("error"))
            });
            "failed"
        }
    }
}

/// Where what was changed is kept.
pub(super) fn backups(app: &App) -> Result<ClientBackups, CommandFailure> {
    let state = app.state_directory().ok_or_else(|| {
        CommandFailure::usage("there is no place to keep backups").with_hint("set HOME or XDG_STATE_HOME")
    })?;
    Ok(ClientBackups::in_directory(&state))
}
