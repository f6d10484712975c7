//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

/// How long a condition may take before the test has failed. It is long because machines are slow, and it
/// costs nothing when the condition holds.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; false when it does not within [`PATIENCE`].
pub async fn until(condition: impl FnMut() -> bool) -> bool {
    until_within(PATIENCE, condition).await
}

/// Waits until `condition` holds; false when it does not within `limit`.
pub async fn until_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= end {
            return condition();
        }
        tokio::time::sleep(PAUSE).await;
    }
    true
}

/// The same for tests without a runtime.
pub fn until_blocking(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= end {
            return condition();
        }
        std::thread::sleep(PAUSE);
    }
    true
}
