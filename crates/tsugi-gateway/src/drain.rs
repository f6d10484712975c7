//! Stopping without losing a call: who is busy, and when everybody must go.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long new requests are still refused with an error once nothing is running. A client that sends its next request on a
/// kept-alive connection just then gets an error that it understands, and not a broken connection.
const LINGER: Duration = Duration::from_millis(100);
/// How long a connection may take at least to write what it has when we close.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// The state of stopping, shared by the listener, the faces and the handle.
#[derive(Clone, Default)]
pub(crate) struct DrainState(Arc<DrainCounters>);

#[derive(Default)]
struct DrainCounters {
    /// No new call is taken.
    draining: CancellationToken,
    /// Connections close.
    closing: CancellationToken,
    /// The same two as flags: a token is behind a lock that all requests would share.
    is_draining: AtomicBool,
    is_closing: AtomicBool,
    busy: AtomicUsize,
    became_idle: Notify,
    /// When the last byte must be written; known once we close.
    end: OnceLock<Instant>,
    /// Another gateway will take over our address.
    is_handed_over: bool,
}

/// Counts one piece of work as running until it is dropped.
pub(crate) struct BusyGuard {
    drain: DrainState,
    is_late: bool,
}

impl BusyGuard {
    /// True for work that was taken on while we stop.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }
}

impl DrainState {
    /// For a gateway whose address another one will take over, or for one that simply stops.
    pub(crate) fn new(is_handed_over: bool) -> Self {
        Self(Arc::new(DrainCounters { is_handed_over, ..DrainCounters::default() }))
    }

    /// Takes on a request that came on a connection of its own. Where another gateway takes over, no client is
    /// refused: one that has a connection to us is served once more, and comes back to the other gateway.
    pub(crate) fn enter_request(&self) -> Option<BusyGuard> {
        match self.0.is_handed_over {
            true => Some(self.take_on()),
            false => self.enter(),
        }
    }

    /// The signal to accept no more connections.
    pub(crate) fn not_accepting(&self) -> CancellationToken {
        let signal = if self.0.is_handed_over { &self.0.draining } else { &self.0.closing };
        signal.clone()
    }

    /// Takes on work, unless we are stopping.
    pub(crate) fn enter(&self) -> Option<BusyGuard> {
        let busy = self.join();
        (!busy.is_late).then_some(busy)
    }

    /// Takes on work that a running call waits for, such as its client's answer to a question, also while we stop.
    pub(crate) fn join(&self) -> BusyGuard {
        let mut busy = self.take_on();
        // Checked only after we are counted: a stop that begins in between already sees that we are busy.
        busy.is_late = self.is_draining();
        busy
    }

    fn take_on(&self) -> BusyGuard {
        self.0.busy.fetch_add(1, Ordering::SeqCst);
        BusyGuard { drain: self.clone(), is_late: false }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::SeqCst)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::SeqCst)
    }

    /// Resolves when no new call is taken any more: streams say goodbye then.
    pub(crate) fn draining(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.draining.clone().cancelled_owned()
    }

    /// The signal to close connections.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Refuses new work, waits up to `grace` for what is running, then closes. Gives how many were cut off.
    pub(crate) async fn run(&self, grace: Duration) -> usize {
        self.0.is_draining.store(true, Ordering::SeqCst);
        self.0.draining.cancel();
        let end = Instant::now() + grace;
        // Work that still runs after the grace period is cut off, and counted.
        let has_ended = tokio::time::timeout_at(end, self.idle()).await.is_ok();
        if has_ended {
            tokio::time::sleep_until(end.min(Instant::now() + LINGER)).await;
        }
        // What was answered in time may be written in what is left of it.
        _ = self.0.end.set(end.max(Instant::now() + LAST_WRITE));
        // Read before closing: tasks that are cancelled below would count as ended.
        let left = if has_ended { 0 } else { self.0.busy.load(Ordering::SeqCst) };
        self.0.is_closing.store(true, Ordering::SeqCst);
        self.0.closing.cancel();
        left
    }

    /// By when a connection must have written what it has, once we close.
    pub(crate) fn end(&self) -> Instant {
        self.0.end.get().copied().unwrap_or_else(|| Instant::now() + LAST_WRITE)
    }

    async fn idle(&self) {
        loop {
            let notified = self.0.became_idle.notified();
            if self.0.busy.load(Ordering::SeqCst) == 0 {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        let inner = &self.drain.0;
        if inner.busy.fetch_sub(1, Ordering::SeqCst) == 1 && self.drain.is_draining() {
            inner.became_idle.notify_waiters();
        }
    }
}
