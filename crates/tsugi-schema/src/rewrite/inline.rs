//! Walks a schema and brings references and compositions into plain form.

use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet, VecDeque};

use super::{PlainSchema, ReferenceHandling, flatten, normalize};
use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::resolve::{ResolvedSchema, SchemaDocument};

/// Schemas a rewritten document may have: inlining can explode.
const MAX_SCHEMAS: usize = 5_000;
/// How deep a rewritten document may be nested.
const MAX_DEPTH: usize = 48;

/// A place on the way: in the document that is read, and in the result.
#[derive(Clone)]
struct RewritePosition {
    /// Where the schema was written; references are relative to it.
    source: JsonPointer,
    /// Where it appears, references followed.
    shown: JsonPointer,
    depth: usize,
}

impl RewritePosition {
    fn child(&self, keyword: &str) -> Self {
        Self { source: self.source.child(keyword), shown: self.shown.child(keyword), depth: self.depth + 1 }
    }

    fn grandchild(&self, keyword: &str, step: impl std::fmt::Display) -> Self {
        Self {
            source: self.source.child(keyword).child(&step),
            shown: self.shown.child(keyword).child(&step),
            depth: self.depth + 1,
        }
    }

    fn moved(&self, target: &JsonPointer) -> Self {
        Self { source: target.clone(), ..self.clone() }
    }
}

pub(super) struct SchemaRewriter<'a> {
    document: SchemaDocument<'a>,
    references: ReferenceHandling,
    /// Names of the targets of kept references.
    names: HashMap<JsonPointer, String>,
    used: HashSet<String>,
    queue: VecDeque<(String, ResolvedSchema<'a>)>,
    /// Targets being inlined right now.
    open: Vec<JsonPointer>,
    losses: Vec<SchemaLoss>,
    schemas: usize,
}

impl<'a> SchemaRewriter<'a> {
    pub(super) fn new(schema: &'a Value, references: ReferenceHandling) -> Self {
        Self {
            document: SchemaDocument::new(schema),
            references,
            names: HashMap::new(),
            used: HashSet::new(),
            queue: VecDeque::new(),
            open: Vec::new(),
            losses: Vec::new(),
            schemas: 0,
        }
    }

    pub(super) fn run(mut self) -> PlainSchema {
        let place = RewritePosition { source: JsonPointer::root(), shown: JsonPointer::root(), depth: 0 };
        let root = self.document.root();
        self.open.push(JsonPointer::root());
        let root = self.in_place(root, &place);
        let mut definitions = Map::new();
        // A queue and not recursion: a chain of thousands of definitions must not become a chain of calls.
        while let Some((name, target)) = self.queue.pop_front() {
            // Recursion is judged per definition, from its own start.
            self.open = vec![target.pointer.clone()];
            let place = RewritePosition {
                source: target.pointer.clone(),
                shown: JsonPointer::root().child("$defs").child(&name),
                depth: 0,
            };
            let schema = self.in_place(target.schema, &place);
            definitions.insert(name, Value::Object(schema));
        }
        PlainSchema { root, definitions, losses: self.losses }
    }

    /// Rewrites a schema where a kept reference will do.
    fn schema(&mut self, schema: &Value, place: &RewritePosition) -> Value {
        if self.references == ReferenceHandling::Keep
            && let Some(reference) = lone_reference(schema)
            && let Ok(target) = self.document.follow(reference, &place.source)
            && target.schema.is_object()
        {
            return json!({"$ref": format!("#/$defs/{}", self.name(target))});
        }
        Value::Object(self.in_place(schema, place))
    }

    /// Rewrites a schema into keywords of its own.
    fn in_place(&mut self, schema: &Value, place: &RewritePosition) -> Map<String, Value> {
        self.schemas += 1;
        // Inlining can grow exponentially: the limit counts what is written.
        if self.schemas > MAX_SCHEMAS || place.depth > MAX_DEPTH {
            self.lose(place, "$ref", LossFate::Dropped, "the schema is too large or too deep");
            return Map::new();
        }
        match schema {
            Value::Object(schema) => {
                let clean = normalize::clean(schema, &place.shown, &mut self.losses);
                self.keywords(clean, place)
            }
            Value::Bool(false) => Map::from_iter([("not".to_owned(), json!({}))]),
            _ => Map::new(),
        }
    }

    fn keywords(&mut self, mut schema: Map<String, Value>, place: &RewritePosition) -> Map<String, Value> {
        // Both are merged last: what stands beside them refines them.
        let reference = schema.shift_remove("$ref");
        let all = schema.shift_remove("allOf");
        let mut result = Map::new();
        for (keyword, value) in schema {
            let value = self.keyword(&keyword, value, place);
            result.insert(keyword, value);
        }
        if let Some(Value::String(reference)) = reference {
            let target = self.target(&reference, place);
            result = flatten::merge(result, target);
        }
        for (index, member) in all.as_ref().and_then(Value::as_array).into_iter().flatten().enumerate() {
            let member = self.in_place(member, &place.grandchild("allOf", index));
            result = flatten::merge(result, member);
        }
        result
    }

