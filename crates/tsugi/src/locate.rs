//! Locates the server that has a tool or a prompt, and starts no more servers than needed.

mod reach;

use std::path::PathBuf;
use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_protocol::answer::FaultCode;
use tsugi_schema::tool_name::{NameMap, ToolNaming, ToolTarget};

use crate::app::{App, StartOptions, is_shown_as, named, own_name, select, shown_name};
use crate::config::key::nearest;
use crate::config::layer::LoadedConfig;
use crate::failure::CommandFailure;
use crate::report;

pub(crate) use reach::{ReachedServer, reach, reach_all};

type ReadyServer = (Server, Arc<Catalog>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfferKind {
    Tool,
    Prompt,
}

pub(crate) struct LocatedOffer {
    pub(crate) server: Server,
    pub(crate) catalog: Arc<Catalog>,
    /// The server's own name for the tool or prompt.
    pub(crate) name: String,
}

impl OfferKind {
    fn word(self) -> &'static str {
        match self {
            OfferKind::Tool => "tool",
            OfferKind::Prompt => "prompt",
        }
    }

    /// The shown names of a server's tools or prompts, each with the server's own name.
    fn names(self, loaded: &LoadedConfig, (server, catalog): &ReadyServer) -> Vec<(String, String)> {
        let both = |shown: &str, own: &str| (shown.to_owned(), own.to_owned());
        match self {
            OfferKind::Tool => {
                let names = catalog.tools.items.iter().map(|tool| tool.name());
                names.map(|own| both(shown_name(loaded, server.name(), own), own)).collect()
            }
            OfferKind::Prompt => {
                catalog.prompts.items.iter().map(|prompt| both(prompt.name(), prompt.name())).collect()
            }
        }
    }

    /// The server's own name for the tool or prompt that is shown as `word`.
    fn shown_in(self, loaded: &LoadedConfig, server: &str, catalog: &Catalog, word: &str) -> Option<String> {
        match self {
            OfferKind::Tool => {
                let mut names = catalog.tools.items.iter().map(|tool| tool.name());
                names.find(|own| is_shown_as(loaded, server, own, word)).map(str::to_owned)
            }
            OfferKind::Prompt => {
                let mut names = catalog.prompts.items.iter().map(|prompt| prompt.name());
                names.find(|own| *own == word).map(str::to_owned)
            }
        }
    }

    /// The same for one that is hidden or renamed. Calling it is then refused with the reason.
    fn hidden_in(self, loaded: &LoadedConfig, (server, catalog): &ReadyServer, word: &str) -> Option<String> {
        match self {
            OfferKind::Tool => own_name(loaded, server.name(), catalog, word),
            OfferKind::Prompt => None,
        }
    }
}

impl LocatedOffer {
    fn new((server, catalog): ReadyServer, name: &str) -> Self {
        LocatedOffer { server, catalog, name: name.to_owned() }
    }

    /// `server/name`, for messages.
    pub(crate) fn subject(&self) -> String {
        format!("{}/{}", self.server.name(), self.name)
    }
}

/// Splits `server/name`, or `server__name` as models see it, if the left side is a configured server.
pub(crate) fn split_server_name<'a>(word: &'a str, loaded: &LoadedConfig) -> (Option<&'a str>, &'a str) {
    let is_server = |name: &str| loaded.settings.servers.iter().any(|server| server.name == name);
    // A slash wins: a tool name may contain `__`, but rarely a slash after a server name.
    let parts = [word.split_once('/'), word.split_once("__")];
    match parts.into_iter().flatten().find(|(server, name)| is_server(server) && !name.is_empty()) {
        Some((server, name)) => (Some(server), name),
        None => (None, word),
    }
}

/// Finds the server that has `word`. Starts only the server that `word` names, or all if it names none.
pub(crate) async fn locate(
    app: &App,
    loaded: &LoadedConfig,
    thing: OfferKind,
    word: &str,
    roots: &[PathBuf],
) -> Result<LocatedOffer, CommandFailure> {
    let (server, name) = split_server_name(word, loaded);
    let wanted = match server {
        Some(server) => vec![named(loaded, server)?],
        None => select(loaded, app.chosen(loaded))?,
    };
    let options = StartOptions { roots: roots.to_vec(), ..StartOptions::default() };
    let started = app.start(&loaded.settings, &wanted, &options);
    let is_shown = |server: &str, catalog: &Catalog| thing.shown_in(loaded, server, catalog, name).is_some();
    let reached = reach(app, started.servers, is_shown).await;
    let (mut ready, mut late, mut faults) = (Vec::new(), Vec::new(), started.failed);
    for one in reached {
        match one.catalog {
            Ok(catalog) => ready.push((one.server, catalog)),
            Err(fault) => {
                // A server that is not up yet may have it too, according to its remembered catalog.
                let remembered = one.server.catalog().filter(|_| fault.code == FaultCode::Timeout);
                late.extend(remembered.map(|catalog| (one.server, catalog)));
                faults.push(fault);
            }
        }
    }
    let found = OfferSearch { loaded, thing, name, ready: &ready, late: &late }.choose(!faults.is_empty());
    let is_alone = ready.is_empty() && faults.len() == 1;
    match (found, faults.pop()) {
        // The failure of the only server explains more than "no such tool".
        (Err(_), Some(fault)) if is_alone => Err(fault.into()),
        (found, fault) => {
            faults.extend(fault);
            report::warn_all(&app.output, &faults);
            found
        }
    }
}

