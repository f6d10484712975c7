//! The heads of requests and responses, and what a response's head says about its body.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use tsugi_rt::small_buffer::write_small;

use super::body::BodyFraming;
use super::chunked::ChunkState;
use super::{OutgoingMessage, invalid};

/// How many headers a response may have.
const MAX_HEADERS: usize = 100;
/// How large the head of a response may be.
const MAX_HEAD: usize = 64 << 10;
/// A body up to this size is copied behind its head, so that one write takes both.
const WORTH_COPYING: usize = 8 << 10;

/// A request on its way out.
#[derive(Debug)]
pub(super) struct RequestBytes {
    head: Bytes,
    /// Empty when it was copied behind the head.
    body: Bytes,
    written: usize,
    /// Whether everything has left us.
    pub(super) is_flushed: bool,
}

impl RequestBytes {
    pub(super) fn of(message: OutgoingMessage<'_>) -> Self {
        let is_small = message.body.len() <= WORTH_COPYING;
        let size = 256 + 64 * message.headers.len() + if is_small { message.body.len() } else { 0 };
        let head = write_small(size, |head| {
            write_head(head, message);
            if is_small {
                head.extend_from_slice(message.body);
            }
        });
        let body = if is_small { Bytes::new() } else { message.body.clone() };
        Self { head, body, written: 0, is_flushed: false }
    }

    pub(super) fn written(&self) -> usize {
        self.written
    }

    pub(super) fn is_written(&self) -> bool {
        self.written == self.head.len() + self.body.len()
    }

    pub(super) fn advance(&mut self, written: usize) {
        self.written += written;
    }

    /// What is still to be written.
    pub(super) fn slices(&self) -> [IoSlice<'_>; 2] {
        let of_head = self.written.min(self.head.len());
        let (head, body) = (&self.head[of_head..], &self.body[self.written - of_head..]);
        if head.is_empty() { [body, head].map(IoSlice::new) } else { [head, body].map(IoSlice::new) }
    }
}

/// Writes a head in [origin form](https://www.rfc-editor.org/rfc/rfc9112#name-origin-form). The length of the body is
/// ours to say, and names and values of a `HeaderMap` cannot contain line ends.
fn write_head(head: &mut BytesMut, OutgoingMessage { method, uri, headers, body }: OutgoingMessage<'_>) {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    for part in [method.as_str(), " ", path, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    if !headers.contains_key(HOST)
        && let Some(host) = host(uri)
    {
        write_header(head, &HOST, host.as_bytes());
    }
    for (name, value) in headers {
        if *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING {
            write_header(head, name, value.as_bytes());
        }
    }
    // Servers expect a length of what may have a body, even when it has none.
    if *method == Method::POST || !body.is_empty() {
        write_header(head, &CONTENT_LENGTH, itoa::Buffer::new().format(body.len()).as_bytes());
    }
    head.extend_from_slice(b"\r\n");
}

/// The host as the header names it. A user's name and password were removed from the address before.
fn host(uri: &Uri) -> Option<&str> {
    uri.authority().map(|authority| authority.as_str())
}

fn write_header(head: &mut BytesMut, name: &HeaderName, value: &[u8]) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// The head of a response.
#[derive(Debug)]
pub(in crate::http) struct ResponseHead {
    pub(in crate::http) status: StatusCode,
    pub(in crate::http) headers: HeaderMap,
    pub(in crate::http) framing: BodyFraming,
    /// Whether the connection can take another request after the body.
    pub(in crate::http) is_kept: bool,
}

/// Parses a head and its length; `None` while it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(usize, ResponseHead)>> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let parsing = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, bytes, &mut slots);
    let length = match parsing {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(invalid("the head of the response is too large")),
        Err(error) => return Err(invalid(error)),
    };
    let status = StatusCode::from_u16(parsed.code.unwrap_or_default()).map_err(invalid)?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(invalid("the server switched to another protocol, which was not asked for"));
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(invalid)?;
        headers.append(name, HeaderValue::from_bytes(header.value).map_err(invalid)?);
    }
    let version = parsed.version.unwrap_or_default();
    let framing = framing(status, version, &headers)?;
    // A length beside a transfer encoding can mean that two parties disagree where the body ends, so what follows it is
    // not trusted (RFC 9112, 6.1).
    let is_ambiguous = headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH);
    let is_kept = framing.has_end()
        && !is_ambiguous
        && if version == 0 { says(&headers, "keep-alive") } else { !says(&headers, "close") };
    Ok(Some((length, ResponseHead { status, headers, framing, is_kept })))
}

/// Whether `Connection` has this option.
fn says(headers: &HeaderMap, option: &str) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(option))
}

/// Where the body ends ([Message Body Length](https://www.rfc-editor.org/rfc/rfc9112#name-message-body-length)).
fn framing(status: StatusCode, version: u8, headers: &HeaderMap) -> io::Result<BodyFraming> {
    if status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(BodyFraming::Over);
    }
    if let Some(last) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
        if version == 0 {
            return Err(invalid("a response of HTTP/1.0 has a transfer encoding"));
        }
        let last = last.to_str().map_err(invalid)?.rsplit(',').next().unwrap_or("").trim();
        let is_chunked = last.eq_ignore_ascii_case("chunked");
        return Ok(if is_chunked { BodyFraming::Chunked(ChunkState::Size) } else { BodyFraming::UntilClose });
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter().map(HeaderValue::as_bytes);
    let Some(first) = lengths.next() else { return Ok(BodyFraming::UntilClose) };
    if lengths.any(|other| other != first) {
        return Err(invalid("the response has several lengths"));
    }
    match length(first) {
        Some(0) => Ok(BodyFraming::Over),
        Some(length) => Ok(BodyFraming::Length(length)),
        None => Err(invalid("the length of the response is not a number")),
    }
}

/// A number in digits alone: `parse` would also take a sign.
fn length(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}
