//! The legacy era over HTTP: sessions, answers as JSON or as a stream, a stream for changes
//! ([Streamable HTTP](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http)).

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tsugi_protocol::answer::{self, Caller, FaultCode};
use tsugi_protocol::mcp::{Method, ProtocolVersion};
use tsugi_protocol::rpc::{RpcError, RpcMessage, code};
use tsugi_rt::coarse_timer::CoarseTimer;

use super::client_session::ClientSession;
use super::replay::{ReplayReader, ReplaySource};
use crate::backend::Endpoint;
use crate::body::{BodyChunks, ResponseBody};
use crate::drain::BusyGuard;
use crate::face::event::{self, KeepAliveTicks};
use crate::face::legacy_session::{self, LegacyChangeWatch, LegacyTurn, MessageEffect, batch};
use crate::face::running_call::TurnOutput;
use crate::face::{FaceRequest, fault, http, trace};
use crate::gateway::{self, Gateway, StreamEnd};
use crate::guard::origin::{SingleHeader, single};
use crate::guard::refusal::HttpRefusal;

static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How soon a client whose stream broke should come back.
const RETRY: Duration = Duration::from_secs(1);

/// True when the head alone shows that a request belongs to a legacy session.
pub(super) fn is_in_session(headers: &HeaderMap) -> bool {
    headers.contains_key(&SESSION_ID)
        && headers.get(&super::PROTOCOL_VERSION).is_some_and(|version| super::is_legacy(version.as_bytes()))
}

/// Takes a message of the legacy era to its session.
pub(super) fn receive(
    face_request: &FaceRequest<'_>,
    place: Option<&str>,
    message: RpcMessage,
) -> Result<(Arc<ClientSession>, MessageEffect), HttpRefusal> {
    let session = find(face_request, place)?;
    let message = trace::onto(&face_request.parts.headers, message);
    let received =
        session.conversation.receive(message, face_request.principal.caller(), face_request.options("legacy"));
    Ok((session, received))
}

/// Opens a session.
pub(super) async fn initialize(
    face_request: FaceRequest<'_>,
    endpoint: Endpoint,
    place: Option<String>,
    request: &tsugi_protocol::rpc::RpcRequest,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let limits = &face_request.gateway.config().limits;
    // What servers keep for it ends with it, also when it does not come about.
    let life = answer::SessionLifetime::of(face_request.principal.caller());
    let options = face_request.options("legacy");
    let begun = legacy_session::begin(endpoint.answer, life.caller().clone(), limits, request, options).await;
    let (conversation, response) = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(fault::rpc_error(StatusCode::OK, Some(&request.id), &error)),
    };
    let id = face_request.gateway.sessions().insert(&face_request.principal, place, conversation, life)?;
    let mut response = http::json(StatusCode::OK, ResponseBody::one(response));
    let id = HeaderValue::from_str(&id).expect("session ids are plain text");
    response.headers_mut().insert(&SESSION_ID, id);
    Ok(response)
}

/// The session that a request names. The session of another caller is not found.
fn find(face_request: &FaceRequest<'_>, place: Option<&str>) -> Result<Arc<ClientSession>, HttpRefusal> {
    let id = session_id(face_request)?;
    let session = face_request.gateway.sessions().find(id, &face_request.principal, place);
    session.ok_or_else(|| HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "session not found"))
}

fn session_id<'a>(face_request: &'a FaceRequest<'_>) -> Result<&'a str, HttpRefusal> {
    match single(&face_request.parts.headers, &SESSION_ID) {
        SingleHeader::One(id) => Ok(id),
        SingleHeader::None => Err(HttpRefusal::bad_request("the Mcp-Session-Id header is missing")),
        SingleHeader::Odd => Err(HttpRefusal::bad_request("exactly one Mcp-Session-Id header is needed")),
    }
}

/// Answers a message that a session took.
pub(super) async fn answer(
    face_request: Box<FaceRequest<'_>>,
    session: Arc<ClientSession>,
    received: MessageEffect,
) -> Response<ResponseBody> {
    let mut turn = match received {
        MessageEffect::Nothing => return http::empty(StatusCode::ACCEPTED),
        MessageEffect::Answered(response) => return http::json(StatusCode::OK, ResponseBody::one(response)),
        MessageEffect::Turn(turn) => turn,
    };
    // A refusal for want of scope is there at once, and its status must not be that of a stream.
    let early =
        if face_request.gateway.guard().scoped_resources().is_some() { turn.next().now_or_never() } else { None };
    match early {
        Some(TurnOutput::Response(response)) => return response.into_response(),
        Some(TurnOutput::Silence) => return http::empty(StatusCode::ACCEPTED),
        Some(TurnOutput::Message(message)) => return stream(*face_request, session, vec![*turn], Some(message)),
        None => {}
    }
    // Some clients ask for a stream first and for JSON second.
    if http::prefers_events(&face_request.parts.headers) {
        return stream(*face_request, session, vec![*turn], None);
    }
    let mut kept = DetachableTurns { turn: Some(turn), gateway: face_request.gateway.clone() };
    let patience = face_request.gateway.config().limits.patience;
    match first(&mut kept, session.conversation.version(), patience, face_request.gateway.alarm()).await {
        FirstOutput::Said(TurnOutput::Response(response)) => {
            kept.turn = None;
            response.into_response()
        }
        FirstOutput::Said(TurnOutput::Silence) => {
            kept.turn = None;
            http::empty(StatusCode::ACCEPTED)
        }
        FirstOutput::Said(TurnOutput::Message(message)) => stream(*face_request, session, kept.take(), Some(message)),
        FirstOutput::Quiet => stream(*face_request, session, kept.take(), None),
    }
}

