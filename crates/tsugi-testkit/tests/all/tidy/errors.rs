//! Few error types, each for decisions that no other carries.

use std::collections::{BTreeMap, BTreeSet};

use super::names::definitions;
use super::source::production;

/// A crate should have one, and more only where callers decide differently. `tsugi-auth` has the most: one per kind of
/// document that it reads, and each names the rule that the document broke.
const MOST: usize = 8;

/// Names that stand in the error place of a `Result` without being error types: what goes on another way, and aliases of
/// other crates' types.
const NO_ERRORS: [&str; 8] =
    ["BoxError", "ConnectionEnd", "ExchangeFailure", "Outcome", "Reply", "SchemaLoss", "Secret", "SetupFailure"];

/// Our own types that some function fails with, by the crate that defines them.
fn error_types() -> BTreeMap<String, BTreeSet<String>> {
    let sources = production(&super::root());
    let own: BTreeMap<&str, &str> = definitions(&sources).into_iter().collect();
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for line in sources.iter().flat_map(|source| source.text.lines()).filter(|line| line.contains("Result<")) {
        let mut ends = line.split(", ").skip(1).peekable();
        while let Some(end) = ends.next() {
            let name = end.split(|sign: char| !sign.is_alphanumeric()).next().unwrap_or_default();
            // In `Result<Map<Key, Value>, Fault>` only the last one is the error.
            let is_last = end[name.len()..].starts_with('>') && (ends.peek().is_none() || !end.ends_with('>'));
            let Some(path) = own.get(name).filter(|_| is_last && !NO_ERRORS.contains(&name)) else { continue };
            let room = path.split('/').nth(1).unwrap_or_default();
            found.entry(room.to_owned()).or_default().insert(name.to_owned());
        }
    }
    found
}

#[test]
fn a_crate_has_few_error_types() {
    let found = error_types();
    assert!(found["tsugi-protocol"].contains("Fault") && found["tsugi-pm"].contains("PmFault"), "{found:#?}");
    for (room, types) in found {
        assert!(types.len() <= MOST, "{room} has {} error types, at most {MOST} are meant: {types:?}", types.len());
    }
}
