//! Brings any schema into one plain form, so that dialects need not know five drafts.
//!
//! The plain form is 2020-12 and well typed: each keyword has a value of the kind it should have. References are
//! `{"$ref": "#/$defs/name"}` with nothing beside them, or inlined; `allOf` is merged where that is possible.

mod flatten;
mod inline;
mod normalize;

pub use flatten::merge;
pub(crate) use flatten::names as type_names;

use serde_json::{Map, Value};

use crate::loss::SchemaLoss;

/// What to do with references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceHandling {
    /// Keep them where nothing stands beside them.
    Keep,
    /// Put the target in place of each; a recursive one is cut off and described.
    Inline,
}

/// A schema in plain form.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainSchema {
    /// The schema itself; never a bare reference.
    pub root: Map<String, Value>,
    /// What its references point to, by name.
    pub definitions: Map<String, Value>,
    /// What could not be understood or kept.
    pub losses: Vec<SchemaLoss>,
}

/// Rewrites a schema into plain form. Total: whatever JSON comes in, a schema comes out.
pub fn rewrite(schema: &Value, references: ReferenceHandling) -> PlainSchema {
    inline::SchemaRewriter::new(schema, references).run()
}

/// Where a kept reference points to: the name in `$defs`.
pub fn definition_name(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}
