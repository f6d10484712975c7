//! `tsugi batch`: many calls at once, with results in the order of the calls.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use tsugi_client::{ToolResult, not_found};
use tsugi_protocol::answer::{Call, Fault, FaultCode, Outcome};
use tsugi_protocol::json::RawJson;

use super::input::{duration, read_stdin};
use crate::app::running_gateway::GatewayUse;
use crate::app::{App, StartOptions, is_shown_as, named, offers, own_name, select};
use crate::config::layer::LoadedConfig;
use crate::config::settings::ServerSettings;
use crate::failure::CommandFailure;
use crate::interactive_call::InteractiveCall;
use crate::locate::{ReachedServer, reach, split_server_name};
use crate::report;
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Each call is an object: {\"server\": …, \"tool\": …, \"arguments\": {…}}.
`server` is optional and may be part of the tool's name (server/name).
`toolName` means `tool`; `params` and `input` mean `arguments`.
An array of calls gives an array of results; calls line by line give results line by line.
A call that fails does not stop the others. Servers' questions are declined.

Examples:
  tsugi batch calls.json
  echo '{\"tool\": \"demo/echo\", \"arguments\": {\"message\": \"hi\"}}' | tsugi batch -";

/// Call many tools at once
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BatchArgs {
    /// A file with the calls, as a JSON array or one per line; `-` is stdin
    file: String,
    /// Accepted for consistency: the output is always JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How many calls run at once [default: `options.maxParallel`]
    #[arg(long, value_name = "COUNT")]
    max_parallel: Option<std::num::NonZeroUsize>,
    /// How long a call may be silent, such as 90s, 5m or 500ms
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<std::time::Duration>,
    #[command(flatten)]
    gateway_use: GatewayUse,
}

/// One call, as a user writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a call as an object")]
struct BatchEntry {
    server: Option<String>,
    #[serde(alias = "toolName", alias = "name")]
    tool: String,
    #[serde(default, alias = "params", alias = "input")]
    arguments: Option<RawJson>,
}

/// The calls, and whether they came line by line.
#[derive(Debug)]
struct BatchInput {
    entries: Vec<BatchEntry>,
    are_lines: bool,
}

pub(crate) async fn run(app: &App, args: &BatchArgs) -> Result<CommandExit, CommandFailure> {
    let calls = read(app, &args.file)?;
    let loaded = app.calling_configuration(args.gateway_use).await?;
    let wanted = wanted(app, &loaded, &calls.entries)?;
    let started = app.start(&loaded.settings, &wanted, &StartOptions::default());
    report::warn_all(&app.output, &started.failed);
    let reached = reach(app, started.servers, |_, _| false).await;
    let faults: Vec<Fault> = reached.iter().filter_map(|one| one.catalog.as_ref().err().cloned()).collect();
    report::warn_all(&app.output, &faults);
    let talk = InteractiveCall::non_interactive(app).with_timeout(args.timeout);
    let limit = args.max_parallel.map_or(loaded.settings.options.max_parallel, std::num::NonZeroUsize::get);
    let worker = BatchWorker { loaded: &loaded, reached: &reached, failed: &started.failed, talk: &talk };
    let progress = app.output.progress("calling", Some(calls.entries.len() as u64));
    let numbered = calls.entries.into_iter().enumerate();
    let running = numbered.map(|(number, entry)| worker.call(entry).map(move |done| (number, done)));
    // Unordered, so that a slow call does not keep a free slot from the next one.
    let mut results = futures_util::stream::iter(running).buffer_unordered(limit.max(1));
    let mut exit = CommandExit::Success;
    let mut all = Vec::new();
    // Calls run in parallel; a result waits here until those before it are printed.
    let (mut early, mut next) = (HashMap::new(), 0);
    while let Some((number, done)) = results.next().await {
        progress.step();
        early.insert(number, done);
        while let Some((result, how)) = early.remove(&next) {
            next += 1;
            exit = if exit == CommandExit::Success { how } else { exit };
            match calls.are_lines {
                true => app.output.json(&result)?,
                false => all.push(result),
            }
        }
    }
    if !calls.are_lines {
        app.output.json(&all)?;
    }
    Ok(exit)
}

/// The servers that the calls name, if each call names one; otherwise all.
fn wanted<'a>(
    app: &App,
    loaded: &'a LoadedConfig,
    entries: &[BatchEntry],
) -> Result<Vec<&'a ServerSettings>, CommandFailure> {
    let names: Option<Vec<&str>> = entries.iter().map(|entry| entry.place(loaded).0).collect();
    let Some(mut names) = names else { return select(loaded, app.chosen(loaded)) };
    // A server is started once, however many calls name it.
    names.sort_unstable();
    names.dedup();
    // An unknown name fails only its own call.
    Ok(names.into_iter().filter_map(|name| named(loaded, name).ok()).collect())
}

impl BatchEntry {
    /// The server, where it is named, and the tool.
    fn place<'a>(&'a self, loaded: &LoadedConfig) -> (Option<&'a str>, &'a str) {
        match &self.server {
            Some(server) => (Some(server), &self.tool),
            None => split_server_name(&self.tool, loaded),
        }
    }
}

struct BatchWorker<'a> {
    loaded: &'a LoadedConfig,
    reached: &'a [ReachedServer],
    failed: &'a [Fault],
    talk: &'a InteractiveCall<'a>,
}

