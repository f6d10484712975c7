//! HTTP+SSE of 2024-11-05: a stream to listen on, an address to post to
//! ([HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse)).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use ::http::{Response, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tsugi_protocol::answer::{CallOwner, Caller, FaultCode};

use super::event::{self, KeepAliveTicks};
use super::peer::ClientPeer;
use super::{FaceRequest, http, trace};
use crate::backend::Endpoint;
use crate::body::{BodyChunks, ResponseBody};
use crate::gateway::StreamEnd;
use crate::guard::refusal::HttpRefusal;

/// How many posted messages may wait for the stream to take them.
const INBOX: usize = 256;
/// How many bytes of them may: two of the largest, so that a client that does not read holds little.
const INBOX_BYTES: usize = 8 << 20;

/// The open streams, by the id that their clients post to.
#[derive(Default)]
pub(crate) struct SseStreamTable(Mutex<HashMap<String, SsePostTarget>>);

struct SsePostTarget {
    owner: CallOwner,
    inbox: mpsc::Sender<PostedMessage>,
    waiting: Arc<AtomicUsize>,
}

/// A message, and the sender of the request that brought it: what it may do is decided by that request.
struct PostedMessage {
    bytes: Bytes,
    sender: Caller,
    /// Where it came from, if a policy looks at that.
    address: Option<IpAddr>,
}

/// Opens a stream and tells where to post.
pub(crate) fn open(face_request: &FaceRequest<'_>, endpoint: Endpoint) -> Result<Response<ResponseBody>, HttpRefusal> {
    let gateway = face_request.gateway.clone();
    let limits = &gateway.config().limits;
    let random: [u8; 18] = rand::random();
    let id = BASE64_URL_SAFE_NO_PAD.encode(random);
    let (inbox, posted) = mpsc::channel(INBOX);
    let caller = face_request.principal.caller();
    let room = gateway.take_stream()?;
    let waiting: Arc<AtomicUsize> = Arc::default();
    let posts = SsePostTarget { owner: caller.owner().clone(), inbox, waiting: waiting.clone() };
    gateway.sse_streams().0.lock().insert(id.clone(), posts);
    let peer = ClientPeer::new(endpoint.answer, caller, Arc::new(limits.clone())).until(gateway.drain());
    let greeting = Some(event::named("endpoint", &format!("/messages?sessionId={id}")));
    let keep_alive = KeepAliveTicks::new(limits.keep_alive);
    let closing = gateway.until_dismissed(gateway.drain().closing().clone().cancelled_owned(), &face_request.principal);
    Ok(http::long_events(PeerStream { id, greeting, posted, waiting, peer, keep_alive, closing, _room: room, gateway }))
}

/// Takes a posted message for a stream. The stream of another caller is not found.
pub(crate) fn post(face_request: &FaceRequest<'_>, bytes: Bytes) -> Result<Response<ResponseBody>, HttpRefusal> {
    let query = face_request.parts.uri.query().unwrap_or_default();
    let id = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "sessionId" || key == "session_id");
    let (_, id) = id.ok_or(HttpRefusal::bad_request("the query must name the sessionId"))?;
    let streams = face_request.gateway.sse_streams().0.lock();
    let posted = streams.get(id.as_ref()).filter(|posted| posted.owner == *face_request.principal.caller().owner());
    let unknown = || HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "session not found");
    let most = face_request.gateway.config().limits.batch;
    let bytes = trace::onto_bytes(&face_request.parts.headers, bytes, most);
    let message = PostedMessage {
        bytes,
        sender: face_request.principal.caller().clone(),
        address: face_request.policy_address(),
    };
    match posted.ok_or_else(unknown)?.put(message) {
        Ok(()) => Ok(http::text(StatusCode::ACCEPTED, "Accepted")),
        Err(mpsc::error::TrySendError::Closed(_)) => Err(unknown()),
        Err(mpsc::error::TrySendError::Full(_)) => {
            let message = "this client does not read its stream";
            Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message))
        }
    }
}

impl SsePostTarget {
    /// Puts a message where the stream will find it, unless too much waits there.
    fn put(&self, message: PostedMessage) -> Result<(), mpsc::error::TrySendError<PostedMessage>> {
        let size = message.bytes.len();
        if self.waiting.fetch_add(size, Ordering::SeqCst) + size > INBOX_BYTES {
            self.waiting.fetch_sub(size, Ordering::SeqCst);
            return Err(mpsc::error::TrySendError::Full(message));
        }
        self.inbox.try_send(message).inspect_err(|_| _ = self.waiting.fetch_sub(size, Ordering::SeqCst))
    }
}

struct PeerStream {
    id: String,
    greeting: Option<Bytes>,
    posted: mpsc::Receiver<PostedMessage>,
    waiting: Arc<AtomicUsize>,
    peer: ClientPeer,
    keep_alive: KeepAliveTicks,
    closing: StreamEnd,
    _room: OwnedSemaphorePermit,
    gateway: Arc<crate::gateway::Gateway>,
}

impl PeerStream {
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        while let Poll::Ready(Some(posted)) = self.posted.poll_recv(context) {
            self.waiting.fetch_sub(posted.bytes.len(), Ordering::SeqCst);
            if let Some(answer) = self.peer.receive_from(posted.bytes, &posted.sender, posted.address) {
                return Poll::Ready(answer);
            }
        }
        self.peer.poll_next(context)
    }
}

impl BodyChunks for PeerStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(greeting));
        }
        match self.poll_message(context) {
            Poll::Ready(message) => {
                self.keep_alive.reset();
                // Clients of that revision look at the event's name.
                let mut event = Vec::from(&b"event: message\n"[..]);
                event.extend_from_slice(&event::message(&message));
                Poll::Ready(Some(event.into()))
            }
            Poll::Pending if self.closing.as_mut().poll(context).is_ready() => Poll::Ready(None),
            Poll::Pending => self.keep_alive.poll(context).map(Some),
        }
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        self.gateway.sse_streams().0.lock().remove(&self.id);
    }
}
