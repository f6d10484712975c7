//! `tsugi init`: from the files of the programs that are there to one configuration, and on request back into them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::import::{self, ImportFiles, save, tell};
use super::undo_init::backups;
use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::adapter::tsugi_entry::{TsugiEntry, entry, point};
use crate::config::adapter::write::{DraftVerdict, ImportOutput, write_judged};
use crate::config::adapter::{self, ClientProgram, ImportedFile};
use crate::config::document::{ConfigDocument, DocumentFormat};
use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::config::{layer, resolve};
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::{self, exit::CommandExit};

const EXAMPLES: &str = "\
Looks for the files of Claude Desktop, Claude Code, Cursor, VS Code, Gemini CLI, Codex, Windsurf and
Zed here and in the home directory, and writes their servers as one tsugi.yaml. What has no equivalent
is said and stands as a comment in the file; servers whose variables are not set are switched off.
With --write-clients those programs get tsugi in place of their servers. What they had is kept, and
`tsugi undo-init` brings it back byte for byte.

Examples:
  tsugi init --dry-run           look at what there is
  tsugi init
  tsugi init --write-clients     and have every program use tsugi";

/// What a new configuration begins with where nothing was found.
const STARTER: &str = "\
# The servers of tsugi. `tsugi add NAME -- PROGRAM ARGUMENTS…` adds one, `tsugi doctor` tries them all.
servers:

  # A few honest tools to try things with.
  - name: demo
    builtin: demo
";

/// What every new configuration ends with.
const ENDING: &str = "
# More to switch on:
#  - name: pm            # tasks, context and handoffs, shared by all agents
#    builtin: pm
# gateway:
#   listen: 127.0.0.1:7600
";

/// Find the servers of other programs and write one tsugi.yaml
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "tsugi.yaml")]
    output: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Point the programs that were found at tsugi; `tsugi undo-init` undoes it
    #[arg(long)]
    write_clients: bool,
    /// With --write-clients: at a gateway that runs (`tsugi serve`), instead of having each program start tsugi
    #[arg(long, requires = "write_clients")]
    http: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &InitArgs) -> Result<CommandExit, CommandFailure> {
    let path = app.context.directory.join(&args.output);
    let imports = find(app);
    tell(app, &imports);
    if imports.is_empty() {
        app.output
            .message(|paint| paint.faint("no file of another program was found; beginning with the built-in server"));
    }
    let written = compose(app, &path, &imports);
    for (name, why) in &written.switched_off {
        app.output.message(|paint| {
            format!("{} {name} is switched off: {why}; set it and take out `disabled: true`", paint.warning("warning:"))
        });
    }
    let is_json = app.output.form() == OutputFormat::Json;
    let mut saved = None;
    if args.dry_run && !is_json {
        app.output.data(&written.yaml)?;
    } else if !args.dry_run && !is_there_already(app, args, &path, &imports)? {
        saved = Some(save(app, &path, &written, args.force)?);
    }
    let clients = if args.write_clients { write_clients(app, args, &path, &imports)? } else { Vec::new() };
    if !args.dry_run {
        advise(app, &path);
    }
    if is_json {
        // A file that has everything already is where it was.
        let stays = || ImportFiles { file: path.clone(), secrets: None };
        let saved = if args.dry_run { None } else { Some(saved.unwrap_or_else(stays)) };
        let mut report = import::report(&imports, &written, saved.as_ref());
        report["clients"] = clients.into();
        app.output.json(&report)?;
    }
    Ok(CommandExit::Success)
}

/// Every file that is found and can be read.
fn find(app: &App) -> Vec<ImportedFile> {
    let home = app.context.environment.filled("HOME").map(PathBuf::from);
    let files = ClientProgram::find(&app.context.directory, home.as_deref());
    let mut imports = Vec::new();
    for (client, path) in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ConfigProblem::new(format!("`{}` cannot be read: {error}", path.display())).into());
        match text.and_then(|text| adapter::import(&path, text, Some(client), Some(&app.context.directory))) {
            Ok(imported) => imports.push(imported),
            Err(problems) => app.output.message(|paint| report::warnings(&problems.0, paint)),
        }
    }
    imports
}

/// The new configuration, in which every server that is switched on can be used.
fn compose(app: &App, path: &Path, imports: &[ImportedFile]) -> ImportOutput {
    let judge = |server: &str, secrets: &str| judge(app, path, server, secrets);
    let mut written = write_judged(imports, &judge);
    if imports.iter().all(|imported| imported.count() == 0) {
        written.yaml = STARTER.to_owned();
    }
    written.yaml = written.yaml.replacen("`tsugi import`", "`tsugi init`", 1) + ENDING;
    written
}

