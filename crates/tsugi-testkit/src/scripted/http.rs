//! A scripted server over HTTP: modern, streamable with sessions, and the two endpoints of 2024-11-05.

mod exchange;
mod log;
mod request;
mod stream;
mod wire;

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::message::{Request, VERSION_KEY};
use super::server::{Host, Server, Session};
use super::turn::Turn;
use crate::journal::Journal;
use crate::script::{Action, Eras, Script};
use exchange::Exchange;
use log::EventLogs;
pub(crate) use request::HttpRequest;
use stream::Stream;
use wire::Wire;

/// A scripted server over HTTP, in threads of this process. It ends when it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    is_ended: Arc<AtomicBool>,
    folder: tempfile::TempDir,
}

impl HttpServer {
    /// Starts on a free port of the loopback.
    pub fn start(script: &Script) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let is_ended = Arc::new(AtomicBool::new(false));
        let host = Host::Threads(is_ended.clone());
        let server = Server::new(script, Some(folder.path()), host).expect("the script and its launches are good");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        std::thread::spawn(move || accept(&listener, &Arc::new(Site::new(server))));
        Self { address, is_ended, folder }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the streamable endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The address of the older endpoint.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// What it saw and did.
    pub fn journal(&self) -> Journal {
        Journal::at(self.folder.path())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Release);
        // The one who accepts is waiting for a connection; give it one.
        TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).ok();
    }
}

/// Serves HTTP in this process until it is ended. The first line on stdout is the address, which is also
/// written to `url` in the state folder.
pub fn run_http_process(script: &Script, folder: Option<&Path>, listen: &str) -> Result<(), String> {
    let site = Arc::new(Site::new(Server::new(script, folder, Host::Process)?));
    super::stdio::watch_for_sigterm(&site.server);
    std::thread::sleep(Duration::from_millis(site.server.script.start_delay_ms));
    let listener = TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let url = format!("http://{address}/mcp");
    if let Some(folder) = folder {
        std::fs::write(folder.join("url"), &url).map_err(|error| error.to_string())?;
    }
    writeln!(std::io::stdout(), "{url}").map_err(|error| error.to_string())?;
    accept(&listener, &site);
    Ok(())
}

/// What all connections share.
struct Site {
    server: Arc<Server>,
    logs: EventLogs,
    next_session: AtomicU64,
}

impl Site {
    fn new(server: Server) -> Self {
        Self { server: Arc::new(server), logs: EventLogs::default(), next_session: AtomicU64::new(1) }
    }

    fn is_ended(&self) -> bool {
        matches!(&self.server.host, Host::Threads(is_ended) if is_ended.load(Ordering::Acquire))
    }
}

fn accept(listener: &TcpListener, site: &Arc<Site>) {
    for socket in listener.incoming().flatten() {
        if site.is_ended() {
            return;
        }
        let site = site.clone();
        std::thread::spawn(move || Connection { site, socket }.run());
    }
}

struct Connection {
    site: Arc<Site>,
    socket: TcpStream,
}

impl Connection {
    fn run(self) {
        self.socket.set_nodelay(true).ok();
        let Ok(reading) = self.socket.try_clone() else { return };
        let mut reading = BufReader::new(reading);
        while let Some(request) = HttpRequest::read(&mut reading) {
            if self.site.is_ended() {
                return;
            }
            self.site.server.journal.write("http", request.described());
            if !self.answer(&request) {
                return;
            }
        }
    }

    fn wire(&self) -> Wire {
        Wire::new(&self.socket)
    }

    fn reply(&self, code: u16, headers: &[(&str, &str)], body: &str) -> bool {
        self.wire().respond(code, headers, body);
        true
    }

