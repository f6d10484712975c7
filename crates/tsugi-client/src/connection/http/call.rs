//! The upstream half of a call over HTTP: post, read the answer or the stream, resume a stream that broke.
//!
//! It never stops to ask. What the server says on the way, on this call's stream or on the session's own, arrives in the
//! call's slot, and the reply parks the call with this half inside.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::StatusCode;
use tsugi_protocol::answer::{Call, CallFailure, Fault, FaultCode, Outcome, Reply, SentState};
use tsugi_protocol::codec::sse::SseEvent;
use tsugi_protocol::era;
use tsugi_protocol::json::{ObjectWriter, lenient};
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::{ResponsePayload, RpcMessage, RpcNotification, RpcResponse, code, response_id};
use tsugi_transport::http::{BodyKind, EventStream, HttpResponse, headers};
use tsugi_transport::{TransportError, TransportErrorKind};

use super::super::in_flight::{CallArrival, CallWire, raise_level};
use super::super::notice::ServerNotice;
use super::super::reply::{CallReply, UpstreamHalf};
use super::super::turnstile::TurnPermit;
use super::super::{batch, parse_response, question_router};
use super::{HttpCore, HttpSession, trace_headers};
use crate::error::{call_fault, refused_fault};

/// How long to wait before resuming a stream, unless the server says otherwise.
const RESUME_AFTER: Duration = Duration::from_millis(1000);
/// The bounds of what a server may say.
const RESUME_SOONEST: Duration = Duration::from_millis(100);
const RESUME_LATEST: Duration = Duration::from_secs(60);
/// How often a stream that brings nothing new is resumed.
const MAX_RESUMES: u32 = 5;

/// Makes a call.
pub(super) fn start(core: &Arc<HttpCore>, call: Call, turn: Option<TurnPermit>) -> Reply {
    let slot = match core.table.open(&call) {
        Ok(slot) => slot,
        Err(fault) => return Reply::fault(fault),
    };
    let request = SentRequest {
        core: core.clone(),
        identity: core.session().identity,
        key: slot.key(),
        id: slot.key(),
        call: call.clone(),
    };
    let upstream: UpstreamHalf = match core.era() {
        Era::Modern => Box::pin(modern(request).map(ended(core))),
        Era::Legacy => Box::pin(legacy(request).map(ended(core))),
    };
    Reply::from_source(CallReply::new(core.clone(), slot, call, turn, Some(upstream)))
}

/// What becomes of a call, even when it fails. A function and not an `async` block, which would have room for the
/// exchange twice.
fn ended(core: &Arc<HttpCore>) -> impl FnOnce(Result<CallArrival, Fault>) -> CallArrival + use<> {
    let core = core.clone();
    move |arrival| {
        arrival.unwrap_or_else(|fault| CallArrival::Failed(Arc::new(fault.on_server(&core.table.context.server))))
    }
}

fn write(call: &Call, id: u64, era: Era) -> Bytes {
    let mut request = ObjectWriter::with_capacity(era::request_size(call));
    era::write_request(&mut request, id, call, era);
    request.finish_line().freeze()
}

// Every call allocates and moves this future, so whatever is rare in it is boxed.
async fn modern(request: SentRequest) -> Result<CallArrival, Fault> {
    let known = *request.core.lessons.borrow();
    let response = request.core.post_modern(&request.call, request.id).await?;
    let may_mismatch = response.status == StatusCode::BAD_REQUEST && request.call.method == Method::ToolsCall;
    let arrival = request.read(response).await?;
    if !may_mismatch || !is_header_mismatch(&arrival) {
        return Ok(arrival);
    }
    Box::pin(repeat_with_headers(request, known, arrival)).await
}

/// Makes a call again that was refused for its headers, once: it was not made
/// ([Client Behavior](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#client-behavior)).
async fn repeat_with_headers(mut request: SentRequest, known: u64, refused: CallArrival) -> Result<CallArrival, Fault> {
    let core = request.core.clone();
    if !core.learn_headers(known).await {
        return Ok(refused);
    }
    // The slot only lends its number: an id is used once.
    let again = core.table.open_own()?;
    request.id = again.key();
    let response = core.post_modern(&request.call, request.id).await?;
    request.read(response).await
}

fn is_header_mismatch(arrival: &CallArrival) -> bool {
    let CallArrival::Done(outcome) = arrival else { return false };
    matches!(&**outcome, Outcome::Failed(CallFailure::Upstream(error)) if error.code() == code::HEADER_MISMATCH)
}

async fn legacy(mut request: SentRequest) -> Result<CallArrival, Fault> {
    raise_level(&request.core, &request.call);
    let session = request.core.session();
    let message = write(&request.call, request.id, Era::Legacy);
    let mut response = request.core.post_legacy(&message, &session, Some(&request.call)).await?;
    if response.status == StatusCode::NOT_FOUND && session.id.is_some() {
        response = Box::pin(request.repeat_in_new_session(&session, &message)).await?;
    }
    if response.kind() == BodyKind::Other && response.status == StatusCode::ACCEPTED {
        // The answer comes on the session's own stream, into the slot.
        return std::future::pending().await;
    }
    request.read(response).await
}

