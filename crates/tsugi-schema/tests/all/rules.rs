//! The rules of each dialect, written a second time and independently, to check the conversion.

use serde_json::{Map, Value};
use tsugi_schema::dialect::SchemaDialect;

/// The declaration's schema where it is JSON Schema.
pub(crate) fn json_schema(dialect: SchemaDialect, declaration: &Value) -> Option<&Value> {
    match dialect {
        SchemaDialect::Gemini => Some(&declaration["parametersJsonSchema"]),
        SchemaDialect::OpenAi => Some(&declaration["parameters"]),
        SchemaDialect::Anthropic => Some(&declaration["input_schema"]),
        SchemaDialect::GeminiClassic | SchemaDialect::OpenApi => None,
    }
}

/// Every rule that a declaration breaks.
pub(crate) fn broken(dialect: SchemaDialect, declaration: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    match dialect {
        SchemaDialect::Gemini => {
            name(&declaration["name"], &mut broken);
            let schema = &declaration["parametersJsonSchema"];
            root(schema, &mut broken);
            each(schema, "", &mut broken, &gemini);
        }
        SchemaDialect::GeminiClassic => {
            name(&declaration["name"], &mut broken);
            if let Some(schema) = declaration.get("parameters") {
                if schema["type"] != "OBJECT" {
                    broken.push("the root is no OBJECT".to_owned());
                }
                each(schema, "", &mut broken, &classic);
            }
        }
        SchemaDialect::OpenAi => {
            name(&declaration["name"], &mut broken);
            let schema = &declaration["parameters"];
            root(schema, &mut broken);
            if declaration["strict"] == true {
                each(schema, "", &mut broken, &strict);
                if depth(schema) > 10 {
                    broken.push("nested more than 10 deep".to_owned());
                }
            }
        }
        SchemaDialect::Anthropic => {
            name(&declaration["name"], &mut broken);
            let schema = &declaration["input_schema"];
            root(schema, &mut broken);
            each(schema, "", &mut broken, &anthropic);
        }
        SchemaDialect::OpenApi => {
            let schema = &declaration["operation"]["requestBody"]["content"]["application/json"]["schema"];
            root(schema, &mut broken);
            if declaration.to_string().contains("\"$ref\":\"#/$defs/") {
                broken.push("a reference to $defs is left".to_owned());
            }
        }
    }
    broken
}

type Rule = dyn Fn(&Map<String, Value>, &str, &mut Vec<String>);

fn name(name: &Value, broken: &mut Vec<String>) {
    let name = name.as_str().unwrap_or_default();
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let rest = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
    if !begins || !rest || name.len() > 64 {
        broken.push(format!("name {name:?}"));
    }
}

fn root(schema: &Value, broken: &mut Vec<String>) {
    if schema["type"] != "object" || !schema["properties"].is_object() {
        broken.push("the root is no object with properties".to_owned());
    }
    for keyword in ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$schema"] {
        if schema.get(keyword).is_some() {
            broken.push(format!("{keyword} at the root"));
        }
    }
}

/// Applies a rule to each schema inside a schema, by the keywords that providers know.
fn each(schema: &Value, at: &str, broken: &mut Vec<String>, rule: &Rule) {
    let Some(schema) = schema.as_object() else {
        if !schema.is_boolean() {
            broken.push(format!("{at}: no schema"));
        }
        return;
    };
    rule(schema, at, broken);
    for keyword in ["properties", "$defs"] {
        for (name, inner) in schema.get(keyword).and_then(Value::as_object).into_iter().flatten() {
            each(inner, &format!("{at}/{keyword}/{name}"), broken, rule);
        }
    }
    for keyword in ["anyOf", "oneOf", "prefixItems"] {
        for (index, inner) in schema.get(keyword).and_then(Value::as_array).into_iter().flatten().enumerate() {
            each(inner, &format!("{at}/{keyword}/{index}"), broken, rule);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(keyword) {
            each(inner, &format!("{at}/{keyword}"), broken, rule);
        }
    }
}

fn only(schema: &Map<String, Value>, allowed: &[&str], at: &str, broken: &mut Vec<String>) {
    for keyword in schema.keys().filter(|keyword| !allowed.contains(&keyword.as_str())) {
        broken.push(format!("{at}: {keyword} is not known there"));
    }
}

fn listed_required(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let is_listed =
            schema.get("properties").and_then(|properties| properties.get(name.as_str().unwrap_or_default())).is_some();
        if !is_listed {
            broken.push(format!("{at}: {name} is required but not a property"));
        }
    }
}

