//! What goes over the wire beside the messages: headers that mirror arguments, and where old servers want their posts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tsugi_client::ConnectTarget;
use tsugi_client::config::LinkSource;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Era;
use tsugi_testkit::fake::{Fake, Recorded, Steps, reply};
use tsugi_testkit::wait;
use tsugi_transport::http::HttpTarget;
use tsugi_transport::{Inbox, Link, Outbox, TransportError, TransportErrorKind};

use crate::faults_http::{good, is_count, response, said};
use crate::outcome::{fault, text};
use crate::world::{Bench, Peer, SHORT, call, within};

/// A tool whose arguments are mirrored.
fn mirrored(name: &str) -> Value {
    let header = |kind: &str, header: &str| json!({"type": [kind, "null"], "x-mcp-header": header});
    let properties = json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "level": header("integer", "Level"),
        "dry": header("boolean", "Dry"),
        "plain": {"type": "string"},
    });
    json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
}

fn list(request: &Recorded, tools: Value) -> Steps {
    let result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools});
    reply::json(&response(request, &result))
}

/// A modern server with these tools.
fn with_tools(tools: Value) -> Fake {
    Fake::start(move |request| match request.json()["method"].as_str() {
        Some("tools/list") => list(request, tools.clone()),
        Some("tools/call") => reply::json(&response(request, &said(Era::Modern, "done"))),
        _ => good(Era::Modern, request),
    })
}

fn last_call(fake: &Fake) -> Recorded {
    fake.recorded().into_iter().rfind(|request| request.json()["method"] == "tools/call").unwrap()
}

#[tokio::test]
async fn arguments_are_mirrored_into_headers_and_what_no_header_may_hold_is_wrapped() {
    let bench = Bench::of(with_tools(json!([mirrored("count"), mirrored("数える")])));
    bench.settle().await;
    let sent = async |tool: &str, arguments: Value| {
        assert_eq!(text(&bench.call(tool, arguments).await), "done");
        last_call(&bench.peer)
    };
    let request = sent("count", json!({"region": "us-west1", "level": -7, "dry": false, "plain": "x"})).await;
    let header = |request: &Recorded, name: &str| request.header(name).map(str::to_owned);
    assert_eq!(header(&request, "mcp-method").as_deref(), Some("tools/call"));
    assert_eq!(header(&request, "mcp-name").as_deref(), Some("count"));
    assert_eq!(header(&request, "mcp-param-region").as_deref(), Some("us-west1"));
    assert_eq!(header(&request, "mcp-param-level").as_deref(), Some("-7"));
    assert_eq!(header(&request, "mcp-param-dry").as_deref(), Some("false"));
    assert_eq!(header(&request, "mcp-param-plain"), None);
    // The examples of the specification.
    for (value, wrapped) in [
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ] {
        let request = sent("数える", json!({"region": value, "level": null})).await;
        assert_eq!(header(&request, "mcp-param-region").as_deref(), Some(wrapped));
        assert_eq!(header(&request, "mcp-name").as_deref(), Some("=?base64?5pWw44GI44KL?="));
        assert_eq!((header(&request, "mcp-param-level"), header(&request, "mcp-param-dry")), (None, None));
    }
    bench.finish_dead().await;
}

#[tokio::test]
async fn the_trace_of_a_call_goes_on_in_headers_in_both_eras() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    for era in [Era::Legacy, Era::Modern] {
        let bench = Bench::of(Fake::start(move |request| good(era, request)));
        let mut traced = call("echo", json!({"message": "hi"}));
        traced.meta.rest = JsonObject::from(json!({"traceparent": parent, "baggage": "user=ann"}));
        assert_eq!(text(&bench.outcome(traced).await), "hi");
        let request = last_call(&bench.peer);
        assert_eq!((request.header("traceparent"), request.header("baggage")), (Some(parent), Some("user=ann")));
        assert_eq!(request.json()["params"]["_meta"]["traceparent"], parent);
        bench.finish().await;
    }
}

