//! Counts who watches which resource, so that the server is asked once for each.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The watched resources of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchTable(Arc<Mutex<BTreeMap<String, usize>>>);

/// One watcher; watching ends when it is dropped.
#[derive(Debug)]
pub(super) struct WatchGuard {
    watches: WatchTable,
    uris: Vec<String>,
}

impl WatchTable {
    pub(super) fn add(&self, uris: impl IntoIterator<Item = String>) -> WatchGuard {
        let uris: Vec<String> = uris.into_iter().collect();
        let mut counts = self.0.lock();
        for uri in &uris {
            *counts.entry(uri.clone()).or_default() += 1;
        }
        drop(counts);
        WatchGuard { watches: self.clone(), uris }
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let mut counts = self.watches.0.lock();
        for uri in &self.uris {
            if let Some(count) = counts.get_mut(uri) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(uri);
                }
            }
        }
    }
}
