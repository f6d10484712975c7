//! Tools and their results in revisions whose schemas and structured results are objects.

use super::content;
use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, RawJson};
use crate::mcp::ProtocolVersion;

/// A tool's description for a legacy revision; `None` when it can stay as it is.
///
/// Legacy revisions want `"type":"object"` at the root of `outputSchema`, and an object under each name in
/// `properties`. A schema of another type is left out, as is the result that it would describe; `true` and
/// `false` as schemas are written as the objects that mean the same.
pub(crate) fn tool(tool: &RawJson, version: ProtocolVersion) -> Option<RawJson> {
    if version > ProtocolVersion::LATEST_LEGACY {
        return None;
    }
    let object = JsonObject::of(tool)?;
    let edited = rewrite::members(&object, |key, member| match key {
        "inputSchema" => MemberEdit::replace(with_object_properties(&object.value(member))),
        "outputSchema" if !is_object_schema(&object.value(member)) => MemberEdit::Drop,
        "outputSchema" => MemberEdit::replace(with_object_properties(&object.value(member))),
        _ => MemberEdit::Keep,
    });
    (edited.bytes() != object.bytes()).then(|| edited.raw())
}

fn is_object_schema(schema: &RawJson) -> bool {
    JsonObject::of(schema).is_some_and(|schema| schema.get_str("type").as_deref() == Some("object"))
}

fn with_object_properties(schema: &RawJson) -> Option<RawJson> {
    let schema = JsonObject::of(schema)?;
    let properties = schema.get_object("properties")?;
    let is_word = |raw: RawJson| matches!(raw.as_str(), "true" | "false");
    if !properties.members().iter().any(|member| is_word(properties.value(*member))) {
        return None;
    }
    let written = rewrite::members(&properties, |_, member| match properties.value(member).as_str() {
        "true" => MemberEdit::Replace(RawJson::literal("{}")),
        "false" => MemberEdit::Replace(RawJson::literal(r#"{"not":{}}"#)),
        _ => MemberEdit::Keep,
    });
    Some(super::replace(&schema, "properties", |_| Some(written.raw())).raw())
}

/// The result of a tool for a legacy revision. A structured result that is not an object is left out, and one
/// that the revision does not know may be overlooked: both are then told in a text, unless there is one.
pub(super) fn call_result(result: &JsonObject, version: ProtocolVersion) -> JsonObject {
    let structured = result.get("structuredContent");
    let is_object = structured.as_ref().is_some_and(RawJson::is_object);
    let is_told = is_object && version >= ProtocolVersion::V2025_06_18;
    if version >= ProtocolVersion::V2025_06_18 && (is_told || structured.is_none()) {
        return result.clone();
    }
    let untold = structured.filter(|_| !is_told);
    let old = result.get("content");
    let content = old.as_ref().and_then(|content| rewrite::map(content, |raw| content::block(raw, version)));
    let content = with_text(content.as_ref().or(old.as_ref()), untold.as_ref()).or(content);
    let kept = rewrite::members(result, |key, _| match key {
        "structuredContent" if !is_object => MemberEdit::Drop,
        "content" => MemberEdit::replace(content.clone()),
        _ => MemberEdit::Keep,
    });
    match (old, content) {
        (None, Some(content)) => rewrite::with(&kept, "content", &content),
        _ => kept,
    }
}

/// The content with the structured result as a text at its end; `None` when that is not needed.
fn with_text(content: Option<&RawJson>, structured: Option<&RawJson>) -> Option<RawJson> {
    let structured = structured?;
    let mut blocks = content.and_then(RawJson::items).unwrap_or_default();
    if blocks.iter().any(content::is_text) {
        return None;
    }
    blocks.push(content::text(structured.as_str()));
    Some(RawJson::array(&blocks))
}