#[tokio::test]
async fn a_tool_whose_headers_cannot_be_is_left_out_and_the_others_stay() {
    let nested = json!({"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}});
    let bench = Bench::of(with_tools(json!([{"name": "wrong", "inputSchema": nested}, mirrored("count")])));
    let catalog = bench.server.ready(crate::world::LIMIT).await.unwrap();
    assert!(catalog.tool("wrong").is_none() && catalog.tool("count").is_some());
    bench.finish_dead().await;
}

/// A server that began to want a header after its list was read. The call is refused, so it was not made.
#[tokio::test]
async fn a_call_that_is_refused_for_its_headers_is_made_again_once_the_tools_are_known_anew() {
    let (is_changed, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (changed, count) = (is_changed.clone(), made.clone());
    let peer = Fake::start(move |request| match request.json()["method"].as_str() {
        Some("tools/list") if changed.load(Ordering::Acquire) => list(request, json!([mirrored("count")])),
        Some("tools/list") => list(request, json!([{"name": "count", "inputSchema": {"type": "object"}}])),
        Some("tools/call") if request.header("mcp-param-region").is_none() && changed.load(Ordering::Acquire) => {
            let error = json!({"code": -32020, "message": "Header mismatch: Mcp-Param-Region is missing"});
            let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}).to_string();
            reply::status(400, &[("Content-Type", "application/json")], &body)
        }
        Some("tools/call") => {
            count.fetch_add(1, Ordering::AcqRel);
            reply::json(&response(request, &said(Era::Modern, "done")))
        }
        _ => good(Era::Modern, request),
    });
    let bench = Bench::of(peer);
    bench.settle().await;
    is_changed.store(true, Ordering::Release);
    assert_eq!(text(&bench.call("count", json!({"region": "eu"})).await), "done");
    assert_eq!(made.load(Ordering::Acquire), 1);
    let tries: Vec<Value> =
        bench.peer.recorded().iter().filter(|request| is_count(request)).map(Recorded::json).collect();
    assert_eq!(tries.len(), 2);
    assert_ne!(tries[0]["id"], tries[1]["id"], "an id is used once");
    bench.finish_dead().await;
}

/// A server of 2024-11-05 as seed 003 has it: it never says where to post.
struct SilentSse(String);

impl Peer for SilentSse {
    fn target(&self) -> ConnectTarget {
        ConnectTarget::Sse(HttpTarget::new(self.0.parse().unwrap(), Default::default()))
    }
}

/// How a server of 2024-11-05 answers the post of `count`.
#[derive(Clone, Copy, PartialEq)]
enum Posts {
    /// It accepts it.
    Accepted,
    /// Never; the answer comes on the stream.
    Unanswered,
    /// Never, and the call neither.
    Ignored,
}

async fn silent_sse(first: &'static str) -> SilentSse {
    sse_server(first, Posts::Accepted).await
}

async fn sse_server(first: &'static str, posts: Posts) -> SilentSse {
    sse_server_at("POST /messages ", first, posts).await
}

/// One that wants its posts to begin with `post`.
async fn sse_server_at(post: &'static str, first: &'static str, posts: Posts) -> SilentSse {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let (answers, mut waiting) = mpsc::channel::<String>(16);
    tokio::spawn(async move {
        let mut stream: Option<TcpStream> = None;
        let mut unanswered = Vec::new();
        loop {
            tokio::select! {
                Ok((mut socket, _)) = listener.accept() => match read_request(&mut socket).await {
                    (line, _) if line.starts_with("GET /sse ") => {
                        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{first}");
                        socket.write_all(head.as_bytes()).await.unwrap();
                        stream = Some(socket);
                    }
                    (line, body) if line.starts_with(post) && body.contains(r#""count""#) && posts != Posts::Accepted => {
                        unanswered.push(socket);
                        if let Some(answer) = answer_to(&body).filter(|_| posts == Posts::Unanswered) {
                            answers.send(answer).await.unwrap();
                        }
                    }
                    (line, body) if line.starts_with(post) => {
                        socket.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await.unwrap();
                        if let Some(answer) = answer_to(&body) {
                            answers.send(answer).await.unwrap();
                        }
                    }
                    // It does not speak streamable HTTP.
                    (line, _) if line.starts_with("POST /sse ") => {
                        let refusal = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                        socket.write_all(refusal).await.unwrap();
                    }
                    (line, _) if line.is_empty() => {}
                    (line, _) => panic!("nobody should ask for {line}"),
                },
                Some(answer) = waiting.recv() => {
                    let event = format!("event: message\ndata: {answer}\n\n");
                    stream.as_mut().unwrap().write_all(event.as_bytes()).await.unwrap();
                }
            }
        }
    });
    SilentSse(url)
}

/// The first line and the body of a request.
pub(crate) async fn read_request(socket: &mut TcpStream) -> (String, String) {
    let (mut text, mut block) = (String::new(), [0; 4096]);
    loop {
        let read = socket.read(&mut block).await.unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&block[..read]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            // A connection that was given up before anything was asked.
            if read == 0 {
                return (String::new(), String::new());
            }
            continue;
        };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) || read == 0 {
            return (head.lines().next().unwrap_or_default().to_owned(), body.to_owned());
        }
    }
}

