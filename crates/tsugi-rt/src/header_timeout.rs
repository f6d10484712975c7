//! The time limit for the head of a request, with one timer for the whole life of a connection.
//!
//! hyper creates a timer for every head and drops it when the head has arrived, which takes the runtime's timer lock
//! twice per request. Here hyper only stores the deadline, and one timer per connection checks it now and then.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use crate::switch::RuntimeTrick;

/// The header timeout of one connection. It runs from the start: before the first bytes show the HTTP version hyper has
/// no timer, and a client that opens connections and stays silent could exhaust the limit on connections.
#[derive(Debug, Clone)]
pub struct HeaderTimeout(Arc<HeaderTimeoutState>);

#[derive(Debug)]
struct HeaderTimeoutState {
    began: Instant,
    limit: Duration,
    /// When the head must have arrived, in microseconds after `began`; [`NONE`] while no head is awaited.
    deadline: AtomicU64,
}

/// No head is awaited.
const NONE: u64 = u64::MAX;

impl HeaderTimeout {
    pub fn start(limit: Duration) -> Self {
        let deadline = AtomicU64::new(limit.as_micros() as u64);
        Self(Arc::new(HeaderTimeoutState { began: Instant::now(), limit, deadline }))
    }

    /// Records that a head has arrived.
    pub fn stop(&self) {
        self.0.deadline.store(NONE, Ordering::Relaxed);
    }

    /// Resolves when a head did not arrive in time.
    pub async fn is_late(&self) {
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
        let is_plain = RuntimeTrick::HeaderTimeout.is_plain();
        let sleep = is_plain.then(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        Box::pin(HeaderWait { timeout: self.clone(), sleep })
    }
}

/// A head that is awaited. It never completes by itself: [`HeaderTimeout::is_late`] ends the whole connection.
struct HeaderWait {
    timeout: HeaderTimeout,
    /// An ordinary timer, where the trick is switched off.
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for HeaderWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl Sleep for HeaderWait {}

impl Drop for HeaderWait {
    fn drop(&mut self) {
        self.timeout.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_late() {
        let timeout = HeaderTimeout::start(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(2));
        timeout.is_late().await;
    }

    #[tokio::test]
    async fn an_arrived_head_is_not_late_and_the_next_one_is() {
        let timeout = HeaderTimeout::start(Duration::from_millis(5));
        drop(timeout.sleep(Duration::from_millis(5)));
        let quiet = tokio::time::timeout(Duration::from_millis(40), timeout.is_late()).await;
        assert!(quiet.is_err(), "no head is awaited");
        let _next = timeout.sleep(Duration::from_millis(5));
        timeout.is_late().await;
    }
}
