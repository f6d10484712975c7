//! One name, one meaning: what the types of the workspace may be called.

use std::collections::BTreeMap;

use super::source::{SourceFile, production};

/// Names that several modules may define, because their meaning is the same everywhere.
const SHARED_NAMES: [&str; 2] = ["Error", "Config"];

/// (name, file) of every struct, enum, trait and top-level alias.
pub(super) fn definitions(sources: &[SourceFile]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for source in sources {
        for line in source.text.lines() {
            let is_nested = line.starts_with(char::is_whitespace);
            let line = line.trim_start();
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let line = line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map_or(line, |(_, rest)| rest);
            let Some((keyword, rest)) = line.split_once(' ') else { continue };
            // An indented `type` belongs to a trait or an impl, which gives it its meaning.
            let is_definition = matches!(keyword, "struct" | "enum" | "trait") || (keyword == "type" && !is_nested);
            let name = rest.split(|sign: char| !sign.is_alphanumeric() && sign != '_').next().unwrap_or_default();
            if is_definition && name.starts_with(char::is_uppercase) {
                found.push((name, source.path.as_str()));
            }
        }
    }
    assert!(found.len() > 1000, "hardly any definition was found");
    found
}

fn by_name<'a>(definitions: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut places = BTreeMap::<&str, Vec<&str>>::new();
    for (name, path) in definitions {
        places.entry(name).or_default().push(path);
    }
    places
}

#[test]
fn no_type_name_is_defined_in_more_than_two_modules() {
    let sources = production(&super::root());
    let all = definitions(&sources);
    let mut places = by_name(&all);
    places.retain(|name, paths| paths.len() > 2 && !SHARED_NAMES.contains(name));
    assert!(places.is_empty(), "defined in more than two modules: {places:#?}");
}

#[test]
fn few_types_share_their_name_with_another() {
    let sources = production(&super::root());
    let all = definitions(&sources);
    let shared: Vec<_> = by_name(&all).into_iter().filter(|(_, paths)| paths.len() > 1).collect();
    let count: usize = shared.iter().map(|(_, paths)| paths.len()).sum();
    assert!(count * 100 < all.len() * 20, "{count} of {} share a name: {shared:#?}", all.len());
}

#[test]
fn most_type_names_say_more_than_one_word() {
    let sources = production(&super::root());
    let all = definitions(&sources);
    let one_word: Vec<_> =
        all.iter().filter(|(name, _)| name.chars().filter(|c| c.is_uppercase()).count() == 1).collect();
    assert!(one_word.len() * 100 < all.len() * 45, "{} of {}: {one_word:#?}", one_word.len(), all.len());
}

#[test]
fn no_type_is_called_by_its_furniture() {
    let banned = [
        "Inner", "Common", "Shared", "Kept", "Held", "Came", "Told", "Said", "Begun", "Taken", "Shelf", "Desk", "Place",
    ];
    let sources = production(&super::root());
    let found: Vec<_> = definitions(&sources).into_iter().filter(|(name, _)| banned.contains(name)).collect();
    assert!(found.is_empty(), "{found:#?}");
}
