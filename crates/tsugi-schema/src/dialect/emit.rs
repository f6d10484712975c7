//! What the dialects share about objects: properties and their names, what `null` means, and recursion.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

use super::loss_notes::LossNotes;
use super::plan::{NullMeaning, ValuePlan};
use super::types::types;
use crate::rewrite::{PlainSchema, definition_name};

/// A schema said in a dialect, with the way back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EmittedSchema {
    pub(super) schema: Map<String, Value>,
    pub(super) plan: ValuePlan,
}

/// Whether a schema takes `null`.
pub(super) fn accepts_null(schema: &Value, plain: &PlainSchema) -> bool {
    accepts_null_within(schema, plain, 16)
}

fn accepts_null_within(schema: &Value, plain: &PlainSchema, depth: usize) -> bool {
    let Some(schema) = schema.as_object() else {
        return schema.as_bool().unwrap_or(false);
    };
    // A long chain of references is assumed to allow `null`, which changes nothing.
    if depth == 0 {
        return true;
    }
    if let Some(name) = definition_name(schema) {
        return plain.definitions.get(name).is_none_or(|target| accepts_null_within(target, plain, depth - 1));
    }
    let any_accepts = |keyword: &str| match schema.get(keyword).and_then(Value::as_array) {
        Some(branches) => branches.iter().any(|branch| accepts_null_within(branch, plain, depth - 1)),
        None => true,
    };
    let is_named = match schema.get("type") {
        Some(types) => crate::rewrite::type_names(types).contains(&"null"),
        None => true,
    };
    let is_listed = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.contains(&Value::Null),
        (_, Some(value)) => value.is_null(),
        _ => true,
    };
    is_named && is_listed && any_accepts("anyOf") && any_accepts("oneOf") && !is_impossible(schema)
}

/// The value that means "nothing" where a schema allows one: `null`, an empty array or an empty object.
pub(super) fn empty_value(schema: &Value, plain: &PlainSchema) -> Option<Value> {
    if accepts_null(schema, plain) {
        return Some(Value::Null);
    }
    empty_container(schema, plain, 16)
}

fn empty_container(schema: &Value, plain: &PlainSchema, depth: usize) -> Option<Value> {
    let schema = schema.as_object().filter(|_| depth > 0)?;
    if let Some(name) = definition_name(schema) {
        return empty_container(plain.definitions.get(name)?, plain, depth - 1);
    }
    // Any alternative that can be empty will do.
    let branches = ["anyOf", "oneOf"].iter().filter_map(|keyword| schema.get(*keyword)?.as_array()).flatten();
    if let Some(empty) = branches.into_iter().find_map(|branch| empty_container(branch, plain, depth - 1)) {
        return Some(empty);
    }
    let may_be_empty = |least: &str| schema.get(least).and_then(Value::as_u64).is_none_or(|least| least == 0);
    match types(schema).as_slice() {
        [kind] if kind == "array" && may_be_empty("minItems") && !schema.contains_key("contains") => Some(json!([])),
        [kind] if kind == "object" && may_be_empty("minProperties") && required(schema).is_empty() => Some(json!({})),
        _ => None,
    }
}

/// `{"not": {}}`: no value fits.
pub(super) fn is_impossible(schema: &Map<String, Value>) -> bool {
    match schema.get("not") {
        Some(Value::Object(not)) => not.is_empty(),
        Some(Value::Bool(not)) => *not,
        _ => false,
    }
}

/// Whether a property must be there, and what `null` means for it.
pub(super) fn null_meaning(schema: &Value, is_required: bool, plain: &PlainSchema) -> NullMeaning {
    if is_required || accepts_null(schema, plain) { NullMeaning::Value } else { NullMeaning::Absent }
}

/// The names in `required`.
pub(super) fn required(schema: &Map<String, Value>) -> Vec<&str> {
    schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Says in words which needed properties have no schema of their own.
pub(super) fn fold_unlisted_required(schema: &Map<String, Value>, notes: &mut LossNotes<'_>) {
    let listed: HashSet<&str> = properties(schema).map(|(name, _)| name.as_str()).collect();
    let unlisted: Vec<&str> = required(schema).into_iter().filter(|name| !listed.contains(name)).collect();
    if !unlisted.is_empty() {
        notes.fold_keyword("required", &json!(unlisted));
    }
}

/// The properties of an object schema.
pub(super) fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// The object behind a subschema; the plain form has no booleans among properties and branches.
pub(super) fn as_schema(schema: &Value) -> Map<String, Value> {
    match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(false) => Map::from_iter([("not".to_owned(), json!({}))]),
        _ => Map::new(),
    }
}

/// Gives each property a name the provider takes; the same input gives the same names.
pub(super) fn shown_names(names: impl Iterator<Item = String>, is_taken: fn(&str) -> bool) -> BTreeMap<String, String> {
    let names: Vec<String> = names.collect();
    // Names that stay as they are must not be taken by a renamed one.
    let mut used: HashSet<String> = names.iter().filter(|name| is_taken(name)).cloned().collect();
    let mut shown = BTreeMap::new();
    for name in names {
        if is_taken(&name) {
            shown.insert(name.clone(), name);
            continue;
        }
        let safe = crate::tool_name::sanitize(&name).replace('-', "_");
        // Leaves room for a number within 64 characters.
        let safe: String = safe.chars().take(56).collect();
        let free = (1..)
            .map(|number| match number {
                1 => safe.clone(),
                _ => format!("{safe}_{number}"),
            })
            .find(|candidate| !used.contains(candidate))
            .expect("some number is free");
        used.insert(free.clone());
        shown.insert(name, free);
    }
    shown
}

/// `^[A-Za-z_][A-Za-z0-9_]{0,63}$`.
pub(super) fn is_identifier(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Definitions that lead back to themselves.
pub(super) fn recursive_definitions(plain: &PlainSchema) -> HashSet<String> {
    let direct: BTreeMap<&String, HashSet<String>> =
        plain.definitions.iter().map(|(name, schema)| (name, mentioned(schema))).collect();
    plain
        .definitions
        .keys()
        .filter(|start| {
            // A definition is recursive when following its references leads back to it.
            let mut seen: HashSet<&String> = HashSet::new();
            let mut open: Vec<&String> = direct[start].iter().collect();
            while let Some(name) = open.pop() {
                if seen.insert(name)
                    && let Some(next) = direct.get(name)
                {
                    open.extend(next);
                }
            }
            seen.contains(start)
        })
        .cloned()
        .collect()
}

/// Names of the definitions that a schema refers to.
pub(super) fn mentioned(schema: &Value) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                found.extend(definition_name(members).map(str::to_owned));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}
