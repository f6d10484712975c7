//! Checks a schema before it is compiled, and rejects one that would cost too much, leave the document or never end.

use serde_json::{Map, Value};
use std::collections::HashMap;

use super::ValidationLimits;
use crate::error::SchemaError;
use crate::keyword::{KeywordReach, inner_schemas};
use crate::pointer::JsonPointer;
use crate::resolve::{ResolvedSchema, SchemaDocument};

/// What was learnt about a schema that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaCost {
    /// What one look at a value must cost, so that schemas which look at nothing are paid for as well.
    pub(super) price: u64,
}

/// Schemas that look at no value and yet take time, per unit of work.
const SILENT_PER_UNIT: usize = 64;

/// Looks over a schema.
pub(super) fn survey(schema: &Value, limits: &ValidationLimits) -> Result<SchemaCost, SchemaError> {
    // The size first: everything after it walks the whole document.
    measure(schema, limits)?;
    let document = SchemaDocument::new(schema);
    let mut graph = SchemaGraph::new(&document, limits);
    let root = ResolvedSchema { pointer: JsonPointer::root(), schema };
    graph.add(root, 0)?;
    graph.link()?;
    let silent = graph.weigh()?;
    Ok(SchemaCost { price: 1 + (silent / SILENT_PER_UNIT) as u64 })
}

