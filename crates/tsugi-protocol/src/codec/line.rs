//! Newline framing: one message per line, as stdio carries it.

use bytes::{BufMut, Bytes, BytesMut};

use super::limit::InputLimits;
use crate::rpc::MessageError;

/// The mark that some programs write at the start of a text.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// What became of one line.
pub(super) enum LineStep {
    /// It is one, or it was too long to be one.
    Line(Result<Bytes, MessageError>),
    /// It was blank, or the end of one that was too long.
    Skipped,
    /// It has not ended yet.
    Wait,
}

/// Cuts a stream into lines
/// ([stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio)).
#[derive(Debug)]
pub struct LineDecoder {
    limit: usize,
    /// How far the buffer is known to hold no line end.
    scanned: usize,
    /// Set while the rest of a line over the limit is thrown away.
    is_dropping: bool,
}

impl Default for LineDecoder {
    fn default() -> Self {
        Self::new(InputLimits::LINE)
    }
}

impl LineDecoder {
    /// A decoder for lines of at most `limit` bytes, a carriage return before the newline included.
    pub fn new(limit: usize) -> Self {
        Self { limit, scanned: 0, is_dropping: false }
    }

    /// The next line without its end, sharing the buffer's memory. Blank lines are skipped, and so is a
    /// byte order mark. `None` when more bytes are needed. A line over the limit is reported once, as soon
    /// as it is known to be one. Bytes may only be appended to `buffer` between calls.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, MessageError>> {
        loop {
            match self.step(buffer) {
                LineStep::Skipped => {}
                LineStep::Line(line) => return Some(line),
                LineStep::Wait => return None,
            }
        }
    }

    /// Looks at one line only, so that a caller can decide again before each.
    pub(super) fn step(&mut self, buffer: &mut BytesMut) -> LineStep {
        let Some(offset) = memchr::memchr(b'\n', &buffer[self.scanned..]) else {
            return self.wait(buffer);
        };
        let mut line = buffer.split_to(self.scanned + offset + 1);
        self.scanned = 0;
        line.truncate(line.len() - 1);
        if std::mem::take(&mut self.is_dropping) {
            return LineStep::Skipped;
        }
        if line.len() > self.limit {
            return LineStep::Line(Err(self.too_large()));
        }
        content(line.freeze()).map_or(LineStep::Skipped, |line| LineStep::Line(Ok(line)))
    }

    /// What is left when the stream has ended: a last line that was never ended. To be called once `next`
    /// has given everything else.
    pub fn finish(&mut self, buffer: &mut BytesMut) -> Option<Bytes> {
        let tail = buffer.split();
        self.scanned = 0;
        if std::mem::take(&mut self.is_dropping) {
            return None;
        }
        content(tail.freeze())
    }

    /// No line end is there yet: remember that, and let go of a line that is too long already.
    fn wait(&mut self, buffer: &mut BytesMut) -> LineStep {
        self.scanned = buffer.len();
        if !self.is_dropping && buffer.len() <= self.limit {
            return LineStep::Wait;
        }
        buffer.clear();
        self.scanned = 0;
        match std::mem::replace(&mut self.is_dropping, true) {
            true => LineStep::Wait,
            false => LineStep::Line(Err(self.too_large())),
        }
    }

    /// True when the buffer starts in the middle of a line that was looked at before.
    pub(super) fn is_within_line(&self) -> bool {
        self.is_dropping || self.scanned > 0
    }

    fn too_large(&self) -> MessageError {
        MessageError::TooLarge { limit: self.limit }
    }
}

/// The line without carriage return and byte order marks; `None` when nothing but white space is left.
fn content(mut line: Bytes) -> Option<Bytes> {
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    // Several, when a server puts one before each message and two of its writers meet.
    while line.starts_with(BOM) {
        line = line.slice(BOM.len()..);
    }
    let is_blank = line.first().is_none_or(u8::is_ascii_whitespace) && line.trim_ascii().is_empty();
    (!is_blank).then_some(line)
}

/// Writes a message as one line. Raw line ends, which JSON allows between tokens, become spaces.
pub fn encode(message: &[u8], out: &mut impl BufMut) {
    put_on_one_line(message, out);
    out.put_u8(b'\n');
}

pub(super) fn put_on_one_line(message: &[u8], out: &mut impl BufMut) {
    let mut rest = message;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        out.put_slice(&rest[..at]);
        out.put_u8(b' ');
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out when `input` arrives `step` bytes at a time.
    fn decode(input: &[u8], limit: usize, step: usize) -> Vec<Result<String, MessageError>> {
        let mut decoder = LineDecoder::new(limit);
        let mut buffer = BytesMut::new();
        let mut lines = Vec::new();
        let text = |line: Bytes| String::from_utf8_lossy(&line).into_owned();
        for chunk in input.chunks(step) {
            buffer.extend_from_slice(chunk);
            while let Some(line) = decoder.next(&mut buffer) {
                lines.push(line.map(text));
            }
        }
        lines.extend(decoder.finish(&mut buffer).map(|line| Ok(text(line))));
        lines
    }

    fn check(input: &[u8], expected: &[&str]) {
        for step in 1..=input.len().max(1) {
            let lines: Vec<String> = decode(input, 64, step).into_iter().map(Result::unwrap).collect();
            assert_eq!(lines, expected, "{step} bytes at a time");
        }
    }

    #[test]
    fn lines_come_out_the_same_however_the_bytes_are_cut() {
        check(b"{\"a\":1}\n{\"b\":2}\r\n", &["{\"a\":1}", "{\"b\":2}"]);
    }

    #[test]
    fn blank_lines_and_a_byte_order_mark_are_skipped() {
        check(b"\xef\xbb\xbf\xef\xbb\xbf{}\n\n\r\n   \n\t\r\n[]\n\xef\xbb\xbf\n", &["{}", "[]"]);
    }

    #[test]
    fn a_last_line_without_its_end_is_not_lost() {
        check(b"{}\n{\"last\":1}", &["{}", "{\"last\":1}"]);
    }

    #[test]
    fn what_is_no_json_is_left_to_the_caller() {
        let lines = decode(b"Server started\n\xff\xfe\n{}\n", 64, 3);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_the_next_one_works() {
        let mut input = vec![b'x'; 1000];
        input.extend_from_slice(b"\n{}\n");
        for step in [1, 7, 64, 65, 1000, 1001, 1004] {
            let lines = decode(&input, 64, step);
            assert_eq!(lines, [Err(MessageError::TooLarge { limit: 64 }), Ok("{}".into())], "{step} bytes at a time");
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_accepted() {
        for step in [1, 9, 64, 66] {
            let mut input = vec![b'x'; 64];
            input.push(b'\n');
            assert_eq!(decode(&input, 64, step), [Ok("x".repeat(64))]);
        }
    }

    #[test]
    fn memory_stays_bounded_while_an_endless_line_is_dropped() {
        let mut decoder = LineDecoder::new(1024);
        let mut buffer = BytesMut::new();
        let mut reports = 0;
        for _ in 0..10_000 {
            buffer.extend_from_slice(&[b'x'; 512]);
            while decoder.next(&mut buffer).is_some() {
                reports += 1;
            }
            assert!(buffer.len() <= 1024 + 512 && buffer.capacity() <= 8 * 1024);
        }
        assert_eq!(reports, 1);
    }

    #[test]
    fn a_message_is_written_on_one_line() {
        let mut out = Vec::new();
        encode(b"{\r\n  \"a\": 1\n}", &mut out);
        assert_eq!(out, b"{    \"a\": 1 }\n");
    }
}
