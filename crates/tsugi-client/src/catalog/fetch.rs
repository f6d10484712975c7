//! Fetching lists: all pages, bounded, each list by itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tsugi_protocol::answer::{Answer, Call, CallFailure, CallStage, Fault, FaultCode, Outcome};
use tsugi_protocol::codec::limit::InputLimits;
use tsugi_protocol::era::to_modern;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson, lenient};
use tsugi_protocol::mcp::cache_hints::CacheHints;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::prompt::PromptDescription;
use tsugi_protocol::mcp::resource::ResourceDescription;
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_protocol::mcp::{ClientProfile, Method, ServerIdentity};
use tsugi_protocol::rpc::code;
use tsugi_schema::header_param::HeaderParams;

use super::{Catalog, CatalogList, OmittedEntry, list_result};

/// A list is not fetched more often than this for its age, whatever its server says.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// Which lists to fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListSelection {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

impl ListSelection {
    pub(crate) const ALL: ListSelection = ListSelection { tools: true, resources: true, prompts: true };

    /// These lists and those.
    pub(crate) fn with(self, those: ListSelection) -> ListSelection {
        ListSelection {
            tools: self.tools || those.tools,
            resources: self.resources || those.resources,
            prompts: self.prompts || those.prompts,
        }
    }

    /// These lists, but for those.
    pub(crate) fn without(self, those: ListSelection) -> ListSelection {
        ListSelection {
            tools: self.tools && !those.tools,
            resources: self.resources && !those.resources,
            prompts: self.prompts && !those.prompts,
        }
    }
}

/// Fetches lists through `server` and puts them in place of the old ones. A list that cannot be fetched
/// keeps its old entries and says why.
pub(crate) async fn fetch(
    server: &dyn Answer,
    profile: &Arc<ClientProfile>,
    old: Option<&Catalog>,
    identity: Arc<ServerIdentity>,
    lists: ListSelection,
    wire: ListWire,
) -> Catalog {
    let has = |feature: &str| identity.capabilities.has(feature);
    let mut catalog = old.cloned().unwrap_or_else(|| Catalog::empty(identity.clone()));
    catalog.identity = identity.clone();
    // Even when nothing differs: a reader can then tell that the lists were looked at.
    catalog.generation += 1;
    let source = PageFetcher { server, profile, identity: &identity, wire };
    if lists.tools {
        source.refresh(has("tools"), &mut catalog.tools, &Method::ToolsList, "tools", ToolDescription::from_raw).await;
    }
    if lists.resources {
        let offered = has("resources");
        source
            .refresh(
                offered,
                &mut catalog.resources,
                &Method::ResourcesList,
                "resources",
                ResourceDescription::from_raw,
            )
            .await;
        let read = ResourceDescription::template_from_raw;
        source.refresh(offered, &mut catalog.templates, &Method::TemplatesList, "resourceTemplates", read).await;
    }
    if lists.prompts {
        source
            .refresh(has("prompts"), &mut catalog.prompts, &Method::PromptsList, "prompts", PromptDescription::from_raw)
            .await;
    }
    catalog
}

/// When a list that was fetched now is stale; `None` when its server does not say.
fn stale_at(freshness: CacheHints, now: Instant) -> Option<Instant> {
    let ttl = Some(Duration::from_millis(freshness.ttl_ms)).filter(|ttl| !ttl.is_zero())?;
    // A server may claim a freshness that no clock can hold.
    now.checked_add(ttl.max(SHORTEST_TTL))
}

struct PageFetcher<'a> {
    server: &'a dyn Answer,
    profile: &'a Arc<ClientProfile>,
    identity: &'a ServerIdentity,
    wire: ListWire,
}

/// Which wire the lists come over: tools whose arguments cannot be mirrored into headers are unusable over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListWire {
    ModernHttp,
    Other,
}

/// What all pages of a list hold together.
struct FetchedList {
    items: Vec<RawJson>,
    freshness: CacheHints,
    /// The members of the first page's result, for those we do not know.
    first: JsonObject,
}

