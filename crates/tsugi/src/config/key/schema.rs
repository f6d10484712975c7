//! The JSON Schema of a configuration, for editors.

use serde_json::{Map, Value as Json, json};

use super::{SettingKey, SettingTable};
use crate::config::settings::TABLES;

/// The name of the schema beside a configuration.
pub(crate) const FILE: &str = "tsugi.schema.json";

/// The line that makes editors use the schema beside a configuration. It needs no network, and holds in every clone.
pub(crate) const COMMENT: &str = "# yaml-language-server: $schema=./tsugi.schema.json\n";

/// The whole schema, as text. Draft 7 is the newest one that editors of YAML understand completely.
pub(crate) fn text() -> String {
    let mut definitions = Map::new();
    for table in TABLES {
        definitions.insert(definition_name(table.path), definition(table));
    }
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "tsugi configuration",
        "allOf": [{"$ref": format!("#/definitions/{}", definition_name(""))}],
        "definitions": definitions,
    });
    format!("{schema:#}\n")
}

/// The name of a map within the schema.
pub(super) fn definition_name(path: &str) -> String {
    let name: String = path.chars().filter(|character| character.is_ascii_alphanumeric()).collect();
    if name.is_empty() { "configuration".to_owned() } else { name }
}

fn definition(table: &SettingTable) -> Json {
    let properties = table.keys.iter().flat_map(|key| key.names().map(|name| (name.to_owned(), property(key, name))));
    json!({
        "description": table.about,
        // A map in which nothing is written is empty in YAML, which is null.
        "type": ["object", "null"],
        "properties": properties.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn property(key: &SettingKey, name: &str) -> Json {
    let meaning = match name == key.name {
        true => key.meaning.to_owned(),
        false => format!("The same as `{}`. {}", key.name, key.meaning),
    };
    let mut property = json!({"description": meaning});
    if !key.default.is_empty() {
        property["default"] = key.shape.default_value(key.default);
    }
    // A key without a value counts as absent.
    property["anyOf"] = json!([key.shape.schema(), {"type": "null"}]);
    property
}
