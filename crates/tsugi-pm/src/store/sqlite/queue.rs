//! A caller's place in the line before the writer: either the work is begun or the caller leaves, never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::WriterJob;

/// A place in the line. Whoever takes it first, the writer or the caller who gives up, decides.
#[derive(Clone)]
pub(super) struct WriterTicket(Arc<AtomicBool>);

impl WriterTicket {
    pub(super) fn in_line() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Work that is done only if the caller still waits when its turn comes.
    pub(super) fn job(self, work: impl FnOnce(&mut Connection) + Send + 'static) -> WriterJob {
        Box::new(move |connection| {
            if self.take() {
                work(connection);
            }
        })
    }

    /// Gives up waiting; false when the work has begun.
    pub(super) fn leave(&self) -> bool {
        self.take()
    }

    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_who_left_has_nothing_done_and_work_begun_cannot_be_left() {
        let mut connection = Connection::open_in_memory().unwrap();
        let (left, begun) = (WriterTicket::in_line(), WriterTicket::in_line());
        assert!(left.leave());
        left.job(|_| panic!("nobody waits for this"))(&mut connection);
        begun.clone().job(|_| {})(&mut connection);
        assert!(!begun.leave());
    }
}
