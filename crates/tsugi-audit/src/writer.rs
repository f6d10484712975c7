//! Appends lines so that each is in the kernel before the thing it says may happen.
//!
//! Callers format their lines without a lock, take a place in the chain under a short one, and write under another. A
//! caller that waits for the file finds its line already written by the one before it: the lines of concurrent calls
//! share one `write`, and no line waits for a company that may not come.

mod keeper;
mod open_file;
mod recovery;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use crate::arguments::ArgumentPolicy;
use crate::chain::{ChainHead, LineHash};
use crate::checkpoint::{AuditKey, Checkpoint, CheckpointReason};
use crate::file_set::AuditFileSet;
use crate::record::{AuditKind, AuditRecord, LogMembers, PreparedLine};
use crate::timestamp::AuditTime;
use keeper::KeeperSignal;
use open_file::OpenAuditFile;

/// How many lines about what has happened already are kept while the file cannot be written.
const LARGEST_BACKLOG: usize = 10_000;

/// When lines get from the kernel to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// A call waits until its line is on the disk. Calls that wait at the same time share one sync.
    Always,
    Interval(Duration),
}

/// What happens to calls while the file cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailurePolicy {
    #[default]
    Refuse,
    /// Calls go on. How many lines are missing is counted and written down later.
    Continue,
}

/// How a writer behaves.
#[derive(Debug, Clone)]
pub struct WriterConfig {
    pub file: PathBuf,
    pub sync: SyncMode,
    pub on_failure: FailurePolicy,
    pub arguments: ArgumentPolicy,
    /// A file is finished when it is this large, and at the end of a day.
    pub rotate_bytes: u64,
    pub checkpoint_lines: u64,
    pub checkpoint_interval: Duration,
    /// Written to the line that says the writer started.
    pub version: String,
}

impl WriterConfig {
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            sync: SyncMode::Interval(Duration::from_millis(200)),
            on_failure: FailurePolicy::Refuse,
            arguments: ArgumentPolicy::None,
            rotate_bytes: 256 << 20,
            checkpoint_lines: 1000,
            checkpoint_interval: Duration::from_secs(60),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Why no writer could be made.
#[derive(Debug, thiserror::Error)]
pub enum AuditOpenError {
    #[error("audit file {file:?}: another gateway is writing to it; give each gateway a file of its own")]
    Owned { file: PathBuf },
    #[error("audit file {file:?}: {error}")]
    File {
        file: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error("audit file {file:?} does not end with a line of an audit log; move it away")]
    Foreign { file: PathBuf },
}

/// The file cannot be written, and the configuration says that nothing may happen without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written")]
pub struct AuditUnavailable;

/// How a writer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterStatus {
    pub head: ChainHead,
    pub is_available: bool,
    /// Lines that wait for the file.
    pub backlog: usize,
    /// Lines that were given up since the start.
    pub lost: u64,
    pub last_checkpoint: Option<Checkpoint>,
}

/// The one writer of an audit file. Dropping it signs and closes the file.
pub struct AuditWriter {
    state: Arc<WriterState>,
    keeper: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// What callers and the keeper share.
pub(crate) struct WriterState {
    config: WriterConfig,
    key: AuditKey,
    files: AuditFileSet,
    /// Taken alone, or after `file`.
    tail: Mutex<ChainTail>,
    file: Mutex<OpenAuditFile>,
    signal: Mutex<KeeperSignal>,
    wake: Condvar,
    /// Set with the first line after a sync, so that the keeper is woken once and not per line.
    is_dirty: AtomicBool,
    is_sync_broken: AtomicBool,
    was_available: AtomicBool,
    lost: AtomicU64,
    synced: watch::Sender<u64>,
    last_checkpoint: Mutex<Option<Checkpoint>>,
}

/// The end of the chain, and the lines that are not written yet.
struct ChainTail {
    head: ChainHead,
    pending: Vec<u8>,
    group: Arc<WriteGroup>,
    /// Lines since the last checkpoint.
    unsigned: u64,
    /// Lines that could not be written, oldest first.
    backlog: VecDeque<PreparedLine>,
    /// Lines that were given up and that no gap accounts for yet.
    unreported: u64,
    /// Set with the last checkpoint.
    is_closed: bool,
}

/// What one `write` brings to the file, and how the chain stands after it.
struct LineBatch {
    lines: Vec<u8>,
    group: Arc<WriteGroup>,
    head: ChainHead,
    unsigned: u64,
}

/// How the lines fared that are written together. Each waiting caller holds one.
#[derive(Default)]
struct WriteGroup(AtomicU8);

impl WriteGroup {
    const WRITTEN: u8 = 1;
    const FAILED: u8 = 2;

