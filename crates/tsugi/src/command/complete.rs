//! `tsugi complete`: the names that shell completions offer, from what is configured and remembered. Starts nothing.

use tsugi_client::catalog::Catalog;

use crate::app::{App, StartOptions, is_offered, select, shown_name};
use crate::config::layer::LoadedConfig;
use crate::failure::CommandFailure;
use crate::locate::split_server_name;
use crate::output::printable;
use crate::report::exit::CommandExit;
use crate::tool_arguments::ArgumentShape;

/// Print what can follow these words
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// The words of the command line after `tsugi`, the last one unfinished
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(app: &App, args: &CompleteArgs) -> Result<CommandExit, CommandFailure> {
    // A broken configuration completes nothing: a shell cannot show why.
    let Ok(loaded) = app.quiet_configuration() else { return Ok(CommandExit::Success) };
    let last = args.words.last().map(String::as_str).unwrap_or_default();
    let mut names = candidates(app, &loaded, &args.words);
    names.sort();
    names.dedup();
    for name in names.iter().filter(|name| name.starts_with(last)) {
        app.output.data(&printable(name))?;
    }
    Ok(CommandExit::Success)
}

fn candidates(app: &App, loaded: &LoadedConfig, words: &[String]) -> Vec<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let servers = || loaded.settings.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>();
    // Flags before the subject would have to be understood to be skipped; the static completion knows them.
    match words.as_slice() {
        [.., "--server", _] => servers(),
        ["call", _] => Remembered::of(app, loaded).tools(loaded),
        ["call", tool, ..] => Remembered::of(app, loaded).arguments(loaded, tool),
        ["tools", _] => [servers(), Remembered::of(app, loaded).tools(loaded)].concat(),
        ["prompt", _] => Remembered::of(app, loaded).prompts(),
        ["doctor", ..] | ["logs" | "restart" | "remove", _] => servers(),
        _ => Vec::new(),
    }
}

/// What each server offered when it was last connected.
struct Remembered(Vec<(String, std::sync::Arc<Catalog>)>);

impl Remembered {
    fn of(app: &App, loaded: &LoadedConfig) -> Self {
        let wanted = select(loaded, &[]).unwrap_or_default();
        let started = app.start(&loaded.settings, &wanted, &StartOptions { is_held_back: true, ..Default::default() });
        let known = |server: &tsugi_client::Server| Some((server.name().to_owned(), server.catalog()?));
        Remembered(started.servers.iter().filter_map(known).collect())
    }

    fn tools(&self, loaded: &LoadedConfig) -> Vec<String> {
        let of = |(server, catalog): &(String, std::sync::Arc<Catalog>)| {
            let offered = catalog.tools.items.iter().filter(|tool| is_offered(loaded, server, tool.name()));
            offered.map(|tool| format!("{server}/{}", shown_name(loaded, server, tool.name()))).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    fn prompts(&self) -> Vec<String> {
        let of = |(server, catalog): &(String, std::sync::Arc<Catalog>)| {
            catalog.prompts.items.iter().map(|prompt| format!("{server}/{}", prompt.name())).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// `name=` for each argument of a tool.
    fn arguments(&self, loaded: &LoadedConfig, word: &str) -> Vec<String> {
        let (server, name) = split_server_name(word, loaded);
        let is_it = |(known, _): &&(String, std::sync::Arc<Catalog>)| server.is_none_or(|server| server == known);
        let tool = self.0.iter().filter(is_it).find_map(|(server, catalog)| {
            catalog.tools.items.iter().find(|tool| shown_name(loaded, server, tool.name()) == name)
        });
        let schema = tool.and_then(|tool| tool.input_schema()).and_then(|schema| schema.to_lossy().ok());
        ArgumentShape::of(&schema.unwrap_or_default()).names().iter().map(|name| format!("{name}=")).collect()
    }
}
