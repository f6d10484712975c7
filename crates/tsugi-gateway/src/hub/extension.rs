//! What servers declare beside the core of MCP: announced together, told apart per server, and routed by it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, Fault, FaultCode};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::extension::{PrefixMatch, TASKS, common_settings};
use tsugi_protocol::mcp::{ClientProfile, Era};

use super::resource;
use super::snapshot::{HubSnapshot, KnownCatalogs};
use crate::guard::caller_access::CallerAccess;

/// The extensions that one server declares.
pub(crate) struct ServerExtensions {
    ids: Vec<String>,
    /// The last client, as it was and with the extensions only that the server declares too: most calls in a row have
    /// the same client, and what is written about one that is the same is written once.
    last_client: Mutex<Option<(Arc<ClientProfile>, Arc<ClientProfile>)>>,
}

static NO_EXTENSIONS: LazyLock<ServerExtensions> = LazyLock::new(|| ServerExtensions::new(Vec::new()));

impl ServerExtensions {
    fn new(ids: Vec<String>) -> Self {
        Self { ids, last_client: Mutex::default() }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.iter().any(|known| known == id)
    }

    fn narrowed(&self, client: &Arc<ClientProfile>) -> Arc<ClientProfile> {
        let mut last = self.last_client.lock();
        match &*last {
            Some((known, narrowed)) if Arc::ptr_eq(known, client) => narrowed.clone(),
            _ => {
                let capabilities = client.capabilities.keeping_extensions(|id| self.has(id));
                let narrowed = Arc::new(ClientProfile { capabilities, ..(**client).clone() });
                *last = Some((client.clone(), narrowed.clone()));
                narrowed
            }
        }
    }
}

/// Leaves out of a caller's declaration what the server has not declared. Nothing is done for a caller that declares no
/// extensions.
pub(super) fn narrow(call: &mut Call, server: Option<&ServerExtensions>) {
    if call.meta.client.capabilities.has_extensions() {
        let client = server.unwrap_or(&NO_EXTENSIONS).narrowed(&call.meta.client);
        call.meta.client = client;
    }
}

/// The extensions of the servers that declare some.
#[derive(Default)]
pub(crate) struct ExtensionDirectory(HashMap<String, Arc<ServerExtensions>>);

impl ExtensionDirectory {
    pub(super) fn new(known: &KnownCatalogs<'_>) -> Self {
        let of = |(server, catalog): &(&Server, Arc<Catalog>)| {
            let ids: Vec<String> = carried(catalog).into_iter().map(|(id, _)| id).collect();
            (!ids.is_empty()).then(|| (server.name().to_owned(), Arc::new(ServerExtensions::new(ids))))
        };
        Self(known.iter().filter_map(of).collect())
    }

    pub(crate) fn of(&self, server: &str) -> Option<&Arc<ServerExtensions>> {
        // Most gateways have no server with extensions.
        if self.0.is_empty() { None } else { self.0.get(server) }
    }

    /// True when a server declares this extension.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.values().any(|extensions| extensions.has(id))
    }

    /// The servers whose extensions fit the beginning of a method best.
    pub(super) fn declaring<'a>(&self, servers: &'a [Server], method: &str) -> Vec<&'a Server> {
        let fit = |server: &Server| {
            let ids = self.of(server.name()).map(|extensions| extensions.ids.as_slice()).unwrap_or_default();
            ids.iter().filter_map(|id| PrefixMatch::of(method, id)).max()
        };
        let fitting: Vec<(&Server, PrefixMatch)> =
            servers.iter().filter_map(|server| Some((server, fit(server)?))).collect();
        let best = fitting.iter().map(|(_, fit)| *fit).max();
        fitting.into_iter().filter(|(_, fit)| Some(*fit) == best).map(|(server, _)| server).collect()
    }
}

/// The extensions of a server that can be carried. Tasks are an extension of the modern revision.
fn carried(catalog: &Catalog) -> Vec<(String, RawJson)> {
    let is_carried = |id: &str| id != TASKS || catalog.identity.version.era() == Era::Modern;
    catalog.identity.capabilities.extensions().into_iter().filter(|(id, _)| is_carried(id)).collect()
}

/// The extensions of all servers together, each with the settings that its servers share.
pub(super) fn announced(known: &KnownCatalogs<'_>) -> Vec<(String, RawJson)> {
    let mut all: Vec<(String, Vec<RawJson>)> = Vec::new();
    for (id, settings) in known.iter().flat_map(|(_, catalog)| carried(catalog)) {
        match all.iter_mut().find(|(known, _)| *known == id) {
            Some((_, several)) => several.push(settings),
            None => all.push((id, vec![settings])),
        }
    }
    let together = |(id, several): (String, Vec<RawJson>)| match several.as_slice() {
        [only] => (id, only.clone()),
        several => (id, common_settings(&several.iter().collect::<Vec<_>>())),
    };
    all.into_iter().map(together).collect()
}

/// What a method that no revision defines is about: something of a server's lists.
pub(super) struct ExtensionSubject {
    pub(super) server: Server,
    pub(super) key: &'static str,
    /// What the server itself calls it.
    pub(super) own: String,
    pub(super) is_own_name: bool,
}

/// The subject of such a call, where it names something that a server lists and this caller may use.
pub(super) fn subject(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Option<ExtensionSubject> {
    if let Some(uri) = call.params.get_str("uri") {
        let (server, own) = resource::find(snapshot, &uri, call, access).ok()?;
        return Some(ExtensionSubject { server, key: "uri", is_own_name: own == uri, own });
    }
    let name = call.params.get_str("name")?;
    let entry = snapshot.tools.get(&name).or_else(|| snapshot.prompts.get(&name))?;
    let is_allowed = access.allows(entry.server.name(), &entry.own)
        && access.expect_policy(call, entry.server.name(), NameKind::Tool, &entry.own).is_ok();
    is_allowed.then(|| ExtensionSubject {
        server: entry.server.clone(),
        key: "name",
        own: entry.own.clone(),
        is_own_name: entry.own == name,
    })
}

/// Parameters with another value under a key.
pub(super) fn with_parameter(params: &JsonObject, key: &str, value: &str) -> JsonObject {
    let mut replaced = ObjectWriter::with_capacity(params.bytes().len() + value.len());
    replaced.string(key, value).members_except(params, &[key]);
    replaced.finish_object()
}

/// The error for a method that several servers could be asked.
pub(super) fn ambiguous(method: &str, servers: &[&str]) -> Fault {
    let message = format!("several servers have the extension of {method:?}: {}", servers.join(", "));
    let hint = "use the address of the server that is meant: /servers/NAME/mcp";
    Fault::new(FaultCode::InvalidParams, message).with_hint(hint)
}
