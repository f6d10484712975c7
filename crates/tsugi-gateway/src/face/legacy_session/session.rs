//! What a legacy session remembers: who the client is, what it wants to hear, what it was asked.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tsugi_protocol::answer::{Answer, Call, CallFailure, CallOptions, CallParts, Caller, Outcome, ReplyEvent};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_protocol::mcp::version::Era;
use tsugi_protocol::mcp::{ClientProfile, Method, ProtocolVersion, ServerIdentity};
use tsugi_protocol::rpc::{
    RequestId, ResponsePayload, RpcError, RpcMessage, RpcNotification, RpcRequest, RpcResponse, code,
};

use super::turn::LegacyTurn;
use crate::backend;
use crate::config::GatewayLimits;
use crate::face::mcp::modern::{invalid, listen};
use crate::face::running_call::{CancelSwitch, RunningCall};
use tsugi_protocol::era::{notification, session};

/// A session of the legacy era, whatever wire it is on.
pub(crate) struct LegacySession {
    /// Where it was opened from, if a policy looks at that.
    address: Option<IpAddr>,
    pub(super) answer: Arc<dyn Answer>,
    pub(super) version: ProtocolVersion,
    pub(super) client: Arc<ClientProfile>,
    pub(super) rounds: usize,
    pub(super) answer_timeout: Duration,
    /// The caller that opened it, in this session.
    opener: Caller,
    can_subscribe: bool,
    lists: SubscriptionFilter,
    next_question: AtomicU64,
    state: Mutex<LegacySessionState>,
}

struct LegacySessionState {
    level: LogLevel,
    uris: BTreeSet<String>,
    /// Grows whenever what is to be watched changes.
    watch: u64,
    watcher: Option<Waker>,
    /// How often the client said that its roots have changed, and how much of that the servers know.
    roots: u64,
    roots_told: u64,
    running: Vec<(RequestId, Arc<CancelSwitch>)>,
    questions: HashMap<u64, oneshot::Sender<ResponsePayload>>,
    is_over: bool,
}

/// What a message led to.
pub(crate) enum MessageEffect {
    Nothing,
    /// An answer at once.
    Answered(Bytes),
    /// An answer later; poll it.
    Turn(Box<LegacyTurn>),
}

/// Answers `initialize`: asks who answers here, and opens a conversation with its client.
/// Nothing is kept when it fails.
pub(crate) async fn begin(
    answer: Arc<dyn Answer>,
    caller: Caller,
    limits: &GatewayLimits,
    request: &RpcRequest,
    options: CallOptions,
) -> Result<(LegacySession, Bytes), RpcError> {
    let params = request.params.as_ref().and_then(JsonObject::of);
    let params = params.ok_or_else(|| invalid("initialize needs parameters"))?;
    if !params.has("protocolVersion") {
        return Err(invalid("initialize needs a protocolVersion"));
    }
    // A slice would keep the whole buffer of the connection alive for as long as the session lives.
    let params =
        JsonObject::parse(Bytes::copy_from_slice(params.bytes())).map_err(|error| invalid(&error.to_string()))?;
    let (version, client) = session::read_initialize(&params);
    let client = Arc::new(client);
    let options = CallOptions { face: "legacy", era: Some(Era::Legacy), ..options };
    let address = options.address;
    let identity = identify(&*answer, caller.clone(), client.clone(), options).await?;
    let result = session::initialize_result(&identity, version);
    let response = RpcResponse::result(request.id.clone(), result).to_bytes();
    let conversation = LegacySession::new(answer, caller, limits, version, client, &identity);
    let conversation = LegacySession { address, ..conversation };
    Ok((conversation, response))
}

async fn identify(
    answer: &dyn Answer,
    caller: Caller,
    client: Arc<ClientProfile>,
    options: CallOptions,
) -> Result<ServerIdentity, RpcError> {
    let mut call = Call::bare(Method::Discover).from_caller(caller);
    call.meta = RequestMeta::of_client(client);
    call.options = options;
    match RunningCall::start(answer, call).outcome().await {
        Outcome::Complete(complete) => session::read_discover_result(&complete.body)
            .map_err(|reason| RpcError::new(code::own::UPSTREAM_PROTOCOL, reason)),
        Outcome::InputRequired(_) => {
            Err(RpcError::new(code::own::UPSTREAM_PROTOCOL, "the server asks before it greets"))
        }
        Outcome::Failed(failure) => Err(failure.to_rpc()),
    }
}

