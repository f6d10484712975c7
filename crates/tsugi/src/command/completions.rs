//! `tsugi completions` and `tsugi man`: what shells and `man` want to know, made from the command line itself.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::args::Cli;
use crate::failure::Failure;
use crate::report::exit::Exit;

/// Write the completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tsugi completions bash > ~/.local/share/bash-completion/completions/tsugi\n  tsugi completions zsh > ~/.zfunc/_tsugi\n  tsugi completions fish > ~/.config/fish/completions/tsugi.fish"
)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tsugi", &mut script);
    app.output.bytes(&script)?;
    Ok(Exit::Success)
}

/// The manual page.
pub(crate) fn manual(app: &App) -> Result<Exit, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    app.output.bytes(&page)?;
    Ok(Exit::Success)
}
