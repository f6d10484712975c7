//! The wires that carry everything both ways: standard streams, WebSocket, HTTP+SSE; and bare JSON-RPC.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tsugi_gateway::face::stdio;
use tsugi_protocol::answer::{Answer, Call, InputRequired, Outcome, Reply};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;

use crate::world::*;

fn server(drops: Drops) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        })),
        Method::ToolsCall => match call.subject().as_deref() {
            Some("ask") => match call.params.get("inputResponses") {
                Some(answers) => complete(text(answers.as_str())),
                None => {
                    let params = RawJson::from(json!({"message": "who?"}));
                    Reply::ready(Outcome::InputRequired(InputRequired::one(
                        "who",
                        &Method::Elicit,
                        Some(&params),
                        None,
                    )))
                }
            },
            Some("never") => Reply::from_source(Events(VecDeque::new(), Some(drops.guard()))),
            name => complete(text(name.unwrap_or("?"))),
        },
        _ => complete(json!({"resultType": "complete", "tools": []})),
    })
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}
    }})
}

fn call(id: Value, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

struct Pipe {
    input: Option<DuplexStream>,
    output: BufReader<DuplexStream>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Pipe {
    fn open(answer: Arc<dyn Answer>) -> Self {
        let (input, theirs_in) = tokio::io::duplex(1 << 16);
        let (theirs_out, output) = tokio::io::duplex(1 << 16);
        let served = tokio::spawn(stdio::run(answer, theirs_in, theirs_out));
        Self { input: Some(input), output: BufReader::new(output), served }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let reading = self.output.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(10), reading).await.expect("an answer in time").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

#[tokio::test]
async fn both_eras_share_one_pipe() {
    let mut pipe = Pipe::open(server(Drops::default()));
    pipe.send(&modern(json!(1), "server/discover", json!({}))).await;
    assert_eq!(pipe.read().await["result"]["supportedVersions"][0], "2026-07-28");
    pipe.send(&call(json!(2), "early")).await;
    assert_eq!(pipe.read().await["error"]["code"], -32600, "a legacy request before initialize");
    pipe.send(&initialize()).await;
    assert_eq!(pipe.read().await["result"]["protocolVersion"], "2025-11-25");
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    pipe.send(&call(json!(3), "old")).await;
    let old = pipe.read().await;
    assert_eq!(
        (old["id"].clone(), old["result"].clone()),
        (json!(3), json!({"content": [{"type": "text", "text": "old"}]}))
    );
    pipe.send(&modern(json!(3), "tools/call", json!({"name": "new"}))).await;
    assert_eq!(pipe.read().await["result"]["resultType"], "complete");
    pipe.write(b"not json\n").await;
    assert_eq!(pipe.read().await["error"]["code"], -32700);
}

#[tokio::test]
async fn a_question_goes_out_on_the_pipe_and_its_answer_comes_back() {
    let mut pipe = Pipe::open(server(Drops::default()));
    pipe.send(&initialize()).await;
    pipe.read().await;
    pipe.send(&call(json!(1), "ask")).await;
    let question = pipe.read().await;
    assert_eq!(question["method"], "elicitation/create");
    pipe.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})).await;
    let answer = pipe.read().await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"who":{"action":"decline"}}"#);
}

/// Keeps the roots that it is told of.
fn keeps_roots(told: &Arc<parking_lot::Mutex<Vec<Value>>>) -> Arc<dyn Answer> {
    let (told, other) = (told.clone(), server(Drops::default()));
    script(move |call: Call| match (&call.method, call.params.get("inputResponses")) {
        (Method::RootsChanged, Some(answers)) => {
            told.lock().push(answers.to().unwrap());
            complete(json!({}))
        }
        (Method::RootsChanged, None) => {
            Reply::ready(Outcome::InputRequired(InputRequired::one("roots", &Method::RootsList, None, None)))
        }
        _ => other.answer(call),
    })
}

