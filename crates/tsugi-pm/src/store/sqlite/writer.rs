//! The one thread that writes, and the line of requests before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::SqliteSettings;
use super::files::DatabaseFiles;
use super::open::wait_until;
use super::run::transact;
use super::watch::WatchTicker;
use crate::domain::fault::PmFault;
use crate::store::{BoxedResult, TxMode, TxWork};

/// Writes that may wait in line; beyond it a caller hears `busy` at once instead of waiting unboundedly.
const QUEUE: usize = 256;

/// A transaction that waits for its turn.
pub(super) struct WriteRequest {
    pub(super) work: TxWork,
    /// Until then it may wait for another process's lock.
    pub(super) due: Instant,
    pub(super) ticket: WriterTicket,
    pub(super) answer: oneshot::Sender<Result<BoxedResult, PmFault>>,
}

/// A caller's place in the line: either the work is begun or the caller leaves, never both. The first of the two to
/// take it decides.
#[derive(Clone)]
pub(super) struct WriterTicket(Arc<AtomicBool>);

impl WriterTicket {
    pub(super) fn in_line() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Begins the work; false when the caller has left.
    fn begin(&self) -> bool {
        self.take()
    }

    /// Gives up waiting; false when the work has begun.
    pub(super) fn leave(&self) -> bool {
        self.take()
    }

    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// What the writing thread owns.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) setting: SqliteSettings,
    pub(super) files: Arc<DatabaseFiles>,
    pub(super) ticker: WatchTicker,
}

impl Writer {
    /// Starts the thread; it ends when the sender is dropped, after the requests that are in line.
    pub(super) fn start(self) -> Result<(SyncSender<WriteRequest>, JoinHandle<()>), PmFault> {
        let (sender, requests) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("pm-writer".to_owned()).spawn(move || self.serve(&requests));
        let thread = thread.map_err(|error| PmFault::internal(format!("cannot start the writer thread: {error}")))?;
        Ok((sender, thread))
    }

    fn serve(mut self, requests: &Receiver<WriteRequest>) {
        while let Ok(request) = requests.recv() {
            if request.ticket.begin() {
                self.answer(request);
            }
        }
        self.close();
    }

    fn answer(&mut self, request: WriteRequest) {
        wait_until(request.due);
        let (result, has_events) = match self.files.check_before(&self.connection) {
            Ok(()) => transact(&mut self.connection, &self.setting, TxMode::Write, &request.work),
            Err(fault) => (Err(fault), false),
        };
        // The files may have been removed during the transaction: then it must not be acknowledged.
        let result = result.and_then(|answer| self.files.check_after(&self.connection).map(|()| answer));
        if has_events {
            self.ticker.tick();
        }
        // The caller may have left; the transaction stands all the same.
        let _ = request.answer.send(result);
    }

    fn close(self) {
        if self.files.check_usable().is_err() {
            // Closing writes into the shared memory, which would end the process. All that was acknowledged is in the log.
            std::mem::forget(self.connection);
            return;
        }
        let _ = self.connection.execute_batch("PRAGMA optimize");
        self.files.leave(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_who_left_has_nothing_done_and_work_begun_cannot_be_left() {
        let (left, begun) = (WriterTicket::in_line(), WriterTicket::in_line());
        assert!(left.leave());
        assert!(!left.begin());
        assert!(begun.begin());
        assert!(!begun.leave());
    }
}