struct OfferSearch<'a> {
    loaded: &'a LoadedConfig,
    thing: OfferKind,
    name: &'a str,
    ready: &'a [ReadyServer],
    /// Servers that are not up yet, with their remembered catalogs.
    late: &'a [ReadyServer],
}

impl OfferSearch<'_> {
    fn choose(&self, has_faults: bool) -> Result<LocatedOffer, CommandFailure> {
        let (loaded, thing, name) = (self.loaded, self.thing, self.name);
        let shown = self.holders(|(server, catalog)| thing.shown_in(loaded, server.name(), catalog, name));
        // Hidden tools count only if no shown one matches, so that a hidden one never makes a name ambiguous.
        let holders = if shown.is_empty() { self.holders(|one| thing.hidden_in(loaded, one, name)) } else { shown };
        match holders.as_slice() {
            [(holder, _)] if self.is_elsewhere_too() => Err(self.ambiguous(&[holder.0.name()])),
            [(holder, own)] => Ok(LocatedOffer::new((*holder).clone(), own)),
            [] => {
                // Names that were rewritten for a model provider are the last resort.
                let public = (thing == OfferKind::Tool).then(|| self.by_public_name()).flatten();
                public.ok_or_else(|| self.unknown(has_faults))
            }
            several => Err(self.ambiguous(&several.iter().map(|((server, _), _)| server.name()).collect::<Vec<_>>())),
        }
    }

    fn holders(&self, own: impl Fn(&ReadyServer) -> Option<String>) -> Vec<(&ReadyServer, String)> {
        self.ready.iter().filter_map(|one| Some((one, own(one)?))).collect()
    }

    /// A name as `tsugi tools --for` gives it to a model: sanitized, perhaps shortened.
    fn by_public_name(&self) -> Option<LocatedOffer> {
        let targets = || {
            let of = |one: &ReadyServer| {
                let names = OfferKind::Tool.names(self.loaded, one).into_iter();
                names.map(|(shown, _)| ToolTarget::new(one.0.name(), shown)).collect::<Vec<_>>()
            };
            self.ready.iter().flat_map(of)
        };
        let maps = [ToolNaming::Prefix, ToolNaming::PrefixOnConflict].map(|naming| NameMap::build(targets(), naming));
        // The list for the model may have been made with either naming.
        let target = maps.iter().find_map(|map| map.target(self.name))?;
        let holder = self.ready.iter().find(|(server, _)| server.name() == target.server)?;
        let own = own_name(self.loaded, &target.server, &holder.1, &target.tool)?;
        Some(LocatedOffer::new(holder.clone(), &own))
    }

    fn unknown(&self, has_faults: bool) -> CommandFailure {
        let (word, name) = (self.thing.word(), self.name);
        let message = match self.ready {
            [(server, _)] => format!("{} has no {word} named `{name}`", server.name()),
            _ => format!("no server has a {word} named `{name}`"),
        };
        let failure = CommandFailure::usage(message);
        if let Some(example) = self.of_server() {
            return failure.with_hint(format!("`{name}` is a server: name its {word} too, as in `{example}`"));
        }
        match self.near() {
            Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
            None if has_faults => failure.with_hint("a server that could not be reached may have it"),
            None => failure.with_hint(format!("`tsugi {word}s` lists them")),
        }
    }

    /// If the name is a server's: one of its tools, with its full name.
    fn of_server(&self) -> Option<String> {
        let one = self.ready.iter().find(|(server, _)| server.name() == self.name)?;
        let (shown, _) = self.thing.names(self.loaded, one).into_iter().next()?;
        Some(format!("{}/{shown}", self.name))
    }

    /// The most similar name, with its server.
    fn near(&self) -> Option<String> {
        let shown = |one: &ReadyServer| self.thing.names(self.loaded, one).into_iter().map(|(shown, _)| shown);
        let full = |one: &ReadyServer| shown(one).map(|name| format!("{}/{name}", one.0.name())).collect::<Vec<_>>();
        // With a slash, the server part may be the misspelt one.
        if self.name.contains('/') {
            let all: Vec<String> = self.ready.iter().flat_map(full).collect();
            return nearest(self.name, all.iter().map(String::as_str)).map(str::to_owned);
        }
        self.ready.iter().find_map(|one| {
            let names: Vec<String> = shown(one).collect();
            Some(format!("{}/{}", one.0.name(), nearest(self.name, names.iter().map(String::as_str))?))
        })
    }

    /// Whether the remembered catalog of a pending server has it.
    fn is_elsewhere_too(&self) -> bool {
        self.late.iter().any(|(server, catalog)| self.is_shown_by(server, catalog))
    }

    fn is_shown_by(&self, server: &Server, catalog: &Catalog) -> bool {
        self.thing.shown_in(self.loaded, server.name(), catalog, self.name).is_some()
    }

    fn ambiguous(&self, holders: &[&str]) -> CommandFailure {
        let late = self.late.iter().filter(|(server, catalog)| self.is_shown_by(server, catalog));
        let names: Vec<&str> = holders.iter().copied().chain(late.map(|(server, _)| server.name())).collect();
        let (word, name) = (self.thing.word(), self.name);
        CommandFailure::usage(format!("several servers have a {word} named `{name}`: {}", names.join(", ")))
            .with_hint(format!("name the server: `{}/{name}`", names[0]))
    }
}