enum FirstOutput {
    Said(TurnOutput),
    /// Nothing came; a client that can come back to a stream gets one now.
    Quiet,
}

async fn first(
    kept: &mut DetachableTurns,
    version: ProtocolVersion,
    patience: Duration,
    alarm: &CoarseTimer,
) -> FirstOutput {
    let Some(turn) = &mut kept.turn else { return FirstOutput::Said(TurnOutput::Silence) };
    // Only clients of this revision know how to come back to a stream.
    if version < ProtocolVersion::V2025_11_25 {
        return FirstOutput::Said(turn.next().await);
    }
    let until = tokio::time::Instant::now() + patience;
    match alarm.timeout_at(until, turn.next()).await {
        Some(said) => FirstOutput::Said(said),
        None => FirstOutput::Quiet,
    }
}

/// A turn whose client may vanish: it then goes on by itself, since a disconnect does not cancel a request in this era.
struct DetachableTurns {
    turn: Option<Box<LegacyTurn>>,
    gateway: Arc<Gateway>,
}

impl DetachableTurns {
    fn take(&mut self) -> Vec<LegacyTurn> {
        self.turn.take().map(|turn| *turn).into_iter().collect()
    }
}

impl Drop for DetachableTurns {
    fn drop(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        // Nothing can fetch the answer any more.
        if turn.conversation().is_over() {
            return;
        }
        self.gateway.run_detached(async move { while let TurnOutput::Message(_) = turn.next().await {} });
    }
}

/// Answers these requests on a stream that the client can come back to.
fn stream(
    face_request: FaceRequest<'_>,
    session: Arc<ClientSession>,
    turns: Vec<LegacyTurn>,
    first: Option<Bytes>,
) -> Response<ResponseBody> {
    // Older clients would take an event without data for a broken message.
    let is_primed = session.conversation.version() >= ProtocolVersion::V2025_11_25;
    let replay = session.open(ReplaySource::Turns(turns), face_request.principal.caller());
    let greeting = is_primed.then(|| event::priming(&replay.start_id(), RETRY));
    // It was polled out of the turn already, so it has to be replayed first.
    if let Some(first) = first {
        replay.push(&first);
    }
    let keep_alive = KeepAliveTicks::new(face_request.gateway.config().limits.keep_alive);
    let reader = replay.read(0);
    http::events(SessionStream {
        gateway: face_request.gateway.clone(),
        greeting,
        reader,
        keep_alive,
        _session: session,
        _busy: Some(face_request.busy_guard),
        closing: None,
        _room: None,
    })
}

/// Answers a batch, which only one revision has.
pub(super) async fn post_batch(
    face_request: FaceRequest<'_>,
    place: Option<&str>,
    bytes: &Bytes,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let session = match find(&face_request, place) {
        Ok(session) if session.conversation.version() == ProtocolVersion::V2025_03_26 => session,
        _ => return Ok(refuse_batch(&RpcError::new(code::INVALID_REQUEST, "only 2025-03-26 has batches"))),
    };
    let messages = match read_batch(bytes, face_request.gateway.config().limits.batch) {
        Ok(messages) => messages,
        Err(error) => return Ok(refuse_batch(&error)),
    };
    let (mut turns, mut answers) = (Vec::new(), Vec::new());
    for message in messages {
        let message = trace::onto(&face_request.parts.headers, message);
        match session.conversation.receive(message, face_request.principal.caller(), face_request.options("legacy")) {
            MessageEffect::Nothing => {}
            MessageEffect::Answered(answer) => answers.push(answer),
            MessageEffect::Turn(turn) => turns.push(*turn),
        }
    }
    if turns.is_empty() && answers.is_empty() {
        return Ok(http::empty(StatusCode::ACCEPTED));
    }
    if !http::accepts_events(&face_request.parts.headers) {
        // In a task of its own, since a disconnect is no cancellation in this era.
        return match face_request.gateway.run_detached(batch::joined(answers, turns)).await {
            Ok(Some(joined)) => Ok(http::json(StatusCode::OK, ResponseBody::one(joined))),
            Ok(None) => Err(gateway::draining()),
            Err(_) => Err(gateway::panicked("a batch")),
        };
    }
    // Every request of the batch was answered at once.
    let is_over = turns.is_empty();
    let replay = session.open(ReplaySource::Turns(turns), face_request.principal.caller());
    answers.iter().for_each(|answer| replay.push(answer));
    if is_over {
        replay.end();
    }
    let keep_alive = KeepAliveTicks::new(face_request.gateway.config().limits.keep_alive);
    let reader = replay.read(0);
    Ok(http::events(SessionStream {
        gateway: face_request.gateway.clone(),
        greeting: None,
        reader,
        keep_alive,
        _session: session,
        _busy: Some(face_request.busy_guard),
        closing: None,
        _room: None,
    }))
}