#[tokio::test]
async fn a_client_whose_roots_changed_is_asked_for_them_if_it_promised_to_say_so() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    for (promise, is_asked) in [(json!({"listChanged": true}), true), (json!({}), false)] {
        let told = Arc::default();
        let mut pipe = Pipe::open(keeps_roots(&told));
        let mut initialize = initialize();
        initialize["params"]["capabilities"]["roots"] = promise;
        pipe.send(&initialize).await;
        pipe.read().await;
        pipe.send(&changed).await;
        if is_asked {
            let question = pipe.read().await;
            assert_eq!(question["method"], "roots/list");
            let roots = json!({"roots": [{"uri": "file:///new"}]});
            pipe.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots})).await;
        }
        pipe.send(&call(json!(1), "next")).await;
        assert_eq!(pipe.read().await["id"], 1, "nothing else is said");
        until(|| told.lock().len() == usize::from(is_asked)).await;
        let expected = json!({"roots": {"roots": [{"uri": "file:///new"}]}});
        assert!(told.lock().iter().all(|answers| *answers == expected));
    }
}

#[tokio::test]
async fn content_length_is_answered_in_kind() {
    let mut pipe = Pipe::open(server(Drops::default()));
    let message = modern(json!(1), "tools/call", json!({"name": "x"})).to_string();
    pipe.write(format!("Content-Length: {}\r\n\r\n{message}", message.len()).as_bytes()).await;
    let mut head = String::new();
    pipe.output.read_line(&mut head).await.unwrap();
    let length: usize = head.trim().strip_prefix("Content-Length: ").expect("a length").parse().unwrap();
    pipe.output.read_line(&mut head).await.unwrap();
    let mut body = vec![0; length];
    pipe.output.read_exact(&mut body).await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "x");
}

#[tokio::test]
async fn a_slow_call_holds_nobody_up_and_is_cancelled_by_a_message() {
    let drops = Drops::default();
    let mut pipe = Pipe::open(server(drops.clone()));
    pipe.send(&modern(json!("slow"), "tools/call", json!({"name": "never"}))).await;
    pipe.send(&modern(json!(2), "tools/call", json!({"name": "quick"}))).await;
    assert_eq!(pipe.read().await["id"], 2);
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})).await;
    drops.wait_for(1).await;
}

fn initialize_at(version: &str) -> Value {
    let mut message = initialize();
    message["params"]["protocolVersion"] = json!(version);
    message
}

