//! Normalizes one schema without its children: old drafts become 2020-12, and malformed keywords are dropped.

use serde_json::{Map, Value, json};

use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;

/// Keywords that name or annotate the document and mean nothing to a model.
const NAMING: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
    "$defs",
    "definitions",
];

/// What kind of value a keyword must have.
fn is_well_typed(keyword: &str, value: &Value) -> bool {
    match keyword {
        "type" => is_type(value),
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => is_count(value),
        "pattern" | "format" | "description" | "title" | "contentEncoding" | "contentMediaType" | "$ref" => {
            value.is_string()
        }
        "required" => is_names(value),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "properties" | "patternProperties" | "dependentSchemas" => is_schemas_by_name(value),
        "dependentRequired" => value.as_object().is_some_and(|names| names.values().all(is_names)),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(crate::keyword::is_schema))
        }
        "items"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "propertyNames"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contentSchema" => crate::keyword::is_schema(value),
        "examples" => value.is_array(),
        _ => true,
    }
}

fn is_type(value: &Value) -> bool {
    let is_name = |name: &Value| name.as_str().is_some_and(is_type_name);
    match value {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_name),
        name => is_name(name),
    }
}

fn is_type_name(name: &str) -> bool {
    matches!(name, "string" | "number" | "integer" | "boolean" | "object" | "array" | "null")
}

fn is_count(value: &Value) -> bool {
    value.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0)
}

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

fn is_schemas_by_name(value: &Value) -> bool {
    value.as_object().is_some_and(|entries| entries.values().all(crate::keyword::is_schema))
}

/// Cleans the keywords of one schema.
pub(super) fn clean(
    schema: &Map<String, Value>,
    place: &JsonPointer,
    losses: &mut Vec<SchemaLoss>,
) -> Map<String, Value> {
    let mut clean = schema.clone();
    // First, since the checks below know the keywords of 2020-12 only.
    modernize(&mut clean);
    clean.retain(|keyword, value| {
        // References are resolved against the original document, so names are not needed any more.
        if NAMING.contains(&keyword.as_str()) {
            return false;
        }
        let is_kept = is_well_typed(keyword, value);
        if !is_kept {
            let note = "its value is not what the keyword takes";
            losses.push(SchemaLoss::new(place, keyword.as_str(), LossFate::Dropped, note));
        }
        is_kept
    });
    whole_counts(&mut clean);
    single_type(&mut clean);
    clean
}

/// Writes the older drafts' keywords as 2020-12 has them.
fn modernize(schema: &mut Map<String, Value>) {
    exclusive_bound(schema, "exclusiveMinimum", "minimum");
    exclusive_bound(schema, "exclusiveMaximum", "maximum");
    tuple(schema);
    dependencies(schema);
    nullable(schema);
    if let Some(divisor) = schema.shift_remove("divisibleBy") {
        schema.entry("multipleOf").or_insert(divisor);
    }
    if let Some(example) = schema.shift_remove("example") {
        schema.entry("examples").or_insert(json!([example]));
    }
    if let Some(Value::String(name)) = schema.get("$dynamicRef").or(schema.get("$recursiveRef")) {
        // Without an overriding resource, which one document hardly has, both mean the same as `$ref`.
        let reference = Value::from(name.as_str());
        schema.entry("$ref").or_insert(reference);
    }
    schema.shift_remove("$dynamicRef");
    schema.shift_remove("$recursiveRef");
}

/// Draft 4: `"minimum": 1, "exclusiveMinimum": true`.
fn exclusive_bound(schema: &mut Map<String, Value>, exclusive: &str, inclusive: &str) {
    if let Some(&Value::Bool(is_exclusive)) = schema.get(exclusive) {
        schema.shift_remove(exclusive);
        // Draft 4: a flag beside the bound. Since draft 6 it is the bound itself.
        if is_exclusive && let Some(bound) = schema.shift_remove(inclusive) {
            schema.insert(exclusive.to_owned(), bound);
        }
    }
}