/// Whether a server can be used as it is written, with the variables that are set now.
fn judge(app: &App, path: &Path, server: &str, secrets: &str) -> DraftVerdict {
    let mut environment = app.context.environment.clone();
    let problems = match environment.add_file(secrets) {
        Ok(()) => ConfigDocument::parse(path, format!("servers:\n{server}"), DocumentFormat::Yaml)
            .map_err(ConfigProblems)
            .and_then(|document| resolve::resolve(&document, &environment))
            .err(),
        Err(fault) => Some(ConfigProblem::new(fault.to_string()).into()),
    };
    match problems {
        None => DraftVerdict::Usable,
        Some(problems) => {
            let why: Vec<&str> = problems.0.iter().map(|problem| problem.message.as_str()).collect();
            DraftVerdict::Unusable(why.join("; "))
        }
    }
}

/// Whether the file is there and has all that was found: then it stays, and only programs are pointed at it.
fn is_there_already(app: &App, args: &InitArgs, path: &Path, imports: &[ImportedFile]) -> Result<bool, CommandFailure> {
    if !args.write_clients || args.force || !path.exists() {
        return Ok(false);
    }
    let known = layer::read(path, &app.context.environment)?.settings.servers;
    let is_known =
        |name: &&str| known.iter().any(|server| server.name == **name || server.name.starts_with(&format!("{name}-")));
    let missing: Vec<&str> = imports.iter().flat_map(ImportedFile::names).filter(|name| !is_known(name)).collect();
    match missing.is_empty() {
        true => Ok(true),
        false => {
            Err(CommandFailure::usage(format!("`{}` is there already, without {}", path.display(), missing.join(", ")))
                .with_hint("add them with `tsugi add`, or write the file anew with --force"))
        }
    }
}

/// Puts tsugi into each program's file, and gives what came of each. One that cannot be changed is said and left alone.
fn write_clients(
    app: &App,
    args: &InitArgs,
    config: &Path,
    imports: &[ImportedFile],
) -> Result<Vec<Value>, CommandFailure> {
    let backups = backups(app)?;
    let mut clients = Vec::new();
    for imported in imports {
        let way = way(app, args, config, imported.client);
        let (program, path) = (imported.client.name(), &imported.path);
        let changed = pointed(imported, &way).and_then(|(old, new)| match args.dry_run || old == new {
            true => Ok(()),
            false => backups
                .change(path, program, &old, &new)
                .map_err(|error| ConfigProblem::new(format!("`{}` cannot be changed: {error}", path.display()))),
        });
        let is_pointed = changed.is_ok() && !args.dry_run;
        clients.push(json!({"program": imported.client.word(), "file": path, "pointed": is_pointed}));
        match changed {
            Ok(()) => app.output.message(|paint| {
                let verb = if args.dry_run { "would point" } else { "pointed" };
                format!(
                    "{} {program} at tsugi in {}: {}",
                    paint.good(verb),
                    path.display(),
                    entry(imported.client, &way)
                )
            }),
            Err(problem) => app.output.message(|paint| report::warnings(&[problem], paint)),
        }
    }
    if !imports.is_empty() && !args.dry_run {
        app.output.message(|paint| {
            paint.faint("`tsugi undo-init` brings back what they had; restart the programs to have them read it")
        });
    }
    Ok(clients)
}

/// A program's file before and after.
fn pointed(imported: &ImportedFile, way: &TsugiEntry) -> Result<(Vec<u8>, Vec<u8>), ConfigProblem> {
    let path = &imported.path;
    let unreadable = |why: String| ConfigProblem::new(format!("`{}` cannot be read: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let document = ConfigDocument::parse(path, text.clone(), imported.client.format());
    let document = document.map_err(|problems| unreadable(ConfigProblems(problems).to_string()))?;
    Ok((text.into_bytes(), point(&document, imported, way)?.into_bytes()))
}

/// How a program is to reach us. One of them can only start programs.
fn way(app: &App, args: &InitArgs, config: &Path, client: ClientProgram) -> TsugiEntry {
    if args.http && client != ClientProgram::ClaudeDesktop {
        let settings = layer::read(config, &app.context.environment).map(|resolved| resolved.settings);
        let listen =
            settings.map_or_else(|_| "127.0.0.1:7600".to_owned(), |settings| settings.gateway.listen.to_string());
        return TsugiEntry::Http(format!("http://{listen}/mcp"));
    }
    // Programs with windows do not know the search path of a shell.
    let program = std::env::current_exe().map_or_else(|_| "tsugi".to_owned(), |path| path.display().to_string());
    TsugiEntry::Stdio(program, vec!["stdio".to_owned(), "--config".to_owned(), config.display().to_string()])
}

fn advise(app: &App, path: &Path) {
    if let Err(problems) = layer::read(path, &app.context.environment) {
        app.output.message(|paint| report::warnings(&problems.0, paint));
    }
    app.output.message(|paint| {
        paint.faint("next: `tsugi doctor` tries every server, `tsugi serve` offers them all at one address")
    });
}
