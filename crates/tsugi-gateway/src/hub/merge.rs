//! One view over all servers: public names, what they stand for, and every list written out ready to send.

mod tools;

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_client::connection::state::State;
use tsugi_protocol::answer::{Call, Complete, Fault};
use tsugi_protocol::era::{session, to_legacy};
use tsugi_protocol::json::{Object, Raw, Splice};
use tsugi_protocol::mcp::freshness::{CacheScope, Freshness};
use tsugi_protocol::mcp::{Era, Method, ServerCapabilities, ServerIdentity, Version, meta};
use tsugi_schema::header_param::HeaderParams;
use tsugi_schema::tool_name::{MAX_NAME, NameMap, Target};

use super::HubConfig;
use super::list::List;
use super::page::{self, Page, PageLimit};
use crate::guard::permit::Permit;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::Meter;
pub(super) use tools::describe_as;
use tools::{Clash, tools};

/// A server's thing under its public name.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Whose it is.
    pub(crate) server: Server,
    /// What the server itself calls it.
    pub(crate) own: String,
    /// What it is called where it is known whose it is, as in REST; only a tool can have another name there.
    pub(crate) local: Option<String>,
    /// How it is described to clients, with its public name.
    pub(crate) shown: Raw,
    /// The arguments that are mirrored into headers, for a tool that has some.
    pub(crate) header_params: Option<Arc<HeaderParams>>,
    /// Where its calls are counted, for a tool.
    pub(crate) meter: Option<Arc<Meter>>,
}

/// Public names in the order of the servers and of their lists.
pub(crate) struct Names {
    order: Vec<String>,
    entries: foldhash::HashMap<String, Entry>,
    /// How long the list holds, and for whom.
    freshness: Freshness,
    /// The list in pages, of which there is nearly always one.
    pages: Vec<Prepared>,
}

/// A page written out for each era, so that serving it costs no work.
struct Prepared {
    /// The entry after which it begins.
    after: Option<String>,
    modern: Object,
    legacy: Object,
}

impl Default for Names {
    fn default() -> Self {
        Self { order: Vec::new(), entries: Default::default(), freshness: Freshness::NONE, pages: Vec::new() }
    }
}

impl Names {
    /// What a public name stands for.
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Every public name with what it stands for, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.entries.get(name)?)))
    }

    /// The entries that are shown, as they are written.
    fn written(&self, is_shown: impl Fn(&Entry) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(_, entry)| is_shown(entry)).map(|(name, entry)| (name, entry.shown.as_str()))
    }

    /// Adds an entry; of two with the same name the first stays.
    fn push(&mut self, name: String, entry: Entry) {
        if let hash_map::Entry::Vacant(place) = self.entries.entry(name) {
            self.order.push(place.key().clone());
            place.insert(entry);
        }
    }
}

impl Entry {
    /// What it is called where it is known whose it is.
    pub(crate) fn local(&self) -> &str {
        self.local.as_deref().unwrap_or(&self.own)
    }
}

/// Everything that is shown at one moment.
pub(crate) struct View {
    /// The tools by public name.
    pub(crate) tools: Names,
    /// The prompts by public name.
    pub(crate) prompts: Names,
    /// The resources by public address.
    pub(crate) resources: Names,
    /// The resource templates by public pattern.
    pub(crate) templates: Names,
    /// The public names of each server's tools, by server and by the server's own name.
    pub(crate) own_tools: ByServer,
    /// The same by server and by the name that REST has for them.
    pub(crate) local_tools: ByServer,
    /// Tools that are not shown as they should be, since their names clash.
    pub(crate) clashes: Vec<Clash>,
    /// The servers, in order.
    pub(crate) servers: Vec<Server>,
    /// Where calls are counted that are not about a tool, by server.
    pub(crate) other_meters: HashMap<String, Arc<Meter>>,
    /// Who we are, all together.
    pub(crate) discover: Object,
    /// False while a server has not told what it has and may still do so.
    pub(crate) is_complete: bool,
    /// The names of those that have told.
    pub(crate) servers_told: HashSet<String>,
    limit: PageLimit,
}

fn prepare(after: Option<String>, modern: Object, method: &Method) -> Prepared {
    let complete = Complete { body: modern, era: Era::Modern, server: None };
    let legacy = to_legacy::result(&complete, method, Version::LATEST_LEGACY);
    Prepared { after, modern: complete.body, legacy }
}

