//! Legacy streams that break after their call was made: whatever the resumption meets, the call is made once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tsugi_client::ConnectTarget;
use tsugi_protocol::answer::{FaultCode, SentState};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Era;
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_testkit::fake::{Fake, Recorded, Steps, reply};

use super::{counted, good, is_count, result};
use crate::outcome::{asked, fault};
use crate::wire::read_request;
use crate::world::{Bench, Peer, call, http};

/// The beginning of a stream that can be resumed soon, and no more.
const CUT: &str = "id: e1\nretry: 100\ndata:\n\n";

/// A stream on which the server asks.
const ASKING: &str = r#"data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"Go on?","requestedSchema":{"type":"object","properties":{}}}}

"#;

/// A server whose stream of `count` is cut, and whose resumption is answered like this.
fn cut(resumed: impl Fn(&Recorded) -> Steps + Send + Sync + 'static) -> Fake {
    Fake::start(move |request| match request.header("last-event-id") {
        Some(_) => resumed(request),
        None if is_count(request) => reply::sse_text(CUT),
        None => good(Era::Legacy, request),
    })
}

#[tokio::test]
async fn h04_a_stream_that_cannot_be_resumed_leaves_its_call_unknown_and_made_once() {
    let resumptions: [fn(&Recorded) -> Steps; 5] = [
        |_| reply::reset_before_head(),
        |_| reply::status(404, &[], ""),
        |_| reply::status(503, &[], ""),
        |_| reply::redirect(302, "/elsewhere"),
        |_| reply::redirect(307, "http://127.0.0.2/elsewhere"),
    ];
    for (row, resumed) in resumptions.into_iter().enumerate() {
        let bench = Bench::of(cut(resumed));
        bench.works().await;
        let fault = fault(&bench.call("count", json!({})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{row}: {fault}");
        assert_eq!(counted(&bench.peer), 1, "{row}: the call was made again");
        bench.finish().await;
    }
}

#[tokio::test]
async fn a_stream_is_resumed_with_the_id_as_the_server_wrote_it() {
    let id = "=?base64?ZTE=?=";
    let first = format!("id: {id}\nretry: 100\ndata:\n\n");
    let bench = Bench::of(Fake::start(move |request| match request.header("last-event-id") {
        Some(_) => reply::status(404, &[], ""),
        None if is_count(request) => reply::sse_text(&first),
        None => good(Era::Legacy, request),
    }));
    bench.call("count", json!({})).await;
    let recorded = bench.peer.recorded();
    let sent: Vec<_> = recorded.iter().filter_map(|request| request.header("last-event-id")).collect();
    assert_eq!(sent, [id]);
    bench.finish().await;
}

/// A server that can be reached until it has made a call.
struct Leaving {
    url: String,
    made: Arc<AtomicUsize>,
}

impl Peer for Leaving {
    fn target(&self) -> ConnectTarget {
        http(&self.url)
    }
}

async fn leaving(parting: &'static str) -> Leaving {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let made = Arc::new(AtomicUsize::new(0));
    tokio::spawn(leave_after_a_call(listener, made.clone(), parting));
    Leaving { url, made }
}

/// Says `parting` on the stream of the first call of `count`, and can be reached no more.
async fn leave_after_a_call(listener: TcpListener, made: Arc<AtomicUsize>, parting: &str) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (_, body) = read_request(&mut socket).await;
        let message: Value = serde_json::from_str(&body).unwrap_or_default();
        if message["params"]["name"] == "count" {
            drop(listener);
            made.fetch_add(1, Ordering::AcqRel);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            socket.write_all(format!("{head}{parting}").as_bytes()).await.unwrap();
            if parting == ASKING {
                std::future::pending::<()>().await;
            }
            return;
        }
        let text = match result(Era::Legacy, &message) {
            Some(result) => {
                let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                answered(200, "application/json", &body)
            }
            None if message.get("id").is_none() && message.is_object() => answered(202, "text/plain", ""),
            None => answered(405, "text/plain", ""),
        };
        socket.write_all(text.as_bytes()).await.unwrap();
    }
}

/// An answer after which the connection is closed.
fn answered(status: u16, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn h04_a_call_whose_server_was_gone_when_its_stream_was_resumed_is_not_called_unsent() {
    let bench = Bench::of(leaving(CUT).await);
    bench.settle().await;
    let fault = fault(&bench.call("count", json!({})).await);
    assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{fault}");
    assert!(fault.cause.as_ref().unwrap().message.contains("refused"), "{:?}", fault.cause);
    assert_eq!(bench.peer.made.load(Ordering::Acquire), 1);
    bench.finish_dead().await;
}

#[tokio::test]
async fn an_answer_to_a_question_that_cannot_be_delivered_leaves_its_call_unknown() {
    let bench = Bench::of(leaving(ASKING).await);
    bench.settle().await;
    let asking = call("count", json!({}));
    let question = asked(&bench.outcome(asking.clone()).await);
    let mut answers = InputResponses::default();
    answers.add(&question.questions()[0].key, &RawJson::from(json!({"action": "accept", "content": {}})));
    let fault = fault(&bench.outcome(asking.retry_with(Some(&answers.finish()), question.state.as_deref())).await);
    // Not a code that a balancer takes for "nothing was sent".
    assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{fault}");
    assert!(fault.message.contains("refused"), "{fault}");
    bench.finish_dead().await;
}
