//! A stderr writer that drops output rather than block when the pipe is full.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A pipe that polls writable takes this much without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;
/// The polling interval of a full pipe.
const PAUSE: Duration = Duration::from_millis(10);

/// Held between polling the pipe and writing, so that no other thread fills it in between.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct LossyStderr {
    patience: Duration,
}

impl LossyStderr {
    /// Waits this long for room, then drops the output.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience }
    }

    /// Writes one piece if that does not block.
    fn try_write(piece: &[u8]) -> io::Result<bool> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = io::stderr();
        let mut room = [PollFd::new(&stderr, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A stream that cannot be polled is simply written to.
        if poll(&mut room, Some(&at_once)).is_ok_and(|ready| ready == 0) {
            return Ok(false);
        }
        io::stderr().write_all(piece).map(|()| true)
    }
}

impl Write for LossyStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let began = Instant::now();
        while !Self::try_write(piece)? && began.elapsed() < self.patience {
            std::thread::sleep(PAUSE);
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