/// Bounds the size and the nesting of the document before anything walks over it by recursion.
fn measure(schema: &Value, limits: &ValidationLimits) -> Result<(), SchemaError> {
    // A schema nests at most every second level: a keyword, then the schema in it.
    let deepest = limits.depth * 2 + 16;
    let mut bytes = 0;
    // A list instead of recursion: the nesting is not checked yet.
    let mut open = vec![(schema, 0)];
    while let Some((value, depth)) = open.pop() {
        bytes += own_size(value);
        if depth > deepest {
            return Err(too_costly("its nesting", limits.depth));
        }
        if bytes > limits.schema_bytes {
            return Err(too_costly("its size in bytes", limits.schema_bytes));
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => {
                open.extend(members.values().map(|member| (member, depth + 1)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn own_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Object(members) => 2 + members.keys().map(|name| name.len() + 4).sum::<usize>(),
        Value::Array(items) => 2 + items.len(),
        _ => 4,
    }
}

fn too_costly(what: &'static str, limit: usize) -> SchemaError {
    SchemaError::TooCostly { what, limit }
}

/// One schema of the document.
struct SchemaVertex<'a> {
    pointer: JsonPointer,
    schema: &'a Value,
    /// Schemas applied to the same value as this one.
    same_value: Vec<usize>,
    weight: EdgeWeight,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EdgeWeight {
    Unknown,
    InProgress,
    Known(PathCounts),
}

/// What applying a schema to one value sets off on that same value.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PathCounts {
    /// Schemas applied, each path counted.
    all: usize,
    /// Those of them reached before any that looks at the value.
    silent: usize,
    chain: usize,
}

struct SchemaGraph<'a, 'd> {
    document: &'d SchemaDocument<'a>,
    limits: &'d ValidationLimits,
    vertices: Vec<SchemaVertex<'a>>,
    /// Vertices by the address of their schema.
    known: HashMap<usize, usize>,
}

impl<'a, 'd> SchemaGraph<'a, 'd> {
    fn new(document: &'d SchemaDocument<'a>, limits: &'d ValidationLimits) -> Self {
        Self { document, limits, vertices: Vec::new(), known: HashMap::new() }
    }

    /// Adds a schema and all inside it.
    fn add(&mut self, found: ResolvedSchema<'a>, depth: usize) -> Result<usize, SchemaError> {
        // The address identifies a schema: the same one is reached by its place and by references.
        let address = std::ptr::from_ref(found.schema) as usize;
        if let Some(&index) = self.known.get(&address) {
            return Ok(index);
        }
        if depth > self.limits.depth {
            return Err(too_costly("its nesting", self.limits.depth));
        }
        if self.vertices.len() >= self.limits.subschemas {
            return Err(too_costly("the number of schemas in it", self.limits.subschemas));
        }
        let index = self.vertices.len();
        self.known.insert(address, index);
        self.vertices.push(SchemaVertex {
            pointer: found.pointer.clone(),
            schema: found.schema,
            same_value: Vec::new(),
            weight: EdgeWeight::Unknown,
        });
        if let Value::Object(schema) = found.schema {
            self.add_inner(index, schema, &found.pointer, depth)?;
        }
        Ok(index)
    }

    fn add_inner(
        &mut self,
        index: usize,
        schema: &'a Map<String, Value>,
        pointer: &JsonPointer,
        depth: usize,
    ) -> Result<(), SchemaError> {
        for inner in inner_schemas(schema, pointer) {
            let found = ResolvedSchema { pointer: inner.pointer, schema: inner.schema };
            let child = self.add(found, depth + 1)?;
            if inner.reach == KeywordReach::SameValue {
                self.vertices[index].same_value.push(child);
            }
        }
        Ok(())
    }

    /// Follows all references; a target in an unknown place adds schemas, which are followed in turn.
    fn link(&mut self) -> Result<(), SchemaError> {
        let mut index = 0;
        // Targets may be new vertices, which the loop then reaches too.
        while index < self.vertices.len() {
            for target in self.targets(index)? {
                let target = self.add(target, 0)?;
                self.vertices[index].same_value.push(target);
            }
            index += 1;
        }
        Ok(())
    }

    fn targets(&self, index: usize) -> Result<Vec<ResolvedSchema<'a>>, SchemaError> {
        let vertex = &self.vertices[index];
        let Value::Object(schema) = vertex.schema else {
            return Ok(Vec::new());
        };
        let mut targets = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = schema.get(keyword).and_then(Value::as_str) else {
                continue;
            };
            targets.push(self.document.follow(reference, &vertex.pointer.child(keyword))?);
            if let ("$dynamicRef", Some((_, anchor))) = (keyword, reference.split_once('#')) {
                // Which anchor is meant depends on the path, so all of them count.
                targets.extend(self.document.dynamic_candidates(anchor));
            }
        }
        Ok(targets)
    }

    /// Weighs every schema and gives the largest number of silent ones set off at once.
    fn weigh(&mut self) -> Result<usize, SchemaError> {
        let mut silent = 0;
        for index in 0..self.vertices.len() {
            silent = silent.max(self.weigh_one(index, 0)?.silent);
        }
        Ok(silent)
    }

    fn weigh_one(&mut self, index: usize, above: usize) -> Result<PathCounts, SchemaError> {
        match self.vertices[index].weight {
            EdgeWeight::Known(paths) => return Ok(paths),
            EdgeWeight::InProgress => {
                return Err(SchemaError::EndlessReference { pointer: self.vertices[index].pointer.clone() });
            }
            EdgeWeight::Unknown => {}
        }
        if above > self.limits.depth {
            return Err(too_costly("its nesting", self.limits.depth));
        }
        // Meeting this mark again means a reference loop that consumes no part of the value.
        self.vertices[index].weight = EdgeWeight::InProgress;
        let paths = self.sum_up(index, above)?;
        self.vertices[index].weight = EdgeWeight::Known(paths);
        Ok(paths)
    }

    fn sum_up(&mut self, index: usize, above: usize) -> Result<PathCounts, SchemaError> {
        let mut paths = PathCounts { all: 1, silent: 1, chain: 1 };
        // Cloned because weighing a child changes the vertices.
        for child in self.vertices[index].same_value.clone() {
            let below = self.weigh_one(child, above + 1)?;
            paths.all = paths.all.saturating_add(below.all);
            paths.chain = paths.chain.max(below.chain + 1);
            if !is_looking(self.vertices[child].schema) {
                paths.silent = paths.silent.saturating_add(below.silent);
            }
        }
        if paths.all > self.limits.branches {
            return Err(too_costly("the number of schemas for one value", self.limits.branches));
        }
        if paths.chain > self.limits.depth {
            return Err(too_costly("its nesting", self.limits.depth));
        }
        Ok(paths)
    }
}

/// Keywords that make a schema look at the value first of all, so that each application is counted.
const LOOKING: &[&str] = &[
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "items",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
];

fn is_looking(schema: &Value) -> bool {
    schema.as_object().is_some_and(|schema| LOOKING.iter().any(|keyword| schema.contains_key(*keyword)))
}
