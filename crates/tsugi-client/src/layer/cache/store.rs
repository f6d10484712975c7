//! The kept results of one server, the reads under way, and how often keeping helped.

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

/// What is kept, the least recently used going first; what is too old goes when it is asked for, which spares
/// a timer for every entry. Shared between the layer, which reads and fills it, and the server's task, which empties it.
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
    /// Waited for the answer to somebody else's identical read.
    pub shared: u64,
}

impl CacheCounts {
    /// The part of all reads that the server was spared, from 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        let spared = self.hits + self.shared;
        spared as f64 / (spared + self.misses).max(1) as f64
    }
}

impl CacheStore {
    /// An empty one.
    pub(crate) fn new(policy: CachePolicy) -> Self {
        let (tools_epoch, resources_epoch) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { policy, shelf: Mutex::default(), tools_epoch, resources_epoch, hasher: RandomState::default() }
    }

    /// How often keeping helped so far.
    pub(crate) fn counts(&self) -> CacheCounts {
        self.shelf.lock().counts
    }

    /// The tools changed: no result of a tool is used any more, nor one that is under way.
    pub(crate) fn forget_tools(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
    }

    /// The server is another one, or its resources changed: nothing is used any more.
    pub(crate) fn forget_all(&self) {
        self.tools_epoch.fetch_add(1, Relaxed);
        self.resources_epoch.fetch_add(1, Relaxed);
        let gone = self.shelf.lock().clear();
        drop(gone);
    }

    /// A resource changed: what was read of it is not used any more, nor what is being read.
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

    /// What is kept of this for everybody.
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

    /// Somebody asks the server, whom nobody can join.
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

    /// Nobody can join any more; the result is kept, unless what it read changed meanwhile.
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
        Some((CachedResult { complete, until: Instant::now() + ttl, places }, scope))
    }
}

/// What somebody who asks is to do.
pub(super) enum ReadRole {
    /// Nothing: this is the result.
    Kept(CompletedResult),
    /// Make the call.
    Leader(ReadWaiter),
    /// Wait for it.
    Follower(ReadWaiter),
    /// Make the call without anybody else.
    Alone,
}
