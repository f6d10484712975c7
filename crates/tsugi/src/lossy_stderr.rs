//! A standard error that cannot hold us up: when nobody reads it, words are lost instead of calls.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a pipe that has room takes at once (`PIPE_BUF`).
const PIECE: usize = 4096;
/// How often a full pipe is looked at.
const PAUSE: Duration = Duration::from_millis(10);

/// Between the look at the pipe and the write nobody else of this process may write.
static TURN: Mutex<()> = Mutex::new(());

/// Standard error as long as somebody reads it.
pub(crate) struct LossyStderr {
    patience: Duration,
}

impl LossyStderr {
    /// Waits this long for a reader, then drops what it has.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience }
    }

    /// Writes one piece if it can be written without waiting.
    fn try_write(piece: &[u8]) -> io::Result<bool> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = io::stderr();
        let mut room = [PollFd::new(&stderr, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A stream that cannot be asked is written to as before.
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
