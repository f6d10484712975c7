//! The kept results of one server, the reads under way, and how often keeping helped.

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use moka::policy::EvictionPolicy;
use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_protocol::answer::{Call, Complete, Outcome};
use tsugi_protocol::json::Object;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::freshness::CacheScope;

use super::flight::Flight;
use super::key::{Key, Owner};
use super::{Lifetime, aged};
use crate::config::CachePolicy;

/// A result up to this size takes one place; a larger one takes as many as it has of these.
const PLACE: usize = 64 * 1024;
/// Larger results are not kept.
const LARGEST: usize = 4 * 1024 * 1024;

/// What is kept, the least recently used going first; what is too old goes when it is asked for, which spares
/// a timer for every entry. Shared between the layer, which reads and fills it, and the server's task, which empties it.
pub struct Store {
    policy: CachePolicy,
    kept: moka::sync::Cache<Key, Kept>,
    flights: Mutex<HashMap<Key, Weak<Flight>>>,
    tools_epoch: AtomicU64,
    resources_epoch: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    shared: AtomicU64,
    hasher: RandomState,
}

#[derive(Clone)]
struct Kept {
    complete: Complete,
    until: Instant,
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
    pub fn new(policy: CachePolicy) -> Self {
        let kept = moka::sync::Cache::builder()
            .max_capacity(policy.max_entries)
            .weigher(|_: &Key, kept: &Kept| (kept.complete.body.bytes().len() / PLACE + 1) as u32)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self {
            policy,
            kept,
            flights: Mutex::default(),
            tools_epoch: AtomicU64::new(0),
            resources_epoch: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            hasher: RandomState::new(),
        }
    }

    /// How often keeping helped so far.
    pub fn counts(&self) -> Counts {
        let [hits, misses, shared] = [&self.hits, &self.misses, &self.shared].map(|count| count.load(Relaxed));
        Counts { hits, misses, shared }
    }

    /// The tools changed: no result of a tool is used any more, nor one that is under way.
    pub fn forget_tools(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
    }

    /// The server is another one, or its resources changed: nothing is used any more.
    pub fn forget_all(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
        self.resources_epoch.fetch_add(1, Relaxed);
    }

    /// A resource changed: what was read of it is not used any more, nor what is being read.
    pub fn forget_resource(&self, uri: &str) {
        // First those under way, so that none of them is kept after this.
        self.flights.lock().retain(|key, _| !key.reads(uri));
        for (key, _) in self.kept.iter().filter(|(key, _)| key.reads(uri)) {
            self.kept.invalidate(&*key);
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.policy.ttl
    }

    pub(super) fn key(&self, call: &Call, owner: Owner) -> Key {
        let epoch = if call.method == Method::ToolsCall { &self.tools_epoch } else { &self.resources_epoch };
        Key::of(call, owner, epoch.load(Relaxed), &self.hasher)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Complete> {
        let kept = self.kept.get(key)?;
        let remaining = kept.until.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            self.kept.invalidate(key);
            return None;
        }
        self.hits.fetch_add(1, Relaxed);
        Some(aged(&kept.complete, remaining))
    }

    pub(super) fn count_miss(&self) {
        self.misses.fetch_add(1, Relaxed);
    }

    pub(super) fn count_shared(&self) {
        self.shared.fetch_add(1, Relaxed);
    }

    /// The same read under way, or a new one that the caller is to make.
    pub(super) fn join(self: &Arc<Self>, key: Key, lifetime: Lifetime) -> Role {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&key).and_then(Weak::upgrade) {
            return Role::Follower(flight);
        }
        let flight = Flight::new(self.clone(), key.clone(), lifetime);
        flights.insert(key, Arc::downgrade(&flight));
        Role::Leader(flight)
    }

    /// Keeps the result of a read, unless what it read changed meanwhile.
    pub(super) fn land(&self, flight: &Flight, outcome: &Outcome) {
        let is_current = self.forget_flight(&flight.key, flight);
        if is_current {
            self.keep(&flight.key, flight.lifetime, outcome);
        }
    }

    /// Takes a read out of those under way; `false` when it was not among them any more.
    pub(super) fn forget_flight(&self, key: &Key, flight: &Flight) -> bool {
        let mut flights = self.flights.lock();
        let is_there = flights.get(key).is_some_and(|known| std::ptr::eq(known.as_ptr(), flight));
        if is_there {
            flights.remove(key);
        }
        is_there
    }

    /// Keeps a result that may be kept.
    pub(super) fn keep(&self, key: &Key, lifetime: Lifetime, outcome: &Outcome) {
        let Outcome::Complete(complete) = outcome else { return };
        let bytes = complete.body.bytes();
        let Some((ttl, scope)) = lifetime.of(&complete.body).filter(|_| bytes.len() <= LARGEST) else { return };
        // Copied, so that what is kept does not keep the buffers of the wire alive.
        let body = Object::parse(Bytes::copy_from_slice(bytes)).expect("it was an object before it was copied");
        let complete = Complete { body, ..complete.clone() };
        let key = match scope {
            CacheScope::Public if !key.is_of_session() => key.for_everybody(),
            _ => key.clone(),
        };
        self.kept.insert(key, Kept { complete, until: Instant::now() + ttl });
    }
}

/// What somebody who asks is to do.
pub(super) enum Role {
    /// Make the call.
    Leader(Arc<Flight>),
    /// Wait for it.
    Follower(Arc<Flight>),
}