    fn result(&self) -> Option<Result<(), AuditUnavailable>> {
        match self.0.load(Ordering::Acquire) {
            Self::WRITTEN => Some(Ok(())),
            Self::FAILED => Some(Err(AuditUnavailable)),
            _ => None,
        }
    }

    fn settle(&self, result: u8) {
        self.0.store(result, Ordering::Release);
    }
}

impl ChainTail {
    fn new(head: ChainHead) -> Self {
        Self {
            head,
            pending: Vec::with_capacity(4096),
            group: Arc::default(),
            unsigned: 0,
            backlog: VecDeque::new(),
            unreported: 0,
            is_closed: false,
        }
    }

    /// Gives a line its place.
    fn push(&mut self, line: &PreparedLine) -> u64 {
        // Hashed where it stands, without another copy.
        let start = self.pending.len();
        let seq = self.head.seq + 1;
        line.splice(&mut self.pending, &self.head.hash.0, seq);
        self.head = ChainHead { seq, hash: LineHash::of(&self.pending[start..]) };
        self.pending.push(b'\n');
        self.unsigned += 1;
        seq
    }

    fn take_batch(&mut self, empty: Vec<u8>) -> LineBatch {
        LineBatch {
            lines: std::mem::replace(&mut self.pending, empty),
            group: std::mem::take(&mut self.group),
            head: self.head,
            unsigned: self.unsigned,
        }
    }

    /// Goes back to the last line that was written. Lines that followed a lost one are lost with it.
    fn reset(&mut self, head: ChainHead, unsigned: u64) {
        self.pending.clear();
        self.head = head;
        self.unsigned = unsigned;
        std::mem::take(&mut self.group).settle(WriteGroup::FAILED);
    }
}

impl AuditWriter {
    /// Takes the file, closes what a crash left open, and writes the first line.
    pub fn open(config: WriterConfig, key: AuditKey) -> Result<Self, AuditOpenError> {
        let files = AuditFileSet::new(&config.file);
        // With the lock taken, so that no other writer can move the end.
        let recovered = recovery::recover(&files)?;
        let mut tail = ChainTail::new(recovered.head);
        if let Some(cut) = &recovered.cut {
            tail.push(&recovery::gap_of_cut(cut));
        }
        let start = AuditRecord { name: Some(&config.version), ..AuditRecord::new(AuditKind::Start) };
        tail.push(&PreparedLine::of_log(&start, AuditTime::now(), &LogMembers::default()));
        let failed = |error| AuditOpenError::File { file: config.file.clone(), error };
        let file = OpenAuditFile::new(recovered, &files).map_err(failed)?;
        let state = Arc::new(WriterState {
            key,
            files,
            tail: Mutex::new(tail),
            file: Mutex::new(file),
            signal: Mutex::default(),
            wake: Condvar::new(),
            is_dirty: AtomicBool::new(true),
            is_sync_broken: AtomicBool::new(false),
            was_available: AtomicBool::new(true),
            lost: AtomicU64::new(0),
            synced: watch::Sender::new(0),
            last_checkpoint: Mutex::default(),
            config,
        });
        let first = state.sign(CheckpointReason::Start).and_then(|()| state.sync());
        first.map_err(|error| AuditOpenError::File { file: state.config.file.clone(), error })?;
        let kept = state.clone();
        let keeper = std::thread::Builder::new().name("tsugi-audit".to_owned()).spawn(move || keeper::run(&kept));
        let keeper = keeper.map_err(|error| AuditOpenError::File { file: state.config.file.clone(), error })?;
        Ok(Self { state, keeper: Mutex::new(Some(keeper)) })
    }

    /// Writes a line that must be there before what it says may happen, and gives its `seq`. With
    /// [`FailurePolicy::Continue`] a line that cannot be written is counted, and there is no `seq`.
    pub fn require(&self, record: &AuditRecord<'_>) -> Result<Option<u64>, AuditUnavailable> {
        let state = &*self.state;
        match state.append(&state.prepare(record)) {
            Ok(seq) => Ok(Some(seq)),
            Err(AuditUnavailable) if state.config.on_failure == FailurePolicy::Continue => {
                state.give_up();
                Ok(None)
            }
            Err(unavailable) => Err(unavailable),
        }
    }

    /// Writes what has happened already. When the file cannot be written the line waits until it can.
    pub fn note(&self, record: &AuditRecord<'_>) {
        let state = &*self.state;
        let line = state.prepare(record);
        if state.append(&line).is_err() {
            state.defer(line);
        }
    }

