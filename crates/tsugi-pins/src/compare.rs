//! What a server offers now against what is pinned: added, changed, removed.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::{PinKey, PinKind, PinnedDefinition};
use crate::lock::LockFile;

/// What a server offers, as far as it was looked at.
#[derive(Debug, Clone, Default)]
pub struct DefinitionOffer {
    /// The lists that were looked at; of others nothing is said.
    lists: BTreeSet<&'static str>,
    items: BTreeMap<(PinKind, String), PinnedDefinition>,
}

impl DefinitionOffer {
    /// A list was looked at, even if it is empty.
    pub fn add_list(&mut self, list: &'static str) {
        self.lists.insert(list);
    }

    /// Adds a thing. A name that comes twice stands for both definitions together, so that a second one cannot hide
    /// behind the first.
    pub fn add(&mut self, kind: PinKind, name: &str, json: &str) {
        let definition = PinnedDefinition::of(kind, json);
        self.lists.insert(kind.list());
        match self.items.get_mut(&(kind, name.to_owned())) {
            Some(known) if known.digest == definition.digest => {}
            Some(known) => {
                let both = format!("[\"{}\",\"{}\"]", known.digest, definition.digest);
                *known = PinnedDefinition::of(kind, &both);
            }
            None => {
                self.items.insert((kind, name.to_owned()), definition);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (PinKind, &str, &PinnedDefinition)> {
        self.items.iter().map(|((kind, name), definition)| (*kind, name.as_str(), definition))
    }

    pub fn get(&self, kind: PinKind, name: &str) -> Option<&PinnedDefinition> {
        self.items.get(&(kind, name.to_owned()))
    }

    pub fn lists(&self) -> impl Iterator<Item = &'static str> {
        self.lists.iter().copied()
    }

    /// Takes over what another look at the same server found.
    pub(crate) fn merge(&mut self, newer: &DefinitionOffer) {
        self.items.retain(|(kind, _), _| !newer.lists.contains(kind.list()));
        self.lists.extend(&newer.lists);
        self.items.extend(newer.items.iter().map(|(key, definition)| (key.clone(), definition.clone())));
    }
}

/// How a thing differs from its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftChange {
    Added,
    Changed,
    /// No violation: what is gone does no harm, and what comes back unchanged is pinned.
    Removed,
}

impl DriftChange {
    pub fn as_str(self) -> &'static str {
        match self {
            DriftChange::Added => "added",
            DriftChange::Changed => "changed",
            DriftChange::Removed => "removed",
        }
    }
}

/// One thing that differs from its pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinDrift {
    pub key: PinKey,
    pub change: DriftChange,
    pub old: Option<PinnedDefinition>,
    pub new: Option<PinnedDefinition>,
}

/// What differs between the pins of a server and what it offers, in the order of the lock file.
pub fn compare(lock: &LockFile, server: &str, offer: &DefinitionOffer) -> Vec<PinDrift> {
    let mut drifts = Vec::new();
    for (kind, name, new) in offer.iter() {
        let key = PinKey::new(server, kind, name);
        let old = lock.get(&key);
        if old.is_some_and(|old| old.digest == new.digest) {
            continue;
        }
        let change = if old.is_some() { DriftChange::Changed } else { DriftChange::Added };
        drifts.push(PinDrift { key, change, old: old.cloned(), new: Some(new.clone()) });
    }
    for (key, old) in lock.of_server(server) {
        let is_looked_at = offer.lists.contains(key.kind.list());
        if is_looked_at && offer.get(key.kind, &key.name).is_none() {
            let change = DriftChange::Removed;
            drifts.push(PinDrift { key: key.clone(), change, old: Some(old.clone()), new: None });
        }
    }
    drifts.sort_by(|one, other| one.key.cmp(&other.key));
    drifts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(tools: &[(&str, &str)]) -> DefinitionOffer {
        let mut offer = DefinitionOffer::default();
        offer.add_list("tools");
        for (name, json) in tools {
            offer.add(PinKind::Tool, name, json);
        }
        offer
    }

    fn pinned(tools: &[(&str, &str)]) -> LockFile {
        let mut lock = LockFile::default();
        for (kind, name, definition) in offer(tools).iter() {
            lock.insert(PinKey::new("s", kind, name), definition.clone());
        }
        lock
    }

    fn changes(lock: &LockFile, offer: &DefinitionOffer) -> Vec<(String, &'static str)> {
        compare(lock, "s", offer).into_iter().map(|drift| (drift.key.name, drift.change.as_str())).collect()
    }

    #[test]
    fn what_was_added_changed_and_removed_is_told_apart_and_what_comes_back_is_nothing() {
        let lock = pinned(&[("a", "{}"), ("b", "{}"), ("c", "{}")]);
        let now = offer(&[("a", r#"{"_meta":1}"#), ("b", r#"{"x":1}"#), ("d", "{}")]);
        let expected = [("b", "changed"), ("c", "removed"), ("d", "added")];
        assert_eq!(changes(&lock, &now), expected.map(|(name, change)| (name.to_owned(), change)));
        assert_eq!(changes(&lock, &offer(&[("a", "{}"), ("b", "{}"), ("c", "{}")])), []);
        // Of a list that could not be fetched nothing is said.
        assert_eq!(changes(&lock, &DefinitionOffer::default()), []);
    }

    #[test]
    fn a_second_definition_under_one_name_is_a_change() {
        let lock = pinned(&[("a", "{}")]);
        assert_eq!(changes(&lock, &offer(&[("a", "{}"), ("a", "{}")])), []);
        assert_eq!(changes(&lock, &offer(&[("a", "{}"), ("a", r#"{"evil":1}"#)])), [("a".to_owned(), "changed")]);
    }
}
