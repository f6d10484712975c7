//! One HTTP/1 connection to a server: writes a request, reads the head of the response, then its body.
//!
//! hyper's client gives every connection a read buffer and a task, and hands requests, responses and bodies through
//! channels. Here the caller that waits for the response moves the bytes itself, and a body whose length is announced is
//! read into its final place. Messages are read as [RFC 9112](https://www.rfc-editor.org/rfc/rfc9112) says.

mod body;
mod chunked;
mod head;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Uri};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tsugi_rt::body_buffers::BodyBuffer;

use super::connector::UpstreamStream;
pub(super) use body::ArrivingBody;
use head::RequestBytes;
pub(super) use head::ResponseHead;

/// What is read at once at least.
const SMALL_READ: usize = 4 << 10;
/// What is read at once at most, unless a body is known to be longer.
const LARGE_READ: usize = 128 << 10;

/// A request that can be sent more than once.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutgoingMessage<'message> {
    pub(super) method: &'message Method,
    /// In absolute form.
    pub(super) uri: &'message Uri,
    pub(super) headers: &'message HeaderMap,
    pub(super) body: &'message Bytes,
}

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(super) struct Http1Wire {
    stream: TokioIo<UpstreamStream>,
    /// What has arrived and is not used yet. A connection that waits holds no buffer.
    arrived: Option<BodyBuffer>,
    /// The size of the last response: the next one is probably as large.
    expected: usize,
}

/// Why there is no response, and whether the server may have got the request.
#[derive(Debug)]
pub(super) struct ExchangeFailure {
    pub(super) error: io::Error,
    pub(super) may_be_sent: bool,
}

impl Http1Wire {
    pub(super) fn new(stream: UpstreamStream) -> Self {
        Self { stream: TokioIo::new(stream), arrived: None, expected: SMALL_READ }
    }

    /// Whether the server has neither closed the connection nor said something that it was not asked.
    pub(super) fn is_silent(&mut self) -> bool {
        self.poll_silence(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        Poll::Ready(match ready!(Pin::new(&mut self.stream).poll_read(context, &mut room)) {
            Err(error) => error,
            Ok(()) if room.filled().is_empty() => closed(),
            Ok(()) => invalid("the server sent what was not asked for"),
        })
    }

    /// Sends a request and waits for the head of its response. Dropping it leaves a connection that must not be used.
    pub(super) async fn exchange(&mut self, message: OutgoingMessage<'_>) -> Result<ResponseHead, ExchangeFailure> {
        let mut request = RequestBytes::of(message);
        let mut is_begun = false;
        let answered = poll_fn(|context| {
            // A connection that ended since it was last used takes nothing, so the request is certainly not sent.
            if !std::mem::replace(&mut is_begun, true)
                && let Poll::Ready(error) = self.poll_silence(context)
            {
                return Poll::Ready(Err(ExchangeFailure { error, may_be_sent: false }));
            }
            self.poll_exchange(&mut request, context)
                .map_err(|error| ExchangeFailure { error, may_be_sent: request.written() > 0 || !self.is_plain() })
        });
        let mut head = answered.await?;
        // The server answered without reading everything: the rest of the request must not become the next one.
        head.is_kept &= request.is_written();
        Ok(head)
    }

    /// A failed write under TLS may have sent some of the request all the same.
    fn is_plain(&self) -> bool {
        matches!(self.stream.inner(), MaybeHttpsStream::Http(_))
    }

    fn poll_exchange(
        &mut self,
        request: &mut RequestBytes,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<ResponseHead>> {
        let sent = self.poll_send(request, context);
        loop {
            if let Some(head) = self.take_head()? {
                return Poll::Ready(Ok(head));
            }
            let failure = match self.poll_fill(self.expected, context) {
                Poll::Ready(Ok(1..)) => continue,
                Poll::Ready(Ok(0)) => closed(),
                Poll::Ready(Err(error)) => error,
                Poll::Pending => match sent {
                    // It cannot take the request, and has not said why.
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    _ => return Poll::Pending,
                },
            };
            return Poll::Ready(Err(if let Poll::Ready(Err(error)) = sent { error } else { failure }));
        }
    }

    fn poll_send(&mut self, request: &mut RequestBytes, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if request.is_flushed {
            return Poll::Ready(Ok(()));
        }
        let mut stream = Pin::new(&mut self.stream);
        while !request.is_written() {
            let written = match request.slices() {
                [only, rest] if rest.is_empty() => ready!(stream.as_mut().poll_write(context, &only))?,
                slices => ready!(stream.as_mut().poll_write_vectored(context, &slices))?,
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            request.advance(written);
        }
        ready!(stream.poll_flush(context))?;
        request.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// The head of the response, once all of it has arrived. Interim responses are skipped.
    fn take_head(&mut self) -> io::Result<Option<ResponseHead>> {
        while let Some(arrived) = &mut self.arrived {
            let Some((length, head)) = head::parse(arrived)? else { return Ok(None) };
            arrived.advance(length);
            self.drop_empty();
            if !head.status.is_informational() {
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Reads what is there, at most `room` bytes or a little more; 0 at the end.
    fn poll_fill(&mut self, room: usize, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = match self.arrived.take() {
            Some(mut buffer) => {
                buffer.make_room(room);
                buffer
            }
            None => BodyBuffer::with_room(room),
        };
        let read = pin!(self.stream.read_buf(&mut *buffer)).poll(context);
        // Without a byte in it, it is of more use to another connection.
        self.arrived = (!buffer.is_empty()).then_some(buffer);
        read
    }

    fn arrived(&self) -> usize {
        self.arrived.as_ref().map_or(0, |arrived| arrived.len())
    }

    /// Takes the next `length` bytes, all of which have arrived.
    fn split(&mut self, length: usize) -> Bytes {
        let taken = self.arrived.as_mut().map_or_else(Bytes::new, |arrived| arrived.split_to(length).freeze());
        self.drop_empty();
        taken
    }

    fn drop_empty(&mut self) {
        if self.arrived() == 0 {
            self.arrived = None;
        }
    }

    fn expect(&mut self, size: usize) {
        self.expected = size.clamp(SMALL_READ, LARGE_READ);
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it before the response was complete")
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
