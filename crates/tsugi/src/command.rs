//! The subcommands, one file each: what they take, what they do, what they print.

pub(crate) mod add;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod logs;
pub(crate) mod pm;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod resources;
pub(crate) mod restart;
pub(crate) mod restore;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod tools;

mod input;
mod show;

use crate::app::App;
use crate::args::Command;
use crate::failure::Failure;
use crate::report::exit::Exit;

/// Runs one subcommand.
pub(crate) async fn run(app: &App, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Serve(args) => serve::run(app, &args).await,
        Command::Stdio(args) => stdio::run(app, &args).await,
        Command::Status(args) => status::run(app, &args).await,
        Command::Logs(args) => logs::run(app, &args).await,
        Command::Restart(args) => restart::run(app, &args).await,
        Command::Key(args) => key::run(app, &args),
        Command::Tools(args) => tools::run(app, &args).await,
        Command::Call(args) => call::run(app, args).await,
        Command::Batch(args) => batch::run(app, &args).await,
        Command::Prompts(args) => prompts::run(app, &args).await,
        Command::Prompt(args) => prompt::run(app, args).await,
        Command::Resources(args) => resources::run(app, &args).await,
        Command::Read(args) => read::run(app, args).await,
        Command::Servers(args) => servers::run(app, &args).await,
        Command::Check(args) => check::run(app, &args).await,
        Command::Doctor(args) => doctor::run(app, &args).await,
        Command::Import(args) => import::run(app, &args),
        Command::Export(args) => export::run(app, &args),
        Command::Init(args) => init::run(app, &args),
        Command::Restore(args) => restore::run(app, &args),
        Command::Add(args) => add::run(app, &args),
        Command::Remove(args) => remove::run(app, &args),
        Command::Pm(args) => pm::run(app, args).await,
        Command::Completions(args) => completions::run(app, &args),
        Command::Man(args) => completions::manual(app, &args),
    }
}

/// The first line of a description, for tables.
fn first_line(text: Option<String>) -> String {
    text.and_then(|text| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
        .unwrap_or_default()
}
