//! Forms in 2025-06-18, which had fewer kinds of fields.

use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::ProtocolVersion;

/// The schema of a form for this revision; `None` when the revision has no words for one of its fields.
///
/// 2025-06-18 knows no choice of several values, and writes the names of a choice beside it
/// ([2025-06-18](https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation#requested-schema)).
pub(crate) fn requested_schema(schema: &RawJson, version: ProtocolVersion) -> Option<RawJson> {
    if version >= ProtocolVersion::V2025_11_25 {
        return Some(schema.clone());
    }
    let object = JsonObject::of(schema)?;
    let Some(fields) = object.get_object("properties") else { return Some(schema.clone()) };
    let is_several =
        |raw: &RawJson| JsonObject::of(raw).is_some_and(|field| field.get_bytes("type") == Some(b"\"array\""));
    if fields.members().iter().any(|member| is_several(&fields.value(*member))) {
        return None;
    }
    let fields = rewrite::members(&fields, |_, member| MemberEdit::replace(with_names_beside(&fields.value(member))));
    Some(super::replace(&object, "properties", |_| Some(fields.raw())).raw())
}

/// A choice with titles, `oneOf` constants, as `enum` and `enumNames`; `None` for every other field.
fn with_names_beside(field: &RawJson) -> Option<RawJson> {
    let field = JsonObject::of(field)?;
    let choices = field.get("oneOf")?.items()?;
    let choices: Vec<JsonObject> = choices.iter().map(JsonObject::of).collect::<Option<_>>()?;
    let values: Vec<RawJson> = choices.iter().map(|choice| choice.get("const")).collect::<Option<_>>()?;
    let names: Vec<RawJson> =
        choices.iter().zip(&values).map(|(choice, value)| choice.get("title").unwrap_or(value.clone())).collect();
    let mut beside = ObjectWriter::with_capacity(field.bytes().len());
    beside
        .members(&field, |key| !matches!(key, "oneOf" | "enum" | "enumNames"))
        .raw("enum", &RawJson::array(&values))
        .raw("enumNames", &RawJson::array(&names));
    Some(beside.finish())
}
