//! Sampling in revisions without tools, without several blocks per message, or without sound.

use super::content;
use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, RawJson};
use crate::mcp::ProtocolVersion;

/// The parameters of a sampling request for this revision; `None` when the revision cannot say them:
/// tools came with 2025-11-25, sound with 2025-03-26. Messages with several blocks, which older revisions
/// do not know, become several messages of the same role.
pub(crate) fn sampling_params(params: &JsonObject, version: ProtocolVersion) -> Option<JsonObject> {
    if version < ProtocolVersion::V2025_11_25 && (params.has("tools") || params.has("toolChoice")) {
        return None;
    }
    let messages = match params.get("messages").as_ref().and_then(RawJson::items) {
        Some(messages) => messages_for(&messages, version)?,
        None => None,
    };
    Some(rewrite::members(params, |key, member| match key {
        "messages" => MemberEdit::replace(messages.clone()),
        "tools" => MemberEdit::replace(rewrite::map(&params.value(member), |tool| super::tool(tool, version))),
        _ => MemberEdit::Keep,
    }))
}

/// `None` when the revision cannot say them, `Some(None)` when they can stay as they are.
fn messages_for(messages: &[RawJson], version: ProtocolVersion) -> Option<Option<RawJson>> {
    let mut written = Vec::with_capacity(messages.len());
    for message in messages {
        match JsonObject::of(message) {
            Some(object) if version >= ProtocolVersion::V2025_11_25 => written.push(with_object_results(&object).raw()),
            Some(object) => written.extend(one_block_each(&object, version)?),
            None => written.push(message.clone()),
        }
    }
    Some((written != messages).then(|| RawJson::array(&written)))
}

/// One message per block of this one; `None` when the revision does not know one of the blocks.
fn one_block_each(message: &JsonObject, version: ProtocolVersion) -> Option<Vec<RawJson>> {
    let Some(content) = message.get("content") else { return Some(vec![message.raw()]) };
    let blocks = content.items();
    let is_known = |block: &RawJson| match content::kind(block).as_deref() {
        Some("tool_use" | "tool_result") => false,
        Some("audio") => version >= ProtocolVersion::V2025_03_26,
        _ => true,
    };
    if !blocks.as_deref().unwrap_or(std::slice::from_ref(&content)).iter().all(is_known) {
        return None;
    }
    let Some(blocks) = blocks else { return Some(vec![message.raw()]) };
    let one = |block: &RawJson| super::replace(message, "content", |_| Some(block.clone())).raw();
    Some(blocks.iter().map(one).collect())
}

/// Tool results in a message of 2025-11-25, whose structured parts must be objects.
fn with_object_results(message: &JsonObject) -> JsonObject {
    super::replace(message, "content", |content| match content.is_object() {
        true => without_odd_structure(content),
        false => rewrite::map(content, without_odd_structure),
    })
}

fn without_odd_structure(block: &RawJson) -> Option<RawJson> {
    let object = JsonObject::of(block)?;
    let structured = object.get("structuredContent")?;
    let is_odd = object.get_str("type").as_deref() == Some("tool_result") && !structured.is_object();
    is_odd.then(|| rewrite::without(&object, |key| key == "structuredContent").raw())
}

/// A model's answer for a server of this revision, which before 2025-11-25 has exactly one block: several
/// texts are joined, and of anything else the first block is kept.
pub(crate) fn sampling_result(result: &JsonObject, version: ProtocolVersion) -> JsonObject {
    if version >= ProtocolVersion::V2025_11_25 {
        return result.clone();
    }
    super::replace(result, "content", |content| match content.items()?.as_slice() {
        [] => Some(content::text("")),
        [only] => Some(only.clone()),
        several => Some(joined(several).unwrap_or_else(|| several[0].clone())),
    })
}

fn joined(blocks: &[RawJson]) -> Option<RawJson> {
    let texts: Option<Vec<String>> = blocks.iter().map(text_of).collect();
    Some(content::text(&texts?.join("\n")))
}

fn text_of(block: &RawJson) -> Option<String> {
    if !content::is_text(block) {
        return None;
    }
    JsonObject::of(block)?.get_str("text").map(|text| text.into_owned())
}
