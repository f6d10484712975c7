//! One structured line per request: who asked where, and how it ended. Arguments and secrets never get here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ::http::StatusCode;
use http::HeaderMap;

/// The name under which the lines can be switched on and off.
pub const TARGET: &str = "tsugi::access";

/// The beginning of a request, when the access log is on.
pub(crate) struct AccessLogEntry {
    id: Arc<str>,
    started: Instant,
}

impl AccessLogEntry {
    /// `None` when the log is off: a request then pays for one check.
    pub(crate) fn begin(headers: &HeaderMap) -> Option<Self> {
        if !is_read() {
            return None;
        }
        Some(Self { id: request_id(headers).into(), started: Instant::now() })
    }

    /// The request's id, by which the line can be found.
    pub(crate) fn id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// Writes the line.
    pub(crate) fn end(self, verb: &str, route: &str, caller: &str, status: StatusCode) {
        let micros = self.started.elapsed().as_micros() as u64;
        let status = status.as_u16();
        tracing::info!(target: TARGET, request_id = %self.id, verb, route, caller, status, micros, "request");
    }
}

fn is_read() -> bool {
    tracing::event_enabled!(target: TARGET, tracing::Level::INFO)
}

/// An id for a request on a wire without headers; `None` when the log is off.
pub(crate) fn own_id() -> Option<Arc<str>> {
    is_read().then(|| next_id().into())
}

fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:08x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The caller's own id when it is short and plain, so that callers cannot forge log lines; else one of ours.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    let is_plain = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match given.filter(is_plain) {
        Some(id) => id.to_owned(),
        None => next_id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_id_is_taken_over() {
        let id = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-request-id", value.parse().unwrap());
            request_id(&headers)
        };
        assert_eq!(id("abc-1"), "abc-1");
        assert_ne!(id("a b"), "a b");
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
