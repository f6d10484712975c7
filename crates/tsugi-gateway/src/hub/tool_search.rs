//! Two tools in the place of hundreds: `search_tools` finds what a sentence asks for, `call_tool` calls it.
//!
//! Both are stateless. A search shows only what the list would show this caller, by the same decision, and `call_tool`
//! becomes the call that it names before anything is routed. Permits, limits, validation and the audit log therefore
//! see the tool itself.

mod answer;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, CompletedResult, Fault};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_search::{ToolDocument, ToolIndex, ToolParameter};

use super::list::ListKind;
use super::page::{self, ListPage};
use super::snapshot::{HubSnapshot, PublicEntry};
use crate::guard::caller_access::CallerAccess;

/// What `tools/list` of all servers together lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolListing {
    /// Every tool that the caller may use.
    #[default]
    All,
    /// `search_tools` and `call_tool`. Tools can still be called by their own names.
    Search,
    /// Every tool while their descriptions are small together, else the two.
    Auto,
}

/// With `Auto`, tools whose descriptions have more bytes than this are searched: about ten thousand tokens.
const AUTO_BYTES: usize = 32 << 10;

/// The most bytes that the groups in the description of `search_tools` may have, however many servers there are.
const OUTLINE_BYTES: usize = 2000;

/// The tools of tool search itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchTool {
    Search,
    Call,
}

impl SearchTool {
    const ALL: [SearchTool; 2] = [SearchTool::Search, SearchTool::Call];

    const fn name(self) -> &'static str {
        match self {
            SearchTool::Search => "search_tools",
            SearchTool::Call => "call_tool",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The one that a call names, where search is on. With `Auto` they can be called whatever is listed: a client may
    /// hold an older list.
    pub(super) fn called_by(call: &Call, snapshot: &HubSnapshot) -> Option<Self> {
        let is_on = snapshot.search.listing != ToolListing::All && call.method == Method::ToolsCall;
        is_on.then(|| call.subject().and_then(|name| Self::named(&name))).flatten()
    }
}

impl ToolListing {
    /// True for names that no server's tool may have, since they are ours.
    pub(super) fn reserves(self, name: &str) -> bool {
        self != ToolListing::All && SearchTool::named(name).is_some()
    }
}

/// Tool search over one snapshot. The index is made when the first search needs it.
pub(super) struct SearchState {
    listing: ToolListing,
    index: OnceLock<Arc<ToolIndex>>,
}

/// The newest index, from which the next one takes over the tools that did not change.
#[derive(Default)]
pub(super) struct LastIndex(Mutex<Option<Arc<ToolIndex>>>);

impl SearchState {
    pub(super) fn new(listing: ToolListing) -> Self {
        Self { listing, index: OnceLock::new() }
    }

    pub(super) fn listing(&self) -> ToolListing {
        self.listing
    }

    fn index(&self, snapshot: &HubSnapshot, last: &LastIndex) -> &Arc<ToolIndex> {
        self.index.get_or_init(|| {
            let documents = snapshot.tools.iter().map(|(name, entry)| document(name, entry)).collect();
            // Locked while the index is made: a second snapshot would do the same work once more.
            let mut last = last.0.lock();
            let index = Arc::new(match &*last {
                Some(known) => known.updated(documents),
                None => ToolIndex::new(documents),
            });
            *last = Some(index.clone());
            index
        })
    }
}

fn document(name: &str, entry: &PublicEntry) -> ToolDocument {
    let tool = ToolDescription::from_raw(&entry.shown);
    let schema: Option<Value> = tool.as_ref().and_then(|tool| tool.input_schema()?.to_lossy().ok());
    let properties = schema.as_ref().and_then(|schema| schema["properties"].as_object());
    let parameter = |(name, property): (&String, &Value)| ToolParameter {
        name: name.clone(),
        description: property["description"].as_str().unwrap_or_default().to_owned(),
    };
    ToolDocument {
        name: name.to_owned(),
        own_name: entry.local().to_owned(),
        title: tool.as_ref().and_then(ToolDescription::title).unwrap_or_default(),
        description: tool.as_ref().and_then(ToolDescription::description).unwrap_or_default(),
        server: entry.server.name().to_owned(),
        parameters: properties.into_iter().flatten().map(parameter).collect(),
    }
}

impl HubSnapshot {
    /// True when this caller is shown the two tools of search in the place of its list.
    pub(super) fn is_searched(&self, access: &CallerAccess) -> bool {
        match self.search.listing {
            ToolListing::All => false,
            ToolListing::Search => true,
            ToolListing::Auto => {
                self.shown_tools(access).map(|(_, entry)| entry.shown.bytes().len()).sum::<usize>() > AUTO_BYTES
            }
        }
    }

    /// The tools that this caller may use, in order: what its list would have.
    fn shown_tools(&self, access: &CallerAccess) -> impl Iterator<Item = (&str, &PublicEntry)> {
        self.tools.iter().filter(|(_, entry)| access.lists(entry.server.name(), NameKind::Tool, &entry.own))
    }
}

/// The list of a caller that searches. Its bytes depend on the names of servers and tools that the caller may use, and
/// on nothing else, so that a model's prompt cache stays valid while descriptions and schemas change.
pub(super) fn page(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Result<CompletedResult, Fault> {
    if page::after(ListKind::Tools.key(), call)?.is_some() {
        return Err(page::gone());
    }
    let shown = snapshot.shown_tools(access).map(|(_, entry)| (entry.server.name(), entry.local()));
    let outline = tsugi_search::outline(shown, OUTLINE_BYTES);
    let items = [search_description(&outline), call_description()];
    let items = items.iter().map(RawJson::as_str).collect();
    let freshness = snapshot.freshness(ListKind::Tools);
    // The groups depend on what the caller may use.
    let scope = if access.is_restricted() { CacheScope::Private } else { freshness.scope };
    let listed = ListPage { items, last: None, next: None };
    let body = snapshot.write(ListKind::Tools, &listed, CacheHints { scope, ..freshness });
    Ok(CompletedResult { body, era: Era::Modern, server: None })
}

fn search_description(outline: &str) -> RawJson {
    let description = format!(
        "Finds tools by what they do and returns their names, descriptions and input schemas. These tools are not in \
         your list: search before you decide that something cannot be done. Call what you found with call_tool.\n\n\
         Servers, and what their tools are about:\n{outline}"
    );
    RawJson::from(json!({
        "name": SearchTool::Search.name(),
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in plain words, or its exact name."},
                "server": {"type": "string", "description": "Only tools of this server."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "description": "How many tools; 5 if absent."}
            },
            "required": ["query"]
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false}
    }))
}

fn call_description() -> RawJson {
    RawJson::from(json!({
        "name": SearchTool::Call.name(),
        "description": "Calls a tool that search_tools found. The arguments must fit the input schema found with it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name, exactly as found."},
                "arguments": {"type": "object", "description": "The tool's arguments."}
            },
            "required": ["name"]
        }
    }))
}
