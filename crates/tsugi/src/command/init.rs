//! `tsugi init`: turns the files of installed programs into configurations, and on request points the programs at tsugi.
//!
//! Project files and user files are kept apart: servers of a project go into the project's configuration, servers of the
//! user into the user's own. A program loses a server only if tsugi serves it from now on.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::import::env_file::EnvFile;
use super::import::{self, report_imports, save};
use super::undo_init::backups;
use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::adapter::tsugi_entry::{PointedFile, TsugiEntry, entry_json, point};
use crate::config::adapter::write::{DraftVerdict, ExistingServers, ImportOutput, TakeOver, write_judged};
use crate::config::adapter::{self, ClientProgram, ClientScope, ImportedFile};
use crate::config::document::{ConfigDocument, DocumentFormat};
use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::config::{file, layer, resolve};
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::{self, exit::CommandExit};
use crate::terminal::{self, UserReaction};

const EXAMPLES: &str = "\
Looks for the files of Claude Desktop, Claude Code, Cursor, VS Code, Gemini CLI, Codex, Windsurf and
Zed. Servers of files in this directory go into ./tsugi.yaml, servers of files in the home directory
into ~/.config/tsugi/tsugi.yaml. What has no equivalent is reported and stands as a comment in the
file. Servers whose variables are not set, or that may need a sign-in, are switched off.

With --write-clients each program gets an entry for tsugi in place of the servers that tsugi took
over. All other servers stay where they are. `tsugi undo-init` puts the servers back.

Examples:
  tsugi init --dry-run           show what would be written
  tsugi init
  tsugi init --write-clients     and have the programs use tsugi
  tsugi init --merge             add what is missing to files that exist";

/// A new configuration where nothing was found.
const STARTER: &str = "\
# The servers of tsugi. `tsugi add NAME -- PROGRAM ARGUMENTS…` adds one, `tsugi doctor` tries them all.
servers:

  # A few tools to try things with.
  - name: demo
    builtin: demo
";

/// The end of every new configuration.
const ENDING: &str = "
# More to switch on:
#  - name: pm            # tasks, context and handoffs, shared by all agents
#    builtin: pm
# gateway:
#   listen: 127.0.0.1:7600
";

/// Find the servers of other programs and write them as tsugi.yaml
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The project's file; servers of the user go into ~/.config/tsugi/tsugi.yaml
    #[arg(short, long, value_name = "FILE", default_value = "tsugi.yaml")]
    output: PathBuf,
    /// Add missing servers to a file that exists, and leave the rest of it alone
    #[arg(long, conflicts_with = "force")]
    merge: bool,
    /// Replace a file that exists, unless it has more servers; the old one is kept as FILE.bak
    #[arg(long)]
    force: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Point the programs that were found at tsugi; `tsugi undo-init` undoes it
    #[arg(long)]
    write_clients: bool,
    /// With --write-clients: do not ask about each program
    #[arg(short, long, requires = "write_clients")]
    yes: bool,
    /// With --write-clients: point them at a running gateway (`tsugi serve`) instead of having each start tsugi
    #[arg(long, requires = "write_clients")]
    http: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

/// The configuration of one scope: where it goes, what goes into it, and how.
struct ScopePlan {
    path: PathBuf,
    files: Vec<ImportedFile>,
    output: ImportOutput,
    env_file: EnvFile,
    write: ConfigWrite,
}

/// How a configuration file comes about.
enum ConfigWrite {
    /// There is none yet, or it is replaced.
    Whole,
    /// The missing servers are added to this one.
    Merge(Box<ConfigDocument>),
    /// It has everything already.
    Keep,
}

pub(crate) async fn run(app: &App, args: &InitArgs) -> Result<CommandExit, CommandFailure> {
    let found = find(app);
    report_imports(app, &found);
    if found.is_empty() {
        app.output
            .message(|paint| paint.faint("no file of another program was found; starting with the built-in server"));
    }
    // Every plan is made before anything is written, so that a problem with one leaves all files alone.
    let plans = plans(app, args, found)?;
    plans.iter().for_each(|plan| report_outcomes(app, plan));
    let is_json = app.output.form() == OutputFormat::Json;
    let mut reports = Vec::new();
    for plan in &plans {
        let saved = match (args.dry_run, is_json) {
            (true, false) => {
                app.output.message(|paint| paint.faint(format!("would write {}", plan.path.display())));
                app.output.data(&plan.output.yaml)?;
                None
            }
            // The text is part of the JSON report.
            (true, true) => None,
            (false, _) => Some(plan.save(app)?),
        };
        reports.push(import::report(&plan.files, &plan.output, saved.as_ref()));
    }
    let clients = if args.write_clients { write_clients(app, args, &plans).await? } else { Vec::new() };
    if !args.dry_run {
        advise(app, &plans);
    }
    if is_json {
        app.output.json(&json!({"configurations": reports, "clients": clients}))?;
    }
    Ok(CommandExit::Success)
}

