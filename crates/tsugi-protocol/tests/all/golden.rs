//! Golden files: a list of cases each, with what they give written beside the input.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Runs every case of a golden file and compares what it gives with what is written there.
/// With `UPDATE_GOLDEN=1` the file is written anew instead.
pub(crate) fn check(file: &str, mut run: impl FnMut(&Value) -> Value) {
    let path = path(file);
    let written = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cases: Vec<Value> = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(!cases.is_empty(), "{file} has no cases");
    let given: Vec<Value> = cases.into_iter().map(|case| with_outcome(case, &mut run)).collect();
    let given = format!("{:#}\n", Value::from(given));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, given).expect("a golden file can be written");
        return;
    }
    assert!(given == written, "{file} gives something else:\n{}", difference(&written, &given));
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

fn with_outcome(mut case: Value, run: &mut impl FnMut(&Value) -> Value) -> Value {
    case["gives"] = run(&case);
    case
}

/// The lines that differ first, with a few before them.
fn difference(written: &str, given: &str) -> String {
    let same = written.lines().zip(given.lines()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| text.lines().skip(same.saturating_sub(8)).take(16).collect::<Vec<_>>().join("\n");
    format!("--- written\n{}\n--- given\n{}", around(written), around(given))
}
