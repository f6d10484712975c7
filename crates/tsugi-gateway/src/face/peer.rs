//! One client on a wire that carries everything both ways (standard streams, WebSocket, the two-endpoint
//! stream): both eras at once, however the client opens.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, SelectAll, Stream, StreamExt};
use parking_lot::Mutex;
use tsugi_protocol::answer::{
    Answer, Call, CallOptions, CallParts, Caller, Fault, FaultCode, ReplyEvent, SessionLifetime,
};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::version::Era;
use tsugi_protocol::mcp::{Method, ProtocolVersion};
use tsugi_protocol::rpc::{RequestId, RpcError, RpcMessage, RpcNotification, RpcRequest, RpcResponse, code};

use super::legacy_session::{self, LegacyChangeWatch, LegacySession, LegacyTurn, MessageEffect, batch};
use super::mcp::modern::listen::{self, ListenSubscription};
use super::mcp::modern::stream::response;
use super::mcp::modern::{invalid, read_meta, refuse_gone};
use super::mcp::{names_revision, unreadable_error};
use super::running_call::{CancelSwitch, RpcResponseBody, RunningCall, TurnOutput};
use crate::config::GatewayLimits;
use crate::drain::{BusyGuard, DrainState};
use crate::telemetry::access_log;

/// How many requests of one client may be in progress.
const IN_PROGRESS: usize = 1024;

type OutgoingMessages = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A client and everything it has going on. Dropping it cancels all of it.
pub(crate) struct ClientPeer {
    answer: Arc<dyn Answer>,
    /// In whatever era it speaks, one client is on this wire and no other.
    session: SessionLifetime,
    limits: Arc<GatewayLimits>,
    /// The legacy conversation, once the client has opened one.
    conversation: Arc<OnceLock<Arc<LegacySession>>>,
    /// Set while a conversation is being opened, and true in it once that has ended.
    opening: Option<Arc<AtomicBool>>,
    /// Messages that arrived while the session opens. Some programs write everything at once and do not wait.
    held: VecDeque<(DeferredMessage, Option<MessageSender>)>,
    /// The sender of the message that is being taken, where each has its own: a post beside a stream brings its own
    /// credential. Without one the sender is the client that opened the wire.
    sender: Option<MessageSender>,
    /// Where the client that opened the wire is, if a policy looks at that.
    address: Option<IpAddr>,
    /// Held by each subscription, of which the end is not to be waited for.
    subscriptions: Arc<()>,
    running: CancelTable,
    outgoing: SelectAll<OutgoingMessages>,
    /// Stopping waits for requests, where the gateway can be stopped.
    drain: Option<DrainState>,
}

/// The sender of one message on a wire of several.
#[derive(Clone)]
struct MessageSender {
    caller: Caller,
    address: Option<IpAddr>,
}

/// What waits until the conversation is open.
enum DeferredMessage {
    Message(RpcMessage, Option<BusyGuard>),
    Batch(Bytes),
}

type CancelTable = Arc<Mutex<HashMap<RequestId, Vec<Arc<CancelSwitch>>>>>;

impl ClientPeer {
    pub(crate) fn new(answer: Arc<dyn Answer>, caller: &Caller, limits: Arc<GatewayLimits>) -> Self {
        Self {
            answer,
            session: SessionLifetime::of(caller),
            limits,
            conversation: Arc::default(),
            opening: None,
            held: VecDeque::new(),
            sender: None,
            address: None,
            subscriptions: Arc::default(),
            running: Arc::default(),
            outgoing: SelectAll::new(),
            drain: None,
        }
    }

    /// The same client of a gateway that may stop.
    pub(crate) fn until(mut self, drain: &DrainState) -> Self {
        self.drain = Some(drain.clone());
        self
    }

    /// The same client at this address.
    pub(crate) fn at(mut self, address: Option<IpAddr>) -> Self {
        self.address = address;
        self
    }

    /// How the message that is being taken came in.
    fn options(&self, face: &'static str) -> CallOptions {
        let address = self.sender.as_ref().map_or(self.address, |sender| sender.address);
        CallOptions { face, request_id: access_log::own_id(), address, ..CallOptions::default() }
    }

