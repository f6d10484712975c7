//! One view of all servers: public names, what they stand for, and every list serialized and ready to send.

mod tools;

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_client::connection::state::ConnectionState;
use tsugi_pins::PinKind;
use tsugi_protocol::answer::{Call, CompletedResult, Fault};
use tsugi_protocol::era::{session, to_legacy};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::mcp::uri_template::UriTemplate;
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion, ServerCapabilities, ServerIdentity, meta};
use tsugi_schema::header_param::HeaderParams;
use tsugi_schema::tool_name::{MAX_NAME, NameMap, ToolTarget};

use super::HubConfig;
use super::extension::{self, ExtensionDirectory, ServerExtensions};
use super::list::ListKind;
use super::page::{self, ListPage, PageLimit};
use super::tool_search::SearchState;
use crate::guard::caller_access::CallerAccess;
use crate::telemetry::GatewayMetrics;
use crate::telemetry::metrics::ToolMeter;
pub(super) use tools::describe_as;
use tools::{NameClash, reserved, tools};

/// A server's thing under its public name.
#[derive(Clone)]
pub(crate) struct PublicEntry {
    pub(crate) server: Server,
    /// What the server itself calls it.
    pub(crate) own: String,
    /// What it is called where it is known whose it is, as in REST; only a tool can have another name there.
    pub(crate) local: Option<String>,
    /// How it is described to clients, with its public name.
    pub(crate) shown: RawJson,
    /// The arguments that are mirrored into headers, for a tool that has some.
    pub(crate) header_params: Option<Arc<HeaderParams>>,
    /// Where its calls are counted, for a tool.
    pub(crate) meter: Option<Arc<ToolMeter>>,
    /// What its server declares beside the core, for a tool of one that does.
    pub(crate) extensions: Option<Arc<ServerExtensions>>,
}

/// Public names in the order of the servers and of their lists.
pub(crate) struct PublicNames {
    order: Vec<String>,
    entries: foldhash::HashMap<String, PublicEntry>,
    /// How long the list holds, and for whom.
    freshness: CacheHints,
    /// The list in pages, of which there is nearly always one.
    pages: Vec<PreparedPage>,
}

/// A page written out for each era, so that serving it costs no work.
struct PreparedPage {
    /// The entry after which it begins.
    after: Option<String>,
    modern: JsonObject,
    legacy: JsonObject,
}

impl Default for PublicNames {
    fn default() -> Self {
        Self { order: Vec::new(), entries: Default::default(), freshness: CacheHints::NONE, pages: Vec::new() }
    }
}

impl PublicNames {
    /// What a public name stands for.
    pub(crate) fn get(&self, name: &str) -> Option<&PublicEntry> {
        self.entries.get(name)
    }

    /// Every public name with what it stands for, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &PublicEntry)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.entries.get(name)?)))
    }

    /// The entries that are shown, as they are written.
    fn written(&self, is_shown: impl Fn(&PublicEntry) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(_, entry)| is_shown(entry)).map(|(name, entry)| (name, entry.shown.as_str()))
    }

    /// Adds an entry; of two with the same name the first stays.
    fn push(&mut self, name: String, entry: PublicEntry) {
        if let hash_map::Entry::Vacant(place) = self.entries.entry(name) {
            self.order.push(place.key().clone());
            place.insert(entry);
        }
    }
}

impl PublicEntry {
    /// What it is called where it is known whose it is.
    pub(crate) fn local(&self) -> &str {
        self.local.as_deref().unwrap_or(&self.own)
    }
}