    /// Waits until the line with this `seq` is on the disk, where the configuration wants that.
    pub async fn synced(&self, seq: u64) -> Result<(), AuditUnavailable> {
        if !self.waits_for_sync() {
            return Ok(());
        }
        let mut synced = self.state.synced.subscribe();
        loop {
            // Marked as seen before it is compared, so that a sync in between is not missed.
            if *synced.borrow_and_update() >= seq {
                return Ok(());
            }
            if self.state.is_sync_broken.load(Ordering::Acquire)
                && self.state.config.on_failure == FailurePolicy::Refuse
            {
                return Err(AuditUnavailable);
            }
            synced.changed().await.map_err(|_| AuditUnavailable)?;
        }
    }

    /// True when calls wait for the disk.
    pub fn waits_for_sync(&self) -> bool {
        self.state.config.sync == SyncMode::Always
    }

    pub fn files(&self) -> &AuditFileSet {
        &self.state.files
    }

    pub fn key(&self) -> &AuditKey {
        &self.state.key
    }

    pub fn status(&self) -> WriterStatus {
        let tail = self.state.tail.lock();
        WriterStatus {
            head: tail.head,
            is_available: self.state.was_available.load(Ordering::Relaxed)
                && !self.state.is_sync_broken.load(Ordering::Relaxed),
            backlog: tail.backlog.len(),
            lost: self.state.lost.load(Ordering::Relaxed),
            last_checkpoint: self.state.last_checkpoint.lock().clone(),
        }
    }

    /// Signs the chain, syncs and lets the file go. Lines that come later are refused.
    pub fn close(&self) {
        let Some(keeper) = self.keeper.lock().take() else { return };
        self.state.signal.lock().is_closing = true;
        self.state.wake.notify_all();
        // The keeper signs last, so that no line of its own can follow.
        let _ = keeper.join();
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.close();
    }
}

impl WriterState {
    fn prepare(&self, record: &AuditRecord<'_>) -> PreparedLine {
        PreparedLine::new(record, AuditTime::now(), &self.config.arguments, &self.key)
    }

    /// Puts a line at the end of the chain and returns when it is in the kernel.
    fn append(&self, line: &PreparedLine) -> Result<u64, AuditUnavailable> {
        if self.config.on_failure == FailurePolicy::Refuse && self.is_sync_broken.load(Ordering::Acquire) {
            return Err(AuditUnavailable);
        }
        let (seq, group, taken) = {
            let mut tail = self.tail.lock();
            if tail.is_closed {
                return Err(AuditUnavailable);
            }
            // What waits is older and comes first.
            let taken = self.push_backlog(&mut tail);
            (tail.push(line), tail.group.clone(), taken)
        };
        let result = self.commit(&group);
        if result.is_err()
            && let Some(taken) = taken
        {
            taken.give_back(&mut self.tail.lock());
        }
        result.map(|()| seq)
    }

    /// Puts what waits before the next line. Costs two comparisons while nothing waits.
    fn push_backlog(&self, tail: &mut ChainTail) -> Option<BacklogLoan> {
        if tail.unreported == 0 && tail.backlog.is_empty() {
            return None;
        }
        let unreported = std::mem::take(&mut tail.unreported);
        let lines = std::mem::take(&mut tail.backlog);
        if unreported > 0 {
            let gap = AuditRecord { count: Some(unreported), ..AuditRecord::new(AuditKind::Gap) };
            tail.push(&PreparedLine::of_log(&gap, AuditTime::now(), &LogMembers::default()));
        }
        for line in &lines {
            tail.push(line);
        }
        Some(BacklogLoan { lines, unreported })
    }

    /// Returns when the group is written, by this thread or by another.
    fn commit(&self, group: &Arc<WriteGroup>) -> Result<(), AuditUnavailable> {
        if let Some(result) = group.result() {
            return result;
        }
        let mut file = self.file.lock();
        // Another thread may have written it while this one waited for the lock.
        if let Some(result) = group.result() {
            return result;
        }
        self.write_pending(&mut file).map_err(|_| AuditUnavailable)
    }

    /// Writes all lines that have a place. The caller has the file.
    fn write_pending(&self, file: &mut OpenAuditFile) -> std::io::Result<()> {
        let batch = self.tail.lock().take_batch(file.take_spare());
        self.write_batch(file, batch)
    }

