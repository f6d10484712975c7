//! The `pattern` keyword: linear time where the pattern allows it, a bounded number of steps where it does not.

use jsonschema::json::Node;
use jsonschema::{Keyword, PatternOptions, ValidationError};
use serde_json::{Value, json};

use super::meter::charge;
use super::node::{Counted, Metered};

/// Compiled size, in bytes, up to which a pattern counts as small.
const SMALL: usize = 64 * 1024;
/// Compiled size, in bytes, up to which a pattern is accepted at all.
pub(super) const LARGE: usize = 1024 * 1024;
/// Steps back a pattern with look-around may take.
const BACKTRACKS: usize = 10_000;

/// A compiled pattern. The library's own engine does the matching, in a validator that has only this keyword,
/// because it knows how ECMA-262 patterns differ from Rust's.
pub(super) struct Pattern {
    engine: jsonschema::Validator,
    text: String,
    cost: Cost,
}

#[derive(Clone, Copy)]
enum Cost {
    Small,
    Large,
    Backtracking,
}

impl Pattern {
    /// Compiles a pattern, in the cheapest engine that can express it.
    pub(super) fn compile(pattern: &Value) -> Result<Self, ValidationError<'static>> {
        let schema = json!({"pattern": pattern});
        let text = pattern.as_str().unwrap_or_default().to_owned();
        let (engine, cost) = build(&schema, linear(SMALL))
            .map(|engine| (engine, Cost::Small))
            .or_else(|_| build(&schema, linear(LARGE)).map(|engine| (engine, Cost::Large)))
            .or_else(|_| build(&schema, backtracking()).map(|engine| (engine, Cost::Backtracking)))?;
        Ok(Self { engine, text, cost })
    }

    fn matches(&self, value: &Value) -> bool {
        let length = value.as_str().map_or(0, str::len) as u64;
        charge(match self.cost {
            Cost::Small => length / 4,
            Cost::Large => length.saturating_mul(64),
            Cost::Backtracking => length.saturating_mul(16).saturating_add(256),
        });
        self.engine.is_valid(value)
    }
}

/// Linear time, up to a compiled size in bytes.
pub(super) fn linear(size: usize) -> PatternOptions<jsonschema::Regex> {
    PatternOptions::regex().size_limit(size).dfa_size_limit(size)
}

/// Look-around and backreferences, with a bounded number of steps.
pub(super) fn backtracking() -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(LARGE).dfa_size_limit(LARGE)
}

fn build<E>(schema: &Value, options: PatternOptions<E>) -> Result<jsonschema::Validator, ValidationError<'static>> {
    jsonschema::options().with_pattern_options(options).build(schema)
}

impl<'i> Keyword<'i, Metered> for Pattern {
    fn validate(&self, instance: Counted<'i>) -> Result<(), ValidationError<'i>> {
        if Keyword::<Metered>::is_valid(self, instance) {
            return Ok(());
        }
        Err(ValidationError::custom(self.text.as_str()))
    }

    fn is_valid(&self, instance: Counted<'i>) -> bool {
        !Node::<Metered>::is_string(&instance) || self.matches(instance.0)
    }
}