/// Every file that is found and can be read.
fn find(app: &App) -> Vec<ImportedFile> {
    let context = import::context(app);
    let mut imports = Vec::new();
    for (client, path) in ClientProgram::find(&app.context.directory, context.home.as_deref()) {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ConfigProblem::new(format!("`{}` cannot be read: {error}", path.display())).into());
        // A program that was installed and never set up leaves an empty file.
        if text.as_ref().is_ok_and(|text: &String| text.trim().is_empty()) {
            continue;
        }
        match text.and_then(|text| adapter::import(&path, text, Some(client), &context)) {
            Ok(imported) => imports.extend(imported),
            Err(problems) => app.output.message(|paint| report::warnings(&problems.0, paint)),
        }
    }
    imports
}

/// One plan for each scope that has files; a starter where there is none at all.
fn plans(app: &App, args: &InitArgs, found: Vec<ImportedFile>) -> Result<Vec<ScopePlan>, CommandFailure> {
    let project = app.context.directory.join(&args.output);
    if found.is_empty() {
        return Ok(vec![plan(app, args, project, found)?]);
    }
    let (of_user, of_project): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|imported| imported.scope == ClientScope::User);
    let mut plans = Vec::new();
    if !of_project.is_empty() {
        plans.push(plan(app, args, project, of_project)?);
    }
    if !of_user.is_empty() {
        let directory = app.context.user_directory().ok_or_else(|| {
            CommandFailure::usage("there is no directory for the user's configuration")
                .with_hint("set HOME or XDG_CONFIG_HOME")
        })?;
        // The user's file may have another of the names that are looked for.
        let path = file::find_in(&directory).unwrap_or_else(|| directory.join(file::NAMES[0]));
        plans.push(plan(app, args, path, of_user)?);
    }
    Ok(plans)
}

fn plan(app: &App, args: &InitArgs, path: PathBuf, files: Vec<ImportedFile>) -> Result<ScopePlan, CommandFailure> {
    let document = if path.exists() { Some(file::read(&path)?) } else { None };
    let env_file = document.as_ref().map_or_else(|| EnvFile::beside(&path), |document| EnvFile::of(app, document))?;
    let existing = document.as_ref().map(|document| ExistingServers::of(document, env_file.variables()));
    let existing = existing.unwrap_or_default();
    let count = existing.count();
    // A file that is replaced counts for nothing, except that the variables in its environment file are not lost.
    let (existing, env_file) = match args.force {
        true => (existing.without_servers(), EnvFile::beside(&path)?),
        false => (existing, env_file),
    };
    let mut output = write_judged(&files, &existing, &|server, secrets| judge(app, &path, server, secrets));
    if files.iter().all(|imported| imported.count() == 0) {
        output.yaml = STARTER.to_owned();
    }
    // `tsugi import` uses the same writer, whose first line names that command.
    output.yaml = output.yaml.replacen("`tsugi import`", "`tsugi init`", 1) + ENDING;
    let missing = output.missing();
    let write = match document {
        None => ConfigWrite::Whole,
        Some(_) if args.force => {
            import::refuse_smaller(&path, count, output.servers.len())?;
            ConfigWrite::Whole
        }
        // Nothing to add is not an error here, because the programs can still be pointed at the file.
        Some(_) if missing.is_empty() && (args.write_clients || args.merge) => ConfigWrite::Keep,
        Some(document) if args.merge => ConfigWrite::Merge(Box::new(document)),
        Some(_) => return Err(is_there(&path, &missing)),
    };
    if !matches!(write, ConfigWrite::Keep) {
        // Only to learn whether it can be done, before anything is written.
        env_file.with(&output.secrets)?;
    }
    Ok(ScopePlan { path, files, output, env_file, write })
}

