//! Makes the root of a tool's schema an object without alternatives, as every provider requires.

use serde_json::{Map, Value, json};

use super::emit::{as_schema, is_impossible, properties, required};
use super::loss_notes::words;
use super::types::types;
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::rewrite::{PlainSchema, definition_name, merge};

/// The property that wraps a value which is not an object.
const WRAPPER: &str = "value";
/// Unions inside unions that are still looked into.
const MAX_DEPTH: usize = 8;

/// Changes the root of `plain` into an object; gives the wrapping property's name if there is one.
pub(super) fn make_object(plain: &mut PlainSchema) -> Option<String> {
    let root = std::mem::take(&mut plain.root);
    // The alternatives first: they may be what makes the root an object.
    let root = without_union(root, plain, 0);
    let types = types(&root);
    if types.is_empty() || types.iter().any(|name| name == "object") {
        plain.root = object(root, &types, &mut plain.losses);
        return None;
    }
    plain.losses.push(SchemaLoss::new(
        &JsonPointer::root(),
        "type",
        LossFate::Changed,
        format!("the tool takes no object; its value goes into the property {WRAPPER:?}"),
    ));
    plain.root = as_schema(&json!({
        "type": "object",
        "properties": {WRAPPER: root},
        "required": [WRAPPER],
        "additionalProperties": false
    }));
    Some(WRAPPER.to_owned())
}

/// Puts the keywords in the order people write them, and folds those that a root may not have.
fn object(root: Map<String, Value>, types: &[String], losses: &mut Vec<SchemaLoss>) -> Map<String, Value> {
    // `["object", "null"]`: arguments are never `null`.
    if types.len() > 1 {
        let note = "arguments are always an object";
        losses.push(SchemaLoss::new(&JsonPointer::root(), "type", LossFate::Changed, note));
    }
    let mut object = Map::from_iter([("type".to_owned(), json!("object"))]);
    let mut folded = Vec::new();
    for (keyword, value) in root {
        match keyword.as_str() {
            "type" => {}
            "not" | "enum" | "const" | "allOf" | "anyOf" | "oneOf" => {
                let words = words(&keyword, &value);
                losses.push(SchemaLoss::new(&JsonPointer::root(), keyword, LossFate::Folded, words.clone()));
                folded.push(words);
            }
            _ => {
                object.insert(keyword, value);
            }
        }
    }
    describe(&mut object, folded);
    object.entry("properties").or_insert_with(|| json!({}));
    object
}

/// Replaces the root's union by one object that has the properties of all branches.
fn without_union(mut root: Map<String, Value>, plain: &mut PlainSchema, depth: usize) -> Map<String, Value> {
    let Some(keyword) = ["anyOf", "oneOf"].into_iter().find(|keyword| root.contains_key(*keyword)) else {
        return root;
    };
    let Some(Value::Array(branches)) = root.get(keyword).cloned() else {
        return root;
    };
    let branches = object_branches(&branches, plain, depth);
    if branches.is_empty() {
        // No alternative is an object. Left alone, the union is wrapped or folded as a whole.
        return root;
    }
    // From here on the alternatives live in the merged properties and in words.
    root.shift_remove(keyword);
    let words = alternatives(&branches);
    plain.losses.push(SchemaLoss::new(&JsonPointer::root(), keyword, LossFate::Folded, words.clone()));
    let merged = merge(root, together(&branches));
    let mut merged = without_union(merged, plain, depth + 1);
    describe(&mut merged, vec![words]);
    merged
}

fn object_branches(branches: &[Value], plain: &mut PlainSchema, depth: usize) -> Vec<Map<String, Value>> {
    let mut objects = Vec::new();
    for branch in branches {
        let branch = as_schema(branch);
        let target = definition_name(&branch).and_then(|name| plain.definitions.get(name));
        let branch = target.map_or(branch, as_schema);
        if is_impossible(&branch) || depth > MAX_DEPTH {
            continue;
        }
        let branch = without_union(branch, plain, depth + 1);
        let types = types(&branch);
        if types.is_empty() || types.iter().any(|name| name == "object") {
            objects.push(branch);
        }
    }
    objects
}

/// One object with the properties of all; only what all need is needed.
fn together(branches: &[Map<String, Value>]) -> Map<String, Value> {
    let mut all: Map<String, Value> = Map::new();
    for branch in branches {
        for (name, schema) in properties(branch) {
            let either = match all.get(name) {
                Some(present) => either(present, schema),
                None => schema.clone(),
            };
            all.insert(name.clone(), either);
        }
    }
    let needed: Vec<&str> = required(&branches[0])
        .into_iter()
        .filter(|name| branches.iter().all(|branch| required(branch).contains(name)))
        .collect();
    // One open alternative makes the whole open.
    let is_closed = branches.iter().all(|branch| branch.get("additionalProperties") == Some(&json!(false)));
    let mut object = as_schema(&json!({"type": "object", "properties": all}));
    if !needed.is_empty() {
        object.insert("required".to_owned(), json!(needed));
    }
    if is_closed {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    object
}

/// Two constants become a choice, other different schemas a union.
fn either(one: &Value, other: &Value) -> Value {
    if one == other {
        return one.clone();
    }
    let choices = |schema: &Value| match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    };
    if let (Some(mut ours), Some(theirs)) = (choices(one), choices(other)) {
        ours.extend(theirs.into_iter().filter(|value| !ours.contains(value)).collect::<Vec<_>>());
        let mut schema = as_schema(one);
        schema.shift_remove("const");
        if one.get("type") != other.get("type") {
            schema.shift_remove("type");
        }
        schema.insert("enum".to_owned(), Value::Array(ours));
        return Value::Object(schema);
    }
    match one.get("anyOf").and_then(Value::as_array) {
        // The same alternative twice says nothing new.
        Some(branches) if branches.contains(other) => one.clone(),
        Some(branches) if one.as_object().is_some_and(|one| one.len() == 1) => {
            let mut branches = branches.clone();
            branches.push(other.clone());
            json!({"anyOf": branches})
        }
        _ => json!({"anyOf": [one, other]}),
    }
}

/// "either a, b; or c": which properties belong together.
fn alternatives(branches: &[Map<String, Value>]) -> String {
    let listed: Vec<String> = branches
        .iter()
        .take(12)
        .map(|branch| {
            let names: Vec<String> = properties(branch)
                .map(|(name, schema)| match schema.get("const") {
                    Some(value) => format!("{name} = {value}"),
                    None => name.clone(),
                })
                .collect();
            let names = if names.is_empty() { required(branch).join(", ") } else { names.join(", ") };
            if names.is_empty() { "anything".to_owned() } else { names }
        })
        .collect();
    format!("either {}", listed.join("; or "))
}

fn describe(object: &mut Map<String, Value>, words: Vec<String>) {
    if words.is_empty() {
        return;
    }
    let words = format!("({})", words.join("; "));
    let text = match object.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} {words}"),
        None => words,
    };
    object.insert("description".to_owned(), Value::from(text));
}