impl PageFetcher<'_> {
    async fn refresh<T>(
        &self,
        is_offered: bool,
        listing: &mut CatalogList<T>,
        method: &Method,
        key: &str,
        read: fn(&RawJson) -> Option<T>,
    ) {
        let fetched = if is_offered { self.all(method, key).await } else { Ok(None) };
        match fetched {
            Ok(Some(mut whole)) => {
                listing.left_out = whole.items.iter().filter_map(left_out).collect();
                // The reader left a placeholder for an entry that it could not accept.
                whole.items.retain(|item| left_out(item).is_none());
                if self.wire == ListWire::ModernHttp && *method == Method::ToolsList {
                    whole.items.retain(has_usable_headers);
                }
                listing.items = whole.items.iter().filter_map(read).collect();
                listing.result = list_result(key, &whole.items, whole.freshness, self.identity, &whole.first);
                listing.freshness = whole.freshness;
                listing.stale_at = stale_at(whole.freshness, Instant::now());
                listing.fault = None;
            }
            Ok(None) => *listing = CatalogList { result: empty_list(key, self.identity), ..CatalogList::default() },
            Err(fault) => listing.fault = Some(fault.at(CallStage::List)),
        }
    }

    /// Every page; `None` when the server does not know the list although it promised it.
    async fn all(&self, method: &Method, key: &str) -> Result<Option<FetchedList>, Fault> {
        let mut whole: Option<FetchedList> = None;
        let mut cursor = None;
        // Some servers return the same cursor again and again.
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for _ in 0..InputLimits::PAGES {
            // A server may forget a method halfway; what came before still counts.
            let Some(page) = self.page(method, cursor.as_ref()).await? else { return Ok(whole) };
            bytes += page.bytes().len();
            if bytes > InputLimits::ANSWER {
                return Err(unacceptable("the list is larger than 64 MiB"));
            }
            // Some servers write `null` where the last page should have no cursor.
            cursor = page.get("nextCursor").filter(|cursor| !cursor.is_null());
            add_page(&mut whole, key, &page)?;
            match &cursor {
                None => return Ok(whole),
                Some(cursor) if !seen.insert(cursor.clone()) => {
                    return Err(unacceptable("the list goes round in a circle: the same cursor twice"));
                }
                Some(_) => {}
            }
        }
        Err(unacceptable(format!("the list has more than {} pages", InputLimits::PAGES)))
    }

    async fn page(&self, method: &Method, cursor: Option<&RawJson>) -> Result<Option<JsonObject>, Fault> {
        let mut params = ObjectWriter::with_capacity(64);
        if let Some(cursor) = cursor {
            params.raw("cursor", cursor);
        }
        let mut call = Call::new(method.clone(), params.finish_object());
        call.meta = RequestMeta::of_client(self.profile.clone());
        match self.server.answer(call).outcome().await {
            Outcome::Complete(complete) => Ok(Some(to_modern::result(&complete, method))),
            Outcome::Failed(CallFailure::Upstream(error)) if error.code() == code::METHOD_NOT_FOUND => Ok(None),
            Outcome::Failed(CallFailure::Upstream(error)) => {
                Err(Fault::new(FaultCode::ExecutionFailed, format!("{method}: {}", error.message())))
            }
            Outcome::Failed(CallFailure::Fault(fault)) => Err(*fault),
            Outcome::InputRequired(_) => Err(unacceptable(format!("{method} asks for input"))),
        }
    }
}

/// What was left out of an answer when it was read.
fn left_out(raw: &RawJson) -> Option<OmittedEntry> {
    let entry = JsonObject::of(raw)?;
    let reason = entry.get_str(lenient::LEFT_OUT)?.into_owned();
    let name = ["name", "uri", "uriTemplate"].iter().find_map(|key| entry.get_str(key));
    Some(OmittedEntry { name: name.map(Into::into).unwrap_or_default(), reason })
}

/// The specification demands that a tool with an invalid `x-mcp-header` is left out
/// ([x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header)).
fn has_usable_headers(raw: &RawJson) -> bool {
    let Some(tool) = ToolDescription::from_raw(raw) else { return true };
    let Some(schema) = tool.input_schema().and_then(|schema| schema.to().ok()) else { return true };
    match HeaderParams::of(&schema) {
        Ok(_) => true,
        Err(reason) => {
            tracing::warn!(tool = tool.name(), %reason, "a tool is left out: its header annotation is invalid");
            false
        }
    }
}

fn add_page(whole: &mut Option<FetchedList>, key: &str, page: &JsonObject) -> Result<(), Fault> {
    let items = page.get(key).ok_or_else(|| unacceptable(format!("the answer has no `{key}`")))?;
    // Copied, so that a catalog does not keep the buffers of the wire alive.
    let items: Vec<RawJson> = items.to().map_err(|error| unacceptable(format!("`{key}` is not a list: {error}")))?;
    let freshness = CacheHints::of(page);
    match whole {
        Some(whole) => {
            whole.items.extend(items);
            whole.freshness = whole.freshness.narrowest(freshness);
        }
        none => *none = Some(FetchedList { items, freshness, first: detached(page, key) }),
    }
    Ok(())
}

/// The members of a page without its entries, copied out of the page's buffer.
fn detached(page: &JsonObject, key: &str) -> JsonObject {
    let mut rest = ObjectWriter::with_capacity(128);
    rest.members_except(page, &[key]);
    rest.finish_object()
}

fn empty_list(key: &str, identity: &ServerIdentity) -> JsonObject {
    list_result(key, &[], CacheHints::NONE, identity, &JsonObject::empty())
}

fn unacceptable(why: impl Into<String>) -> Fault {
    Fault::new(FaultCode::InvalidResponse, why)
}
