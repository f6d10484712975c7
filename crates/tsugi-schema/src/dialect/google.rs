//! What both of Gemini's schema formats share: which kind a schema is, and the properties of an object.

use serde_json::{Map, Value};

use super::emit::{
    EmittedSchema, as_schema, empty_value, is_identifier, is_impossible, null_meaning, properties, required,
    shown_names,
};
use super::loss_notes;
use super::plan::MemberPlan;
use super::union::{self, SchemaUnion};
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::rewrite::PlainSchema;

/// The properties of an object as they are shown, and the way back.
#[derive(Debug, Default)]
pub(super) struct EmittedProperties {
    pub(super) shown: Map<String, Value>,
    pub(super) required: Vec<String>,
    pub(super) members: Vec<MemberPlan>,
}

/// One of the two forms, at work on one schema.
pub(super) trait GoogleEmitter {
    /// The schema that is being said.
    fn plain(&self) -> &PlainSchema;

    /// What could not be said.
    fn losses(&mut self) -> &mut Vec<SchemaLoss>;

    fn schema(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> EmittedSchema;

    /// Says a schema of branches.
    fn union(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &'static str,
        branches: Vec<Map<String, Value>>,
        at: &JsonPointer,
        depth: usize,
    ) -> EmittedSchema;

    /// Says a schema without branches; `words` stand for branches that cannot be shown.
    fn typed(
        &mut self,
        schema: &Map<String, Value>,
        at: &JsonPointer,
        depth: usize,
        words: Option<(&str, String)>,
    ) -> EmittedSchema;

    /// Whether a property with this schema may be required.
    fn may_be_required(&mut self, _said: &Map<String, Value>, _at: &JsonPointer) -> bool {
        true
    }

    /// Emits a schema that is neither a reference nor too deep.
    fn by_kind(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> EmittedSchema {
        match union::find(schema, self.plain()) {
            SchemaUnion::Branches { keyword, branches } => self.union(schema, keyword, branches, at, depth),
            SchemaUnion::Words { keyword } => {
                let words = loss_notes::words(keyword, &schema[keyword]);
                let mut rest = schema.clone();
                rest.shift_remove(keyword);
                self.typed(&rest, at, depth, Some((keyword, words)))
            }
            SchemaUnion::None => self.typed(schema, at, depth, None),
        }
    }

    /// Says the properties of an object.
    fn properties(&mut self, schema: &Map<String, Value>, at: &JsonPointer, depth: usize) -> EmittedProperties {
        let needed = required(schema);
        let names = shown_names(properties(schema).map(|(name, _)| name.clone()), is_identifier);
        let mut all = EmittedProperties::default();
        for (name, property) in properties(schema) {
            let at = at.child("properties").child(name);
            if is_impossible(&as_schema(property)) {
                self.losses().push(SchemaLoss::new(
                    &at,
                    "not",
                    LossFate::Dropped,
                    "no value fits, so the property is left out",
                ));
                continue;
            }
            let emitted = self.schema(&as_schema(property), &at, depth + 1);
            let is_required = needed.contains(&name.as_str());
            let shown = &names[name];
            if shown != name {
                self.losses().push(SchemaLoss::new(
                    &at,
                    "properties",
                    LossFate::Changed,
                    format!("called {shown} there"),
                ));
            }
            let mut absent = None;
            if is_required && self.may_be_required(&emitted.schema, &at) {
                all.required.push(shown.clone());
            } else if is_required {
                // The model may leave it out, and the tool would refuse that.
                absent = empty_value(property, self.plain());
            }
            let null = null_meaning(property, is_required, self.plain());
            all.members.push(MemberPlan { shown: shown.clone(), name: name.clone(), null, absent, plan: emitted.plan });
            all.shown.insert(shown.clone(), Value::Object(emitted.schema));
        }
        all
    }
}
