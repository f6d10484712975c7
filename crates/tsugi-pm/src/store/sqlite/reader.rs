//! Reading threads: each has its own connection, and the one used last is used again first.
//!
//! Tokio's threads for blocking work would do, but it starts another whenever the last is not quite back, and on a busy
//! machine a server for one agent had thirty.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::open::{ReadConnection, wait_until};
use super::run::transact;
use super::{SqliteSettings, overloaded};
use crate::domain::fault::PmFault;
use crate::store::{BoxedResult, TxMode, TxWork};

/// A transaction for a reading thread, which comes back to the pool with it.
struct ReadRequest {
    setting: SqliteSettings,
    mode: TxMode,
    work: TxWork,
    answer: oneshot::Sender<Result<BoxedResult, PmFault>>,
    thread: ReaderThread,
    permit: OwnedSemaphorePermit,
    readers: Arc<ReaderPool>,
}

impl ReadRequest {
    fn serve(self, connection: Result<&mut Connection, PmFault>) {
        wait_until(Instant::now() + self.setting.longest_wait);
        let result = connection.and_then(|connection| transact(connection, &self.setting, self.mode, &self.work).0);
        // The thread is idle before its permit is free: the next caller finds it and starts no other.
        self.readers.idle.lock().push(self.thread);
        drop(self.permit);
        let _ = self.answer.send(result);
    }
}

/// The reading threads of one file, started when they are first needed.
pub(super) struct ReaderPool {
    reader: Arc<ReadConnection>,
    idle: Mutex<Vec<ReaderThread>>,
    permits: Arc<Semaphore>,
}

struct ReaderThread {
    requests: SyncSender<ReadRequest>,
    handle: JoinHandle<()>,
}

impl ReaderPool {
    pub(super) fn new(reader: ReadConnection, most: usize) -> Self {
        Self { reader: Arc::new(reader), idle: Mutex::default(), permits: Arc::new(Semaphore::new(most.max(1))) }
    }

    /// Runs a read on a snapshot.
    pub(super) async fn run(
        self: &Arc<Self>,
        setting: SqliteSettings,
        mode: TxMode,
        work: TxWork,
    ) -> Result<BoxedResult, PmFault> {
        let permit = self.permit(setting.longest_wait).await?;
        let thread = self.lend()?;
        let (answer, answered) = oneshot::channel();
        let requests = thread.requests.clone();
        let request = ReadRequest { setting, mode, work, answer, thread, permit, readers: Arc::clone(self) };
        requests.send(request).map_err(|_| PmFault::internal("a reading thread is gone"))?;
        answered.await.map_err(|_| PmFault::internal("a reading thread died during the call"))?
    }

    /// The same on a new connection. A connection that has used the search index before remembers what it was
    /// made of, and the check of a file that others write then takes the index for damaged.
    pub(super) async fn run_afresh(
        &self,
        setting: SqliteSettings,
        mode: TxMode,
        work: TxWork,
    ) -> Result<BoxedResult, PmFault> {
        let reader = Arc::clone(&self.reader);
        let running = tokio::task::spawn_blocking(move || {
            let mut connection = reader.connect()?;
            wait_until(Instant::now() + setting.longest_wait);
            transact(&mut connection, &setting, mode, &work).0
        });
        running.await.map_err(|error| PmFault::internal(error.to_string()))?
    }

    async fn permit(&self, longest_wait: Duration) -> Result<OwnedSemaphorePermit, PmFault> {
        let free = tokio::time::timeout(longest_wait, Arc::clone(&self.permits).acquire_owned()).await;
        free.map_err(|_| overloaded())?.map_err(|error| PmFault::internal(error.to_string()))
    }

    fn lend(&self) -> Result<ReaderThread, PmFault> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| start(Arc::clone(&self.reader)), Ok)
    }

    /// Closes every idle connection.
    pub(super) fn close(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        for ReaderThread { requests, handle } in idle {
            drop(requests);
            let _ = handle.join();
        }
    }
}

fn start(reader: Arc<ReadConnection>) -> Result<ReaderThread, PmFault> {
    let (sender, requests) = sync_channel(1);
    let thread = std::thread::Builder::new().name("pm-reader".to_owned()).spawn(move || serve(&reader, &requests));
    let handle = thread.map_err(|error| PmFault::internal(format!("cannot start a reading thread: {error}")))?;
    Ok(ReaderThread { requests: sender, handle })
}

fn serve(reader: &ReadConnection, requests: &Receiver<ReadRequest>) {
    let mut connection = None;
    while let Ok(request) = requests.recv() {
        match &mut connection {
            Some(connection) => request.serve(Ok(connection)),
            None => request.serve(reader.connect().map(|new| connection.insert(new))),
        }
    }
}
