//! `tsugi undo-init`: puts back the servers that `tsugi init --write-clients` moved out of other programs' files.

use serde_json::json;

use crate::app::App;
use crate::backup::{ClientBackup, ClientBackups, RestoreOutcome};
use crate::cli::NoServerFlags;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
A file that was not changed since comes back byte for byte. In a file that was changed, the servers
are put back, tsugi's entry is removed, and everything else stays.

Examples:
  tsugi undo-init
  tsugi undo-init --list";

/// Put back the servers that `tsugi init --write-clients` moved out of other programs' files
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// Only list the files
    #[arg(long)]
    list: bool,
    /// Restore the old bytes of every file; a file that was changed since is kept as FILE.bak
    #[arg(long)]
    force: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &RestoreArgs) -> Result<CommandExit, CommandFailure> {
    let backups = backups(app)?;
    let changed =
        backups.list().map_err(|error| CommandFailure::usage(format!("the backups cannot be read: {error}")))?;
    if changed.is_empty() {
        app.output.message(|paint| paint.faint("there is nothing to restore"));
    }
    let mut states = Vec::new();
    for backup in &changed {
        let state = if args.list { "changed" } else { restore_file(app, &backups, backup, args.force) };
        states.push(json!({"program": backup.program(), "file": backup.path, "state": state}));
        if args.list && app.output.form() == OutputFormat::Text {
            app.output.data(&format!("{}: {}", backup.program(), backup.path.display()))?;
        }
    }
    let is_bad = |file: &serde_json::Value| matches!(file["state"].as_str(), Some("changed-since" | "failed"));
    let is_well = !states.iter().any(is_bad);
    if app.output.form() == OutputFormat::Json {
        app.output.json(&json!({"files": states}))?;
    }
    Ok(if is_well { CommandExit::Success } else { CommandExit::Failed })
}

/// Restores one file, reports the result, and returns the word for it.
fn restore_file(app: &App, backups: &ClientBackups, backup: &ClientBackup, force: bool) -> &'static str {
    let (program, path) = (backup.program(), backup.path.display());
    match backups.restore(backup, force) {
        Ok(RestoreOutcome::Bytes) => {
            app.output.message(|paint| format!("{} {program}: {path}", paint.good("restored")));
            "restored"
        }
        Ok(RestoreOutcome::Servers) => {
            app.output.message(|paint| {
                let label = paint.good("restored");
                format!("{label} {program}: the servers in {path}; other changes to the file stay")
            });
            "servers-restored"
        }
        Ok(RestoreOutcome::ChangedSince) => {
            app.output.message(|paint| {
                let (label, hint) = (paint.warning("warning"), paint.hint("hint"));
                format!("{label}: {program}: {path} was changed since, cannot be edited safely and is left alone\n{hint}: --force restores the old file and keeps the present one as a .bak")
            });
            "changed-since"
        }
        Err(error) => {
            app.output
                .message(|paint| format!("{}: {program}: {path} cannot be restored: {error}", paint.error("error")));
            "failed"
        }
    }
}

/// The backups of this user.
pub(super) fn backups(app: &App) -> Result<ClientBackups, CommandFailure> {
    let state = app.state_directory().ok_or_else(|| {
        CommandFailure::usage("there is no place to keep backups").with_hint("set HOME or XDG_STATE_HOME")
    })?;
    Ok(ClientBackups::in_directory(&state))
}
