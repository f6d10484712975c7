//! The SQLite engine: one writer thread, a few readers, and settings under which an acknowledged write is on the disk.

mod files;
mod open;
mod queue;
mod reader;
mod run;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use self::files::DatabaseFiles;
use self::open::OpenedDatabase;
use self::queue::WriterTicket;
use self::reader::ReaderPool;
use self::run::transact;
use self::watch::DatabaseWatch;
use super::clock::{ClockLead, SystemClock, TimeSource};
use super::{BoxedResult, StoreMeter, StoreOpenError, StoreOptions, TxMode, TxWork};
use crate::domain::fault::{Code, PmFault};

/// Work for the writer thread.
type WriterJob = Box<dyn FnOnce(&mut Connection) + Send>;

/// Writes that may wait in line; beyond it a caller hears `busy` at once instead of waiting unboundedly.
const QUEUE: usize = 256;

/// What every transaction needs besides its connection.
#[derive(Clone)]
pub(super) struct SqliteSettings {
    clock: Arc<dyn TimeSource>,
    ahead: Arc<ClockLead>,
    meter: Option<StoreMeter>,
    longest_wait: Duration,
}

/// Threads and connections of one open file.
pub(super) struct SqliteEngine {
    path: PathBuf,
    files: Arc<DatabaseFiles>,
    setting: SqliteSettings,
    writer: Option<SyncSender<WriterJob>>,
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
        let (writer, writer_thread) =
            writer.map(|writer| start_writer(writer, Arc::clone(&files))).transpose()?.unzip();
        Ok(Self {
            path,
            files,
            setting: SqliteSettings {
                clock,
                ahead: Arc::default(),
                meter: options.meter,
                longest_wait: options.longest_wait,
            },
            writer,
            writer_thread,
            readers: Arc::new(ReaderPool::new(reader, options.connections)),
            watch: DatabaseWatch::new(watcher),
        })
    }

    /// Runs one transaction: writes on the writer thread, reads on a snapshot.
    pub(super) async fn run(&self, mode: TxMode, work: TxWork) -> Result<BoxedResult, PmFault> {
        match mode {
            TxMode::Write => self.write(work).await,
            // What is read from files without a name is of no use to anybody; the writer saves it and says so.
            TxMode::Read | TxMode::Snapshot if self.writer.is_some() && !self.files.are_ours() => {
                self.write(work).await
            }
            TxMode::Read | TxMode::Snapshot => self.readers.run(self.setting.clone(), mode, work).await,
        }
    }

    async fn write(&self, work: TxWork) -> Result<BoxedResult, PmFault> {
        let Some(writer) = &self.writer else { return Err(read_only()) };
        let (answer, mut answered) = oneshot::channel();
        let (setting, files, tick) = (self.setting.clone(), Arc::clone(&self.files), self.watch.ticker());
        let longest_wait = self.setting.longest_wait;
        let due = Instant::now() + longest_wait;
        let place = WriterTicket::in_line();
        let job = place.clone().job(move |connection| {
            open::wait_until(due);
            let (result, has_events) = match files.check_before(connection) {
                Ok(()) => transact(connection, &setting, TxMode::Write, &work),
                Err(fault) => (Err(fault), false),
            };
            let result = result.and_then(|answer| files.check_after(connection).map(|()| answer));
            if has_events {
                tick.tick();
            }
            // The caller may have left; the transaction stands all the same.
            let _ = answer.send(result);
        });
        writer.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => overloaded(),
            TrySendError::Disconnected(_) => PmFault::internal("the writer thread is gone"),
        })?;
        let ended = match tokio::time::timeout(longest_wait, &mut answered).await {
            Ok(ended) => ended,
            Err(_) if place.leave() => return Err(overloaded()),
            // It has begun, so it must be waited for: nobody else knows how it ends.
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

fn start_writer(
    mut connection: Connection,
    files: Arc<DatabaseFiles>,
) -> Result<(SyncSender<WriterJob>, JoinHandle<()>), StoreOpenError> {
    let (sender, jobs) = sync_channel::<WriterJob>(QUEUE);
    let thread = std::thread::Builder::new().name("pm-writer".to_owned()).spawn(move || {
        while let Ok(job) = jobs.recv() {
            job(&mut connection);
        }
        let _ = connection.execute_batch("PRAGMA optimize");
        files.leave(&connection);
    });
    let thread = thread.map_err(|error| PmFault::internal(format!("cannot start the writer thread: {error}")))?;
    Ok((sender, thread))
}

/// What a call hears that waited too long, or would have to.
fn overloaded() -> PmFault {
    PmFault::new(Code::Busy, "too many calls wait for the database already; this one was not begun").hint("try again")
}

fn read_only() -> PmFault {
    PmFault::new(Code::StorageReadonly, "the database cannot be written")
        .hint("check the disk and the file's permissions")
}
