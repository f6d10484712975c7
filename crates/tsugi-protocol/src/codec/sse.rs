//! Server-sent events: how HTTP answers carry more than one message.

use bytes::{BufMut, Bytes, BytesMut};

use super::limit::InputLimits;
use super::line::BOM;
use crate::rpc::MessageError;

/// One event. An event without data is reported when it brings an id or a retry time: that is how a
/// server tells where a stream can be resumed before anything happened on it
/// ([priming event](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The type; `None` means `message`.
    pub event: Option<String>,
    /// The data, its lines joined by newlines.
    pub data: Bytes,
    /// The id that this event set, when it set one. An empty one forgets the last.
    pub id: Option<String>,
    /// After how many milliseconds a lost stream should be opened again.
    pub retry: Option<u64>,
}

impl SseEvent {
    /// True for the events that carry messages.
    pub fn is_message(&self) -> bool {
        matches!(self.event.as_deref(), None | Some("message" | ""))
    }
}

/// Cuts a stream into events as
/// [the standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation) says.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// How far the buffer is known to hold no line end.
    scanned: usize,
    is_started: bool,
    /// Set after a carriage return: a newline that follows belongs to it.
    after_return: bool,
    line: SseLine,
    is_poisoned: bool,
    event: Option<String>,
    data: SseData,
    id: Option<String>,
    retry: Option<u64>,
    last_id: Option<String>,
}

/// What is done with the line that is arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SseLine {
    Kept,
    /// A comment, or part of an event over the limit: thrown away as it comes.
    Dropped,
}

/// The data of the event so far. One line, the usual case, is never copied.
#[derive(Debug, Default)]
enum SseData {
    #[default]
    None,
    One(Bytes),
    Many(BytesMut),
}

impl SseData {
    fn len(&self) -> usize {
        match self {
            SseData::None => 0,
            SseData::One(line) => line.len(),
            SseData::Many(lines) => lines.len(),
        }
    }

    fn push(&mut self, line: Bytes) {
        *self = match std::mem::take(self) {
            SseData::None => SseData::One(line),
            SseData::One(first) => {
                // Only now is anything copied: most events have one line.
                let mut lines = BytesMut::with_capacity(first.len() + line.len() + 1);
                lines.extend_from_slice(&first);
                SseData::Many(joined(lines, &line))
            }
            SseData::Many(lines) => SseData::Many(joined(lines, &line)),
        };
    }

    fn finish(self) -> Option<Bytes> {
        match self {
            SseData::None => None,
            SseData::One(line) => Some(line),
            SseData::Many(lines) => Some(lines.freeze()),
        }
    }
}

fn joined(mut lines: BytesMut, line: &[u8]) -> BytesMut {
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(line);
    lines
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(InputLimits::EVENT)
    }
}

