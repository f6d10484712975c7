//! What the dialects share: folding keywords into words, types, renaming, and unions.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

use super::plan::{Branch, Null, Plan};
use crate::loss::{Fate, Loss};
use crate::pointer::Pointer;
use crate::rewrite::{Plain, definition_name, merge};

/// A schema said in a dialect, with the way back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Emitted {
    pub(super) schema: Map<String, Value>,
    pub(super) plan: Plan,
}

/// Collects what one schema cannot say.
pub(super) struct Notes<'l> {
    at: Pointer,
    words: Vec<String>,
    losses: &'l mut Vec<Loss>,
}

impl<'l> Notes<'l> {
    pub(super) fn new(at: &Pointer, losses: &'l mut Vec<Loss>) -> Self {
        Self { at: at.clone(), words: Vec::new(), losses }
    }

    /// Says a keyword in words.
    pub(super) fn fold(&mut self, keyword: &str, words: impl Into<String>) {
        let words = words.into();
        self.lose(keyword, Fate::Folded, words.clone());
        self.words.push(words);
    }

    /// Says a keyword in its usual words.
    pub(super) fn fold_keyword(&mut self, keyword: &str, value: &Value) {
        self.fold(keyword, words(keyword, value));
    }

    /// Notes a loss without words for the model.
    pub(super) fn lose(&mut self, keyword: &str, fate: Fate, note: impl Into<String>) {
        self.losses.push(Loss::new(&self.at, keyword, fate, note));
    }

    /// Adds a hint for the model that is no loss.
    pub(super) fn hint(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    /// Writes description and words into the result.
    pub(super) fn finish(self, description: Option<&Value>, into: &mut Map<String, Value>) {
        let mut text = description.and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.words.is_empty() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&format!("({})", self.words.join("; ")));
        }
        if !text.is_empty() {
            into.insert("description".to_owned(), Value::from(text));
        }
    }
}

/// What a dialect does with a keyword that holds no schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    Keep,
    Fold,
    /// Means nothing to a model.
    Strip,
}

/// Keywords every restrictive dialect handles by itself.
const STRUCTURAL: &[&str] = &[
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "enum",
    "const",
    "description",
];

/// Keeps, folds or strips all keywords that are not structural.
pub(super) fn simple_keywords(
    schema: &Map<String, Value>,
    into: &mut Map<String, Value>,
    notes: &mut Notes<'_>,
    treatment: impl Fn(&str, &Value) -> Treatment,
) {
    for (keyword, value) in schema {
        if STRUCTURAL.contains(&keyword.as_str()) {
            continue;
        }
        match treatment(keyword, value) {
            Treatment::Keep => {
                into.insert(keyword.clone(), value.clone());
            }
            Treatment::Fold => notes.fold_keyword(keyword, value),
            Treatment::Strip => {}
        }
    }
}

/// Whether a keyword says nothing about values: titles, extensions, and what the plain form does not know.
pub(super) fn is_decoration(keyword: &str) -> bool {
    keyword.starts_with("x-") || keyword.starts_with('$') || !is_known(keyword)
}

fn is_known(keyword: &str) -> bool {
    words_for(keyword).is_some()
}

fn words_for(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "minLength" => "at least {} characters",
        "maxLength" => "at most {} characters",
        "pattern" => "matching {}",
        "format" => "format {}",
        "minimum" => "at least {}",
        "maximum" => "at most {}",
        "exclusiveMinimum" => "more than {}",
        "exclusiveMaximum" => "less than {}",
        "multipleOf" => "a multiple of {}",
        "minItems" => "at least {} items",
        "maxItems" => "at most {} items",
        "minProperties" => "at least {} properties",
        "maxProperties" => "at most {} properties",
        "uniqueItems" => "no item twice",
        "default" => "default {}",
        "examples" => "for example {}",
        "const" => "always {}",
        "enum" => "one of {}",
        "not" => "not {}",
        "if" => "if {}",
        "then" => "then {}",
        "else" => "else {}",
        "allOf" => "also all of {}",
        "anyOf" => "any of {}",
        "oneOf" => "exactly one of {}",
        "dependentRequired" => "needed together: {}",
        "dependentSchemas" => "if present, then also: {}",
        "patternProperties" => "properties by name: {}",
        "additionalProperties" => "other properties: {}",
        "unevaluatedProperties" => "other properties: {}",
        "unevaluatedItems" => "other items: {}",
        "propertyNames" => "property names: {}",
        "contains" => "with an item like {}",
        "minContains" => "at least {} such items",
        "maxContains" => "at most {} such items",
        "prefixItems" => "items in this order: {}",
        "items" => "further items: {}",
        "contentEncoding" => "encoded as {}",
        "contentMediaType" => "content type {}",
        "contentSchema" => "content like {}",
        "deprecated" => "deprecated",
        "readOnly" => "read only",
        "writeOnly" => "write only",
        "required" => "needs {}",
        "type" => "type {}",
        _ => return None,
    })
}

