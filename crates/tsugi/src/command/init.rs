//! `tsugi init`: from the files of the programs that are there to one configuration, and on request back into them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::import::{self, Saved, save, tell};
use super::restore::backups;
use crate::app::App;
use crate::config::adapter::point::{Way, entry, point};
use crate::config::adapter::write::{Verdict, Written, write_judged};
use crate::config::adapter::{self, Client, Imported};
use crate::config::document::{Document, Format};
use crate::config::problem::{Problem, Problems};
use crate::config::{layer, resolve};
use crate::failure::Failure;
use crate::output::Form;
use crate::report::{self, exit::Exit};

const EXAMPLES: &str = "\
Looks for the files of Claude Desktop, Claude Code, Cursor, VS Code, Gemini CLI, Codex, Windsurf and
Zed here and in the home directory, and writes their servers as one tsugi.yaml. What has no equivalent
is said and stands as a comment in the file; servers whose variables are not set are switched off.
With --write-clients those programs get tsugi in place of their servers. What they had is kept, and
`tsugi restore` brings it back byte for byte.

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
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "tsugi.yaml")]
    output: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Point the programs that were found at tsugi; `tsugi restore` undoes it
    #[arg(long)]
    write_clients: bool,
    /// With --write-clients: at a gateway that runs (`tsugi serve`), instead of having each program start tsugi
    #[arg(long, requires = "write_clients")]
    http: bool,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &Args) -> Result<Exit, Failure> {
    let path = app.surroundings.directory.join(&args.output);
    let imports = find(app);
    tell(app, &imports);
    if imports.is_empty() {
        app.output.say(|paint| paint.faint("no file of another program was found; beginning with the built-in server"));
    }
    let written = compose(app, &path, &imports);
    for (name, why) in &written.switched_off {
        app.output.say(|paint| {
            format!("{} {name} is switched off: {why}; set it and take out `disabled: true`", paint.warning("warning:"))
        });
    }
    let is_json = app.output.form() == Form::Json;
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
        let stays = || Saved { file: path.clone(), secrets: None };
        let saved = if args.dry_run { None } else { Some(saved.unwrap_or_else(stays)) };
        let mut report = import::report(&imports, &written, saved.as_ref());
        report["clients"] = clients.into();
        app.output.json(&report)?;
    }
    Ok(Exit::Success)
}

/// Every file that is found and can be read.
fn find(app: &App) -> Vec<Imported> {
    let home = app.surroundings.environment.filled("HOME").map(PathBuf::from);
    let files = Client::find(&app.surroundings.directory, home.as_deref());
    let mut imports = Vec::new();
    for (client, path) in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Problem::new(format!("`{}` cannot be read: {error}", path.display())).into());
        match text.and_then(|text| adapter::import(&path, text, Some(client), Some(&app.surroundings.directory))) {
            Ok(imported) => imports.push(imported),
            Err(problems) => app.output.say(|paint| report::warnings(&problems.0, paint)),
        }
    }
    imports
}

/// The new configuration, in which every server that is switched on can be used.
fn compose(app: &App, path: &Path, imports: &[Imported]) -> Written {
    let judge = |server: &str, secrets: &str| judge(app, path, server, secrets);
    let mut written = write_judged(imports, &judge);
    if imports.iter().all(|imported| imported.count() == 0) {
        written.yaml = STARTER.to_owned();
    }
    written.yaml = written.yaml.replacen("`tsugi import`", "`tsugi init`", 1) + ENDING;
    written
}

/// Whether a server can be used as it is written, with the variables that are set now.
fn judge(app: &App, path: &Path, server: &str, secrets: &str) -> Verdict {
    let mut environment = app.surroundings.environment.clone();
    let problems = match environment.add_file(secrets) {
        Ok(()) => Document::parse(path, format!("servers:\n{server}"), Format::Yaml)
            .map_err(Problems)
            .and_then(|document| resolve::resolve(&document, &environment))
            .err(),
        Err(fault) => Some(Problem::new(fault.to_string()).into()),
    };
    match problems {
        None => Verdict::Usable,
        Some(problems) => {
            let why: Vec<&str> = problems.0.iter().map(|problem| problem.message.as_str()).collect();
            Verdict::Unusable(why.join("; "))
        }
    }
}

