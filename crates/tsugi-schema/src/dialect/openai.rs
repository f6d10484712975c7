//! OpenAI functions: strict where the schema allows it, otherwise the full schema without `strict`.

use serde_json::{Map, Value, json};

use super::emit::{self, as_schema, is_impossible, properties, required};
use super::loss_notes::{self, KeywordTreatment, LossNotes, is_decoration};
use super::plan::{ArgumentPlan, MemberPlan, NullMeaning, ValuePlan};
use super::root::make_object;
use super::types::types;
use super::union::{self, SchemaUnion};
use super::{DeclarationParts, OpenAiStrictness, anthropic};
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::rewrite::{PlainSchema, ReferenceHandling, definition_name, rewrite};

/// The service's limits for strict schemas.
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5_000;
const MAX_CHOICES: usize = 1_000;
const MAX_CHARACTERS: usize = 120_000;

/// Formats that strict schemas may name.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

pub(super) fn convert(schema: &Value, strictness: OpenAiStrictness) -> DeclarationParts {
    if strictness == OpenAiStrictness::Never {
        return anthropic::whole(schema, |_| true, Vec::new());
    }
    strict(schema).unwrap_or_else(|loss| anthropic::whole(schema, |_| true, vec![loss]))
}

fn strict(schema: &Value) -> Result<DeclarationParts, SchemaLoss> {
    let mut plain = rewrite(schema, ReferenceHandling::Keep);
    if let Some(keyword) = ["anyOf", "oneOf"].into_iter().find(|keyword| plain.root.contains_key(*keyword)) {
        // Strict schemas may not have alternatives at the root, and merging them would lose what belongs together.
        return Err(refuse(&JsonPointer::root(), keyword));
    }
    let wrapped_in = make_object(&mut plain);
    close_empty_root(&mut plain)?;
    let mut losses = std::mem::take(&mut plain.losses);
    // The limits count over the whole declaration, so one emitter sees all of it.
    let mut emitter = OpenAiEmitter { plain: &plain, losses: &mut losses, properties: 0, choices: 0, characters: 0 };
    let (mut root, plan) = emitter.schema(&plain.root, &JsonPointer::root(), 1)?;
    let mut plan = ArgumentPlan { root: plan, wrapped_in, ..ArgumentPlan::default() };
    let mut definitions = Map::new();
    for (name, schema) in &plain.definitions {
        let at = JsonPointer::root().child("$defs").child(name);
        let (schema, definition) = emitter.schema(&as_schema(schema), &at, 1)?;
        definitions.insert(name.clone(), Value::Object(schema));
        plan.definitions.insert(name.clone(), definition);
    }
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Ok(DeclarationParts { schema: Value::Object(root), losses, plan, is_strict: true })
}

/// What is lost where `keyword` keeps a schema from being strict: that it is strict.
fn refuse(at: &JsonPointer, keyword: &str) -> SchemaLoss {
    SchemaLoss::new(at, "strict", LossFate::Dropped, format!("{keyword} cannot be said strictly"))
}

/// `{"type": "object"}` is how tools say that they take nothing; elsewhere it means any object.
/// One that must have members is meant as any object here too.
fn close_empty_root(plain: &mut PlainSchema) -> Result<(), SchemaLoss> {
    let has_properties = properties(&plain.root).next().is_some();
    if has_properties || plain.root.contains_key("additionalProperties") {
        return Ok(());
    }
    // Closing it would make it impossible to satisfy.
    if plain.root.get("minProperties").and_then(Value::as_f64).is_some_and(|least| least > 0.0) {
        return Err(refuse(&JsonPointer::root(), "minProperties without properties"));
    }
    plain.root.insert("additionalProperties".to_owned(), json!(false));
    let note = "the schema names no arguments, so none can be given";
    plain.losses.push(SchemaLoss::new(&JsonPointer::root(), "additionalProperties", LossFate::Changed, note));
    Ok(())
}

struct OpenAiEmitter<'p, 'l> {
    plain: &'p PlainSchema,
    losses: &'l mut Vec<SchemaLoss>,
    properties: usize,
    choices: usize,
    characters: usize,
}

type StrictResult = Result<(Map<String, Value>, ValuePlan), SchemaLoss>;

