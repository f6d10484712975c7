//! A connection over streamable HTTP: an exchange per call, in either era.

mod call;
mod listener;
mod open;
mod trace_headers;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply, SentState};
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion, ServerIdentity};
use tsugi_protocol::rpc::{RpcNotification, RpcResponse};
use tsugi_schema::header_param::HeaderParams;
use tsugi_transport::http::{HttpClient, headers};

use super::context::ConnectionContext;
use super::in_flight::{self, CallArrival, CallTable, CallWire};
use super::notice::ServerNotice;
use super::turnstile::TurnPermit;
pub(crate) use open::{HttpOpening, open};

/// How long fetching a server's tools may take, while a call waits for it.
const LEARN_LIMIT: Duration = Duration::from_secs(5);
/// How long posting a message may take that no call waits for. A refusal that is lost leaves the server waiting, so a
/// slow server gets time.
const SEND_LIMIT: Duration = Duration::from_secs(30);
/// How long ending a session may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// A connection over HTTP.
pub(crate) struct HttpConnection {
    core: Arc<HttpCore>,
    /// The stream of a legacy server's own messages, read as long as the connection lives.
    listener: Option<AbortHandle>,
}

/// The part that the calls share.
struct HttpCore {
    table: CallTable,
    client: HttpClient,
    session: Mutex<HttpSession>,
    reopening: tokio::sync::Mutex<()>,
    header_params: ArcSwap<HashMap<String, HeaderParams>>,
    /// Counts how often the mirrored arguments were fetched.
    lessons: watch::Sender<u64>,
    /// Counts the sessions after the first.
    renewals: watch::Sender<u64>,
    /// Ends a handshake when the connection is closed.
    closed: CancellationToken,
}

/// The result of the handshake. A legacy server may forget its session; then there is a new one.
#[derive(Clone)]
struct HttpSession {
    identity: Arc<ServerIdentity>,
    id: Option<HeaderValue>,
}

impl HttpConnection {
    fn new(context: Arc<ConnectionContext>, client: HttpClient, session: HttpSession) -> Self {
        let core = Arc::new(HttpCore {
            table: CallTable::new(context),
            client,
            session: Mutex::new(session),
            reopening: tokio::sync::Mutex::default(),
            header_params: ArcSwap::default(),
            lessons: watch::Sender::new(0),
            renewals: watch::Sender::new(0),
            closed: CancellationToken::new(),
        });
        Self { core, listener: None }
    }

    /// Opens the stream on which a legacy server sends messages outside any call.
    async fn listen(&mut self) {
        self.listener = Some(listener::start(self.core.clone()).await);
    }

    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        self.core.session.lock().identity.clone()
    }

    /// True when the server cannot be reached.
    pub(crate) fn is_ending(&self) -> bool {
        self.core.table.has_ended()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.core.table.in_flight()
    }

    /// Sends a notification of our own to a legacy server.
    pub(crate) fn notify(&self, notification: &RpcNotification) {
        self.core.send(notification.to_bytes());
    }

    /// Sets which arguments of which tools are mirrored into headers.
    pub(crate) fn set_header_params(&self, params: HashMap<String, HeaderParams>) {
        self.core.header_params.store(Arc::new(params));
        // Calls that were refused for their headers wait for this.
        self.core.lessons.send_modify(|count| *count += 1);
    }

    pub(crate) async fn lost(&self) -> Arc<Fault> {
        self.core.table.lost().await
    }

    /// Ends the calls and a legacy session. A server that does not answer is not waited for.
    pub(crate) async fn close(&self) {
        self.end();
        let session = self.core.session.lock().clone();
        // Without an id the server keeps no session.
        if session.id.is_some() {
            let ending = self.core.client.delete(self.core.legacy_headers(&session));
            let _ = tokio::time::timeout(CLOSE_LIMIT, ending).await;
        }
    }
}

impl HttpConnection {
    fn end(&self) {
        self.core.closed.cancel();
        self.core.table.close(&Arc::new(self.core.stopped()));
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
        in_flight::answer(&self.core, call)
    }
}

impl CallWire for HttpCore {
    fn table(&self) -> &CallTable {
        &self.table
    }

    fn identity(&self) -> Arc<ServerIdentity> {
        self.session.lock().identity.clone()
    }

    fn era(&self) -> Era {
        self.session.lock().identity.version.era()
    }

    /// Posts a legacy message beside the calls.
    fn send(self: &Arc<Self>, message: Bytes) {
        let core = self.clone();
        tokio::spawn(async move {
            let headers = core.legacy_headers(&core.session());
            let posting = core.client.post(message, headers);
            let _ = tokio::time::timeout(SEND_LIMIT, posting).await;
        });
    }

    fn deliver(self: &Arc<Self>, key: u64, answer: &RpcResponse) {
        let (core, answer) = (self.clone(), answer.to_bytes());
        tokio::spawn(async move {
            if let Err(fault) = core.post_answer(answer).await {
                // A call that has ended by now does not need its answer.
                let _ = core.table.pending.post(key, CallArrival::Failed(Arc::new(fault)));
            }
        });
    }

    fn start(self: &Arc<Self>, call: Call, turn: Option<TurnPermit>) -> Reply {
        call::start(self, call, turn)
    }

    /// The streams of a session are not ordered among each other.
    fn is_ordered(&self) -> bool {
        false
    }

    fn cancels_by_closing(&self) -> bool {
        true
    }
}

impl HttpCore {
    fn session(&self) -> HttpSession {
        self.session.lock().clone()
    }

    /// The headers of a message in a legacy session
    /// ([2025-11-25: Protocol Version Header](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header)).
    fn legacy_headers(&self, session: &HttpSession) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(4);
        // Older revisions do not know this header.
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
        // Only tools declare arguments that are mirrored.
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
            self.table
                .context
                .fault(FaultCode::InvalidParams, format!("an argument cannot be put into a header: {error}"))
        })?;
        for (name, value) in mirrored {
            // A name or value that HTTP does not allow was refused above, or is the server's mistake.
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                map.insert(name, value);
            }
        }
        Ok(())
    }

    /// Fetches the server's tools again, unless that was done since `known`. `false` when nothing new is known in time.
    async fn learn_headers(&self, known: u64) -> bool {
        let mut lessons = self.lessons.subscribe();
        // Of many calls that wait for this, the first asks for it.
        if *lessons.borrow() == known {
            self.table.context.publish(ServerNotice::Tools);
        }
        let learning = lessons.wait_for(|newest| *newest != known);
        matches!(tokio::time::timeout(LEARN_LIMIT, learning).await, Ok(Ok(_)))
    }

    /// The fault of calls that were in flight when the connection was closed.
    fn stopped(&self) -> Fault {
        self.table.context.fault(FaultCode::ServerNotRunning, "the server was stopped").sent(SentState::Unknown)
    }

    /// The server cannot be reached: its supervisor should connect again.
    fn unreachable(&self, fault: &Fault) {
        self.table.record_end(Arc::new(fault.clone().sent(SentState::NotSent)));
    }
}

/// The standard headers of a modern request.
fn modern_headers_of(method: &Method, subject: Option<&str>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(6);
    map.insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(ProtocolVersion::LATEST.as_str()));
    // Most requests are calls of tools, whose name needs no copy.
    let name = match method {
        Method::ToolsCall => HeaderValue::from_static("tools/call"),
        other => headers::encode(other.as_str()),
    };
    map.insert(headers::METHOD, name);
    if let Some(subject) = subject.filter(|_| method.has_name_header()) {
        map.insert(headers::NAME, headers::encode(subject));
    }
    map
}
