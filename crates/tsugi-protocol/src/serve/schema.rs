//! Schemas of Rust types, in the plain form that clients and model providers read best.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::json::RawJson;

/// The JSON Schema (2020-12) of a type: subschemas inlined where they can be, without `$schema`, `title`
/// and the type's own doc comment, which speaks to Rust programmers. Comments of fields stay.
pub fn schema_of<T: JsonSchema + ?Sized>() -> RawJson {
    RawJson::from(Value::Object(members_of::<T>()))
}

/// The schema of a tool's arguments, whose root must say `type: object`
/// ([Tool](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool)).
pub(super) fn arguments_schema<T: JsonSchema + ?Sized>() -> RawJson {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.extend(members_of::<T>());
    schema.insert("type".into(), "object".into());
    RawJson::from(Value::Object(schema))
}

pub(super) fn members_of<T: JsonSchema + ?Sized>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let Value::Object(mut members) = schema.to_value() else { return Map::new() };
    for key in ["$schema", "title", "description"] {
        members.shift_remove(key);
    }
    members
}