fn treatment(keyword: &str, value: &Value) -> KeywordTreatment {
    match keyword {
        "multipleOf" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "minItems" | "maxItems" => {
            KeywordTreatment::Keep
        }
        // The grammar behind strict schemas knows no look-around.
        "pattern" if !value.as_str().unwrap_or_default().contains("(?") => KeywordTreatment::Keep,
        "format" if FORMATS.contains(&value.as_str().unwrap_or_default()) => KeywordTreatment::Keep,
        _ if is_decoration(keyword) => KeywordTreatment::Strip,
        _ => KeywordTreatment::Fold,
    }
}

/// Keywords that make values invalid in ways words would not keep a strict model to.
const NEVER: &[&str] = &[
    "allOf",
    "not",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "prefixItems",
    "contains",
    "unevaluatedItems",
    "contentSchema",
];

impl OpenAiEmitter<'_, '_> {
    fn schema(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> StrictResult {
        if let Some(name) = definition_name(schema) {
            return Ok((schema.clone(), ValuePlan::Definition(name.to_owned())));
        }
        if depth > MAX_DEPTH {
            return Err(refuse(at, "so deep a nesting"));
        }
        // Strict mode refuses these outright; describing them in words would not constrain the model.
        if let Some(keyword) = NEVER.iter().find(|keyword| schema.contains_key(**keyword)) {
            return Err(refuse(at, keyword));
        }
        match union::find(schema, self.plain) {
            SchemaUnion::Branches { keyword, branches } => self.union(schema, keyword, branches, at, depth),
            SchemaUnion::Words { keyword } => Err(refuse(at, keyword)),
            SchemaUnion::None => self.typed(schema, at, depth),
        }
    }

    fn union(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &'static str,
        branches: Vec<Map<String, Value>>,
        at: &JsonPointer,
        depth: usize,
    ) -> StrictResult {
        let (mut shown, mut plans) = (Vec::new(), Vec::new());
        for (index, branch) in branches.iter().enumerate() {
            let at = at.child(keyword).child(index);
            let (emitted, plan) = self.schema(branch, &at, depth + 1)?;
            shown.push(Value::Object(emitted));
            plans.push(plan);
        }
        let mut notes = LossNotes::new(at, self.losses);
        // Strict schemas know `anyOf` only.
        if keyword == "oneOf" && shown.len() > 1 {
            notes.fold("oneOf", "exactly one of these");
        }
        if let Some(value) = schema.get("default") {
            notes.fold_keyword("default", value);
        }
        let mut result = Map::from_iter([("anyOf".to_owned(), Value::Array(shown))]);
        notes.finish(schema.get("description"), &mut result);
        Ok((result, union::plan(&branches, plans, self.plain)))
    }

    fn typed(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> StrictResult {
        let types = types(schema);
        let mut result = Map::new();
        match types.as_slice() {
            [] => return Err(refuse(at, "a value of any type")),
            [single] => drop(result.insert("type".to_owned(), json!(single))),
            _ => drop(result.insert("type".to_owned(), json!(types))),
        }
        let has = |name: &str| types.iter().any(|kind| kind == name);
        let object = match has("object") {
            true => self.object(schema, &mut result, at, depth)?,
            false => ValuePlan::Keep,
        };
        let array = match has("array") {
            true => self.array(schema, &mut result, at, depth)?,
            false => ValuePlan::Keep,
        };
        self.choices(schema, &mut result, at)?;
        let mut notes = LossNotes::new(at, self.losses);
        loss_notes::simple_keywords(schema, &mut result, &mut notes, treatment);
        notes.finish(schema.get("description"), &mut result);
        let plan = if object == ValuePlan::Keep { array } else { object };
        Ok((result, plan))
    }

    fn choices(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
    ) -> Result<(), SchemaLoss> {
        if let Some(value) = schema.get("const") {
            self.count_characters(value.to_string().len(), at)?;
            result.insert("const".to_owned(), value.clone());
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            self.choices += values.len();
            if self.choices > MAX_CHOICES {
                return Err(refuse(at, "so many choices"));
            }
            for value in values {
                self.count_characters(value.to_string().len(), at)?;
            }
            result.insert("enum".to_owned(), json!(values));
        }
        Ok(())
    }

    fn count_characters(&mut self, more: usize, at: &JsonPointer) -> Result<(), SchemaLoss> {
        self.characters += more;
        if self.characters > MAX_CHARACTERS {
            return Err(refuse(at, "so much text in names and choices"));
        }
        Ok(())
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> Result<ValuePlan, SchemaLoss> {
        self.check_closed(schema, at)?;
        let needed = required(schema);
        // Strict mode requires exactly the listed properties, so this one could never be given.
        if needed.iter().any(|name| !properties(schema).any(|(known, _)| known == name)) {
            return Err(refuse(at, "a required property without a schema"));
        }
        let (mut shown, mut members) = (Map::new(), Vec::new());
        for (name, property) in properties(schema) {
            let is_required = needed.contains(&name.as_str());
            let property = as_schema(property);
            let at = at.child("properties").child(name);
            if is_impossible(&property) {
                self.losses.push(SchemaLoss::new(
                    &at,
                    "not",
                    LossFate::Dropped,
                    "no value fits, so the property is left out",
                ));
                continue;
            }
            self.properties += 1;
            self.count_characters(name.len(), &at)?;
            let (emitted, plan) = self.schema(&property, &at, depth + 1)?;
            let accepts_null = emit::accepts_null(&Value::Object(property), self.plain);
            let (emitted, null) = match (is_required, accepts_null) {
                (true, _) => (emitted, NullMeaning::Value),
                (false, true) => (emitted, NullMeaning::Value),
                // Everything is required there: `null` takes the place of "left out".
                (false, false) => (with_null(emitted), NullMeaning::AbsentRequired),
            };
            if !is_required {
                let note = "optional there means null";
                self.losses.push(SchemaLoss::new(&at, "required", LossFate::Changed, note));
            }
            members.push(MemberPlan { shown: name.clone(), name: name.clone(), null, absent: None, plan });
            shown.insert(name.clone(), Value::Object(emitted));
        }
        if self.properties > MAX_PROPERTIES {
            return Err(refuse(at, "so many properties"));
        }
        let every: Vec<&String> = shown.keys().collect();
        result.insert("required".to_owned(), json!(every));
        result.insert("properties".to_owned(), Value::Object(shown));
        result.insert("additionalProperties".to_owned(), json!(false));
        Ok(ValuePlan::object(members, ValuePlan::Keep))
    }

    /// A strict object is closed. An open one with properties may be closed, one that is only open may not.
    fn check_closed(&mut self, schema: &Map<String, Value>, at: &JsonPointer) -> Result<(), SchemaLoss> {
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => return Ok(()),
            Some(Value::Object(_)) => return Err(refuse(at, "additionalProperties")),
            _ => {}
        }
        // An open object becomes `{}` when it is closed, which no caller means.
        if properties(schema).next().is_none() {
            return Err(refuse(at, "an object with any properties"));
        }
        let note = "other properties are not allowed there";
        self.losses.push(SchemaLoss::new(at, "additionalProperties", LossFate::Changed, note));
        Ok(())
    }

    fn array(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> Result<ValuePlan, SchemaLoss> {
        let Some(Value::Object(items)) = schema.get("items") else {
            return Err(refuse(at, "an array of anything"));
        };
        let (emitted, plan) = self.schema(items, &at.child("items"), depth + 1)?;
        result.insert("items".to_owned(), Value::Object(emitted));
        Ok(ValuePlan::array(Vec::new(), plan))
    }
}

/// The same schema, taking `null` as well.
fn with_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.push(json!({"type": "null"}));
        return schema;
    }
    if schema.contains_key("$ref") || schema.contains_key("const") {
        // Nothing may stand beside a reference, so the description moves outside.
        let description = schema.shift_remove("description");
        let mut either = as_schema(&json!({"anyOf": [schema, {"type": "null"}]}));
        if let Some(description) = description {
            either.insert("description".to_owned(), description);
        }
        return either;
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let mut types: Vec<Value> = match schema.get("type") {
        Some(Value::Array(names)) => names.clone(),
        Some(name) => vec![name.clone()],
        None => Vec::new(),
    };
    if !types.contains(&json!("null")) {
        types.push(json!("null"));
    }
    schema.insert("type".to_owned(), Value::Array(types));
    schema
}
