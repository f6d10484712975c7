//! `tsugi import`: the servers of other programs, as one configuration of ours.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::adapter::write::{ImportOutput, SECRETS_FILE, write};
use crate::config::adapter::{self, ClientProgram, ImportedFile};
use crate::config::problem::ConfigProblem;
use crate::config::secret::Secret;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Known programs: claude, claude-desktop, cursor, vscode, gemini, codex, windsurf, zed.
Without a program or a file, every file that is found here and in the home directory is taken.
Secrets never go to stdout: with -o they are written to tsugi.secrets.env beside the file,
readable by you alone.

Examples:
  tsugi import                              look at what there is
  tsugi import claude -o tsugi.yaml
  tsugi import ./their/mcp.json --client vscode";

/// Turn another program's configuration into a tsugi.yaml
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// Programs, or files of theirs
    #[arg(value_name = "PROGRAM|FILE")]
    sources: Vec<String>,
    /// Whose files they are, where that is not clear from them
    #[arg(long, value_name = "PROGRAM")]
    client: Option<String>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long, requires = "output")]
    force: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was written.
pub(super) struct ImportFiles {
    pub(super) file: PathBuf,
    pub(super) secrets: Option<PathBuf>,
}

pub(crate) fn run(app: &App, args: &ImportArgs) -> Result<CommandExit, CommandFailure> {
    let mut imports = Vec::new();
    for (client, path) in sources(app, args)? {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ConfigProblem::new(format!("`{}` cannot be read: {error}", path.display())))?;
        imports.push(adapter::import(&path, text, client, Some(&app.context.directory))?);
    }
    let written = write(&imports);
    tell(app, &imports);
    let saved = args.output.as_ref().map(|path| save(app, path, &written, args.force)).transpose()?;
    match (app.output.form(), &saved) {
        (OutputFormat::Json, _) => app.output.json(&report(&imports, &written, saved.as_ref()))?,
        (OutputFormat::Text, Some(_)) => {}
        (OutputFormat::Text, None) => print(app, &written)?,
    }
    Ok(CommandExit::Success)
}

/// For programs: where what was found is now, and the text itself where it is in no file. Secrets are in neither.
pub(super) fn report(imports: &[ImportedFile], written: &ImportOutput, saved: Option<&ImportFiles>) -> Value {
    let source = |imported: &ImportedFile| {
        let names: Vec<&str> = imported.names().collect();
        json!({
            "program": imported.client.word(), "file": imported.path, "servers": names, "warnings": imported.warnings(),
        })
    };
    let sources: Vec<Value> = imports.iter().map(source).collect();
    match saved {
        Some(saved) => json!({"file": saved.file, "secretsFile": saved.secrets, "sources": sources}),
        None => json!({"yaml": written.yaml, "sources": sources}),
    }
}

/// The files to read, each with whose it is if that is known.
fn sources(app: &App, args: &ImportArgs) -> Result<Vec<(Option<ClientProgram>, PathBuf)>, CommandFailure> {
    let known = args.client.as_deref().map(client).transpose()?;
    let home = app.context.environment.filled("HOME").map(PathBuf::from);
    let found = || ClientProgram::find(&app.context.directory, home.as_deref());
    if args.sources.is_empty() {
        let all: Vec<_> = found().into_iter().map(|(client, path)| (Some(client), path)).collect();
        return if all.is_empty() { Err(nothing()) } else { Ok(all) };
    }
    let mut sources = Vec::new();
    for source in &args.sources {
        match ClientProgram::ALL.into_iter().find(|client| client.word() == source) {
            Some(client) => {
                let files: Vec<_> = found().into_iter().filter(|(owner, _)| *owner == client).collect();
                if files.is_empty() {
                    return Err(CommandFailure::usage(format!("no file of {} was found", client.name()))
                        .with_hint(format!("name it: tsugi import PATH --client {}", client.word())));
                }
                sources.extend(files.into_iter().map(|(client, path)| (Some(client), path)));
            }
            None => sources.push((known, file(app, source)?)),
        }
    }
    Ok(sources)
}

fn client(word: &str) -> Result<ClientProgram, CommandFailure> {
    let words = ClientProgram::ALL.map(ClientProgram::word);
    ClientProgram::ALL.into_iter().find(|client| client.word() == word).ok_or_else(|| {
        CommandFailure::usage(format!("`{word}` is not a program whose files are known"))
            .with_hint(format!("known are {}", words.join(", ")))
    })
}

fn file(app: &App, source: &str) -> Result<PathBuf, CommandFailure> {
    let path = app.context.directory.join(source);
    if path.is_file() {
        return Ok(path);
    }
    let words = ClientProgram::ALL.map(ClientProgram::word);
    let failure = CommandFailure::usage(format!("`{source}` is neither a file nor a program whose files are known"));
    Err(match crate::config::key::nearest(source, words) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None => failure.with_hint(format!("known are {}", words.join(", "))),
    })
}

fn nothing() -> CommandFailure {
    CommandFailure::usage("no file of another program was found here or in the home directory")
        .with_hint("name one: tsugi import PATH")
}

/// Says what was found, and what got lost.
pub(super) fn tell(app: &App, imports: &[ImportedFile]) {
    if app.common.quiet {
        return;
    }
    for imported in imports {
        let (name, path, count) = (imported.client.name(), imported.path.display(), imported.count());
        let servers = if count == 1 { "server" } else { "servers" };
        app.output.message(|paint| paint.faint(format!("{name}: {count} {servers} from {path}")));
        for warning in imported.warnings() {
            app.output.message(|paint| format!("{}: {warning}", paint.warning("warning")));
        }
    }
}

fn print(app: &App, written: &ImportOutput) -> Result<(), CommandFailure> {
    app.output.data(&written.yaml)?;
    if written.secrets.is_some() {
        app.output.message(|paint| {
            format!(
                "{}: secrets are not shown; with -o they are written to {SECRETS_FILE} beside it",
                paint.hint("hint")
            )
        });
    }
    Ok(())
}

/// Writes the configuration, and its secrets beside it.
pub(super) fn save(app: &App, path: &Path, written: &ImportOutput, force: bool) -> Result<ImportFiles, CommandFailure> {
    let path = app.context.directory.join(path);
    let secrets = path.with_file_name(SECRETS_FILE);
    if !force {
        refuse_existing(&path)?;
        written.secrets.iter().try_for_each(|_| refuse_existing(&secrets))?;
    }
    if let Some(content) = &written.secrets {
        save_secrets(&secrets, content).map_err(|error| unwritable(&secrets, &error))?;
        app.output.message(|paint| paint.faint(format!("wrote {} (readable by you alone)", secrets.display())));
    }
    std::fs::write(&path, &written.yaml).map_err(|error| unwritable(&path, &error))?;
    app.output.message(|paint| paint.faint(format!("wrote {}", path.display())));
    Ok(ImportFiles { file: path, secrets: written.secrets.as_ref().map(|_| secrets) })
}

fn refuse_existing(path: &Path) -> Result<(), CommandFailure> {
    match path.exists() {
        true => Err(CommandFailure::usage(format!("`{}` is there already", path.display()))
            .with_hint("write over it with --force")),
        false => Ok(()),
    }
}

/// A new file, so that the mode of an old one does not stay.
fn save_secrets(path: &Path, content: &Secret) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content.expose().as_bytes())
}

fn unwritable(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::usage(format!("`{}` cannot be written: {error}", path.display()))
}
