//! The response to one HTTP request: a bounded body, or a bounded stream of events.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tsugi_protocol::answer::FaultReason;
use tsugi_protocol::codec::sse;

use super::headers::retry_after;
use super::pool::DrivenBody;
use crate::error::{TransportError, TransportErrorKind, chain};

/// An answer larger than this is refused.
const MAX_BODY: usize = 64 << 20;

/// What an answer's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    Json,
    /// A stream of events.
    Events,
    /// Anything else, or nothing.
    Other,
}

/// The head of an answer, with its body still to come. Dropping it closes the stream.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: DrivenBody,
}

impl HttpResponse {
    pub(super) fn new(response: Response<DrivenBody>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body }
    }

    /// What the body says it is.
    pub fn kind(&self) -> BodyKind {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        // Parameters such as `charset` do not matter.
        let kind = kind.split(';').next().unwrap_or("").trim();
        if kind.eq_ignore_ascii_case("application/json") {
            BodyKind::Json
        } else if kind.eq_ignore_ascii_case("text/event-stream") {
            BodyKind::Events
        } else {
            BodyKind::Other
        }
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers, SystemTime::now())
    }

    /// The error for a status that is not an answer.
    pub fn status_error(&self) -> TransportError {
        let retry_after = self.retry_after();
        let kind = TransportErrorKind::Status { status: self.status.as_u16(), retry_after };
        let error = TransportError::sent(kind, format!("the server answered {}", self.status));
        let error = error.with_hint(status_hint(self.status, retry_after.is_some()));
        match self.status {
            StatusCode::UNAUTHORIZED if self.names_oauth_server() => {
                error.with_reason(Some(FaultReason::OauthRequired))
            }
            _ => error,
        }
    }

    /// Whether the challenge points to the metadata of a protected resource, as MCP servers behind OAuth do
    /// ([RFC 9728](https://www.rfc-editor.org/rfc/rfc9728#section-5.1)).
    fn names_oauth_server(&self) -> bool {
        let challenges = self.headers.get_all(WWW_AUTHENTICATE).iter();
        challenges.filter_map(|value| value.to_str().ok()).any(|value| value.contains("resource_metadata="))
    }

    fn refuse_encoding(&self) -> Result<(), TransportError> {
        match self.header(CONTENT_ENCODING.as_str()) {
            None | Some("identity") => Ok(()),
            Some(other) => Err(TransportError::sent(
                TransportErrorKind::Protocol,
                format!("the answer is encoded as {other:?}, which was not asked for"),
            )),
        }
    }

    pub async fn bytes(mut self) -> Result<Bytes, TransportError> {
        self.refuse_encoding()?;
        match self.body.announced() {
            Some(length) if length > MAX_BODY as u64 => Err(too_large()),
            Some(length) => self.body.whole(length as usize).await.map_err(|error| broke(&*error)),
            // Boxed: most bodies have a length, and need no room for this.
            None => Box::pin(gather(self.body)).await,
        }
    }

    /// The body as events.
    pub fn events(self) -> Result<EventStream, TransportError> {
        self.refuse_encoding()?;
        Ok(EventStream {
            body: self.body,
            buffer: BytesMut::new(),
            decoder: sse::SseDecoder::default(),
            received: 0,
            is_over: false,
        })
    }
}

/// A body that comes in pieces. Each is copied as it comes, so that its buffer can take the next.
async fn gather(mut body: DrivenBody) -> Result<Bytes, TransportError> {
    let mut all = BytesMut::new();
    while let Some(more) = next_data(&mut body).await? {
        // Checked while reading: a server may send more than it announced.
        if all.len() + more.len() > MAX_BODY {
            return Err(too_large());
        }
        all.extend_from_slice(&more);
    }
    Ok(all.freeze())
}

fn too_large() -> TransportError {
    TransportError::sent(TransportErrorKind::TooLarge, format!("the answer is larger than {} MiB", MAX_BODY >> 20))
}

fn status_hint(status: StatusCode, asks_to_wait: bool) -> Option<String> {
    let hint = match status.as_u16() {
        401 => "the server wants credentials; set `headers.Authorization` for it",
        403 => "the credentials do not allow this",
        404 => "check the path of the address",
        429 => "the server asks to wait",
        503 if asks_to_wait => "the server asks to wait",
        // A proxy says this of a server that is down or died at work.
        503 => "the server is not available; its own log says why",
        _ => return None,
    };
    Some(hint.to_owned())
}

async fn next_data(body: &mut DrivenBody) -> Result<Option<Bytes>, TransportError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broke(&*error))?;
        if let Ok(data) = frame.into_data()
            // Trailers and empty frames carry no data.
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn broke(error: &(dyn Error + 'static)) -> TransportError {
    TransportError::sent(TransportErrorKind::Lost, format!("the answer broke off: {}", chain(error)))
}

/// Events of one answer, in order. Dropping it closes the stream.
#[derive(Debug)]
pub struct EventStream {
    body: DrivenBody,
    buffer: BytesMut,
    decoder: sse::SseDecoder,
    received: usize,
    is_over: bool,
}

impl EventStream {
    /// The next event; `None` at the end of the stream.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<sse::SseEvent, TransportError>>> {
        loop {
            // Buffered events first: one frame may hold several.
            if let Some(event) = self.decoder.next(&mut self.buffer) {
                self.received = self.buffer.len();
                return Poll::Ready(Some(event.map_err(|error| {
                    TransportError::sent(TransportErrorKind::TooLarge, format!("an event cannot be read: {error}"))
                })));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(broke(&*error))));
                }
                None => self.is_over = true,
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Result<sse::SseEvent, TransportError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads to the end and forgets, so that the connection can be used again. Most servers end the stream
    /// together with the answer; only for the others a task waits.
    pub fn drain(mut self) {
        if self.is_over || self.has_ended() {
            return;
        }
        tokio::spawn(async move {
            // Bounded, since some servers never end their stream.
            let drained = async { while self.body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
            let _ = tokio::time::timeout(Duration::from_secs(2), drained).await;
        });
    }

    /// Whether what is here already leads to the end of the stream.
    fn has_ended(&mut self) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        loop {
            match Pin::new(&mut self.body).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return true,
                Poll::Pending => return self.body.is_end_stream(),
            }
        }
    }
}
