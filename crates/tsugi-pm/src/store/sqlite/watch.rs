//! Noticing that something was committed: at once when we did it, within a quarter of a second when another process did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::watch;

use super::files::DatabaseFiles;

/// How often another process's commits are looked for.
const POLL: Duration = Duration::from_millis(250);

/// Says that something was committed.
#[derive(Clone)]
pub(super) struct WatchTicker(Arc<watch::Sender<u64>>);

impl WatchTicker {
    pub(super) fn tick(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// The watcher of one file; its thread runs from the first subscriber on.
pub(super) struct DatabaseWatch {
    ticker: WatchTicker,
    connection: Mutex<Option<Connection>>,
    files: Arc<DatabaseFiles>,
    is_stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl DatabaseWatch {
    pub(super) fn new(connection: Connection, files: Arc<DatabaseFiles>) -> Self {
        Self {
            ticker: WatchTicker(Arc::new(watch::Sender::new(0))),
            connection: Mutex::new(Some(connection)),
            files,
            is_stopped: Arc::new(AtomicBool::new(false)),
            thread: Mutex::new(None),
        }
    }

    pub(super) fn ticker(&self) -> WatchTicker {
        self.ticker.clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        if let Some(connection) = self.connection.lock().take() {
            self.start(connection);
        }
        self.ticker.0.subscribe()
    }

    fn start(&self, connection: Connection) {
        let (ticker, is_stopped) = (self.ticker.clone(), Arc::clone(&self.is_stopped));
        let files = Arc::clone(&self.files);
        let started = std::thread::Builder::new().name("pm-watch".to_owned()).spawn(move || {
            let mut last = data_version(&connection);
            while !is_stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(POLL);
                // Even a look writes into the shared memory.
                if files.check_usable().is_err() {
                    continue;
                }
                let version = data_version(&connection);
                if version != last {
                    last = version;
                    ticker.tick();
                }
            }
        });
        match started {
            Ok(thread) => *self.thread.lock() = Some(thread),
            // Readers still look every other second; they are slower, not wrong.
            Err(error) => tracing::warn!(%error, "cannot start the watcher thread"),
        }
    }

    /// Ends the thread and closes the connection.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        drop(self.connection.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A number that changes when another connection has committed.
fn data_version(connection: &Connection) -> Option<i64> {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0)).ok()
}
