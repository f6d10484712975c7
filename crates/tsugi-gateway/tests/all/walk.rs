//! The page about the life of a call, held against the code that it describes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The straight line of the design. `pipeline` and `server` are where it changes hands.
const STAGES: [&str; 13] = [
    "accept",
    "pipeline",
    "identify",
    "admit",
    "route",
    "face",
    "rate limit",
    "permit",
    "hub",
    "server",
    "layers",
    "connection",
    "wire",
];

struct Row {
    stage: String,
    file: String,
    functions: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn page() -> String {
    read("docs/concept/life-of-a-call.md")
}

/// The rows of the way down. A row without a stage belongs to the one before it.
fn rows() -> Vec<Row> {
    let mut stage = String::new();
    let page = page();
    let cells = page.lines().filter(|line| line.contains("`crates/")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !cells[0].is_empty() {
            stage = cells[0].to_owned();
        }
        let functions = cells[2].split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect();
        Row { stage: stage.clone(), file: cells[1].trim_matches('`').to_owned(), functions }
    });
    cells.collect()
}

#[test]
fn every_function_of_the_walk_is_in_its_file() {
    for row in rows() {
        let source = read(&row.file);
        for function in &row.functions {
            let is_there = ["(", "<"].iter().any(|next| source.contains(&format!("fn {function}{next}")));
            assert!(is_there, "{} has no function {function}", row.file);
        }
    }
}

#[test]
fn the_walk_is_a_straight_line_that_stays_short() {
    let rows = rows();
    let mut stages: Vec<&str> = rows.iter().map(|row| row.stage.as_str()).collect();
    stages.dedup();
    assert_eq!(stages, STAGES, "each stage is entered once, in this order");
    let functions: usize = rows.iter().map(|row| row.functions.len()).sum();
    let files: BTreeSet<&str> = rows.iter().map(|row| row.file.as_str()).collect();
    assert!(functions <= 46 && files.len() <= 29, "{functions} functions in {} files", files.len());
}

/// The layers as `stack.rs` builds them, outermost first.
fn layers_in_code() -> Vec<String> {
    let source = read("crates/tsugi-client/src/stack.rs");
    let (build, rest) = source.split_once("pub(crate) fn build(").unwrap().1.split_once("\nfn repeated(").unwrap();
    let repeated = rest.split("\n}").next().unwrap();
    let built = |text: &str| {
        let ends = text.match_indices("Layer::new(").map(|(end, _)| end);
        let name = |end: usize| text[..end].rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap().to_owned();
        ends.map(name).collect::<Vec<String>>()
    };
    // The stack is built from the inside. A limit for each try is one layer with the limit on the whole.
    let mut names = built(build);
    let is_last = |at: usize| !names[at + 1..].contains(&names[at]);
    let kept: Vec<bool> = (0..names.len()).map(is_last).collect();
    let mut kept = kept.into_iter();
    names.retain(|_| kept.next().unwrap());
    let at = names.iter().position(|name| name == "Limit").unwrap() + 1;
    names.splice(at..at, built(repeated));
    names.reverse();
    names
}

#[test]
fn the_layers_stand_in_the_order_of_the_code() {
    let snake = |name: &str| {
        let mut snake = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        snake
    };
    let in_code: Vec<String> = layers_in_code().iter().map(|name| snake(name)).collect();
    let of_file = |file: &str| file.rsplit('/').next().unwrap().trim_end_matches(".rs").to_owned();
    let in_walk: Vec<String> =
        rows().iter().filter(|row| row.stage == "layers").map(|row| of_file(&row.file)).collect();
    let page = page();
    let table = page.split("| layer | what it does |").nth(1).expect("the layers are described");
    let table: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let name = |line: &&str| line.split('|').nth(1).unwrap().trim().replace(' ', "_");
    assert_eq!(table.iter().map(name).collect::<Vec<_>>(), in_code);
    // A call walks through the layers that every call has.
    let is_always_there = |line: &&&str| !line.contains("absent where");
    assert_eq!(in_walk, table.iter().filter(is_always_there).map(name).collect::<Vec<_>>());
}

/// Faces turn wire formats into calls. What stands behind the calls is not theirs to know.
#[test]
fn faces_do_not_know_the_client_library() {
    let mut folders = vec![root().join("crates/tsugi-gateway/src/face")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            count += 1;
            let source = std::fs::read_to_string(entry.path()).unwrap();
            assert!(!source.contains("tsugi_client"), "{} imports tsugi_client", entry.path().display());
        }
    }
    assert!(count > 20, "the faces were not found");
}
