//! The SQLite engine: one writer thread, a few readers, and settings under which an acknowledged write is on the disk.

mod files;
mod machine_clock;
mod open;
mod reader;
mod run;
mod watch;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use self::files::DatabaseFiles;
use self::machine_clock::MachineClock;
use self::open::OpenedDatabase;
use self::reader::ReaderPool;
use self::watch::DatabaseWatch;
use self::writer::{WriteRequest, Writer, WriterTicket};
use super::clock::{ClockLead, SystemClock, TimeSource};
use super::{BoxedResult, StoreMeter, StoreOpenError, StoreOptions, TxMode, TxWork};
use crate::domain::fault::{Code, PmFault};

/// What every transaction needs besides its connection.
#[derive(Clone)]
pub(super) struct SqliteSettings {
    clock: Arc<dyn TimeSource>,
    ahead: Arc<ClockLead>,
    machine_clock: Arc<MachineClock>,
    known_migrations: usize,
    meter: Option<StoreMeter>,
    longest_wait: Duration,
}

/// Threads and connections of one open file.
pub(super) struct SqliteEngine {
    path: PathBuf,
    files: Arc<DatabaseFiles>,
    setting: SqliteSettings,
    writer: Option<SyncSender<WriteRequest>>,
    writer_thread: Option<JoinHandle<()>>,
    readers: Arc<ReaderPool>,
    watch: DatabaseWatch,
}

impl SqliteEngine {
    /// Opens the file, migrates it, starts the writer.
    pub(super) async fn open(path: PathBuf, options: StoreOptions) -> Result<Self, StoreOpenError> {
        let opening =
            tokio::task::spawn_blocking(move || open::open(&path, &options).map(|opened| (path, options, opened)));
        let (path, options, opened) = opening.await.map_err(|error| PmFault::internal(error.to_string()))??;
        let OpenedDatabase { writer, reader, watcher } = opened;
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let files = Arc::new(DatabaseFiles::of(&path));
        let setting = SqliteSettings {
            clock,
            ahead: Arc::default(),
            machine_clock: Arc::default(),
            known_migrations: options.known_migrations,
            meter: options.meter,
            longest_wait: options.longest_wait,
        };
        let watch = DatabaseWatch::new(watcher, Arc::clone(&files));
        let writer = writer.map(|connection| {
            let (setting, files, ticker) = (setting.clone(), Arc::clone(&files), watch.ticker());
            Writer { connection, setting, files, ticker }.start()
        });
        let (writer, writer_thread) = writer.transpose()?.unzip();
        let readers = Arc::new(ReaderPool::new(reader, options.connections));
        Ok(Self { path, files, setting, writer, writer_thread, readers, watch })
    }

    /// Runs one transaction: writes on the writer thread, reads on a snapshot.
    pub(super) async fn run(&self, mode: TxMode, work: TxWork) -> Result<BoxedResult, PmFault> {
        match mode {
            TxMode::Write => self.write(work).await,
            // Files without a name must not be read: the writer saves what it can and refuses.
            TxMode::Read | TxMode::Snapshot if self.writer.is_some() && !self.files.are_ours() => {
                self.write(work).await
            }
            TxMode::Read | TxMode::Snapshot => self.readers.run(self.setting.clone(), mode, work).await,
        }
    }

    async fn write(&self, work: TxWork) -> Result<BoxedResult, PmFault> {
        let Some(writer) = &self.writer else { return Err(read_only()) };
        let (answer, mut answered) = oneshot::channel();
        let longest_wait = self.setting.longest_wait;
        let ticket = WriterTicket::in_line();
        let request = WriteRequest { work, due: Instant::now() + longest_wait, ticket: ticket.clone(), answer };
        writer.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => overloaded(),
            TrySendError::Disconnected(_) => PmFault::internal("the writer thread is gone"),
        })?;
        let ended = match tokio::time::timeout(longest_wait, &mut answered).await {
            Ok(ended) => ended,
            Err(_) if ticket.leave() => return Err(overloaded()),
            // It has begun, so it must be waited for: only its answer says how it ends.
            Err(_) => answered.await,
        };
        ended.map_err(|_| PmFault::internal("the writer thread died during the call"))?
    }

    pub(super) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.watch.subscribe()
    }

    pub(super) fn size(&self) -> (u64, u64) {
        let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        (length(&self.path), length(&log.into()))
    }

    pub(super) async fn check(&self) -> Result<Vec<String>, PmFault> {
        self.files.check_usable()?;
        let look = super::boxed(|tx| {
            let mut complaints = Vec::new();
            for row in tx.rows("PRAGMA integrity_check(20)", &[])? {
                complaints.push(row.text(0)?.to_owned());
            }
            complaints.retain(|line| line != "ok");
            for row in tx.rows("PRAGMA foreign_key_check", &[])? {
                complaints.push(format!("foreign key: {row:?}"));
            }
            Ok(complaints)
        });
        self.readers.run_afresh(self.setting.clone(), TxMode::Snapshot, look).await.map(super::unboxed)
    }
}

impl Drop for SqliteEngine {
    fn drop(&mut self) {
        // The writer must be the last to close: only a connection that may write folds the log into the file.
        self.watch.stop();
        self.readers.close();
        self.writer = None;
        if let Some(thread) = self.writer_thread.take() {
            // It finishes what was acknowledged or is about to be, so that nothing half-done outlives the store.
            let _ = thread.join();
        }
    }
}

/// The refusal of a call that waited too long, or would have to.
fn overloaded() -> PmFault {
    PmFault::new(Code::Busy, "too many calls are waiting for the database; this one was not started").hint("try again")
}

fn read_only() -> PmFault {
    PmFault::new(Code::StorageReadonly, "the database cannot be written")
        .hint("check the disk and the file's permissions")
}