    fn keyword(&mut self, keyword: &str, value: Value, place: &RewritePosition) -> Value {
        match (keyword, value) {
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(entries)) => {
                let rewritten = entries
                    .iter()
                    .map(|(name, entry)| (name.clone(), self.schema(entry, &place.grandchild(keyword, name))));
                Value::Object(rewritten.collect())
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                let rewritten = list
                    .iter()
                    .enumerate()
                    .map(|(index, member)| self.schema(member, &place.grandchild(keyword, index)));
                Value::Array(rewritten.collect())
            }
            (
                "items" | "additionalProperties" | "unevaluatedItems" | "unevaluatedProperties",
                flag @ Value::Bool(_),
            ) => flag,
            (
                "items"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "propertyNames"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contentSchema",
                schema,
            ) => self.schema(&schema, &place.child(keyword)),
            (_, value) => value,
        }
    }

    /// What a reference means here, in keywords.
    fn target(&mut self, reference: &str, place: &RewritePosition) -> Map<String, Value> {
        let target = match self.document.follow(reference, &place.source) {
            Ok(target) => target,
            Err(error) => {
                // The loss names the place itself.
                let what = if error.is_hostile() { "leaves the document" } else { "points to nothing" };
                self.lose(place, "$ref", LossFate::Dropped, format!("reference {reference:?} {what}"));
                return Map::new();
            }
        };
        // The reference leads back to a schema that is being written.
        if self.open.contains(&target.pointer) {
            return self.recursive(&target, place);
        }
        self.open.push(target.pointer.clone());
        let schema = self.in_place(target.schema, &place.moved(&target.pointer));
        self.open.pop();
        schema
    }

    /// A reference back to something that is being written out: cut off here, with a word about it.
    fn recursive(&mut self, target: &ResolvedSchema<'a>, place: &RewritePosition) -> Map<String, Value> {
        let name = title(target);
        let note = format!("recursive: same shape as {name}");
        self.lose(place, "$ref", LossFate::Folded, note.clone());
        let mut schema = Map::from_iter([("description".to_owned(), Value::from(format!("({note})")))]);
        if let Some(types) = target.schema.get("type").filter(|types| types.is_string()) {
            schema.insert("type".to_owned(), types.clone());
        }
        schema
    }

    fn name(&mut self, target: ResolvedSchema<'a>) -> String {
        if let Some(name) = self.names.get(&target.pointer) {
            return name.clone();
        }
        let wanted = title(&target);
        let name = (1..)
            .map(|number| match number {
                1 => wanted.clone(),
                _ => format!("{wanted}_{number}"),
            })
            .find(|name| !self.used.contains(name))
            .expect("some number is free");
        self.used.insert(name.clone());
        self.names.insert(target.pointer.clone(), name.clone());
        // Written later, by `run`.
        self.queue.push_back((name.clone(), target));
        name
    }

    fn lose(&mut self, place: &RewritePosition, keyword: &str, fate: LossFate, note: impl Into<String>) {
        self.losses.push(SchemaLoss::new(&place.shown, keyword, fate, note));
    }
}

/// The reference of a schema that says nothing else.
fn lone_reference(schema: &Value) -> Option<&str> {
    let schema = schema.as_object()?;
    let is_lone = schema.keys().all(|keyword| {
        matches!(keyword.as_str(), "$ref" | "title" | "$comment" | "$id" | "$defs" | "definitions")
            || keyword.starts_with("x-")
    });
    schema.get("$ref").filter(|_| is_lone)?.as_str()
}

/// What to call a target: the last step that leads to it, in letters every provider takes.
fn title(target: &ResolvedSchema<'_>) -> String {
    let step = target.pointer.steps().last();
    let named = step.unwrap_or_else(|| "root".to_owned());
    let safe = crate::tool_name::sanitize(&named).replace('-', "_");
    // Leaves room for a number behind it within 64 characters.
    safe.chars().take(48).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::rewrite;

    #[test]
    fn lone_references_are_kept_and_their_targets_collected() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/definitions/T"}, "b": {"$ref": "#t"}},
            "definitions": {"T": {"$anchor": "t", "type": "string"}}
        });
        let plain = rewrite(&schema, ReferenceHandling::Keep);
        assert_eq!(json!(plain.root), json!({"properties": {"a": {"$ref": "#/$defs/T"}, "b": {"$ref": "#/$defs/T"}}}));
        assert_eq!(json!(plain.definitions), json!({"T": {"type": "string"}}));
        assert!(plain.losses.is_empty());
    }

    #[test]
    fn a_reference_with_something_beside_it_is_inlined() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/$defs/T", "description": "here"}},
            "$defs": {"T": {"type": "string", "description": "there"}}
        });
        let plain = rewrite(&schema, ReferenceHandling::Keep);
        assert_eq!(json!(plain.root), json!({"properties": {"a": {"description": "here there", "type": "string"}}}));
    }

    #[test]
    fn recursion_is_kept_as_a_reference_or_cut_off() {
        let schema = json!({"type": "object", "properties": {"child": {"$ref": "#"}}});
        let kept = rewrite(&schema, ReferenceHandling::Keep);
        assert_eq!(json!(kept.root["properties"]["child"]), json!({"$ref": "#/$defs/root"}));
        assert_eq!(json!(kept.definitions["root"]), json!(kept.root));
        let cut = rewrite(&schema, ReferenceHandling::Inline);
        let child = json!({"description": "(recursive: same shape as root)", "type": "object"});
        assert_eq!(json!(cut.root["properties"]["child"]), child);
        assert_eq!(cut.losses.len(), 1);
    }

    #[test]
    fn references_that_lead_nowhere_are_reported() {
        for reference in ["#/none", "http://sink/x", "#none"] {
            let plain = rewrite(&json!({"properties": {"a": {"$ref": reference}}}), ReferenceHandling::Keep);
            assert_eq!(json!(plain.root), json!({"properties": {"a": {}}}));
            assert_eq!(plain.losses[0].pointer.as_str(), "/properties/a");
        }
    }

    #[test]
    fn explosions_are_cut_off() {
        let mut definitions = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"properties": {"a": next, "b": next}}));
        }
        definitions.insert("d40".to_owned(), json!({"type": "string"}));
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        assert!(!rewrite(&schema, ReferenceHandling::Inline).losses.is_empty());
        assert!(rewrite(&schema, ReferenceHandling::Keep).losses.is_empty());
    }
}
