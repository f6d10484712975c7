//! `tsugi restore`: other programs' files as they were before `tsugi init --write-clients`.

use crate::app::App;
use crate::backup::{Backups, Restored};
use crate::failure::Failure;
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
}

pub(crate) fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let backups = backups(app)?;
    let kept = backups.list().map_err(|error| Failure::usage(format!("the backups cannot be read: {error}")))?;
    if kept.is_empty() {
        app.output.say(|paint| paint.faint("there is nothing to bring back"));
    }
    let mut exit = Exit::Success;
    for one in &kept {
        let (program, path) = (&one.program, one.path.display());
        if args.list {
            app.output.data(&format!("{program}: {path}"))?;
            continue;
        }
        match backups.restore(one, args.force) {
            Ok(Restored::Back) => app.output.say(|paint| format!("{} {program}: {path}", paint.good("restored"))),
            Ok(Restored::ChangedSince) => {
                exit = Exit::Failed;
                app.output.say(|paint| {
                    let (label, hint) = (paint.warning("warning"), paint.hint("hint"));
                    format!("{label}: {program}: {path} was changed since and is left alone\n{hint}: --force brings the old one back and loses the changes")
                });
            }
            Err(error) => {
                exit = Exit::Failed;
                app.output.say(|paint| {
                    format!("{}: {program}: {path} cannot be brought back: {error}", paint.error("error"))
                });
            }
        }
    }
    Ok(exit)
}

/// Where what was changed is kept.
pub(super) fn backups(app: &App) -> Result<Backups, Failure> {
    let state = app
        .state_directory()
        .ok_or_else(|| Failure::usage("there is no place to keep backups").with_hint("set HOME or XDG_STATE_HOME"))?;
    Ok(Backups::in_directory(&state))
}
