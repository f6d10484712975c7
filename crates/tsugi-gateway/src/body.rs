//! Bodies in and out: a request's bytes under a limit, a response without copying a large result.

pub(crate) mod admission;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use smallvec::SmallVec;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::JsonObject;

use self::admission::{AdmittedBytes, BodyAdmission};
use crate::guard::refusal::HttpRefusal;
use tsugi_rt::small_buffer;
use tsugi_rt::wake_filter::suppress_wakes;

/// A stream of chunks that is pulled as fast as the reader takes them.
pub(crate) trait BodyChunks: Send {
    /// The next chunk; `None` ends the stream.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

pub(crate) enum ResponseBody {
    /// Pieces, written one after another: envelope, result, envelope.
    Parts(BodyPieces),
    /// Chunks that come over time, as the answer to one call.
    Stream(Box<dyn BodyChunks>),
    /// Chunks that come as long as the client listens.
    LongStream(Box<dyn BodyChunks>),
}

/// Bytes in pieces, given to the wire at once: a last brace written alone would cost one more packet.
#[derive(Debug, Default)]
pub(crate) struct BodyPieces(SmallVec<[Bytes; 3]>);

impl Buf for BodyPieces {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.iter().find(|piece| !piece.is_empty()).map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.0.iter().filter(|piece| !piece.is_empty());
        let filled = slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece));
        filled.count()
    }

    fn advance(&mut self, mut count: usize) {
        for piece in &mut self.0 {
            let here = count.min(piece.len());
            piece.advance(here);
            count -= here;
        }
        assert_eq!(count, 0, "more than there is");
    }
}

/// Below this size one copy is cheaper than three pieces.
const WORTH_SPLITTING: usize = 16 << 10;

impl ResponseBody {
    /// No bytes.
    pub(crate) fn empty() -> Self {
        Self::one(Bytes::new())
    }

    /// One piece.
    pub(crate) fn one(bytes: Bytes) -> Self {
        ResponseBody::Parts(BodyPieces(SmallVec::from_iter([bytes])))
    }

    /// Pieces that are there already.
    pub(crate) fn pieces(pieces: [Bytes; 3]) -> Self {
        ResponseBody::Parts(BodyPieces(SmallVec::from(pieces)))
    }

    /// The pieces of a head, an object that may be large, `tail`. A large object is not copied.
    pub(crate) fn around(head: [&[u8]; 3], object: &JsonObject, tail: &'static [u8]) -> Self {
        let head_size: usize = head.iter().map(|piece| piece.len()).sum();
        if object.bytes().len() >= WORTH_SPLITTING {
            let head = small_buffer::write_small(head_size, |whole| {
                head.iter().for_each(|piece| whole.extend_from_slice(piece))
            });
            return Self::split(head, object, tail);
        }
        let size = head_size + object.bytes().len() + 2 + tail.len();
        Self::one(small_buffer::write_small(size, |whole| {
            head.iter().for_each(|piece| whole.extend_from_slice(piece));
            copy(object, whole);
            whole.extend_from_slice(tail);
        }))
    }

    /// The same in pieces.
    fn split(head: Bytes, object: &JsonObject, tail: &'static [u8]) -> Self {
        let mut parts = SmallVec::from_iter([head]);
        match object.is_whole() {
            true => parts.push(object.bytes().clone()),
            false => {
                let mut opening: &'static [u8] = b"{";
                for run in object.runs() {
                    parts.push(Bytes::from_static(std::mem::replace(&mut opening, b",")));
                    parts.push(run);
                }
                parts.push(Bytes::from_static(if opening == b"{" { b"{}" } else { b"}" }));
            }
        }
        parts.push(Bytes::from_static(tail));
        ResponseBody::Parts(BodyPieces(parts))
    }
}

/// Writes an object, without what is left out of it.
fn copy(object: &JsonObject, whole: &mut BytesMut) {
    if object.is_whole() {
        return whole.extend_from_slice(object.bytes());
    }
    let mut opening = b'{';
    for run in object.runs() {
        whole.put_u8(std::mem::replace(&mut opening, b','));
        whole.extend_from_slice(&run);
    }
    whole.extend_from_slice(if opening == b'{' { b"{}" } else { b"}" });
}

