//! One call over HTTP: post, read the answer or the stream, resume a stream that broke, ask when asked.
//!
//! A call has two halves. The *upstream* half posts the request and follows the answer; it never stops to
//! ask. What the server asks on the way, on this call's stream or on the session's own, arrives in the
//! call's *mailbox*, and the outer half parks the call with the upstream half inside.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::mpsc;
use tsugi_protocol::answer::{Call, CallFailure, Fault, FaultCode, NoteSink, Outcome, Reply, SentState};
use tsugi_protocol::codec::sse::SseEvent;
use tsugi_protocol::era;
use tsugi_protocol::json::{ObjectWriter, RawJson, lenient};
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::{
    RequestId, ResponsePayload, RpcMessage, RpcNotification, RpcRequest, RpcResponse, code, response_id,
};
use tsugi_transport::http::{BodyKind, EventStream, HttpResponse, headers};
use tsugi_transport::{TransportError, TransportErrorKind};

use super::super::batch;
use super::super::notice::ServerNotice;
use super::super::parked::{OpenQuestion, ParkedRest};
use super::super::parse_response;
use super::super::question_batch::QuestionBatch;
use super::super::stream::for_caller;
use super::in_flight::{CallDelivery, FlightGuard};
use super::{HttpCore, HttpSession, trace_headers};
use crate::error::{call_fault, refused_fault};

/// How long to wait before resuming a stream, unless the server says otherwise.
const RESUME_AFTER: Duration = Duration::from_millis(1000);
/// The bounds of what a server may say.
const RESUME_SOONEST: Duration = Duration::from_millis(100);
const RESUME_LATEST: Duration = Duration::from_secs(60);
/// How often a stream that gives nothing new is resumed.
const MAX_RESUMES: u32 = 5;
/// How many messages of the server may wait for a call.
const MAILBOX: usize = 16;

/// Runs a call to its outcome.
pub(super) async fn run(shared: Arc<HttpCore>, call: Call, notes: NoteSink) -> Outcome {
    let id = shared.next_id();
    if shared.era() == Era::Modern {
        let _flight = shared.flights.take_off(id, &call, None);
        let outcome = tokio::select! {
            outcome = modern(&shared, call, id, notes) => outcome,
            () = shared.closed.cancelled() => Err(shared.stopped()),
        };
        return outcome.unwrap_or_else(|fault| Outcome::fault(fault.on_server(&shared.context.server)));
    }
    let (sender, mailbox) = mpsc::channel(MAILBOX);
    let flight = shared.flights.take_off(id, &call, Some(sender.clone()));
    let upstream = Box::pin(legacy(shared.clone(), call.clone(), id, notes.clone(), sender));
    LegacyExchange { shared, call, id, notes, upstream, mailbox, lacking: None, gathering: None, flight: Some(flight) }
        .drive()
        .await
}

fn write(call: &Call, id: u64, era: Era) -> Bytes {
    let mut request = ObjectWriter::with_capacity(era::request_size(call));
    era::write_request(&mut request, id, call, era);
    request.finish_line().freeze()
}

async fn modern(shared: &Arc<HttpCore>, call: Call, id: u64, notes: NoteSink) -> Result<Outcome, Fault> {
    let known = *shared.lessons.borrow();
    let response = shared.post_modern(&call, id).await?;
    if response.status != StatusCode::BAD_REQUEST || call.method != Method::ToolsCall {
        return read_modern(shared, call, id, notes, response).await;
    }
    let outcome = read_modern(shared, call.clone(), id, notes.clone(), response).await?;
    if !is_header_mismatch(&outcome) || !shared.learn_headers(known).await {
        return Ok(outcome);
    }
    // A call that was refused for its headers was not made, so it is made again, once
    // ([Client Behavior](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#client-behavior)).
    let id = shared.next_id();
    let response = shared.post_modern(&call, id).await?;
    read_modern(shared, call, id, notes, response).await
}

fn is_header_mismatch(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(CallFailure::Upstream(error)) if error.code() == code::HEADER_MISMATCH)
}

