//! Mixed calls over every face from 64 callers that all use the same id: nobody gets the answer of another, and
//! nobody gets none.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tsugi_gateway::GatewayConfig;
use tsugi_gateway::face::stdio;

use super::line::Line;
use super::{BASE, JSON, Subject, initialize, legacy_call, open_session, scaled, tool_call};
use crate::world::*;

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Far above what any answer needs: what takes longer is unanswered.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A caller on one face. Every call it makes has the id 1.
enum Caller {
    Modern(Line),
    Legacy(Line, String),
    Rpc(Line),
    ModernRpc(Line),
    Rest(Line),
    Operation(Line),
    Socket(Socket),
    LegacySocket(Socket),
    TwoEndpoints(Line, String, Exchange),
    Stdio(Pipe),
    LegacyStdio(Pipe),
}

/// Which face a caller is on: its name and its number.
const FACES: [&str; 11] = [
    "mcp, modern",
    "mcp, legacy",
    "rpc, legacy",
    "rpc, modern",
    "rest",
    "operation",
    "websocket, modern",
    "websocket, legacy",
    "sse",
    "stdio, modern",
    "stdio, legacy",
];

impl Caller {
    async fn open(subject: &Subject, index: usize) -> Self {
        let address = subject.client.0;
        let revision = REVISIONS[index / FACES.len() % REVISIONS.len()];
        match index % FACES.len() {
            0 => Caller::Modern(Line::open(address).await),
            1 => Caller::Legacy(Line::open(address).await, open_session(&subject.client, revision, &[]).await),
            2 => Caller::Rpc(Line::open(address).await),
            3 => Caller::ModernRpc(Line::open(address).await),
            4 => Caller::Rest(Line::open(address).await),
            5 => Caller::Operation(Line::open(address).await),
            6 => Caller::Socket(socket(address).await),
            7 => {
                let mut socket = socket(address).await;
                said(&mut socket, initialize(revision).to_string()).await.expect("a greeting");
                Caller::LegacySocket(socket)
            }
            8 => Self::two_endpoints(subject).await,
            9 => Caller::Stdio(Pipe::open(subject)),
            _ => {
                let mut pipe = Pipe::open(subject);
                pipe.ask(&initialize(revision).to_string()).await.expect("a greeting");
                Caller::LegacyStdio(pipe)
            }
        }
    }

    async fn two_endpoints(subject: &Subject) -> Self {
        let get = subject.client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
        let mut stream = Exchange::send(subject.client.0, &get).await;
        stream.read_until("event: endpoint\ndata: ").await;
        let post = stream.read_until("\n\n").await.trim().to_owned();
        let mut line = Line::open(subject.client.0).await;
        line.post(&post, &[JSON], &initialize("2024-11-05").to_string()).await.unwrap();
        event(&mut stream).await.expect("a greeting");
        Caller::TwoEndpoints(line, post, stream)
    }

    /// Calls a tool and gives the answer as text; nothing when there is none.
    async fn call(&mut self, tool: &str, arguments: Value) -> Option<String> {
        let public = format!("up__{tool}");
        let modern = || tool_call(json!(1), &public, arguments.clone());
        let legacy = || legacy_call(json!(1), &public, arguments.clone()).to_string();
        match self {
            Caller::Modern(line) => {
                let message = modern();
                let headers = modern_headers(&message);
                let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                Some(line.post("/mcp", &headers, &message.to_string()).await?.body)
            }
            Caller::Legacy(line, session) => {
                let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
                Some(line.post("/mcp", &headers, &legacy()).await?.body)
            }
            Caller::Rpc(line) => Some(line.post("/rpc", &[JSON], &legacy()).await?.body),
            Caller::ModernRpc(line) => Some(line.post("/rpc", &[JSON], &modern().to_string()).await?.body),
            Caller::Rest(line) => {
                let body = json!({"server": "up", "toolName": tool, "input": arguments}).to_string();
                Some(line.post("/mcp/call", &[JSON], &body).await?.body)
            }
            Caller::Operation(line) => {
                Some(line.post(&format!("/tools/up/{tool}"), &[JSON], &arguments.to_string()).await?.body)
            }
            Caller::Socket(socket) => said(socket, modern().to_string()).await,
            Caller::LegacySocket(socket) => said(socket, legacy()).await,
            Caller::TwoEndpoints(line, path, stream) => {
                line.post(path, &[JSON], &legacy()).await.filter(|answered| answered.status == 202)?;
                event(stream).await
            }
            Caller::Stdio(pipe) => pipe.ask(&modern().to_string()).await,
            Caller::LegacyStdio(pipe) => pipe.ask(&legacy()).await,
        }
    }
}