impl SseDecoder {
    /// A decoder for events whose data has at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            scanned: 0,
            is_started: false,
            after_return: false,
            line: SseLine::Kept,
            is_poisoned: false,
            event: None,
            data: SseData::None,
            id: None,
            retry: None,
            last_id: None,
        }
    }

    /// The next event. `None` when more bytes are needed; the rest of a stream that ends is not an event.
    /// An event over the limit is reported once and dropped. Comments are dropped as they arrive.
    /// Bytes may only be appended to `buffer` between calls.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Result<SseEvent, MessageError>> {
        if !self.start(buffer) {
            return None;
        }
        loop {
            self.skip_newline_after_return(buffer);
            // A comment is dropped as it arrives, however long it is.
            if self.scanned == 0 && self.line == SseLine::Kept && buffer.first() == Some(&b':') {
                self.line = SseLine::Dropped;
            }
            let Some(offset) = memchr::memchr2(b'\n', b'\r', &buffer[self.scanned..]) else {
                return self.wait(buffer);
            };
            let line = self.take_line(buffer, self.scanned + offset);
            if let Some(event) = self.line(line) {
                return Some(event);
            }
        }
    }

    /// The id that a lost stream is to be resumed after, if any event has set one.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Skips the byte order mark; false while it cannot be told whether there is one.
    fn start(&mut self, buffer: &mut BytesMut) -> bool {
        if self.is_started {
            return true;
        }
        // The first bytes may still become a byte order mark.
        if buffer.len() < BOM.len() && BOM.starts_with(buffer) {
            return false;
        }
        if buffer.starts_with(BOM) {
            let _ = buffer.split_to(BOM.len());
        }
        self.is_started = true;
        true
    }

    fn skip_newline_after_return(&mut self, buffer: &mut BytesMut) {
        if self.after_return && !buffer.is_empty() {
            self.after_return = false;
            // `\r\n` is one line end, even when its halves arrive apart.
            if buffer[0] == b'\n' {
                let _ = buffer.split_to(1);
            }
        }
    }

    fn take_line(&mut self, buffer: &mut BytesMut, end: usize) -> Bytes {
        let mut line = buffer.split_to(end + 1).freeze();
        self.after_return = line[end] == b'\r';
        self.scanned = 0;
        line.truncate(end);
        line
    }

    /// No line end is there yet: remember that, and let go of what would not be kept anyway.
    fn wait(&mut self, buffer: &mut BytesMut) -> Option<Result<SseEvent, MessageError>> {
        // What was searched once is not searched again when more arrives.
        self.scanned = buffer.len();
        let is_over = self.line == SseLine::Kept && self.is_over(buffer.len());
        if is_over || self.line == SseLine::Dropped {
            buffer.clear();
            self.scanned = 0;
            self.line = SseLine::Dropped;
        }
        if is_over { self.poison() } else { None }
    }

    fn is_over(&self, line: usize) -> bool {
        self.data.len() + line > self.limit
    }

    /// Gives the event up; reports it the first time.
    fn poison(&mut self) -> Option<Result<SseEvent, MessageError>> {
        self.data = SseData::None;
        if std::mem::replace(&mut self.is_poisoned, true) {
            return None;
        }
        Some(Err(MessageError::TooLarge { limit: self.limit }))
    }

    /// Takes one whole line.
    fn line(&mut self, line: Bytes) -> Option<Result<SseEvent, MessageError>> {
        if std::mem::replace(&mut self.line, SseLine::Kept) == SseLine::Dropped {
            return None;
        }
        if line.is_empty() {
            return self.dispatch().map(Ok);
        }
        if self.is_over(line.len()) {
            return self.poison();
        }
        self.field(&line);
        None
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let mut value = line.slice((colon + 1).min(line.len())..);
        // Exactly one space belongs to the colon.
        if value.first() == Some(&b' ') {
            value = value.slice(1..);
        }
        match &line[..colon] {
            b"data" if !self.is_poisoned => self.data.push(value),
            b"event" => self.event = Some(text(&value)),
            // The standard ignores an id with a NUL in it.
            b"id" if !value.contains(&0) => self.id = Some(text(&value)),
            b"retry" => self.retry = digits(&value).or(self.retry),
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = self.event.take();
        let data = std::mem::take(&mut self.data).finish();
        let (id, retry) = (self.id.take(), self.retry.take());
        if id.is_some() {
            self.last_id.clone_from(&id);
        }
        if std::mem::take(&mut self.is_poisoned) || (data.is_none() && id.is_none() && retry.is_none()) {
            return None;
        }
        Some(SseEvent { event, data: data.unwrap_or_default(), id, retry })
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn digits(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}

/// Writes an event. Whatever the data holds, it stays data: each of its lines becomes a line of its own.
pub fn event(id: Option<&str>, event: Option<&str>, data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 32);
    write_event(id, event, data, &mut out);
    out.freeze()
}

/// Like [`event`], into a buffer that is there already.
pub fn write_event(id: Option<&str>, event: Option<&str>, data: &[u8], out: &mut impl BufMut) {
    if let Some(event) = event {
        write_field("event", event, out);
    }
    if let Some(id) = id {
        write_field("id", id, out);
    }
    let mut rest = data;
    loop {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        out.put_slice(b"data: ");
        out.put_slice(&rest[..end]);
        out.put_slice(b"\n");
        if end == rest.len() {
            break;
        }
        // A pair counts as one line end, or the reader would see an empty line.
        let is_pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(is_pair)..];
    }
    out.put_slice(b"\n");
}

/// Writes one field of one line; what would end the line or the id is left out.
fn write_field(name: &str, value: &str, out: &mut impl BufMut) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    // A line end in a value would begin another field.
    for piece in value.split(['\r', '\n', '\0']) {
        out.put_slice(piece.as_bytes());
    }
    out.put_slice(b"\n");
}

/// Tells the client after how many milliseconds it should open a lost stream again, and with it the id
/// that the stream can be resumed after.
pub fn priming(id: Option<&str>, retry: Option<u64>) -> Bytes {
    let mut out = BytesMut::new();
    if let Some(retry) = retry {
        write_field("retry", &retry.to_string(), &mut out);
    }
    write_event(id, None, b"", &mut out);
    out.freeze()
}

/// A comment that means nothing and keeps the connection from being taken for dead.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

#[cfg(test)]
mod tests;
