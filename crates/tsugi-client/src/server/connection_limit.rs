//! No more connections than allowed over all servers together: the one unused for longest makes room for a new one.

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

/// How often somebody who waits looks for a connection that fell out of use.
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
    inner: Weak<Instance>,
    pub(super) is_leaving: bool,
}

impl ConnectionLimit {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let most = most.max(1);
        let free = Arc::new(Semaphore::new(most));
        let (taken, waiting, uses) = (Mutex::default(), AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { most, free, taken, waiting, uses })
    }

    /// Waits in line until there is a seat, and has what is unused make room; `None` when given up.
    async fn take(self: &Arc<Self>, inner: &Arc<Instance>, give_up: &CancellationToken) -> Option<ConnectionSlot> {
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait(give_up).await?,
        };
        let inner = Arc::downgrade(inner);
        self.taken.lock().push(OccupiedSlot { inner: inner.clone(), is_leaving: false });
        Some(ConnectionSlot { seats: self.clone(), inner, _permit: permit })
    }

    async fn wait(&self, give_up: &CancellationToken) -> Option<OwnedSemaphorePermit> {
        let _waiting = WaiterCount::new(&self.waiting);
        let mut acquiring = std::pin::pin!(self.free.clone().acquire_owned());
        loop {
            self.make_room();
            tokio::select! {
                // A seat that has become free is looked at first: nobody has to leave for it any more.
                biased;
                permit = &mut acquiring => return permit.ok(),
                () = give_up.cancelled() => return None,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Lets the one unused for longest rest, unless as many are leaving as somebody waits for.
    fn make_room(&self) {
        let mut taken = self.taken.lock();
        if taken.iter().filter(|taken| taken.is_leaving).count() >= self.waiting.load(Relaxed) {
            return;
        }
        let unused = taken.iter_mut().filter_map(|taken| {
            let inner = taken.inner.upgrade().filter(|inner| !taken.is_leaving && inner.may_leave())?;
            Some((taken, inner))
        });
        if let Some((taken, inner)) = unused.min_by_key(|(_, inner)| inner.last_use()) {
            tracing::info!(server = %inner.config.name, "a connection that was not used makes room for another");
            taken.is_leaving = inner.rest();
        }
    }
}

/// The right to have a connection, until it is dropped.
pub(super) struct ConnectionSlot {
    seats: Arc<ConnectionLimit>,
    inner: Weak<Instance>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.seats.taken.lock().retain(|taken| !taken.inner.ptr_eq(&self.inner));
    }
}

/// How one instance uses the seats of its manager.
pub(super) struct ConnectionUsage {
    pub(super) seats: Arc<ConnectionLimit>,
    last: AtomicU64,
    /// Who uses the connection or waits for it: it is not taken away from them.
    users: AtomicUsize,
    is_waiting: AtomicBool,
}

impl ConnectionUsage {
    /// For an instance with this target; `None` when it needs no seat.
    pub(super) fn of(target: &ConnectTarget, seats: Option<&Arc<ConnectionLimit>>) -> Option<Self> {
        let seats = seats.filter(|_| !matches!(target, ConnectTarget::InProcess(_)))?.clone();
        let (last, users, is_waiting) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Some(Self { seats, last, users, is_waiting })
    }

    /// The connection does not leave: somebody needs it after all.
    pub(super) fn stay(&self, inner: &Instance) {
        let mut taken = self.seats.taken.lock();
        if let Some(taken) = taken.iter_mut().find(|taken| std::ptr::eq(taken.inner.as_ptr(), inner)) {
            taken.is_leaving = false;
        }
    }
}

/// Somebody who uses the connection of an instance or waits for it.
pub(super) struct UsageGuard(Arc<Instance>);

impl UsageGuard {
    pub(super) fn of(inner: &Arc<Instance>) -> Self {
        if let Some(usage) = &inner.usage {
            usage.last.store(usage.seats.uses.fetch_add(1, Relaxed) + 1, Relaxed);
            usage.users.fetch_add(1, SeqCst);
        }
        Self(inner.clone())
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

/// Asks, and keeps the connection from leaving meanwhile.
pub(super) fn answer_in_use(inner: &Arc<Instance>, ask: impl FnOnce(&Arc<Instance>) -> Reply) -> Reply {
    let user = UsageGuard::of(inner);
    Reply::from_source(UsageReply { reply: ask(inner), _user: user })
}

impl Instance {
    /// A seat for a connection, where one is needed.
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

    /// Whether nobody would miss the connection now: it is up, what it offers is known, and nothing is under way.
    pub(super) fn may_leave(&self) -> bool {
        let is_known = matches!(self.role, InstanceRole::CallerSession(_)) || self.catalog.load().is_some();
        let is_used = self.usage.as_ref().is_some_and(|usage| usage.users.load(SeqCst) > 0);
        self.is_live() && is_known && !is_used && self.in_flight() == 0 && !self.is_watched()
    }

    fn last_use(&self) -> u64 {
        self.usage.as_ref().map_or(0, |usage| usage.last.load(Relaxed))
    }
}

/// Counts somebody until dropped.
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
