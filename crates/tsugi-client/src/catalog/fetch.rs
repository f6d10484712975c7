//! Fetching lists: all pages, bounded, each list by itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tsugi_protocol::answer::{Answer, Call, Failure, Fault, FaultCode, Outcome, Stage};
use tsugi_protocol::codec::limit::Limits;
use tsugi_protocol::era::to_modern;
use tsugi_protocol::json::{Object, Raw, Splice, skim};
use tsugi_protocol::mcp::freshness::Freshness;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::prompt::Prompt;
use tsugi_protocol::mcp::resource::Resource;
use tsugi_protocol::mcp::tool::Tool;
use tsugi_protocol::mcp::{ClientProfile, Method, ServerIdentity};
use tsugi_protocol::rpc::code;
use tsugi_schema::header_param::HeaderParams;

use super::{Catalog, LeftOut, Listing, list_result};

/// A list is not fetched more often than this for its age, whatever its server says.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// Which lists to fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

impl Lists {
    pub(crate) const ALL: Lists = Lists { tools: true, resources: true, prompts: true };

    /// These lists and those.
    pub(crate) fn with(self, those: Lists) -> Lists {
        Lists {
            tools: self.tools || those.tools,
            resources: self.resources || those.resources,
            prompts: self.prompts || those.prompts,
        }
    }

    /// These lists, but for those.
    pub(crate) fn without(self, those: Lists) -> Lists {
        Lists {
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
    lists: Lists,
    wire: Wire,
) -> Catalog {
    let has = |feature: &str| identity.capabilities.has(feature);
    let mut catalog = old.cloned().unwrap_or_else(|| Catalog::empty(identity.clone()));
    catalog.identity = identity.clone();
    catalog.generation += 1;
    let source = Pages { server, profile, identity: &identity, wire };
    if lists.tools {
        source.refresh(has("tools"), &mut catalog.tools, &Method::ToolsList, "tools", Tool::from_raw).await;
    }
    if lists.resources {
        let offered = has("resources");
        source.refresh(offered, &mut catalog.resources, &Method::ResourcesList, "resources", Resource::from_raw).await;
        let read = Resource::template_from_raw;
        source.refresh(offered, &mut catalog.templates, &Method::TemplatesList, "resourceTemplates", read).await;
    }
    if lists.prompts {
        source.refresh(has("prompts"), &mut catalog.prompts, &Method::PromptsList, "prompts", Prompt::from_raw).await;
    }
    catalog
}

/// When a list that was fetched now is stale; `None` when its server does not say.
fn stale_at(freshness: Freshness, now: Instant) -> Option<Instant> {
    let ttl = Some(Duration::from_millis(freshness.ttl_ms)).filter(|ttl| !ttl.is_zero())?;
    now.checked_add(ttl.max(SHORTEST_TTL))
}

struct Pages<'a> {
    server: &'a dyn Answer,
    profile: &'a Arc<ClientProfile>,
    identity: &'a ServerIdentity,
    wire: Wire,
}

/// Which wire the lists come over: tools whose arguments cannot be mirrored into headers are unusable over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Modern HTTP.
    ModernHttp,
    /// Any other.
    Other,
}

/// What all pages of a list hold together.
struct Whole {
    items: Vec<Raw>,
    freshness: Freshness,
    /// The members of the first page's result, for those we do not know.
    first: Object,
}