/// Up to 2019-09 a tuple was a list under `items`, and `additionalItems` the rest.
fn tuple(schema: &mut Map<String, Value>) {
    let rest = schema.shift_remove("additionalItems");
    // A tuple before 2020-12.
    if schema.get("items").is_some_and(Value::is_array) {
        let items = schema.shift_remove("items").unwrap_or_default();
        schema.insert("prefixItems".to_owned(), items);
        if let Some(rest) = rest {
            schema.insert("items".to_owned(), rest);
        }
    }
}

/// Up to draft 7 `dependencies` was both of its successors.
fn dependencies(schema: &mut Map<String, Value>) {
    let Some(Value::Object(dependencies)) = schema.shift_remove("dependencies") else {
        return;
    };
    for (name, dependency) in dependencies {
        let keyword = match dependency {
            Value::Array(_) => "dependentRequired",
            _ => "dependentSchemas",
        };
        let entries = schema.entry(keyword).or_insert_with(|| json!({}));
        if let Some(entries) = entries.as_object_mut() {
            entries.insert(name, dependency);
        }
    }
}

/// OpenAPI 3.0: `"type": "string", "nullable": true`.
fn nullable(schema: &mut Map<String, Value>) {
    let is_nullable = schema.shift_remove("nullable") == Some(Value::Bool(true));
    if !is_nullable {
        return;
    }
    if let Some(name @ Value::String(_)) = schema.get("type").cloned() {
        schema.insert("type".to_owned(), json!([name, "null"]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// `3.0` counts as `3`, but providers' types want it written so.
fn whole_counts(schema: &mut Map<String, Value>) {
    for keyword in ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] {
        if let Some(count) = schema.get_mut(keyword)
            && count.as_u64().is_none()
        {
            // Larger counts than this bound nothing that could exist.
            let whole = count.as_f64().unwrap_or(0.0).min(1e15) as u64;
            *count = Value::from(whole);
        }
    }
}

/// `["string"]` is `"string"`, and no type is named twice.
fn single_type(schema: &mut Map<String, Value>) {
    let Some(Value::Array(names)) = schema.get("type") else {
        return;
    };
    let mut unique: Vec<Value> = Vec::new();
    for name in names {
        if !unique.contains(name) {
            unique.push(name.clone());
        }
    }
    let types = match unique.as_slice() {
        [single] => single.clone(),
        _ => Value::Array(unique),
    };
    schema.insert("type".to_owned(), types);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(schema: Value) -> (Value, usize) {
        let mut losses = Vec::new();
        let clean = clean(schema.as_object().unwrap(), &JsonPointer::root(), &mut losses);
        (Value::Object(clean), losses.len())
    }

    #[test]
    fn older_drafts_become_the_current_one() {
        for (old, new) in [
            (json!({"minimum": 1, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 1})),
            (json!({"minimum": 1, "exclusiveMinimum": false}), json!({"minimum": 1})),
            (json!({"items": [{}], "additionalItems": false}), json!({"prefixItems": [{}], "items": false})),
            (json!({"items": {}, "additionalItems": false}), json!({"items": {}})),
            (
                json!({"dependencies": {"a": ["b"], "c": {}}}),
                json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {}}}),
            ),
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (json!({"type": ["string", "string"]}), json!({"type": "string"})),
            (json!({"minLength": 3.0}), json!({"minLength": 3})),
            (json!({"$schema": "x", "$id": "y", "$defs": {}}), json!({})),
        ] {
            assert_eq!(cleaned(old), (new, 0));
        }
    }

    #[test]
    fn values_of_the_wrong_kind_are_dropped_and_reported() {
        for wrong in [
            json!({"type": "text"}),
            json!({"type": []}),
            json!({"enum": "x"}),
            json!({"properties": []}),
            json!({"properties": {"a": 1}}),
            json!({"required": true}),
            json!({"anyOf": []}),
            json!({"minLength": -1}),
            json!({"pattern": 7}),
            json!({"items": 3}),
        ] {
            assert_eq!(cleaned(wrong), (json!({}), 1));
        }
    }
}
