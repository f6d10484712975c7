//! Merges schemas that must all hold (`allOf`), since hardly any provider understands the keyword.

use serde_json::{Map, Value, json};

/// Merges two schemas in plain form into one that means both, as far as one schema can.
/// What two keywords cannot say together stays under `allOf`.
pub fn merge(mut into: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    for (keyword, value) in other {
        match into.get_mut(&keyword) {
            None => {
                into.insert(keyword, value);
            }
            Some(present) if *present == value => {}
            Some(present) => {
                if let Err(value) = merge_keyword(&keyword, present, value) {
                    keep_apart(&mut into, keyword, value);
                }
            }
        }
    }
    into
}

/// Merges the values of one keyword, or gives the second one back.
fn merge_keyword(keyword: &str, present: &mut Value, value: Value) -> Result<(), Value> {
    match keyword {
        "type" => merge_types(present, value),
        "enum" => merge_enums(present, value),
        "required" => {
            extend_unique(present, value);
            Ok(())
        }
        "properties" | "patternProperties" => {
            merge_maps(present, value);
            Ok(())
        }
        "items" | "additionalProperties" => {
            merge_schemas(present, value);
            Ok(())
        }
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            keep_number(present, value, |present, value| value > present);
            Ok(())
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            keep_number(present, value, |present, value| value < present);
            Ok(())
        }
        "uniqueItems" => {
            // The two differ, so one of them is true, and that is the stricter one.
            *present = json!(true);
            Ok(())
        }
        "description" => {
            let joined = format!("{} {}", text(present), text(&value));
            *present = Value::from(joined);
            Ok(())
        }
        // Of two annotations the outer one was written for this place.
        "title" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly" | "format" => Ok(()),
        "allOf" => {
            extend_unique(present, value);
            Ok(())
        }
        _ => Err(value),
    }
}

fn keep_apart(into: &mut Map<String, Value>, keyword: String, value: Value) {
    let apart = into.entry("allOf").or_insert_with(|| json!([]));
    if let Some(list) = apart.as_array_mut() {
        list.push(json!({keyword: value}));
    }
}

fn merge_types(present: &mut Value, value: Value) -> Result<(), Value> {
    let both: Vec<Value> = names(present)
        .into_iter()
        .flat_map(|one| names(&value).into_iter().filter_map(move |other| common(one, other)))
        .map(Value::from)
        .collect();
    match both.as_slice() {
        // Nothing is both: a contradiction, which the other keywords of the first say better than an empty list.
        [] => return Err(value),
        [single] => *present = single.clone(),
        _ => *present = Value::Array(both),
    }
    Ok(())
}

fn common<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    match (one, other) {
        _ if one == other => Some(one),
        ("integer", "number") | ("number", "integer") => Some("integer"),
        _ => None,
    }
}

/// The names in a `type`.
pub(crate) fn names(types: &Value) -> Vec<&str> {
    match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn merge_enums(present: &mut Value, value: Value) -> Result<(), Value> {
    let (Some(ours), Some(theirs)) = (present.as_array(), value.as_array()) else {
        return Err(value);
    };
    let both: Vec<Value> = ours.iter().filter(|option| theirs.contains(option)).cloned().collect();
    // No value is in both. An empty `enum` is not valid in every draft.
    if both.is_empty() {
        return Err(value);
    }
    *present = Value::Array(both);
    Ok(())
}

fn extend_unique(present: &mut Value, value: Value) {
    if let (Value::Array(present), Value::Array(more)) = (present, value) {
        for item in more {
            if !present.contains(&item) {
                present.push(item);
            }
        }
    }
}

fn merge_maps(present: &mut Value, value: Value) {
    let (Value::Object(present), Value::Object(more)) = (present, value) else {
        return;
    };
    for (name, schema) in more {
        match present.get_mut(&name) {
            Some(ours) => merge_schemas(ours, schema),
            None => {
                present.insert(name, schema);
            }
        }
    }
}

/// `false` wins, `true` yields, and two schemas are merged.
fn merge_schemas(present: &mut Value, value: Value) {
    match (&mut *present, value) {
        (Value::Bool(false), _) | (_, Value::Bool(true)) => {}
        (_, Value::Bool(false)) => *present = json!(false),
        (Value::Bool(_), value) => *present = value,
        (Value::Object(ours), Value::Object(theirs)) => {
            let ours = std::mem::take(ours);
            *present = Value::Object(merge_referring(ours, theirs));
        }
        _ => {}
    }
}

/// Nothing may stand beside a kept reference, so one of two stays in an `allOf` of its own.
fn merge_referring(ours: Map<String, Value>, theirs: Map<String, Value>) -> Map<String, Value> {
    if ours.contains_key("$ref") || theirs.contains_key("$ref") {
        return Map::from_iter([("allOf".to_owned(), json!([ours, theirs]))]);
    }
    merge(ours, theirs)
}

fn keep_number(present: &mut Value, value: Value, is_tighter: fn(f64, f64) -> bool) {
    // The tighter of two bounds implies the other.
    if let (Some(ours), Some(theirs)) = (present.as_f64(), value.as_f64())
        && is_tighter(ours, theirs)
    {
        *present = value;
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: Value, other: Value, merged: Value) {
        let (Value::Object(one), Value::Object(other)) = (one, other) else {
            panic!("both are schemas");
        };
        assert_eq!(Value::Object(merge(one, other)), merged);
    }

    #[test]
    fn what_both_say_is_said_once() {
        check(json!({"type": ["string", "null"]}), json!({"type": "string"}), json!({"type": "string"}));
        check(json!({"type": "number"}), json!({"type": "integer"}), json!({"type": "integer"}));
        check(
            json!({"minimum": 1, "maximum": 9}),
            json!({"minimum": 3, "maximum": 12}),
            json!({"minimum": 3, "maximum": 9}),
        );
        check(json!({"enum": [1, 2]}), json!({"enum": [2, 3]}), json!({"enum": [2]}));
        check(json!({"required": ["a"]}), json!({"required": ["a", "b"]}), json!({"required": ["a", "b"]}));
        check(
            json!({"properties": {"a": {"type": "integer"}}}),
            json!({"properties": {"a": {"minimum": 1}, "b": {}}}),
            json!({"properties": {"a": {"type": "integer", "minimum": 1}, "b": {}}}),
        );
        check(
            json!({"additionalProperties": {}}),
            json!({"additionalProperties": false}),
            json!({"additionalProperties": false}),
        );
    }

    #[test]
    fn what_cannot_be_said_once_stays_apart() {
        check(json!({"pattern": "a"}), json!({"pattern": "b"}), json!({"pattern": "a", "allOf": [{"pattern": "b"}]}));
        check(
            json!({"type": "string"}),
            json!({"type": "object"}),
            json!({"type": "string", "allOf": [{"type": "object"}]}),
        );
        check(json!({"anyOf": [{}]}), json!({"anyOf": [true]}), json!({"anyOf": [{}], "allOf": [{"anyOf": [true]}]}));
    }
}
