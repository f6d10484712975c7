//! One call over HTTP: post, read the answer or the stream, resume a stream that broke, ask when asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tsugi_protocol::answer::{Call, Fault, FaultCode, Notes, Outcome, Reply, SentState};
use tsugi_protocol::codec::sse::Event;
use tsugi_protocol::era::{to_legacy, to_modern};
use tsugi_protocol::json::{Raw, Splice};
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::{Message, Notification, Request, Response, RpcError, code};
use tsugi_transport::http::{EventStream, HttpResponse, Kind, headers};
use tsugi_transport::{ErrorKind, TransportError};

use super::super::context::Notice;
use super::super::mux::for_caller;
use super::super::parked::Resume;
use super::super::reading;
use super::{Session, Shared};
use crate::error::call_fault;

/// How long to wait before resuming a stream, unless the server says otherwise.
const RESUME_AFTER: Duration = Duration::from_millis(1000);
/// How often a stream that gives nothing new is resumed.
const MAX_RESUMES: u32 = 5;

/// Runs a call to its outcome.
pub(super) async fn run(shared: Arc<Shared>, call: Call, notes: Notes) -> Outcome {
    shared.in_flight.fetch_add(1, Ordering::Relaxed);
    let flying = Flying(shared.clone());
    let outcome = match shared.era() {
        Era::Modern => modern(&shared, call, notes).await,
        Era::Legacy => legacy(&shared, call, notes).await,
    };
    drop(flying);
    outcome.unwrap_or_else(|fault| Outcome::fault(fault.on_server(&shared.context.server)))
}

struct Flying(Arc<Shared>);

impl Drop for Flying {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn modern(shared: &Arc<Shared>, call: Call, notes: Notes) -> Result<Outcome, Fault> {
    let id = shared.next_id();
    let token = wants_token(&call).then_some(id);
    let message = write_numbered(id, call.method.as_str(), Some(&to_modern::params(&call, token)));
    let response = shared.client.post(message, shared.modern_headers(&call)?).await;
    let response = response.map_err(|error| shared.wire_fault(&error))?;
    let identity = shared.session().identity;
    let mut exchange = InFlight { shared: shared.clone(), identity, id, call, cancel: None };
    match response.kind() {
        Kind::Json => exchange.answer(response).await,
        Kind::Events if response.status.is_success() => {
            let events = response.events().map_err(|error| call_fault(&error))?;
            Stream { events, last_id: None, retry: RESUME_AFTER, resumes: 0 }.follow(exchange, notes).await
        }
        _ => Err(shared.not_an_answer(&response)),
    }
}

fn wants_token(call: &Call) -> bool {
    call.meta.progress_token.is_some() || call.method == Method::ToolsCall
}

async fn legacy(shared: &Arc<Shared>, call: Call, notes: Notes) -> Result<Outcome, Fault> {
    shared.raise_level(&call);
    let mut session = shared.session();
    let id = shared.next_id();
    let token = wants_token(&call).then_some(id);
    let message = write_numbered(id, call.method.as_str(), to_legacy::params(&call, token).as_ref());
    let mut cancel = Cancel::new(shared.clone(), id);
    let mut response = shared.post_legacy(&message, &session).await?;
    if response.status == StatusCode::NOT_FOUND && session.id.is_some() {
        // The server forgot the session, so it did nothing with the call
        // ([Session Management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management)).
        shared.reopen(&session).await?;
        session = shared.session();
        response = shared.post_legacy(&message, &session).await?;
    }
    if !response.status.is_success() && response.kind() != Kind::Json {
        cancel.disarm();
        return Err(shared.not_an_answer(&response));
    }
    let mut exchange =
        InFlight { shared: shared.clone(), identity: session.identity.clone(), id, call, cancel: Some(cancel) };
    match response.kind() {
        Kind::Json => exchange.answer(response).await,
        Kind::Events => {
            let events = response.events().map_err(|error| call_fault(&error))?;
            Stream { events, last_id: None, retry: RESUME_AFTER, resumes: 0 }.follow(exchange, notes).await
        }
        Kind::Other => Err(shared.not_an_answer(&response)),
    }
}

/// Tells a legacy server that a call was abandoned, when it is dropped before its answer.
struct Cancel {
    shared: Arc<Shared>,
    id: u64,
    is_armed: bool,
}

impl Cancel {
    fn new(shared: Arc<Shared>, id: u64) -> Self {
        Self { shared, id, is_armed: true }
    }

