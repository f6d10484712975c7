//! The entries of one kind that a server offers, found by key and listed in the order they were added.

use std::collections::HashMap;
use std::sync::Arc;

use crate::json::{ObjectWriter, RawJson};
use crate::mcp::cache_hints::CacheHints;

use super::error::HandlerError;

/// One thing a server offers.
pub(super) trait ListingEntry {
    /// What it is found by.
    fn key(&self) -> &str;
    /// How it is listed.
    fn described(&self) -> &RawJson;
}

/// Entries of one kind. Replacing one keeps its place.
#[derive(Debug)]
pub(super) struct EntryList<T> {
    order: Vec<Arc<T>>,
    places: HashMap<String, usize>,
}

impl<T> Default for EntryList<T> {
    fn default() -> Self {
        Self { order: Vec::new(), places: HashMap::new() }
    }
}

impl<T: ListingEntry> EntryList<T> {
    pub(super) fn add(&mut self, entry: T) {
        let key = entry.key().to_owned();
        match self.places.get(&key) {
            Some(place) => self.order[*place] = Arc::new(entry),
            None => {
                self.places.insert(key, self.order.len());
                self.order.push(Arc::new(entry));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        let Some(place) = self.places.remove(key) else { return false };
        self.order.remove(place);
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        true
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<T>> {
        self.places.get(key).map(|place| self.order[*place].clone())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.order.iter()
    }

    /// The page after the entry that `cursor` names. A cursor stays good while that entry exists.
    pub(super) fn page(&self, cursor: Option<&str>, size: usize) -> Result<EntryPage, HandlerError> {
        let start = match cursor {
            None => 0,
            Some(key) => self
                .places
                .get(key)
                .map(|place| place + 1)
                .ok_or_else(|| HandlerError::invalid_params("unknown cursor"))?,
        };
        let end = self.order.len().min(start.saturating_add(size));
        let entries = self.order[start..end].iter().map(|entry| entry.described().clone()).collect();
        let has_more = end < self.order.len() && end > start;
        Ok(EntryPage { entries, next: has_more.then(|| self.order[end - 1].key().to_owned()) })
    }
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct EntryPage {
    entries: Vec<RawJson>,
    next: Option<String>,
}

impl EntryPage {
    /// Writes the page as the members of a list result.
    pub(super) fn write(&self, result: &mut ObjectWriter, key: &str, freshness: CacheHints) {
        result.raw(key, &RawJson::from_value(&self.entries));
        if let Some(next) = &self.next {
            result.string("nextCursor", next);
        }
        result.number("ttlMs", freshness.ttl_ms).string("cacheScope", freshness.scope.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, RawJson);

    impl ListingEntry for Named {
        fn key(&self) -> &str {
            self.0
        }
        fn described(&self) -> &RawJson {
            &self.1
        }
    }

    fn listing(names: &[&'static str]) -> EntryList<Named> {
        let mut listing = EntryList::default();
        names.iter().for_each(|name| listing.add(Named(name, RawJson::string(name))));
        listing
    }

    fn pages(listing: &EntryList<Named>, size: usize) -> Vec<String> {
        let mut pages = Vec::new();
        let mut cursor = None;
        loop {
            let page = listing.page(cursor.as_deref(), size).unwrap();
            pages.push(page.entries.iter().map(|entry| entry.as_string().unwrap()).collect());
            cursor = page.next;
            if cursor.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn pages_cover_the_list_once_and_in_order() {
        assert_eq!(pages(&listing(&["b", "a", "d", "c"]), 2), ["ba", "dc"]);
        assert_eq!(pages(&listing(&["b", "a", "d"]), 2), ["ba", "d"]);
        assert_eq!(pages(&listing(&[]), 2), [""]);
    }

    #[test]
    fn removing_and_replacing_keep_the_order_of_the_rest() {
        let mut listing = listing(&["a", "b", "c"]);
        assert!(listing.remove("a") && !listing.remove("a"));
        listing.add(Named("b", RawJson::string("B")));
        assert_eq!(pages(&listing, 9), ["Bc"]);
        assert!(listing.get("c").is_some() && listing.get("a").is_none());
    }

    #[test]
    fn a_cursor_that_names_nothing_is_refused() {
        assert!(listing(&["a"]).page(Some("z"), 2).is_err());
    }
}