fn is_there(path: &Path, missing: &[&str]) -> CommandFailure {
    let without = if missing.is_empty() { String::new() } else { format!(", without {}", missing.join(", ")) };
    CommandFailure::usage(format!("`{}` is there already{without}", path.display()))
        .with_hint("--merge adds what is missing; --force replaces the file and keeps the old one as a .bak")
}

/// Whether a server can be used as it is written, with the variables that are set now.
fn judge(app: &App, path: &Path, server: &str, secrets: &str) -> DraftVerdict {
    let mut environment = app.context.environment.clone();
    let problems = match environment.add_file(secrets) {
        // The entry is resolved alone, so that a problem of another server does not count against it.
        Ok(()) => ConfigDocument::parse(path, format!("servers:\n{server}"), DocumentFormat::Yaml)
            .map_err(ConfigProblems)
            .and_then(|document| resolve::resolve(&document, &environment))
            .err(),
        Err(problem) => Some(problem.into()),
    };
    match problems {
        None => DraftVerdict::Usable,
        Some(problems) => {
            let why: Vec<&str> = problems.0.iter().map(|problem| problem.message.as_str()).collect();
            DraftVerdict::Unusable(why.join("; "))
        }
    }
}

/// Reports the servers that tsugi will not serve.
fn report_outcomes(app: &App, plan: &ScopePlan) {
    for server in &plan.output.servers {
        let name = &server.name;
        let line = match &server.outcome {
            TakeOver::Taken => continue,
            TakeOver::SwitchedOff(why) => {
                format!("{name} is switched off: {why}; once that is solved, take out `disabled: true`")
            }
            TakeOver::LeftOut(why) => format!("{name} was left out: {why}"),
        };
        app.output.message(|paint| format!("{} {line}", paint.warning("warning:")));
    }
}

impl ScopePlan {
    fn save(&self, app: &App) -> Result<import::ImportFiles, CommandFailure> {
        match &self.write {
            ConfigWrite::Whole => {
                import::save_schema(app, &self.path)?;
                save(app, &self.path, &import::with_schema(&self.output.yaml), &self.output, &self.env_file)
            }
            ConfigWrite::Merge(document) => {
                save(app, &self.path, &self.output.merged_into(document)?, &self.output, &self.env_file)
            }
            ConfigWrite::Keep => Ok(import::ImportFiles { file: self.path.clone(), secrets: None }),
        }
    }
}

/// Puts tsugi into each program's file and reports the result of each. A file that cannot be changed is left alone.
async fn write_clients(app: &App, args: &InitArgs, plans: &[ScopePlan]) -> Result<Vec<Value>, CommandFailure> {
    let backups = backups(app)?;
    let mut clients = Vec::new();
    for plan in plans {
        for (index, imported) in plan.files.iter().enumerate() {
            let entry = entry(app, args, plan, imported);
            let taken = plan.output.taken(index);
            let program = imported.client.name();
            let is_wanted = args.dry_run || args.yes || is_wanted(app, imported, &taken).await?;
            let changed = match is_wanted {
                true => pointed(imported, &taken, &entry).and_then(|(old, new)| {
                    // An unchanged file needs no backup, since there is nothing to undo.
                    if args.dry_run || old == new.text {
                        return Ok(());
                    }
                    let path = &imported.path;
                    backups
                        .change(path, imported.client, old.as_bytes(), &imported.section, new)
                        .map_err(|error| ConfigProblem::new(format!("`{}` cannot be changed: {error}", path.display())))
                }),
                false => {
                    clients.push(client_report(imported, plan, index, false));
                    continue;
                }
            };
            clients.push(client_report(imported, plan, index, changed.is_ok() && !args.dry_run));
            match changed {
                Ok(()) => app.output.message(|paint| {
                    let verb = if args.dry_run { "would point" } else { "pointed" };
                    let path = imported.path.display();
                    format!(
                        "{} {program} at tsugi in {path}: {}",
                        paint.good(verb),
                        entry_json(imported.client, &entry)
                    )
                }),
                Err(problem) => app.output.message(|paint| report::warnings(&[problem], paint)),
            }
            report_staying(app, plan, index);
        }
    }
    if !clients.is_empty() && !args.dry_run {
        app.output.message(|paint| {
            paint.faint("`tsugi undo-init` puts their servers back; restart the programs to have them read the change")
        });
    }
    Ok(clients)
}