async fn read_modern(
    shared: &Arc<HttpCore>,
    call: Call,
    id: u64,
    notes: NoteSink,
    response: HttpResponse,
) -> Result<Outcome, Fault> {
    let identity = shared.session().identity;
    let mut sent = SentRequest { shared: shared.clone(), identity, id, call, cancel: None, mail: None };
    match response.kind() {
        BodyKind::Json => sent.answer(response, &notes).await,
        BodyKind::Events if response.status.is_success() => ResponseStream::of(response)?.follow(sent, notes).await,
        _ => Err(shared.not_an_answer(&response)),
    }
}

async fn legacy(
    shared: Arc<HttpCore>,
    call: Call,
    id: u64,
    notes: NoteSink,
    mail: mpsc::Sender<CallDelivery>,
) -> Result<Outcome, Fault> {
    shared.raise_level(&call);
    let mut session = shared.session();
    let message = write(&call, id, Era::Legacy);
    let mut cancel = CancelGuard { shared: shared.clone(), id, is_armed: true };
    let mut response = shared.post_legacy(&message, &session, Some(&call)).await.inspect_err(|_| cancel.disarm())?;
    if response.status == StatusCode::NOT_FOUND && session.id.is_some() {
        // The server forgot the session, so it did nothing with the call
        // ([Session Management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management)).
        shared.reopen(&session).await?;
        session = shared.session();
        response = shared.post_legacy(&message, &session, Some(&call)).await?;
    }
    let identity = session.identity.clone();
    let mut sent = SentRequest { shared: shared.clone(), identity, id, call, cancel: Some(cancel), mail: Some(mail) };
    match response.kind() {
        BodyKind::Json => sent.answer(response, &notes).await,
        BodyKind::Events if response.status.is_success() => ResponseStream::of(response)?.follow(sent, notes).await,
        // Accepted: the answer comes on the session's own stream, into the mailbox.
        BodyKind::Other if response.status == StatusCode::ACCEPTED => std::future::pending().await,
        _ => {
            sent.ended();
            Err(shared.not_an_answer(&response))
        }
    }
}

type UpstreamHalf = Pin<Box<dyn Future<Output = Result<Outcome, Fault>> + Send>>;

/// A legacy call: the upstream half and what arrives beside it.
struct LegacyExchange {
    shared: Arc<HttpCore>,
    call: Call,
    id: u64,
    notes: NoteSink,
    upstream: UpstreamHalf,
    mailbox: mpsc::Receiver<CallDelivery>,
    /// What the caller lacks that the server asked for.
    lacking: Option<RawJson>,
    /// Questions of the server that the call is about to be parked with.
    gathering: Option<Box<QuestionBatch>>,
    /// Gone once the call has ended.
    flight: Option<FlightGuard>,
}

impl LegacyExchange {
    /// Goes on until the call ends or the server asks.
    async fn drive(mut self) -> Outcome {
        loop {
            let mail = tokio::select! {
                biased;
                outcome = &mut self.upstream => {
                    self.leave(outcome.is_ok());
                    let context = &self.shared.context;
                    let outcome = outcome.unwrap_or_else(|fault| Outcome::fault(fault.on_server(&context.server)));
                    return context.explain_lacking(&self.call, self.lacking.as_ref(), outcome);
                }
                mail = self.mailbox.recv() => mail,
                asked = std::future::poll_fn(|context| QuestionBatch::poll(&mut self.gathering, context)) => {
                    match self.park(asked) {
                        Ok(parked) => return parked,
                        Err(talk) => self = *talk,
                    }
                    continue;
                }
                () = self.shared.closed.cancelled() => return Outcome::fault(self.shared.stopped()),
            };
            match mail {
                Some(CallDelivery::Answer(line)) => {
                    self.leave(true);
                    let (context, identity) = (&self.shared.context, self.shared.session().identity);
                    let outcome = parse_response::answer(context, &identity, &self.call, self.id, line);
                    return context.explain_lacking(&self.call, self.lacking.as_ref(), outcome);
                }
                Some(CallDelivery::Progress(note)) => self.progressed(note),
                Some(CallDelivery::Question(request)) => self.asked(request, false),
                Some(CallDelivery::Guess(request)) => self.asked(request, true),
                // The call itself holds a sender, so the mailbox never closes before the call ends.
                None => {}
            }
        }
    }
}

