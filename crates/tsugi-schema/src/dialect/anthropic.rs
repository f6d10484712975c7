//! Anthropic tools, and every provider that reads JSON Schema whole: the plain form with an object at its root.

use serde_json::{Map, Value, json};

use super::DeclarationParts;
use super::emit::{as_schema, null_meaning, properties, required, shown_names};
use super::plan::{ArgumentPlan, MemberPlan, ValuePlan};
use super::root::make_object;
use super::union;
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
    let wrapped_in = make_object(&mut plain);
    losses.append(&mut plain.losses);
    let mut emitter = AnthropicEmitter { plain: &plain, losses: &mut losses, is_taken };
    let (mut root, plan) = emitter.schema(&plain.root, &JsonPointer::root(), 0);
    let mut plan = ArgumentPlan { root: plan, wrapped_in, ..ArgumentPlan::default() };
    let mut definitions = Map::new();
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

impl AnthropicEmitter<'_, '_> {
    fn schema(
        &mut self,
        schema: &Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> (Map<String, Value>, ValuePlan) {
        if let Some(name) = definition_name(schema) {
            return (schema.clone(), ValuePlan::Definition(name.to_owned()));
        }
        if depth > MAX_DEPTH {
            self.losses.push(SchemaLoss::new(at, "type", LossFate::Dropped, "nested too deeply"));
            return (Map::new(), ValuePlan::Keep);
        }
        let mut result = schema.clone();
        let object = self.object(schema, &mut result, at, depth);
        let array = self.array(schema, &mut result, at, depth);
        let union = self.union(schema, &mut result, at, depth);
        // A schema with several of these is rare; the first that has something to do decides.
        let plan = [object, array, union].into_iter().find(|plan| *plan != ValuePlan::Keep).unwrap_or_default();
        (result, plan)
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        let needed = required(schema);
        let every = properties(schema).map(|(name, _)| name.clone());
        let names = shown_names(every, self.is_taken);
        let (mut shown, mut members) = (Map::new(), Vec::new());
        for (name, property) in properties(schema) {
            let at = at.child("properties").child(name);
            let (emitted, plan) = self.schema(&as_schema(property), &at, depth + 1);
            if names[name] != *name {
                let note = format!("called {} there", names[name]);
                self.losses.push(SchemaLoss::new(&at, "properties", LossFate::Changed, note));
            }
            members.push(MemberPlan {
                shown: names[name].clone(),
                name: name.clone(),
                null: null_meaning(property, needed.contains(&name.as_str()), self.plain),
                plan,
            });
            shown.insert(names[name].clone(), Value::Object(emitted));
        }
        if schema.contains_key("properties") {
            result.insert("properties".to_owned(), Value::Object(shown));
        }
        if schema.contains_key("required") {
            let renamed = needed.iter().map(|name| names.get(*name).map_or(*name, String::as_str));
            result.insert("required".to_owned(), json!(renamed.collect::<Vec<_>>()));
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
        let prefix = self.list("prefixItems", schema, result, at, depth);
        let items = self.single("items", schema, result, at, depth);
        ValuePlan::array(prefix, items)
    }

    fn union(
        &mut self,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> ValuePlan {
        for keyword in ["anyOf", "oneOf"] {
            let plans = self.list(keyword, schema, result, at, depth);
            let branches: Vec<Map<String, Value>> = schema
                .get(keyword)
                .and_then(Value::as_array)
                .map(|branches| branches.iter().map(as_schema).collect())
                .unwrap_or_default();
            let plan = union::plan(&branches, plans, self.plain);
            if plan != ValuePlan::Keep {
                return plan;
            }
        }
        ValuePlan::Keep
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

    fn list(
        &mut self,
        keyword: &str,
        schema: &Map<String, Value>,
        result: &mut Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
    ) -> Vec<ValuePlan> {
        let Some(Value::Array(members)) = schema.get(keyword) else {
            return Vec::new();
        };
        let (mut shown, mut plans) = (Vec::new(), Vec::new());
        for (index, member) in members.iter().enumerate() {
            let at = at.child(keyword).child(index);
            let (emitted, plan) = self.schema(&as_schema(member), &at, depth + 1);
            shown.push(Value::Object(emitted));
            plans.push(plan);
        }
        result.insert(keyword.to_owned(), Value::Array(shown));
        plans
    }
}
