//! What finished streams of all sessions may hold together; without it large results would pile up until they age.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::ReplayStream;

/// How many places are looked through at once for streams that are gone.
const TIDY: usize = 1024;

/// Finished streams, the oldest first.
pub(in crate::face::mcp) struct ReplayBudget {
    limit: usize,
    size: AtomicUsize,
    places: Mutex<VecDeque<Weak<ReplayStream>>>,
}

impl ReplayBudget {
    pub(in crate::face::mcp) fn new(limit: usize) -> Self {
        Self { limit, size: AtomicUsize::new(0), places: Mutex::default() }
    }

    /// Keeps a finished stream of this size. The oldest ones are forgotten for it, but never it itself.
    pub(super) fn put(&self, replay: &Arc<ReplayStream>, size: usize) {
        self.size.fetch_add(size, Ordering::Relaxed);
        let forgotten = self.push(Arc::downgrade(replay));
        forgotten.iter().for_each(|replay| replay.forget());
    }

    /// Adds one, and takes out those that have to go for it.
    fn push(&self, replay: Weak<ReplayStream>) -> Vec<Arc<ReplayStream>> {
        let (mut places, mut forgotten) = (self.places.lock(), Vec::new());
        if places.len() >= TIDY && places.len().is_power_of_two() {
            places.retain(|place| place.strong_count() > 0);
        }
        let mut excess = self.size.load(Ordering::Relaxed).saturating_sub(self.limit);
        while excess > 0
            && let Some(oldest) = places.pop_front()
        {
            let Some(oldest) = oldest.upgrade() else { continue };
            excess = excess.saturating_sub(oldest.shelved());
            forgotten.push(oldest);
        }
        places.push_back(replay);
        forgotten
    }

    /// A stream of this size is kept no longer.
    pub(super) fn take_back(&self, size: usize) {
        self.size.fetch_sub(size, Ordering::Relaxed);
    }
}