    /// Answers one request; false when the connection is over.
    fn answer(&self, request: &HttpRequest) -> bool {
        let script = &self.site.server.script;
        let demanded = script.http.token.as_ref().map(|token| format!("Bearer {token}"));
        if demanded.is_some() && demanded.as_deref() != request.header("authorization") {
            return self.reply(401, &[("WWW-Authenticate", "Bearer realm=\"scripted\"")], "");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/mcp") => self.post(request),
            ("GET", "/mcp") if script.era != Eras::Modern => self.get(request),
            ("DELETE", "/mcp") if script.era != Eras::Modern => self.delete(request),
            ("GET", "/sse") if script.http.old_sse => self.old_stream(),
            ("POST", "/messages") if script.http.old_sse => self.old_message(request),
            (_, "/mcp") => self.reply(405, &[("Allow", "POST")], ""),
            _ => self.reply(404, &[], "not found"),
        }
    }

    fn post(&self, http: &HttpRequest) -> bool {
        let Ok(message) = serde_json::from_slice::<Value>(&http.body) else {
            return self.reply(400, &[], r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#);
        };
        let Some(request) = Request::of(&message) else {
            self.site.server.told(&message);
            return self.reply(202, &[], "");
        };
        self.site.server.journal.write("received", message);
        if request.method == "notifications/cancelled" {
            self.site.server.cancel(&request.params["requestId"]);
        }
        let is_modern = request.is_modern() && self.site.server.script.era != Eras::Legacy;
        if let Some(fault) = is_modern.then(|| header_fault(http, &request)).flatten() {
            let error = json!({"jsonrpc": "2.0", "id": request.id, "error": {"code": -32020, "message": fault}});
            return self.reply(400, &[], &error.to_string());
        }
        let session = match self.session(http, &request, is_modern) {
            Ok(session) => session,
            Err((code, text)) => return self.refuse(code, text, &request.id),
        };
        self.take_turn(request, session, is_modern)
    }

    fn refuse(&self, code: u16, text: &str, id: &Value) -> bool {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": text}});
        self.reply(code, &[], &error.to_string())
    }

    /// The session of a request: none in the modern era, a new one for `initialize`, a known one else.
    fn session(
        &self,
        http: &HttpRequest,
        request: &Request,
        is_modern: bool,
    ) -> Result<Arc<Session>, (u16, &'static str)> {
        let has_sessions = self.site.server.script.http.sessions;
        if is_modern || self.site.server.script.era == Eras::Modern {
            return Ok(Arc::default());
        }
        let mut sessions = self.site.server.sessions.lock();
        if request.method == "initialize" || !has_sessions {
            let number = if has_sessions { self.site.next_session.fetch_add(1, Ordering::Relaxed) } else { 0 };
            let id = format!("session-{}-{number}", self.site.server.launch);
            return Ok(sessions
                .entry(id.clone())
                .or_insert_with(|| Arc::new(Session { id, ..Session::default() }))
                .clone());
        }
        match http.header("mcp-session-id") {
            None => Err((400, "Bad Request: no valid session id provided")),
            Some(id) => sessions.get(id).cloned().ok_or((404, "Session not found")),
        }
    }

    fn take_turn(&self, request: Request, session: Arc<Session>, is_modern: bool) -> bool {
        let script = &self.site.server.script;
        let mut exchange = Exchange::new(&self.socket, script.http.clone(), is_modern);
        if request.method == "initialize" && script.http.sessions {
            exchange = exchange.with_header("Mcp-Session-Id", &session.id);
        }
        if !is_modern && script.http.resumable {
            exchange = exchange.with_log(self.site.logs.open());
        }
        let exchange = Arc::new(exchange);
        let is_notification = request.id.is_null();
        let mut turn = Turn::new(&self.site.server, &session, request, exchange.clone());
        if is_notification {
            for action in self.site.server.actions_at(&turn.request.method.clone(), None, false) {
                turn.act(&action);
            }
            exchange.accept();
        } else {
            turn.run();
        }
        exchange.finish()
    }

    /// Does what the script wants at `GET` and `DELETE`; true when that was the answer.
    fn acted(&self, point: &str) -> Option<bool> {
        let exchange = Arc::new(Exchange::new(&self.socket, self.site.server.script.http.clone(), false));
        let request = Request { id: Value::Null, method: point.into(), params: json!({}) };
        let mut turn = Turn::new(&self.site.server, &Arc::default(), request, exchange.clone());
        for action in self.site.server.actions_at(point, None, false) {
            if turn.act(&action) == super::act::Flow::Ended {
                return Some(matches!(action, Action::Status { .. }) && exchange.finish());
            }
        }
        None
    }

    fn get(&self, request: &HttpRequest) -> bool {
        if let Some(goes_on) = self.acted("GET") {
            return goes_on;
        }
        if let Some(last) = request.header("last-event-id") {
            return self.site.logs.replay(last, &self.wire());
        }
        let session = request.header("mcp-session-id").and_then(|id| self.site.server.sessions.lock().get(id).cloned());
        let Some(session) = session else { return self.reply(404, &[], "Session not found") };
        let stream = Arc::new(Stream::open(self.wire()));
        *session.voice.lock() = Some(stream.clone());
        stream.wait_until_gone();
        false
    }

    fn delete(&self, request: &HttpRequest) -> bool {
        if let Some(goes_on) = self.acted("DELETE") {
            return goes_on;
        }
        let id = request.header("mcp-session-id").unwrap_or_default();
        let code = if self.site.server.sessions.lock().remove(id).is_some() { 200 } else { 404 };
        self.reply(code, &[], "")
    }

    /// 2024-11-05: the stream that carries everything from the server.
    fn old_stream(&self) -> bool {
        if let Some(goes_on) = self.acted("GET") {
            return goes_on;
        }
        let id = format!("old-{}", self.site.next_session.fetch_add(1, Ordering::Relaxed));
        let stream = Arc::new(Stream::open(self.wire()));
        let session = Arc::new(Session { id: id.clone(), ..Session::default() });
        *session.voice.lock() = Some(stream.clone());
        self.site.server.sessions.lock().insert(id.clone(), session);
        stream.event("endpoint", &format!("/messages?session={id}"));
        stream.wait_until_gone();
        self.site.server.sessions.lock().remove(&id);
        false
    }

    /// 2024-11-05: a message of the client, answered on the stream.
    fn old_message(&self, http: &HttpRequest) -> bool {
        let id = http.query.strip_prefix("session=").unwrap_or_default();
        let session = self.site.server.sessions.lock().get(id).cloned();
        let voice = session.as_ref().and_then(|session| session.voice.lock().clone());
        let (Some(session), Some(voice)) = (session, voice) else { return self.reply(404, &[], "no such session") };
        let Ok(message) = serde_json::from_slice::<Value>(&http.body) else { return self.reply(400, &[], "not JSON") };
        self.reply(202, &[], "Accepted");
        let Some(request) = Request::of(&message) else {
            self.site.server.told(&message);
            return true;
        };
        self.site.server.journal.write("received", message);
        if request.method == "notifications/cancelled" {
            self.site.server.cancel(&request.params["requestId"]);
        }
        if !request.id.is_null() {
            let turn = Turn::new(&self.site.server, &session, request, voice);
            std::thread::spawn(|| turn.run());
        }
        true
    }
}

/// A modern request whose headers and body disagree
/// ([Server Validation](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation)).
fn header_fault(http: &HttpRequest, request: &Request) -> Option<String> {
    let version = request.meta(VERSION_KEY).and_then(Value::as_str);
    let name = request.params.get("name").or(request.params.get("uri")).and_then(Value::as_str);
    let has_name = matches!(request.method.as_str(), "tools/call" | "prompts/get" | "resources/read");
    for (header, expected) in [
        ("mcp-protocol-version", version),
        ("mcp-method", Some(request.method.as_str())),
        ("mcp-name", name.filter(|_| has_name)),
    ] {
        let given = http.header(header);
        let is_encoded = given.is_some_and(|given| given.starts_with("=?base64?"));
        if expected.is_some() && given != expected && !is_encoded {
            return Some(format!("Header mismatch: {header} is {given:?}, the body says {expected:?}"));
        }
    }
    None
}
