//! The floor: the same bytes through a pipe or a keep-alive connection, with no MCP.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

/// A pipe to the same back end, with the same bytes: one exchange at a time, as a pipe without ids allows.
/// The back end's own time is in it, as it is in every contender's.
pub struct Pipe {
    _child: Child,
    ends: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    request: Vec<u8>,
}

impl Pipe {
    pub fn new(size: usize, bin: &Path) -> Arc<Self> {
        let mut child = Command::new(bin.join("rig-stdio"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the bare child starts");
        let ends = (child.stdin.take().expect("stdin"), BufReader::with_capacity(256 << 10, child.stdout.take().expect("stdout")));
        let mut request = request(size).to_string().into_bytes();
        request.push(b'\n');
        Arc::new(Self { _child: child, ends: Mutex::new(ends), request })
    }

    pub async fn exchange(&self, line: &mut Vec<u8>) {
        let mut ends = self.ends.lock().await;
        let (stdin, stdout) = &mut *ends;
        stdin.write_all(&self.request).await.expect("the child reads");
        line.clear();
        stdout.read_until(b'\n', line).await.expect("the child answers");
    }
}

fn request(size: usize) -> serde_json::Value {
    serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"size": size}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}})
}

/// A pooled hyper client that posts the same request and throws the body away.
#[derive(Clone)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    body: Bytes,
}

impl Http {
    pub fn new(url: &str, size: usize) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), url: url.to_owned(), body: Bytes::from(request(size).to_string()) }
    }

    pub async fn exchange(&self) {
        let request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "echo")
            .body(Full::new(self.body.clone()))
            .expect("a request");
        let response = self.client.request(request).await.expect("an answer");
        assert!(response.status().is_success(), "{}", response.status());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.expect("a body");
        }
    }
}
