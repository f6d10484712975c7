//! Anthropic tools, and every provider that reads full JSON Schema: the plain form with an object at its root.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::DeclarationParts;
use super::emit::{as_schema, null_meaning, properties, required, shown_names};
use super::plan::{ArgumentPlan, MemberPlan, ValuePlan};
use super::root::make_object;
use super::union;
use crate::keyword::{KeywordReach, inner_schemas};
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::rewrite::{PlainSchema, ReferenceHandling, definition_name, rewrite};

/// How deep the result may be nested.
const MAX_DEPTH: usize = 64;

pub(super) fn convert(schema: &Value) -> DeclarationParts {
    whole(schema, is_property_key, Vec::new())
}

/// The provider's own rule for keys of properties.
fn is_property_key(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Says a schema with all its keywords; only the root, names and older drafts change.
pub(super) fn whole(schema: &Value, is_taken: fn(&str) -> bool, mut losses: Vec<SchemaLoss>) -> DeclarationParts {
    let mut plain = rewrite(schema, ReferenceHandling::Keep);
    // Every provider wants an object at the root.
    let wrapped_in = make_object(&mut plain);
    losses.append(&mut plain.losses);
    let mut emitter = AnthropicEmitter { plain: &plain, losses: &mut losses, is_taken };
    let (mut root, plan) = emitter.schema(&plain.root, &JsonPointer::root(), 0);
    let mut plan = ArgumentPlan { root: plan, wrapped_in, ..ArgumentPlan::default() };
    let mut definitions = Map::new();
    // References stay, so every definition is emitted once.
    for (name, schema) in &plain.definitions {
        let at = JsonPointer::root().child("$defs").child(name);
        let (schema, definition) = emitter.schema(&as_schema(schema), &at, 0);
        definitions.insert(name.clone(), Value::Object(schema));
        plan.definitions.insert(name.clone(), definition);
    }
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    DeclarationParts { schema: Value::Object(root), losses, plan, is_strict: false }
}

struct AnthropicEmitter<'p, 'l> {
    plain: &'p PlainSchema,
    losses: &'l mut Vec<SchemaLoss>,
    is_taken: fn(&str) -> bool,
}

/// The names of properties as the provider sees them, by the tool's own names.
type ShownNames = BTreeMap<String, String>;

impl AnthropicEmitter<'_, '_> {
    fn schema(
        &mut self,
        schema: &Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> (Map<String, Value>, ValuePlan) {
        let mut names = Vec::new();
        property_names(schema, &mut names, 0);
        // Computed here, at the top of the value, and handed down.
        let names = shown_names(names.into_iter(), self.is_taken);
        self.of_value(schema, &names, at, depth)
    }

    /// A schema for a value that other schemas describe too, such as an alternative beside properties. All of them
    /// speak about one object, so they share its names.
    fn of_value(
        &mut self,
        schema: &Map<String, Value>,
        names: &ShownNames,
        at: &JsonPointer,
        depth: usize,
    ) -> (Map<String, Value>, ValuePlan) {
        if let Some(name) = definition_name(schema) {
            return (schema.clone(), ValuePlan::Definition(name.to_owned()));
        }
        // Deeper parts allow any value, and the loss is reported.
        if depth > MAX_DEPTH {
            self.losses.push(SchemaLoss::new(at, "type", LossFate::Dropped, "nested too deeply"));
            return (Map::new(), ValuePlan::Keep);
        }
        // Keywords that are not treated below stay as they are.
        let mut result = schema.clone();
        let mut plans = vec![self.object(schema, names, &mut result, at, depth)];
        plans.push(self.array(schema, &mut result, at, depth));
        for keyword in ["anyOf", "oneOf"] {
            plans.push(self.union(keyword, schema, names, &mut result, at, depth));
        }
        for keyword in ["if", "not", "then", "else"] {
            let plan = self.condition(keyword, schema, names, &mut result, at, depth);
            // `if` and `not` only test a value; nothing in it is there because of them.
            plans.push(if matches!(keyword, "then" | "else") { plan } else { ValuePlan::Keep });
        }
        (result, ValuePlan::all(plans))
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        names: &ShownNames,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let needed = required(schema);
        let shown_name = |name: &str| names.get(name).map_or(name, String::as_str).to_owned();
        let (mut shown, mut members) = (Map::new(), Vec::new());
        for (name, property) in properties(schema) {
            let at = at.child("properties").child(name);
            let (emitted, plan) = self.schema(&as_schema(property), &at, depth + 1);
            let shown_name = shown_name(name);
            if shown_name != *name {
                let note = format!("called {shown_name} there");
                self.losses.push(SchemaLoss::new(&at, "properties", LossFate::Changed, note));
            }
            members.push(MemberPlan {
                shown: shown_name.clone(),
                name: name.clone(),
                // Models write `null` for what they leave out.
                null: null_meaning(property, needed.contains(&name.as_str()), self.plain),
                absent: None,
                plan,
            });
            shown.insert(shown_name, Value::Object(emitted));
        }
        if schema.contains_key("properties") {
            result.insert("properties".to_owned(), Value::Object(shown));
        }
        if schema.contains_key("required") {
            let renamed = needed.iter().map(|name| shown_name(name));
            result.insert("required".to_owned(), json!(renamed.collect::<Vec<_>>()));
        }
        if let Some(Value::Object(dependent)) = schema.get("dependentRequired") {
            let renamed = dependent.iter().map(|(name, needed)| {
                let needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str).map(&shown_name);
                (shown_name(name), json!(needed.collect::<Vec<_>>()))
            });
            result.insert("dependentRequired".to_owned(), Value::Object(renamed.collect()));
        }
        let others = self.single("additionalProperties", schema, result, at, depth);
        ValuePlan::object(members, others)
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
                let (emitted, plan) = self.schema(&as_schema(member), &at, depth + 1);
                shown.push(Value::Object(emitted));
                prefix.push(plan);
            }
            result.insert("prefixItems".to_owned(), Value::Array(shown));
        }
        let items = self.single("items", schema, result, at, depth);
        ValuePlan::array(prefix, items)
    }

    fn union(
        &mut self,
        keyword: &str,
        schema: &Map<String, Value>,
        names: &ShownNames,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let Some(Value::Array(branches)) = schema.get(keyword) else {
            return ValuePlan::Keep;
        };
        let branches: Vec<Map<String, Value>> = branches.iter().map(as_schema).collect();
        let (mut shown, mut plans) = (Vec::new(), Vec::new());
        for (index, branch) in branches.iter().enumerate() {
            let at = at.child(keyword).child(index);
            let (emitted, plan) = self.of_value(branch, names, &at, depth + 1);
            shown.push(Value::Object(emitted));
            plans.push(plan);
        }
        result.insert(keyword.to_owned(), Value::Array(shown));
        union::plan(&branches, plans, self.plain)
    }

    fn condition(
        &mut self,
        keyword: &str,
        schema: &Map<String, Value>,
        names: &ShownNames,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let Some(Value::Object(inner)) = schema.get(keyword) else {
            return ValuePlan::Keep;
        };
        let (emitted, plan) = self.of_value(inner, names, &at.child(keyword), depth + 1);
        result.insert(keyword.to_owned(), Value::Object(emitted));
        plan
    }

    fn single(
        &mut self,
        keyword: &str,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let Some(Value::Object(inner)) = schema.get(keyword) else {
            return ValuePlan::Keep;
        };
        let (emitted, plan) = self.schema(inner, &at.child(keyword), depth + 1);
        result.insert(keyword.to_owned(), Value::Object(emitted));
        plan
    }
}

/// Every property of an object that a schema names, directly or through schemas for the same object.
fn property_names(schema: &Map<String, Value>, names: &mut Vec<String>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    for (name, _) in properties(schema) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let same = inner_schemas(schema, &JsonPointer::root()).into_iter();
    for inner in same.filter(|inner| inner.reach == KeywordReach::SameValue) {
        if let Some(inner) = inner.schema.as_object() {
            property_names(inner, names, depth + 1);
        }
    }
}
