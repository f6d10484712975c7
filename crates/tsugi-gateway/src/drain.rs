//! Stopping without losing a call: who is busy, and when everybody must go.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The state of stopping, shared by the listener, the faces and the handle.
#[derive(Clone, Default)]
pub(crate) struct Drain(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// No new call is taken.
    draining: CancellationToken,
    /// Connections close.
    closing: CancellationToken,
    busy: AtomicUsize,
    became_idle: Notify,
}

/// Somebody is at work; drop it when done.
pub(crate) struct Busy(Drain);

impl Drain {
    /// Takes on work, unless we are stopping.
    pub(crate) fn enter(&self) -> Option<Busy> {
        self.0.busy.fetch_add(1, Ordering::SeqCst);
        let busy = Busy(self.clone());
        (!self.is_draining()).then_some(busy)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
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
        self.0.draining.cancel();
        // Whoever is still busy after the grace period is cut off, and counted.
        let _ = tokio::time::timeout(grace, self.idle()).await;
        self.0.closing.cancel();
        self.0.busy.load(Ordering::SeqCst)
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

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.0.busy.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_draining() {
            self.0.0.became_idle.notify_waiters();
        }
    }
}