/// Everything that is shown at one moment.
pub(crate) struct HubSnapshot {
    /// The tools by public name.
    pub(crate) tools: PublicNames,
    /// The prompts by public name.
    pub(crate) prompts: PublicNames,
    /// The resources by public address.
    pub(crate) resources: PublicNames,
    /// The first server of each address that several servers list.
    pub(crate) shared_uris: HashMap<String, Server>,
    /// The resource templates by public pattern.
    pub(crate) templates: PublicNames,
    /// The public names of each server's tools, by server and by the server's own name.
    pub(crate) own_tools: NamesByServer,
    /// The same by server and by the name that REST has for them.
    pub(crate) local_tools: NamesByServer,
    /// Tools that are not shown as they should be, since their names clash.
    pub(crate) clashes: Vec<NameClash>,
    /// The servers, in order.
    pub(crate) servers: Vec<Server>,
    /// The extensions of each server that declares some, by server.
    pub(crate) extensions: ExtensionDirectory,
    /// Where calls are counted that are not about a tool, by server.
    pub(crate) other_meters: HashMap<String, Arc<ToolMeter>>,
    /// Who we are, all together.
    pub(crate) discover: JsonObject,
    /// False while the lists of a server are unknown and may still come.
    pub(crate) is_complete: bool,
    /// The names of the servers whose lists are known.
    pub(crate) servers_told: HashSet<String>,
    /// Tool search over these tools, and whether it is on.
    pub(super) search: SearchState,
    limit: PageLimit,
}

fn prepare(after: Option<String>, modern: JsonObject, method: &Method) -> PreparedPage {
    let complete = CompletedResult { body: modern, era: Era::Modern, server: None };
    // Written for both eras now, so that no list is translated per request.
    let legacy = to_legacy::result(&complete, method, ProtocolVersion::LATEST_LEGACY);
    PreparedPage { after, modern: complete.body, legacy }
}

impl HubSnapshot {
    /// Looks at every server's catalog.
    pub(crate) fn build(servers: &[Server], config: &HubConfig, metrics: &GatewayMetrics) -> Self {
        let known: Vec<(&Server, Arc<Catalog>)> =
            servers.iter().filter_map(|server| Some((server, server.catalog()?))).collect();
        // Tools first: the maps below are made from them.
        let unknown: Vec<&Server> = servers.iter().filter(|server| !has_told(&known, server)).collect();
        let extensions = ExtensionDirectory::new(&known);
        let (tools, clashes) = tools(&known, &unknown, config, metrics, &extensions, servers.len() > 1);
        let mut view = Self {
            own_tools: by_server(&tools, |entry| &entry.own),
            local_tools: by_server(&tools, PublicEntry::local),
            clashes,
            tools,
            prompts: prompts(&known, &unknown, config),
            resources: resources(&known, &unknown),
            shared_uris: shared_uris(&known),
            templates: templates(&known, &unknown),
            servers: servers.to_vec(),
            extensions,
            other_meters: servers
                .iter()
                .map(|server| (server.name().to_owned(), metrics.other(server.name())))
                .collect(),
            discover: discover(&known, config),
            servers_told: known.iter().map(|(server, _)| server.name().to_owned()).collect(),
            // Asked of what is in this view, and not of the servers once more: one that tells what it has just now
            // would make a view complete that does not have it.
            is_complete: servers.iter().all(|server| has_told(&known, server) || has_given_up(server)),
            search: SearchState::new(config.listing),
            limit: config.page,
        };
        // After all names are known, since pages are written from them.
        for list in ListKind::ALL {
            view.names_mut(list).freshness = freshness(&known, list);
            view.names_mut(list).pages = view.prepared(list);
        }
        view
    }

