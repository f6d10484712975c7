//! The kept results of one server, the reads under way, and how often keeping helped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::time::Instant;
use tsugi_protocol::answer::{Call, Complete, Outcome};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::freshness::CacheScope;

use super::flight::Flight;
use super::key::{ByDigest, Key, Owner};
use super::{Lifetime, aged};
use crate::config::CachePolicy;

/// A result up to this size takes one place; a larger one takes as many as it has of these.
const PLACE: usize = 64 * 1024;
/// Larger results are not kept.
const LARGEST: usize = 4 * 1024 * 1024;

/// What is kept, the least recently used going first; what is too old goes when it is asked for, which spares
/// a timer for every entry. Shared between the layer, which reads and fills it, and the server's task, which empties it.
pub(crate) struct Store {
    policy: CachePolicy,
    shelf: Mutex<Shelf>,
    tools_epoch: AtomicU64,
    resources_epoch: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    shared: AtomicU64,
    hasher: RandomState,
}

#[derive(Default)]
struct Shelf {
    /// The least recently used first.
    kept: LinkedHashMap<Key, Kept, ByDigest>,
    /// The places that are taken.
    places: u64,
    flights: HashMap<Key, Weak<Flight>, ByDigest>,
}

struct Kept {
    complete: Complete,
    until: Instant,
    places: u64,
}

impl Shelf {
    /// What is kept under this key, unless it is too old.
    fn find(&mut self, key: &Key, now: Instant) -> Option<(Complete, Duration)> {
        let kept = self.kept.to_back(key)?;
        let remaining = kept.until.saturating_duration_since(now);
        if !remaining.is_zero() {
            return Some((kept.complete.clone(), remaining));
        }
        self.drop_kept(key);
        None
    }

    fn drop_kept(&mut self, key: &Key) {
        if let Some(kept) = self.kept.remove(key) {
            self.places -= kept.places;
        }
    }

    /// Keeps a result, and gives what has to go for it.
    fn keep(&mut self, key: Key, kept: Kept, limit: u64) -> SmallVec<[(Key, Kept); 1]> {
        let mut gone = SmallVec::new();
        self.places += kept.places;
        if let Some(before) = self.kept.insert(key.clone(), kept) {
            self.places -= before.places;
            gone.push((key, before));
        }
        while self.places > limit
            && let Some(oldest) = self.kept.pop_front()
        {
            self.places -= oldest.1.places;
            gone.push(oldest);
        }
        gone
    }

    fn is_under_way(&self, flight: &Flight) -> bool {
        self.flights.get(&flight.key).is_some_and(|known| std::ptr::eq(known.as_ptr(), flight))
    }
}

/// How often keeping helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Answered from what was kept.
    pub hits: u64,
    /// Asked the server.
    pub misses: u64,
    /// Waited for the answer to somebody else's identical read.
    pub shared: u64,
}

impl Counts {
    /// The part of all reads that the server was spared, from 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        let spared = self.hits + self.shared;
        spared as f64 / (spared + self.misses).max(1) as f64
    }
}

impl Store {
    /// An empty one.
    pub(crate) fn new(policy: CachePolicy) -> Self {
        Self {
            policy,
            shelf: Mutex::default(),
            tools_epoch: AtomicU64::new(0),
            resources_epoch: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            hasher: RandomState::default(),
        }
    }

    /// How often keeping helped so far.
    pub(crate) fn counts(&self) -> Counts {
        let [hits, misses, shared] = [&self.hits, &self.misses, &self.shared].map(|count| count.load(Relaxed));
        Counts { hits, misses, shared }
    }

    /// The tools changed: no result of a tool is used any more, nor one that is under way.
    pub(crate) fn forget_tools(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
    }

    /// The server is another one, or its resources changed: nothing is used any more.
    pub(crate) fn forget_all(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
        self.resources_epoch.fetch_add(1, Relaxed);
        let kept = std::mem::take(&mut *self.shelf.lock());
        drop(kept);
    }

