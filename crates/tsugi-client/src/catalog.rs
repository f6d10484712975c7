//! What a server offers: every page of every list, in the order the server gave, until it changes.

mod fetch;
pub(crate) mod manifest;
pub(crate) mod pinning;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use tsugi_protocol::answer::{CompletedResult, Fault, Outcome};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::cache_hints::CacheHints;
use tsugi_protocol::mcp::prompt::PromptDescription;
use tsugi_protocol::mcp::resource::ResourceDescription;
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_protocol::mcp::{Era, Method, ServerIdentity, extension};
use tsugi_schema::header_param::HeaderParams;

pub(crate) use fetch::{ListSelection, ListWire, fetch};

/// What one server offers at one moment. It never changes; a newer one replaces it.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Counts up with every change.
    pub generation: u64,
    /// Who offers it.
    pub identity: Arc<ServerIdentity>,
    pub tools: CatalogList<ToolDescription>,
    pub resources: CatalogList<ResourceDescription>,
    pub templates: CatalogList<ResourceDescription>,
    pub prompts: CatalogList<PromptDescription>,
}

#[derive(Debug, Clone)]
pub struct CatalogList<T> {
    /// The entries, in the server's order.
    pub items: Vec<T>,
    /// How long the list may be taken as fresh, by the server's word.
    pub freshness: CacheHints,
    /// From when on it is stale, where the server said that it is fresh for a while.
    stale_at: Option<Instant>,
    /// Why the list could not be fetched; the items are then those of before.
    pub fault: Option<Fault>,
    /// Entries that cannot be offered.
    pub left_out: Vec<OmittedEntry>,
    result: JsonObject,
}

/// An entry of a list that cannot be offered; the others are.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OmittedEntry {
    /// Its name or its address.
    pub name: String,
    pub reason: String,
}

impl<T> Default for CatalogList<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            freshness: CacheHints::NONE,
            stale_at: None,
            fault: None,
            left_out: Vec::new(),
            result: JsonObject::empty(),
        }
    }
}

impl<T> CatalogList<T> {
    fn size(&self) -> (usize, usize) {
        (self.items.len(), self.result.bytes().len())
    }
}

impl Catalog {
    pub fn empty(identity: Arc<ServerIdentity>) -> Self {
        Self {
            generation: 0,
            identity,
            tools: CatalogList::default(),
            resources: CatalogList::default(),
            templates: CatalogList::default(),
            prompts: CatalogList::default(),
        }
    }

    /// Whether the server may answer calls with tasks.
    pub fn has_tasks(&self) -> bool {
        self.identity.version.era() == Era::Modern && self.identity.capabilities.has_extension(extension::TASKS)
    }

    /// The tool with this name.
    pub fn tool(&self, name: &str) -> Option<&ToolDescription> {
        self.tools.items.iter().find(|tool| tool.name() == name)
    }

    /// Whether the server has a tool of this name, even one that cannot be offered.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tool(name).is_some() || self.tools.left_out.iter().any(|entry| entry.name == name)
    }

    /// Why lists could not be fetched, one fault for each of them.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        let faults = [&self.tools.fault, &self.resources.fault, &self.templates.fault, &self.prompts.fault];
        faults.into_iter().flatten()
    }

    /// Those of these lists that could not be fetched.
    pub(crate) fn failed(&self, lists: ListSelection) -> ListSelection {
        ListSelection {
            tools: lists.tools && self.tools.fault.is_some(),
            resources: lists.resources && (self.resources.fault.is_some() || self.templates.fault.is_some()),
            prompts: lists.prompts && self.prompts.fault.is_some(),
        }
    }

    /// Those lists that are stale by the server's own word, where it does not tell of changes.
    pub(crate) fn stale(&self, now: Instant) -> ListSelection {
        let is_stale = |feature: &str, times: &[Option<Instant>]| {
            let has_passed = times.iter().flatten().any(|stale_at| *stale_at <= now);
            // A server that sends notifications is believed: its list is fresh until it sends one.
            has_passed && !self.identity.capabilities.has_list_changed(feature)
        };
        ListSelection {
            tools: is_stale("tools", &[self.tools.stale_at]),
            resources: is_stale("resources", &[self.resources.stale_at, self.templates.stale_at]),
            prompts: is_stale("prompts", &[self.prompts.stale_at]),
        }
    }

    /// Which arguments of which tools are mirrored into headers.
    pub fn header_params(&self) -> HashMap<String, HeaderParams> {
        let params = |tool: &ToolDescription| {
            HeaderParams::of(&tool.input_schema()?.to().ok()?).ok().filter(|params| !params.is_empty())
        };
        self.tools.items.iter().filter_map(|tool| Some((tool.name().to_owned(), params(tool)?))).collect()
    }

    /// How many entries a list has, and how many bytes its answer; nothing for other requests.
    pub fn size(&self, method: &Method) -> (usize, usize) {
        match method {
            Method::ToolsList => self.tools.size(),
            Method::ResourcesList => self.resources.size(),
            Method::TemplatesList => self.templates.size(),
            Method::PromptsList => self.prompts.size(),
            _ => (0, 0),
        }
    }

    /// The answer to a list request, from what is known; `None` for other requests.
    pub fn answer(&self, method: &Method) -> Option<Outcome> {
        let (result, fault) = match method {
            Method::ToolsList => (&self.tools.result, &self.tools.fault),
            Method::ResourcesList => (&self.resources.result, &self.resources.fault),
            Method::TemplatesList => (&self.templates.result, &self.templates.fault),
            Method::PromptsList => (&self.prompts.result, &self.prompts.fault),
            _ => return None,
        };
        match fault {
            // A list that could not be fetched again is still better than none.
            Some(fault) if result.is_empty() => Some(Outcome::fault(fault.clone())),
            _ => {
                let server = Some(self.identity.clone());
                Some(Outcome::Complete(CompletedResult { body: result.clone(), era: Era::Modern, server }))
            }
        }
    }
}

/// Writes the whole list as one modern result.
fn list_result(
    key: &str,
    items: &[RawJson],
    freshness: CacheHints,
    identity: &ServerIdentity,
    rest: &JsonObject,
) -> JsonObject {
    let size = items.iter().map(|item| item.bytes().len() + 1).sum::<usize>();
    let mut array = Vec::with_capacity(size + 2);
    array.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        array.extend_from_slice(item.bytes());
    }
    array.push(b']');
    // Parsed once here, so that every caller gets the same proven bytes.
    let array = RawJson::parse(array.into()).expect("an array of values is a value");
    let mut result = ObjectWriter::with_capacity(size + 256);
    result.string("resultType", "complete").raw(key, &array);
    result.number("ttlMs", freshness.ttl_ms).string("cacheScope", freshness.scope.as_str());
    // We answer with one page, so the cursor of the server's first page must not leak into it.
    let known = [key, "resultType", "ttlMs", "cacheScope", "nextCursor", "_meta"];
    result.members(rest, |member| !known.contains(&member));
    result.raw("_meta", &meta(identity, rest));
    result.finish_object()
}

fn meta(identity: &ServerIdentity, rest: &JsonObject) -> RawJson {
    use tsugi_protocol::mcp::meta::SERVER_INFO;
    let mut meta = ObjectWriter::with_capacity(128);
    if let Some(info) = &identity.info {
        meta.raw(SERVER_INFO, info);
    }
    if let Some(own) = rest.get_object("_meta") {
        // The identity that was agreed on wins over what a list repeats.
        meta.members(&own, |key| key != SERVER_INFO || identity.info.is_none());
    }
    meta.finish()
}
