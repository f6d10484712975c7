//! The table of faults names tests that are there, and every row has one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => rust_files(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The names of all functions of the crates that the table speaks of.
fn functions() -> HashSet<String> {
    let mut files = Vec::new();
    for name in ["tsugi-client", "tsugi-process", "tsugi-schema"] {
        for part in ["src", "tests"] {
            rust_files(&root().join("crates").join(name).join(part), &mut files);
        }
    }
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.lines().filter_map(function).collect::<Vec<_>>()).collect()
}

fn function(line: &str) -> Option<String> {
    let (_, rest) = line.trim_start().split_once("fn ")?;
    Some(rest.split(['(', '<']).next()?.to_owned())
}

fn rows() -> Vec<String> {
    let stdio = (1..=30).map(|number| format!("F-{number:02}"));
    let http = (1..=16).map(|number| format!("H-{number:02}"));
    stdio.chain(http).chain(["T15".to_owned()]).collect()
}

#[test]
fn every_row_of_the_fault_table_is_shown_by_tests_that_are_there() {
    let page = std::fs::read_to_string(root().join("docs/reference/faults.md")).unwrap();
    let functions = functions();
    let lines: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect()).collect();
    for row in rows() {
        let cells = lines.iter().find(|cells| cells[0].trim_start_matches("| ") == row);
        let cells = cells.unwrap_or_else(|| panic!("{row} is not in the table"));
        assert!(cells[2].contains('`'), "{row} has no test");
        assert!(cells[3].len() > 3, "{row} says nothing of the control");
        for name in cells[2..].iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            assert!(functions.contains(name), "{row} names {name}, which is not there");
        }
    }
}