    fn prepared(&self, list: ListKind) -> Vec<PreparedPage> {
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
    pub(crate) fn page(&self, list: ListKind, call: &Call, access: &CallerAccess) -> Result<CompletedResult, Fault> {
        // A list that is read is worth keeping fresh; this only starts a fetch.
        self.servers.iter().for_each(Server::freshen);
        let era = call.meta.client.version.era();
        let after = page::after(list.key(), call)?;
        // Most callers get bytes that were written when the snapshot was made.
        let prepared = self.names(list).pages.iter().find(|page| page.after == after);
        if let (false, Some(prepared)) = (access.is_restricted(), prepared) {
            let body = if era == Era::Modern { &prepared.modern } else { &prepared.legacy };
            return Ok(CompletedResult { body: body.clone(), era, server: None });
        }
        let allows = |entry: &PublicEntry| access.lists(entry.server.name(), list.name_kind(), &entry.own);
        let entries = self.names(list).written(allows);
        let page = self.limit.page(list.key(), entries, after.as_deref()).ok_or_else(page::gone)?;
        let freshness = self.names(list).freshness;
        // A list that depends on the caller must not be kept for others.
        let scope = if access.is_restricted() { CacheScope::Private } else { freshness.scope };
        let body = self.write(list, &page, CacheHints { scope, ..freshness });
        Ok(CompletedResult { body, era: Era::Modern, server: None })
    }

    /// Who we are to a caller that may use only this.
    pub(crate) fn discover_for(&self, access: &CallerAccess, config: &HubConfig) -> JsonObject {
        let is_shown = |server: &&Server| access.allows_some_of(server.name()) && self.lists_some_of(server, access);
        let shown = self.servers.iter().filter(is_shown);
        let known: Vec<(&Server, Arc<Catalog>)> =
            shown.filter_map(|server| Some((server, server.catalog()?))).collect();
        discover(&known, config)
    }

    /// True when some list shows something of this server, or it may still have something to show.
    pub(super) fn lists_some_of(&self, server: &Server, access: &CallerAccess) -> bool {
        let is_listed = |list: ListKind| {
            let mut own = self.names(list).iter().filter(|(_, entry)| entry.server.name() == server.name());
            own.any(|(_, entry)| access.lists(server.name(), list.name_kind(), &entry.own))
        };
        // Only a policy can refuse each single thing of a server of which it permits something.
        !access.has_enforced_policy()
            || !self.servers_told.contains(server.name())
            || ListKind::ALL.into_iter().any(is_listed)
    }

    /// True when addresses have to name their server.
    pub(crate) fn has_several_servers(&self) -> bool {
        self.servers.len() > 1
    }

    /// True when a list differs from that of another view.
    pub(crate) fn differs(&self, other: &HubSnapshot, list: ListKind) -> bool {
        let bytes = |view: &HubSnapshot| -> Vec<bytes::Bytes> {
            view.names(list).pages.iter().map(|page| page.modern.bytes().clone()).collect()
        };
        let is_listed_alike = list != ListKind::Tools || self.search.listing() == other.search.listing();
        // Compared as clients see them: a change that they cannot see is not announced.
        !is_listed_alike || bytes(self) != bytes(other)
    }

    fn names(&self, list: ListKind) -> &PublicNames {
        match list {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    fn names_mut(&mut self, list: ListKind) -> &mut PublicNames {
        match list {
            ListKind::Tools => &mut self.tools,
            ListKind::Prompts => &mut self.prompts,
            ListKind::Resources => &mut self.resources,
            ListKind::Templates => &mut self.templates,
        }
    }

    pub(super) fn freshness(&self, list: ListKind) -> CacheHints {
        self.names(list).freshness
    }

    pub(super) fn write(&self, list: ListKind, page: &ListPage<'_>, freshness: CacheHints) -> JsonObject {
        let array =
            RawJson::parse(format!("[{}]", page.items.join(",")).into()).expect("an array of values is a value");
        let mut own = ObjectWriter::with_capacity(96);
        own.raw(meta::SERVER_INFO, &own_info());
        let mut result = ObjectWriter::with_capacity(array.bytes().len() + 256);
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
pub(crate) type NamesByServer = HashMap<String, HashMap<String, String>>;

fn by_server(tools: &PublicNames, name: fn(&PublicEntry) -> &str) -> NamesByServer {
    let mut names = NamesByServer::new();
    for (public, entry) in tools.iter() {
        let of_server = names.entry(entry.server.name().to_owned()).or_default();
        of_server.insert(name(entry).to_owned(), public.to_owned());
    }
    names
}

fn has_told(known: &KnownCatalogs<'_>, server: &Server) -> bool {
    known.iter().any(|(told, _)| told.name() == server.name())
}

/// True when nothing more is to be expected of a server for now.
fn has_given_up(server: &Server) -> bool {
    matches!(server.status().state, ConnectionState::Failed | ConnectionState::Reconnecting | ConnectionState::Draining)
}

pub(super) type KnownCatalogs<'a> = [(&'a Server, Arc<Catalog>)];

fn prompts(known: &KnownCatalogs<'_>, unknown: &[&Server], config: &HubConfig) -> PublicNames {
    let of = |(server, catalog): &(&Server, Arc<Catalog>)| {
        let prompts = catalog.prompts.items.iter();
        prompts.map(|prompt| ((*server).clone(), prompt.clone())).collect::<Vec<_>>()
    };
    let all: Vec<_> = known.iter().flat_map(of).collect();
    let target = |server: &Server, name: &str| ToolTarget::new(server.name(), name);
    let named = all.iter().map(|(server, prompt)| (target(server, prompt.name()), config.naming_of(server.name())));
    let map = NameMap::build_each(named.chain(reserved(unknown, PinKind::Prompt, config)), MAX_NAME);
    let mut names = PublicNames::default();
    for (server, prompt) in &all {
        let Some(name) = map.name(&target(server, prompt.name())) else { continue };
        let shown = if prompt.name() == name { prompt.object().raw() } else { prompt.renamed(name) };
        let entry = PublicEntry {
            server: server.clone(),
            own: prompt.name().to_owned(),
            local: None,
            shown,
            header_params: None,
            meter: None,
            extensions: None,
        };
        names.push(name.to_owned(), entry);
    }
    names
}

fn resources(known: &KnownCatalogs<'_>, unknown: &[&Server]) -> PublicNames {
    // An address that fits a template of an earlier server is that server's. Templates of later servers do not count:
    // they could rename the resources of the earlier ones.
    let templates: Vec<Vec<UriTemplate>> = known
        .iter()
        .map(|(_, catalog)| catalog.templates.items.iter().map(|item| UriTemplate::lenient(item.uri())).collect())
        .collect();
    // A server that does not tell what it has keeps what is pinned for it.
    let taken = pinned_addresses(unknown, PinKind::Resource);
    let is_free = |index: usize, uri: &str| {
        !taken.contains(uri) && !templates[..index].iter().flatten().any(|template| template.matches(uri))
    };
    addresses(known, |catalog| &catalog.resources.items, is_free, known.len() + unknown.len() > 1)
}

fn templates(known: &KnownCatalogs<'_>, unknown: &[&Server]) -> PublicNames {
    let taken = pinned_addresses(unknown, PinKind::Template);
    let is_free = |_: usize, uri: &str| !taken.contains(uri);
    addresses(known, |catalog| &catalog.templates.items, is_free, known.len() + unknown.len() > 1)
}

fn pinned_addresses(unknown: &[&Server], kind: PinKind) -> HashSet<String> {
    unknown.iter().flat_map(|server| server.pinned_names(kind)).collect()
}

fn shared_uris(known: &KnownCatalogs<'_>) -> HashMap<String, Server> {
    let (mut first, mut shared) = (HashMap::new(), HashMap::new());
    for (server, catalog) in known {
        for resource in &catalog.resources.items {
            let owner: &&Server = first.entry(resource.uri()).or_insert(server);
            if owner.name() != server.name() {
                shared.insert(resource.uri().to_owned(), (*owner).clone());
            }
        }
    }
    shared
}

/// Addresses keep their form when only one server has them and they are free for it, and are wrapped otherwise. Those
/// of a scheme that is kept always name their server where there are several.
fn addresses(
    known: &KnownCatalogs<'_>,
    of: fn(&Catalog) -> &Vec<tsugi_protocol::mcp::resource::ResourceDescription>,
    is_free: impl Fn(usize, &str) -> bool,
    has_several: bool,
) -> PublicNames {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for (_, catalog) in known {
        // A server that lists an address twice is still the only one that has it.
        for uri in of(catalog).iter().map(|resource| resource.uri()).collect::<HashSet<_>>() {
            *uses.entry(uri).or_default() += 1;
        }
    }
    let mut names = PublicNames::default();
    for (index, (server, catalog)) in known.iter().enumerate() {
        for resource in of(catalog) {
            // Two servers with one address: each is wrapped, so that both can be read.
            let is_alone = uses.get(resource.uri()) == Some(&1) && is_free(index, resource.uri());
            let kept = super::resource::keep_scheme(server.name(), resource.uri()).filter(|_| has_several);
            let (name, shown) = match is_alone {
                _ if let Some(kept) = kept => {
                    let shown = resource.with_uri(&kept);
                    (kept, shown)
                }
                true => (resource.uri().to_owned(), resource.object().raw()),
                false => {
                    let wrapped = super::resource::wrap(server.name(), resource.uri());
                    let shown = resource.with_uri(&wrapped);
                    (wrapped, shown)
                }
            };
            let own = resource.uri().to_owned();
            let server = (*server).clone();
            let entry =
                PublicEntry { server, own, local: None, shown, header_params: None, meter: None, extensions: None };
            names.push(name, entry);
        }
    }
    names
}

/// How long a list of all these servers holds, and for whom.
fn freshness(known: &KnownCatalogs<'_>, list: ListKind) -> CacheHints {
    let of = |catalog: &Catalog| match list {
        ListKind::Tools => catalog.tools.freshness,
        ListKind::Prompts => catalog.prompts.freshness,
        ListKind::Resources => catalog.resources.freshness,
        ListKind::Templates => catalog.templates.freshness,
    };
    known.iter().map(|(_, catalog)| of(catalog)).reduce(CacheHints::narrowest).unwrap_or(CacheHints::NONE)
}

pub(super) fn own_info() -> RawJson {
    RawJson::from(serde_json::json!({"name": "tsugi", "version": env!("CARGO_PKG_VERSION")}))
}

fn discover(known: &KnownCatalogs<'_>, config: &HubConfig) -> JsonObject {
    let identity = ServerIdentity {
        info: Some(own_info()),
        version: ProtocolVersion::LATEST,
        capabilities: capabilities(known),
        instructions: instructions(known, config),
        supported_versions: ProtocolVersion::ALL.iter().rev().map(|version| version.as_str().to_owned()).collect(),
    };
    session::discover_result(&identity)
}

/// The honest union, except that we tell changes of every list ourselves, whatever the servers can: one that comes later
/// may have what none has now. Extensions are announced as far as we can carry them. What is experimental cannot be said
/// for several servers.
fn capabilities(known: &KnownCatalogs<'_>) -> ServerCapabilities {
    let told = serde_json::json!({"listChanged": true});
    let lists = JsonObject::from(serde_json::json!({"tools": told, "prompts": told, "resources": told}));
    let own: Vec<ServerCapabilities> = known.iter().map(|(_, catalog)| catalog.identity.capabilities.clone()).collect();
    let union = ServerCapabilities::union(own.iter().chain([&ServerCapabilities::from_object(lists)]));
    match known {
        [_] => union,
        _ => ServerCapabilities::from_object(union.object().without("experimental"))
            .with_extensions(&extension::announced(known)),
    }
}

fn instructions(known: &KnownCatalogs<'_>, config: &HubConfig) -> Option<String> {
    let heard = known.iter().filter(|(server, _)| !config.is_silent(server.name()));
    let told = heard.filter_map(|(server, catalog)| Some((server.name(), catalog.identity.instructions.as_ref()?)));
    let told: Vec<(&str, &String)> = told.collect();
    match told.as_slice() {
        [] => None,
        [(_, only)] if known.len() == 1 => Some((*only).clone()),
        several => Some(several.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join("\n\n")),
    }
}
