//! The `pattern` keyword: linear time where the pattern allows it, a bounded number of steps where it does not, and
//! one budget for compiling all patterns of a schema.

use jsonschema::json::Node;
use jsonschema::{Keyword, PatternOptions, ValidationError};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::{self, charge};
use super::node::{MeteredJson, MeteredNode};
use crate::pointer::JsonPointer;

/// Compiled sizes, in bytes, that are tried one after another: the library says only whether a pattern fits into one.
const SIZES: [usize; 7] = [16 << 10, SMALL, 256 << 10, 1 << 20, 2 << 20, 4 << 20, LARGE];
/// Compiled size, in bytes, up to which a pattern counts as small.
const SMALL: usize = 64 << 10;
/// Compiled size, in bytes, that all patterns of a schema may have together, and so one of them at most.
pub(super) const LARGE: usize = 8 << 20;
/// What may be compiled for a schema in all, in bytes, including patterns that turn out to be too large. There is no clock
/// in this: on a busy machine the same schemas must be usable.
const WORK: usize = 24 << 20;
/// A longer pattern is not looked at: reading one takes memory too.
const LONGEST: usize = 16 << 10;
/// The memory that a byte of a pattern may take while it is read.
const PER_BYTE: usize = 256;
/// The memory of a matching engine beside the pattern itself.
const CACHE: usize = 1 << 20;
/// Steps back a pattern with look-around may take.
const BACKTRACKS: usize = 10_000;

/// A compiled pattern. The library's own engine does the matching, in a validator that has only this keyword,
/// because it knows how ECMA-262 patterns differ from Rust's.
struct PatternEngine {
    // The same representation as the schema's own validator: another one would compile the whole library twice.
    validator: jsonschema::Validator<MeteredJson>,
    cost: PatternCost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternCost {
    Small,
    /// Work for one byte.
    Large(u64),
    Backtracking,
}

/// The patterns of one schema, each compiled once, and what they may still cost.
#[derive(Clone)]
pub(super) struct PatternSet(Arc<Mutex<PatternCache>>);

struct PatternCache {
    known: HashMap<String, Result<Arc<PatternEngine>, String>>,
    size_left: usize,
    work_left: usize,
    skipped: Vec<(JsonPointer, String)>,
}

impl PatternSet {
    pub(super) fn new() -> Self {
        let bench = PatternCache { known: HashMap::new(), size_left: LARGE, work_left: WORK, skipped: Vec::new() };
        Self(Arc::new(Mutex::new(bench)))
    }

    /// The keyword. A pattern that cannot be used is not checked, and the rest of the schema is.
    pub(super) fn keyword(&self, pattern: &Value, at: &str) -> PatternKeyword {
        let text = pattern.as_str().unwrap_or_default().to_owned();
        let mut bench = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = bench.compile(&text).map_err(|reason| {
            let pointer = JsonPointer::from(at);
            // Older drafts are tried with the same set, so a place may come up twice.
            if !bench.skipped.iter().any(|(known, _)| *known == pointer) {
                bench.skipped.push((pointer, reason));
            }
        });
        PatternKeyword { engine: engine.ok(), text }
    }

    /// Compiles a pattern for names of properties, which the library will compile again: `true` when it steps back.
    pub(super) fn name(&self, text: &str) -> Result<bool, String> {
        let mut bench = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bench.compile(text).map(|engine| engine.cost == PatternCost::Backtracking)
    }

    /// Where patterns are not checked, and why.
    pub(super) fn skipped(&self) -> Vec<(JsonPointer, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).skipped.clone()
    }
}

impl PatternCache {
    fn compile(&mut self, text: &str) -> Result<Arc<PatternEngine>, String> {
        // Failures are cached too: a schema may repeat a bad pattern.
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let compiled = self.compile_new(text).map(Arc::new);
        self.known.insert(text.to_owned(), compiled.clone());
        compiled
    }

    fn compile_new(&mut self, text: &str) -> Result<PatternEngine, String> {
        if text.len() > LONGEST {
            return Err(format!("the pattern is longer than {LONGEST} bytes"));
        }
        // Decides which of the two reasons is reported.
        let is_alone = self.size_left == LARGE && self.work_left > WORK / 2;
        if !looks_around(text)
            && let Some(engine) = self.first_fit(text, &SIZES, PatternKind::Linear)
        {
            return Ok(engine);
        }
        // Few patterns that do not look around need the other engine, and those are small.
        let sizes = if looks_around(text) { &SIZES[..] } else { &SIZES[..2] };
        self.first_fit(text, sizes, PatternKind::Backtracking).ok_or_else(|| reason(text, is_alone))
    }