    /// Keeps a request going, and stopping waiting for it.
    fn keep(&mut self, request: impl Stream<Item = Bytes> + Send + 'static, busy: Option<BusyGuard>) {
        let kept = request.map(move |message| {
            // Moved into the closure, so that it lives as long as the stream.
            let _held = &busy;
            message
        });
        self.outgoing.push(kept.boxed());
    }

    /// Takes one message that came with a request of its own, and so with an authority of its own.
    pub(crate) fn receive_from(&mut self, bytes: Bytes, sender: &Caller, address: Option<IpAddr>) -> Option<Bytes> {
        self.sender = Some(MessageSender { caller: sender.in_session_of(self.session.caller()), address });
        let answer = self.receive(bytes);
        self.sender = None;
        answer
    }

    /// Takes one message of the client; gives what can be answered at once.
    pub(crate) fn receive(&mut self, bytes: Bytes) -> Option<Bytes> {
        if batch::is_batch(&bytes) {
            return self.receive_batch(&bytes);
        }
        match RpcMessage::parse(bytes) {
            Ok(message) => self.take(message),
            Err(error) => Some(unreadable_error(&error).response(None)),
        }
    }

    /// Takes the messages of a batch; their responses become one array.
    fn receive_batch(&mut self, bytes: &Bytes) -> Option<Bytes> {
        // Programs that write everything at once send their first calls before our greeting.
        if self.opening.is_some() && self.has_room() {
            self.held.push_back((DeferredMessage::Batch(bytes.clone()), self.sender.clone()));
            return None;
        }
        let Some(conversation) =
            self.conversation.get().filter(|known| known.version() == ProtocolVersion::V2025_03_26)
        else {
            return Some(RpcError::new(code::INVALID_REQUEST, "only 2025-03-26 has batches").response(None));
        };
        let messages = match batch::split(bytes, self.limits.batch) {
            Ok(messages) => messages,
            Err(error) => return Some(error.response(None)),
        };
        // Asked once for the whole batch: its requests run together.
        let room = self.room();
        let mut gathering = batch::BatchStream::default();
        for message in messages {
            match (RpcMessage::parse(message), &room) {
                (Ok(RpcMessage::Request(request)), Err(fault)) => {
                    gathering.answer(fault.to_rpc().response(Some(&request.id)));
                }
                (Ok(message), _) => {
                    let sender = self.sender.as_ref().map_or(conversation.opener(), |sender| &sender.caller);
                    gathering.add(conversation.receive(message, sender, self.options("legacy")))
                }
                (Err(error), _) => gathering.answer(unreadable_error(&error).response(None)),
            }
        }
        self.keep(gathering, room.ok().flatten());
        None
    }

    /// Room for one more request, which stopping waits for; or why there is none.
    fn room(&self) -> Result<Option<BusyGuard>, Fault> {
        if !self.has_room() {
            return Err(Fault::new(FaultCode::Overloaded, "too many requests are in progress"));
        }
        match self.drain.as_ref().map(DrainState::enter) {
            Some(None) => Err(Fault::new(FaultCode::Draining, "the gateway is shutting down")),
            busy => Ok(busy.flatten()),
        }
    }

    fn has_room(&self) -> bool {
        self.outgoing.len() + self.held.len() < IN_PROGRESS
    }

    fn take(&mut self, message: RpcMessage) -> Option<Bytes> {
        match message {
            RpcMessage::Request(request) => match self.room() {
                Ok(busy) => self.request(request, busy),
                Err(fault) => Some(fault.to_rpc().response(Some(&request.id))),
            },
            RpcMessage::Notification(notification) => {
                self.cancel(&notification);
                self.converse(RpcMessage::Notification(notification), None)
            }
            response => self.converse(response, None),
        }
    }