async fn socket(address: std::net::SocketAddr) -> Socket {
    tokio_tungstenite::connect_async(format!("ws://{address}/ws")).await.unwrap().0
}

/// True for an answer, and not for what a client may hear besides: that a list has changed, for one.
fn is_answer(message: &str) -> bool {
    !message.contains(r#""method":"notifications/"#)
}

async fn said(socket: &mut Socket, message: String) -> Option<String> {
    socket.send(Message::text(message)).await.ok()?;
    loop {
        match tokio::time::timeout(PATIENCE, socket.next()).await.ok()??.ok()? {
            Message::Text(text) if is_answer(&text) => return Some(text.to_string()),
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) => {}
            _ => return None,
        }
    }
}

/// The next answer on an event stream, past comments and changes.
async fn event(stream: &mut Exchange) -> Option<String> {
    loop {
        let event = tokio::time::timeout(PATIENCE, stream.read_until("\n\n")).await.ok()?;
        if event.contains("data: ") && is_answer(&event) {
            return Some(event);
        }
    }
}

/// A client on standard streams.
struct Pipe {
    input: DuplexStream,
    output: BufReader<DuplexStream>,
}

impl Pipe {
    fn open(subject: &Subject) -> Self {
        let (input, theirs_in) = tokio::io::duplex(1 << 16);
        let (theirs_out, output) = tokio::io::duplex(1 << 16);
        tokio::spawn(stdio::run(subject.answer.clone(), theirs_in, theirs_out));
        Self { input, output: BufReader::new(output) }
    }

    async fn ask(&mut self, message: &str) -> Option<String> {
        self.input.write_all(format!("{message}\n").as_bytes()).await.ok()?;
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(PATIENCE, self.output.read_line(&mut line)).await.ok()?.ok()?;
            if read == 0 {
                return None;
            }
            if is_answer(&line) {
                return Some(line);
            }
        }
    }
}

/// What callers of each face found.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    right: usize,
    missing: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d11_mixed_calls_of_64_callers_with_equal_ids_have_no_wrong_and_no_missing_answer() {
    // The issue asks for 10⁶ calls; here it is one in a hundred of them unless TSUGI_TEST_LONG is set.
    let calls_each = scaled(10_000, 1_000_000).div_ceil(64);
    let subject = Arc::new(Subject::hub(GatewayConfig::on_free_port()).await);
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let counts = Arc::new(Mutex::new(BTreeMap::<&str, Count>::new()));
    let callers = (0..64).map(|index| {
        let (subject, wrong, counts) = (subject.clone(), wrong.clone(), counts.clone());
        tokio::spawn(async move {
            let mut caller = Caller::open(&subject, index).await;
            let mut count = Count::default();
            for round in 0..calls_each {
                let mark = format!("mark-{index}-{round}-");
                let tool = if round % 4 == 0 { "later" } else { "echo" };
                match caller.call(tool, json!({"text": mark, "ms": round % 3})).await {
                    None => count.missing += 1,
                    Some(answer) if !answer.contains(&mark) => wrong.lock().push((index, mark, answer)),
                    Some(_) => count.right += 1,
                }
            }
            let mut counts = counts.lock();
            let of_face = counts.entry(FACES[index % FACES.len()]).or_default();
            of_face.right += count.right;
            of_face.missing += count.missing;
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    let counts = counts.lock();
    println!("{counts:#?}");
    assert_eq!(*wrong.lock(), [], "wrong answers");
    assert_eq!(counts.values().map(|count| count.missing).sum::<usize>(), 0, "missing answers: {counts:?}");
    assert_eq!(counts.values().map(|count| count.right).sum::<usize>(), calls_each * 64);
    assert_eq!(subject.upstream.calls(), calls_each * 64, "every call was made once");
}
