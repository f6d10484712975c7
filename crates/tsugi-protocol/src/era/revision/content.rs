//! Blocks of content in revisions that do not know their kind.

use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::ProtocolVersion;

/// A block of content for this revision; `None` when it can stay as it is.
///
/// A link to a resource (known since 2025-06-18) becomes a text with its name and address. A sound (known
/// since 2025-03-26) becomes an embedded resource, which carries its bytes. Kinds that no revision defines
/// stay: a client that knows them may be among the old ones.
pub(super) fn block(block: &RawJson, version: ProtocolVersion) -> Option<RawJson> {
    if version >= ProtocolVersion::V2025_06_18 {
        return None;
    }
    let object = JsonObject::of(block)?;
    match object.get_str("type").as_deref()? {
        "resource_link" => Some(link_as_text(&object)),
        "audio" if version < ProtocolVersion::V2025_03_26 => sound_as_resource(&object),
        _ => None,
    }
}

fn link_as_text(link: &JsonObject) -> RawJson {
    let name = link.get_str("title").or_else(|| link.get_str("name")).unwrap_or_default();
    let mut text = format!("{name}: {}", link.get_str("uri").unwrap_or_default());
    if let Some(description) = link.get_str("description") {
        text.push('\n');
        text.push_str(&description);
    }
    let mut block = ObjectWriter::with_capacity(text.len() + 64);
    block.string("type", "text").string("text", &text).members(link, |key| key == "annotations");
    block.finish()
}

fn sound_as_resource(sound: &JsonObject) -> Option<RawJson> {
    let mut resource = ObjectWriter::with_capacity(sound.bytes().len());
    // An embedded resource needs an address, and this one has none.
    resource.string("uri", "tsugi:audio").members(sound, |key| key == "mimeType").raw("blob", &sound.get("data")?);
    let mut block = ObjectWriter::with_capacity(sound.bytes().len() + 64);
    block.string("type", "resource").raw("resource", &resource.finish()).members(sound, |key| key == "annotations");
    Some(block.finish())
}

/// A message of a prompt for this revision; `None` when it can stay as it is.
pub(super) fn message(message: &RawJson, version: ProtocolVersion) -> Option<RawJson> {
    let object = JsonObject::of(message)?;
    let content = block(&object.get("content")?, version)?;
    Some(super::replace(&object, "content", |_| Some(content.clone())).raw())
}

/// A block of text.
pub(super) fn text(text: &str) -> RawJson {
    let mut block = ObjectWriter::with_capacity(text.len() + 32);
    block.string("type", "text").string("text", text);
    block.finish()
}

/// True for a block of text.
pub(super) fn is_text(block: &RawJson) -> bool {
    kind(block).as_deref() == Some("text")
}

/// The `type` of a block.
pub(super) fn kind(block: &RawJson) -> Option<String> {
    JsonObject::of(block)?.get_str("type").map(|kind| kind.into_owned())
}
