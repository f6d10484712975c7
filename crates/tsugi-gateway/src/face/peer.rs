//! One client on a wire that carries everything both ways (standard streams, WebSocket, the two-endpoint
//! stream): both eras at once, however the client opens.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, SelectAll, Stream, StreamExt};
use parking_lot::Mutex;
use tsugi_protocol::answer::{Answer, Call, CallOptions, CallParts, Caller, Event, Fault, FaultCode, Session};
use tsugi_protocol::era::change;
use tsugi_protocol::json::{Object, Raw};
use tsugi_protocol::mcp::{Method, Version};
use tsugi_protocol::rpc::{Id, Message, Notification, Request, Response, RpcError, code};

use super::legacy::{self, Conversation, Received, Turn, Watch, batch};
use super::mcp::modern::listen::{self, Subscription};
use super::mcp::modern::stream::response;
use super::mcp::modern::{invalid, read_meta, refuse_gone};
use super::mcp::{names_revision, unreadable_error};
use super::running::{Answered, Cancel, Running, Said};
use crate::config::Limits;
use crate::drain::{Busy, Drain};
use crate::telemetry::access_log;

/// How many requests of one client may be in progress.
const IN_PROGRESS: usize = 1024;

type Outgoing = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A client and everything it has going on. Dropping it cancels all of it.
pub(crate) struct Peer {
    answer: Arc<dyn Answer>,
    /// In whatever era it speaks, one client is on this wire and no other.
    session: Session,
    limits: Arc<Limits>,
    /// The legacy conversation, once the client has opened one.
    conversation: Arc<OnceLock<Arc<Conversation>>>,
    /// Set while a conversation is being opened, and true in it once that has ended.
    opening: Option<Arc<AtomicBool>>,
    /// What came meanwhile. Programs that write all they have to say at once do not wait for an answer.
    held: VecDeque<Held>,
    /// Held by each subscription, of which the end is not to be waited for.
    subscriptions: Arc<()>,
    running: Cancels,
    outgoing: SelectAll<Outgoing>,
    /// Stopping waits for requests, where there is somebody who stops.
    drain: Option<Drain>,
}

/// What waits until the conversation is open.
enum Held {
    Message(Message, Option<Busy>),
    Batch(Bytes),
}

type Cancels = Arc<Mutex<HashMap<Id, Vec<Arc<Cancel>>>>>;

impl Peer {
    pub(crate) fn new(answer: Arc<dyn Answer>, caller: &Caller, limits: Arc<Limits>) -> Self {
        Self {
            answer,
            session: Session::of(caller),
            limits,
            conversation: Arc::default(),
            opening: None,
            held: VecDeque::new(),
            subscriptions: Arc::default(),
            running: Arc::default(),
            outgoing: SelectAll::new(),
            drain: None,
        }
    }

    /// The same client of a gateway that may stop.
    pub(crate) fn until(mut self, drain: &Drain) -> Self {
        self.drain = Some(drain.clone());
        self
    }

    /// Keeps a request going, and stopping waiting for it.
    fn keep(&mut self, request: impl Stream<Item = Bytes> + Send + 'static, busy: Option<Busy>) {
        let kept = request.map(move |message| {
            let _held = &busy;
            message
        });
        self.outgoing.push(kept.boxed());
    }

    /// Takes one message of the client; gives what can be answered at once.
    pub(crate) fn receive(&mut self, bytes: Bytes) -> Option<Bytes> {
        if batch::is_batch(&bytes) {
            return self.receive_batch(&bytes);
        }
        match Message::parse(bytes) {
            Ok(message) => self.take(message),
            Err(error) => Some(unreadable_error(&error).response(None)),
        }
    }

    /// Takes the messages of a batch; their responses become one array.
    fn receive_batch(&mut self, bytes: &Bytes) -> Option<Bytes> {
        if self.opening.is_some() && self.has_room() {
            self.held.push_back(Held::Batch(bytes.clone()));
            return None;
        }
        let Some(conversation) = self.conversation.get().filter(|known| known.version() == Version::V2025_03_26) else {
            return Some(RpcError::new(code::INVALID_REQUEST, "only 2025-03-26 has batches").response(None));
        };
        let messages = match batch::split(bytes, self.limits.batch) {
            Ok(messages) => messages,
            Err(error) => return Some(error.response(None)),
        };
        let room = self.room();
        let mut gathering = batch::Gathering::default();
        for message in messages {
            match (Message::parse(message), &room) {
                (Ok(Message::Request(request)), Err(fault)) => {
                    gathering.answer(fault.to_rpc().response(Some(&request.id)));
                }
                (Ok(message), _) => gathering.add(conversation.receive(message, access_log::own_id())),
                (Err(error), _) => gathering.answer(unreadable_error(&error).response(None)),
            }
        }
        self.keep(gathering, room.ok().flatten());
        None
    }