fn client_report(imported: &ImportedFile, plan: &ScopePlan, index: usize, is_pointed: bool) -> Value {
    let staying = plan.output.staying(index);
    let staying: Vec<Value> = staying.iter().map(|(key, why)| json!({"server": key, "reason": why})).collect();
    json!({
        "program": imported.client.word(), "file": imported.path, "pointed": is_pointed,
        "moved": if is_pointed { plan.output.taken(index) } else { Vec::new() }, "stays": staying,
    })
}

/// Reports the servers that the program keeps, since it alone can use them.
fn report_staying(app: &App, plan: &ScopePlan, index: usize) {
    let program = plan.files[index].client.name();
    let keys: Vec<&str> = plan.output.staying(index).into_iter().map(|(key, _)| key).collect();
    if !keys.is_empty() {
        app.output.message(|paint| paint.faint(format!("  stays in {program}: {}", keys.join(", "))));
    }
}

/// Asks the person at the terminal about one program. Without a terminal the flag is the answer.
async fn is_wanted(app: &App, imported: &ImportedFile, taken: &[&str]) -> Result<bool, CommandFailure> {
    if !app.is_interactive() {
        return Ok(true);
    }
    let moves = if taken.is_empty() { "no server moves".to_owned() } else { format!("moves {}", taken.join(", ")) };
    let question = format!("Point {} at tsugi in {}? ({moves})", imported.client.name(), imported.path.display());
    let reaction = terminal::blocking(move || terminal::confirm(&question, "yes")).await?;
    match reaction {
        UserReaction::Accept(_) => Ok(true),
        UserReaction::Decline => Ok(false),
        UserReaction::Cancel => Err(CommandFailure::Interrupted),
    }
}

/// A program's file before and after.
fn pointed(
    imported: &ImportedFile,
    taken: &[&str],
    entry: &TsugiEntry,
) -> Result<(String, PointedFile), ConfigProblem> {
    let path = &imported.path;
    let unreadable = |why: String| ConfigProblem::new(format!("`{}` cannot be read: {why}", path.display()));
    // Read again: the program may have changed the file while the question was on the screen.
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let document = ConfigDocument::parse_foreign(path, text.clone(), imported.client.format());
    let (document, _) = document.map_err(|problems| unreadable(ConfigProblems(problems).to_string()))?;
    let pointed = point(&document, imported, taken, entry)?;
    Ok((text, pointed))
}

/// How a program is to reach us. Claude Desktop can only start programs.
fn entry(app: &App, args: &InitArgs, plan: &ScopePlan, imported: &ImportedFile) -> TsugiEntry {
    let config = &plan.path;
    if args.http && imported.client != ClientProgram::ClaudeDesktop {
        let settings = layer::read(config, &app.context.environment).map(|resolved| resolved.settings);
        let listen =
            settings.map_or_else(|_| "127.0.0.1:7600".to_owned(), |settings| settings.gateway.listen.to_string());
        return TsugiEntry::Http(format!("http://{listen}/mcp"));
    }
    let stdio = |program: String, config: &Path| {
        TsugiEntry::Stdio(program, vec!["stdio".to_owned(), "--config".to_owned(), config.display().to_string()])
    };
    // A file inside the project is shared with people whose tsugi and whose clone lie elsewhere.
    if imported.path.starts_with(&app.context.directory)
        && imported.scope == ClientScope::Project
        && let Ok(relative) = config.strip_prefix(&app.context.directory)
    {
        return stdio("tsugi".to_owned(), relative);
    }
    // Programs with windows do not know the search path of a shell.
    let program = std::env::current_exe().map_or_else(|_| "tsugi".to_owned(), |path| path.display().to_string());
    stdio(program, config)
}

fn advise(app: &App, plans: &[ScopePlan]) {
    for plan in plans {
        if let Err(problems) = layer::read(&plan.path, &app.context.environment) {
            app.output.message(|paint| report::warnings(&problems.0, paint));
        }
    }
    app.output.message(|paint| {
        paint.faint("next: `tsugi doctor` tries every server, `tsugi serve` offers them all at one address")
    });
}
