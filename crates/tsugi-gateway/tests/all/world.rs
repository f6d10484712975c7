//! A small world for tests: scripted answers behind a real gateway, and a client that writes raw HTTP.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tsugi_gateway::backend::SingleBackend;
use tsugi_gateway::{Backend, Gateway, GatewayConfig, GatewayHandle};
use tsugi_protocol::answer::{Answer, Call, Outcome, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcNotification;

/// An answer made of a function.
pub(crate) struct Script<F>(pub(crate) F);

impl<F: Fn(Call) -> Reply + Send + Sync> Answer for Script<F> {
    fn answer(&self, call: Call) -> Reply {
        (self.0)(call)
    }
}

pub(crate) fn script(answer: impl Fn(Call) -> Reply + Send + Sync + 'static) -> Arc<dyn Answer> {
    Arc::new(Script(answer))
}

/// A reply that says this result at once.
pub(crate) fn complete(result: Value) -> Reply {
    Reply::ready(Outcome::complete(JsonObject::from(result)))
}

/// The answer to a list: these items, under their key.
pub(crate) fn listed(key: &str, items: Value) -> Reply {
    let mut list = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public"});
    list[key] = items;
    complete(list)
}

/// A result with one text block.
pub(crate) fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

/// A reply of scripted events; when they are used up it stays silent for ever.
pub(crate) struct Events(
    pub(crate) VecDeque<ReplyEvent>,
    #[allow(dead_code, reason = "dropped with the reply")] pub(crate) Option<Dropped>,
);

impl ReplySource for Events {
    fn poll_event(mut self: std::pin::Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<ReplyEvent> {
        self.0.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Counts the replies that were dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(pub(crate) Arc<AtomicUsize>);

pub(crate) struct Dropped(Drops);

impl Drops {
    pub(crate) fn guard(&self) -> Dropped {
        Dropped(self.clone())
    }

    /// Waits until so many were dropped.
    pub(crate) async fn wait_for(&self, count: usize) {
        until(|| self.0.load(Ordering::SeqCst) >= count).await;
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits for a condition; fails after ten seconds.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), waiting).await.expect("the condition holds in time");
}

pub(crate) fn note(method: &str, params: Value) -> ReplyEvent {
    ReplyEvent::Note(RpcNotification::new(Method::from(method), Some(RawJson::from(params))))
}

pub(crate) async fn serve(answer: Arc<dyn Answer>) -> GatewayHandle {
    serve_with(GatewayConfig::on_free_port(), answer).await
}

pub(crate) async fn serve_with(config: GatewayConfig, answer: Arc<dyn Answer>) -> GatewayHandle {
    serve_backend(config, Arc::new(SingleBackend::new(answer))).await
}

pub(crate) async fn serve_backend(config: GatewayConfig, backend: Arc<dyn Backend>) -> GatewayHandle {
    Gateway::serve(config, backend).await.expect("a free port can be used")
}

/// A response as it came.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The messages of an event stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    pub(crate) fn error_code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}

/// A connection on which one request was sent.
pub(crate) struct Exchange {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Exchange {
    pub(crate) async fn send(address: SocketAddr, request: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Reads until this text has come; everything up to its end.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let reading = async {
            loop {
                let so_far = String::from_utf8_lossy(&self.unread).into_owned();
                if let Some(at) = so_far.find(text) {
                    self.unread.drain(..at + text.len());
                    return so_far[..at + text.len()].to_owned();
                }
                let read = self.stream.read_buf(&mut self.unread).await.unwrap();
                assert!(read > 0, "the stream ended before {text:?}: {so_far}");
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), reading).await.expect("the text comes in time")
    }

    /// Frees the room for what has come.
    pub(crate) fn forget(&mut self) {
        self.unread = Vec::new();
    }

    /// Reads to the end of the connection.
    pub(crate) async fn read_to_end(mut self) -> String {
        let mut all = std::mem::take(&mut self.unread);
        tokio::time::timeout(std::time::Duration::from_secs(10), self.stream.read_to_end(&mut all))
            .await
            .expect("the response ends in time")
            .unwrap();
        String::from_utf8(all).unwrap()
    }
}

pub(crate) struct Client(pub(crate) SocketAddr);

impl Client {
    pub(crate) fn of(handle: &GatewayHandle) -> Self {
        Self(handle.addresses()[0])
    }

    /// The text of a request; `Host` and `Connection: close` are added unless given.
    pub(crate) fn request(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut request = format!("{verb} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str(&format!("Host: {}\r\n", self.0));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if verb != "GET" {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("Connection: close\r\n\r\n");
        request + body
    }

    pub(crate) async fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        self.send_raw(&self.request(verb, path, headers, body)).await
    }

    pub(crate) async fn send_raw(&self, request: &str) -> Got {
        read_response(&Exchange::send(self.0, request).await.read_to_end().await)
    }

    /// A modern request with all headers in order.
    pub(crate) async fn modern(&self, path: &str, message: &Value) -> Got {
        let headers = modern_headers(message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.send("POST", path, &headers, &message.to_string()).await
    }

    pub(crate) async fn open_modern(&self, path: &str, message: &Value) -> Exchange {
        let headers = modern_headers(message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Exchange::send(self.0, &self.request("POST", path, &headers, &message.to_string())).await
    }
}

pub(crate) fn modern_headers(message: &Value) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "application/json, text/event-stream".to_owned()),
        ("MCP-Protocol-Version", "2026-07-28".to_owned()),
        ("Mcp-Method", message["method"].as_str().unwrap_or_default().to_owned()),
    ];
    let params = &message["params"];
    if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()) {
        headers.push(("Mcp-Name", name.to_owned()));
    }
    headers
}

/// A modern request with its `_meta`.
pub(crate) fn modern(id: Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/logLevel": "info",
        "progressToken": "p1"
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn read_response(text: &str) -> Got {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Got { status, headers, body: if is_chunked { unchunk(body) } else { body.to_owned() } }
}

fn unchunk(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&rest[..size]);
        text = &rest[size + 2..];
    }
    body
}