impl LegacyExchange {
    /// Takes a question of the server: it is gathered with others, or refused.
    fn asked(&mut self, request: RpcRequest, is_guess: bool) {
        if !self.shared.flights.is_open(self.id, &request.id) {
            return;
        }
        match self.shared.context.admit(&self.call, &request) {
            Ok(question) => QuestionBatch::add(&mut self.gathering, OpenQuestion { question, request, is_guess }),
            Err(refusal) => {
                self.shared.send_aside(refusal.response.to_bytes());
                self.shared.flights.settled(&request.id);
                self.lacking = self.lacking.take().or(refusal.lacking);
            }
        }
    }

    /// Parks the call with those of these questions that the server has not taken back; gives the call back when there
    /// are none.
    fn park(self, mut asked: Vec<OpenQuestion>) -> Result<Outcome, Box<Self>> {
        let (shared, call, number) = (self.shared.clone(), self.call.clone(), self.id);
        let is_open = |id: &RequestId| shared.flights.is_open(number, id);
        asked.retain(|asked| is_open(&asked.request.id));
        if asked.is_empty() {
            return Err(Box::new(self));
        }
        let ids: Vec<RequestId> = asked.iter().map(|asked| asked.request.id.clone()).collect();
        let parked = shared.context.park(&call, asked, Box::new(self));
        for id in ids.iter().filter(|id| !is_open(id)) {
            // Taken back in this very moment.
            shared.context.parked.withdraw(shared.place(), id);
        }
        Ok(parked)
    }

    fn progressed(&self, note: RpcNotification) {
        if let Some(note) = for_caller(&self.call, note) {
            self.notes.push(note);
        }
    }

    /// The call ends. Progress that arrived before the answer is told before it. A question that was taken for this
    /// call's, and is still open when the server answers it, is another call's.
    fn leave(&mut self, is_answered: bool) {
        self.flight = None;
        let gathered = QuestionBatch::take(&mut self.gathering).into_iter().map(|asked| match asked.is_guess {
            true => CallDelivery::Guess(asked.request),
            false => CallDelivery::Question(asked.request),
        });
        let waiting = std::iter::from_fn(|| self.mailbox.try_recv().ok());
        for mail in gathered.chain(waiting).collect::<Vec<_>>() {
            match mail {
                CallDelivery::Progress(note) => self.progressed(note),
                CallDelivery::Guess(request) if is_answered => self.shared.stray_request(request),
                CallDelivery::Guess(request) | CallDelivery::Question(request) => self.shared.refuse(request),
                CallDelivery::Answer(_) => {}
            }
        }
    }
}

impl Drop for LegacyExchange {
    fn drop(&mut self) {
        if self.flight.is_some() {
            self.leave(false);
        }
    }
}

impl ParkedRest for LegacyExchange {
    fn connection(&self) -> usize {
        self.shared.place()
    }

    // Calls over HTTP do not take turns, so nobody waits for this one.
    fn withdrawn(&mut self) {}

    fn resume(mut self: Box<Self>, answers: Vec<RpcResponse>, unanswered: Vec<OpenQuestion>) -> Reply {
        Reply::from_future_with_notes(self.notes.clone(), async move {
            self.gathering = QuestionBatch::of(unanswered);
            for answer in answers {
                if let Some(id) = &answer.id {
                    self.shared.flights.settled(id);
                }
                if let Err(fault) = self.shared.deliver(&answer).await {
                    return Outcome::fault(fault.on_server(&self.shared.context.server));
                }
            }
            self.drive().await
        })
    }

    fn abandon(self: Box<Self>, refusals: Vec<RpcResponse>) {
        refusals.iter().for_each(|refusal| self.shared.send_aside(refusal.to_bytes()));
    }
}

/// Tells a legacy server that a call was abandoned, when it is dropped before its answer.
struct CancelGuard {
    shared: Arc<HttpCore>,
    id: u64,
    is_armed: bool,
}

impl CancelGuard {
    fn disarm(&mut self) {
        self.is_armed = false;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if self.is_armed {
            let mut params = ObjectWriter::with_capacity(32);
            params.number("requestId", self.id);
            self.shared.notify(&RpcNotification::new(Method::Cancelled, Some(params.finish())));
        }
    }
}

