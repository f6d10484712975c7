//! Callers that all use the same ids: D-11, and mixed calls over every face.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tsugi_gateway::Config;

use super::line::Line;
use super::{BASE, JSON, Subject, Verdict, ensure, initialize, legacy_call, open_session, scaled, tool_call};
use crate::world::*;

/// D-11: 64 clients have a call with the same id in flight. Each gets its own answer.
pub(crate) async fn equal_ids_of_many(subject: &Subject, size: usize) -> Verdict {
    subject.works().await?;
    let before = subject.upstream.calls();
    let mut open = Vec::new();
    for index in 0..size {
        let call = tool_call(json!(1), "held", json!({"text": format!("mark-{index}-")}));
        open.push(subject.client.open_modern("/mcp", &call).await);
    }
    subject.upstream.wait_for_calls(before + size).await;
    subject.upstream.release();
    let reading = open.into_iter().map(Exchange::read_to_end);
    let answers = tokio::time::timeout(std::time::Duration::from_secs(5), join_all(reading)).await;
    let answers = answers.map_err(|_| "some calls are unanswered".to_owned())?;
    for (index, answer) in answers.iter().enumerate() {
        ensure(answer.contains(&format!("mark-{index}-")), || format!("the answer of another: {answer}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn d11_clients_with_equal_ids_get_their_own_answers() {
    equal_ids_of_many(&Subject::tsugi().await, 64).await.unwrap();
}

#[tokio::test]
async fn d11_forty_calls_of_one_session_with_one_id_are_all_answered_rightly() {
    let subject = Subject::tsugi().await;
    let session = open_session(&subject.client, "2025-06-18", &[]).await;
    let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
    let mut open = Vec::new();
    for index in 0..40 {
        let body = legacy_call(json!(1), "held", json!({"text": format!("mark-{index}-")})).to_string();
        open.push(Exchange::send(subject.client.0, &subject.client.request("POST", "/mcp", &headers, &body)).await);
    }
    subject.upstream.wait_for_calls(40).await;
    subject.upstream.release();
    for (index, exchange) in open.into_iter().enumerate() {
        let answer = exchange.read_to_end().await;
        assert!(answer.contains(&format!("mark-{index}-")), "{answer}");
    }
}

#[tokio::test]
async fn d11_a_number_and_a_text_are_two_ids() {
    let subject = Subject::tsugi().await;
    for id in [json!(1), json!("1"), json!(-1), json!("a\"b\\c\u{2028}"), json!(9_007_199_254_740_993_u64)] {
        let got = subject.client.modern("/mcp", &tool_call(id.clone(), "echo", json!({"text": "x"}))).await;
        assert_eq!(got.json()["id"], id);
    }
}

/// A caller on one face. Every call it makes has the id 1.
enum Caller {
    Modern(Line),
    Legacy(Line, String),
    Rpc(Line),
    ModernRpc(Line),
    Rest(Line),
    Socket(WebSocketStream<MaybeTlsStream<TcpStream>>),
    LegacySocket(WebSocketStream<MaybeTlsStream<TcpStream>>),
    TwoEndpoints(Line, String, Exchange),
}

impl Caller {
    async fn open(subject: &Subject, index: usize) -> Self {
        let address = subject.client.0;
        match index % 8 {
            0 => Caller::Modern(Line::open(address).await),
            1 => {
                let revision = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"][index / 8 % 4];
                Caller::Legacy(Line::open(address).await, open_session(&subject.client, revision, &[]).await)
            }
            2 => Caller::Rpc(Line::open(address).await),
            3 => Caller::ModernRpc(Line::open(address).await),
            4 => Caller::Rest(Line::open(address).await),
            5 => Caller::Socket(socket(address).await),
            6 => {
                let mut socket = socket(address).await;
                socket.send(Message::text(initialize("2025-11-25").to_string())).await.unwrap();
                socket.next().await.unwrap().unwrap();
                Caller::LegacySocket(socket)
            }
            _ => {
                let get = subject.client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
                let mut stream = Exchange::send(address, &get).await;
                stream.read_until("event: endpoint\ndata: ").await;
                let post = stream.read_until("\n\n").await.trim().to_owned();
                let mut line = Line::open(address).await;
                line.post(&post, &[JSON], &initialize("2024-11-05").to_string()).await.unwrap();
                stream.read_until("\"protocolVersion\"").await;
                stream.read_until("\n\n").await;
                Caller::TwoEndpoints(line, post, stream)
            }
        }
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
            Caller::Socket(socket) => said(socket, modern().to_string()).await,
            Caller::LegacySocket(socket) => said(socket, legacy()).await,
            Caller::TwoEndpoints(line, path, stream) => {
                line.post(path, &[JSON], &legacy()).await.filter(|answered| answered.status == 202)?;
                Some(stream.read_until("\n\n").await)
            }
        }
    }
}

async fn socket(address: std::net::SocketAddr) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
    tokio_tungstenite::connect_async(format!("ws://{address}/ws")).await.unwrap().0
}

async fn said(socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>, message: String) -> Option<String> {
    socket.send(Message::text(message)).await.ok()?;
    loop {
        let next = tokio::time::timeout(std::time::Duration::from_secs(30), socket.next()).await.ok()??;
        match next.ok()? {
            Message::Text(text) => return Some(text.to_string()),
            Message::Ping(_) | Message::Pong(_) => {}
            _ => return None,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d11_mixed_calls_of_64_callers_with_equal_ids_have_no_wrong_and_no_missing_answer() {
    // The issue asks for 10⁶ calls; here it is one in fifty of them unless TSUGI_TEST_LONG is set.
    let calls_each = scaled(20_000, 1_000_000) / 64;
    let subject = Arc::new(Subject::hub(Config::on_free_port()).await);
    let (wrong, missing) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let callers = (0..64).map(|index| {
        let (subject, wrong, missing) = (subject.clone(), wrong.clone(), missing.clone());
        tokio::spawn(async move {
            let mut caller = Caller::open(&subject, index).await;
            for round in 0..calls_each {
                let mark = format!("mark-{index}-{round}-");
                let tool = if round % 4 == 0 { "later" } else { "echo" };
                match caller.call(tool, json!({"text": mark, "ms": round % 3})).await {
                    None => _ = missing.fetch_add(1, Ordering::SeqCst),
                    Some(answer) if !answer.contains(&mark) => wrong.lock().push((mark, answer)),
                    Some(_) => {}
                }
            }
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    assert_eq!(*wrong.lock(), [], "wrong answers");
    assert_eq!(missing.load(Ordering::SeqCst), 0, "missing answers");
    assert_eq!(subject.upstream.calls(), calls_each * 64);
}
