//! `tsugi completions` and `tsugi man`: what shells and `man` want to know, made from the command line itself.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::args::{Cli, NoServers};
use crate::failure::Failure;
use crate::files;
use crate::report::exit::Exit;

/// Write the completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tsugi completions bash > ~/.local/share/bash-completion/completions/tsugi\n  tsugi completions zsh > ~/.zfunc/_tsugi\n  tsugi completions fish > ~/.config/fish/completions/tsugi.fish"
)]
pub(crate) struct Args {
    #[command(flatten)]
    _no_servers: NoServers,
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tsugi", &mut script);
    app.output.bytes(&script)?;
    Ok(Exit::Success)
}

/// Write the manual page, or one for each command
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tsugi man | man -l -\n  tsugi man --directory ~/.local/share/man/man1      then: man tsugi-serve"
)]
pub(crate) struct ManArgs {
    #[command(flatten)]
    _no_servers: NoServers,
    /// Write a page for each command into this directory instead
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// The manual page.
pub(crate) fn manual(app: &App, args: &ManArgs) -> Result<Exit, Failure> {
    if let Some(directory) = &args.directory {
        let written = fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
        written.map_err(|error| files::unwritable(directory, &error))?;
        app.output.say(|paint| format!("{} the pages into {}", paint.good("wrote"), directory.display()));
        return Ok(Exit::Success);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    app.output.bytes(&page)?;
    Ok(Exit::Success)
}
