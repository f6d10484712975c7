//! An LRU of finished results and reads in flight in one table: a read reserves its slot when it starts.
//!
//! It is our own rather than `moka`'s: a read must reserve its slot and be joined under the same lock, results take
//! several slots by size, and a hit must not write to a log of its own. An entry lies in one piece with its digest and
//! its neighbours by age, so that a lookup and an eviction touch few cache lines.

use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;
use tokio::time::Instant;
use tsugi_protocol::answer::CompletedResult;

use super::key::{CacheKey, CacheKeyRef};
use super::shared_read::SharedRead;
use super::store::CacheCounts;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// The entries of one server.
pub(super) struct CacheTable {
    entries: Slab<CacheEntry>,
    /// Where an entry is, by its digest.
    index: HashTable<u32>,
    /// The kept results by age: the least recently used, and the most recently used.
    oldest: u32,
    newest: u32,
    /// The places that kept results take.
    places: u64,
    /// How many entries there have ever been.
    entered: u64,
    /// How often keeping helped.
    pub(super) counts: CacheCounts,
}

struct CacheEntry {
    digest: u64,
    /// A serial number, since its slot may be another entry's later.
    number: u64,
    older: u32,
    newer: u32,
    key: CacheKey,
    held: CacheSlot,
}

enum CacheSlot {
    /// A read under way.
    Flight(Weak<SharedRead>),
    Kept(CachedResult),
}

/// A result with its age.
pub(super) struct CachedResult {
    pub(super) complete: CompletedResult,
    pub(super) until: Instant,
    /// Reading it keeps it for this long from then on, where the policy says so.
    pub(super) renewal: Option<Duration>,
    /// How many places it takes.
    pub(super) places: u64,
}

/// Where a read under way has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheTicket {
    at: u32,
    number: u64,
}

pub(super) enum CacheLookup {
    /// A result, and how long it may still be used.
    Kept(CompletedResult, Duration),
    /// The same read under way.
    Flight(Arc<SharedRead>),
}

/// Entries that were removed, to be dropped after the lock is released: dropping takes time.
#[derive(Default)]
pub(super) struct EvictedEntries(SmallVec<[CacheEntry; 1]>);

impl Default for CacheTable {
    fn default() -> Self {
        Self {
            entries: Slab::new(),
            index: HashTable::new(),
            oldest: NONE,
            newest: NONE,
            places: 0,
            entered: 0,
            counts: CacheCounts::default(),
        }
    }
}

impl CacheTable {
    /// What there is for this, unless it is too old.
    pub(super) fn find(&mut self, sought: &CacheKeyRef<'_>) -> Option<CacheLookup> {
        let at = self.position(sought)?;
        match &self.entries[at as usize].held {
            CacheSlot::Flight(flight) => flight.upgrade().map(CacheLookup::Flight),
            CacheSlot::Kept(_) => self.used(at).map(|(complete, remaining)| CacheLookup::Kept(complete, remaining)),
        }
    }

    /// The cached result for this key, and how long it may still be used. A read in flight is not even upgraded:
    /// dropping its last reference here would lock the table a second time.
    pub(super) fn find_kept(&mut self, sought: &CacheKeyRef<'_>) -> Option<(CompletedResult, Duration)> {
        let at = self.position(sought)?;
        self.used(at)
    }

    /// The result in an entry, which is now the most recently used, or is gone when it is too old.
    fn used(&mut self, at: u32) -> Option<(CompletedResult, Duration)> {
        let CacheSlot::Kept(kept) = &self.entries[at as usize].held else { return None };
        let (now, renewal) = (Instant::now(), kept.renewal);
        let mut remaining = kept.until.saturating_duration_since(now);
        if remaining.is_zero() {
            drop(self.remove(at));
            return None;
        }
        let complete = kept.complete.clone();
        if let (Some(renewal), CacheSlot::Kept(kept)) = (renewal, &mut self.entries[at as usize].held) {
            (kept.until, remaining) = (now + renewal, renewal);
        }
        // The newest entry is hit most often, and needs no relinking.
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
        Some((complete, remaining))
    }

    /// Reserves a slot for a read that begins. An abandoned read of the same key is removed.
    pub(super) fn begin(&mut self, sought: &CacheKeyRef<'_>, flight: impl FnOnce(CacheTicket) -> Weak<SharedRead>) {
        if let Some(at) = self.position(sought) {
            drop(self.remove(at));
        }
        self.insert(sought, |place| CacheSlot::Flight(flight(place)));
    }