/// A call whose request was sent. In the modern era dropping it closes the stream, which cancels.
struct SentRequest {
    core: Arc<HttpCore>,
    identity: Arc<ServerIdentity>,
    /// The key of the call's slot.
    key: u64,
    /// The id of the request: the key, unless it had to be sent twice.
    id: u64,
    call: Call,
}

impl SentRequest {
    /// Sends a legacy call again whose session the server forgot: it did nothing with the call
    /// ([Session Management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management)).
    async fn repeat_in_new_session(&mut self, forgotten: &HttpSession, message: &Bytes) -> Result<HttpResponse, Fault> {
        self.core.reopen(forgotten).await?;
        let session = self.core.session();
        let response = self.core.post_legacy(message, &session, Some(&self.call)).await?;
        self.identity = session.identity;
        Ok(response)
    }

    async fn read(&self, response: HttpResponse) -> Result<CallArrival, Fault> {
        match response.kind() {
            BodyKind::Json => self.read_body(response).await,
            BodyKind::Events if response.status.is_success() => {
                Box::pin(ResponseStream::of(response)?.follow(self)).await
            }
            _ => Err(self.core.not_an_answer(&response)),
        }
    }

    /// The line with the answer. The reply reads it when its id is the call's key.
    fn answer(&self, line: Bytes) -> CallArrival {
        if self.id == self.key {
            return CallArrival::Answer(line);
        }
        let context = &self.core.table.context;
        CallArrival::Done(Box::new(parse_response::answer(context, &self.identity, &self.call, self.id, line)))
    }

    /// The answer as one body.
    async fn read_body(&self, response: HttpResponse) -> Result<CallArrival, Fault> {
        let status = response.status;
        let refusal = (!status.is_success()).then(|| response.status_error());
        let mut body = response.bytes().await.map_err(|error| call_fault(&error))?;
        if let Some(messages) = batch::messages(&body) {
            body = self.take_all(messages).answer.unwrap_or(body);
        }
        let Some(refusal) = refusal else { return Ok(self.answer(body)) };
        // A status that is not a success, with a body that may hold the server's own error.
        match RpcMessage::parse(body) {
            Ok(RpcMessage::Response(RpcResponse { body: ResponsePayload::Error(error), .. })) if is_for_now(status) => {
                Err(refused_fault(&refusal, &error))
            }
            Ok(RpcMessage::Response(response)) => {
                let context = &self.core.table.context;
                let outcome = parse_response::of_body(context, &self.identity, &self.call, response.body);
                Ok(CallArrival::Done(Box::new(outcome)))
            }
            _ => Err(call_fault(&refusal)),
        }
    }

    /// Takes messages of the server that come before the answer or with it.
    fn take_all(&self, messages: Vec<Bytes>) -> ReceivedBatch {
        let mut received = ReceivedBatch { answer: None, has_message: false };
        for text in messages {
            let message = RpcMessage::parse(text.clone());
            received.has_message |= message.is_ok();
            match message {
                Ok(RpcMessage::Response(response)) => {
                    let is_ours = response.id.as_ref().and_then(|id| id.as_u64()) == Some(self.id);
                    received.answer = received.answer.or(is_ours.then_some(text));
                }
                Ok(RpcMessage::Notification(note)) => self.take_note(note),
                // On this call's own stream there is no doubt whose question it is. A modern server has no requests.
                Ok(RpcMessage::Request(request)) if self.is_legacy() => {
                    question_router::take_request(&self.core, request, Some(self.key));
                }
                Ok(RpcMessage::Request(_)) => {}
                // The caller gets the reason why it cannot be read, rather than that there was no answer.
                Err(_) if lenient::response_id(&text) == Some(self.id) => {
                    received.answer = received.answer.or(Some(text));
                }
                Err(error) => {
                    tracing::debug!(server = %self.core.table.context.server, %error, "skipped what is not a message");
                }
            }
        }
        received
    }

    fn is_legacy(&self) -> bool {
        self.identity.version.era() == Era::Legacy
    }

    fn take_note(&self, note: RpcNotification) {
        if note.method == Method::Cancelled && self.is_legacy() {
            return question_router::withdraw(&self.core, &note);
        }
        // On a listen stream changes are what was asked for; elsewhere they are about the whole server.
        if self.call.method != Method::Listen
            && let Some(notice) = ServerNotice::of(&note)
        {
            return self.core.table.context.publish(notice);
        }
        self.core.table.note(self.key, note);
    }
}

/// What messages of the server led to.
struct ReceivedBatch {
    /// The line with the answer.
    answer: Option<Bytes>,
    /// At least one of them was a message.
    has_message: bool,
}

