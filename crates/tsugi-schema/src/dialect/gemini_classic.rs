//! Gemini's older `parameters`: an OpenAPI-like schema with upper-case types, without references.

use serde_json::{Map, Value, json};

use super::DeclarationParts;
use super::emit::{self, EmittedSchema, as_schema};
use super::google::{EmittedProperties, GoogleEmitter};
use super::loss_notes::{self, KeywordTreatment, LossNotes, is_decoration};
use super::plan::{ArgumentPlan, ValuePlan};
use super::root::make_object;
use super::types::{self, types};
use super::union;
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::rewrite::{PlainSchema, ReferenceHandling, rewrite};

/// How deep the result may be nested.
const MAX_DEPTH: usize = 40;

pub(super) fn convert(schema: &Value) -> DeclarationParts {
    // This form has no references, so definitions are written out where they are used.
    let mut plain = rewrite(schema, ReferenceHandling::Inline);
    let wrapped_in = make_object(&mut plain);
    let mut losses = std::mem::take(&mut plain.losses);
    let mut emitter = GeminiClassicEmitter { plain: &plain, losses: &mut losses };
    let root = emitter.schema(&plain.root, &JsonPointer::root(), 0);
    let plan = ArgumentPlan { root: root.plan, wrapped_in, ..ArgumentPlan::default() };
    DeclarationParts { schema: Value::Object(root.schema), losses, plan, is_strict: false }
}

struct GeminiClassicEmitter<'p, 'l> {
    plain: &'p PlainSchema,
    losses: &'l mut Vec<SchemaLoss>,
}

/// Bounds that the classic schema knows, by the type they may stand beside.
fn treatment(kind: &str, keyword: &str, value: &Value) -> KeywordTreatment {
    match (keyword, kind) {
        ("minLength" | "maxLength" | "pattern", "string")
        | ("minimum" | "maximum", "integer" | "number")
        | ("minItems" | "maxItems", "array")
        | ("minProperties" | "maxProperties", "object") => KeywordTreatment::Keep,
        ("format", _) if is_known_format(kind, value) => KeywordTreatment::Keep,
        _ if is_decoration(keyword) => KeywordTreatment::Strip,
        _ => KeywordTreatment::Fold,
    }
}