    /// A read ended with nothing to cache, or its last waiter is gone.
    pub(super) fn give_up(&mut self, place: CacheTicket) -> EvictedEntries {
        let mut gone = EvictedEntries::default();
        if self.is_there(place) {
            gone.0.push(self.remove(place.at));
        }
        gone
    }

    /// A read ended with a result, which is cached unless what it read has changed since. For a public result,
    /// `everybodys` makes the key that all callers share.
    pub(super) fn keep(
        &mut self,
        place: CacheTicket,
        kept: CachedResult,
        everybodys: Option<&RandomState>,
        most: u64,
    ) -> EvictedEntries {
        let mut gone = EvictedEntries::default();
        if !self.is_there(place) {
            return gone;
        }
        // What a session's own instance said stays private, whatever the server calls it.
        match everybodys.filter(|_| !self.entries[place.at as usize].key.is_of_session()) {
            None => self.fill(place.at, kept),
            Some(hasher) => {
                let own = self.remove(place.at);
                let sought = own.key.for_everybody(hasher);
                if let Some(at) = self.position(&sought) {
                    gone.0.push(self.remove(at));
                }
                let at = self.insert(&sought, |_| CacheSlot::Flight(Weak::new()));
                self.fill(at, kept);
                gone.0.push(own);
            }
        }
        // Reads in flight hold no slots and are not in the list by age, so this ends.
        while self.places > most && self.oldest != NONE {
            gone.0.push(self.remove(self.oldest));
        }
        gone
    }

    /// Removes every entry with such a key, including reads in flight.
    pub(super) fn forget(&mut self, is_unwanted: impl Fn(&CacheKey) -> bool) -> EvictedEntries {
        let unwanted = |(at, entry): (usize, &CacheEntry)| is_unwanted(&entry.key).then_some(at as u32);
        let all: Vec<u32> = self.entries.iter().filter_map(unwanted).collect();
        EvictedEntries(all.into_iter().map(|at| self.remove(at)).collect())
    }

    pub(super) fn clear(&mut self) -> EvictedEntries {
        let before = std::mem::take(self);
        // The numbers go on: a read that is still under way must not take a later one's place for its own.
        (self.entered, self.counts) = (before.entered, before.counts);
        EvictedEntries(before.entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn is_there(&self, place: CacheTicket) -> bool {
        self.entries.get(place.at as usize).is_some_and(|entry| entry.number == place.number)
    }

    fn position(&self, sought: &CacheKeyRef<'_>) -> Option<u32> {
        let is_it = |at: &u32| {
            let entry = &self.entries[*at as usize];
            // The digest decides in nearly all cases; the key is compared only when it agrees.
            entry.digest == sought.digest && entry.key.is(sought)
        };
        self.index.find(sought.digest, is_it).copied()
    }

    fn insert(&mut self, sought: &CacheKeyRef<'_>, held: impl FnOnce(CacheTicket) -> CacheSlot) -> u32 {
        self.entered += 1;
        let (vacant, number) = (self.entries.vacant_entry(), self.entered);
        let at = vacant.key() as u32;
        let (digest, key, held) = (sought.digest, sought.to_key(), held(CacheTicket { at, number }));
        vacant.insert(CacheEntry { digest, number, older: NONE, newer: NONE, key, held });
        // The caller has looked for the key already, so it is not searched again.
        self.index.insert_unique(digest, at, |at| self.entries[*at as usize].digest);
        at
    }

    /// Puts a result into an entry that has none.
    fn fill(&mut self, at: u32, kept: CachedResult) {
        self.places += kept.places;
        self.entries[at as usize].held = CacheSlot::Kept(kept);
        self.link(at);
    }

    fn remove(&mut self, at: u32) -> CacheEntry {
        let (digest, is_kept) = match &self.entries[at as usize] {
            CacheEntry { digest, held: CacheSlot::Kept(kept), .. } => {
                self.places -= kept.places;
                (*digest, true)
            }
            entry => (entry.digest, false),
        };
        if is_kept {
            self.unlink(at);
        }
        if let Ok(known) = self.index.find_entry(digest, |known| *known == at) {
            known.remove();
        }
        self.entries.remove(at as usize)
    }

    /// Makes an entry the most recently used.
    fn link(&mut self, at: u32) {
        // A doubly linked list through the slab: no allocation per entry.
        let before = std::mem::replace(&mut self.newest, at);
        match before {
            NONE => self.oldest = at,
            before => self.entries[before as usize].newer = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (before, NONE);
    }

    fn unlink(&mut self, at: u32) {
        let CacheEntry { older, newer, .. } = self.entries[at as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }
}
