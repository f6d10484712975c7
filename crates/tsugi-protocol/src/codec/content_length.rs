//! `Content-Length` framing: the form that language servers use and some MCP servers copied.

use bytes::{BufMut, Bytes, BytesMut};

use super::limit::InputLimits;
use super::line::BOM;
use crate::rpc::MessageError;

/// The header that says how long a message is.
pub(super) const HEADER: &[u8] = b"content-length:";

/// More digits than any honest length has. Obeying a longer one would silence the peer for good.
const MAX_DIGITS: usize = 15;

/// Cuts a stream into frames: header lines, an empty line, then as many bytes as the header said.
#[derive(Debug)]
pub struct ContentLengthDecoder {
    limit: usize,
    state: FrameState,
    /// How far the buffer is known to hold no line end.
    scanned: usize,
}

#[derive(Debug, Clone, Copy)]
enum FrameState {
    /// Between the header lines of a frame.
    Headers { length: Option<u64>, is_begun: bool },
    /// Something was no header: looking for the next line that says a length.
    Lost,
    /// Inside a header line that is too long to be one.
    LongLine,
    /// Before a message of this many bytes.
    Body(usize),
    /// Inside a message over the limit, of which this many bytes are still to come.
    Dropping(u64),
}

const START: FrameState = FrameState::Headers { length: None, is_begun: false };

impl Default for ContentLengthDecoder {
    fn default() -> Self {
        Self::new(InputLimits::LINE)
    }
}