    fn disarm(&mut self) {
        self.is_armed = false;
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        if self.is_armed {
            let mut params = Splice::with_capacity(32);
            params.number("requestId", self.id);
            self.shared.notify(&Notification::new(Method::Cancelled, Some(params.finish())));
        }
    }
}

/// A call whose request was sent. In the modern era dropping it closes the stream, which cancels.
struct InFlight {
    shared: Arc<Shared>,
    identity: Arc<ServerIdentity>,
    id: u64,
    call: Call,
    cancel: Option<Cancel>,
}

impl InFlight {
    /// The answer as one body.
    async fn answer(&mut self, response: HttpResponse) -> Result<Outcome, Fault> {
        let status = response.status;
        let refusal = response.status_error();
        let body = response.bytes().await.map_err(|error| call_fault(&error))?;
        self.ended();
        if !status.is_success() {
            return self.refused(body, &refusal);
        }
        Ok(self.read(body))
    }

    fn read(&self, line: Bytes) -> Outcome {
        reading::answer(&self.shared.context, &self.identity, &self.call, self.id, line)
    }

    /// A status that is not a success, with a body that may hold the server's own error.
    fn refused(&self, body: Bytes, refusal: &TransportError) -> Result<Outcome, Fault> {
        match Message::parse(body) {
            Ok(Message::Response(response)) => {
                Ok(reading::of_body(&self.shared.context, &self.identity, &self.call, response.body))
            }
            _ => Err(call_fault(refusal)),
        }
    }

    fn ended(&mut self) {
        if let Some(cancel) = &mut self.cancel {
            cancel.disarm();
        }
    }

    fn is_legacy(&self) -> bool {
        self.identity.version.era() == Era::Legacy
    }
}

/// The event stream of a call.
struct Stream {
    events: EventStream,
    last_id: Option<String>,
    retry: Duration,
    resumes: u32,
}

/// What an event means for the call.
enum Step {
    Goes(Box<InFlight>, Stream),
    Ends(Outcome),
}

impl Stream {
    async fn follow(mut self, exchange: InFlight, notes: Notes) -> Result<Outcome, Fault> {
        let mut exchange = Box::new(exchange);
        loop {
            match self.events.next().await {
                Some(Ok(event)) => match self.take(exchange, &notes, event)? {
                    Step::Ends(outcome) => return Ok(outcome),
                    Step::Goes(on, stream) => (exchange, self) = (on, stream),
                },
                Some(Err(error)) if error.kind != ErrorKind::Lost => {
                    exchange.ended();
                    return Err(call_fault(&error));
                }
                Some(Err(error)) => self.resume(&mut exchange, Some(&error)).await?,
                None => self.resume(&mut exchange, None).await?,
            }
        }
    }

    fn take(mut self, mut exchange: Box<InFlight>, notes: &Notes, event: Event) -> Result<Step, Fault> {
        if let Some(id) = event.id {
            self.last_id = Some(id);
            self.resumes = 0;
        }
        if let Some(retry) = event.retry {
            self.retry = Duration::from_millis(retry.min(60_000));
        }
        // A priming event has an id and no data.
        if event.data.is_empty() {
            return Ok(Step::Goes(exchange, self));
        }
        match Message::parse(event.data.clone()) {
            Ok(Message::Response(response)) if response.id.as_ref().and_then(|id| id.as_u64()) == Some(exchange.id) => {
                exchange.ended();
                let outcome = exchange.read(event.data);
                self.events.drain();
                return Ok(Step::Ends(outcome));
            }
            Ok(Message::Notification(note)) => tell(&exchange, notes, note),
            Ok(Message::Request(request)) => return Ok(self.asked(exchange, request)),
            Ok(Message::Response(_)) | Err(_) => {}
        }
        Ok(Step::Goes(exchange, self))
    }

    /// The server asks in the middle of the call. On its own stream there is no doubt whose call it is.
    fn asked(self, exchange: Box<InFlight>, request: Request) -> Step {
        let shared = exchange.shared.clone();
        let respond = |response: &Response| shared.send_aside(response.to_bytes());
        if !exchange.is_legacy() {
            return Step::Goes(exchange, self);
        }
        if request.method == Method::Ping {
            respond(&Response::result(request.id, Raw::literal("{}")));
            return Step::Goes(exchange, self);
        }
        match shared.context.admit(&exchange.call, &request) {
            Err(refusal) => {
                respond(&refusal);
                Step::Goes(exchange, self)
            }
            Ok(question) => {
                let call = exchange.call.clone();
                let rest = Box::new(Rest { exchange, stream: self });
                Step::Ends(shared.context.park(&call, request, question, rest))
            }
        }
    }