impl Pages<'_> {
    async fn refresh<T>(
        &self,
        is_offered: bool,
        listing: &mut Listing<T>,
        method: &Method,
        key: &str,
        read: fn(&Raw) -> Option<T>,
    ) {
        let fetched = if is_offered { self.all(method, key).await } else { Ok(None) };
        match fetched {
            Ok(Some(mut whole)) => {
                listing.left_out = whole.items.iter().filter_map(left_out).collect();
                whole.items.retain(|item| left_out(item).is_none());
                if self.wire == Wire::ModernHttp && *method == Method::ToolsList {
                    whole.items.retain(has_usable_headers);
                }
                listing.items = whole.items.iter().filter_map(read).collect();
                listing.result = list_result(key, &whole.items, whole.freshness, self.identity, &whole.first);
                listing.freshness = whole.freshness;
                listing.stale_at = stale_at(whole.freshness, Instant::now());
                listing.fault = None;
            }
            Ok(None) => *listing = Listing { result: empty_list(key, self.identity), ..Listing::default() },
            Err(fault) => listing.fault = Some(fault.at(Stage::List)),
        }
    }

    /// Every page; `None` when the server does not know the list although it promised it.
    async fn all(&self, method: &Method, key: &str) -> Result<Option<Whole>, Fault> {
        let mut whole: Option<Whole> = None;
        let mut cursor = None;
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for _ in 0..Limits::PAGES {
            let Some(page) = self.page(method, cursor.as_ref()).await? else { return Ok(whole) };
            bytes += page.bytes().len();
            if bytes > Limits::ANSWER {
                return Err(unacceptable("the list is larger than 64 MiB"));
            }
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
        Err(unacceptable(format!("the list has more than {} pages", Limits::PAGES)))
    }

    async fn page(&self, method: &Method, cursor: Option<&Raw>) -> Result<Option<Object>, Fault> {
        let mut params = Splice::with_capacity(64);
        if let Some(cursor) = cursor {
            params.raw("cursor", cursor);
        }
        let mut call = Call::new(method.clone(), params.finish_object());
        call.meta = RequestMeta::of_client(self.profile.clone());
        match self.server.answer(call).outcome().await {
            Outcome::Complete(complete) => Ok(Some(to_modern::result(&complete, method))),
            Outcome::Failed(Failure::Upstream(error)) if error.code() == code::METHOD_NOT_FOUND => Ok(None),
            Outcome::Failed(Failure::Upstream(error)) => {
                Err(Fault::new(FaultCode::ExecutionFailed, format!("{method}: {}", error.message())))
            }
            Outcome::Failed(Failure::Fault(fault)) => Err(*fault),
            Outcome::InputRequired(_) => Err(unacceptable(format!("{method} asks for input"))),
        }
    }
}

/// What was left out of an answer when it was read.
fn left_out(raw: &Raw) -> Option<LeftOut> {
    let entry = Object::of(raw)?;
    let reason = entry.get_str(skim::LEFT_OUT)?.into_owned();
    let name = ["name", "uri", "uriTemplate"].iter().find_map(|key| entry.get_str(key));
    Some(LeftOut { name: name.map(Into::into).unwrap_or_default(), reason })
}

/// The specification demands that a tool with an invalid `x-mcp-header` is left out
/// ([x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header)).
fn has_usable_headers(raw: &Raw) -> bool {
    let Some(tool) = Tool::from_raw(raw) else { return true };
    let Some(schema) = tool.input_schema().and_then(|schema| schema.to().ok()) else { return true };
    match HeaderParams::of(&schema) {
        Ok(_) => true,
        Err(reason) => {
            tracing::warn!(tool = tool.name(), %reason, "a tool is left out: its header annotation is invalid");
            false
        }
    }
}

fn add_page(whole: &mut Option<Whole>, key: &str, page: &Object) -> Result<(), Fault> {
    let items = page.get(key).ok_or_else(|| unacceptable(format!("the answer has no `{key}`")))?;
    // Copied, so that a catalog does not keep the buffers of the wire alive.
    let items: Vec<Raw> = items.to().map_err(|error| unacceptable(format!("`{key}` is not a list: {error}")))?;
    let freshness = Freshness::of(page);
    match whole {
        Some(whole) => {
            whole.items.extend(items);
            whole.freshness = whole.freshness.narrowest(freshness);
        }
        none => *none = Some(Whole { items, freshness, first: detached(page, key) }),
    }
    Ok(())
}

/// The members of a page without its entries, in a buffer of their own.
fn detached(page: &Object, key: &str) -> Object {
    let mut rest = Splice::with_capacity(128);
    rest.members_but(page, &[key]);
    rest.finish_object()
}

fn empty_list(key: &str, identity: &ServerIdentity) -> Object {
    list_result(key, &[], Freshness::NONE, identity, &Object::empty())
}

fn unacceptable(why: impl Into<String>) -> Fault {
    Fault::new(FaultCode::InvalidResponse, why)
}