impl http_body::Body for ResponseBody {
    type Data = BodyPieces;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyPieces>, Infallible>>> {
        match self.get_mut() {
            ResponseBody::Parts(parts) => {
                let whole = parts.has_remaining().then(|| std::mem::take(parts));
                Poll::Ready(whole.map(|pieces| Ok(Frame::data(pieces))))
            }
            ResponseBody::Stream(chunks) | ResponseBody::LongStream(chunks) => {
                let chunk = std::task::ready!(chunks.poll_chunk(context));
                Poll::Ready(chunk.map(|bytes| Ok(Frame::data(BodyPieces(SmallVec::from_iter([bytes]))))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Parts(parts) => !parts.has_remaining(),
            ResponseBody::Stream(_) | ResponseBody::LongStream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Parts(parts) => SizeHint::with_exact(parts.remaining() as u64),
            ResponseBody::Stream(_) | ResponseBody::LongStream(_) => SizeHint::default(),
        }
    }
}

/// A piece of a request's body.
type IncomingFrame = Result<Frame<Bytes>, hyper::Error>;

/// Reads a request's body. One that arrives in one piece is not copied; bytes are counted as they come,
/// so that no client can make us hold more than `limit`, nor all together more than there is room for.
pub(crate) async fn collect(
    mut body: Incoming,
    version: Version,
    limit: usize,
    timeout: Duration,
    arriving: &BodyAdmission,
) -> Result<Bytes, HttpRefusal> {
    // A `Content-Length` beyond the limit is refused before anything is read.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // Most bodies are here already, in one piece: for them no timer is needed, nor room for what waits.
    let first = poll_fn(|context| Poll::Ready(first_frame(&mut body, version, context))).await;
    let first = match first {
        Poll::Pending => Bytes::new(),
        Poll::Ready(None) => return Ok(Bytes::new()),
        Poll::Ready(Some(frame)) => frame.map_err(|_| broken())?.into_data().unwrap_or_default(),
    };
    // The usual case: nothing was copied and nothing has to be counted.
    if body.is_end_stream() && first.len() <= limit {
        return Ok(first);
    }
    let reading = read(first, body, limit, arriving.room());
    // Boxed: the future of every request would otherwise have room for a slow body.
    Box::pin(tokio::time::timeout(timeout, reading)).await.unwrap_or_else(|_| Err(too_slow()))
}

/// What is here already of a body. Its connection is this task; it need not wake itself unless more is to come.
/// (That of HTTP/2 is another task, which must learn that there is room again.)
fn first_frame(body: &mut Incoming, version: Version, context: &mut Context<'_>) -> Poll<Option<IncomingFrame>> {
    if version > Version::HTTP_11 {
        return Pin::new(body).poll_frame(context);
    }
    let (frame, was_woken) = suppress_wakes(|| Pin::new(&mut *body).poll_frame(context));
    // Suppressed for good only at the end of the body; before it the connection has to go on reading.
    if was_woken && !body.is_end_stream() {
        context.waker().wake_by_ref();
    }
    frame
}

/// The whole body, of which `first` is here.
async fn read(first: Bytes, mut body: Incoming, limit: usize, mut room: AdmittedBytes) -> Result<Bytes, HttpRefusal> {
    let expected = body.size_hint().exact().unwrap_or(0) as usize;
    // At most `limit`: the length that a client announces is only a claim.
    let mut whole = BytesMut::with_capacity((first.len() + expected).min(limit));
    let mut next = Some(first);
    while let Some(more) = next {
        if whole.len() + more.len() > limit {
            return Err(too_large());
        }
        // Counted before it is copied, so that many slow uploads together stay within bounds.
        if !room.take(more.len()) {
            return Err(no_room());
        }
        whole.extend_from_slice(&more);
        next = next_data(&mut body).await?;
    }
    Ok(whole.freeze())
}

async fn next_data(body: &mut Incoming) -> Result<Option<Bytes>, HttpRefusal> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| broken())?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn too_large() -> HttpRefusal {
    HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, FaultCode::TooLarge, "the body is larger than allowed")
}

fn too_slow() -> HttpRefusal {
    HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, FaultCode::InvalidRequest, "the body did not arrive in time")
}

fn broken() -> HttpRefusal {
    HttpRefusal::bad_request("the body could not be read")
}

fn no_room() -> HttpRefusal {
    let message = "too many large bodies arrive at once: try again in a moment";
    HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message)
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(body: ResponseBody) -> String {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn pieces_go_to_the_wire_together_however_much_it_takes() {
        let pieces = ["ab", "", "cde", "f"].map(|piece| Bytes::from_static(piece.as_bytes()));
        for step in 1..=6 {
            let mut body = ResponseBody::Parts(BodyPieces(SmallVec::from_iter(pieces.clone())));
            let mut whole = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(body.frame().await.is_none(), "everything came at once");
            let mut written = Vec::new();
            while whole.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 2];
                let filled = whole.chunks_vectored(&mut slices);
                assert_eq!(&*slices[0], whole.chunk());
                let seen: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
                let taken = step.min(seen.len());
                written.extend_from_slice(&seen[..taken]);
                whole.advance(taken);
            }
            assert_eq!(written, b"abcdef");
        }
    }

    #[tokio::test]
    async fn an_object_is_written_alike_whole_and_in_pieces() {
        for size in [10, 2 * WORTH_SPLITTING] {
            let long = "x".repeat(size);
            let object = JsonObject::from(serde_json::json!({"a": 1, "b": long, "c": [2], "d": 3}));
            let empty = object.without_matching(|_| true);
            for object in [object.clone(), object.without("a"), object.without("c"), object.without("d"), empty] {
                let written = text(ResponseBody::around([b"<", b"", b"-"], &object, b">")).await;
                assert_eq!(written, format!("<-{}>", object.raw()));
            }
        }
    }
}
