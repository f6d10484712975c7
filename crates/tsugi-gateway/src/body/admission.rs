//! How much all bodies together may hold while they arrive: each is bounded, but connections are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes of bodies that are not whole yet, shared by all requests.
#[derive(Debug, Clone)]
pub(crate) struct BodyAdmission {
    taken: Arc<AtomicUsize>,
    most: usize,
}

impl BodyAdmission {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: Arc::default(), most }
    }

    /// Room for one body, empty at first.
    pub(crate) fn room(&self) -> AdmittedBytes {
        AdmittedBytes { arriving: self.clone(), bytes: 0 }
    }
}

/// What one body takes of it, until it is whole or given up.
#[derive(Debug)]
pub(crate) struct AdmittedBytes {
    arriving: BodyAdmission,
    bytes: usize,
}

impl AdmittedBytes {
    /// Takes room for more bytes; false when there is none.
    pub(crate) fn take(&mut self, more: usize) -> bool {
        self.bytes += more;
        self.arriving.taken.fetch_add(more, Relaxed) + more <= self.arriving.most
    }
}

impl Drop for AdmittedBytes {
    fn drop(&mut self) {
        self.arriving.taken.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_given_back_also_by_those_who_got_nothing() {
        let arriving = BodyAdmission::new(10);
        let (mut first, mut second) = (arriving.room(), arriving.room());
        assert!(first.take(6) && first.take(4));
        assert!(!second.take(1));
        drop(first);
        drop(second);
        assert!(arriving.room().take(10));
    }
}