/// A call whose request was sent. In the modern era dropping it closes the stream, which cancels.
struct SentRequest {
    shared: Arc<HttpCore>,
    identity: Arc<ServerIdentity>,
    id: u64,
    call: Call,
    cancel: Option<CancelGuard>,
    mail: Option<mpsc::Sender<CallDelivery>>,
}

impl SentRequest {
    /// The answer as one body.
    async fn answer(&mut self, response: HttpResponse, notes: &NoteSink) -> Result<Outcome, Fault> {
        let status = response.status;
        let refusal = (!status.is_success()).then(|| response.status_error());
        let mut body = response.bytes().await.map_err(|error| call_fault(&error))?;
        self.ended();
        if let Some(messages) = batch::messages(&body) {
            body = self.take_all(notes, messages).await.answer.unwrap_or(body);
        }
        let Some(refusal) = refusal else {
            return Ok(parse_response::answer(&self.shared.context, &self.identity, &self.call, self.id, body));
        };
        // A status that is not a success, with a body that may hold the server's own error.
        match RpcMessage::parse(body) {
            Ok(RpcMessage::Response(RpcResponse { body: ResponsePayload::Error(error), .. })) if is_for_now(status) => {
                Err(refused_fault(&refusal, &error))
            }
            Ok(RpcMessage::Response(response)) => {
                Ok(parse_response::of_body(&self.shared.context, &self.identity, &self.call, response.body))
            }
            _ => Err(call_fault(&refusal)),
        }
    }

    /// Deals with messages of the server that come before the answer or with it.
    async fn take_all(&self, notes: &NoteSink, messages: Vec<Bytes>) -> ReceivedBatch {
        let mut taken = ReceivedBatch { answer: None, has_message: false };
        for text in messages {
            let message = RpcMessage::parse(text.clone());
            taken.has_message |= message.is_ok();
            match message {
                Ok(RpcMessage::Response(response)) => {
                    let is_ours = response.id.as_ref().and_then(|id| id.as_u64()) == Some(self.id);
                    taken.answer = taken.answer.or(is_ours.then_some(text));
                }
                Ok(RpcMessage::Notification(note)) => self.noted(notes, note),
                Ok(RpcMessage::Request(request)) => self.asked(request).await,
                // Its caller is told what is wrong with it, rather than that there was no answer.
                Err(_) if lenient::response_id(&text) == Some(self.id) => taken.answer = taken.answer.or(Some(text)),
                Err(error) => tracing::debug!(server = %self.shared.context.server, %error, "what is no message"),
            }
        }
        taken
    }

    fn ended(&mut self) {
        if let Some(cancel) = &mut self.cancel {
            cancel.disarm();
        }
    }

    fn is_legacy(&self) -> bool {
        self.identity.version.era() == Era::Legacy
    }

    /// A request of the server on this call's own stream: there is no doubt whose call it is.
    async fn asked(&self, request: RpcRequest) {
        let Some(mail) = &self.mail else { return };
        if let Some(question) = self.shared.question_of(request) {
            self.shared.flights.asked(self.id, &question.id);
            let _ = mail.send(CallDelivery::Question(question)).await;
        }
    }

    fn noted(&self, notes: &NoteSink, note: RpcNotification) {
        if note.method == Method::Cancelled && self.is_legacy() {
            return self.shared.withdraw(&note);
        }
        // On a listen stream changes are what was asked for; elsewhere they are about the whole server.
        if self.call.method != Method::Listen
            && let Some(notice) = ServerNotice::of(&note)
        {
            self.shared.context.publish(notice);
            return;
        }
        if let Some(note) = for_caller(&self.call, note) {
            notes.push(note);
        }
    }
}

/// What messages of the server led to.
struct ReceivedBatch {
    /// The line with the answer.
    answer: Option<Bytes>,
    /// True when anything was a message.
    has_message: bool,
}

/// Statuses of servers that ask to wait. Their error is a refusal and no answer.
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
    has_spoken: bool,
}