impl LegacySession {
    fn new(
        answer: Arc<dyn Answer>,
        caller: Caller,
        limits: &GatewayLimits,
        version: ProtocolVersion,
        client: Arc<ClientProfile>,
        identity: &ServerIdentity,
    ) -> Self {
        let lists = SubscriptionFilter::offered_by(&identity.capabilities, []);
        let state = LegacySessionState {
            // Legacy clients get log messages without asking; `logging/setLevel` changes which.
            level: LogLevel::Info,
            uris: BTreeSet::new(),
            watch: 0,
            watcher: None,
            roots: 0,
            roots_told: 0,
            running: Vec::new(),
            questions: HashMap::new(),
            is_over: false,
        };
        Self {
            address: None,
            answer,
            version,
            client,
            opener: caller,
            lists,
            rounds: limits.rounds,
            answer_timeout: limits.answer_timeout,
            can_subscribe: identity.capabilities.has_resource_subscriptions(),
            next_question: AtomicU64::new(1),
            state: Mutex::new(state),
        }
    }

    /// The caller that opened it, in this session.
    pub(crate) fn opener(&self) -> &Caller {
        &self.opener
    }

    /// The revision that was agreed on.
    pub(crate) fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Takes one message from the client. The options say how it came in. What it may do is decided by the caller of
    /// the request that brought it, and not by the one that opened the session.
    pub(crate) fn receive(
        self: &Arc<Self>,
        message: RpcMessage,
        caller: &Caller,
        options: CallOptions,
    ) -> MessageEffect {
        match message {
            RpcMessage::Request(request) => self.request(request, caller, options),
            RpcMessage::Notification(notification) => {
                self.notification(&notification);
                MessageEffect::Nothing
            }
            RpcMessage::Response(response) => {
                self.answered(response);
                MessageEffect::Nothing
            }
        }
    }

    fn request(self: &Arc<Self>, request: RpcRequest, caller: &Caller, options: CallOptions) -> MessageEffect {
        let answered = match request.method {
            Method::Ping => Ok(()),
            Method::SetLevel => self.set_level(&request),
            // Others may watch the same: whether the server hears of it is decided where watching is counted.
            Method::ResourcesUnsubscribe => self.unsubscribe(&request),
            Method::Initialize => Err(RpcError::new(code::INVALID_REQUEST, "this session is initialized already")),
            // Methods of the modern era do not exist in a legacy session.
            Method::Discover | Method::Listen => {
                Err(RpcError::new(code::METHOD_NOT_FOUND, &format!("method not found: {}", request.method)))
            }
            _ => {
                let caller = caller.in_session_of(&self.opener);
                return MessageEffect::Turn(Box::new(LegacyTurn::start(self.clone(), caller, request, options)));
            }
        };
        MessageEffect::Answered(match answered {
            Ok(()) => RpcResponse::result(request.id, RawJson::literal("{}")).to_bytes(),
            Err(error) => error.response(Some(&request.id)),
        })
    }

    fn set_level(&self, request: &RpcRequest) -> Result<(), RpcError> {
        let level = request.params_object().as_ref().and_then(notification::read_set_level);
        self.state.lock().level = level.ok_or_else(|| invalid("there is no such log level"))?;
        Ok(())
    }

    fn subscribe(&self, request: &RpcRequest) -> Result<(), RpcError> {
        let uri = uri_of(request)?;
        // Each address is held and compared for as long as the session lives.
        if self.state.lock().uris.len() >= listen::SUBSCRIPTIONS {
            return Err(listen::too_many());
        }
        self.change_watch(|uris| uris.insert(uri));
        Ok(())
    }

    fn unsubscribe(&self, request: &RpcRequest) -> Result<(), RpcError> {
        let uri = uri_of(request)?;
        self.change_watch(|uris| uris.remove(&uri));
        Ok(())
    }

    fn change_watch(&self, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut state = self.state.lock();
        if change(&mut state.uris) {
            // The watcher sees by the number that it has to listen again.
            state.watch += 1;
            wake(state.watcher.take());
        }
    }

    fn notification(&self, notification: &RpcNotification) {
        match notification.method {
            Method::Cancelled => self.cancelled(notification),
            Method::RootsChanged if self.client.capabilities.announces_roots() => self.roots_changed(),
            _ => {}
        }
    }

    fn roots_changed(&self) {
        let mut state = self.state.lock();
        // Counted and not flagged: roots may change again while servers are being asked.
        state.roots += 1;
        wake(state.watcher.take());
    }

