//! The page of attacks names tests that exist, and every row between its first and its last that it promises.

use std::collections::BTreeSet;

use super::{all, root};

/// The pairs of file and function in a line: `` `file.rs` `function` ``.
fn named(line: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let pairs = words.windows(2).filter(|pair| pair[0].ends_with(".rs"));
    pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

#[test]
fn every_test_that_the_page_of_attacks_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/negative-tests.md")).unwrap();
    let sources = all(&[".rs"]);
    let defines = |file: &str, function: &str| {
        let of_name = sources.iter().filter(|path| path.file_name().is_some_and(|name| name == file));
        let mut texts = of_name.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.any(|text| text.contains(&format!("fn {function}(")))
    };
    let mut rows = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| N")) {
        let tests = named(line);
        assert!(!tests.is_empty(), "a row without a test: {line}");
        for (file, function) in tests {
            assert!(defines(&file, &function), "{file} has no function {function}");
        }
        rows.insert(line[2..5].to_owned());
    }
    let promised = (1..=18).chain([27]).chain([36, 37]).chain(39..=44).map(|row| format!("N{row:02}"));
    assert_eq!(rows, promised.collect());
}