impl ResponseStream {
    fn of(response: HttpResponse) -> Result<Self, Fault> {
        let events = response.events().map_err(|error| call_fault(&error))?;
        Ok(Self { events, last_id: None, retry: RESUME_AFTER, resumes: 0, has_spoken: false })
    }

    /// Reads to the answer.
    async fn follow(mut self, mut sent: SentRequest, notes: NoteSink) -> Result<Outcome, Fault> {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => {
                    if let Some(line) = self.take(&sent, &notes, event).await {
                        sent.ended();
                        self.events.drain();
                        return Ok(parse_response::answer(
                            &sent.shared.context,
                            &sent.identity,
                            &sent.call,
                            sent.id,
                            line,
                        ));
                    }
                }
                Some(Err(error)) if error.kind != TransportErrorKind::Lost => {
                    sent.ended();
                    return Err(call_fault(&error));
                }
                Some(Err(error)) => self.resume(&mut sent, Some(&error)).await?,
                None => self.resume(&mut sent, None).await?,
            }
        }
    }

    /// Deals with one event; gives the line when it is the answer.
    async fn take(&mut self, sent: &SentRequest, notes: &NoteSink, event: SseEvent) -> Option<Bytes> {
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
        // The answer is proved when it is read; going over it here too would be once too often.
        if response_id::response_id(&event.data) == Some(sent.id) {
            self.has_spoken = true;
            return Some(event.data);
        }
        let taken = sent.take_all(notes, batch::messages_or_one(event.data)).await;
        self.has_spoken |= taken.has_message;
        taken.answer
    }

    /// A legacy stream that ended without the answer goes on where it stopped, if it said where that is
    /// ([Resumability](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery)).
    async fn resume(&mut self, sent: &mut SentRequest, error: Option<&TransportError>) -> Result<(), Fault> {
        let lost = match error {
            Some(error) => call_fault(error),
            None if self.has_spoken || self.last_id.is_some() => {
                Fault::new(FaultCode::ConnectionLost, "the server ended the stream without an answer")
            }
            None => Fault::new(FaultCode::InvalidResponse, "the server answered with a stream without a message"),
        };
        // Whatever the resumption meets, the call itself was made.
        let lost = lost.sent(SentState::Unknown);
        let last_id = self.last_id.as_deref().and_then(headers::verbatim);
        let Some(last_id) = last_id.filter(|_| sent.is_legacy() && self.resumes < MAX_RESUMES) else {
            sent.ended();
            return Err(lost);
        };
        self.resumes += 1;
        tokio::time::sleep(self.retry).await;
        let mut map = sent.shared.legacy_headers(&sent.shared.session());
        map.insert(headers::LAST_EVENT_ID, last_id);
        let because = |error: TransportError| lost.clone().because(call_fault(&error));
        let response = sent.shared.client.get(map).await.map_err(because)?;
        if !response.status.is_success() || response.kind() != BodyKind::Events {
            sent.ended();
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
    async fn deliver(&self, answer: &RpcResponse) -> Result<(), Fault> {
        let posted = self.post_legacy(&answer.to_bytes(), &self.session(), None).await;
        let response = posted.map_err(|fault| fault.sent(SentState::Unknown))?;
        if response.status.is_success() {
            return Ok(());
        }
        Err(call_fault(&response.status_error()).sent(SentState::Unknown))
    }

    fn wire_fault(&self, error: &TransportError) -> Fault {
        let fault = call_fault(error).on_server(&self.context.server);
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
        self.context.fault(FaultCode::InvalidResponse, format!("the server answered with {kind}, not with a message"))
    }

    /// Tells a legacy server to log as much as the most curious caller wants.
    fn raise_level(self: &Arc<Self>, call: &Call) {
        let Some(wanted) = call.meta.log_level else { return };
        if !self.session.lock().identity.capabilities.has("logging") {
            return;
        }
        let mut level = self.level.lock();
        if level.is_some_and(|level| level <= wanted) {
            return;
        }
        *level = Some(wanted);
        let mut params = ObjectWriter::with_capacity(32);
        params.string("level", wanted.as_str());
        self.send_aside(write_numbered(self.next_id(), Method::SetLevel.as_str(), Some(&params.finish())));
    }
}
