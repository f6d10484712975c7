//! Drives the validation library: compiles with every bound in place, then checks and explains within the budget.

use jsonschema::{Draft, ValidationError};
use serde_json::Value;
use std::borrow::Cow;

use super::budget;
use super::node::{MeteredJson, MeteredNode};
use super::pattern::{self, PatternSet};
use super::{SchemaViolation, SchemaViolations, ValidationLimits, cost, message};
use crate::error::SchemaError;
use crate::pointer::JsonPointer;

/// A schema ready to check values.
pub(super) struct CompiledSchema {
    library: jsonschema::Validator<MeteredJson>,
    limits: ValidationLimits,
    price: u64,
    skipped: Vec<(JsonPointer, String)>,
}

impl CompiledSchema {
    pub(super) fn new(schema: &Value, limits: ValidationLimits) -> Result<Self, SchemaError> {
        let schema = with_known_dialect(schema);
        // Costly schemas are refused before the library compiles them.
        let survey = cost::survey(&schema, &limits)?;
        let patterns = PatternSet::new();
        let library = build(&schema, &patterns)?;
        Ok(Self { library, limits, price: survey.price, skipped: patterns.skipped() })
    }

    /// Where keywords are not checked, and why.
    pub(super) fn skipped(&self) -> &[(JsonPointer, String)] {
        &self.skipped
    }

    pub(super) fn limits(&self) -> &ValidationLimits {
        &self.limits
    }

    /// Checks a value; a wrong one is looked at again, with a budget of its own, to say what is wrong.
    pub(super) fn check(&self, value: &Value) -> Result<(), SchemaViolations> {
        // Before the library recurses into the value.
        if is_deeper(value, self.limits.value_depth) {
            return Err(SchemaViolations::too_deep(self.limits.value_depth));
        }
        let node = MeteredNode(value);
        let verdict = budget::run(self.limits.work, self.price, || self.library.is_valid(node));
        match verdict {
            Some(true) => Ok(()),
            Some(false) => Err(self.explain(value)),
            None => Err(SchemaViolations::too_costly()),
        }
    }

    fn explain(&self, value: &Value) -> SchemaViolations {
        // Errors own memory, so explaining everything gets less than checking did.
        self.all_faults(value).or_else(|| self.first_fault(value)).unwrap_or_else(SchemaViolations::unexplained)
    }

    fn all_faults(&self, value: &Value) -> Option<SchemaViolations> {
        budget::run(self.limits.work / 4, self.price, || {
            let errors = self.library.iter_errors(MeteredNode(value));
            SchemaViolations::collect(errors.map(|error| to_fault(&error)), self.limits.faults)
        })
    }

    fn first_fault(&self, value: &Value) -> Option<SchemaViolations> {
        budget::run(self.limits.work / 4, self.price, || {
            // One error costs less than all of them, and explains more than none.
            let error = self.library.validate(MeteredNode(value)).err();
            SchemaViolations::cut_short(error.map(|error| to_fault(&error)))
        })
    }
}

fn to_fault(error: &ValidationError<'_>) -> SchemaViolation {
    SchemaViolation {
        instance: JsonPointer::from(error.instance_path().as_str()),
        schema: JsonPointer::from(error.schema_path().as_str()),
        message: message::describe(error),
    }
}

/// Leaves out a `$schema` that names no known draft: the keywords are more likely familiar than not.
fn with_known_dialect(schema: &Value) -> Cow<'_, Value> {
    let Some(dialect) = schema.get("$schema") else {
        return Cow::Borrowed(schema);
    };
    let draft = dialect.as_str().map(Draft::from_schema_uri);
    if draft.is_some_and(|draft| draft != Draft::Unknown) {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    if let Value::Object(members) = &mut schema {
        members.shift_remove("$schema");
    }
    Cow::Owned(schema)
}

/// Compiles as 2020-12 unless the schema says otherwise. A schema that says nothing and does not fit may be older:
/// `items` with a list and `exclusiveMinimum: true` are common.
fn build(schema: &Value, patterns: &PatternSet) -> Result<jsonschema::Validator<MeteredJson>, SchemaError> {
    let names = look_at_names(schema, &JsonPointer::root(), patterns)?;
    let build_as = |draft| build_as(draft, schema, patterns, names);
    build_as(None)
        .or_else(|error| {
            if schema.get("$schema").is_some() {
                return Err(error);
            }
            // The first error is reported, since the older drafts were only a guess.
            build_as(Some(Draft::Draft7)).or_else(|_| build_as(Some(Draft::Draft4))).map_err(|_| error)
        })
        .map_err(|error| invalid(&error))
}

/// Compiles with linear patterns; only when `patternProperties` needs look-around, with bounded backtracking.
fn build_as(
    draft: Option<Draft>,
    schema: &Value,
    patterns: &PatternSet,
    names: NamePatterns,
) -> Result<jsonschema::Validator<MeteredJson>, ValidationError<'static>> {
    let options = match draft {
        Some(draft) => options(patterns).with_draft(draft),
        None => options(patterns),
    };
    match names {
        NamePatterns::Linear => options.with_pattern_options(pattern::linear(pattern::LARGE)).build(schema),
        NamePatterns::LookAround => options.with_pattern_options(pattern::backtracking(pattern::LARGE)).build(schema),
    }
}

/// Which engine the names of `patternProperties` need.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamePatterns {
    Linear,
    LookAround,
}

/// Pays for the patterns of names, which the library compiles itself. Without one of them other properties would be
/// refused that are right, so one that cannot be used makes the whole schema unusable.
fn look_at_names(schema: &Value, pointer: &JsonPointer, patterns: &PatternSet) -> Result<NamePatterns, SchemaError> {
    let mut needed = NamePatterns::Linear;
    let inner: Vec<(JsonPointer, &Value)> = match schema {
        Value::Object(members) => members.iter().map(|(name, member)| (pointer.child(name), member)).collect(),
        Value::Array(items) => items.iter().map(|item| (pointer.clone(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, _) in schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten() {
        let pointer = pointer.child("patternProperties");
        let looks_around = patterns.name(name).map_err(|message| SchemaError::Invalid { pointer, message })?;
        needed = if looks_around { NamePatterns::LookAround } else { needed };
    }
    for (pointer, value) in inner {
        let below = look_at_names(value, &pointer, patterns)?;
        needed = if below == NamePatterns::LookAround { below } else { needed };
    }
    Ok(needed)
}

fn options<'i>(
    patterns: &PatternSet,
) -> jsonschema::ValidationOptions<'i, std::sync::Arc<dyn jsonschema::Retrieve>, MeteredJson> {
    let patterns = patterns.clone();
    jsonschema::options_for::<MeteredJson>()
        // In 2020-12, `format` is only an annotation.
        .should_validate_formats(false)
        .with_keyword("pattern", move |_, pattern, at| Ok(Box::new(patterns.keyword(pattern, at.as_str()))))
}

fn invalid(error: &ValidationError<'_>) -> SchemaError {
    SchemaError::Invalid {
        pointer: JsonPointer::from(error.instance_path().as_str()),
        message: message::describe(error),
    }
}

fn is_deeper(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(|item| is_deeper(item, limit - 1)),
        Value::Object(members) => limit == 0 || members.values().any(|member| is_deeper(member, limit - 1)),
        _ => false,
    }
}