    /// Room for one more request, which stopping waits for; or why there is none.
    fn room(&self) -> Result<Option<Busy>, Fault> {
        if !self.has_room() {
            return Err(Fault::new(FaultCode::Overloaded, "too many requests are in progress"));
        }
        match self.drain.as_ref().map(Drain::enter) {
            Some(None) => Err(Fault::new(FaultCode::Draining, "the gateway is shutting down")),
            busy => Ok(busy.flatten()),
        }
    }

    fn has_room(&self) -> bool {
        self.outgoing.len() + self.held.len() < IN_PROGRESS
    }

    fn take(&mut self, message: Message) -> Option<Bytes> {
        match message {
            Message::Request(request) => match self.room() {
                Ok(busy) => self.request(request, busy),
                Err(fault) => Some(fault.to_rpc().response(Some(&request.id))),
            },
            Message::Notification(notification) => {
                self.cancel(&notification);
                self.converse(Message::Notification(notification), None)
            }
            response => self.converse(response, None),
        }
    }

    fn request(&mut self, request: Request, busy: Option<Busy>) -> Option<Bytes> {
        let params = request.params_object();
        if names_revision(params.as_ref()) {
            return self.modern(&request, params.as_ref(), busy).err().map(|error| error.response(Some(&request.id)));
        }
        match request.method {
            Method::Initialize if self.conversation.get().is_none() && self.opening.is_none() => {
                self.initialize(request, busy);
                None
            }
            Method::Ping => Some(Response::result(request.id, Raw::literal("{}")).to_bytes()),
            Method::Discover if self.conversation.get().is_none() => {
                Some(invalid("the parameters lack _meta").response(Some(&request.id)))
            }
            _ => self.converse(Message::Request(request), busy),
        }
    }

    /// Opens the legacy conversation; the changes it wants to hear of follow its response.
    fn initialize(&mut self, request: Request, busy: Option<Busy>) {
        let (answer, caller, limits) = (self.answer.clone(), self.session.caller().clone(), self.limits.clone());
        let (place, is_over) = (self.conversation.clone(), Arc::new(AtomicBool::new(false)));
        self.opening = Some(is_over.clone());
        let opening = async move {
            // Stopping waits for the response, and not for the changes after it.
            let _busy = busy;
            let begun = legacy::begin(answer, caller, &limits, &request).await;
            is_over.store(true, Ordering::Release);
            match begun {
                Ok((conversation, response)) => {
                    let conversation = place.get_or_init(|| Arc::new(conversation)).clone();
                    let mut watch = Watch::new(conversation);
                    let changes = stream::poll_fn(move |context| watch.poll(context).map(Some));
                    stream::iter([response]).chain(changes).boxed()
                }
                Err(error) => stream::iter([error.response(Some(&request.id))]).boxed(),
            }
        };
        self.outgoing.push(stream::once(opening).flatten().boxed());
    }

    /// Takes what came while the conversation was opened, once it is open or could not be.
    fn release(&mut self) {
        if self.opening.as_ref().is_some_and(|is_over| is_over.load(Ordering::Acquire)) {
            self.opening = None;
        }
        while self.opening.is_none()
            && let Some(held) = self.held.pop_front()
        {
            let answer = match held {
                Held::Message(Message::Request(request), busy) => self.request(request, busy),
                Held::Message(message, busy) => self.converse(message, busy),
                Held::Batch(bytes) => self.receive_batch(&bytes),
            };
            if let Some(answer) = answer {
                self.outgoing.push(stream::iter([answer]).boxed());
            }
        }
    }

    fn converse(&mut self, message: Message, busy: Option<Busy>) -> Option<Bytes> {
        if self.opening.is_some() {
            if self.has_room() {
                self.held.push_back(Held::Message(message, busy));
            }
            return None;
        }
        let Some(conversation) = self.conversation.get() else {
            let Message::Request(request) = message else { return None };
            return Some(RpcError::new(code::INVALID_REQUEST, "initialize first").response(Some(&request.id)));
        };
        match conversation.receive(message, access_log::own_id()) {
            Received::Nothing => None,
            Received::Answered(response) => Some(response),
            Received::Turn(turn) => {
                self.keep(turn_stream(*turn), busy);
                None
            }
        }
    }

    fn modern(&mut self, request: &Request, params: Option<&Object>, busy: Option<Busy>) -> Result<(), RpcError> {
        let params = params.ok_or_else(|| invalid("the parameters must be an object"))?;
        let own = params.get_object("_meta").ok_or_else(|| invalid("the parameters lack _meta"))?;
        let meta = read_meta(&own)?;
        refuse_gone(&request.method)?;
        let call = Call::from(CallParts {
            method: request.method.clone(),
            params: params.without("_meta"),
            meta,
            caller: self.session.caller().clone(),
            options: CallOptions { face: "stream", request_id: access_log::own_id(), ..CallOptions::default() },
        });
        listen::expect_few(&call)?;
        let cancel = Arc::new(Cancel::default());
        self.running.lock().entry(request.id.clone()).or_default().push(cancel.clone());
        let asking = Asking::start(&*self.answer, request.id.clone(), call, self.drain.as_ref());
        let is_subscription = request.method == Method::Listen;
        let cancellable = Cancellable {
            asking: Some(asking),
            id: request.id.clone(),
            cancel,
            running: self.running.clone(),
            _subscription: is_subscription.then(|| self.subscriptions.clone()),
        };
        // A subscription ends only with its client; stopping does not wait for that.
        self.keep(cancellable, busy.filter(|_| !is_subscription));
        Ok(())
    }