impl View {
    /// Looks at every server's catalog.
    pub(crate) fn build(servers: &[Server], config: &HubConfig, metrics: &Metrics) -> Self {
        let known: Vec<(&Server, Arc<Catalog>)> =
            servers.iter().filter_map(|server| Some((server, server.catalog()?))).collect();
        let (tools, clashes) = tools(&known, config, metrics);
        let mut view = Self {
            own_tools: by_server(&tools, |entry| &entry.own),
            local_tools: by_server(&tools, Entry::local),
            clashes,
            tools,
            prompts: prompts(&known, config),
            resources: resources(&known),
            templates: templates(&known),
            servers: servers.to_vec(),
            other_meters: servers
                .iter()
                .map(|server| (server.name().to_owned(), metrics.other(server.name())))
                .collect(),
            discover: discover(&known, config),
            servers_told: known.iter().map(|(server, _)| server.name().to_owned()).collect(),
            // Asked of what is in this view, and not of the servers once more: one that tells what it has just now
            // would make a view complete that does not have it.
            is_complete: servers.iter().all(|server| has_told(&known, server) || has_given_up(server)),
            limit: config.page,
        };
        for list in List::ALL {
            view.names_mut(list).freshness = freshness(&known, list);
            view.names_mut(list).pages = view.prepared(list);
        }
        view
    }

    fn prepared(&self, list: List) -> Vec<Prepared> {
        let mut entries = self.names(list).written(|_| true).peekable();
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = self.limit.cut(list.key(), &mut entries);
            pages.push(prepare(after, self.write(list, &page, self.names(list).freshness), &list.method()));
            after = page.last.filter(|_| page.next.is_some()).map(str::to_owned);
            if after.is_none() {
                return pages;
            }
        }
    }

    /// The page of a list that a call asks for, in the form of its era when it is prepared.
    pub(crate) fn page(&self, list: List, call: &Call, permit: Option<&Permit>) -> Result<Complete, Fault> {
        self.servers.iter().for_each(Server::freshen);
        let era = call.meta.client.version.era();
        let after = page::after(list.key(), call)?;
        let prepared = self.names(list).pages.iter().find(|page| page.after == after);
        if let (None, Some(prepared)) = (permit, prepared) {
            let body = if era == Era::Modern { &prepared.modern } else { &prepared.legacy };
            return Ok(Complete { body: body.clone(), era, server: None });
        }
        let allows = |entry: &Entry| permit.is_none_or(|permit| permit.allows(entry.server.name(), &entry.own));
        let entries = self.names(list).written(allows);
        let page = self.limit.page(list.key(), entries, after.as_deref()).ok_or_else(page::gone)?;
        let freshness = self.names(list).freshness;
        let scope = if permit.is_some() { CacheScope::Private } else { freshness.scope };
        let body = self.write(list, &page, Freshness { scope, ..freshness });
        Ok(Complete { body, era: Era::Modern, server: None })
    }

    /// Who we are to somebody who may use only this.
    pub(crate) fn discover_for(&self, permit: &Permit, config: &HubConfig) -> Object {
        let shown = self.servers.iter().filter(|server| permit.allows_some_of(server.name()));
        let known: Vec<(&Server, Arc<Catalog>)> =
            shown.filter_map(|server| Some((server, server.catalog()?))).collect();
        discover(&known, config)
    }

    /// True when a list differs from that of another view.
    pub(crate) fn differs(&self, other: &View, list: List) -> bool {
        let bytes = |view: &View| -> Vec<bytes::Bytes> {
            view.names(list).pages.iter().map(|page| page.modern.bytes().clone()).collect()
        };
        bytes(self) != bytes(other)
    }

    fn names(&self, list: List) -> &Names {
        match list {
            List::Tools => &self.tools,
            List::Prompts => &self.prompts,
            List::Resources => &self.resources,
            List::Templates => &self.templates,
        }
    }

    fn names_mut(&mut self, list: List) -> &mut Names {
        match list {
            List::Tools => &mut self.tools,
            List::Prompts => &mut self.prompts,
            List::Resources => &mut self.resources,
            List::Templates => &mut self.templates,
        }
    }

    fn write(&self, list: List, page: &Page<'_>, freshness: Freshness) -> Object {
        let array = Raw::parse(format!("[{}]", page.items.join(",")).into()).expect("an array of values is a value");
        let mut own = Splice::with_capacity(96);
        own.raw(meta::SERVER_INFO, &own_info());
        let mut result = Splice::with_capacity(array.bytes().len() + 256);
        result.string("resultType", "complete").raw(list.key(), &array);
        if let Some(next) = &page.next {
            result.string("nextCursor", next);
        }
        result.number("ttlMs", freshness.ttl_ms).string("cacheScope", freshness.scope.as_str());
        result.raw("_meta", &own.finish());
        result.finish_object()
    }
}

/// Public names by server, and there by another name that the entry has.
pub(crate) type ByServer = HashMap<String, HashMap<String, String>>;

fn by_server(tools: &Names, name: fn(&Entry) -> &str) -> ByServer {
    let mut names = ByServer::new();
    for (public, entry) in tools.iter() {
        let of_server = names.entry(entry.server.name().to_owned()).or_default();
        of_server.insert(name(entry).to_owned(), public.to_owned());
    }
    names
}

fn has_told(known: &Known<'_>, server: &Server) -> bool {
    known.iter().any(|(told, _)| told.name() == server.name())
}

