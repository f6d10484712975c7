//! A connection over streamable HTTP: an exchange per call, in either era.

mod call;
mod in_flight;
mod listener;
mod open;
mod trace_headers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply, SentState};
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion, ServerIdentity};
use tsugi_protocol::rpc::RpcNotification;
use tsugi_schema::header_param::HeaderParams;
use tsugi_transport::http::{HttpClient, headers};

use super::context::ConnectionContext;
use super::notice::ServerNotice;
use in_flight::HttpFlights;
pub(crate) use open::{HttpOpening, open};

/// How long a look at a server's tools may take, while a call waits for it.
const LEARN_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// A connection over HTTP.
pub(crate) struct HttpConnection {
    shared: Arc<HttpCore>,
    /// The stream of a legacy server's own messages, read as long as the connection lives.
    listener: Option<AbortHandle>,
}

/// What the calls share.
struct HttpCore {
    context: Arc<ConnectionContext>,
    client: HttpClient,
    session: Mutex<HttpSession>,
    reopening: tokio::sync::Mutex<()>,
    header_params: ArcSwap<HashMap<String, HeaderParams>>,
    /// Counts how often it was learned which arguments are mirrored.
    lessons: watch::Sender<u64>,
    next_id: AtomicU64,
    flights: HttpFlights,
    level: Mutex<Option<LogLevel>>,
    /// Counts the sessions that were agreed anew.
    renewals: watch::Sender<u64>,
    /// Ends every call when the connection is closed.
    closed: CancellationToken,
    end: watch::Sender<Option<Arc<Fault>>>,
}

/// What was agreed. A legacy server may forget it, and then it is agreed anew.
#[derive(Clone)]
struct HttpSession {
    identity: Arc<ServerIdentity>,
    id: Option<HeaderValue>,
}

impl HttpConnection {
    fn new(context: Arc<ConnectionContext>, client: HttpClient, session: HttpSession) -> Self {
        let shared = Arc::new(HttpCore {
            context,
            client,
            session: Mutex::new(session),
            reopening: tokio::sync::Mutex::default(),
            header_params: ArcSwap::default(),
            lessons: watch::Sender::new(0),
            next_id: AtomicU64::new(1),
            flights: HttpFlights::default(),
            level: Mutex::default(),
            renewals: watch::Sender::new(0),
            closed: CancellationToken::new(),
            end: watch::Sender::new(None),
        });
        Self { shared, listener: None }
    }

    /// Opens the stream on which a legacy server speaks by itself.
    async fn listen(&mut self) {
        self.listener = Some(listener::start(self.shared.clone()).await);
    }

    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        self.shared.session.lock().identity.clone()
    }

    /// True when the server cannot be reached.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.end.borrow().is_some()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shared.flights.len()
    }

    /// Sends a notification of our own to a legacy server.
    pub(crate) fn notify(&self, notification: &RpcNotification) {
        self.shared.notify(notification);
    }

    /// Tells which arguments of which tools are mirrored into headers.
    pub(crate) fn set_header_params(&self, params: HashMap<String, HeaderParams>) {
        self.shared.header_params.store(Arc::new(params));
        self.shared.lessons.send_modify(|count| *count += 1);
    }

    pub(crate) async fn lost(&self) -> Arc<Fault> {
        let mut end = self.shared.end.subscribe();
        let fault = end.wait_for(|fault| fault.is_some()).await.map(|fault| fault.clone());
        match fault {
            Ok(Some(fault)) => fault,
            _ => std::future::pending().await,
        }
    }

    /// Ends the calls and a legacy session. A server that does not answer is not waited for.
    pub(crate) async fn close(&self) {
        self.end();
        let session = self.shared.session.lock().clone();
        if session.id.is_some() {
            let ending = self.shared.client.delete(self.shared.legacy_headers(&session));
            let _ = tokio::time::timeout(std::time::Duration::from_secs(2), ending).await;
        }
    }
}