/// A batch with two calls, a notification, an unknown method and something that is no message; and its answer.
fn batch() -> (Value, Value) {
    let batch = json!([
        call(json!(1), "one"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call(json!("two"), "two"),
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        5
    ]);
    (batch, json!([1, "two", 3, null]))
}

/// The ids of the responses in an array, each of which is there once.
fn ids_of(answer: &Value) -> Vec<Value> {
    let responses = answer.as_array().unwrap_or_else(|| panic!("no array: {answer}"));
    responses.iter().map(|response| response["id"].clone()).collect()
}

fn assert_answers(answer: &Value, expected: &Value) {
    let (mut ids, expected) = (ids_of(answer), expected.as_array().unwrap());
    assert_eq!(ids.len(), expected.len(), "{answer}");
    ids.retain(|id| !expected.contains(id));
    assert!(ids.is_empty(), "{answer}");
}

#[tokio::test]
async fn a_batch_on_a_pipe_is_answered_with_one_array_where_the_revision_has_batches() {
    let mut pipe = Pipe::open(server(Drops::default()));
    pipe.send(&initialize_at("2025-03-26")).await;
    assert_eq!(pipe.read().await["result"]["protocolVersion"], "2025-03-26");
    let (messages, expected) = batch();
    pipe.send(&messages).await;
    assert_answers(&pipe.read().await, &expected);
    pipe.send(&json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    pipe.send(&json!([])).await;
    assert_eq!(pipe.read().await["error"]["code"], -32600, "notifications alone have no answer, an empty batch has");
    let mut newer = Pipe::open(server(Drops::default()));
    newer.send(&initialize_at("2025-06-18")).await;
    newer.read().await;
    newer.send(&messages).await;
    assert_eq!(newer.read().await["error"]["code"], -32600);
}

#[tokio::test]
async fn a_question_of_a_batchs_call_is_put_before_the_array_of_its_answers() {
    let mut pipe = Pipe::open(server(Drops::default()));
    pipe.send(&initialize_at("2025-03-26")).await;
    pipe.read().await;
    pipe.send(&json!([call(json!(1), "quick"), call(json!(2), "ask")])).await;
    let answer = pipe.read().await;
    assert_answers(&answer, &json!([1, 2]));
    let asked = answer.as_array().unwrap().iter().find(|response| response["id"] == 2).unwrap();
    assert_eq!(asked["error"]["data"]["origin"], "tsugi", "this revision cannot be asked: {asked}");
}

#[tokio::test]
async fn a_batch_on_a_websocket_or_an_event_stream_is_answered_with_one_array() {
    let handle = serve(server(Drops::default())).await;
    let (messages, expected) = batch();
    let url = format!("{}/ws", handle.url().replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let mut ask = async |message: Value| -> Value {
        socket.send(Message::text(message.to_string())).await.unwrap();
        serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap()
    };
    ask(initialize_at("2025-03-26")).await;
    assert_answers(&ask(messages.clone()).await, &expected);

    let client = Client::of(&handle);
    let get = client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let mut stream = Exchange::send(client.0, &get).await;
    stream.read_until("event: endpoint\ndata: ").await;
    let address = stream.read_until("\n\n").await.trim().to_owned();
    for message in [initialize_at("2025-03-26"), messages] {
        let got = client.send("POST", &address, &[("Content-Type", "application/json")], &message.to_string()).await;
        assert_eq!(got.status, 202);
    }
    stream.read_until("2025-03-26").await;
    stream.read_until("event: message\ndata: [").await;
    let array = format!("[{}", stream.read_until("\n\n").await);
    assert_answers(&serde_json::from_str(array.trim()).unwrap(), &expected);
}

#[tokio::test]
async fn closing_the_input_ends_the_service_even_while_a_call_hangs() {
    let drops = Drops::default();
    let mut pipe = Pipe::open(server(drops.clone()));
    pipe.send(&modern(json!(1), "tools/call", json!({"name": "never"}))).await;
    pipe.send(&modern(json!(2), "tools/call", json!({"name": "quick"}))).await;
    drop(pipe.input.take());
    assert_eq!(pipe.read().await["id"], 2, "what was answered is still written");
    tokio::time::timeout(Duration::from_secs(30), pipe.served).await.expect("it ends by itself").unwrap().unwrap();
    drops.wait_for(1).await;
}

/// A server that needs a while to say who it is.
fn slow(wait: Duration) -> Arc<dyn Answer> {
    let server = server(Drops::default());
    script(move |call: Call| {
        let is_greeting = call.method == Method::Discover;
        let reply = server.answer(call);
        match is_greeting {
            true => Reply::from_pending_reply(async move {
                tokio::time::sleep(wait).await;
                reply
            }),
            false => reply,
        }
    })
}

fn hasty(version: &str) -> [Value; 4] {
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"});
    [initialize_at(version), initialized, list, call(json!("c"), "quick")]
}

#[tokio::test(start_paused = true)]
async fn what_is_written_at_once_is_answered_although_the_input_ends_before_the_server_has_started() {
    let mut pipe = Pipe::open(slow(Duration::from_millis(1500)));
    for message in hasty("2025-11-25") {
        pipe.send(&message).await;
    }
    drop(pipe.input.take());
    assert_eq!(pipe.read().await["result"]["protocolVersion"], "2025-11-25");
    let mut results = [pipe.read().await, pipe.read().await];
    results.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!(results[0]["result"]["content"][0]["text"], "quick", "{results:?}");
    assert_eq!(results[1]["result"]["tools"], json!([]), "{results:?}");
    let began = tokio::time::Instant::now();
    pipe.served.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "when all is said there is nothing to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_the_conversation_too_and_a_second_opening_is_refused() {
    let mut pipe = Pipe::open(slow(Duration::from_millis(1500)));
    pipe.send(&initialize_at("2025-03-26")).await;
    pipe.send(&initialize_at("2025-03-26")).await;
    let (messages, expected) = batch();
    pipe.send(&messages).await;
    assert_eq!(pipe.read().await["result"]["protocolVersion"], "2025-03-26");
    let (one, two) = (pipe.read().await, pipe.read().await);
    let (refused, answers) = if one.is_array() { (two, one) } else { (one, two) };
    assert_eq!(refused["error"]["code"], -32600);
    assert_answers(&answers, &expected);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_no_reason_to_stay_when_the_input_has_ended() {
    let mut pipe = Pipe::open(script(|call: Call| match call.method {
        Method::Listen => Reply::from_source(Events(VecDeque::new(), None)),
        _ => complete(text("x")),
    }));
    pipe.send(&modern(json!(1), "subscriptions/listen", json!({"notifications": {}}))).await;
    pipe.send(&modern(json!(2), "tools/call", json!({"name": "x"}))).await;
    drop(pipe.input.take());
    assert_eq!(pipe.read().await["id"], 2);
    let began = tokio::time::Instant::now();
    pipe.served.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "on a clock that moves only while everybody waits");
}

#[tokio::test]
async fn a_websocket_speaks_both_eras() {
    let handle = serve(server(Drops::default())).await;
    let mut request = handle.url().replace("http", "ws").into_client_request().unwrap();
    *request.uri_mut() = format!("{}/ws", handle.url().replace("http", "ws")).parse().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let (mut socket, response) = tokio_tungstenite::connect_async(request).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
    let mut ask = async |message: Value| -> Value {
        socket.send(Message::text(message.to_string())).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        serde_json::from_str(answer.to_text().unwrap()).unwrap()
    };
    let answer = ask(modern(json!(1), "tools/call", json!({"name": "new"}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "new");
    assert_eq!(ask(initialize()).await["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(ask(call(json!(2), "old")).await["result"]["content"][0]["text"], "old");
    let plain = Client::of(&handle).send("GET", "/ws", &[], "").await;
    assert_eq!(plain.status, 426);
}

#[tokio::test]
async fn the_two_endpoint_wire_answers_posts_on_its_stream() {
    let handle = serve(server(Drops::default())).await;
    let client = Client::of(&handle);
    let get = client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let mut stream = Exchange::send(client.0, &get).await;
    stream.read_until("event: endpoint\ndata: ").await;
    let address = stream.read_until("\n\n").await.trim().to_owned();
    assert!(address.starts_with("/messages?sessionId="), "{address}");
    let json_type = [("Content-Type", "application/json")];
    let got = client.send("POST", &address, &json_type, &initialize().to_string()).await;
    assert_eq!(got.status, 202);
    let greeting = stream.read_until("\n\n").await;
    assert!(greeting.contains("event: message\ndata: {") && greeting.contains("2025-11-25"), "{greeting}");
    client.send("POST", &address, &json_type, &call(json!(5), "hello").to_string()).await;
    assert!(stream.read_until("\n\n").await.contains(r#""text":"hello""#));
    let unknown = client.send("POST", "/messages?sessionId=x", &json_type, "{}").await;
    assert_eq!(unknown.status, 404);
    drop(stream);
    loop {
        if client.send("POST", &address, &json_type, "{}").await.status == 404 {
            break;
        }
    }
}

#[tokio::test]
async fn bare_json_rpc_answers_one_post_with_one_object() {
    let handle = serve(server(Drops::default())).await;
    let client = Client::of(&handle);
    let post = async |message: Value| {
        client.send("POST", "/rpc", &[("Content-Type", "application/json")], &message.to_string()).await
    };
    assert_eq!(post(initialize()).await.json()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.status, 202);
    assert_eq!(post(call(json!(1), "x")).await.json()["result"], json!({"content": [{"type": "text", "text": "x"}]}));
    assert_eq!(
        post(modern(json!(1), "tools/call", json!({"name": "x"}))).await.json()["result"]["resultType"],
        "complete"
    );
    assert_eq!(post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.json()["result"], json!({}));
    let asked = post(call(json!(2), "ask")).await.json();
    assert_eq!(asked["error"]["data"]["kind"], "INPUT_REQUIRED");
    assert_eq!(asked["error"]["data"]["details"]["inputRequests"]["who"]["method"], "elicitation/create");
    assert_eq!(post(json!([call(json!(1), "x")])).await.error_code(), -32600, "no batches");
    for gone in ["logging/setLevel", "subscriptions/listen"] {
        assert_eq!(post(json!({"jsonrpc": "2.0", "id": 1, "method": gone})).await.error_code(), -32601);
    }
}

#[tokio::test]
async fn stopping_waits_for_a_websockets_calls_and_ends_its_connection() {
    let (finish, finished) = tokio::sync::watch::channel(false);
    let handle = serve(script(move |call| {
        if call.method == Method::ToolsList {
            return complete(json!({"resultType": "complete", "tools": []}));
        }
        let mut finished = finished.clone();
        Reply::from_future(async move {
            let _ = finished.wait_for(|done| *done).await;
            Outcome::complete(tsugi_protocol::json::JsonObject::from(text("late")))
        })
    }))
    .await;
    let url = format!("{}/ws", handle.url().replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let call = modern(json!(1), "tools/call", json!({"name": "slow"}));
    socket.send(Message::text(call.to_string())).await.unwrap();
    until(|| finish.receiver_count() > 1).await;
    let draining = tokio::spawn(async move { handle.drain(Duration::from_secs(20)).await });
    let refused = loop {
        socket.send(Message::text(modern(json!(2), "tools/list", json!({})).to_string())).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
        if answer.get("error").is_some() {
            break answer;
        }
    };
    assert_eq!(refused["error"]["code"], -31007);
    finish.send(true).unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    assert!(answer.to_text().unwrap().contains("late"));
    assert_eq!(draining.await.unwrap(), 0, "nothing was cut off");
}

#[tokio::test]
async fn stopping_ends_a_websockets_subscription_with_a_result() {
    let handle = serve(script(|_| {
        Reply::from_source(Events([note("notifications/subscriptions/acknowledged", json!({}))].into(), None))
    }))
    .await;
    let url = format!("{}/ws", handle.url().replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let listen = modern(json!("l"), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    socket.send(Message::text(listen.to_string())).await.unwrap();
    let mut next =
        async || -> Value { serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap() };
    assert_eq!(next().await["method"], "notifications/subscriptions/acknowledged");
    let draining = tokio::spawn(async move { handle.drain(Duration::from_secs(20)).await });
    let goodbye = next().await;
    assert!(goodbye["id"] == "l" && goodbye["result"].is_object(), "{goodbye}");
    assert_eq!(draining.await.unwrap(), 0);
}

#[tokio::test]
async fn stopping_does_not_wait_for_a_websocket_that_does_not_read() {
    let large = "x".repeat(32 << 20);
    let handle = serve(script(move |_| complete(text(&large)))).await;
    let url = format!("{}/ws", handle.url().replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let call = modern(json!(1), "tools/call", json!({"name": "large"}));
    socket.send(Message::text(call.to_string())).await.unwrap();
    let stopped = tokio::time::timeout(Duration::from_secs(20), handle.drain(Duration::from_millis(300))).await;
    assert!(stopped.is_ok(), "a client that does not read may hold us up for thirty seconds, but not when we stop");
}

#[tokio::test]
async fn a_message_on_a_websocket_is_bounded_like_a_body() {
    let mut config = tsugi_gateway::GatewayConfig::on_free_port();
    config.limits.body = 100_000;
    let handle = serve_with(config, server(Drops::default())).await;
    let url = format!("{}/ws", handle.url().replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let with = |size: usize| modern(json!(1), "tools/call", json!({"name": "x".repeat(size)})).to_string();
    socket.send(Message::text(with(90_000))).await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
    let _ = socket.send(Message::text(with(110_000))).await;
    let answer = socket.next().await;
    assert!(!matches!(&answer, Some(Ok(Message::Text(_)))), "{answer:?}");
}