impl BatchWorker<'_> {
    /// One call: its result, and the exit code that it alone would have.
    async fn call(&self, entry: BatchEntry) -> (ToolResult, CommandExit) {
        let started = Instant::now();
        let (name, tool) = entry.place(self.loaded);
        let (server, outcome) = match self.find(name, tool) {
            Ok(one) => (Some(one.server.name().to_owned()), self.outcome(one, tool, entry.arguments.as_ref()).await),
            Err(fault) => (name.map(str::to_owned), Outcome::fault(fault)),
        };
        let result = ToolResult::new(tool, server.as_deref(), outcome, started.elapsed());
        let failed = if result.success { CommandExit::Success } else { CommandExit::Failed };
        // Without a fault, a failed tool is a plain failure.
        let exit = result.fault.as_ref().map_or(failed, CommandExit::of_fault);
        (result, exit)
    }

    async fn outcome(&self, one: &ReachedServer, word: &str, arguments: Option<&RawJson>) -> Outcome {
        let server = &one.server;
        let own = match &one.catalog {
            Ok(catalog) => match own_name(self.loaded, server.name(), catalog, word) {
                // A list that could not be fetched says nothing about what is not in it.
                None if catalog.tools.fault.is_none() => {
                    return Outcome::fault(not_found::tool(word).on_server(server.name()));
                }
                own => own,
            },
            Err(_) => None,
        };
        let tool = own.as_deref().unwrap_or(word);
        if let Err(fault) = offers(self.loaded, server.name(), tool) {
            return Outcome::fault(fault);
        }
        let subject = format!("{}/{tool}", server.name());
        match self.talk.run_to_outcome(server, &subject, Call::tool(tool, arguments)).await {
            Ok(outcome) => outcome,
            Err(CommandFailure::Fault(fault)) => Outcome::fault(*fault),
            Err(_) => {
                Outcome::fault(Fault::new(FaultCode::Cancelled, "the call was interrupted").on_server(server.name()))
            }
        }
    }

    /// The server for a call, or the failure of the server that the call names.
    fn find(&self, name: Option<&str>, tool: &str) -> Result<&ReachedServer, Fault> {
        let Some(name) = name else { return self.holder(tool) };
        if let Some(fault) = self.failed.iter().find(|fault| fault.server.as_deref() == Some(name)) {
            return Err(fault.clone());
        }
        let found = self.reached.iter().find(|one| one.server.name() == name);
        found.ok_or_else(|| not_found::server(name))
    }

    fn holder(&self, tool: &str) -> Result<&ReachedServer, Fault> {
        let has = |one: &&ReachedServer, is_it: &dyn Fn(&str, &str) -> bool| {
            let tools = one.catalog.as_ref().map(|catalog| catalog.tools.items.as_slice()).unwrap_or_default();
            tools.iter().any(|known| is_it(one.server.name(), known.name()))
        };
        let is_shown = |server: &str, own: &str| is_shown_as(self.loaded, server, own, tool);
        let mut holders: Vec<&ReachedServer> = self.reached.iter().filter(|one| has(one, &is_shown)).collect();
        // A hidden or renamed tool is found by its own name, to be refused with the reason.
        if holders.is_empty() {
            holders = self.reached.iter().filter(|one| has(one, &|_, own| own == tool)).collect();
        }
        match holders.as_slice() {
            [one] => Ok(one),
            [] => Err(not_found::tool(tool)),
            several => {
                let names: Vec<&str> = several.iter().map(|one| one.server.name()).collect();
                Err(not_found::ambiguous_tool(tool, &names))
            }
        }
    }
}

fn read(app: &App, file: &str) -> Result<BatchInput, CommandFailure> {
    let text = match file {
        "-" => read_stdin()?,
        file => read_file(&app.context.directory.join(file))?,
    };
    parse(&text)
}

fn read_file(path: &Path) -> Result<String, CommandFailure> {
    std::fs::read_to_string(path)
        .map_err(|error| CommandFailure::usage(format!("`{}` cannot be read: {error}", path.display())))
}

/// An array, or one object after the other.
fn parse(text: &str) -> Result<BatchInput, CommandFailure> {
    let unfit = |error: &serde_json::Error| {
        CommandFailure::usage(format!("the calls cannot be read: {error}")).with_hint(
            r#"a call is written {"tool": "server/name", "arguments": {…}}; they stand in an array or line by line"#,
        )
    };
    // Objects need no separator, so a file of lines is read as a stream.
    if text.trim_start().starts_with('[') {
        let entries = serde_json::from_str(text).map_err(|error| unfit(&error))?;
        return Ok(BatchInput { entries, are_lines: false });
    }
    let entries: Result<Vec<BatchEntry>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    Ok(BatchInput { entries: entries.map_err(|error| unfit(&error))?, are_lines: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_an_array_or_line_by_line_in_every_spelling() {
        let array = parse(r#"[{"server":"a","toolName":"t","input":{"x":1}},{"tool":"u","params":{}}]"#).unwrap();
        assert!(!array.are_lines && array.entries[0].tool == "t" && array.entries[0].arguments.is_some());
        let lines = parse("{\"tool\":\"t\"}\n\n{\"tool\":\"u\",\"arguments\":{}}\n").unwrap();
        assert!(lines.are_lines && lines.entries.len() == 2);
        assert!(parse("").unwrap().entries.is_empty());
    }

    #[test]
    fn a_misspelt_member_is_refused() {
        for text in [r#"[{"tol":"t"}]"#, r#"{"tool":"t","argument":{}}"#, "[", "nonsense"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