/// Statuses of servers that ask to wait. Their error is a refusal and not an answer.
fn is_for_now(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// The event stream of a call.
struct ResponseStream {
    events: EventStream,
    last_id: Option<String>,
    retry: Duration,
    resumes: u32,
    /// Set once anything came that is a message.
    has_message: bool,
}

impl ResponseStream {
    fn of(response: HttpResponse) -> Result<Self, Fault> {
        let events = response.events().map_err(|error| call_fault(&error))?;
        Ok(Self { events, last_id: None, retry: RESUME_AFTER, resumes: 0, has_message: false })
    }

    /// Reads to the answer.
    async fn follow(mut self, request: &SentRequest) -> Result<CallArrival, Fault> {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => {
                    if let Some(line) = self.take(request, event) {
                        self.events.drain();
                        return Ok(request.answer(line));
                    }
                }
                Some(Err(error)) if error.kind != TransportErrorKind::Lost => return Err(call_fault(&error)),
                Some(Err(error)) => self.resume(request, Some(&error)).await?,
                None => self.resume(request, None).await?,
            }
        }
    }

    /// Takes one event; returns the line when it is the answer.
    fn take(&mut self, request: &SentRequest, event: SseEvent) -> Option<Bytes> {
        if let Some(id) = event.id.filter(|id| self.last_id.as_ref() != Some(id)) {
            self.last_id = Some(id);
            self.resumes = 0;
        }
        if let Some(retry) = event.retry {
            self.retry = Duration::from_millis(retry).clamp(RESUME_SOONEST, RESUME_LATEST);
        }
        // A priming event has an id and no data.
        if event.data.is_empty() {
            return None;
        }
        // The reply validates the answer; parsing it here as well would do that work twice.
        if response_id::response_id(&event.data) == Some(request.id) {
            self.has_message = true;
            return Some(event.data);
        }
        let received = request.take_all(batch::messages_or_one(event.data));
        self.has_message |= received.has_message;
        received.answer
    }

    /// A legacy stream that ended without the answer goes on where it stopped, if it said where that is
    /// ([Resumability](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery)).
    async fn resume(&mut self, request: &SentRequest, error: Option<&TransportError>) -> Result<(), Fault> {
        let lost = match error {
            Some(error) => call_fault(error),
            None if self.has_message || self.last_id.is_some() => {
                Fault::new(FaultCode::ConnectionLost, "the server ended the stream without an answer")
            }
            None => Fault::new(FaultCode::InvalidResponse, "the server answered with a stream without a message"),
        };
        // Whatever the resumption meets, the call itself was made.
        let lost = lost.sent(SentState::Unknown);
        let last_id = self.last_id.as_deref().and_then(headers::verbatim);
        let Some(last_id) = last_id.filter(|_| request.is_legacy() && self.resumes < MAX_RESUMES) else {
            return Err(lost);
        };
        self.resumes += 1;
        tokio::time::sleep(self.retry).await;
        let mut map = request.core.legacy_headers(&request.core.session());
        map.insert(headers::LAST_EVENT_ID, last_id);
        let because = |error: TransportError| lost.clone().because(call_fault(&error));
        let response = request.core.client.get(map).await.map_err(because)?;
        if !response.status.is_success() || response.kind() != BodyKind::Events {
            return Err(lost);
        }
        self.events = response.events().map_err(because)?;
        Ok(())
    }
}

impl HttpCore {
    async fn post_modern(&self, call: &Call, id: u64) -> Result<HttpResponse, Fault> {
        let response = self.client.post(write(call, id, Era::Modern), self.modern_headers(call)?).await;
        response.map_err(|error| self.wire_fault(&error))
    }

    async fn post_legacy(
        &self,
        message: &Bytes,
        session: &HttpSession,
        call: Option<&Call>,
    ) -> Result<HttpResponse, Fault> {
        let mut headers = self.legacy_headers(session);
        if let Some(call) = call {
            trace_headers::add(&mut headers, call);
        }
        let response = self.client.post(message.clone(), headers).await;
        response.map_err(|error| self.wire_fault(&error))
    }

    /// Posts the answer to a server's question. The call that made it ask was made, whatever comes of the answer.
    pub(super) async fn post_answer(&self, answer: Bytes) -> Result<(), Fault> {
        let posted = self.post_legacy(&answer, &self.session(), None).await;
        let refusal = match posted {
            Ok(response) if response.status.is_success() => return Ok(()),
            Ok(response) => call_fault(&response.status_error()),
            Err(fault) => fault,
        };
        // A code such as OVERLOADED would say that nothing was sent.
        let message = "the answer to the server's question could not be delivered";
        let fault = self.table.context.fault(FaultCode::ConnectionLost, format!("{message}: {}", refusal.message));
        Err(fault.because(refusal))
    }

    fn wire_fault(&self, error: &TransportError) -> Fault {
        let fault = call_fault(error).on_server(&self.table.context.server);
        if error.kind == TransportErrorKind::Connect {
            self.unreachable(&fault);
        }
        fault
    }

    fn not_an_answer(&self, response: &HttpResponse) -> Fault {
        if !response.status.is_success() {
            return call_fault(&response.status_error());
        }
        let kind = response.header("content-type").unwrap_or("nothing");
        let message = format!("the server answered with {kind}, not with a message");
        self.table.context.fault(FaultCode::InvalidResponse, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_output<A, F: Future>(_: fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_call_has_no_room_for_what_is_rare() {
        for size in [size_of_output(modern), size_of_output(legacy)] {
            assert!(size <= 3200, "{size} bytes are allocated and moved for every call");
        }
    }
}