    /// A resource changed: what was read of it is not used any more, nor what is being read.
    pub(crate) fn forget_resource(&self, uri: &str) {
        let mut shelf = self.shelf.lock();
        shelf.flights.retain(|key, _| !key.reads(uri));
        let read: Vec<Key> = shelf.kept.keys().filter(|key| key.reads(uri)).cloned().collect();
        read.iter().for_each(|key| shelf.drop_kept(key));
    }

    pub(super) fn ttl(&self) -> Duration {
        self.policy.ttl
    }

    pub(super) fn key(&self, call: &Call, owner: Owner) -> Key {
        let epoch = if call.method == Method::ToolsCall { &self.tools_epoch } else { &self.resources_epoch };
        Key::of(call, owner, epoch.load(Relaxed), &self.hasher)
    }

    /// The same read for everybody.
    pub(super) fn for_everybody(&self, key: &Key) -> Key {
        key.for_everybody(&self.hasher)
    }

    /// What is kept under this key.
    pub(super) fn get(&self, key: &Key) -> Option<Complete> {
        let (complete, remaining) = self.shelf.lock().find(key, Instant::now())?;
        Some(self.hit(&complete, remaining))
    }

    fn hit(&self, complete: &Complete, remaining: Duration) -> Complete {
        self.hits.fetch_add(1, Relaxed);
        aged(complete, remaining)
    }

    pub(super) fn count_miss(&self) {
        self.misses.fetch_add(1, Relaxed);
    }

    pub(super) fn count_shared(&self) {
        self.shared.fetch_add(1, Relaxed);
    }

    /// What is kept under this key, else the same read under way, else a new one that the caller is to make:
    /// one look at the shelf for all three.
    pub(super) fn join(self: &Arc<Self>, key: Key, lifetime: Lifetime) -> Role {
        let mut shelf = self.shelf.lock();
        if let Some((complete, remaining)) = shelf.find(&key, Instant::now()) {
            drop(shelf);
            return Role::Kept(self.hit(&complete, remaining));
        }
        if let Some(flight) = shelf.flights.get(&key).and_then(Weak::upgrade) {
            return Role::Follower(flight.board());
        }
        let flight = Flight::new(self.clone(), key.clone(), lifetime);
        shelf.flights.insert(key, Arc::downgrade(&flight));
        Role::Leader(flight.board())
    }

    /// Nobody can join any more; the result is kept, unless what it read changed meanwhile.
    pub(super) fn land(&self, flight: &Flight, outcome: &Outcome) {
        // Made before the lock is taken: copying a large result takes a while.
        let kept = self.keepable(flight, outcome);
        let mut shelf = self.shelf.lock();
        if !shelf.is_under_way(flight) {
            return;
        }
        shelf.flights.remove(&flight.key);
        let gone = kept.map(|(key, kept)| shelf.keep(key, kept, self.policy.max_entries));
        drop(shelf);
        // Given back without the lock, which others wait for.
        drop(gone);
    }

    /// Takes a read out of those under way, if it is among them.
    pub(super) fn forget_flight(&self, flight: &Flight) {
        let mut shelf = self.shelf.lock();
        if shelf.is_under_way(flight) {
            shelf.flights.remove(&flight.key);
        }
    }

    /// A result that may be kept, and under which key.
    fn keepable(&self, flight: &Flight, outcome: &Outcome) -> Option<(Key, Kept)> {
        let Outcome::Complete(complete) = outcome else { return None };
        let size = complete.body.bytes().len();
        let (ttl, scope) = flight.lifetime.of(&complete.body).filter(|_| size <= LARGEST)?;
        // Copied, so that what is kept does not keep the buffers of the wire alive.
        let complete = Complete { body: complete.body.detached(), era: complete.era, server: complete.server.clone() };
        let key = match scope {
            CacheScope::Public if !flight.key.is_of_session() => self.for_everybody(&flight.key),
            _ => flight.key.clone(),
        };
        let places = (size / PLACE + 1) as u64;
        Some((key, Kept { complete, until: Instant::now() + ttl, places }))
    }
}

/// What somebody who asks is to do.
pub(super) enum Role {
    /// Nothing: this is the result.
    Kept(Complete),
    /// Make the call.
    Leader(super::flight::Rider),
    /// Wait for it.
    Follower(super::flight::Rider),
}
