//! What streams that stay open cost while they are quiet, and that it is given back.
#![cfg(target_os = "linux")]

use serde_json::json;

use crate::faults::open_session;
use crate::world::*;
use tsugi_gateway::GatewayConfig;
use tsugi_protocol::mcp::Method;

/// How many streams are opened.
const STREAMS: usize = 1500;

/// The memory of this process that no file backs, in bytes.
fn held() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

async fn gateway() -> tsugi_gateway::GatewayHandle {
    let mut config = GatewayConfig::on_free_port();
    config.limits.streams = 2 * STREAMS;
    config.limits.connections = 2 * STREAMS;
    let answer = script(|call| match call.method {
        Method::Listen => tsugi_protocol::answer::Reply::from_source(Events(
            [note("notifications/tools/list_changed", json!({}))].into(),
            None,
        )),
        _ => complete(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}})),
    });
    serve_with(config, answer).await
}

/// Opens one stream; `shows` is the text by which it can be seen to be open.
async fn open(client: &Client, request: &str, shows: &str) -> Exchange {
    let mut stream = Exchange::send(client.0, request).await;
    stream.read_until(shows).await;
    stream.forget();
    stream
}

/// Opens many streams one after another; how much each takes.
async fn measure(request: &str, shows: &str, client: &Client) -> usize {
    // What the first one makes grow is not part of the cost of the others.
    drop(open(client, request, shows).await);
    let before = held();
    let mut streams = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        streams.push(open(client, request, shows).await);
    }
    held().saturating_sub(before) / STREAMS
}

#[tokio::test]
async fn a_quiet_subscription_takes_little() {
    let handle = gateway().await;
    let client = Client::of(&handle);
    let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let own = modern_headers(&listen);
    let headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let each = measure(&client.request("POST", "/mcp", &headers, &listen.to_string()), "acknowledged", &client).await;
    println!("{each} bytes each");
    assert!(each <= 8 << 10, "{each} bytes each");
}

#[tokio::test]
async fn a_legacy_session_with_its_stream_takes_little() {
    let handle = gateway().await;
    let client = Client::of(&handle);
    let mut streams = Vec::with_capacity(STREAMS);
    let mut before = 0;
    for index in 0..STREAMS {
        let session = open_session(&client, "2025-11-25", &[]).await;
        let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", session.as_str())];
        streams.push(open(&client, &client.request("GET", "/mcp", &headers, ""), ":\n\n").await);
        if index == 0 {
            before = held();
        }
    }
    let each = held().saturating_sub(before) / STREAMS;
    println!("{each} bytes each");
    assert!(each <= 8 << 10, "{each} bytes each");
}

/// The control: a connection that hyper keeps, as it did every stream, takes more than a stream may.
#[tokio::test]
async fn a_connection_that_hyper_keeps_takes_more() {
    let handle = gateway().await;
    let client = Client::of(&handle);
    let request = client.request("GET", "/healthz", &[], "").replace("Connection: close\r\n", "");
    let each = measure(&request, "ok\n", &client).await;
    assert!(each > 8 << 10, "{each} bytes each: the bound of the other tests shows nothing");
}

/// What streams leave behind can be given back to the system.
#[tokio::test]
async fn memory_of_streams_that_are_gone_can_be_returned() {
    let handle = gateway().await;
    let (client, count) = (Client::of(&handle), handle.connection_count());
    let request = client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let before = {
        let mut streams = Vec::with_capacity(STREAMS);
        let before = held();
        for _ in 0..STREAMS {
            streams.push(open(&client, &request, "event: endpoint").await);
        }
        before
    };
    // The listener itself holds room for the connection that it waits for.
    until(|| count() <= 1).await;
    tsugi_process::return_free_memory();
    let left = held().saturating_sub(before);
    assert!(left < STREAMS << 10, "{left} bytes are left of {STREAMS} streams");
}

#[tokio::test]
async fn a_quiet_stream_of_two_addresses_takes_little() {
    let handle = gateway().await;
    let client = Client::of(&handle);
    let request = client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let each = measure(&request, "event: endpoint", &client).await;
    println!("{each} bytes each");
    assert!(each <= 8 << 10, "{each} bytes each");
}