    /// A legacy stream that ended without the answer goes on where it stopped, if it said where that is
    /// ([Resumability](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery)).
    async fn resume(&mut self, exchange: &mut InFlight, error: Option<&TransportError>) -> Result<(), Fault> {
        let lost = match error {
            Some(error) => call_fault(error),
            None => Fault::new(FaultCode::ConnectionLost, "the server ended the stream without an answer"),
        };
        let Some(last_id) = self.last_id.clone().filter(|_| exchange.is_legacy() && self.resumes < MAX_RESUMES) else {
            exchange.ended();
            return Err(lost);
        };
        self.resumes += 1;
        tokio::time::sleep(self.retry).await;
        let session = exchange.shared.session();
        let mut map = exchange.shared.legacy_headers(&session);
        map.insert(headers::LAST_EVENT_ID, headers::encode(&last_id));
        let response = exchange.shared.client.get(map).await.map_err(|error| call_fault(&error))?;
        if !response.status.is_success() || response.kind() != Kind::Events {
            exchange.ended();
            return Err(lost);
        }
        self.events = response.events().map_err(|error| call_fault(&error))?;
        Ok(())
    }
}

fn tell(exchange: &InFlight, notes: &Notes, note: Notification) {
    // On a listen stream changes are what was asked for; elsewhere they are about the whole server.
    if exchange.call.method != Method::Listen
        && let Some(notice) = Notice::of(&note)
    {
        exchange.shared.context.tell(notice);
        return;
    }
    if let Some(note) = for_caller(&exchange.call, note) {
        notes.push(note);
    }
}

/// What remains of a call that waits for input: its stream stays open.
struct Rest {
    exchange: Box<InFlight>,
    stream: Stream,
}

impl Resume for Rest {
    fn resume(self: Box<Self>, answer: Response) -> Reply {
        Reply::from_noting(move |notes| async move {
            let Rest { exchange, stream } = *self;
            let shared = exchange.shared.clone();
            let outcome = match shared.deliver(&answer).await {
                Ok(()) => stream.follow(*exchange, notes).await,
                Err(fault) => Err(fault),
            };
            outcome.unwrap_or_else(|fault| Outcome::fault(fault.on_server(&shared.context.server)))
        })
    }

    fn abandon(self: Box<Self>, refusal: Response) {
        self.exchange.shared.send_aside(refusal.to_bytes());
    }
}

impl Shared {
    async fn post_legacy(&self, message: &Bytes, session: &Session) -> Result<HttpResponse, Fault> {
        let response = self.client.post(message.clone(), self.legacy_headers(session)).await;
        response.map_err(|error| self.wire_fault(&error))
    }

    /// Posts the answer to a server's question.
    async fn deliver(&self, answer: &Response) -> Result<(), Fault> {
        let response = self.post_legacy(&answer.to_bytes(), &self.session()).await?;
        if response.status.is_success() {
            return Ok(());
        }
        Err(call_fault(&response.status_error()).sent(SentState::Unknown))
    }

    fn wire_fault(&self, error: &TransportError) -> Fault {
        let fault = call_fault(error).on_server(&self.context.server);
        if error.kind == ErrorKind::Connect {
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
        let mut params = Splice::with_capacity(32);
        params.string("level", wanted.as_str());
        self.send_aside(write_numbered(self.next_id(), Method::SetLevel.as_str(), Some(&params.finish())));
    }

    /// Answers a question that belongs to no call.
    pub(super) fn answer_stray(self: &Arc<Self>, request: Request) {
        let response = match request.method {
            Method::Ping => Response::result(request.id, Raw::literal("{}")),
            Method::RootsList => Response::result(request.id, Raw::literal(r#"{"roots":[]}"#)),
            _ => Response::error(
                Some(request.id),
                RpcError::new(code::METHOD_NOT_FOUND, "it cannot be told whose call this question belongs to"),
            ),
        };
        self.send_aside(response.to_bytes());
    }
}
