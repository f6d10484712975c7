//! Forms in the revision that had fewer kinds of fields.

use crate::json::edit::{self, Edit};
use crate::json::{Object, Raw, Splice};
use crate::mcp::Version;

/// The schema of a form for this revision; `None` when the revision has no words for one of its fields.
///
/// 2025-06-18 knows no choice of several values, and writes the names of a choice beside it
/// ([2025-06-18](https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation#requested-schema)).
pub fn requested_schema(schema: &Raw, version: Version) -> Option<Raw> {
    if version >= Version::V2025_11_25 {
        return Some(schema.clone());
    }
    let object = Object::of(schema)?;
    let Some(fields) = object.get_object("properties") else { return Some(schema.clone()) };
    let is_several = |raw: &Raw| Object::of(raw).is_some_and(|field| field.get_bytes("type") == Some(b"\"array\""));
    if fields.members().iter().any(|member| is_several(&fields.value(*member))) {
        return None;
    }
    let fields = edit::members(&fields, |_, member| Edit::replace(with_names_beside(&fields.value(member))));
    Some(super::replace(&object, "properties", |_| Some(fields.raw())).raw())
}

/// A choice with titles, `oneOf` constants, as `enum` and `enumNames`; `None` for every other field.
fn with_names_beside(field: &Raw) -> Option<Raw> {
    let field = Object::of(field)?;
    let choices = field.get("oneOf")?.items()?;
    let choices: Vec<Object> = choices.iter().map(Object::of).collect::<Option<_>>()?;
    let values: Vec<Raw> = choices.iter().map(|choice| choice.get("const")).collect::<Option<_>>()?;
    let names: Vec<Raw> =
        choices.iter().zip(&values).map(|(choice, value)| choice.get("title").unwrap_or(value.clone())).collect();
    let mut beside = Splice::with_capacity(field.bytes().len());
    beside
        .members(&field, |key| !matches!(key, "oneOf" | "enum" | "enumNames"))
        .raw("enum", &Raw::array(&values))
        .raw("enumNames", &Raw::array(&names));
    Some(beside.finish())
}