    fn write_batch(&self, file: &mut OpenAuditFile, mut batch: LineBatch) -> std::io::Result<()> {
        let written = file.write(&batch.lines, batch.head, batch.unsigned);
        match &written {
            Ok(()) => {
                batch.group.settle(WriteGroup::WRITTEN);
                self.report_available();
                if !self.is_dirty.swap(true, Ordering::AcqRel) || batch.unsigned >= self.config.checkpoint_lines {
                    self.wake_keeper();
                }
            }
            Err(error) => {
                // Lines that were added since then name lines that are not there.
                self.tail.lock().reset(file.head(), file.unsigned());
                batch.group.settle(WriteGroup::FAILED);
                self.report_unavailable(error);
            }
        }
        batch.lines.clear();
        file.give_spare(batch.lines);
        written
    }

    fn wake_keeper(&self) {
        // With the lock, the keeper cannot miss it between its look and its wait.
        let _signal = self.signal.lock();
        self.wake.notify_one();
    }

    /// Signs the chain as it is now. After [`CheckpointReason::Stop`] no line is accepted.
    fn sign(&self, reason: CheckpointReason) -> std::io::Result<()> {
        let mut file = self.file.lock();
        self.sign_within(&mut file, reason)
    }

    fn sign_within(&self, file: &mut OpenAuditFile, reason: CheckpointReason) -> std::io::Result<()> {
        let (checkpoint, batch) = {
            let mut tail = self.tail.lock();
            let time = AuditTime::now();
            // Signed under the lock, so that the line that is signed is always the one before, and taken under the same
            // lock, so that the checkpoint is the last line that is written.
            let checkpoint = self.key.sign(tail.head, time, reason);
            let members = LogMembers { checkpoint: Some(&checkpoint.to_canonical()), cut: None };
            tail.push(&PreparedLine::of_log(&AuditRecord::new(AuditKind::Checkpoint), time, &members));
            tail.unsigned = 0;
            tail.is_closed = reason == CheckpointReason::Stop;
            (checkpoint, tail.take_batch(file.take_spare()))
        };
        self.write_batch(file, batch)?;
        *self.last_checkpoint.lock() = Some(checkpoint);
        Ok(())
    }

    /// Tries to write what waits, although no new line comes.
    fn flush_backlog(&self) {
        let mut file = self.file.lock();
        let (taken, batch) = {
            let mut tail = self.tail.lock();
            let Some(taken) = self.push_backlog(&mut tail) else { return };
            (taken, tail.take_batch(file.take_spare()))
        };
        if self.write_batch(&mut file, batch).is_err() {
            taken.give_back(&mut self.tail.lock());
        }
    }

    /// Gets everything that is written to the disk.
    fn sync(&self) -> std::io::Result<()> {
        // Cleared before the sync: a line that comes during it is for the next one.
        self.is_dirty.store(false, Ordering::Release);
        let (file, head) = {
            let open = self.file.lock();
            (open.handle(), open.head())
        };
        let result = file.sync_data();
        let was_broken = self.is_sync_broken.swap(result.is_err(), Ordering::AcqRel);
        match &result {
            Ok(()) if was_broken => tracing::info!("the audit log can be synced again"),
            Ok(()) => {}
            Err(error) => {
                self.is_dirty.store(true, Ordering::Release);
                if !was_broken {
                    tracing::error!(%error, "the audit log cannot be synced");
                }
            }
        }
        // Also after a failure, so that those who wait look at the flag.
        self.synced.send_modify(|synced| *synced = if result.is_ok() { head.seq } else { *synced });
        result
    }

    fn defer(&self, line: PreparedLine) {
        let mut tail = self.tail.lock();
        if tail.backlog.len() < LARGEST_BACKLOG {
            return tail.backlog.push_back(line);
        }
        drop(tail);
        self.give_up();
    }

    fn give_up(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.tail.lock().unreported += 1;
    }

    fn report_available(&self) {
        // A load is enough for each line; the swap happens at a change.
        if !self.was_available.load(Ordering::Relaxed) && !self.was_available.swap(true, Ordering::AcqRel) {
            tracing::info!("the audit log can be written again");
        }
    }

    fn report_unavailable(&self, error: &std::io::Error) {
        if self.was_available.swap(false, Ordering::AcqRel) {
            let file = self.config.file.display();
            tracing::error!(%file, %error, on_failure = ?self.config.on_failure, "the audit log cannot be written");
        }
    }
}

/// Lines that one thread tries to write for others.
struct BacklogLoan {
    lines: VecDeque<PreparedLine>,
    unreported: u64,
}

impl BacklogLoan {
    fn give_back(self, tail: &mut ChainTail) {
        tail.unreported += self.unreported;
        // They are older than what came to wait since.
        for line in self.lines.into_iter().rev() {
            tail.backlog.push_front(line);
        }
    }
}