    fn request(&mut self, request: RpcRequest, busy: Option<BusyGuard>) -> Option<Bytes> {
        let params = request.params_object();
        if names_revision(params.as_ref()) {
            return self.modern(&request, params.as_ref(), busy).err().map(|error| error.response(Some(&request.id)));
        }
        match request.method {
            Method::Initialize if self.conversation.get().is_none() && self.opening.is_none() => {
                self.initialize(request, busy);
                None
            }
            Method::Ping => Some(RpcResponse::result(request.id, RawJson::literal("{}")).to_bytes()),
            // A modern request without `_meta`: the client learns what is missing instead of "initialize first".
            Method::Discover if self.conversation.get().is_none() => {
                Some(invalid("the parameters lack _meta").response(Some(&request.id)))
            }
            _ => self.converse(RpcMessage::Request(request), busy),
        }
    }

    /// Opens the legacy session. The changes that it wants follow its response.
    fn initialize(&mut self, request: RpcRequest, busy: Option<BusyGuard>) {
        let (answer, caller, limits) = (self.answer.clone(), self.session.caller().clone(), self.limits.clone());
        let options = self.options("legacy");
        let (place, is_over) = (self.conversation.clone(), Arc::new(AtomicBool::new(false)));
        self.opening = Some(is_over.clone());
        let opening = async move {
            // Stopping waits for the response, and not for the changes after it.
            let _busy = busy;
            let begun = legacy_session::begin(answer, caller, &limits, &request, options).await;
            // Stored before the response is sent, so that whatever follows it is not held back.
            is_over.store(true, Ordering::Release);
            match begun {
                Ok((conversation, response)) => {
                    let conversation = place.get_or_init(|| Arc::new(conversation)).clone();
                    // Changes come on the same stream, and never before the response.
                    let caller = conversation.opener().clone();
                    let mut watch = LegacyChangeWatch::new(conversation, &caller);
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
            && let Some((held, sender)) = self.held.pop_front()
        {
            self.sender = sender;
            let answer = match held {
                DeferredMessage::Message(RpcMessage::Request(request), busy) => self.request(request, busy),
                DeferredMessage::Message(message, busy) => self.converse(message, busy),
                DeferredMessage::Batch(bytes) => self.receive_batch(&bytes),
            };
            self.sender = None;
            if let Some(answer) = answer {
                self.outgoing.push(stream::iter([answer]).boxed());
            }
        }
    }

    fn converse(&mut self, message: RpcMessage, busy: Option<BusyGuard>) -> Option<Bytes> {
        if self.opening.is_some() {
            if self.has_room() {
                self.held.push_back((DeferredMessage::Message(message, busy), self.sender.clone()));
            }
            return None;
        }
        let Some(conversation) = self.conversation.get() else {
            let RpcMessage::Request(request) = message else { return None };
            return Some(RpcError::new(code::INVALID_REQUEST, "initialize first").response(Some(&request.id)));
        };
        let sender = self.sender.as_ref().map_or(conversation.opener(), |sender| &sender.caller);
        match conversation.receive(message, sender, self.options("legacy")) {
            MessageEffect::Nothing => None,
            MessageEffect::Answered(response) => Some(response),
            MessageEffect::Turn(turn) => {
                self.keep(turn_stream(*turn), busy);
                None
            }
        }
    }

    fn modern(
        &mut self,
        request: &RpcRequest,
        params: Option<&JsonObject>,
        busy: Option<BusyGuard>,
    ) -> Result<(), RpcError> {
        let params = params.ok_or_else(|| invalid("the parameters must be an object"))?;
        let own = params.get_object("_meta").ok_or_else(|| invalid("the parameters lack _meta"))?;
        let meta = read_meta(&own)?;
        refuse_gone(&request.method)?;
        let call = Call::from(CallParts {
            method: request.method.clone(),
            params: params.without("_meta"),
            meta,
            caller: self.sender.as_ref().map_or(self.session.caller(), |sender| &sender.caller).clone(),
            options: CallOptions { era: Some(Era::Modern), ..self.options("stream") },
        });
        listen::expect_few(&call)?;
        // Ids are chosen by the client and may repeat; each request has its own switch.
        let cancel = Arc::new(CancelSwitch::default());
        self.running.lock().entry(request.id.clone()).or_default().push(cancel.clone());
        let asking = ModernTurn::start(&*self.answer, request.id.clone(), call, self.drain.as_ref());
        let is_subscription = request.method == Method::Listen;
        let cancellable = CancellableTurn {
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
    fn cancel(&self, notification: &RpcNotification) {
        if notification.method != Method::Cancelled {
            return;
        }
        // A cancellation that names nothing is ignored, as the specification says.
        let Some(id) = notification::cancelled_id(notification) else { return };
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

    /// Changes of a session do not count as a request, nor does a subscription.
    fn is_idle(&self) -> bool {
        let changes = usize::from(self.conversation.get().is_some());
        let subscriptions = Arc::strong_count(&self.subscriptions) - 1;
        self.outgoing.len() <= changes + subscriptions
    }
}

impl Drop for ClientPeer {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversation.get() {
            conversation.end();
        }
    }
}

fn turn_stream(turn: LegacyTurn) -> impl Stream<Item = Bytes> + Send {
    let mut turn = Some(turn);
    stream::poll_fn(move |context| {
        let Some(running) = &mut turn else { return Poll::Ready(None) };
        let said = std::task::ready!(running.poll(context));
        Poll::Ready(match said {
            TurnOutput::Message(message) => Some(message),
            TurnOutput::Response(response) => {
                turn = None;
                Some(response.into_bytes())
            }
            TurnOutput::Silence => {
                turn = None;
                None
            }
        })
    })
}

/// A modern request in progress.
enum ModernTurn {
    Call {
        id: RequestId,
        method: Method,
        running: RunningCall,
    },
    /// A subscription ends with a result when we begin to stop.
    Subscription {
        subscription: ListenSubscription,
        draining: BoxFuture<'static, ()>,
    },
}

impl ModernTurn {
    fn start(answer: &dyn Answer, id: RequestId, call: Call, drain: Option<&DrainState>) -> Self {
        match call.method {
            Method::Listen => {
                let draining = drain.map_or_else(|| future::pending().boxed(), |drain| drain.draining().boxed());
                ModernTurn::Subscription { subscription: ListenSubscription::open(answer, id, call), draining }
            }
            _ => ModernTurn::Call { method: call.method.clone(), running: RunningCall::start(answer, call), id },
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<TurnOutput> {
        match self {
            ModernTurn::Subscription { subscription, draining } => match subscription.poll(context) {
                Poll::Ready(listen::SubscriptionOutput::Note(note)) => Poll::Ready(TurnOutput::Message(note)),
                Poll::Ready(listen::SubscriptionOutput::End(response)) => {
                    Poll::Ready(TurnOutput::Response(RpcResponseBody::Whole(response)))
                }
                Poll::Pending => draining
                    .poll_unpin(context)
                    .map(|()| TurnOutput::Response(RpcResponseBody::Whole(subscription.goodbye()))),
            },
            ModernTurn::Call { id, method, running } => running.poll_event(context).map(|event| match event {
                ReplyEvent::Note(note) => TurnOutput::Message(note.to_bytes()),
                ReplyEvent::Done(outcome) => {
                    TurnOutput::Response(RpcResponseBody::Whole(response(id, method, &outcome)))
                }
            }),
        }
    }
}

/// A modern request that its client can abandon by a message.
struct CancellableTurn {
    asking: Option<ModernTurn>,
    id: RequestId,
    cancel: Arc<CancelSwitch>,
    running: CancelTable,
    _subscription: Option<Arc<()>>,
}

impl Stream for CancellableTurn {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.cancel.register(context.waker());
        if self.cancel.is_set() {
            self.asking = None;
        }
        let Some(asking) = &mut self.asking else { return Poll::Ready(None) };
        let said = std::task::ready!(asking.poll(context));
        Poll::Ready(match said {
            TurnOutput::Message(message) => Some(message),
            TurnOutput::Response(response) => {
                self.asking = None;
                Some(response.into_bytes())
            }
            TurnOutput::Silence => None,
        })
    }
}

impl Drop for CancellableTurn {
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
