//! The cache of one server: its results, its reads in flight, and its hit counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_protocol::answer::{Call, Caller, CompletedResult, Outcome};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::cache_hints::CacheScope;

use super::key::{CacheKeyRef, CacheOwner};
use super::lru::{CacheLookup, CacheTable, CachedResult};
use super::shared_read::{ReadWaiter, SharedRead};
use super::{CacheLifetime, with_remaining_ttl};
use crate::config::CachePolicy;

/// A result up to this size takes one place; a larger one takes as many as it has of these.
const PLACE: usize = 64 * 1024;
/// Larger results are not kept.
const LARGEST: usize = 4 * 1024 * 1024;

/// The least recently used result is evicted first. An expired one goes when it is looked up, which saves a timer per
/// entry. The layer reads and fills it; the server's task empties it.
pub(crate) struct CacheStore {
    policy: CachePolicy,
    shelf: Mutex<CacheTable>,
    tools_epoch: AtomicU64,
    resources_epoch: AtomicU64,
    hasher: RandomState,
}

/// How often keeping helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Answered from what was kept.
    pub hits: u64,
    /// Asked the server.
    pub misses: u64,
    /// Waited for another caller's identical read.
    pub shared: u64,
}

impl CacheStore {
    pub(crate) fn new(policy: CachePolicy) -> Self {
        let (tools_epoch, resources_epoch) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { policy, shelf: Mutex::default(), tools_epoch, resources_epoch, hasher: RandomState::default() }
    }

    /// How often keeping helped so far.
    pub(crate) fn counts(&self) -> CacheCounts {
        self.shelf.lock().counts
    }

    /// The tools changed: no result of a tool is used again, not even of a read in flight.
    pub(crate) fn forget_tools(&self) {
        // The epoch is part of every key, so old entries are never found and age out.
        self.tools_epoch.fetch_add(1, Relaxed);
    }

    /// The server was replaced, or its resources changed: nothing is used again.
    pub(crate) fn forget_all(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
        self.resources_epoch.fetch_add(1, Relaxed);
        let gone = self.shelf.lock().clear();
        drop(gone);
    }

    /// A resource changed: what was read of it is not used again, not even by a read in flight.
    pub(crate) fn forget_resource(&self, uri: &str) {
        let gone = self.shelf.lock().forget(|key| key.reads(uri));
        drop(gone);
    }

    pub(super) fn ttl(&self) -> Duration {
        self.policy.ttl
    }

    /// What a call asks for.
    pub(super) fn sought<'call>(&self, call: &'call Call, owner: CacheOwner<&'call Caller>) -> CacheKeyRef<'call> {
        let epoch = if call.method == Method::ToolsCall { &self.tools_epoch } else { &self.resources_epoch };
        CacheKeyRef::of(call, owner, epoch.load(Relaxed), &self.hasher)
    }

    /// The cached result that all callers share.
    pub(super) fn get_everybodys(&self, sought: &CacheKeyRef<'_>) -> Option<CompletedResult> {
        self.get(&sought.for_everybody(&self.hasher))
    }

    /// What is kept of this.
    pub(super) fn get(&self, sought: &CacheKeyRef<'_>) -> Option<CompletedResult> {
        let mut shelf = self.shelf.lock();
        let (complete, remaining) = shelf.find_kept(sought)?;
        shelf.counts.hits += 1;
        drop(shelf);
        Some(with_remaining_ttl(complete, remaining))
    }

    /// A caller asks the server without letting others join.
    pub(super) fn count_miss(&self) {
        self.shelf.lock().counts.misses += 1;
    }

    /// What is kept of this, else the same read under way, else a new one that the caller is to make:
    /// one look at the shelf for all three.
    pub(super) fn join(self: &Arc<Self>, sought: &CacheKeyRef<'_>, lifetime: CacheLifetime) -> ReadRole {
        let mut shelf = self.shelf.lock();
        match shelf.find(sought) {
            Some(CacheLookup::Kept(complete, remaining)) => {
                shelf.counts.hits += 1;
                drop(shelf);
                ReadRole::Kept(with_remaining_ttl(complete, remaining))
            }
            Some(CacheLookup::Flight(flight)) => {
                // Neither a hit nor a miss: the server is asked once for both.
                shelf.counts.shared += 1;
                ReadRole::Follower(flight.join())
            }
            None => {
                shelf.counts.misses += 1;
                let mut leader = None;
                shelf.begin(sought, |place| {
                    let flight = SharedRead::new(self.clone(), place, lifetime);
                    let weak = Arc::downgrade(&flight);
                    leader = Some(ReadWaiter::first(flight));
                    weak
                });
                ReadRole::Leader(leader.expect("a read that begins has a place"))
            }
        }
    }

    /// Ends a read: no waiter can join, and the result is cached unless what it read has changed since.
    pub(super) fn land(&self, flight: &SharedRead, outcome: &Outcome) {
        // Made before the lock is taken: copying a large result takes a while.
        let kept = self.keepable(flight, outcome);
        let mut shelf = self.shelf.lock();
        let gone = match kept {
            None => shelf.give_up(flight.place),
            Some((kept, CacheScope::Private)) => shelf.keep(flight.place, kept, None, self.policy.max_entries),
            Some((kept, CacheScope::Public)) => {
                shelf.keep(flight.place, kept, Some(&self.hasher), self.policy.max_entries)
            }
        };
        drop(shelf);
        drop(gone);
    }

    /// Takes a read out of those under way, if it is among them.
    pub(super) fn forget_flight(&self, flight: &SharedRead) {
        let gone = self.shelf.lock().give_up(flight.place);
        drop(gone);
    }

    /// A result that may be kept, and for whom.
    fn keepable(&self, flight: &SharedRead, outcome: &Outcome) -> Option<(CachedResult, CacheScope)> {
        let Outcome::Complete(complete) = outcome else { return None };
        let size = complete.body.bytes().len();
        let (ttl, scope) = flight.lifetime.of(&complete.body).filter(|_| size <= LARGEST)?;
        // Copied, so that what is kept does not keep the buffers of the wire alive.
        let complete =
            CompletedResult { body: complete.body.detached(), era: complete.era, server: complete.server.clone() };
        let places = (size / PLACE + 1) as u64;
        // A resource says itself how long it is fresh, and reading it does not change that.
        let is_own = matches!(flight.lifetime, CacheLifetime::Fixed(_));
        let renewal = (self.policy.update_age_on_get && is_own).then_some(ttl);
        Some((CachedResult { complete, until: Instant::now() + ttl, renewal, places }, scope))
    }
}

/// What a caller has to do for its read.
pub(super) enum ReadRole {
    /// Nothing: this is the result.
    Kept(CompletedResult),
    Leader(ReadWaiter),
    Follower(ReadWaiter),
    /// Make the call without sharing it.
    Alone,
}
