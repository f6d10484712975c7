//! The house rules that a machine can check: the map is true, files say what they are for, nothing personal is committed.

mod errors;
mod names;
mod negative_tests;
mod prose;
mod rooms;
mod source;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files that git tracks below `folder` and that end in one of `endings`.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_foreign = matches!(name.as_str(), "target" | "node_modules" | ".git" | "__pycache__" | "artifacts");
        if path.is_dir() && !is_foreign {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

fn all(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), endings, &mut found);
    found
}

#[test]
fn every_rust_file_opens_with_a_sentence() {
    let silent: Vec<PathBuf> =
        all(&[".rs"]).into_iter().filter(|path| !std::fs::read_to_string(path).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "without an opening //! sentence: {silent:#?}");
}

#[test]
fn every_crate_that_is_published_has_a_readme() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let silent: Vec<PathBuf> = crates
        .filter(|path| !std::fs::read_to_string(path.join("Cargo.toml")).unwrap().contains("publish = false"))
        .filter(|path| !path.join("README.md").exists())
        .collect();
    assert!(silent.is_empty(), "without a README.md: {silent:#?}");
}

#[test]
fn every_path_on_the_map_exists() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let named: Vec<&str> = map
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("crates/") || text.starts_with("docs/") || text.starts_with("scripts/"))
        .collect();
    assert!(named.len() > 10, "the map names hardly any path");
    let missing: Vec<&&str> = named.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "on the map but not there: {missing:?}");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for document in all(&[".md"]) {
        let text = std::fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let is_local = !file.is_empty() && !file.contains("://") && !file.starts_with('/') && !file.contains(' ');
            if is_local && !document.parent().unwrap().join(file).exists() {
                broken.push(format!("{} → {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    // Written in pieces, so that this file does not find itself.
    let banned = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("\"resolved\": ", "\"http")];
    let mut found = Vec::new();
    for path in all(&[".rs", ".md", ".sh", ".py", ".toml", ".json", ".yaml", ".ts", ".js", ".mjs"]) {
        // A golden schema has a property of such a name in its pointers.
        let is_golden = path.components().any(|part| part.as_os_str() == "golden");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if !is_golden && banned.iter().any(|word| text.contains(word)) {
            found.push(path);
        }
    }
    assert!(found.is_empty(), "with a path of one machine or a registry's address: {found:#?}");
}

#[test]
fn nothing_is_built_from_what_deny_toml_bans_or_from_elsewhere_than_the_registry() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (rules, lock) = (read("deny.toml"), read("Cargo.lock"));
    let banned: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("{ crate = \"")).collect();
    let banned: Vec<&str> = banned.iter().filter_map(|rest| rest.split('"').next()).collect();
    assert!(banned.contains(&"openssl-sys"), "{banned:?}");
    let built = |name: &str| lock.lines().any(|line| line == format!("name = \"{name}\""));
    assert!(built("rustls"), "the lock file is read");
    let found: Vec<&&str> = banned.iter().filter(|name| built(name)).collect();
    assert!(found.is_empty(), "banned by deny.toml: {found:?}");
    let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let foreign: Vec<&str> = lock.lines().filter(|line| line.starts_with("source = ") && *line != registry).collect();
    assert!(foreign.is_empty(), "not from the registry: {foreign:?}");
}
