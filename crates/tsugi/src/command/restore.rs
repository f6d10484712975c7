//! `tsugi restore`: other programs' files as they were before `tsugi init --write-clients`.

use serde_json::json;

use crate::app::App;
use crate::backup::{Backups, Kept, Restored};
use crate::failure::Failure;
use crate::output::Form;
use crate::report::exit::Exit;

/// Bring back the files of other programs that `tsugi init --write-clients` changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Each file comes back byte for byte.\n\nExamples:\n  tsugi restore\n  tsugi restore --list")]
pub(crate) struct Args {
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

pub(crate) fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let backups = backups(app)?;
    let kept = backups.list().map_err(|error| Failure::usage(format!("the backups cannot be read: {error}")))?;
    if kept.is_empty() {
        app.output.say(|paint| paint.faint("there is nothing to bring back"));
    }
    let mut states = Vec::new();
    for one in &kept {
        let state = if args.list { "kept" } else { bring_back(app, &backups, one, args.force) };
        states.push(json!({"program": one.program, "file": one.path, "state": state}));
        if args.list && app.output.form() == Form::Text {
            app.output.data(&format!("{}: {}", one.program, one.path.display()))?;
        }
    }
    let is_well = states.iter().all(|file| matches!(file["state"].as_str(), Some("kept" | "restored")));
    if app.output.form() == Form::Json {
        app.output.json(&json!({"files": states}))?;
    }
    Ok(if is_well { Exit::Success } else { Exit::Failed })
}

/// Brings back one file, tells what came of it, and gives the word for it.
fn bring_back(app: &App, backups: &Backups, one: &Kept, force: bool) -> &'static str {
    let (program, path) = (&one.program, one.path.display());
    match backups.restore(one, force) {
        Ok(Restored::Back) => {
            app.output.say(|paint| format!("{} {program}: {path}", paint.good("restored")));
            "restored"
        }
        Ok(Restored::ChangedSince) => {
            app.output.say(|paint| {
                let (label, hint) = (paint.warning("warning"), paint.hint("hint"));
                format!("{label}: {program}: {path} was changed since and is left alone\n{hint}: --force brings the old one back and loses the changes")
            });
            "changed-since"
        }
        Err(error) => {
            app.output
                .say(|paint| format!("{}: {program}: {path} cannot be brought back: {error}", paint.error("error")));
            "failed"
        }
    }
}

/// Where what was changed is kept.
pub(super) fn backups(app: &App) -> Result<Backups, Failure> {
    let state = app
        .state_directory()
        .ok_or_else(|| Failure::usage("there is no place to keep backups").with_hint("set HOME or XDG_STATE_HOME"))?;
    Ok(Backups::in_directory(&state))
}