fn identifiers(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    for name in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let rest = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !begins || !rest || name.len() > 64 {
            broken.push(format!("{at}: property name {name:?}"));
        }
    }
}

fn lone_reference(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    if schema.contains_key("$ref") && schema.len() > 1 {
        broken.push(format!("{at}: something stands beside $ref"));
    }
}

fn gemini(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    let allowed = [
        "$defs",
        "$ref",
        "type",
        "format",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "properties",
        "additionalProperties",
        "required",
    ];
    only(schema, &allowed, at, broken);
    lone_reference(schema, at, broken);
    listed_required(schema, at, broken);
    identifiers(schema, at, broken);
    for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        if !value.is_string() && !value.is_number() {
            broken.push(format!("{at}: {value} in an enum"));
        }
    }
    let types = schema.get("type").and_then(Value::as_array).into_iter().flatten();
    if types.filter(|name| *name != "null").count() > 1 {
        broken.push(format!("{at}: several types"));
    }
}

fn classic(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    let allowed = [
        "type",
        "format",
        "description",
        "nullable",
        "enum",
        "items",
        "minItems",
        "maxItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "anyOf",
    ];
    only(schema, &allowed, at, broken);
    listed_required(schema, at, broken);
    identifiers(schema, at, broken);
    let kind = schema.get("type").and_then(Value::as_str);
    let is_known =
        ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"].contains(&kind.unwrap_or_default());
    if schema.contains_key("anyOf") {
        only(schema, &["anyOf", "description", "nullable"], at, broken);
    } else if !is_known {
        broken.push(format!("{at}: type {kind:?}"));
    }
    if kind == Some("ARRAY") && !schema.contains_key("items") {
        broken.push(format!("{at}: ARRAY without items"));
    }
    let choices: Vec<&Value> = schema.get("enum").and_then(Value::as_array).into_iter().flatten().collect();
    if !choices.is_empty() && (kind != Some("STRING") || !choices.iter().all(|choice| choice.is_string())) {
        broken.push(format!("{at}: enum of something else than text"));
    }
}

fn strict(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    let allowed = [
        "$defs",
        "$ref",
        "type",
        "format",
        "description",
        "enum",
        "const",
        "items",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "pattern",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
    ];
    only(schema, &allowed, at, broken);
    lone_reference(schema, at, broken);
    listed_required(schema, at, broken);
    let is_object = schema.get("type").is_some_and(|types| {
        *types == "object" || types.as_array().is_some_and(|names| names.contains(&Value::from("object")))
    });
    if is_object {
        let properties = schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) || properties != required {
            broken.push(format!("{at}: an object that is open or has optional properties"));
        }
    }
    if !["type", "$ref", "anyOf"].iter().any(|keyword| schema.contains_key(*keyword)) {
        broken.push(format!("{at}: no type"));
    }
}

fn anthropic(schema: &Map<String, Value>, at: &str, broken: &mut Vec<String>) {
    for name in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        let is_fine = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
        if !is_fine || name.is_empty() || name.len() > 64 {
            broken.push(format!("{at}: property name {name:?}"));
        }
    }
    lone_reference(schema, at, broken);
}

fn depth(schema: &Value) -> usize {
    let inner = |keyword: &str| match schema.get(keyword) {
        Some(Value::Object(entries)) if keyword == "properties" => entries.values().map(depth).max().unwrap_or(0),
        Some(Value::Array(list)) => list.iter().map(depth).max().unwrap_or(0),
        Some(single @ Value::Object(_)) => depth(single),
        _ => 0,
    };
    1 + ["properties", "anyOf", "items"].into_iter().map(inner).max().unwrap_or(0)
}