/// True when nothing more is to be expected of a server for now.
fn has_given_up(server: &Server) -> bool {
    matches!(server.status().state, State::Failed | State::Reconnecting | State::Draining)
}

type Known<'a> = [(&'a Server, Arc<Catalog>)];

fn prompts(known: &Known<'_>, config: &HubConfig) -> Names {
    let of = |(server, catalog): &(&Server, Arc<Catalog>)| {
        let prompts = catalog.prompts.items.iter();
        prompts.map(|prompt| ((*server).clone(), prompt.clone())).collect::<Vec<_>>()
    };
    let all: Vec<_> = known.iter().flat_map(of).collect();
    let target = |server: &Server, name: &str| Target::new(server.name(), name);
    let named = all.iter().map(|(server, prompt)| (target(server, prompt.name()), config.naming_of(server.name())));
    let map = NameMap::build_each(named, MAX_NAME);
    let mut names = Names::default();
    for (server, prompt) in &all {
        let Some(name) = map.name(&target(server, prompt.name())) else { continue };
        let shown = if prompt.name() == name { prompt.object().raw() } else { prompt.renamed(name) };
        let entry = Entry {
            server: server.clone(),
            own: prompt.name().to_owned(),
            local: None,
            shown,
            header_params: None,
            meter: None,
        };
        names.push(name.to_owned(), entry);
    }
    names
}

fn resources(known: &Known<'_>) -> Names {
    addresses(known, |catalog| &catalog.resources.items)
}

fn templates(known: &Known<'_>) -> Names {
    addresses(known, |catalog| &catalog.templates.items)
}

/// Addresses keep their form when only one server has them, and are wrapped otherwise.
fn addresses(known: &Known<'_>, of: fn(&Catalog) -> &Vec<tsugi_protocol::mcp::resource::Resource>) -> Names {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for (_, catalog) in known {
        // A server that lists an address twice is still the only one that has it.
        for uri in of(catalog).iter().map(|resource| resource.uri()).collect::<HashSet<_>>() {
            *uses.entry(uri).or_default() += 1;
        }
    }
    let mut names = Names::default();
    for (server, catalog) in known {
        for resource in of(catalog) {
            let is_alone = uses.get(resource.uri()) == Some(&1);
            let (name, shown) = match is_alone {
                true => (resource.uri().to_owned(), resource.object().raw()),
                false => {
                    let wrapped = super::route::wrap(server.name(), resource.uri());
                    let shown = resource.moved(&wrapped);
                    (wrapped, shown)
                }
            };
            let own = resource.uri().to_owned();
            let server = (*server).clone();
            names.push(name, Entry { server, own, local: None, shown, header_params: None, meter: None });
        }
    }
    names
}

/// How long a list of all these servers holds, and for whom.
fn freshness(known: &Known<'_>, list: List) -> Freshness {
    let of = |catalog: &Catalog| match list {
        List::Tools => catalog.tools.freshness,
        List::Prompts => catalog.prompts.freshness,
        List::Resources => catalog.resources.freshness,
        List::Templates => catalog.templates.freshness,
    };
    known.iter().map(|(_, catalog)| of(catalog)).reduce(Freshness::narrowest).unwrap_or(Freshness::NONE)
}

fn own_info() -> Raw {
    Raw::from(serde_json::json!({"name": "tsugi", "version": env!("CARGO_PKG_VERSION")}))
}

fn discover(known: &Known<'_>, config: &HubConfig) -> Object {
    let identity = ServerIdentity {
        info: Some(own_info()),
        version: Version::LATEST,
        capabilities: capabilities(known),
        instructions: instructions(known, config),
        supported_versions: Version::ALL.iter().rev().map(|version| version.as_str().to_owned()).collect(),
    };
    session::discover_result(&identity)
}

/// The honest union, except that we tell changes of every list ourselves, whatever the servers can: one that comes later
/// may have what none has now. What only one server and its client agreed on cannot be said for several.
fn capabilities(known: &Known<'_>) -> ServerCapabilities {
    let told = serde_json::json!({"listChanged": true});
    let lists = Object::from(serde_json::json!({"tools": told, "prompts": told, "resources": told}));
    let own: Vec<ServerCapabilities> = known.iter().map(|(_, catalog)| catalog.identity.capabilities.clone()).collect();
    let union = ServerCapabilities::union(own.iter().chain([&ServerCapabilities::from_object(lists)]));
    match known {
        [_] => union,
        _ => ServerCapabilities::from_object(union.object().without("experimental").without("extensions")),
    }
}

fn instructions(known: &Known<'_>, config: &HubConfig) -> Option<String> {
    let heard = known.iter().filter(|(server, _)| !config.is_silent(server.name()));
    let told = heard.filter_map(|(server, catalog)| Some((server.name(), catalog.identity.instructions.as_ref()?)));
    let told: Vec<(&str, &String)> = told.collect();
    match told.as_slice() {
        [] => None,
        [(_, only)] if known.len() == 1 => Some((*only).clone()),
        several => Some(several.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join("\n\n")),
    }
}
