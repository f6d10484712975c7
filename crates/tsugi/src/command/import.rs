//! `tsugi import`: the servers of other programs, as one configuration of ours.

pub(super) mod env_file;
mod git_ignore;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::adapter::write::{ExistingServers, ImportOutput, SECRETS_FILE, write};
use crate::config::adapter::{self, ClientProgram, ImportContext, ImportedFile};
use crate::config::file as config_file;
use crate::config::key::schema;
use crate::config::problem::ConfigProblem;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;
use crate::{atomic_file, backup};
use env_file::EnvFile;
use git_ignore::IgnoreOutcome;

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

/// The files that were written.
pub(super) struct ImportFiles {
    pub(super) file: PathBuf,
    pub(super) secrets: Option<PathBuf>,
}

pub(crate) fn run(app: &App, args: &ImportArgs) -> Result<CommandExit, CommandFailure> {
    let context = context(app);
    let mut imports = Vec::new();
    for (client, path) in sources(app, args)? {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ConfigProblem::new(format!("`{}` cannot be read: {error}", path.display())))?;
        imports.extend(adapter::import(&path, text, client, &context)?);
    }
    let output = write(&imports);
    report_imports(app, &imports);
    let saved = args.output.as_ref().map(|path| write_file(app, path, &output, args.force)).transpose()?;
    match (app.output.form(), &saved) {
        (OutputFormat::Json, _) => app.output.json(&report(&imports, &output, saved.as_ref()))?,
        // `save` has reported the files already.
        (OutputFormat::Text, Some(_)) => {}
        (OutputFormat::Text, None) => print(app, &output)?,
    }
    Ok(CommandExit::Success)
}

/// Where files are imported from.
pub(super) fn context(app: &App) -> ImportContext {
    let home = app.context.environment.filled("HOME").map(PathBuf::from);
    ImportContext { home, directory: Some(app.context.directory.clone()) }
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
    // A closure, because files that are named one by one need no search.
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
            // `--client` is for paths alone. A program's own files are never in doubt.
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
pub(super) fn report_imports(app: &App, imports: &[ImportedFile]) {
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

fn print(app: &App, output: &ImportOutput) -> Result<(), CommandFailure> {
    app.output.data(&output.yaml)?;
    // Stdout may be a pipe or a recorded terminal, so secrets never go there.
    if !output.secrets.is_empty() {
        app.output.message(|paint| {
            format!(
                "{}: secrets are not shown; with -o they are written to {SECRETS_FILE} beside it",
                paint.hint("hint")
            )
        });
    }
    Ok(())
}

/// Writes the configuration to a file that is not there, or that may be replaced.
fn write_file(app: &App, path: &Path, output: &ImportOutput, force: bool) -> Result<ImportFiles, CommandFailure> {
    let path = app.context.directory.join(path);
    let secrets = EnvFile::beside(&path)?;
    if !force {
        refuse_existing(&path)?;
        // The secrets file is in the way only if there is something to put into it.
        output.secrets.iter().take(1).try_for_each(|_| refuse_existing(secrets.path()))?;
    } else if let Ok(document) = config_file::read(&path) {
        // A file that cannot be parsed has no servers to compare, and is kept as a `.bak` anyway.
        let count = ExistingServers::of(&document, Default::default()).count();
        refuse_smaller(&path, count, output.servers.len())?;
    }
    save(app, &path, &output.yaml, output, &secrets)
}

/// Writes a configuration, and adds its secrets to its environment file. A file that is replaced is kept as a `.bak`.
pub(super) fn save(
    app: &App,
    path: &Path,
    text: &str,
    output: &ImportOutput,
    env_file: &EnvFile,
) -> Result<ImportFiles, CommandFailure> {
    let unwritable = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| atomic_file::unwritable(&path, &error)
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(unwritable(directory))?;
    }
    // The secrets first: a configuration whose environment file is missing cannot be read.
    let secrets = env_file.path();
    if let Some(content) = env_file.with(&output.secrets)? {
        env_file.write(&content)?;
        app.output.message(|paint| paint.faint(format!("wrote {} (readable by you alone)", secrets.display())));
        report_ignored(app, secrets);
    }
    if let Ok(old) = std::fs::read(path) {
        let copy = backup::beside(path);
        atomic_file::replace(&copy, &old).map_err(unwritable(&copy))?;
        app.output.message(|paint| paint.faint(format!("kept the old file as {}", copy.display())));
    }
    atomic_file::replace(path, text.as_bytes()).map_err(unwritable(path))?;
    app.output.message(|paint| paint.faint(format!("wrote {}", path.display())));
    Ok(ImportFiles { file: path.to_owned(), secrets: (!output.secrets.is_empty()).then(|| secrets.to_owned()) })
}

/// The text of a new configuration, with the comment that lets editors complete and check it.
pub(super) fn with_schema(yaml: &str) -> String {
    format!("{}{yaml}", schema::COMMENT)
}

/// Writes the schema beside a configuration. A file is used because it works offline and in every clone.
pub(super) fn save_schema(app: &App, config: &Path) -> Result<(), CommandFailure> {
    let path = config.with_file_name(schema::FILE);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| atomic_file::unwritable(directory, &error))?;
    }
    atomic_file::replace(&path, schema::text().as_bytes()).map_err(|error| atomic_file::unwritable(&path, &error))?;
    app.output.message(|paint| paint.faint(format!("wrote {} for editors", path.display())));
    Ok(())
}

/// Keeps the secrets out of a repository, and says so.
fn report_ignored(app: &App, secrets: &Path) {
    // The path may lead through a link or `..`, and git looks at the file itself.
    let secrets = std::fs::canonicalize(secrets).unwrap_or_else(|_| secrets.to_owned());
    let name = secrets.file_name().unwrap_or_default().to_string_lossy();
    match git_ignore::ignore(&secrets) {
        IgnoreOutcome::Unneeded => {}
        IgnoreOutcome::Added(path) => {
            app.output.message(|paint| paint.faint(format!("added {name} to {}", path.display())));
        }
        IgnoreOutcome::Failed(path, error) => app.output.message(|paint| {
            let label = paint.warning("warning");
            format!("{label}: {} cannot be written: {error}; do not commit {name}", path.display())
        }),
    }
}

fn refuse_existing(path: &Path) -> Result<(), CommandFailure> {
    match path.exists() {
        true => Err(CommandFailure::usage(format!("`{}` is there already", path.display()))
            .with_hint("replace it with --force; the old one is kept as a .bak")),
        false => Ok(()),
    }
}

/// Refuses to replace a file that has more servers than were found, since they would be lost.
pub(super) fn refuse_smaller(path: &Path, old: usize, new: usize) -> Result<(), CommandFailure> {
    if old <= new {
        return Ok(());
    }
    let message = format!("`{}` has {old} servers, and only {new} were found; it was not replaced", path.display());
    Err(CommandFailure::usage(message).with_hint("`tsugi init --merge` adds what is missing; or move the file away"))
}
