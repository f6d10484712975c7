//! The subcommands, one file each: arguments, work, output.

pub(crate) mod add;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod lock;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod logs;
pub(crate) mod pm;
pub(crate) mod policy;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod resources;
pub(crate) mod restart;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod skills;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod tools;
pub(crate) mod undo_init;
pub(crate) mod vault;

mod input;
mod kept_files;
mod result_text;

use crate::app::App;
use crate::cli::CliCommand;
use crate::failure::CommandFailure;
use crate::report::exit::CommandExit;

pub(crate) async fn run(app: &App, command: CliCommand) -> Result<CommandExit, CommandFailure> {
    match command {
        CliCommand::Serve(args) => serve::run(app, &args).await,
        CliCommand::Stdio(args) => stdio::run(app, &args).await,
        CliCommand::Status(args) => status::run(app, &args).await,
        CliCommand::Logs(args) => logs::run(app, &args).await,
        CliCommand::Restart(args) => restart::run(app, &args).await,
        CliCommand::Key(args) => key::run(app, &args),
        CliCommand::Audit(args) => audit::run(app, &args),
        CliCommand::Policy(args) => policy::run(app, &args),
        CliCommand::Auth(args) => auth::run(app, &args).await,
        CliCommand::Login(args) => login::run(app, &args).await,
        CliCommand::Logout(args) => logout::run(app, &args).await,
        CliCommand::Vault(args) => vault::run(app, &args).await,
        CliCommand::Tools(args) => tools::run(app, &args).await,
        CliCommand::Call(args) => call::run(app, args).await,
        CliCommand::Batch(args) => batch::run(app, &args).await,
        CliCommand::Prompts(args) => prompts::run(app, &args).await,
        CliCommand::Prompt(args) => prompt::run(app, args).await,
        CliCommand::Resources(args) => resources::run(app, &args).await,
        CliCommand::Read(args) => read::run(app, args).await,
        CliCommand::Skills(args) => skills::run(app, &args).await,
        CliCommand::Servers(args) => servers::run(app, &args).await,
        CliCommand::Check(args) => check::run(app, &args).await,
        CliCommand::Config(args) => config::run(app, &args),
        CliCommand::Lock(args) => lock::run(app, &args).await,
        CliCommand::Diff(args) => diff::run(app, &args).await,
        CliCommand::Doctor(args) => doctor::run(app, &args).await,
        CliCommand::Import(args) => import::run(app, &args),
        CliCommand::Export(args) => export::run(app, &args),
        CliCommand::Init(args) => init::run(app, &args).await,
        CliCommand::UndoInit(args) => undo_init::run(app, &args),
        CliCommand::Add(args) => add::run(app, &args),
        CliCommand::Remove(args) => remove::run(app, &args),
        CliCommand::Pm(args) => pm::run(app, args).await,
        CliCommand::Complete(args) => complete::run(app, &args),
        CliCommand::Completions(args) => completions::run(app, &args),
        CliCommand::Man(args) => completions::manual(app, &args),
    }
}

/// The first sentence of a description, for tables.
fn first_sentence(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    // A sentence may go on over a line break, and ends at the latest with its paragraph.
    let lines: Vec<&str> = text.trim().lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let paragraph = lines.join(" ");
    let is_end = |(index, c): &(usize, char)| {
        let rest = &paragraph[index + c.len_utf8()..];
        match c {
            '。' => true,
            // "e.g. this" goes on in small letters.
            '.' | '!' | '?' => rest.strip_prefix(' ').is_some_and(|rest| !rest.starts_with(char::is_lowercase)),
            _ => false,
        }
    };
    match paragraph.char_indices().find(is_end) {
        Some((end, c)) => paragraph[..end + c.len_utf8()].to_owned(),
        None => paragraph,
    }
}

/// The first line of a description, for tables.
fn first_line(text: Option<String>) -> String {
    text.and_then(|text| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::first_sentence;

    #[test]
    fn a_list_shows_the_first_sentence() {
        for (text, shown) in [
            ("Read a file. It must exist.", "Read a file."),
            ("Read a\nfile, e.g. a text.\n\nMore", "Read a file, e.g. a text."),
            ("ファイルを読む。詳細", "ファイルを読む。"),
            ("no end", "no end"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(Some(text.to_owned())), shown);
        }
    }
}
