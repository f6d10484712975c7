//! Few error types, each for decisions that no other carries.

use std::collections::BTreeSet;

use super::names::definitions;
use super::source::production;

/// One per crate, and a few more where callers decide differently.
const MOST: usize = 25;

/// Names that stand in the error place of a `Result` without being error types: what goes on another way, and aliases of
/// other crates' types.
const NO_ERRORS: [&str; 7] =
    ["BoxError", "ConnectionEnd", "ExchangeFailure", "Outcome", "Reply", "SchemaLoss", "SetupFailure"];

/// Our own types that some function fails with.
fn error_types() -> BTreeSet<String> {
    let sources = production(&super::root());
    let own: BTreeSet<&str> = definitions(&sources).into_iter().map(|(name, _)| name).collect();
    let mut found = BTreeSet::new();
    for line in sources.iter().flat_map(|source| source.text.lines()).filter(|line| line.contains("Result<")) {
        for end in line.split(", ").skip(1) {
            let name = end.split(|sign: char| !sign.is_alphanumeric()).next().unwrap_or_default();
            let after = &end[name.len()..];
            // In `Result<Map<Key, Value>, Fault>` only the last one is the error.
            let is_last = after.starts_with('>') && !after.starts_with(">,");
            if is_last && own.contains(name) && !NO_ERRORS.contains(&name) {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

#[test]
fn there_are_few_error_types() {
    let found = error_types();
    assert!(found.contains("Fault") && found.contains("PmFault"), "they were not found: {found:?}");
    assert!(found.len() <= MOST, "{} error types, at most {MOST} are meant to be: {found:#?}", found.len());
}
