//! A catalog as its pins allow it: what a server offers is judged before anyone sees it.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use tsugi_pins::command_pin::{CommandDefinition, platform};
use tsugi_pins::compare::DefinitionOffer;
use tsugi_pins::store::{ItemVerdict, OfferSource, OfferVerdicts};
use tsugi_pins::{PinKind, PinPolicy, PinStore};
use tsugi_process::{JobCommand, SecretMask};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::ServerIdentity;
use tsugi_protocol::mcp::prompt::PromptDescription;
use tsugi_protocol::mcp::resource::ResourceDescription;
use tsugi_protocol::mcp::tool::ToolDescription;

use super::{Catalog, CatalogList, ListSelection, list_result};

/// Judges the lists that were fetched now and changes the catalog to what callers may see. May block for a moment.
pub(crate) fn apply(
    catalog: &mut Catalog,
    lists: ListSelection,
    server: &str,
    (store, policy): (&PinStore, PinPolicy),
    source: OfferSource,
) -> OfferVerdicts {
    let offer = offer_of(catalog, lists);
    let verdicts = store.judge(server, policy, &offer, source, Instant::now());
    // Also without a difference: an entry without a name cannot be pinned, so it is not listed.
    if policy.mode.is_strict() || !verdicts.is_clean() {
        hold_back(catalog, lists, &verdicts);
    }
    verdicts
}

/// What a catalog says, as it is compared with pins.
fn offer_of(catalog: &Catalog, lists: ListSelection) -> DefinitionOffer {
    let mut offer = DefinitionOffer::default();
    offer.add_list(PinKind::Info.list());
    if let Some(info) = &catalog.identity.info {
        offer.add(PinKind::Info, "", info.as_str());
    }
    if let Some(text) = &catalog.identity.instructions {
        offer.add(PinKind::Instructions, "", RawJson::string(text).as_str());
    }
    if lists.tools {
        let tools = catalog.tools.items.iter().map(|tool| (tool.name(), tool.object()));
        add_list(&mut offer, PinKind::Tool, tools);
    }
    if lists.prompts {
        let prompts = catalog.prompts.items.iter().map(|prompt| (prompt.name(), prompt.object()));
        add_list(&mut offer, PinKind::Prompt, prompts);
    }
    if lists.resources {
        let resources = catalog.resources.items.iter().map(|resource| (resource.uri(), resource.object()));
        add_list(&mut offer, PinKind::Resource, resources);
        let templates = catalog.templates.items.iter().map(|template| (template.uri(), template.object()));
        add_list(&mut offer, PinKind::Template, templates);
    }
    offer
}

fn add_list<'a>(offer: &mut DefinitionOffer, kind: PinKind, items: impl Iterator<Item = (&'a str, &'a JsonObject)>) {
    offer.add_list(kind.list());
    for (name, object) in items {
        offer.add(kind, name, object.raw().as_str());
    }
}

fn hold_back(catalog: &mut Catalog, lists: ListSelection, verdicts: &OfferVerdicts) {
    catalog.identity = held_identity(&catalog.identity, verdicts);
    let identity = catalog.identity.clone();
    if lists.tools {
        let list = ListShape { kind: PinKind::Tool, key: "tools", read: ToolDescription::from_raw };
        list.hold_back(&mut catalog.tools, |tool| (tool.name(), tool.object()), verdicts, &identity);
    }
    if lists.prompts {
        let list = ListShape { kind: PinKind::Prompt, key: "prompts", read: PromptDescription::from_raw };
        list.hold_back(&mut catalog.prompts, |prompt| (prompt.name(), prompt.object()), verdicts, &identity);
    }
    if lists.resources {
        let list = ListShape { kind: PinKind::Resource, key: "resources", read: ResourceDescription::from_raw };
        list.hold_back(&mut catalog.resources, |item| (item.uri(), item.object()), verdicts, &identity);
        let read = ResourceDescription::template_from_raw;
        let list = ListShape { kind: PinKind::Template, key: "resourceTemplates", read };
        list.hold_back(&mut catalog.templates, |item| (item.uri(), item.object()), verdicts, &identity);
    }
}

/// Who the server is, with what is pinned where that differs.
fn held_identity(identity: &Arc<ServerIdentity>, verdicts: &OfferVerdicts) -> Arc<ServerIdentity> {
    let (info, instructions) = (verdicts.of(PinKind::Info, ""), verdicts.of(PinKind::Instructions, ""));
    if *info == ItemVerdict::Pass && *instructions == ItemVerdict::Pass {
        return identity.clone();
    }
    let mut held = ServerIdentity::clone(identity);
    match info {
        ItemVerdict::Pass => {}
        ItemVerdict::Keep(old) => held.info = RawJson::parse(old.clone().into()).ok(),
        ItemVerdict::Hide => held.info = None,
    }
    match instructions {
        ItemVerdict::Pass => {}
        ItemVerdict::Keep(old) => held.instructions = serde_json::from_str(old).ok(),
        ItemVerdict::Hide => held.instructions = None,
    }
    Arc::new(held)
}

/// One of the lists, and how its entries are read.
struct ListShape<T> {
    kind: PinKind,
    key: &'static str,
    read: fn(&RawJson) -> Option<T>,
}

impl<T> ListShape<T> {
    fn hold_back(
        &self,
        list: &mut CatalogList<T>,
        look: for<'a> fn(&'a T) -> (&'a str, &'a JsonObject),
        verdicts: &OfferVerdicts,
        identity: &ServerIdentity,
    ) {
        let mut kept = std::collections::HashSet::new();
        let shown = |item: &T| -> Option<RawJson> {
            let (name, object) = look(item);
            match verdicts.of(self.kind, name) {
                ItemVerdict::Pass => Some(object.raw()),
                // Listed once, however often the server lists the name.
                ItemVerdict::Keep(old) if kept.insert(name.to_owned()) => RawJson::parse(old.clone().into()).ok(),
                ItemVerdict::Keep(_) | ItemVerdict::Hide => None,
            }
        };
        let raw: Vec<RawJson> = list.items.iter().filter_map(shown).collect();
        list.items = raw.iter().filter_map(self.read).collect();
        list.result = list_result(self.key, &raw, list.freshness, identity, &list.result);
    }
}

/// Judges the program that a server is about to be run from: true when it may be started. Reads the program.
pub(crate) fn may_start(
    command: &JobCommand,
    mask: &SecretMask,
    server: &str,
    (store, policy): (&PinStore, PinPolicy),
) -> bool {
    let words = std::iter::once(&command.program).chain(&command.args);
    let words = words.map(|word| mask.mask(&word.to_string_lossy())).collect();
    let path: Option<OsString> = command.env.get("PATH".as_ref() as &std::ffi::OsStr).cloned();
    let path = path.or_else(|| std::env::var_os("PATH"));
    let found = CommandDefinition::look_up(words, &command.program, path.as_deref(), command.cwd.as_deref());
    let mut offer = DefinitionOffer::default();
    offer.add(PinKind::Command, &platform(), &found.to_json());
    store.judge(server, policy, &offer, OfferSource::Live, Instant::now()).is_clean()
}
