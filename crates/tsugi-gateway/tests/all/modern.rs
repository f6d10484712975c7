//! The modern era over HTTP: agreement of header and body, results, streams, subscriptions.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_gateway::backend::SingleBackend;
use tsugi_gateway::{Endpoint, GatewayConfig, ToolHeaders};
use tsugi_protocol::answer::{Answer, Fault, FaultCode, InputRequired, Outcome, Reply, ReplyEvent};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcError;
use tsugi_schema::header_param::HeaderParams;

use crate::world::*;

struct Region;

impl ToolHeaders for Region {
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        (tool == "deploy").then(|| Arc::new(HeaderParams::of(&schema).unwrap()))
    }
}

async fn echo() -> tsugi_gateway::GatewayHandle {
    let answer = script(|call| {
        let subject = call.subject().unwrap_or_default().into_owned();
        let result = json!({"resultType": "complete", "method": call.method.as_str(), "about": subject});
        complete(result)
    });
    let endpoint = Endpoint { answer, tools: Arc::new(Region) };
    serve_backend(GatewayConfig::on_free_port(), Arc::new(SingleBackend::of(endpoint))).await
}

fn call(name: &str, arguments: Value) -> Value {
    modern(json!(7), "tools/call", json!({"name": name, "arguments": arguments}))
}

#[tokio::test]
async fn a_result_comes_as_one_json_object_with_its_length_and_id() {
    let handle = echo().await;
    let got = Client::of(&handle).modern("/mcp", &call("t", json!({}))).await;
    assert_eq!((got.status, got.header("content-type")), (200, Some("application/json")));
    assert_eq!(got.header("content-length"), Some(got.body.len().to_string().as_str()));
    let expected = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","method":"tools/call","about":"t"}}"#;
    assert_eq!(got.body, expected);
}

#[tokio::test]
async fn a_large_result_arrives_byte_for_byte() {
    let large = "x".repeat(300_000);
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": large}]});
    let expected = result.clone();
    let handle = serve(script(move |_| complete(result.clone()))).await;
    let got = Client::of(&handle).modern("/mcp", &call("t", json!({}))).await;
    assert_eq!(got.json()["result"], expected);
}