/// A keyword in words.
pub(super) fn words(keyword: &str, value: &Value) -> String {
    match words_for(keyword) {
        Some(template) => template.replace("{}", &short(value)),
        None => format!("{keyword}: {}", short(value)),
    }
}

/// A value as short text: lists of scalars with commas, other things as JSON, cut.
fn short(value: &Value) -> String {
    const LONGEST: usize = 240;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            items.join(", ")
        }
        Value::Bool(false) => "none".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

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

/// Whether a schema takes `null`.
pub(super) fn accepts_null(schema: &Value, plain: &Plain) -> bool {
    accepts_null_within(schema, plain, 16)
}

fn accepts_null_within(schema: &Value, plain: &Plain, depth: usize) -> bool {
    let Some(schema) = schema.as_object() else {
        return schema.as_bool().unwrap_or(false);
    };
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

/// `{"not": {}}`: no value fits.
pub(super) fn is_impossible(schema: &Map<String, Value>) -> bool {
    match schema.get("not") {
        Some(Value::Object(not)) => not.is_empty(),
        Some(Value::Bool(not)) => *not,
        _ => false,
    }
}

/// Whether a property must be there, and what `null` means for it.
pub(super) fn null_meaning(schema: &Value, is_required: bool, plain: &Plain) -> Null {
    if is_required || accepts_null(schema, plain) { Null::Value } else { Null::Absent }
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
pub(super) fn fold_unlisted_required(schema: &Map<String, Value>, notes: &mut Notes<'_>) {
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
    let mut used: HashSet<String> = names.iter().filter(|name| is_taken(name)).cloned().collect();
    let mut shown = BTreeMap::new();
    for name in names {
        if is_taken(&name) {
            shown.insert(name.clone(), name);
            continue;
        }
        let safe = crate::tool_name::sanitize(&name).replace('-', "_");
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

/// A union whose branches stand alone: what stood beside it is part of each.
pub(super) enum Union {
    /// There is none.
    None,
    /// The branches only restrict what stands beside them: better said in words.
    Words { keyword: &'static str },
    /// Whole alternatives.
    Branches { keyword: &'static str, branches: Vec<Map<String, Value>> },
}

/// Looks for a union in a schema.
pub(super) fn union(schema: &Map<String, Value>, plain: &Plain) -> Union {
    let Some(keyword) = ["anyOf", "oneOf"].into_iter().find(|keyword| schema.contains_key(*keyword)) else {
        return Union::None;
    };
    let branches: Vec<Map<String, Value>> = schema[keyword]
        .as_array()
        .into_iter()
        .flatten()
        .map(as_schema)
        .filter(|branch| !is_impossible(branch))
        .collect();
    let beside = beside_union(schema, keyword);
    if branches.is_empty() || (!beside.is_empty() && branches.iter().all(is_thin)) {
        return Union::Words { keyword };
    }
    let branches = branches.into_iter().map(|branch| with_beside(branch, &beside, plain)).collect();
    Union::Branches { keyword, branches }
}

fn beside_union(schema: &Map<String, Value>, keyword: &str) -> Map<String, Value> {
    schema
        .iter()
        .filter(|(name, _)| *name != keyword && *name != "description" && *name != "default")
        .filter(|(name, _)| !is_decoration(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn is_thin(branch: &Map<String, Value>) -> bool {
    branch.keys().all(|keyword| {
        matches!(keyword.as_str(), "required" | "not" | "description" | "title" | "dependentRequired" | "type")
    }) && branch.keys().any(|keyword| keyword != "type" && keyword != "description")
}

fn with_beside(branch: Map<String, Value>, beside: &Map<String, Value>, plain: &Plain) -> Map<String, Value> {
    if beside.is_empty() {
        return branch;
    }
    // Nothing may stand beside a reference, so its target is written out here.
    let branch = match definition_name(&branch).and_then(|name| plain.definitions.get(name)) {
        Some(target) => as_schema(target),
        None => branch,
    };
    merge(beside.clone(), branch)
}

/// The plan for a union, from the schemas and plans of its branches.
pub(super) fn union_plan(branches: &[Map<String, Value>], plans: Vec<Plan>, plain: &Plain) -> Plan {
    let branches = branches.iter().zip(plans).map(|(schema, plan)| {
        let target = definition_name(schema).and_then(|name| plain.definitions.get(name));
        let types = target.and_then(Value::as_object).map_or_else(|| types(schema), types);
        Branch { types, plan }
    });
    Plan::one_of(branches.collect())
}

/// Definitions that lead back to themselves.
pub(super) fn recursive_definitions(plain: &Plain) -> HashSet<String> {
    let direct: BTreeMap<&String, HashSet<String>> =
        plain.definitions.iter().map(|(name, schema)| (name, mentioned(schema))).collect();
    plain
        .definitions
        .keys()
        .filter(|start| {
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
