//! Detects which of the two framings a peer uses from its first bytes, and answers in the same one.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::limit::InputLimits;
use super::line::BOM;
use super::{content_length, line};
use crate::rpc::MessageError;

/// A framing of byte streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FramingKind {
    /// One message per line: what the specification says.
    Line,
    /// Header lines before each message.
    ContentLength,
}

impl FramingKind {
    /// Writes a message, on one line, in this framing.
    pub fn encode(self, message: &[u8], out: &mut impl BufMut) {
        match self {
            FramingKind::Line => line::encode(message, out),
            FramingKind::ContentLength => content_length::encode(message, out),
        }
    }
}

/// Decodes one peer's stream in whichever framing the peer uses.
#[derive(Debug)]
pub struct FramingDecoder {
    kind: Option<FramingKind>,
    line: line::LineDecoder,
    content_length: content_length::ContentLengthDecoder,
}

impl Default for FramingDecoder {
    fn default() -> Self {
        Self::new(InputLimits::LINE)
    }
}

/// What the first bytes of a stream tell.
enum StreamOpening {
    /// The peer speaks this.
    Known(FramingKind),
    /// A line that belongs to neither, such as a greeting for people.
    Noise,
    /// Too few bytes to tell.
    Short,
}

impl FramingDecoder {
    /// A decoder that finds out; messages have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            kind: None,
            line: line::LineDecoder::new(limit),
            content_length: content_length::ContentLengthDecoder::new(limit),
        }
    }

    /// A decoder for a peer whose framing is known.
    pub fn of(kind: FramingKind, limit: usize) -> Self {
        Self { kind: Some(kind), ..Self::new(limit) }
    }

    /// What the peer speaks; lines until it has shown otherwise.
    pub fn kind(&self) -> FramingKind {
        self.kind.unwrap_or(FramingKind::Line)
    }

    /// True once the peer has shown what it speaks.
    pub fn is_known(&self) -> bool {
        self.kind.is_some()
    }

    /// The next message. Lines that come before the peer has shown its framing are given as they are.
    /// Bytes may only be appended to `buffer` between calls.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, MessageError>> {
        match self.kind {
            Some(FramingKind::Line) => self.line.next(buffer),
            Some(FramingKind::ContentLength) => self.content_length.next(buffer),
            None => self.find_out(buffer),
        }
    }

    fn find_out(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, MessageError>> {
        loop {
            // A line that the line decoder has begun to scan or to drop is noise already.
            let opening = if self.line.is_within_line() { StreamOpening::Noise } else { opening(buffer) };
            match opening {
                StreamOpening::Short => return None,
                StreamOpening::Known(kind) => {
                    self.kind = Some(kind);
                    return self.next(buffer);
                }
                StreamOpening::Noise => match self.line.step(buffer) {
                    line::LineStep::Skipped => {}
                    line::LineStep::Line(line) => return Some(line),
                    line::LineStep::Wait => return None,
                },
            }
        }
    }

    /// What is left when the stream has ended; see [`line::LineDecoder::finish`].
    pub fn finish(&mut self, buffer: &mut BytesMut) -> Option<Bytes> {
        match self.kind() {
            FramingKind::Line => self.line.finish(buffer),
            // A message shorter than its announced length is incomplete.
            FramingKind::ContentLength => None,
        }
    }

    /// Writes a message in the framing that the peer speaks.
    pub fn encode(&self, message: &[u8], out: &mut impl BufMut) {
        self.kind().encode(message, out);
    }
}

/// Skips what is blank and looks at what comes first.
fn opening(buffer: &mut BytesMut) -> StreamOpening {
    loop {
        match buffer.first() {
            Some(byte) if byte.is_ascii_whitespace() => buffer.advance(1),
            Some(_) if buffer.starts_with(BOM) => buffer.advance(BOM.len()),
            _ => break,
        }
    }
    match buffer.first() {
        None => StreamOpening::Short,
        // A message or a batch. No header begins like this.
        Some(b'{' | b'[') => StreamOpening::Known(FramingKind::Line),
        // A byte order mark may arrive in pieces.
        Some(_) if BOM.starts_with(buffer) => StreamOpening::Short,
        Some(_) => header_opening(buffer),
    }
}

fn header_opening(buffer: &[u8]) -> StreamOpening {
    for header in [content_length::HEADER, b"content-type:"] {
        // So may a header: what has arrived is compared.
        let shown = buffer.len().min(header.len());
        if buffer[..shown].eq_ignore_ascii_case(&header[..shown]) {
            return if shown == header.len() {
                StreamOpening::Known(FramingKind::ContentLength)
            } else {
                StreamOpening::Short
            };
        }
    }
    StreamOpening::Noise
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8], step: usize) -> (Option<FramingKind>, Vec<String>) {
        let mut framing = FramingDecoder::new(64);
        let mut buffer = BytesMut::new();
        let mut messages = Vec::new();
        for chunk in input.chunks(step) {
            buffer.extend_from_slice(chunk);
            while let Some(message) = framing.next(&mut buffer) {
                messages.push(
                    message.map_or_else(
                        |error| format!("! {error}"),
                        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
                    ),
                );
            }
        }
        messages.extend(framing.finish(&mut buffer).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        (framing.kind, messages)
    }

    fn check(input: &[u8], kind: Option<FramingKind>, expected: &[&str]) {
        for step in 1..=input.len() {
            let (found, messages) = decode(input, step);
            assert_eq!((found, messages), (kind, expected.iter().map(|text| text.to_string()).collect()), "{step}");
        }
    }

    #[test]
    fn a_peer_is_recognised_by_its_first_bytes() {
        check(b"{\"a\":1}\n[2]\n", Some(FramingKind::Line), &["{\"a\":1}", "[2]"]);
        check(b"\r\n\xef\xbb\xbf {}\n", Some(FramingKind::Line), &["{}"]);
        check(b"Content-Length: 2\r\n\r\n{}", Some(FramingKind::ContentLength), &["{}"]);
        check(b"\n\ncontent-type: x\r\ncontent-length: 2\r\n\r\n{}", Some(FramingKind::ContentLength), &["{}"]);
    }

    #[test]
    fn noise_before_the_first_message_decides_nothing() {
        check(b"Content server up\nC\n{}\n", Some(FramingKind::Line), &["Content server up", "C", "{}"]);
        check(b"hello {\nContent-Length: 2\r\n\r\n{}", Some(FramingKind::ContentLength), &["hello {", "{}"]);
        check(b"only words", None, &["only words"]);
    }

    #[test]
    fn noise_over_the_limit_is_dropped_without_being_mistaken_for_a_message() {
        let mut input = vec![b'x'; 100];
        input.extend_from_slice(b"{\nContent-Length: 2\r\n\r\n{}");
        for step in [1, 64, 65, 100, 101, 105, 200] {
            let (kind, messages) = decode(&input, step);
            assert_eq!(kind, Some(FramingKind::ContentLength));
            assert_eq!(messages, ["! a message is larger than 64 bytes", "{}"], "{step}");
        }
    }

    #[test]
    fn a_peer_is_answered_in_its_own_framing() {
        for (kind, written) in
            [(FramingKind::Line, &b"{ }\n"[..]), (FramingKind::ContentLength, b"Content-Length: 3\r\n\r\n{ }")]
        {
            let mut out = BytesMut::new();
            FramingDecoder::of(kind, 64).encode(b"{\n}", &mut out);
            assert_eq!(&out[..], written);
        }
    }
}