#[tokio::test]
async fn headers_that_differ_from_the_body_are_refused_before_anybody_is_asked() {
    let hits = Drops::default();
    let counted = hits.clone();
    let endpoint = Endpoint {
        answer: script(move |_| {
            drop(counted.guard());
            complete(json!({"resultType": "complete"}))
        }),
        tools: Arc::new(Region),
    };
    let handle = serve_backend(GatewayConfig::on_free_port(), Arc::new(SingleBackend::of(endpoint))).await;
    let client = Client::of(&handle);
    let body = call("deploy", json!({"region": "eu"})).to_string();
    let good = [
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "deploy"),
        ("Mcp-Param-Region", "eu"),
    ];
    assert_eq!(client.send("POST", "/mcp", &good, &body).await.status, 200);
    let mut encoded = good;
    encoded[3].1 = "=?base64?ZGVwbG95?=";
    assert_eq!(client.send("POST", "/mcp", &encoded, &body).await.status, 200);
    for index in 1..good.len() {
        let mut without = good.to_vec();
        without.remove(index);
        let mut other = good;
        other[index].1 = if index == 1 { "2025-11-25" } else { "other" };
        let mut twice = good.to_vec();
        twice.push(good[index]);
        for headers in [without.as_slice(), other.as_slice(), twice.as_slice()] {
            let got = client.send("POST", "/mcp", headers, &body).await;
            assert_eq!((got.status, got.error_code()), (400, -32020), "{headers:?}");
            assert_eq!(got.json()["id"], 7);
        }
    }
    assert_eq!(hits.0.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_a_request_must_say_about_itself_is_checked() {
    let handle = echo().await;
    let client = Client::of(&handle);
    let mut no_meta = call("t", json!({}));
    no_meta["params"].as_object_mut().unwrap().remove("_meta");
    let mut no_capabilities = call("t", json!({}));
    no_capabilities["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    for message in [no_meta, no_capabilities] {
        let got = client.modern("/mcp", &message).await;
        assert_eq!((got.status, got.error_code()), (400, -32602));
    }
    let mut future = call("t", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = [
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2099-01-01"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "t"),
    ];
    let got = client.send("POST", "/mcp", &headers, &future.to_string()).await;
    assert_eq!((got.status, got.error_code()), (400, -32022));
    let data = &got.json()["error"]["data"];
    assert_eq!((data["requested"].clone(), data["supported"][0].clone()), (json!("2099-01-01"), json!("2026-07-28")));
}

#[tokio::test]
async fn methods_of_the_old_era_are_gone() {
    let handle = echo().await;
    let client = Client::of(&handle);
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "sampling/createMessage"] {
        let got = client.modern("/mcp", &modern(json!(1), method, json!({}))).await;
        assert_eq!((got.status, got.error_code()), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn failures_keep_their_number_and_get_the_status_the_specification_fixes() {
    let handle = serve(script(|call| match call.subject().as_deref() {
        Some("method") => Reply::ready(Outcome::error(RpcError::new(-32601, "no such method"))),
        Some("capability") => {
            let data = RawJson::from(json!({"requiredCapabilities": {"sampling": {}}}));
            Reply::ready(Outcome::error(RpcError::with_data(-32021, "needs sampling", Some(&data))))
        }
        Some("roots") => {
            let needed = RawJson::from(json!({"roots": {}}));
            Reply::fault(Fault::new(FaultCode::MissingCapability, "needs roots").with_details(needed))
        }
        Some("vendor") => Reply::ready(Outcome::error(RpcError::new(-1, "own error"))),
        Some("busy") => Reply::fault(Fault::new(FaultCode::Overloaded, "too much")),
        _ => Reply::fault(Fault::new(FaultCode::ServerCrashed, "died").on_server("files")),
    }))
    .await;
    let client = Client::of(&handle);
    for (name, status, code) in [
        ("method", 404, -32601),
        ("capability", 400, -32021),
        ("vendor", 200, -1),
        ("busy", 503, -31002),
        ("died", 200, -31006),
    ] {
        let got = client.modern("/mcp", &call(name, json!({}))).await;
        assert_eq!((got.status, got.error_code(), got.json()["id"].clone()), (status, code, json!(7)), "{name}");
    }
    let roots = client.modern("/mcp", &call("roots", json!({}))).await.json();
    assert_eq!(roots["error"]["data"]["requiredCapabilities"], json!({"roots": {}}));
    let died = client.modern("/mcp", &call("died", json!({}))).await.json();
    assert_eq!(died["error"]["data"]["origin"], "tsugi");
    assert_eq!(died["error"]["data"]["upstream"], "files");
}

#[tokio::test]
async fn questions_come_up_as_an_input_required_result() {
    let handle = serve(script(|_| {
        let params = RawJson::from(json!({"message": "who?"}));
        let input = InputRequired::one("who", &Method::Elicit, Some(&params), Some("sealed".into()));
        Reply::ready(Outcome::InputRequired(input))
    }))
    .await;
    let result = Client::of(&handle).modern("/mcp", &call("t", json!({}))).await.json()["result"].clone();
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["requestState"], "sealed");
    assert_eq!(result["inputRequests"]["who"]["method"], "elicitation/create");
}

#[tokio::test]
async fn notes_make_a_stream_that_ends_with_the_response() {
    let handle = serve(script(|_| {
        let events = [
            note("notifications/progress", json!({"progressToken": "p1", "progress": 1})),
            note("notifications/message", json!({"level": "debug", "data": "too fine"})),
            note("notifications/message", json!({"level": "error", "data": "oh"})),
            ReplyEvent::Done(Outcome::complete(JsonObject::from(text("done")))),
        ];
        Reply::from_source(Events(events.into(), None))
    }))
    .await;
    let got = Client::of(&handle).modern("/mcp", &call("t", json!({}))).await;
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    assert_eq!(got.header("x-accel-buffering"), Some("no"));
    let events = got.events();
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[0]["params"]["progressToken"], "p1");
    assert_eq!(events[1]["params"]["data"], "oh");
    assert_eq!((events[2]["id"].clone(), events[2]["result"]["content"][0]["text"].clone()), (json!(7), json!("done")));
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_call() {
    let drops = Drops::default();
    let guarded = drops.clone();
    let handle = serve(script(move |call| {
        let events = match call.subject().as_deref() {
            Some("streaming") => vec![note("notifications/progress", json!({"progressToken": "p1", "progress": 1}))],
            _ => Vec::new(),
        };
        Reply::from_source(Events(events.into(), Some(guarded.guard())))
    }))
    .await;
    let client = Client::of(&handle);
    let mut streaming = client.open_modern("/mcp", &call("streaming", json!({}))).await;
    streaming.read_until("\"progress\":1").await;
    drop(streaming);
    drops.wait_for(1).await;
    let silent = client.open_modern("/mcp", &call("silent", json!({}))).await;
    drop(silent);
    drops.wait_for(2).await;
}

#[tokio::test]
async fn a_subscription_is_acknowledged_first_tagged_throughout_and_ended_politely() {
    let handle = serve(script(|_| {
        let events =
            [note("notifications/tools/list_changed", json!({})), note("notifications/tools/list_changed", json!({}))];
        Reply::from_source(Events(events.into(), None))
    }))
    .await;
    let client = Client::of(&handle);
    let listen = modern(json!("sub"), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut stream = client.open_modern("/mcp", &listen).await;
    stream.read_until("list_changed").await;
    let draining = tokio::spawn(async move { handle.drain(std::time::Duration::from_secs(5)).await });
    let rest = stream.read_to_end().await;
    draining.await.unwrap();
    assert!(
        rest.contains(
            r#""id":"sub","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}}"#
        ),
        "{rest}"
    );
}

#[tokio::test]
async fn the_first_event_of_a_subscription_is_its_acknowledgment() {
    let handle = serve(script(|_| {
        let events = [
            note("notifications/tools/list_changed", json!({})),
            ReplyEvent::Done(Outcome::complete(JsonObject::from(json!({})))),
        ];
        Reply::from_source(Events(events.into(), None))
    }))
    .await;
    let listen = modern(json!(3), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let events = Client::of(&handle).modern("/mcp", &listen).await.events();
    let methods: Vec<&Value> = events.iter().map(|event| &event["method"]).collect();
    assert_eq!(
        methods[..2],
        [&json!("notifications/subscriptions/acknowledged"), &json!("notifications/tools/list_changed")]
    );
    for event in &events[..2] {
        assert_eq!(event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
    }
    assert_eq!(events[2]["id"], 3);
}

#[tokio::test]
async fn a_trace_in_the_headers_goes_on_in_meta() {
    let handle = serve(script(|call| {
        let rest: Value = call.meta.rest.raw().to().unwrap();
        complete(json!({"resultType": "complete", "rest": rest}))
    }))
    .await;
    let client = Client::of(&handle);
    let message = call("t", json!({}));
    let mut headers = modern_headers(&message);
    headers.push(("traceparent", "00-1-2-01".to_owned()));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let got = client.send("POST", "/mcp", &headers, &message.to_string()).await;
    assert_eq!(got.json()["result"]["rest"]["traceparent"], "00-1-2-01");
}

/// Tells each caller what stood in its `_meta`.
fn telling() -> Arc<dyn Answer> {
    script(|call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        })),
        _ => {
            let rest: Value = call.meta.rest.raw().to().unwrap();
            complete(json!({"resultType": "complete", "content": [], "rest": rest}))
        }
    })
}

#[tokio::test]
async fn a_trace_in_the_headers_goes_on_in_meta_also_for_batches_and_event_streams() {
    let handle = serve(telling()).await;
    let client = Client::of(&handle);
    let params =
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let call = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
    let batch = json!([call(1), call(2)]).to_string();
    let base = [("Content-Type", "application/json"), ("Accept", "application/json"), ("traceparent", "00-1-2-01")];
    let traced = |answers: &str| answers.matches(r#""traceparent":"00-1-2-01""#).count();

    let session = client.send("POST", "/mcp", &base, &initialize).await.header("mcp-session-id").unwrap().to_owned();
    let in_session = [&base[..], &[("Mcp-Session-Id", session.as_str())]].concat();
    let answers = client.send("POST", "/mcp", &in_session, &batch).await;
    assert_eq!(traced(&answers.body), 2, "{answers:?}");

    let get = client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let mut stream = Exchange::send(client.0, &get).await;
    stream.read_until("event: endpoint\ndata: ").await;
    let address = stream.read_until("\n\n").await.trim().to_owned();
    for (message, expected) in [(initialize, 0), (call(1).to_string(), 1), (batch, 2)] {
        assert_eq!(client.send("POST", &address, &base, &message).await.status, 202);
        let answer = stream.read_until("\n\n").await;
        assert_eq!(traced(&answer), expected, "{answer}");
    }
}

#[tokio::test]
async fn a_trace_in_the_headers_goes_on_in_meta_also_for_legacy_and_bare_callers() {
    let handle = serve(telling()).await;
    let client = Client::of(&handle);
    let base = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("traceparent", "00-1-2-01"),
    ];
    let params =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let got = client.send("POST", "/mcp", &base, &initialize).await;
    let session = got.header("mcp-session-id").unwrap().to_owned();
    let in_session = [&base[..], &[("Mcp-Session-Id", session.as_str())]].concat();
    for own in [json!({}), json!({"_meta": {"com.example/x": 1}}), json!({"_meta": {"traceparent": "00-9-9-00"}})] {
        let mut params = own.clone();
        params["name"] = json!("t");
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let expected = own["_meta"]["traceparent"].as_str().unwrap_or("00-1-2-01");
        for (path, headers) in [("/mcp", &in_session[..]), ("/rpc", &base[..])] {
            let rest = client.send("POST", path, headers, &call).await.json()["result"]["rest"].clone();
            assert_eq!(rest["traceparent"], expected, "{path} {own}");
            assert_eq!(rest["com.example/x"], own["_meta"]["com.example/x"], "{path} {own}");
        }
    }
}

#[tokio::test]
async fn notifications_are_accepted_and_a_vanished_server_is_not_found() {
    let handle = echo().await;
    let client = Client::of(&handle);
    let headers = [("Content-Type", "application/json"), ("MCP-Protocol-Version", "2026-07-28")];
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let got = client.send("POST", "/mcp", &headers, notification).await;
    assert_eq!((got.status, got.body.as_str()), (202, ""));
    let missing = client.modern("/servers/none/mcp", &call("t", json!({}))).await;
    assert_eq!(missing.status, 404);
}
