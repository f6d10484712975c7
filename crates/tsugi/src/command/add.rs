//! `tsugi add`: one more server in the configuration, which otherwise stays as it was written.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::app::App;
use crate::atomic_file;
use crate::config::document::{ConfigDocument, DocumentFormat};
use crate::config::edit::{self, NewServer};
use crate::config::known_remote::KnownSignIn;
use crate::config::layer::{self, ConfigOrigin, ConfigSelection};
use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::config::{file, parse, resolve, secret};
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::{self, exit::CommandExit};

const EXAMPLES: &str = "\
Comments and the order of the file stay. A running `tsugi serve` takes the change over by itself.
References such as '${HOME}' are written as they are, and replaced when the file is read.

Examples:
  tsugi add files -- npx -y @modelcontextprotocol/server-filesystem .
  tsugi add time -- uvx mcp-server-time
  tsugi add github --url https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'
  tsugi add db --env DATABASE_URL -- npx -y @bytebase/dbhub      takes the variable from the environment";

/// Add a server to the configuration
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// What the server is to be called
    name: String,
    /// The program and its arguments, behind `--`; or else --url
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(app: &App, args: &AddArgs) -> Result<CommandExit, CommandFailure> {
    let server = NewServer { name: name(&args.name)?, fields: fields(app, args)? };
    let path = place(app);
    let text = match path.is_file() {
        true => edit::add(&file::read(&path)?, &server)?,
        false => edit::create(&server),
    };
    warn(app, &path, &text)?;
    atomic_file::replace(&path, text.as_bytes()).map_err(|error| atomic_file::unwritable(&path, &error))?;
    if app.output.form() == OutputFormat::Json {
        app.output.json(&json!({"added": server.name, "file": path}))?;
        return Ok(CommandExit::Success);
    }
    app.output.message(|paint| format!("{} {} to {}", paint.good("added"), server.name, path.display()));
    if let Some(advice) = sign_in_advice(app, &server.name) {
        app.output.message(|paint| format!("{}: {advice}", paint.hint("hint")));
    }
    app.output.message(|paint| {
        paint.faint(format!("`tsugi doctor {0}` tries it, `tsugi tools --server {0}` lists its tools", server.name))
    });
    Ok(CommandExit::Success)
}

/// What a well-known remote server needs before it can be used; nothing where a key was given.
fn sign_in_advice(app: &App, name: &str) -> Option<String> {
    let url = app.common.url.as_deref().filter(|_| app.common.headers.is_empty())?.parse().ok()?;
    let known = KnownSignIn::of(&url)?;
    Some(format!("{}: {}", known.sentence(), known.advice(name)))
}

/// The file that holds, or the one that would be found here.
pub(super) fn place(app: &App) -> PathBuf {
    let wish = ConfigSelection { config: app.common.config.clone(), ..ConfigSelection::default() };
    match layer::choose(&wish, &app.context) {
        ConfigOrigin::Named(path) | ConfigOrigin::WorkingDirectory(path) | ConfigOrigin::User(path) => path,
        ConfigOrigin::AdHoc | ConfigOrigin::Variable | ConfigOrigin::Nothing => {
            app.context.directory.join(file::NAMES[0])
        }
    }
}

fn name(text: &str) -> Result<String, CommandFailure> {
    parse::name(text).map_err(|expected| {
        let failure = CommandFailure::usage(format!("`{text}` cannot be a server's name: expected {}", expected.what));
        expected.hint.into_iter().fold(failure, CommandFailure::with_hint)
    })
}

fn fields(app: &App, args: &AddArgs) -> Result<Map<String, Value>, CommandFailure> {
    let common = &app.common;
    let mut fields = Map::new();
    match (args.words.split_first(), &common.url) {
        (Some((program, rest)), None) => {
            fields.insert("command".into(), json!(program));
            if !rest.is_empty() {
                fields.insert("args".into(), json!(rest));
            }
        }
        (None, Some(url)) => _ = fields.insert("url".into(), json!(url)),
        _ => {
            let hint = "tsugi add NAME -- PROGRAM ARGUMENTS…, or tsugi add NAME --url ADDRESS";
            return Err(CommandFailure::usage("a server is either a program or an address").with_hint(hint));
        }
    }
    let pairs = |words: &[String], split: fn(&str) -> (String, String)| -> Map<String, Value> {
        words.iter().map(|word| split(word)).map(|(name, value)| (name, json!(value))).collect()
    };
    for (key, map) in [("env", pairs(&common.env, variable)), ("headers", pairs(&common.headers, header))] {
        if !map.is_empty() {
            fields.insert(key.into(), Value::Object(map));
        }
    }
    Ok(fields)
}

/// `NAME=VALUE`; a name alone refers to the variable of that name.
fn variable(word: &str) -> (String, String) {
    match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (word.to_owned(), format!("${{{word}}}")),
    }
}

fn header(word: &str) -> (String, String) {
    let (name, value) = word.split_once(':').unwrap_or((word, ""));
    (name.trim().to_owned(), value.trim().to_owned())
}

/// Says what would keep the file from being used, and secrets that now stand in it. A variable may be set later; for
/// anything else the file is not written, since no other command could use it.
fn warn(app: &App, path: &std::path::Path, text: &str) -> Result<(), CommandFailure> {
    let document = ConfigDocument::parse(path, text.to_owned(), DocumentFormat::of(path)).map_err(ConfigProblems);
    if let Err(problems) = document.and_then(|document| resolve::resolve(&document, &app.context.environment)) {
        if !problems.0.iter().all(ConfigProblem::is_unset_variable) {
            return Err(problems.into());
        }
        app.output.message(|paint| report::warnings(&problems.0, paint));
    }
    let is_secret = |(name, value): (String, String)| {
        let has_reference = value.split_once("${").is_some_and(|(_, rest)| rest.contains('}'));
        (secret::is_secret_name(&name) || secret::is_secret_value(&value)) && !has_reference && !value.is_empty()
    };
    let env = app.common.env.iter().map(|word| variable(word));
    if env.chain(app.common.headers.iter().map(|word| header(word))).any(is_secret) {
        let problem = ConfigProblem::new("a secret now stands in the configuration in plain text");
        let problem = problem.with_hint("write ${NAME} instead, and set NAME in the environment or in an envFile");
        app.output.message(|paint| report::warnings(&[problem], paint));
    }
    Ok(())
}