fn read_batch(bytes: &Bytes, limit: usize) -> Result<Vec<RpcMessage>, RpcError> {
    let mut messages = Vec::new();
    for bytes in batch::split(bytes, limit)? {
        let message = RpcMessage::parse(bytes).map_err(|error| super::unreadable_error(&error))?;
        if matches!(&message, RpcMessage::Request(request) if request.method == Method::Initialize) {
            return Err(RpcError::new(code::INVALID_REQUEST, "initialize must not be in a batch"));
        }
        messages.push(message);
    }
    Ok(messages)
}

fn refuse_batch(error: &RpcError) -> Response<ResponseBody> {
    fault::rpc_error(StatusCode::BAD_REQUEST, None, error)
}

/// Opens the stream for changes, or comes back to one that broke.
pub(super) fn get(face_request: FaceRequest<'_>, place: Option<&str>) -> Result<Response<ResponseBody>, HttpRefusal> {
    let headers = &face_request.parts.headers;
    if !http::accepts_events(headers) {
        let message = "this address answers GET with text/event-stream";
        return Err(HttpRefusal::new(StatusCode::NOT_ACCEPTABLE, FaultCode::InvalidRequest, message));
    }
    let session = find(&face_request, place)?;
    // After the session was found, so that an unknown session does not cost room.
    let room = face_request.gateway.take_stream()?;
    let reader = match single(headers, &LAST_EVENT_ID) {
        SingleHeader::One(last) => resume(&session, face_request.principal.caller(), last)?,
        SingleHeader::None => {
            let watch = LegacyChangeWatch::new(session.conversation.clone(), face_request.principal.caller());
            session.standing.feed(ReplaySource::Watch(watch), face_request.principal.caller());
            session.standing.read_new()
        }
        SingleHeader::Odd => return Err(HttpRefusal::bad_request("exactly one Last-Event-ID header is needed")),
    };
    let keep_alive = KeepAliveTicks::new(face_request.gateway.config().limits.keep_alive);
    let greeting = Some(event::COMMENT);
    let closing =
        face_request.gateway.until_dismissed(face_request.gateway.drain().draining(), &face_request.principal);
    Ok(http::long_events(SessionStream {
        gateway: face_request.gateway.clone(),
        greeting,
        reader,
        keep_alive,
        _session: session,
        _busy: None,
        closing: Some(closing),
        _room: Some(room),
    }))
}

fn resume(session: &ClientSession, caller: &Caller, last: &str) -> Result<ReplayReader, HttpRefusal> {
    let place = last.split_once('-').and_then(|(stream, event)| Some((stream.parse().ok()?, event.parse().ok()?)));
    let (stream, event): (u64, u64) = place.ok_or(HttpRefusal::bad_request("the Last-Event-ID is not one of ours"))?;
    let unknown =
        || HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "this stream is no longer kept");
    let replay = session.stream(stream).ok_or_else(unknown)?;
    // The client missed changes while it was away; they are made up for before it listens again.
    if stream == session.standing.number() {
        let watch = LegacyChangeWatch::new(session.conversation.clone(), caller);
        let missed = watch.catch_up();
        replay.feed(ReplaySource::Watch(watch), caller);
        missed.iter().for_each(|change| replay.push(change));
    }
    // The session is its owner's; what a stream holds was made for one request.
    replay.expect_reader(caller)?;
    Ok(replay.read(event))
}

/// Ends a session.
pub(super) fn delete(
    face_request: &FaceRequest<'_>,
    place: Option<&str>,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    find(face_request, place)?;
    face_request.gateway.sessions().remove(session_id(face_request)?);
    Ok(http::empty(StatusCode::OK))
}

/// A reader on its way to the client.
struct SessionStream {
    gateway: Arc<Gateway>,
    greeting: Option<Bytes>,
    reader: ReplayReader,
    keep_alive: KeepAliveTicks,
    /// Held so that the session is not taken for unused.
    _session: Arc<ClientSession>,
    /// Stopping waits for requests, not for streams of changes.
    _busy: Option<BusyGuard>,
    /// Streams of changes end when we begin to stop, and when their caller is not let in any more.
    closing: Option<StreamEnd>,
    /// A stream that stays open takes room that others may lack.
    _room: Option<OwnedSemaphorePermit>,
}

impl SessionStream {
    fn is_closing(&mut self, context: &mut Context<'_>) -> bool {
        self.closing.as_mut().is_some_and(|closing| closing.as_mut().poll(context).is_ready())
    }
}

impl BodyChunks for SessionStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(greeting));
        }
        match self.reader.poll(context) {
            Poll::Ready(event) => {
                self.keep_alive.reset();
                Poll::Ready(event)
            }
            Poll::Pending if self.is_closing(context) => Poll::Ready(None),
            Poll::Pending => self.keep_alive.poll(context).map(Some),
        }
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.reader.leave(&self.gateway);
    }
}