impl ContentLengthDecoder {
    /// A decoder for messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: START, scanned: 0 }
    }

    /// The next message, sharing the buffer's memory. `None` when more bytes are needed. Something that is
    /// no frame is reported once and skipped up to the next `Content-Length` at the start of a line.
    /// Bytes may only be appended to `buffer` between calls.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, MessageError>> {
        loop {
            match self.state {
                FrameState::Body(length) if buffer.len() < length => return None,
                // A frame without a body carries no message.
                FrameState::Body(0) => self.state = START,
                FrameState::Body(length) => {
                    self.state = START;
                    return Some(Ok(buffer.split_to(length).freeze()));
                }
                FrameState::Dropping(left) => {
                    // Too large to keep, but the end is known: the next frame is found again.
                    let dropped = left.min(buffer.len() as u64);
                    let _ = buffer.split_to(dropped as usize);
                    self.state = if dropped == left { START } else { FrameState::Dropping(left - dropped) };
                    if dropped < left {
                        return None;
                    }
                }
                FrameState::Headers { .. } | FrameState::Lost | FrameState::LongLine => match self.line(buffer)? {
                    Ok(line) => {
                        if let Err(error) = self.header(&line) {
                            return Some(Err(error));
                        }
                    }
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }

    /// The next header line without its end. A line that is too long is an error the first time and
    /// an empty piece of nothing while it lasts.
    fn line(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, MessageError>> {
        let Some(offset) = memchr::memchr(b'\n', &buffer[self.scanned..]) else {
            // What was searched once is not searched again.
            self.scanned = buffer.len();
            return self.long_line(buffer);
        };
        let line = buffer.split_to(self.scanned + offset + 1).freeze();
        self.scanned = 0;
        if line.len() > InputLimits::HEADER + 1 && !matches!(self.state, FrameState::LongLine) {
            self.state = FrameState::Lost;
            return Some(Err(MessageError::Frame("a header line is too long")));
        }
        Some(Ok(line))
    }

    fn long_line(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, MessageError>> {
        let was_long = matches!(self.state, FrameState::LongLine);
        if !was_long && buffer.len() <= InputLimits::HEADER {
            return None;
        }
        buffer.clear();
        self.scanned = 0;
        self.state = FrameState::LongLine;
        if was_long {
            return None;
        }
        Some(Err(MessageError::Frame("a header line is too long")))
    }

    /// Takes one whole header line and moves on.
    fn header(&mut self, line: &[u8]) -> Result<(), MessageError> {
        let line = line.trim_ascii();
        // Some Windows programs begin their output with a byte order mark.
        let line = line.strip_prefix(BOM).unwrap_or(line);
        let (length, is_begun) = match self.state {
            FrameState::LongLine => {
                self.state = FrameState::Lost;
                return Ok(());
            }
            // Out of step: skip until something looks like a header again.
            FrameState::Lost if !is_length(line) => return Ok(()),
            FrameState::Headers { length, is_begun } => (length, is_begun),
            _ => (None, false),
        };
        if line.is_empty() {
            return self.end_of_headers(length, is_begun);
        }
        let length = match read_header(line, length) {
            Ok(length) => length,
            Err(reason) => return self.lost(reason),
        };
        self.state = FrameState::Headers { length, is_begun: true };
        Ok(())
    }

    fn end_of_headers(&mut self, length: Option<u64>, is_begun: bool) -> Result<(), MessageError> {
        self.state = match length {
            Some(length) if length <= self.limit as u64 => FrameState::Body(length as usize),
            Some(length) => {
                self.state = FrameState::Dropping(length);
                return Err(MessageError::TooLarge { limit: self.limit });
            }
            None if is_begun => return self.lost("no Content-Length"),
            None => START,
        };
        Ok(())
    }

    fn lost(&mut self, reason: &'static str) -> Result<(), MessageError> {
        self.state = FrameState::Lost;
        Err(MessageError::Frame(reason))
    }
}

pub(super) fn is_length(line: &[u8]) -> bool {
    line.len() >= HEADER.len() && line[..HEADER.len()].eq_ignore_ascii_case(HEADER)
}

/// The length known after this header line. Headers with other names are allowed and mean nothing here.
fn read_header(line: &[u8], known: Option<u64>) -> Result<Option<u64>, &'static str> {
    if !is_length(line) {
        return if memchr::memchr(b':', line).is_some() { Ok(known) } else { Err("a line that is not a header") };
    }
    let digits = line[HEADER.len()..].trim_ascii();
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return Err("a Content-Length that is not a length");
    }
    let length = digits.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0'));
    match known {
        Some(other) if other != length => Err("two different lengths"),
        _ => Ok(Some(length)),
    }
}

/// Writes a message as one frame.
pub fn encode(message: &[u8], out: &mut impl BufMut) {
    out.put_slice(b"Content-Length: ");
    out.put_slice(message.len().to_string().as_bytes());
    out.put_slice(b"\r\n\r\n");
    super::line::put_on_one_line(message, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out when `input` arrives `step` bytes at a time: messages, and errors as their text.
    fn decode(input: &[u8], step: usize) -> Vec<String> {
        let mut decoder = ContentLengthDecoder::new(64);
        let mut buffer = BytesMut::new();
        let mut messages = Vec::new();
        for chunk in input.chunks(step) {
            buffer.extend_from_slice(chunk);
            while let Some(message) = decoder.next(&mut buffer) {
                messages.push(match message {
                    Ok(message) => String::from_utf8_lossy(&message).into_owned(),
                    Err(error) => format!("! {error}"),
                });
            }
        }
        messages
    }

    fn check(input: &[u8], expected: &[&str]) {
        for step in 1..=input.len() {
            assert_eq!(decode(input, step), expected, "{step} bytes at a time");
        }
    }

    #[test]
    fn frames_come_out_the_same_however_the_bytes_are_cut() {
        check(b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", &["{}", "[1]"]);
    }

    #[test]
    fn headers_are_read_whatever_their_case_order_and_line_end() {
        check(
            b"content-LENGTH:2\nContent-Type: application/json; charset=utf-8\n\n{}\r\n\r\nContent-Type: x\r\nContent-Length:  3 \r\n\r\n[1]",
            &["{}", "[1]"],
        );
    }

    #[test]
    fn noise_between_frames_is_reported_once_and_skipped() {
        check(
            b"Server started\nand listening\n\nContent-Length: 2\r\n\r\n{}",
            &["! not a frame: a line that is not a header", "{}"],
        );
    }

    #[test]
    fn a_length_that_cannot_be_read_is_reported_and_the_next_frame_works() {
        for bad in ["-1", "two", "", "1e3", "9999999999999999", "+2"] {
            let input = format!("Content-Length: {bad}\r\n\r\n{{}}\r\nContent-Length: 3\r\n\r\n[1]");
            check(input.as_bytes(), &["! not a frame: a Content-Length that is not a length", "[1]"]);
        }
        check(
            b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}\nContent-Length: 3\r\n\r\n[1]",
            &["! not a frame: two different lengths", "[1]"],
        );
        check(b"X: 1\r\n\r\n{}\nContent-Length: 3\r\n\r\n[1]", &["! not a frame: no Content-Length", "[1]"]);
    }

    #[test]
    fn a_message_over_the_limit_is_dropped_whole_and_the_next_one_works() {
        let input = format!("Content-Length: 1000\r\n\r\n{}Content-Length: 2\r\n\r\n{{}}", "x".repeat(1000));
        for step in [1, 13, 64, 500, 2000] {
            assert_eq!(decode(input.as_bytes(), step), ["! a message is larger than 64 bytes", "{}"]);
        }
    }

    #[test]
    fn an_endless_header_line_is_reported_once_and_fills_no_memory() {
        let mut input = vec![b'a'; 3 * InputLimits::HEADER];
        input.extend_from_slice(b"\nContent-Length: 2\r\n\r\n{}");
        for step in [1, 100, InputLimits::HEADER, InputLimits::HEADER + 1, input.len()] {
            assert_eq!(decode(&input, step), ["! not a frame: a header line is too long", "{}"], "{step}");
        }
    }

    #[test]
    fn a_header_line_is_too_long_from_the_same_byte_on_however_it_is_cut() {
        for (size, expected) in [(0, vec!["{}"]), (1, vec!["! not a frame: a header line is too long"])] {
            let name = "X:".to_owned() + &"a".repeat(InputLimits::HEADER - 2 + size);
            let input = format!("{name}\nContent-Length: 2\n\n{{}}");
            for step in [1, InputLimits::HEADER, InputLimits::HEADER + 1, InputLimits::HEADER + 2, input.len()] {
                let given = decode(input.as_bytes(), step);
                assert_eq!(given[..1], expected[..], "{size} over, {step} bytes at a time");
            }
        }
    }

    #[test]
    fn a_message_is_written_as_a_frame_that_reads_back() {
        let mut out = Vec::new();
        encode("{\"é\":\n1}".as_bytes(), &mut out);
        assert_eq!(out, "Content-Length: 9\r\n\r\n{\"é\": 1}".as_bytes());
        assert_eq!(decode(&out, 4), ["{\"é\": 1}"]);
    }
}
