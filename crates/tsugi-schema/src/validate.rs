//! Checks JSON values against a schema from an untrusted server, at a bounded cost and in words a model can act on.
//!
//! A schema is hostile until shown otherwise. Three bounds hold together:
//! `cost` refuses schemas whose composition explodes on a single value, `budget` counts the work done on each
//! value and stops it, and [`pattern`] runs regular expressions in linear time where they allow it.

mod budget;
mod cost;
mod engine;
mod fast_path;
mod message;
mod node;
mod pattern;
mod violation;

pub use violation::{SchemaViolation, SchemaViolations};

use serde_json::Value;
use std::sync::Arc;

use crate::error::SchemaError;
use crate::pointer::JsonPointer;

/// What a schema and a check may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidationLimits {
    /// Size of a schema as JSON text, in bytes.
    pub schema_bytes: usize,
    /// How deep schemas may be nested, directly or through references on one value.
    pub depth: usize,
    /// How many schemas a document may hold.
    pub subschemas: usize,
    /// How many schemas may apply to one single value, counting every path through references.
    pub branches: usize,
    /// Units of work for one check; one unit is about one look at one value by one keyword, some tens of nanoseconds.
    pub work: u64,
    /// How deep a checked value may be nested.
    pub value_depth: usize,
    /// Size of a checked value as JSON text, in bytes; only known when it comes as text.
    pub value_bytes: usize,
    /// Faults reported before the rest is summed up.
    pub faults: usize,
}

impl Default for ValidationLimits {
    fn default() -> Self {
        Self {
            schema_bytes: 256 * 1024,
            depth: 64,
            subschemas: 10_000,
            branches: 10_000,
            work: 1_000_000,
            value_depth: 128,
            value_bytes: 16 * 1024 * 1024,
            faults: 10,
        }
    }
}

/// A compiled schema; cloning shares it.
#[derive(Clone)]
pub struct Validator {
    compiled: Arc<engine::CompiledSchema>,
    quick: Option<Arc<fast_path::FastPath>>,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    /// Compiles a schema. An unknown `$schema` is ignored; a missing one means draft 2020-12.
    pub fn compile(schema: &Value, limits: ValidationLimits) -> Result<Self, SchemaError> {
        let compiled = engine::CompiledSchema::new(schema, limits)?;
        // Only now: the schema has been surveyed, so walking it again is bounded.
        Ok(Self { compiled: Arc::new(compiled), quick: fast_path::FastPath::of(schema).map(Arc::new) })
    }

    /// Compiles a schema that is still text.
    pub fn compile_text(schema: &str, limits: ValidationLimits) -> Result<Self, SchemaError> {
        // Before parsing, which takes memory in proportion to the text.
        if schema.len() > limits.schema_bytes {
            return Err(SchemaError::TooCostly { what: "its size in bytes", limit: limits.schema_bytes });
        }
        let schema: Value = serde_json::from_str(schema).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        Self::compile(&schema, limits)
    }

    /// Where patterns are not checked, and why: they are not regular expressions, or too large.
    pub fn skipped(&self) -> &[(JsonPointer, String)] {
        self.compiled.skipped()
    }

    /// True when a value that is still text certainly fits, found out while it is read and without building it.
    /// `false` says nothing: the whole check must be asked.
    pub fn accepts(&self, text: &[u8]) -> bool {
        // The limit of the whole check, so that both agree.
        text.len() <= self.compiled.limits().value_bytes && self.quick.as_ref().is_some_and(|quick| quick.accepts(text))
    }

    /// Checks a value. Costs at most [`ValidationLimits::work`], and as much again to explain what is wrong.
    pub fn validate(&self, value: &Value) -> Result<(), SchemaViolations> {
        self.compiled.check(value)
    }
}
