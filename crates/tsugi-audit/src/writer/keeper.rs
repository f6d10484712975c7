//! The thread beside the calls: syncs, signs, starts new files, and closes the last one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{SyncMode, WriterState};
use crate::checkpoint::CheckpointReason;
use crate::record::{AuditKind, AuditRecord, LogMembers, PreparedLine};
use crate::timestamp::AuditTime;

/// How often it looks whether the file was moved or a day has ended.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct KeeperSignal {
    pub(super) is_closing: bool,
}

pub(super) fn run(state: &WriterState) {
    let mut signed = Instant::now();
    let mut looked = Instant::now();
    loop {
        if wait(state) {
            break;
        }
        if state.is_dirty.load(Ordering::Acquire) {
            // Reported by `sync` itself; the next round tries again.
            let _ = state.sync();
        }
        state.flush_backlog();
        let unsigned = state.tail.lock().unsigned;
        let is_interval = unsigned > 0 && signed.elapsed() >= state.config.checkpoint_interval;
        if unsigned >= state.config.checkpoint_lines || is_interval {
            let reason = if is_interval { CheckpointReason::Interval } else { CheckpointReason::Lines };
            if state.sign(reason).is_ok() {
                signed = Instant::now();
            }
        }
        if looked.elapsed() >= LOOK || state.file.lock().length() >= state.config.rotate_bytes {
            looked = Instant::now();
            if let Err(error) = state.rotate_when_due() {
                tracing::error!(%error, "the audit log cannot go on in a new file");
            }
        }
    }
    close(state);
}

/// Waits for work; true when the writer closes.
fn wait(state: &WriterState) -> bool {
    let mut signal = state.signal.lock();
    let started = Instant::now();
    loop {
        if signal.is_closing {
            return true;
        }
        let is_dirty = state.is_dirty.load(Ordering::Acquire);
        let pause = match state.config.sync {
            _ if !is_dirty => LOOK,
            // A sync that failed must not be tried without pause.
            SyncMode::Always if state.is_sync_broken.load(Ordering::Acquire) => Duration::from_millis(100),
            SyncMode::Always => return false,
            SyncMode::Interval(interval) => interval,
        };
        let is_due = state.tail.lock().unsigned >= state.config.checkpoint_lines;
        // A line that comes does not end the pause: each would be synced by itself otherwise.
        if is_due || started.elapsed() >= pause || state.wake.wait_until(&mut signal, started + pause).timed_out() {
            return signal.is_closing;
        }
    }
}

fn close(state: &WriterState) {
    state.flush_backlog();
    let closed = state.sign(CheckpointReason::Stop).and_then(|()| state.sync());
    if let Err(error) = closed {
        tracing::error!(%error, "the audit log could not be closed with a checkpoint");
        // Nothing may be written after the owner has let go.
        state.tail.lock().is_closed = true;
    }
    state.file.lock().release();
}

impl WriterState {
    /// Goes on in a new file when this one is large, of yesterday, or not where it was.
    fn rotate_when_due(&self) -> std::io::Result<()> {
        let mut file = self.file.lock();
        let is_moved = !file.is_at(self.files.current());
        let is_full = file.length() >= self.config.rotate_bytes;
        let is_old = file.day() != AuditTime::now().day() && file.length() > 0;
        if !is_moved && !is_full && !is_old {
            return Ok(());
        }
        self.sign_within(&mut file, CheckpointReason::Rotate)?;
        // Lines that get a place from here on are written to the new file.
        file.handle().sync_data()?;
        let finished = file.replace(&self.files)?;
        let first = AuditRecord { name: Some(&finished), ..AuditRecord::new(AuditKind::Rotate) };
        // Calls wait for the file, but some may have a place in the chain already; the first line of the new file is
        // then one of theirs. The chain holds either way.
        self.tail.lock().push(&PreparedLine::of_log(&first, AuditTime::now(), &LogMembers::default()));
        self.write_pending(&mut file)
    }
}
