//! What `search_tools` and `call_tool` answer.

use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, Outcome, Reply};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::meta;

use super::SearchTool;
use crate::guard::caller_access::CallerAccess;
use crate::hub::snapshot::{HubSnapshot, PublicEntry, own_info};
use crate::hub::{Hub, complete};

/// How many tools an answer has when the caller does not say.
const USUAL_COUNT: usize = 5;
const MOST_TOOLS: usize = 20;

/// An answer may have this many bytes before further tools come without their schemas.
const ANSWER_BYTES: usize = 24 << 10;

impl SearchTool {
    /// Answers a call of one of our own tools.
    pub(in crate::hub) fn answer(self, hub: &Hub, call: Call, access: CallerAccess) -> Reply {
        match self {
            // A search right after the start waits for the lists, as a list does.
            SearchTool::Search => hub.reply_when_settled(call, move |hub, snapshot, call| {
                found(hub, snapshot, &call.params.get_object("arguments").unwrap_or_else(JsonObject::empty), &access)
            }),
            SearchTool::Call => match named_call(call) {
                Ok(call) => hub.forward(call, access),
                Err(text) => Reply::ready(tool_error(text)),
            },
        }
    }
}

/// The call that `call_tool` names. Everything but name and arguments stays, so that a retry with a server's answers
/// finds the call that waits for them.
fn named_call(mut call: Call) -> Result<Call, &'static str> {
    let given = call.params.get_object("arguments").ok_or("`arguments` with the tool's `name` is missing")?;
    let name = given.get_str("name").ok_or("`name` is missing: it is the name of a tool that search_tools found")?;
    // Otherwise nesting could make one request walk this path many times.
    if SearchTool::named(&name).is_some() {
        return Err("call_tool calls the tools that search_tools finds, and neither is one of them");
    }
    let arguments = given.get("arguments").filter(|arguments| !arguments.is_null());
    if arguments.as_ref().is_some_and(|arguments| !arguments.is_object()) {
        return Err("`arguments` must be an object that fits the tool's input schema");
    }
    let mut params = ObjectWriter::with_capacity(call.params.bytes().len());
    params.string("name", &name).members_except(&call.params, &["name", "arguments"]);
    if let Some(arguments) = &arguments {
        params.raw("arguments", arguments);
    }
    call.params = params.finish_object();
    Ok(call)
}

fn found(hub: &Hub, snapshot: &HubSnapshot, arguments: &JsonObject, access: &CallerAccess) -> Outcome {
    let Some(query) = arguments.get_lossy("query").filter(|query| !query.trim().is_empty()) else {
        return tool_error("`query` is missing: say in a few words what the tool should do");
    };
    let server = arguments.get_str("server");
    let limit = arguments.get("limit").and_then(|limit| limit.to::<usize>().ok()).unwrap_or(USUAL_COUNT);
    let index = snapshot.search.index(snapshot, &hub.0.feed.last_index);
    let entry = |tool: usize| snapshot.tools.get(&index.document(tool)?.name);
    // The decision that lists and calls are under.
    let is_shown = |entry: &PublicEntry| {
        access.lists(entry.server.name(), NameKind::Tool, &entry.own)
            && server.as_deref().is_none_or(|server| entry.server.name() == server)
    };
    let hits = index.search(
        &query,
        limit.clamp(1, MOST_TOOLS),
        |tool| entry(tool).is_some_and(is_shown),
        |tool| entry(tool).and_then(|entry| entry.meter.as_ref()).map_or(0, |meter| meter.successes()),
    );
    // A model that knows the name wants that tool, whatever else its words fit.
    let exact = snapshot.tools.get(query.trim()).filter(|entry| is_shown(entry));
    let others = hits.iter().filter_map(|hit| entry(hit.tool));
    let others = others.filter(|other| exact.is_none_or(|exact| !std::ptr::eq(*other, exact)));
    let tools: Vec<&PublicEntry> = exact.into_iter().chain(others).take(limit.clamp(1, MOST_TOOLS)).collect();
    text_result(&written(&tools), false)
}

/// The tools as JSON. One whose schema has no room says so.
fn written(tools: &[&PublicEntry]) -> String {
    if tools.is_empty() {
        return r#"{"tools":[],"hint":"no tool fits: try other words, or words of the groups in the description"}"#
            .to_owned();
    }
    let mut room = ANSWER_BYTES;
    let mut items: Vec<RawJson> = Vec::with_capacity(tools.len());
    for entry in tools {
        let Some(object) = JsonObject::of(&entry.shown) else { continue };
        let whole = selected(&object, &["name", "description", "inputSchema", "annotations"]).finish();
        // The first comes whole, however large it is.
        let item = match items.is_empty() || whole.bytes().len() <= room {
            true => whole,
            false => {
                let mut short = selected(&object, &["name"]);
                short.string("inputSchemaOmitted", "too large for this answer: search for this name with limit 1");
                short.finish()
            }
        };
        room = room.saturating_sub(item.bytes().len());
        items.push(item);
    }
    let mut answer = ObjectWriter::with_capacity(ANSWER_BYTES - room + 16);
    answer.raw("tools", &RawJson::array(&items));
    answer.finish().as_str().to_owned()
}

fn selected(object: &JsonObject, keys: &[&str]) -> ObjectWriter {
    let mut writer = ObjectWriter::with_capacity(object.bytes().len());
    writer.members(object, |key| keys.contains(&key));
    writer
}

/// A result that tells the model what was wrong, so that it can try again.
fn tool_error(text: &str) -> Outcome {
    text_result(text, true)
}

fn text_result(text: &str, is_error: bool) -> Outcome {
    let mut block = ObjectWriter::with_capacity(text.len() + 64);
    block.string("type", "text").string("text", text);
    let mut own = ObjectWriter::with_capacity(96);
    own.raw(meta::SERVER_INFO, &own_info());
    let mut result = ObjectWriter::with_capacity(text.len() * 2 + 256);
    result.string("resultType", "complete").raw("content", &RawJson::array(&[block.finish()]));
    result.raw("isError", &RawJson::literal(if is_error { "true" } else { "false" }));
    result.raw("_meta", &own.finish());
    complete(result.finish_object())
}
