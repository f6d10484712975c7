//! Shapes of values: the one description from which the words for people and the JSON Schema come.

use serde_json::{Value as Json, json};

/// What a value looks like in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SchemaShape {
    Text,
    Path,
    Url,
    Address,
    Number,
    /// A whole number that is at least this.
    Integer(u32),
    /// `true` or `false`.
    Flag,
    /// `on` or `off`; the same values as of a flag.
    Switch,
    Duration,
    Size,
    Words(&'static [&'static str]),
    TextList,
    /// A list that cannot be written as a single value.
    Arguments,
    Globs,
    Paths,
    ErrorCodes,
    TextMap,
    /// A map of lists of text.
    TextListMap,
    /// The map with this path.
    Table(&'static str),
    /// A list of such maps.
    Tables(&'static str),
    /// A list of such maps, or a map of them by name.
    NamedTables(&'static str),
    /// A map of such maps by name.
    TableMap(&'static str),
    WordsOrTable(&'static [&'static str], &'static str),
    SwitchOrTable(&'static str),
}

/// Every value may come from a variable.
const REFERENCE: &str = r"\$\{";

impl SchemaShape {
    /// The shape in words, for the reference page.
    pub(crate) fn words(self) -> String {
        let listed = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
        let or = |mut words: Vec<String>| match words.pop() {
            Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
            last => last.unwrap_or_default(),
        };
        match self {
            SchemaShape::Text => "text".to_owned(),
            SchemaShape::Path => "path".to_owned(),
            SchemaShape::Url => "URL".to_owned(),
            SchemaShape::Address => "address".to_owned(),
            SchemaShape::Number | SchemaShape::Integer(_) => "number".to_owned(),
            SchemaShape::Flag => "`true` or `false`".to_owned(),
            SchemaShape::Switch => "`on` or `off`".to_owned(),
            SchemaShape::Duration => "duration".to_owned(),
            SchemaShape::Size => "size".to_owned(),
            SchemaShape::Words(words) => or(listed(words)),
            SchemaShape::TextList | SchemaShape::Arguments => "list of text".to_owned(),
            SchemaShape::Globs => "list of globs".to_owned(),
            SchemaShape::Paths => "list of paths".to_owned(),
            SchemaShape::ErrorCodes => "list of error codes".to_owned(),
            SchemaShape::TextMap => "map of text".to_owned(),
            SchemaShape::TextListMap => "map of lists of text".to_owned(),
            SchemaShape::Table(_) => "map".to_owned(),
            SchemaShape::Tables(_) => "list".to_owned(),
            SchemaShape::NamedTables(_) => "list, or map by name".to_owned(),
            SchemaShape::TableMap(_) => "map by name".to_owned(),
            SchemaShape::WordsOrTable(words, _) => or([listed(words), vec!["map".to_owned()]].concat()),
            SchemaShape::SwitchOrTable(_) => "`on`, `off` or map".to_owned(),
        }
    }

    /// The shape as JSON Schema.
    pub(crate) fn schema(self) -> Json {
        let text = || json!({"type": ["string", "number", "boolean"]});
        let or_reference = |schema: Json| json!({"anyOf": [schema, {"type": "string", "pattern": REFERENCE}]});
        let list = |items: Json| json!({"anyOf": [{"type": "array", "items": items}, items]});
        let switch = || json!({"enum": [true, false, "true", "false", "yes", "no", "on", "off"]});
        match self {
            SchemaShape::Text | SchemaShape::Path | SchemaShape::Url | SchemaShape::Address => text(),
            SchemaShape::Number => or_reference(json!({"type": "number", "minimum": 1})),
            SchemaShape::Integer(least) => or_reference(json!({"type": "integer", "minimum": least})),
            SchemaShape::Flag | SchemaShape::Switch => or_reference(switch()),
            SchemaShape::Duration => or_reference(
                json!({"type": ["number", "string"], "minimum": 0, "pattern": "^\\s*[0-9.]+\\s*(ms|s|m|min|h|d)?\\s*$"}),
            ),
            SchemaShape::Size => or_reference(
                json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^\\s*[0-9]+\\s*([bB]|[kKmMgG]([iI]?[bB])?)?\\s*$"}),
            ),
            SchemaShape::Words(words) => or_reference(words_schema(words)),
            SchemaShape::Arguments => json!({"type": "array", "items": text()}),
            SchemaShape::TextList | SchemaShape::Globs | SchemaShape::Paths | SchemaShape::ErrorCodes => list(text()),
            SchemaShape::TextMap => {
                json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}})
            }
            SchemaShape::TextListMap => json!({"type": "object", "additionalProperties": list(text())}),
            SchemaShape::Table(path) => reference(path),
            SchemaShape::Tables(path) => json!({"type": "array", "items": reference(path)}),
            SchemaShape::NamedTables(path) => json!({"anyOf": [
                {"type": "array", "items": reference(path)},
                {"type": "object", "additionalProperties": reference(path)},
            ]}),
            SchemaShape::TableMap(path) => json!({"type": "object", "additionalProperties": reference(path)}),
            SchemaShape::WordsOrTable(words, path) => {
                json!({"anyOf": [reference(path), or_reference(words_schema(words))]})
            }
            SchemaShape::SwitchOrTable(path) => json!({"anyOf": [reference(path), or_reference(switch())]}),
        }
    }

    /// A default as it would stand in JSON.
    pub(crate) fn default_value(self, default: &str) -> Json {
        let items = || default.trim_matches(['[', ']']).split(',').map(|item| item.trim().trim_matches('"'));
        match self {
            _ if default.starts_with('[') => items().filter(|item| !item.is_empty()).collect(),
            _ if default == "{}" => json!({}),
            SchemaShape::Flag | SchemaShape::Switch | SchemaShape::Integer(_) | SchemaShape::Number => {
                serde_json::from_str(default).unwrap_or_else(|_| default.into())
            }
            _ => default.into(),
        }
    }
}

/// YAML reads `off` as a word and `false` as a truth value; people write both.
fn words_schema(words: &[&str]) -> Json {
    let mut values: Vec<Json> = words.iter().map(|word| (*word).into()).collect();
    let has = |word: &str| words.contains(&word);
    values.extend(has("off").then_some(Json::Bool(false)));
    values.extend((has("on") || has("default")).then_some(Json::Bool(true)));
    json!({ "enum": values })
}

fn reference(path: &str) -> Json {
    json!({"$ref": format!("#/definitions/{}", super::schema::definition_name(path))})
}