    /// Ends the modern requests that a client abandons; its legacy ones are the conversation's matter.
    fn cancel(&self, notification: &Notification) {
        if notification.method != Method::Cancelled {
            return;
        }
        let Some(id) = change::cancelled_id(notification) else { return };
        for cancel in self.running.lock().get(&id).into_iter().flatten() {
            cancel.set();
        }
    }

    /// The next message for the client; waits for ever when there is none.
    pub(crate) async fn next(&mut self) -> Bytes {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next message for the client.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        match self.outgoing.poll_next_unpin(context) {
            Poll::Ready(Some(message)) => {
                self.release();
                Poll::Ready(message)
            }
            // Nothing is going on; the next message of the client wakes us.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// The next message for the client; `None` when no request is in progress.
    pub(crate) async fn next_or_idle(&mut self) -> Option<Bytes> {
        std::future::poll_fn(|context| match self.poll_next(context) {
            Poll::Ready(message) => Poll::Ready(Some(message)),
            // Only now is it known which requests have ended.
            Poll::Pending if self.is_idle() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// A conversation's changes are no request, nor is a subscription.
    fn is_idle(&self) -> bool {
        let changes = usize::from(self.conversation.get().is_some());
        let subscriptions = Arc::strong_count(&self.subscriptions) - 1;
        self.outgoing.len() <= changes + subscriptions
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversation.get() {
            conversation.end();
        }
    }
}

fn turn_stream(turn: Turn) -> impl Stream<Item = Bytes> + Send {
    let mut turn = Some(turn);
    stream::poll_fn(move |context| {
        let Some(running) = &mut turn else { return Poll::Ready(None) };
        let said = std::task::ready!(running.poll(context));
        Poll::Ready(match said {
            Said::Message(message) => Some(message),
            Said::Response(response) => {
                turn = None;
                Some(response.into_bytes())
            }
            Said::Silence => {
                turn = None;
                None
            }
        })
    })
}

/// A modern request in progress.
enum Asking {
    Call {
        id: Id,
        method: Method,
        running: Running,
    },
    /// A subscription ends with a result when we begin to stop.
    Subscription {
        subscription: Subscription,
        draining: BoxFuture<'static, ()>,
    },
}

impl Asking {
    fn start(answer: &dyn Answer, id: Id, call: Call, drain: Option<&Drain>) -> Self {
        match call.method {
            Method::Listen => {
                let draining = drain.map_or_else(|| future::pending().boxed(), |drain| drain.draining().boxed());
                Asking::Subscription { subscription: Subscription::open(answer, id, call), draining }
            }
            _ => Asking::Call { method: call.method.clone(), running: Running::start(answer, call), id },
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Said> {
        match self {
            Asking::Subscription { subscription, draining } => match subscription.poll(context) {
                Poll::Ready(listen::Said::Note(note)) => Poll::Ready(Said::Message(note)),
                Poll::Ready(listen::Said::End(response)) => Poll::Ready(Said::Response(Answered::Whole(response))),
                Poll::Pending => {
                    draining.poll_unpin(context).map(|()| Said::Response(Answered::Whole(subscription.goodbye())))
                }
            },
            Asking::Call { id, method, running } => running.poll_event(context).map(|event| match event {
                Event::Note(note) => Said::Message(note.to_bytes()),
                Event::Done(outcome) => Said::Response(Answered::Whole(response(id, method, &outcome))),
            }),
        }
    }
}

/// A modern request that its client can abandon by a message.
struct Cancellable {
    asking: Option<Asking>,
    id: Id,
    cancel: Arc<Cancel>,
    running: Cancels,
    _subscription: Option<Arc<()>>,
}

impl Stream for Cancellable {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.cancel.register(context.waker());
        if self.cancel.is_set() {
            self.asking = None;
        }
        let Some(asking) = &mut self.asking else { return Poll::Ready(None) };
        let said = std::task::ready!(asking.poll(context));
        Poll::Ready(match said {
            Said::Message(message) => Some(message),
            Said::Response(response) => {
                self.asking = None;
                Some(response.into_bytes())
            }
            Said::Silence => None,
        })
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        if let Some(same) = running.get_mut(&self.id) {
            same.retain(|other| !Arc::ptr_eq(other, &self.cancel));
            if same.is_empty() {
                running.remove(&self.id);
            }
        }
    }
}