impl HttpConnection {
    fn end(&self) {
        self.shared.closed.cancel();
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Answer for HttpConnection {
    fn answer(&self, call: Call) -> Reply {
        let call = match self.shared.context.resume_or_pass(call) {
            Ok(call) => call,
            Err(reply) => return reply,
        };
        let shared = self.shared.clone();
        Reply::from_noted_future(move |notes| call::run(shared, call, notes))
    }
}

impl HttpCore {
    fn era(&self) -> Era {
        self.session.lock().identity.version.era()
    }

    fn session(&self) -> HttpSession {
        self.session.lock().clone()
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The headers of a message in a legacy session
    /// ([2025-11-25: Protocol Version Header](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header)).
    fn legacy_headers(&self, session: &HttpSession) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(4);
        if session.identity.version >= ProtocolVersion::V2025_06_18 {
            map.insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(session.identity.version.as_str()));
        }
        if let Some(id) = &session.id {
            map.insert(headers::SESSION_ID, id.clone());
        }
        map
    }

    /// The headers that mirror a modern request.
    fn modern_headers(&self, call: &Call) -> Result<HeaderMap, Fault> {
        let mut map = modern_headers_of(&call.method, call.subject().as_deref());
        trace_headers::add(&mut map, call);
        if call.method == Method::ToolsCall {
            self.mirror_arguments(call, &mut map)?;
        }
        Ok(map)
    }

    fn mirror_arguments(&self, call: &Call, map: &mut HeaderMap) -> Result<(), Fault> {
        let params = self.header_params.load();
        let Some(params) = call.subject().and_then(|tool| params.get(tool.as_ref())) else { return Ok(()) };
        let arguments = call.params.get("arguments").and_then(|raw| raw.to().ok()).unwrap_or(serde_json::Value::Null);
        let mirrored = params.headers(&arguments).map_err(|error| {
            self.context.fault(FaultCode::InvalidParams, format!("an argument cannot be put into a header: {error}"))
        })?;
        for (name, value) in mirrored {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                map.insert(name, value);
            }
        }
        Ok(())
    }

    /// Looks at the server's tools again, unless that was done since the lesson with this number. `false` when
    /// nothing new is known in time.
    async fn learn_headers(&self, known: u64) -> bool {
        let mut lessons = self.lessons.subscribe();
        if *lessons.borrow() == known {
            self.context.publish(ServerNotice::Tools);
        }
        let learning = lessons.wait_for(|newest| *newest != known);
        matches!(tokio::time::timeout(LEARN_LIMIT, learning).await, Ok(Ok(_)))
    }

    /// Sends a notification of our own and does not wait for it.
    fn notify(self: &Arc<Self>, notification: &RpcNotification) {
        self.send_aside(notification.to_bytes());
    }

    /// Posts a legacy message beside the calls.
    fn send_aside(self: &Arc<Self>, message: Bytes) {
        let shared = self.clone();
        tokio::spawn(async move {
            let headers = shared.legacy_headers(&shared.session());
            let posting = shared.client.post(message, headers);
            let _ = tokio::time::timeout(std::time::Duration::from_secs(5), posting).await;
        });
    }

    /// What a call hears that was under way when the connection was closed.
    fn stopped(&self) -> Fault {
        self.context.fault(FaultCode::ServerNotRunning, "the server was stopped").sent(SentState::Unknown)
    }

    /// The server cannot be reached: whoever supervises should connect anew.
    fn unreachable(&self, fault: &Fault) {
        let fault = fault.clone().sent(SentState::NotSent);
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert_with(|| Arc::new(fault));
            is_first
        });
    }
}

/// The standard headers of a modern request.
fn modern_headers_of(method: &Method, subject: Option<&str>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(6);
    map.insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(ProtocolVersion::LATEST.as_str()));
    map.insert(headers::METHOD, headers::encode(method.as_str()));
    if let Some(subject) = subject.filter(|_| method.may_ask()) {
        map.insert(headers::NAME, headers::encode(subject));
    }
    map
}
