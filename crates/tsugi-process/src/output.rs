//! The stderr of a child: always drained, kept in a small ring, masked and made harmless when shown.

mod redact;
mod ring;
mod show;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, sync::broadcast};

pub use redact::SecretMask;
use ring::ByteRing;

/// Bytes kept per child.
const KEPT_BYTES: usize = 64 * 1024;
/// Lines a slow follower may lag behind before it loses some.
const FOLLOWER_LINES: usize = 256;
/// A line that a child never ends is handed to followers in pieces of this size.
const LINE_LIMIT: usize = 16 * 1024;

/// A handle on what a child has said on stderr; cheap to clone, usable after the child is gone.
#[derive(Debug, Clone)]
pub struct StderrLog {
    shared: Arc<StderrBuffer>,
}

#[derive(Debug)]
struct StderrBuffer {
    ring: Mutex<ByteRing>,
    lines: broadcast::Sender<Arc<str>>,
    redact: SecretMask,
}

impl StderrLog {
    pub(crate) fn new(redact: SecretMask) -> Self {
        let (lines, _) = broadcast::channel(FOLLOWER_LINES);
        StderrLog { shared: Arc::new(StderrBuffer { ring: Mutex::new(ByteRing::new(KEPT_BYTES)), lines, redact }) }
    }

    /// The last `count` lines at most, oldest first, masked and with control characters escaped.
    ///
    /// Bytes that are not UTF-8 show as `\u{fffd}`.
    /// The first line is left out when its beginning is no longer kept: half a secret could not be recognised.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let (bytes, is_cut) = self.shared.ring.lock().content();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<&str> = text.lines().collect();
        if is_cut && !lines.is_empty() {
            lines.remove(0);
        }
        let first = lines.len().saturating_sub(count);
        lines[first..].iter().map(|line| self.present(line)).collect()
    }

    /// Follows new lines as they come, masked and escaped as in [`tail`](Self::tail).
    ///
    /// A follower that is too slow loses the oldest lines and learns how many;
    /// the child is never held back.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<str>> {
        self.shared.lines.subscribe()
    }

    /// All bytes the child has written so far, kept or not.
    pub fn total_bytes(&self) -> u64 {
        self.shared.ring.lock().total()
    }

    fn present(&self, line: &str) -> String {
        show::escape(&self.shared.redact.mask(line))
    }

    /// Reads until the last holder of the pipe's other end is gone.
    pub(crate) async fn drain(self, mut pipe: Receiver) {
        let mut buffer = vec![0; 64 * 1024];
        let mut partial = Vec::new();
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            self.shared.ring.lock().push(&buffer[..count]);
            self.publish(&mut partial, &buffer[..count]);
        }
        if !partial.is_empty() {
            self.send_line(&partial);
        }
    }

    /// Cuts what came into lines for followers; costs nothing without followers.
    fn publish(&self, partial: &mut Vec<u8>, mut bytes: &[u8]) {
        if self.shared.lines.receiver_count() == 0 {
            partial.clear();
            return;
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            partial.extend_from_slice(&bytes[..end]);
            self.send_line(partial);
            partial.clear();
            bytes = &bytes[end + 1..];
        }
        partial.extend_from_slice(bytes);
        if partial.len() > LINE_LIMIT {
            self.send_line(partial);
            partial.clear();
        }
    }

    fn send_line(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let line = self.present(text.trim_end_matches('\r'));
        // The last follower may just have left.
        let _ = self.shared.lines.send(line.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(redact: SecretMask, bytes: &[u8]) -> StderrLog {
        let stderr = StderrLog::new(redact);
        stderr.shared.ring.lock().push(bytes);
        stderr
    }

    #[test]
    fn the_tail_holds_the_last_lines_in_order() {
        assert_eq!(said(SecretMask::default(), b"one\ntwo\nthree\n").tail(2), ["two", "three"]);
    }

    #[test]
    fn bytes_that_are_not_utf8_and_escape_codes_are_made_harmless() {
        let shown = said(SecretMask::default(), b"\xff\x1b[31mred\n").tail(1);
        assert_eq!(shown, ["\u{fffd}\\x1b[31mred"]);
    }

    #[test]
    fn half_a_line_at_the_beginning_is_not_shown_because_it_may_be_half_a_secret() {
        let mut flood = vec![b'x'; KEPT_BYTES];
        flood.extend_from_slice(b"\nlast\n");
        assert_eq!(said(SecretMask::default(), &flood).tail(10), ["last"]);
    }

    #[tokio::test]
    async fn a_follower_gets_whole_masked_lines() {
        let stderr = StderrLog::new(SecretMask::new(["hunter2".to_owned()]));
        let mut lines = stderr.subscribe();
        let mut partial = Vec::new();
        stderr.publish(&mut partial, b"the word is hun");
        stderr.publish(&mut partial, b"ter2\r\nnext");
        assert_eq!(&*lines.recv().await.unwrap(), "the word is [redacted]");
        assert!(lines.try_recv().is_err());
    }
}