    fn first_fit(&mut self, text: &str, sizes: &[usize], kind: PatternKind) -> Option<PatternEngine> {
        let schema = json!({"pattern": text});
        for &size in sizes {
            let work = size + text.len() * PER_BYTE;
            if size > self.size_left || work > self.work_left {
                return None;
            }
            // Paid even when compiling fails.
            self.work_left -= work;
            if let Ok(engine) = kind.build(&schema, text, size) {
                self.size_left -= size;
                return Some(engine);
            }
        }
        None
    }
}

/// Why a pattern cannot be used; alone when those before it took nothing away from it.
fn reason(text: &str, is_alone: bool) -> String {
    let format =
        jsonschema::options_for::<MeteredJson>().should_validate_formats(true).build(&json!({"format": "regex"}));
    // A look at the text alone: its length is bounded already, so the budget is not.
    let look = |format: jsonschema::Validator<MeteredJson>| {
        budget::run(u64::MAX, 1, || format.is_valid(MeteredNode(&json!(text)))).unwrap_or(false)
    };
    if !format.is_ok_and(look) {
        return "the pattern is not a regular expression".to_owned();
    }
    match is_alone {
        true => format!("the pattern takes more than {LARGE} bytes"),
        false => format!("the patterns of the schema take more than {LARGE} bytes together"),
    }
}

#[derive(Clone, Copy)]
enum PatternKind {
    Linear,
    Backtracking,
}

impl PatternKind {
    fn build(self, schema: &Value, text: &str, size: usize) -> Result<PatternEngine, ValidationError<'static>> {
        let (validator, cost) = match self {
            PatternKind::Linear if size <= SMALL => (build(schema, linear(size))?, PatternCost::Small),
            PatternKind::Linear => {
                (build(schema, linear(size))?, PatternCost::Large(64 * (size as u64).div_ceil(1 << 20)))
            }
            // It compiles what stands between its look-arounds piece by piece, each up to the limit.
            PatternKind::Backtracking => {
                (build(schema, backtracking(size / most_pieces(text)))?, PatternCost::Backtracking)
            }
        };
        Ok(PatternEngine { validator, cost })
    }
}

/// Whether only an engine that steps back can do it.
fn looks_around(text: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|mark| text.contains(mark)) || text.as_bytes().windows(2).any(refers_back)
}

fn refers_back(pair: &[u8]) -> bool {
    pair[0] == b'\\' && matches!(pair[1], b'1'..=b'9' | b'k')
}

/// About how many pieces lie between what must be stepped through; never fewer than half of them.
fn most_pieces(text: &str) -> usize {
    let splits = |pair: &&[u8]| matches!(pair[0], b'(' | b'|') || refers_back(pair);
    1 + text.as_bytes().windows(2).filter(splits).count()
}

/// Linear time, up to a compiled size in bytes.
pub(super) fn linear(size: usize) -> PatternOptions<jsonschema::Regex> {
    PatternOptions::regex().size_limit(size).dfa_size_limit(size.min(CACHE))
}

/// Look-around and backreferences, with a bounded number of steps.
pub(super) fn backtracking(size: usize) -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(size).dfa_size_limit(size.min(CACHE))
}

fn build<E>(
    schema: &Value,
    options: PatternOptions<E>,
) -> Result<jsonschema::Validator<MeteredJson>, ValidationError<'static>> {
    jsonschema::options_for::<MeteredJson>().with_pattern_options(options).build(schema)
}

/// The keyword as the library asks it.
pub(super) struct PatternKeyword {
    /// `None` when the pattern cannot be used.
    engine: Option<Arc<PatternEngine>>,
    text: String,
}

impl PatternEngine {
    fn matches(&self, value: &Value) -> bool {
        let length = value.as_str().map_or(0, str::len) as u64;
        charge(match self.cost {
            PatternCost::Small => length / 4,
            PatternCost::Large(work) => length.saturating_mul(work),
            PatternCost::Backtracking => length.saturating_mul(16).saturating_add(256),
        });
        self.validator.is_valid(MeteredNode(value))
    }
}

impl<'i> Keyword<'i, MeteredJson> for PatternKeyword {
    fn validate(&self, instance: MeteredNode<'i>) -> Result<(), ValidationError<'i>> {
        if Keyword::<MeteredJson>::is_valid(self, instance) {
            return Ok(());
        }
        Err(ValidationError::custom(self.text.as_str()))
    }

    fn is_valid(&self, instance: MeteredNode<'i>) -> bool {
        let Some(engine) = &self.engine else { return true };
        !Node::<MeteredJson>::is_string(&instance) || engine.matches(instance.0)
    }
}