    /// The number of the last change of the client's roots, when servers have not heard of it.
    pub(super) fn untold_roots(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.roots != state.roots_told && !state.is_over).then_some(state.roots)
    }

    /// Servers have heard of the changes up to this one.
    pub(super) fn told_roots(&self, number: u64) {
        self.state.lock().roots_told = number;
    }

    fn cancelled(&self, notification: &RpcNotification) {
        let Some(id) = notification.params_object().get("requestId").and_then(RequestId::from_raw) else { return };
        let state = self.state.lock();
        // A client may have used the same id twice; both are meant then.
        for (_, cancel) in state.running.iter().filter(|(running, _)| *running == id) {
            cancel.set();
        }
    }

    fn answered(&self, response: RpcResponse) {
        let Some(id) = response.id.as_ref().and_then(RequestId::as_u64) else { return };
        if let Some(waiting) = self.state.lock().questions.remove(&id) {
            // The turn may have ended before the answer came; then no receiver is left for it.
            let _ = waiting.send(response.body);
        }
    }

    /// A listening call that shows whether there is what the client subscribes to; `None` for other requests, and where
    /// the server itself is asked.
    pub(super) fn look(&self, caller: &Caller, request: &RpcRequest) -> Option<Result<Call, RpcError>> {
        let is_ours = request.method == Method::ResourcesSubscribe && self.can_subscribe;
        is_ours.then(|| {
            let uris = [uri_of(request)?].into();
            Ok(self.listen(caller, &SubscriptionFilter { uris, ..SubscriptionFilter::default() }))
        })
    }

    /// Takes a subscription, if the first thing that such a call says does not leave its address out.
    pub(super) fn take_subscription(&self, request: &RpcRequest, said: &ReplyEvent) -> Result<(), RpcError> {
        let uri = uri_of(request)?;
        let granted = match said {
            ReplyEvent::Note(note) => note.params_object().get_object("notifications"),
            ReplyEvent::Done(_) => None,
        };
        if granted.is_some_and(|granted| !SubscriptionFilter::from_object(&granted).uris.contains(&uri)) {
            let error = CallFailure::from(backend::no_such_resource(&uri)).to_rpc();
            return Err(error.with_code(code::RESOURCE_NOT_FOUND));
        }
        self.subscribe(request)
    }

    /// Notes that a server did what this request asked for. A server that says it cannot be subscribed to is asked all
    /// the same, since some do it: then the client wants the notification.
    pub(super) fn done(&self, request: &RpcRequest) {
        if request.method == Method::ResourcesSubscribe {
            // Too many, or without an address: the server's answer stands.
            let _ = self.subscribe(request);
        }
    }

    /// The call that a request stands for, as it is now: a retry sees the log level of today.
    pub(super) fn call(&self, caller: &Caller, request: &RpcRequest, options: CallOptions) -> Result<Call, RpcError> {
        let params = request.params_object().ok_or_else(|| invalid("the parameters must be an object"))?;
        let own = params.get_object("_meta");
        let level = self.state.lock().level;
        Ok(Call::from(CallParts {
            method: request.method.clone(),
            meta: RequestMeta::from_legacy(own.as_ref(), self.client.clone(), Some(level)),
            params: params.without("_meta"),
            caller: caller.clone(),
            options: CallOptions { face: "legacy", era: Some(Era::Legacy), ..options },
        }))
    }

    pub(super) fn began(&self, id: &RequestId) -> Arc<CancelSwitch> {
        let cancel = Arc::new(CancelSwitch::default());
        let mut state = self.state.lock();
        // The session ended between the request and this turn.
        if state.is_over {
            cancel.set();
        }
        state.running.push((id.clone(), cancel.clone()));
        cancel
    }

    pub(super) fn ended(&self, cancel: &Arc<CancelSwitch>) {
        self.state.lock().running.retain(|(_, other)| !Arc::ptr_eq(other, cancel));
    }

    /// A fresh id for a question to the client, and where its answer will arrive.
    pub(super) fn ask(&self) -> (u64, oneshot::Receiver<ResponsePayload>) {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.state.lock().questions.insert(id, sender);
        (id, receiver)
    }

    pub(super) fn forget_question(&self, id: u64) {
        self.state.lock().questions.remove(&id);
    }

    /// What is to be watched now, and the number of that wish.
    pub(super) fn wanted_changes(&self) -> (u64, SubscriptionFilter) {
        let state = self.state.lock();
        (state.watch, SubscriptionFilter { uris: state.uris.clone(), ..self.lists.clone() })
    }

    /// True when the wish with this number is still the wish; otherwise the waker is not kept.
    pub(super) fn is_wish(&self, number: u64, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let is_same = state.watch == number;
        if is_same {
            state.watcher = Some(waker.clone());
        }
        is_same
    }

    /// A call that watches the changes that this client wants.
    pub(super) fn listen(&self, caller: &Caller, filter: &SubscriptionFilter) -> Call {
        let mut call = Call::new(Method::Listen, notification::listen_params(filter)).from_caller(caller.clone());
        call.meta = RequestMeta::of_client(self.client.clone());
        let address = self.address;
        call.options = CallOptions { face: "legacy", era: Some(Era::Legacy), address, ..CallOptions::default() };
        call
    }

    /// Ends everything: running calls are cancelled, nothing is watched.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        state.questions.clear();
        for (_, cancel) in &state.running {
            cancel.set();
        }
        state.watch += 1;
        wake(state.watcher.take());
    }

    /// True after [`LegacySession::end`].
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn uri_of(request: &RpcRequest) -> Result<String, RpcError> {
    let params = request.params_object();
    let uri = params.as_ref().and_then(|params| params.get_str("uri"));
    uri.map(|uri| uri.into_owned()).ok_or_else(|| invalid("the parameter `uri` must be a string"))
}