fn answer_to(body: &str) -> Option<String> {
    let message: Value = serde_json::from_str(body).ok()?;
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => {
            json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}})
        }
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        _ => said(Era::Legacy, message["params"]["arguments"]["message"].as_str().unwrap_or("done")),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

#[tokio::test]
async fn a_server_that_never_says_where_to_post_gets_its_posts_beside_its_stream() {
    let bench = Bench::of(silent_sse(": hello\n\n").await);
    bench.finish().await;
}

/// The same server, but which wire it speaks has to be found out.
struct UnknownWire(SilentSse);

impl Peer for UnknownWire {
    fn target(&self) -> ConnectTarget {
        crate::world::http(&self.0.0)
    }
}

#[tokio::test]
async fn the_transport_of_a_server_that_turned_out_to_speak_sse_is_sse() {
    let bench = Bench::of(UnknownWire(silent_sse("event: endpoint\ndata: /messages \n\n").await));
    bench.works().await;
    assert_eq!(bench.server.status().transport, "sse");
    bench.finish().await;
}

#[tokio::test]
async fn what_a_server_says_before_it_says_where_to_post_is_passed_over() {
    for before in ["retry: 3000\n\n", "id: 0\ndata:\n\n", "event: ping\ndata: {}\n\n"] {
        let first: &'static str = format!("{before}event: endpoint\ndata: /post?session=1\n\n").leak();
        let bench = Bench::of(sse_server_at("POST /post?session=1 ", first, Posts::Accepted).await);
        bench.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_names_another_origin_to_post_to_gets_nothing() {
    let sink = Fake::start(|_| reply::status(202, &[], ""));
    let elsewhere: &'static str = format!("event: endpoint\ndata: {}\n\n", sink.url()).leak();
    let bench = Bench::of(silent_sse(elsewhere).await);
    assert!(wait::until(|| bench.server.status().fault.is_some()).await);
    let fault = fault(&bench.outcome(within(call("echo", json!({"message": "x"})), SHORT)).await);
    assert_eq!(fault.code, FaultCode::ServerNotRunning, "{fault}");
    assert!(fault.message.contains("another origin"), "{fault}");
    assert_eq!(sink.connections(), 0);
    bench.finish_dead().await;
}

/// More posts than may be on their way at once.
const MANY: usize = 70;

#[tokio::test]
async fn calls_whose_posts_are_never_answered_hold_up_no_other_after_they_are_given_up() {
    let bench = Bench::of(sse_server(": hello\n\n", Posts::Ignored).await);
    bench.settle().await;
    for outcome in bench.crowd(MANY, &within(call("count", json!({})), SHORT)).await {
        assert_eq!(fault(&outcome).code, FaultCode::Timeout);
    }
    bench.finish().await;
}

#[tokio::test]
async fn posts_that_are_never_answered_hold_up_nobody_once_their_calls_are() {
    let bench = Bench::of(sse_server(": hello\n\n", Posts::Unanswered).await);
    bench.settle().await;
    for _ in 0..MANY {
        assert_eq!(text(&bench.call("count", json!({})).await), "done");
    }
    bench.finish().await;
}

/// A server on a wire of its own that breaks right after the answer to `count`.
struct Parting;

impl Peer for Parting {
    fn target(&self) -> ConnectTarget {
        ConnectTarget::Link(LinkSource::new(|| {
            let (to_server, mut from_client) = mpsc::channel::<Bytes>(16);
            let (to_client, from_server) = mpsc::channel(16);
            tokio::spawn(async move {
                while let Some(message) = from_client.recv().await {
                    let body = String::from_utf8_lossy(&message).into_owned();
                    let Some(answer) = answer_to(&body) else { continue };
                    to_client.try_send(Ok(answer.into())).unwrap();
                    if body.contains(r#""count""#) {
                        let broken = TransportError::sent(TransportErrorKind::Lost, "the wire broke");
                        return to_client.try_send(Err(broken)).unwrap();
                    }
                }
            });
            Link { outbox: Outbox::Queue(to_server), inbox: Inbox::Queue(from_server), job: None }
        }))
    }
}

#[tokio::test]
async fn an_answer_that_arrives_together_with_the_end_of_the_wire_counts() {
    let bench = Bench::of(Parting);
    bench.settle().await;
    assert_eq!(text(&bench.call("count", json!({})).await), "done");
    bench.finish().await;
}
