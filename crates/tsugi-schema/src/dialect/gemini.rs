//! Gemini's `parametersJsonSchema`: JSON Schema, of which only a documented list of keywords is read.

use serde_json::{Map, Value, json};
use std::collections::HashSet;

use super::Parameters;
use super::emit::{self, Emitted, as_schema, mentioned};
use super::google::{Google, Properties};
use super::plan::{ArgumentPlan, Plan};
use super::root::make_object;
use super::types::{self, types};
use super::union;
use super::words::{self, Notes, Treatment, is_decoration};
use crate::loss::{Fate, Loss};
use crate::pointer::Pointer;
use crate::rewrite::{Plain, References, definition_name, rewrite};

/// How deep the result may be nested.
const MAX_DEPTH: usize = 40;

pub(super) fn convert(schema: &Value) -> Parameters {
    let mut plain = rewrite(schema, References::Keep);
    let wrapped_in = make_object(&mut plain);
    let mut losses = std::mem::take(&mut plain.losses);
    let mut emitter = Emitter { recursive: emit::recursive_definitions(&plain), plain: &plain, losses: &mut losses };
    let mut root = emitter.schema(&plain.root, &Pointer::root(), 0);
    let mut plan = ArgumentPlan { root: root.plan, wrapped_in, ..ArgumentPlan::default() };
    let mut definitions = Map::new();
    for (name, schema) in &plain.definitions {
        let at = Pointer::root().child("$defs").child(name);
        let emitted = emitter.schema(&as_schema(schema), &at, 0);
        definitions.insert(name.clone(), Value::Object(emitted.schema));
        plan.definitions.insert(name.clone(), emitted.plan);
    }
    if !definitions.is_empty() {
        root.schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Parameters { schema: Value::Object(root.schema), losses, plan, is_strict: false }
}

struct Emitter<'p, 'l> {
    plain: &'p Plain,
    losses: &'l mut Vec<Loss>,
    recursive: HashSet<String>,
}

fn treatment(keyword: &str, _: &Value) -> Treatment {
    match keyword {
        "format" | "minItems" | "maxItems" | "minimum" | "maximum" => Treatment::Keep,
        _ if is_decoration(keyword) => Treatment::Strip,
        _ => Treatment::Fold,
    }
}

impl Google for Emitter<'_, '_> {
    fn plain(&self) -> &Plain {
        self.plain
    }

    fn losses(&mut self) -> &mut Vec<Loss> {
        self.losses
    }

    fn schema(&mut self, schema: &Map<String, Value>, at: &Pointer, depth: usize) -> Emitted {
        if let Some(name) = definition_name(schema) {
            return Emitted {
                schema: Map::from_iter([("$ref".to_owned(), json!(format!("#/$defs/{name}")))]),
                plan: Plan::Definition(name.to_owned()),
            };
        }
        if depth > MAX_DEPTH {
            self.losses.push(Loss::new(at, "type", Fate::Dropped, "nested too deeply"));
            return Emitted { schema: Map::new(), plan: Plan::Keep };
        }
        self.by_kind(schema, at, depth)
    }

    fn union(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &'static str,
        branches: Vec<Map<String, Value>>,
        at: &Pointer,
        depth: usize,
    ) -> Emitted {
        let (mut shown, mut plans) = (Vec::new(), Vec::new());
        for (index, branch) in branches.iter().enumerate() {
            let emitted = self.schema(branch, &at.child(keyword).child(index), depth + 1);
            shown.push(Value::Object(emitted.schema));
            plans.push(emitted.plan);
        }
        let mut notes = Notes::new(at, self.losses);
        if let Some(value) = schema.get("default") {
            notes.fold_keyword("default", value);
        }
        let mut result = Map::from_iter([(keyword.to_owned(), Value::Array(shown))]);
        notes.finish(schema.get("description"), &mut result);
        Emitted { schema: result, plan: union::plan(&branches, plans, self.plain) }
    }

    /// A schema without a union, of one type or of several.
    fn typed(
        &mut self,
        schema: &Map<String, Value>,
        at: &Pointer,
        depth: usize,
        words: Option<(&str, String)>,
    ) -> Emitted {
        let types = types(schema);
        let several = types.iter().filter(|name| *name != "null").count() > 1;
        // `null` among the choices cannot be listed, but can be a branch of its own.
        let lists_null = types.len() > 1 && lists_null(schema);
        if (several || lists_null) && words.is_none() {
            let mut split = schema.clone();
            split.retain(|keyword, _| matches!(keyword.as_str(), "description" | "default"));
            let branches = types::split_by_type(schema, &types);
            return self.union(&split, "anyOf", branches, at, depth);
        }
        let mut result = Map::new();
        match types.as_slice() {
            [] => {}
            [single] => drop(result.insert("type".to_owned(), json!(single))),
            // Beside a union that is only told in words, so that there are no branches for them.
            _ if several => {}
            _ => drop(result.insert("type".to_owned(), json!(types))),
        }
        let plan = self.parts(schema, &mut result, at, depth);
        let mut notes = Notes::new(at, self.losses);
        if several {
            notes.fold("type", format!("of type {}", types.join(" or ")));
        }
        if let Some((keyword, words)) = words {
            notes.fold(keyword, words);
        }
        emit::fold_unlisted_required(schema, &mut notes);
        choices(schema, &mut result, &mut notes);
        words::simple_keywords(schema, &mut result, &mut notes, treatment);
        notes.finish(schema.get("description"), &mut result);
        Emitted { schema: result, plan }
    }

    /// Gemini unrolls recursion a little, and only below properties that are not required.
    fn may_be_required(&mut self, schema: &Map<String, Value>, at: &Pointer) -> bool {
        let mentioned = mentioned(&Value::Object(schema.clone()));
        let is_recursive = mentioned.iter().any(|name| self.recursive.contains(name));
        if is_recursive {
            let note = "recursive properties may not be required there";
            self.losses.push(Loss::new(at, "required", Fate::Changed, note));
        }
        !is_recursive
    }
}

impl Emitter<'_, '_> {
    fn parts(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &Pointer,
        depth: usize,
    ) -> Plan {
        let is_array = schema.contains_key("items") || schema.contains_key("prefixItems");
        if schema.contains_key("properties") || schema.contains_key("additionalProperties") {
            return self.object(schema, result, at, depth);
        }
        if is_array {
            return self.array(schema, result, at, depth);
        }
        Plan::Keep
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &Pointer,
        depth: usize,
    ) -> Plan {
        let Properties { shown, required, members } = self.properties(schema, at, depth);
        result.insert("properties".to_owned(), Value::Object(shown));
        if !required.is_empty() {
            result.insert("required".to_owned(), json!(required));
        }
        let others = self.others(schema, result, at, depth);
        Plan::object(members, others)
    }

    fn others(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &Pointer,
        depth: usize,
    ) -> Plan {
        // Properties allowed by a pattern would be forbidden by what stands for the others.
        if schema.contains_key("patternProperties") && schema.contains_key("additionalProperties") {
            let note = "properties are described by their names";
            self.losses.push(Loss::new(at, "additionalProperties", Fate::Dropped, note));
            return Plan::Keep;
        }
        match schema.get("additionalProperties") {
            Some(flag @ Value::Bool(_)) => {
                result.insert("additionalProperties".to_owned(), flag.clone());
                Plan::Keep
            }
            Some(Value::Object(others)) => {
                let emitted = self.schema(others, &at.child("additionalProperties"), depth + 1);
                result.insert("additionalProperties".to_owned(), Value::Object(emitted.schema));
                emitted.plan
            }
            _ => Plan::Keep,
        }
    }

    fn array(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &Pointer,
        depth: usize,
    ) -> Plan {
        let mut prefix = Vec::new();
        if let Some(Value::Array(members)) = schema.get("prefixItems") {
            let mut shown = Vec::new();
            for (index, member) in members.iter().enumerate() {
                let at = at.child("prefixItems").child(index);
                let emitted = self.schema(&as_schema(member), &at, depth + 1);
                shown.push(Value::Object(emitted.schema));
                prefix.push(emitted.plan);
            }
            result.insert("prefixItems".to_owned(), Value::Array(shown));
        }
        let items = match schema.get("items") {
            Some(Value::Object(items)) => {
                let emitted = self.schema(items, &at.child("items"), depth + 1);
                result.insert("items".to_owned(), Value::Object(emitted.schema));
                emitted.plan
            }
            // `items: false` after a tuple: the same as a largest number of items.
            Some(Value::Bool(false)) => {
                result.entry("maxItems").or_insert_with(|| json!(prefix.len()));
                Plan::Keep
            }
            _ => Plan::Keep,
        };
        Plan::array(prefix, items)
    }
}

fn lists_null(schema: &Map<String, Value>) -> bool {
    let choices = schema.get("enum").and_then(Value::as_array);
    choices.is_some_and(|values| values.contains(&Value::Null))
}

/// `enum` may hold texts and numbers; `const` is an `enum` of one.
fn choices(schema: &Map<String, Value>, result: &mut Map<String, Value>, notes: &mut Notes<'_>) {
    let (keyword, values) = match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => ("const", vec![value.clone()]),
        (None, Some(Value::Array(values))) => ("enum", values.clone()),
        _ => return,
    };
    let is_listable = |value: &Value| value.is_string() || value.is_number();
    let (listable, rest): (Vec<Value>, Vec<Value>) = values.into_iter().partition(is_listable);
    // `null` among the choices is said by the type.
    if rest.iter().all(Value::is_null) && !listable.is_empty() {
        result.insert("enum".to_owned(), Value::Array(listable));
    } else {
        notes.fold_keyword(keyword, &schema[keyword]);
    }
}
