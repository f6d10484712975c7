//! How long a connection may take to send the head of its next request, watched by one timer for its whole life.
//!
//! hyper makes a timer for every head and drops it when the head is there, which takes the runtime's lock twice
//! for each request. Here it only writes down by when the head must be there, and the connection's own timer
//! looks at that once in a while.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// One connection's clock. It runs from the start, since before the first bytes tell the version of HTTP no other
/// clock does, and whoever opens connections and says nothing could take the room of all others.
#[derive(Debug, Clone)]
pub(super) struct HeaderTimeout(Arc<HeaderTimeoutState>);

#[derive(Debug)]
struct HeaderTimeoutState {
    began: Instant,
    limit: Duration,
    /// By when the head must be there, in microseconds after the beginning; nothing while none is awaited.
    deadline: AtomicU64,
}

/// No head is awaited.
const NONE: u64 = u64::MAX;

impl HeaderTimeout {
    pub(super) fn start(limit: Duration) -> Self {
        let deadline = AtomicU64::new(limit.as_micros() as u64);
        Self(Arc::new(HeaderTimeoutState { began: Instant::now(), limit, deadline }))
    }

    /// A head is there.
    pub(super) fn stop(&self) {
        self.0.deadline.store(NONE, Ordering::Relaxed);
    }

    /// Resolves when a head was not there in time.
    pub(super) async fn is_late(&self) {
        let mut next = self.0.began + self.0.limit;
        loop {
            tokio::time::sleep_until(next.into()).await;
            let now = Instant::now();
            next = match self.0.deadline.load(Ordering::Relaxed) {
                NONE => now + self.0.limit,
                deadline => self.0.began + Duration::from_micros(deadline),
            };
            if next <= now {
                return;
            }
        }
    }
}

impl Timer for HeaderTimeout {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let after = deadline.saturating_duration_since(self.0.began);
        self.0.deadline.store(after.as_micros() as u64, Ordering::Relaxed);
        Box::pin(HeaderWait(self.clone()))
    }
}

/// A head that is awaited. It never ends by itself: [`HeaderTimeout::is_late`] ends the whole connection.
struct HeaderWait(HeaderTimeout);

impl Future for HeaderWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Sleep for HeaderWait {}

impl Drop for HeaderWait {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_is_late() {
        let clock = HeaderTimeout::start(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(2));
        clock.is_late().await;
    }

    #[tokio::test]
    async fn a_head_that_came_is_not_late_and_the_next_one_is() {
        let clock = HeaderTimeout::start(Duration::from_millis(5));
        drop(clock.sleep(Duration::from_millis(5)));
        let quiet = tokio::time::timeout(Duration::from_millis(40), clock.is_late()).await;
        assert!(quiet.is_err(), "nothing is awaited");
        let _next = clock.sleep(Duration::from_millis(5));
        clock.is_late().await;
    }
}
