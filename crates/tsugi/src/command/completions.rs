//! `tsugi completions` and `tsugi man`: generated from the definition of the command line.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::atomic_file;
use crate::cli::{CommandLine, NoServerFlags};
use crate::failure::CommandFailure;
use crate::report::exit::CommandExit;

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  tsugi completions bash > ~/.local/share/bash-completion/completions/tsugi\n  tsugi completions zsh > ~/.zfunc/_tsugi\n  tsugi completions fish > ~/.config/fish/completions/tsugi.fish"
)]
pub(crate) struct CompletionsArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(app: &App, args: &CompletionsArgs) -> Result<CommandExit, CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "tsugi", &mut script);
    // The generated part knows commands and flags; names are asked for while completing.
    script.extend_from_slice(match args.shell {
        Shell::Bash => include_bytes!("completions/names.bash"),
        Shell::Zsh => include_bytes!("completions/names.zsh"),
        Shell::Fish => include_bytes!("completions/names.fish"),
        _ => b"",
    });
    app.output.bytes(&script)?;
    Ok(CommandExit::Success)
}

/// Print the manual page, or write one for each command
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  tsugi man | man -l -\n  tsugi man --directory ~/.local/share/man/man1      then: man tsugi-serve"
)]
pub(crate) struct ManArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// Write a page for each command into this directory instead
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

pub(crate) fn manual(app: &App, args: &ManArgs) -> Result<CommandExit, CommandFailure> {
    if let Some(directory) = &args.directory {
        let written =
            fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(CommandLine::command(), directory));
        written.map_err(|error| atomic_file::unwritable(directory, &error))?;
        app.output.message(|paint| format!("{} the pages into {}", paint.good("wrote"), directory.display()));
        return Ok(CommandExit::Success);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(CommandLine::command()).render(&mut page)?;
    app.output.bytes(&page)?;
    Ok(CommandExit::Success)
}
