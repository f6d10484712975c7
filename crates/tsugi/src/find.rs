//! Finds the one server that has a tool or a prompt, starting no more servers than that takes.

mod reach;

use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_protocol::answer::Fault;
use tsugi_schema::tool_name::{NameMap, Naming, Target};

use crate::app::{App, named, profile, select};
use crate::config::key::nearest;
use crate::config::layer::Loaded;
use crate::failure::{Failure, warning};

pub(crate) use reach::{Reached, reach, reach_all};

/// A server with what it offers.
type Ready = (Server, Arc<Catalog>);

/// What kind of thing is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    Tool,
    Prompt,
}

/// A server that has it, with its catalog.
pub(crate) struct Found {
    pub(crate) server: Server,
    pub(crate) catalog: Arc<Catalog>,
    /// The server's own name for it.
    pub(crate) name: String,
}

impl Thing {
    fn word(self) -> &'static str {
        match self {
            Thing::Tool => "tool",
            Thing::Prompt => "prompt",
        }
    }

    fn names(self, catalog: &Catalog) -> Vec<&str> {
        match self {
            Thing::Tool => catalog.tools.items.iter().map(|tool| tool.name()).collect(),
            Thing::Prompt => catalog.prompts.items.iter().map(|prompt| prompt.name()).collect(),
        }
    }

    fn is_in(self, catalog: &Catalog, name: &str) -> bool {
        self.names(catalog).contains(&name)
    }
}

impl Found {
    fn new((server, catalog): Ready, name: &str) -> Self {
        Found { server, catalog, name: name.to_owned() }
    }

    /// The server's name and its own name for the thing.
    pub(crate) fn subject(&self) -> String {
        format!("{}/{}", self.server.name(), self.name)
    }
}

/// Splits `server/name`, and `server__name` as models see it, where the left side is a configured server.
pub(crate) fn split<'a>(word: &'a str, loaded: &Loaded) -> (Option<&'a str>, &'a str) {
    let is_server = |name: &str| loaded.settings.servers.iter().any(|server| server.name == name);
    let parts = [word.split_once('/'), word.split_once("__")];
    match parts.into_iter().flatten().find(|(server, name)| is_server(server) && !name.is_empty()) {
        Some((server, name)) => (Some(server), name),
        None => (None, word),
    }
}

/// Finds the server that has `word`, which may name it. Starts only that one, or all where it is not named.
pub(crate) async fn find(
    app: &App,
    loaded: &Loaded,
    thing: Thing,
    word: &str,
    has_roots: bool,
) -> Result<Found, Failure> {
    let (server, name) = split(word, loaded);
    let wanted = match server {
        Some(server) => vec![named(loaded, server)?],
        None => select(loaded, app.chosen(loaded))?,
    };
    let started = app.start_as(&loaded.settings, &wanted, profile(has_roots));
    let reached = reach(app, started.servers, |catalog| thing.is_in(catalog, name)).await;
    let (mut ready, mut faults) = (Vec::new(), started.failed);
    for one in reached {
        match one.catalog {
            Ok(catalog) => ready.push((one.server, catalog)),
            Err(fault) => faults.push(fault),
        }
    }
    let found = choose(thing, name, &ready, &faults);
    let is_alone = ready.is_empty() && faults.len() == 1;
    match (found, faults.pop()) {
        // What is wrong with the only server says more than that it has no such tool.
        (Err(_), Some(fault)) if is_alone => Err(fault.into()),
        (found, fault) => {
            faults.extend(fault);
            tell(app, &faults);
            found
        }
    }
}

fn choose(thing: Thing, name: &str, ready: &[Ready], faults: &[Fault]) -> Result<Found, Failure> {
    let mut holders: Vec<&Ready> = ready.iter().filter(|(_, catalog)| thing.is_in(catalog, name)).collect();
    match (holders.pop(), holders.is_empty()) {
        (Some(only), true) => Ok(Found::new(only.clone(), name)),
        (Some(last), false) => {
            holders.push(last);
            Err(ambiguous(thing, name, &holders))
        }
        (None, _) => {
            let public = (thing == Thing::Tool).then(|| by_public_name(name, ready)).flatten();
            public.ok_or_else(|| unknown(thing, name, ready, !faults.is_empty()))
        }
    }
}

/// A name as `tsugi tools --for` gives it to a model: made safe, perhaps shortened.
fn by_public_name(name: &str, ready: &[Ready]) -> Option<Found> {
    let targets = || {
        let of = |(server, catalog): &Ready| {
            Thing::Tool.names(catalog).iter().map(|tool| Target::new(server.name(), *tool)).collect::<Vec<_>>()
        };
        ready.iter().flat_map(of)
    };
    let maps = [Naming::Prefix, Naming::PrefixOnConflict].map(|naming| NameMap::build(targets(), naming));
    let target = maps.iter().find_map(|map| map.target(name))?;
    let holder = ready.iter().find(|(server, _)| server.name() == target.server)?;
    Some(Found::new(holder.clone(), &target.tool))
}

/// Says which servers could not be asked.
pub(crate) fn tell(app: &App, faults: &[Fault]) {
    for fault in faults {
        app.output.say(|paint| warning(fault, paint));
    }
}

fn unknown(thing: Thing, name: &str, ready: &[Ready], has_faults: bool) -> Failure {
    let word = thing.word();
    let message = match ready {
        [(server, _)] => format!("{} has no {word} named `{name}`", server.name()),
        _ => format!("no server has a {word} named `{name}`"),
    };
    let failure = Failure::usage(message);
    match near(thing, name, ready) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None if has_faults => failure.with_hint("perhaps a server that could not be reached has it"),
        None => failure.with_hint(format!("`tsugi {word}s` lists them")),
    }
}

/// What was perhaps meant, with its server: by its own name, or by both where both were given.
fn near(thing: Thing, name: &str, ready: &[Ready]) -> Option<String> {
    let full = |(server, catalog): &Ready| {
        let names = thing.names(catalog);
        names.iter().map(|own| format!("{}/{own}", server.name())).collect::<Vec<_>>()
    };
    if name.contains('/') {
        let all: Vec<String> = ready.iter().flat_map(full).collect();
        return nearest(name, all.iter().map(String::as_str)).map(str::to_owned);
    }
    let own = |(server, catalog): &Ready| Some(format!("{}/{}", server.name(), nearest(name, thing.names(catalog))?));
    ready.iter().find_map(own)
}

fn ambiguous(thing: Thing, name: &str, holders: &[&Ready]) -> Failure {
    let names: Vec<&str> = holders.iter().map(|(server, _)| server.name()).collect();
    let word = thing.word();
    Failure::usage(format!("several servers have a {word} named `{name}`: {}", names.join(", ")))
        .with_hint(format!("name the server: `{}/{name}`", names[0]))
}