fn is_known_format(kind: &str, value: &Value) -> bool {
    let format = value.as_str().unwrap_or_default();
    match kind {
        "string" => format == "date-time",
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

impl GoogleEmitter for GeminiClassicEmitter<'_, '_> {
    fn plain(&self) -> &PlainSchema {
        self.plain
    }

    fn losses(&mut self) -> &mut Vec<SchemaLoss> {
        self.losses
    }

    fn schema(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> EmittedSchema {
        if depth > MAX_DEPTH {
            self.losses.push(SchemaLoss::new(at, "type", LossFate::Dropped, "nested too deeply"));
            return json_text(schema, at, self.losses);
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
        // One branch for any value makes the whole any value: text could not be told from JSON as text otherwise.
        if branches.iter().any(is_any) {
            return json_text(schema, at, self.losses);
        }
        let is_null = |branch: &Map<String, Value>| types(branch) == ["null"];
        // `null` is not a type there but a flag.
        let is_nullable = branches.len() > 1 && branches.iter().any(is_null);
        let mut kept: Vec<(usize, Map<String, Value>)> = branches.into_iter().enumerate().collect();
        kept.retain(|(_, branch)| !is_nullable || !is_null(branch));
        let (mut shown, mut plans) = (Vec::new(), Vec::new());
        for (index, branch) in &kept {
            let emitted = self.schema(branch, &at.child(keyword).child(index), depth + 1);
            shown.push(emitted.schema);
            plans.push(emitted.plan);
        }
        let mut notes = LossNotes::new(at, self.losses);
        if keyword == "oneOf" && shown.len() > 1 {
            notes.fold("oneOf", "exactly one of these");
        }
        if let Some(value) = schema.get("default") {
            notes.fold_keyword("default", value);
        }
        let kept: Vec<Map<String, Value>> = kept.into_iter().map(|(_, branch)| branch).collect();
        let (mut result, description) = match shown.len() {
            1 => {
                // A union of one is no union; its description must not appear twice.
                let mut only = shown.remove(0);
                let inner = only.shift_remove("description");
                (only, schema.get("description").cloned().or(inner))
            }
            _ => (Map::from_iter([("anyOf".to_owned(), json!(shown))]), schema.get("description").cloned()),
        };
        if is_nullable {
            result.insert("nullable".to_owned(), json!(true));
        }
        notes.finish(description.as_ref(), &mut result);
        EmittedSchema { schema: result, plan: union::plan(&kept, plans, self.plain) }
    }

    /// A schema without a union, of one type or of several.
    fn typed(
        &mut self,
        schema: &Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
        words: Option<(&str, String)>,
    ) -> EmittedSchema {
        let mut types = types(schema);
        let is_nullable = types.len() > 1 && types.iter().any(|name| name == "null");
        types.retain(|name| !is_nullable || name != "null");
        match types.as_slice() {
            [] => json_text(schema, at, self.losses),
            [kind] => self.single(schema, &kind.clone(), is_nullable, at, depth, words),
            _ => {
                let mut around = schema.clone();
                // The other keywords go into the branches.
                around.retain(|keyword, _| matches!(keyword.as_str(), "description" | "default"));
                let mut branches = types::split_by_type(schema, &types);
                if is_nullable {
                    branches.push(as_schema(&json!({"type": "null"})));
                }
                self.union(&around, "anyOf", branches, at, depth)
            }
        }
    }
}

impl GeminiClassicEmitter<'_, '_> {
    fn single(
        &mut self,
        schema: &Map<String, Value>,
        kind: &str,
        is_nullable: bool,
        at: &JsonPointer,
        depth: usize,
        words: Option<(&str, String)>,
    ) -> EmittedSchema {
        let mut result = Map::from_iter([("type".to_owned(), json!(kind.to_uppercase()))]);
        if is_nullable {
            result.insert("nullable".to_owned(), json!(true));
        }
        let plan = match kind {
            "object" => self.object(schema, &mut result, at, depth),
            "array" => self.array(schema, &mut result, at, depth),
            _ => ValuePlan::Keep,
        };
        let mut notes = LossNotes::new(at, self.losses);
        if let Some((keyword, words)) = words {
            notes.fold(keyword, words);
        }
        emit::fold_unlisted_required(schema, &mut notes);
        choices(schema, kind, &mut result, &mut notes);
        fold_shapes(schema, &mut notes);
        loss_notes::simple_keywords(schema, &mut result, &mut notes, |keyword, value| treatment(kind, keyword, value));
        notes.finish(schema.get("description"), &mut result);
        EmittedSchema { schema: result, plan }
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let EmittedProperties { shown, required, members } = self.properties(schema, at, depth);
        if !shown.is_empty() {
            result.insert("properties".to_owned(), Value::Object(shown));
        }
        if !required.is_empty() {
            result.insert("required".to_owned(), json!(required));
        }
        ValuePlan::object(members, ValuePlan::Keep)
    }

    /// An ARRAY must say what its items are; a tuple's items may be any of its places'.
    fn array(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let places = schema.get("prefixItems").and_then(Value::as_array);
        let (mut shown, mut plans): (Vec<Map<String, Value>>, _) = (Vec::new(), Vec::new());
        for (index, place) in places.into_iter().flatten().enumerate() {
            let at = at.child("prefixItems").child(index);
            let emitted = self.schema(&as_schema(place), &at, depth + 1);
            plans.push(emitted.plan);
            // Places with the same schema need one alternative.
            if !shown.contains(&emitted.schema) {
                shown.push(emitted.schema);
            }
        }
        let rest = match schema.get("items") {
            Some(Value::Bool(false)) if !shown.is_empty() => ValuePlan::Keep,
            items => {
                let items = items.map(as_schema).unwrap_or_default();
                let emitted = self.schema(&items, &at.child("items"), depth + 1);
                if !shown.contains(&emitted.schema) {
                    shown.push(emitted.schema);
                }
                emitted.plan
            }
        };
        let items = match shown.as_slice() {
            // The classic form has no tuples: any item may be any of them.
            [only] => json!(only),
            _ => json!({"anyOf": shown}),
        };
        result.insert("items".to_owned(), items);
        ValuePlan::array(plans, rest)
    }
}

fn is_any(branch: &Map<String, Value>) -> bool {
    let has_union = branch.contains_key("anyOf") || branch.contains_key("oneOf");
    types(branch).is_empty() && !has_union
}

/// Only a STRING may have an `enum` there.
fn choices(schema: &Map<String, Value>, kind: &str, result: &mut Map<String, Value>, notes: &mut LossNotes<'_>) {
    let (keyword, values) = match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => ("const", vec![value.clone()]),
        (None, Some(Value::Array(values))) => ("enum", values.clone()),
        _ => return,
    };
    let texts: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
    let is_listable = kind == "string" && !texts.is_empty() && texts.iter().all(Value::is_string);
    // An empty text among the choices is refused by the service.
    if is_listable && !texts.contains(&json!("")) {
        result.insert("enum".to_owned(), Value::Array(texts));
    } else {
        notes.fold_keyword(keyword, &schema[keyword]);
    }
}

/// Maps and tuples in words; a closed object needs none, since the gateway checks the arguments anyway.
fn fold_shapes(schema: &Map<String, Value>, notes: &mut LossNotes<'_>) {
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            notes.lose("additionalProperties", LossFate::Dropped, "no other properties are allowed");
        }
        Some(others @ Value::Object(_)) => notes.fold_keyword("additionalProperties", others),
        _ => {}
    }
    if let Some(places) = schema.get("prefixItems") {
        notes.fold_keyword("prefixItems", places);
        if let Some(Value::Bool(false)) = schema.get("items") {
            notes.fold("items", "no further items");
        }
    }
}

/// Any value at all: the model writes JSON as text, which the plan reads back.
fn json_text(schema: &Map<String, Value>, at: &JsonPointer, losses: &mut Vec<SchemaLoss>) -> EmittedSchema {
    let mut result = Map::from_iter([("type".to_owned(), json!("STRING"))]);
    let mut notes = LossNotes::new(at, losses);
    notes.lose("type", LossFate::Changed, "any value, written as JSON text");
    notes.hint("any value, JSON-encoded");
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(keyword) {
            notes.fold_keyword(keyword, branches);
        }
    }
    loss_notes::simple_keywords(schema, &mut result, &mut notes, |keyword, _| {
        if is_decoration(keyword) { KeywordTreatment::Strip } else { KeywordTreatment::Fold }
    });
    notes.finish(schema.get("description"), &mut result);
    EmittedSchema { schema: result, plan: ValuePlan::JsonText }
}
