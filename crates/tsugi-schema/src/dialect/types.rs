//! The types that a schema describes, named or implied, and the keywords of each type.

use serde_json::{Map, Value, json};

/// The JSON Schema type of a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The types a schema names or, where it names none, those its other keywords are about. Empty means any.
pub(super) fn types(schema: &Map<String, Value>) -> Vec<String> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => implied_types(schema),
    }
}

fn implied_types(schema: &Map<String, Value>) -> Vec<String> {
    if let Some(value) = schema.get("const") {
        return vec![type_name(value).to_owned()];
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        let mut names: Vec<String> = Vec::new();
        for value in values {
            let name = type_name(value).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        return names;
    }
    let about = |keywords: &[&str]| keywords.iter().any(|keyword| schema.contains_key(*keyword));
    let implied = if about(OBJECT) {
        "object"
    } else if about(ARRAY) {
        "array"
    } else if about(STRING) {
        "string"
    } else if about(NUMBER) {
        "number"
    } else {
        return Vec::new();
    };
    vec![implied.to_owned()]
}

const OBJECT: &[&str] = &[
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
];
const ARRAY: &[&str] = &[
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
];
const STRING: &[&str] =
    &["minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"];
const NUMBER: &[&str] = &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

/// One schema per type, each with the keywords that concern it, without `description`.
pub(super) fn split_by_type(schema: &Map<String, Value>, types: &[String]) -> Vec<Map<String, Value>> {
    types.iter().map(|name| only_type(schema, name)).collect()
}

fn only_type(schema: &Map<String, Value>, name: &str) -> Map<String, Value> {
    let mut only = Map::from_iter([("type".to_owned(), Value::from(name))]);
    if name == "null" {
        return only;
    }
    let foreign: Vec<&str> = [("object", OBJECT), ("array", ARRAY), ("string", STRING), ("number", NUMBER)]
        .into_iter()
        .filter(|(group, _)| !(*group == name || (*group == "number" && name == "integer")))
        .flat_map(|(_, keywords)| keywords.iter().copied())
        .collect();
    for (keyword, value) in schema {
        if foreign.contains(&keyword.as_str()) || matches!(keyword.as_str(), "type" | "description") {
            continue;
        }
        match (keyword.as_str(), value) {
            ("enum", Value::Array(values)) => {
                let values: Vec<&Value> = values.iter().filter(|value| is_of(value, name)).collect();
                if !values.is_empty() {
                    only.insert("enum".to_owned(), json!(values));
                }
            }
            ("const", value) if !is_of(value, name) => {}
            _ => {
                only.insert(keyword.clone(), value.clone());
            }
        }
    }
    only
}

fn is_of(value: &Value, name: &str) -> bool {
    let kind = type_name(value);
    kind == name || (name == "number" && kind == "integer")
}
