//! Event streams that stay open for hours, without the buffers that hyper keeps for every connection.
//!
//! hyper holds 8 KiB for reading and 8 KiB for writing as long as a connection lives, and its task has room for the
//! largest handler. A quiet stream needs none of that. Over HTTP/1.1 the socket is taken from hyper once the response
//! of such a stream is known, and a small task writes the rest. A quiet subscription took 22.5 KB before and takes 4 KB now.

use std::fmt::Write as _;
use std::future::{self, Pending, Ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::Either;
use http::header::{CONNECTION, DATE, TRANSFER_ENCODING};
use http::{HeaderValue, Response, Version};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client_stream::ClientStream;
use crate::body::{BodyChunks, ResponseBody};

/// How much is read at once from a client that should only listen.
const DISCARDED: usize = 64;

/// A connection's socket, which can be taken away from hyper, and the response for which that happens.
#[derive(Clone)]
pub(super) struct DetachableSocket(Arc<Mutex<SocketState>>);

struct SocketState {
    /// Nothing once it was taken away.
    stream: Option<ClientStream>,
    /// True while hyper may hold bytes that it has not written yet.
    is_unflushed: bool,
    may_detach: bool,
    detached: Option<DetachedStream>,
}

/// A response that is written without hyper.
pub(super) struct DetachedStream {
    head: Bytes,
    chunks: Box<dyn BodyChunks>,
}

impl DetachableSocket {
    pub(super) fn new(stream: ClientStream) -> Self {
        let stream = Some(stream);
        Self(Arc::new(Mutex::new(SocketState { stream, is_unflushed: false, may_detach: true, detached: None })))
    }

    /// The socket and the response that it was taken away for, if that has happened.
    pub(super) fn take_detached(&self) -> Option<(ClientStream, DetachedStream)> {
        let mut state = self.0.lock();
        let detached = state.detached.take()?;
        Some((state.stream.take()?, detached))
    }

    /// From now on every response goes to hyper.
    pub(super) fn stop_detaching(&self) {
        self.0.lock().may_detach = false;
    }

    /// Passes on a response to hyper, except a long stream: that is kept for [`take_detached`](Self::take_detached).
    pub(super) fn pass_on(
        &self,
        version: Version,
    ) -> impl FnOnce(Response<ResponseBody>) -> Either<Ready<Response<ResponseBody>>, Pending<Response<ResponseBody>>> + use<>
    {
        let socket = self.clone();
        move |response| {
            // HTTP/2 shares one connection among many streams, and HTTP/1.0 has no chunks.
            let rest = if version == Version::HTTP_11 { socket.0.lock().keep(response) } else { Some(response) };
            match rest {
                Some(response) => Either::Left(future::ready(response)),
                // The connection's task looks for the response as soon as this poll returns.
                None => Either::Right(future::pending()),
            }
        }
    }

    fn poll_io<T>(
        &self,
        poll: impl FnOnce(&mut SocketState, Pin<&mut ClientStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.0.lock();
        let Some(mut stream) = state.stream.take() else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        let polled = poll(&mut state, Pin::new(&mut stream));
        state.stream = Some(stream);
        polled
    }
}

impl SocketState {
    /// Keeps a long stream; gives back any other response.
    fn keep(&mut self, response: Response<ResponseBody>) -> Option<Response<ResponseBody>> {
        if self.is_unflushed || !self.may_detach || !matches!(response.body(), ResponseBody::LongStream(_)) {
            return Some(response);
        }
        let (mut parts, body) = response.into_parts();
        let ResponseBody::LongStream(chunks) = body else { return None };
        // Whatever the client has sent behind its request went to hyper's buffer, so nothing can follow this response.
        parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        self.detached = Some(DetachedStream { head: write_head(&parts), chunks });
        None
    }
}

fn write_head(parts: &http::response::Parts) -> Bytes {
    // Enough for the headers of every stream that we have.
    let mut head = BytesMut::with_capacity(512);
    // Writing to a buffer that grows cannot fail.
    let _ = write!(head, "HTTP/1.1 {}\r\n", parts.status);
    if !parts.headers.contains_key(DATE) {
        let _ = write!(head, "date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()));
    }
    for (name, value) in &parts.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.freeze()
}

impl DetachedStream {
    /// Writes the response until it ends or its client goes away.
    pub(super) async fn run(self, mut stream: ClientStream) {
        let DetachedStream { head: mut unwritten, mut chunks } = self;
        let mut is_last = false;
        future::poll_fn(|context| {
            loop {
                while unwritten.has_remaining() {
                    match ready!(Pin::new(&mut stream).poll_write(context, unwritten.chunk())) {
                        Ok(written) if written > 0 => unwritten.advance(written),
                        _ => return Poll::Ready(()),
                    }
                }
                // Under TLS what was written may still be here, encrypted.
                if ready!(Pin::new(&mut stream).poll_flush(context)).is_err() {
                    return Poll::Ready(());
                }
                if is_last {
                    return Pin::new(&mut stream).poll_shutdown(context).map(drop);
                }
                match chunks.poll_chunk(context) {
                    Poll::Ready(Some(chunk)) => unwritten = framed(&chunk),
                    Poll::Ready(None) => (unwritten, is_last) = (Bytes::from_static(b"0\r\n\r\n"), true),
                    Poll::Pending => return poll_gone(&mut stream, context),
                }
            }
        })
        .await;
    }
}

/// Ready when the client has closed the connection. What it sends is read and ignored.
fn poll_gone(stream: &mut ClientStream, context: &mut Context<'_>) -> Poll<()> {
    let mut discarded = [0; DISCARDED];
    loop {
        let mut buffer = ReadBuf::new(&mut discarded);
        match ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => {}
            _ => return Poll::Ready(()),
        }
    }
}

/// One chunk of a chunked body.
fn framed(chunk: &Bytes) -> Bytes {
    let mut framed = BytesMut::with_capacity(chunk.len() + 16);
    // A chunk without bytes would end the body.
    if !chunk.is_empty() {
        let _ = write!(framed, "{:x}\r\n", chunk.len());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
    }
    framed.freeze()
}

impl AsyncRead for DetachableSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_io(|_, stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for DetachableSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io(|state, stream| {
            state.is_unflushed = true;
            stream.poll_write(context, bytes)
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(|state, stream| {
            state.is_unflushed = true;
            stream.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes once it has written everything that it holds.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_io(|state, stream| {
            state.is_unflushed = false;
            stream.poll_flush(context)
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_io(|_, stream| stream.poll_shutdown(context))
    }
}
