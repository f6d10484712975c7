//! OpenAPI 3.1: one operation per tool, its definitions among the document's components.

use serde_json::{Map, Value, json};

use super::{DeclarationParts, anthropic};

pub(super) fn convert(schema: &Value) -> DeclarationParts {
    anthropic::whole(schema, |_| true, Vec::new())
}

/// An operation and the components it needs, which carry the tool's name so that tools do not meet.
pub(super) fn operation(name: &str, description: &str, schema: &Value) -> Value {
    let mut schema = schema.clone();
    let definitions = schema.as_object_mut().and_then(|schema| schema.shift_remove("$defs"));
    point_to_components(&mut schema, name);
    let mut components = Map::new();
    for (definition, mut schema) in definitions.into_iter().flat_map(into_entries) {
        point_to_components(&mut schema, name);
        components.insert(format!("{name}.{definition}"), schema);
    }
    let mut operation = json!({
        "operationId": name,
        "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "what the tool returned"}}
    });
    if !description.is_empty() {
        operation["description"] = Value::from(description);
    }
    json!({"operation": operation, "components": components})
}

/// A whole document of operations.
pub(super) fn document(declarations: impl Iterator<Item = Value>) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for declaration in declarations {
        let operation = &declaration["operation"];
        let name = operation["operationId"].as_str().unwrap_or_default();
        paths.insert(format!("/{name}"), json!({"post": operation}));
        schemas.extend(into_entries(declaration["components"].clone()));
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "tools", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas}
    })
}

fn into_entries(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}

fn point_to_components(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(definition) = reference.strip_prefix("#/$defs/")
            {
                *reference = format!("#/components/schemas/{name}.{definition}");
            }
            members.values_mut().for_each(|member| point_to_components(member, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point_to_components(item, name)),
        _ => {}
    }
}
