//! Finds the one server that has a tool or a prompt, starting no more servers than that takes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};
use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_protocol::answer::Fault;

use crate::app::{App, Endurance, named, profile, select};
use crate::config::key::nearest;
use crate::config::layer::Loaded;
use crate::config::settings::ServerSettings;
use crate::failure::{Failure, warning};
use crate::report::exit::Exit;

/// How long servers that are still connecting may take once one is known to have what is asked for. They might
/// have it too; but one that hangs must not hold up the others.
const GRACE: Duration = Duration::from_secs(5);

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

/// A server that answered, or did not.
pub(crate) struct Reached {
    pub(crate) server: Server,
    pub(crate) catalog: Result<Arc<Catalog>, Fault>,
    pub(crate) took: Duration,
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
    let started = app.start_as(&loaded.settings, &wanted, Endurance::Once, profile(has_roots));
    let reached = reach(app, started.servers, |catalog| thing.is_in(catalog, name)).await;
    let mut faults = started.failed;
    let mut holders = Vec::new();
    let mut known = Vec::new();
    for one in reached {
        match one.catalog {
            Ok(catalog) if thing.is_in(&catalog, name) => {
                holders.push(Found { server: one.server, catalog, name: name.to_owned() });
            }
            Ok(catalog) => known.push((one.server.name().to_owned(), catalog)),
            Err(fault) => faults.push(fault),
        }
    }
    choose(app, thing, name, holders, &known, faults)
}

fn choose(
    app: &App,
    thing: Thing,
    name: &str,
    mut holders: Vec<Found>,
    known: &[(String, Arc<Catalog>)],
    faults: Vec<Fault>,
) -> Result<Found, Failure> {
    match (holders.len(), faults.as_slice()) {
        (0, [_]) if known.is_empty() => Err(Failure::from(faults.into_iter().next().expect("there is one"))),
        (0, _) => {
            tell(app, &faults);
            Err(unknown(thing, name, known, !faults.is_empty()))
        }
        (1, _) => {
            tell(app, &faults);
            Ok(holders.remove(0))
        }
        _ => Err(ambiguous(thing, name, &holders)),
    }
}

/// Says which servers could not be asked.
pub(crate) fn tell(app: &App, faults: &[Fault]) {
    for fault in faults {
        app.output.say(|paint| warning(fault, paint));
    }
}

fn unknown(thing: Thing, name: &str, known: &[(String, Arc<Catalog>)], has_faults: bool) -> Failure {
    let word = thing.word();
    let message = match known {
        [(server, _)] => format!("{server} has no {word} named `{name}`"),
        _ => format!("no server has a {word} named `{name}`"),
    };
    let failure = Failure::usage(message);
    match near(thing, name, known) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None if has_faults => failure.with_hint("perhaps a server that could not be reached has it"),
        None => failure.with_hint(format!("`tsugi {word}s` lists them")),
    }
}

/// What was perhaps meant, with its server: by its own name, or by both where both were given.
fn near(thing: Thing, name: &str, known: &[(String, Arc<Catalog>)]) -> Option<String> {
    let full = |(server, catalog): &(String, Arc<Catalog>)| {
        thing.names(catalog).iter().map(|own| format!("{server}/{own}")).collect::<Vec<_>>()
    };
    if name.contains('/') {
        let all: Vec<String> = known.iter().flat_map(full).collect();
        return nearest(name, all.iter().map(String::as_str)).map(str::to_owned);
    }
    known.iter().find_map(|(server, catalog)| Some(format!("{server}/{}", nearest(name, thing.names(catalog))?)))
}

fn ambiguous(thing: Thing, name: &str, holders: &[Found]) -> Failure {
    let names: Vec<&str> = holders.iter().map(|found| found.server.name()).collect();
    let word = thing.word();
    Failure::usage(format!("several servers have a {word} named `{name}`: {}", names.join(", ")))
        .with_hint(format!("name the server: `{}/{name}`", names[0]))
}

/// Waits for all of these servers at once, in their order. Once `is_enough` holds for one, the others have only
/// [`GRACE`] left.
pub(crate) async fn reach(app: &App, servers: Vec<Server>, is_enough: impl Fn(&Catalog) -> bool) -> Vec<Reached> {
    let progress = app.output.progress("connecting", (servers.len() > 1).then_some(servers.len() as u64));
    let patience = app.patience();
    let started = Instant::now();
    let mut deadline = started + patience;
    let mut waiting: FuturesUnordered<_> = servers
        .iter()
        .enumerate()
        .map(|(index, server)| async move {
            let catalog = server.ready(patience).await;
            (index, catalog, started.elapsed())
        })
        .collect();
    let mut results: Vec<Option<(Result<Arc<Catalog>, Fault>, Duration)>> = servers.iter().map(|_| None).collect();
    while let Ok(Some((index, catalog, took))) = timeout_at(deadline, waiting.next()).await {
        progress.step();
        if catalog.as_ref().is_ok_and(|catalog| is_enough(catalog)) {
            deadline = deadline.min(Instant::now() + GRACE);
        }
        results[index] = Some((catalog, took));
    }
    drop(waiting);
    let finish = |(server, result): (Server, Option<_>)| {
        let (catalog, took) = result.unwrap_or_else(|| (Err(late(&server)), started.elapsed()));
        Reached { server, catalog, took }
    };
    servers.into_iter().zip(results).map(finish).collect()
}

fn late(server: &Server) -> Fault {
    use tsugi_protocol::answer::FaultCode;
    let message = format!("still {} and not waited for any longer", server.status().state);
    Fault::new(FaultCode::Timeout, message)
        .on_server(server.name())
        .with_hint("name the server you want, to wait for no other")
}

/// Starts the servers that are wanted and waits for all, for commands that list. Failures are told; the exit code
/// says whether there were any.
pub(crate) async fn reach_all(app: &App, loaded: &Loaded) -> Result<(Vec<(Server, Arc<Catalog>)>, Exit), Failure> {
    let wanted: Vec<&ServerSettings> = select(loaded, app.chosen(loaded))?;
    let started = app.start(&loaded.settings, &wanted, Endurance::Once);
    let mut faults = started.failed;
    let mut ready = Vec::new();
    for one in reach(app, started.servers, |_| false).await {
        match one.catalog {
            Ok(catalog) => ready.push((one.server, catalog)),
            Err(fault) => faults.push(fault),
        }
    }
    let exit = faults.first().map_or(Exit::Success, Exit::of_fault);
    match ready.is_empty() {
        true => faults.iter().for_each(|fault| app.output.say(|paint| crate::report::fault(fault, paint))),
        false => tell(app, &faults),
    }
    if ready.is_empty() { Err(Failure::Said(exit)) } else { Ok((ready, exit)) }
}