/// Whether the file is there and has all that was found: then it stays, and only programs are pointed at it.
fn is_there_already(app: &App, args: &Args, path: &Path, imports: &[Imported]) -> Result<bool, Failure> {
    if !args.write_clients || args.force || !path.exists() {
        return Ok(false);
    }
    let known = layer::read(path, &app.surroundings.environment)?.settings.servers;
    let is_known =
        |name: &&str| known.iter().any(|server| server.name == **name || server.name.starts_with(&format!("{name}-")));
    let missing: Vec<&str> = imports.iter().flat_map(Imported::names).filter(|name| !is_known(name)).collect();
    match missing.is_empty() {
        true => Ok(true),
        false => Err(Failure::usage(format!("`{}` is there already, without {}", path.display(), missing.join(", ")))
            .with_hint("add them with `tsugi add`, or write the file anew with --force")),
    }
}

/// Puts tsugi into each program's file, and gives what came of each. One that cannot be changed is said and left alone.
fn write_clients(app: &App, args: &Args, config: &Path, imports: &[Imported]) -> Result<Vec<Value>, Failure> {
    let backups = backups(app)?;
    let mut clients = Vec::new();
    for imported in imports {
        let way = way(app, args, config, imported.client);
        let (program, path) = (imported.client.name(), &imported.path);
        let changed = pointed(imported, &way).and_then(|(old, new)| match args.dry_run || old == new {
            true => Ok(()),
            false => backups
                .change(path, program, &old, &new)
                .map_err(|error| Problem::new(format!("`{}` cannot be changed: {error}", path.display()))),
        });
        let is_pointed = changed.is_ok() && !args.dry_run;
        clients.push(json!({"program": imported.client.word(), "file": path, "pointed": is_pointed}));
        match changed {
            Ok(()) => app.output.say(|paint| {
                let verb = if args.dry_run { "would point" } else { "pointed" };
                format!(
                    "{} {program} at tsugi in {}: {}",
                    paint.good(verb),
                    path.display(),
                    entry(imported.client, &way)
                )
            }),
            Err(problem) => app.output.say(|paint| report::warnings(&[problem], paint)),
        }
    }
    if !imports.is_empty() && !args.dry_run {
        app.output.say(|paint| {
            paint.faint("`tsugi restore` brings back what they had; restart the programs to have them read it")
        });
    }
    Ok(clients)
}

/// A program's file before and after.
fn pointed(imported: &Imported, way: &Way) -> Result<(Vec<u8>, Vec<u8>), Problem> {
    let path = &imported.path;
    let unreadable = |why: String| Problem::new(format!("`{}` cannot be read: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let document = Document::parse(path, text.clone(), imported.client.format());
    let document = document.map_err(|problems| unreadable(Problems(problems).to_string()))?;
    Ok((text.into_bytes(), point(&document, imported, way)?.into_bytes()))
}

/// How a program is to reach us. One of them can only start programs.
fn way(app: &App, args: &Args, config: &Path, client: Client) -> Way {
    if args.http && client != Client::ClaudeDesktop {
        let settings = layer::read(config, &app.surroundings.environment).map(|resolved| resolved.settings);
        let listen =
            settings.map_or_else(|_| "127.0.0.1:7600".to_owned(), |settings| settings.gateway.listen.to_string());
        return Way::Http(format!("http://{listen}/mcp"));
    }
    // Programs with windows do not know the search path of a shell.
    let program = std::env::current_exe().map_or_else(|_| "tsugi".to_owned(), |path| path.display().to_string());
    Way::Stdio(program, vec!["stdio".to_owned(), "--config".to_owned(), config.display().to_string()])
}

fn advise(app: &App, path: &Path) {
    if let Err(problems) = layer::read(path, &app.surroundings.environment) {
        app.output.say(|paint| report::warnings(&problems.0, paint));
    }
    app.output.say(|paint| {
        paint.faint("next: `tsugi doctor` tries every server, `tsugi serve` offers them all at one address")
    });
}
