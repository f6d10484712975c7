//! The map is true: which crate may use which, where `unsafe` is, and which decisions may not be made.

use super::source::production;

/// Rows of the table in ARCHITECTURE.md whose header starts with `first`, as cells without backticks.
fn table(first: &str) -> Vec<Vec<String>> {
    let map = std::fs::read_to_string(super::root().join("ARCHITECTURE.md")).unwrap();
    let rows = map.lines().skip_while(|line| !line.starts_with(&format!("| {first} |"))).skip(2);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    let rows: Vec<Vec<String>> = rows.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "ARCHITECTURE.md has no table that starts with | {first} |");
    rows
}

#[test]
fn crates_depend_only_on_what_the_map_allows() {
    let rooms = table("room");
    let crates: Vec<String> = rooms.iter().map(|row| row[0].replace("crates/", "")).collect();
    for entry in std::fs::read_dir(super::root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(crates.contains(&name), "{name} is not on the map");
    }
    for (name, row) in crates.iter().zip(&rooms) {
        let manifest = std::fs::read_to_string(super::root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let section = manifest.split("\n[").find(|part| part.starts_with("dependencies]")).unwrap_or_default();
        let used = section.lines().filter(|line| line.starts_with("tsugi-"));
        let used = used.map(|line| line.split(['.', ' ', '=']).next().unwrap().trim_start_matches("tsugi-"));
        let allowed: Vec<&str> = row[2].split(',').map(str::trim).collect();
        let foreign: Vec<&str> = used.filter(|used| !allowed.contains(used) && allowed != ["all"]).collect();
        assert!(foreign.is_empty(), "{name} may not depend on {foreign:?}: the map allows {allowed:?}");
    }
}

#[test]
fn every_crate_with_unsafe_code_is_on_the_map() {
    let map = std::fs::read_to_string(super::root().join("ARCHITECTURE.md")).unwrap();
    let listed =
        map.lines().find(|line| line.to_lowercase().starts_with("`unsafe` code")).expect("a line about unsafe code");
    let mut found: Vec<String> = production(&super::root())
        .iter()
        .filter(|source| {
            source.text.contains("unsafe {")
                || source.text.contains("unsafe fn")
                || source.text.contains("unsafe extern")
        })
        .map(|source| source.crate_name().to_owned())
        .collect();
    found.dedup();
    let name_of = |text: &str| text.split(['`', '/', ' ']).next().unwrap_or_default().to_owned();
    let mut named: Vec<String> = listed.split("crates/").skip(1).map(name_of).collect();
    named.sort();
    named.dedup();
    assert_eq!(named, found, "crates that the map says have unsafe code, and crates that have some");
}

#[test]
fn faces_do_not_know_the_client() {
    let found: Vec<String> = production(&super::root())
        .into_iter()
        .filter(|source| {
            source.path.starts_with("crates/tsugi-gateway/src/face") && source.text.contains("tsugi_client")
        })
        .map(|source| source.path)
        .collect();
    assert!(found.is_empty(), "faces that import the client: {found:#?}");
}

#[test]
fn no_decision_is_made_on_the_text_of_a_message() {
    let looks = [
        "message.contains(",
        "message.starts_with(",
        "message.ends_with(",
        "message().contains(",
        "to_string().contains(",
    ];
    let mut found = Vec::new();
    for source in production(&super::root()) {
        for (number, line) in source.text.lines().enumerate() {
            if looks.iter().any(|look| line.contains(look)) {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "decisions on the text of a message: {found:#?}");
}
