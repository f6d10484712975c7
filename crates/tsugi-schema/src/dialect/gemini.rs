//! Gemini's `parametersJsonSchema`: JSON Schema, of which only a documented list of keywords is read.

use serde_json::{Map, Value, json};
use std::collections::HashSet;

use super::DeclarationParts;
use super::emit::{self, EmittedSchema, as_schema, mentioned};
use super::google::{EmittedProperties, GoogleEmitter};
use super::loss_notes::{self, KeywordTreatment, LossNotes, is_decoration};
use super::plan::{ArgumentPlan, ValuePlan};
use super::root::make_object;
use super::types::{self, types};
use super::union;
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::rewrite::{PlainSchema, ReferenceHandling, definition_name, rewrite};

/// How deep the result may be nested.
const MAX_DEPTH: usize = 40;

pub(super) fn convert(schema: &Value) -> DeclarationParts {
    let mut plain = rewrite(schema, ReferenceHandling::Keep);
    // Every provider wants an object at the root.
    let wrapped_in = make_object(&mut plain);
    let mut losses = std::mem::take(&mut plain.losses);
    let mut emitter =
        GeminiEmitter { recursive: emit::recursive_definitions(&plain), plain: &plain, losses: &mut losses };
    let mut root = emitter.schema(&plain.root, &JsonPointer::root(), 0);
    let mut plan = ArgumentPlan { root: root.plan, wrapped_in, ..ArgumentPlan::default() };
    let mut definitions = Map::new();
    for (name, schema) in &plain.definitions {
        let at = JsonPointer::root().child("$defs").child(name);
        let emitted = emitter.schema(&as_schema(schema), &at, 0);
        definitions.insert(name.clone(), Value::Object(emitted.schema));
        plan.definitions.insert(name.clone(), emitted.plan);
    }
    if !definitions.is_empty() {
        root.schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    DeclarationParts { schema: Value::Object(root.schema), losses, plan, is_strict: false }
}

struct GeminiEmitter<'p, 'l> {
    plain: &'p PlainSchema,
    losses: &'l mut Vec<SchemaLoss>,
    recursive: HashSet<String>,
}

fn treatment(keyword: &str, _: &Value) -> KeywordTreatment {
    match keyword {
        "format" | "minItems" | "maxItems" | "minimum" | "maximum" => KeywordTreatment::Keep,
        _ if is_decoration(keyword) => KeywordTreatment::Strip,
        _ => KeywordTreatment::Fold,
    }
}

impl GoogleEmitter for GeminiEmitter<'_, '_> {
    fn plain(&self) -> &PlainSchema {
        self.plain
    }

    fn losses(&mut self) -> &mut Vec<SchemaLoss> {
        self.losses
    }

    fn schema(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> EmittedSchema {
        if let Some(name) = definition_name(schema) {
            return EmittedSchema {
                schema: Map::from_iter([("$ref".to_owned(), json!(format!("#/$defs/{name}")))]),
                plan: ValuePlan::Definition(name.to_owned()),
            };
        }
        if depth > MAX_DEPTH {
            self.losses.push(SchemaLoss::new(at, "type", LossFate::Dropped, "nested too deeply"));
            return EmittedSchema { schema: Map::new(), plan: ValuePlan::Keep };
        }
        self.by_kind(schema, at, depth)
    }

    fn union(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &'static str,
        branches: Vec<Map<String, Value>>,
        at: &JsonPointer,
        depth: usize,
    ) -> EmittedSchema {
        let (mut shown, mut plans) = (Vec::new(), Vec::new());
        for (index, branch) in branches.iter().enumerate() {
            let emitted = self.schema(branch, &at.child(keyword).child(index), depth + 1);
            shown.push(Value::Object(emitted.schema));
            plans.push(emitted.plan);
        }
        let mut notes = LossNotes::new(at, self.losses);
        // `default` is not among the keywords that are read, so it goes into the description.
        if let Some(value) = schema.get("default") {
            notes.fold_keyword("default", value);
        }
        let mut result = Map::from_iter([(keyword.to_owned(), Value::Array(shown))]);
        notes.finish(schema.get("description"), &mut result);
        EmittedSchema { schema: result, plan: union::plan(&branches, plans, self.plain) }
    }

    /// A schema without a union, of one type or of several.
    fn typed(
        &mut self,
        schema: &Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
        words: Option<(&str, String)>,
    ) -> EmittedSchema {
        let types = types(schema);
        let several = types.iter().filter(|name| *name != "null").count() > 1;
        // `null` among the choices cannot be listed, but can be a branch of its own.
        let lists_null = types.len() > 1 && lists_null(schema);
        if (several || lists_null) && words.is_none() {
            let mut split = schema.clone();
            // The other keywords go into the branches.
            split.retain(|keyword, _| matches!(keyword.as_str(), "description" | "default"));
            let branches = types::split_by_type(schema, &types);
            return self.union(&split, "anyOf", branches, at, depth);
        }
        let mut result = Map::new();
        match types.as_slice() {
            [] => {}
            [single] => drop(result.insert("type".to_owned(), json!(single))),
            // Beside a union that is only described in words, so that no branches can hold them.
            _ if several => {}
            _ => drop(result.insert("type".to_owned(), json!(types))),
        }
        let plan = self.parts(schema, &mut result, at, depth);
        let mut notes = LossNotes::new(at, self.losses);
        if several {
            notes.fold("type", format!("of type {}", types.join(" or ")));
        }
        if let Some((keyword, words)) = words {
            notes.fold(keyword, words);
        }
        emit::fold_unlisted_required(schema, &mut notes);
        choices(schema, &mut result, &mut notes);
        loss_notes::simple_keywords(schema, &mut result, &mut notes, treatment);
        notes.finish(schema.get("description"), &mut result);
        EmittedSchema { schema: result, plan }
    }

    /// Gemini unrolls recursion a little, and only below properties that are not required.
    fn may_be_required(&mut self, schema: &Map<String, Value>, at: &JsonPointer) -> bool {
        let mentioned = mentioned(&Value::Object(schema.clone()));
        let is_recursive = mentioned.iter().any(|name| self.recursive.contains(name));
        if is_recursive {
            let note = "recursive properties may not be required there";
            self.losses.push(SchemaLoss::new(at, "required", LossFate::Changed, note));
        }
        !is_recursive
    }
}

impl GeminiEmitter<'_, '_> {
    fn parts(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let is_array = schema.contains_key("items") || schema.contains_key("prefixItems");
        if schema.contains_key("properties") || schema.contains_key("additionalProperties") {
            return self.object(schema, result, at, depth);
        }
        if is_array {
            return self.array(schema, result, at, depth);
        }
        ValuePlan::Keep
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let EmittedProperties { shown, required, members } = self.properties(schema, at, depth);
        result.insert("properties".to_owned(), Value::Object(shown));
        if !required.is_empty() {
            result.insert("required".to_owned(), json!(required));
        }
        let others = self.others(schema, result, at, depth);
        ValuePlan::object(members, others)
    }

    fn others(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        // Properties allowed by a pattern would be forbidden by what stands for the others.
        if schema.contains_key("patternProperties") && schema.contains_key("additionalProperties") {
            let note = "properties are described by their names";
            self.losses.push(SchemaLoss::new(at, "additionalProperties", LossFate::Dropped, note));
            return ValuePlan::Keep;
        }
        match schema.get("additionalProperties") {
            Some(flag @ Value::Bool(_)) => {
                result.insert("additionalProperties".to_owned(), flag.clone());
                ValuePlan::Keep
            }
            Some(Value::Object(others)) => {
                let emitted = self.schema(others, &at.child("additionalProperties"), depth + 1);
                result.insert("additionalProperties".to_owned(), Value::Object(emitted.schema));
                emitted.plan
            }
            _ => ValuePlan::Keep,
        }
    }

    fn array(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
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
                ValuePlan::Keep
            }
            _ => ValuePlan::Keep,
        };
        ValuePlan::array(prefix, items)
    }
}

fn lists_null(schema: &Map<String, Value>) -> bool {
    let choices = schema.get("enum").and_then(Value::as_array);
    choices.is_some_and(|values| values.contains(&Value::Null))
}

/// `enum` may hold texts and numbers; `const` is an `enum` of one.
fn choices(schema: &Map<String, Value>, result: &mut Map<String, Value>, notes: &mut LossNotes<'_>) {
    let (keyword, values) = match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => ("const", vec![value.clone()]),
        (None, Some(Value::Array(values))) => ("enum", values.clone()),
        _ => return,
    };
    let is_listable = |value: &Value| value.is_string() || value.is_number();
    let (listable, rest): (Vec<Value>, Vec<Value>) = values.into_iter().partition(is_listable);
    // The type already allows `null`.
    if rest.iter().all(Value::is_null) && !listable.is_empty() {
        result.insert("enum".to_owned(), Value::Array(listable));
    } else {
        notes.fold_keyword(keyword, &schema[keyword]);
    }
}
