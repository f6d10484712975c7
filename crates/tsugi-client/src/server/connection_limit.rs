//! Limits the connections of all servers together: the one unused for longest is closed for a new one.

use std::pin::Pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tsugi_protocol::answer::{Fault, FaultCode, Reply, ReplyEvent, ReplySource};

use super::{Instance, InstanceRole};
use crate::config::ConnectTarget;

/// How often a waiter looks for a connection that has fallen out of use.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The connections that a manager may have. A server in this process needs none of them.
pub(crate) struct ConnectionLimit {
    most: usize,
    free: Arc<Semaphore>,
    pub(super) taken: Mutex<Vec<OccupiedSlot>>,
    waiting: AtomicUsize,
    /// Counts uses, so that their order is known without a clock.
    uses: AtomicU64,
}

pub(super) struct OccupiedSlot {
    instance: Weak<Instance>,
    pub(super) is_leaving: bool,
}

impl ConnectionLimit {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let most = most.max(1);
        let free = Arc::new(Semaphore::new(most));
        let (taken, waiting, uses) = (Mutex::default(), AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { most, free, taken, waiting, uses })
    }

    /// Waits for a slot, closing an unused connection for it; `None` when given up.
    async fn take(self: &Arc<Self>, instance: &Arc<Instance>, give_up: &CancellationToken) -> Option<ConnectionSlot> {
        // The usual case neither counts as a waiter nor looks for a connection to close.
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait(give_up).await?,
        };
        let instance = Arc::downgrade(instance);
        self.taken.lock().push(OccupiedSlot { instance: instance.clone(), is_leaving: false });
        Some(ConnectionSlot { seats: self.clone(), instance, _permit: permit })
    }

    async fn wait(&self, give_up: &CancellationToken) -> Option<OwnedSemaphorePermit> {
        let _waiting = WaiterCount::new(&self.waiting);
        let mut acquiring = std::pin::pin!(self.free.clone().acquire_owned());
        loop {
            // Again in every round: a connection that was in use may be free by now.
            self.make_room();
            tokio::select! {
                // A free slot is taken first: no connection has to be closed for it.
                biased;
                permit = &mut acquiring => return permit.ok(),
                () = give_up.cancelled() => return None,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Closes the connection unused for longest, unless as many are closing as there are waiters.
    fn make_room(&self) {
        let mut taken = self.taken.lock();
        // One connection per waiter is enough; closing takes a moment.
        if taken.iter().filter(|taken| taken.is_leaving).count() >= self.waiting.load(Relaxed) {
            return;
        }
        let unused = taken.iter_mut().filter_map(|taken| {
            let instance = taken.instance.upgrade().filter(|instance| !taken.is_leaving && instance.may_leave())?;
            Some((taken, instance))
        });
        if let Some((taken, instance)) = unused.min_by_key(|(_, instance)| instance.last_use()) {
            tracing::info!(server = %instance.config.name, "an unused connection is closed for another");
            taken.is_leaving = instance.rest();
        }
    }
}

/// The right to have a connection, until it is dropped.
pub(super) struct ConnectionSlot {
    seats: Arc<ConnectionLimit>,
    instance: Weak<Instance>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.seats.taken.lock().retain(|taken| !taken.instance.ptr_eq(&self.instance));
    }
}

/// How one instance uses the slots of its manager.
pub(super) struct ConnectionUsage {
    pub(super) seats: Arc<ConnectionLimit>,
    last: AtomicU64,
    /// How many use the connection or wait for it. It is not closed while there are any.
    users: AtomicUsize,
    is_waiting: AtomicBool,
}

impl ConnectionUsage {
    /// For an instance with this target; `None` when it needs no slot.
    pub(super) fn of(target: &ConnectTarget, seats: Option<&Arc<ConnectionLimit>>) -> Option<Self> {
        let seats = seats.filter(|_| !matches!(target, ConnectTarget::InProcess(_)))?.clone();
        let (last, users, is_waiting) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Some(Self { seats, last, users, is_waiting })
    }

    /// The connection stays: it is needed after all.
    pub(super) fn stay(&self, instance: &Instance) {
        let mut taken = self.seats.taken.lock();
        if let Some(taken) = taken.iter_mut().find(|taken| std::ptr::eq(taken.instance.as_ptr(), instance)) {
            taken.is_leaving = false;
        }
    }
}

/// Marks an instance's connection as used, or waited for, until it is dropped.
pub(super) struct UsageGuard(Arc<Instance>);

impl UsageGuard {
    pub(super) fn of(instance: &Arc<Instance>) -> Self {
        if let Some(usage) = &instance.usage {
            usage.last.store(usage.seats.uses.fetch_add(1, Relaxed) + 1, Relaxed);
            // `SeqCst`: the task that closes idle connections must see this before it decides.
            usage.users.fetch_add(1, SeqCst);
        }
        Self(instance.clone())
    }

    /// The reply, which keeps the connection from being closed for another until it is done or dropped.
    pub(super) fn hold_during(self, reply: Reply) -> Reply {
        Reply::from_source(UsageReply { reply, _user: self })
    }
}

impl Drop for UsageGuard {
    fn drop(&mut self) {
        if let Some(usage) = &self.0.usage {
            usage.users.fetch_sub(1, SeqCst);
        }
    }
}

/// A reply that counts as a use of its connection until it is done or dropped.
struct UsageReply {
    reply: Reply,
    _user: UsageGuard,
}

impl ReplySource for UsageReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        self.reply.poll_event(context)
    }
}

impl Instance {
    /// A slot for a connection, where one is needed.
    pub(super) async fn acquire_slot(
        self: &Arc<Self>,
        give_up: &CancellationToken,
    ) -> Result<Option<ConnectionSlot>, Fault> {
        let Some(usage) = &self.usage else { return Ok(None) };
        usage.is_waiting.store(true, Relaxed);
        let seat = usage.seats.take(self, give_up).await;
        usage.is_waiting.store(false, Relaxed);
        let stopped = || self.context.fault(FaultCode::ServerNotRunning, "the server was stopped");
        seat.map(Some).ok_or_else(stopped)
    }

    /// Why there is no connection, when all that are allowed are in use.
    pub(super) fn no_slot_fault(&self) -> Option<Fault> {
        let usage = self.usage.as_ref().filter(|usage| usage.is_waiting.load(Relaxed))?;
        let message = format!("all {} connections are in use", usage.seats.most);
        let mut fault = self.context.fault(FaultCode::Overloaded, &message);
        fault.retry_after_ms = Some(1000);
        Some(fault.with_hint("raise `maxConnections` of `options`"))
    }

    /// Whether the connection can be closed now: it is up, the catalog is known, and nothing is in flight.
    pub(super) fn may_leave(&self) -> bool {
        let is_known = matches!(self.role, InstanceRole::CallerSession(_)) || self.catalog.load().is_some();
        let is_used = self.usage.as_ref().is_some_and(|usage| usage.users.load(SeqCst) > 0);
        self.is_live() && is_known && !is_used && self.in_flight() == 0 && !self.is_watched()
    }

    fn last_use(&self) -> u64 {
        self.usage.as_ref().map_or(0, |usage| usage.last.load(Relaxed))
    }
}

/// Counts a waiter until it is dropped.
struct WaiterCount<'a>(&'a AtomicUsize);

impl<'a> WaiterCount<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for WaiterCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
