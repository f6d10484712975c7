//! The gateway stops or a handler breaks: W-01, W-06.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tsugi_gateway::GatewayHandle;

use super::upstream::Upstream;
use super::{Subject, Verdict, ensure, scaled, tool_call};
use crate::world::*;

/// W-06: one call's handler panics. That call gets an error, and nobody else notices.
pub(crate) async fn survives_a_panic(subject: &Subject) -> Verdict {
    subject.works().await?;
    let panicking = tool_call(json!("p"), "panic", json!({}));
    let exchange = subject.client.open_modern("/mcp", &panicking).await;
    let answer = tokio::time::timeout(Duration::from_secs(3), exchange.read_to_end()).await;
    let answer = answer.map_err(|_| "the call that panicked is unanswered".to_owned())?;
    ensure(answer.contains("-32603") && answer.contains(r#""id":"p""#), || format!("no error but {answer}"))?;
    subject.works().await
}

#[tokio::test]
async fn w06_a_panic_ends_one_call_and_no_other() {
    let subject = Subject::tsugi().await;
    for _ in 0..10 {
        survives_a_panic(&subject).await.unwrap();
    }
}

/// Calls of `held` and `later` that run when the gateway is told to stop; how many have their answer.
async fn drain_under_load(size: usize) -> usize {
    let upstream = Upstream::default();
    let handle = Arc::new(serve(upstream.answer()).await);
    let client = Client::of(&handle);
    let mut open = Vec::new();
    for index in 0..size {
        let (tool, ms) = if index % 2 == 0 { ("held", 0) } else { ("later", 10 + index as u64) };
        let call = tool_call(json!(1), tool, json!({"text": format!("mark-{index}-"), "ms": ms}));
        open.push(client.open_modern("/mcp", &call).await);
    }
    upstream.wait_for_calls(size).await;
    let listen = modern(json!("l"), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut listening = client.open_modern("/mcp", &listen).await;
    listening.read_until("acknowledged").await;
    let draining = tokio::spawn(drain(handle));
    refused_while(&client).await;
    upstream.release();
    let mut answered = 0;
    for (index, exchange) in open.into_iter().enumerate() {
        let answer = exchange.read_to_end().await;
        answered += usize::from(answer.contains(&format!("mark-{index}-")));
    }
    let goodbye = listening.read_to_end().await;
    assert!(goodbye.contains(r#""id":"l""#) && goodbye.contains("result"), "listeners get a result: {goodbye}");
    assert_eq!(draining.await.unwrap(), 0, "calls were cut off");
    answered
}

async fn drain(handle: Arc<GatewayHandle>) -> usize {
    handle.drain(Duration::from_secs(30)).await
}

/// Waits until new calls are refused in the words of the error contract.
async fn refused_while(client: &Client) {
    loop {
        let got = client.modern("/mcp", &tool_call(json!(2), "echo", json!({"text": "new"}))).await;
        if got.status == 503 {
            assert_eq!(got.error_code(), -31007);
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w01_drains_under_load_lose_nothing() {
    // 50 drains with 200 calls each in the row; here 5 unless TSUGI_TEST_LONG is set.
    for round in 0..scaled(5, 50) {
        assert_eq!(drain_under_load(200).await, 200, "drain {round}");
    }
}

#[tokio::test]
async fn w01_what_cannot_end_in_time_is_cut_off_and_counted() {
    let subject = Upstream::default();
    let handle = serve(subject.answer()).await;
    let client = Client::of(&handle);
    let open = client.open_modern("/mcp", &tool_call(json!(1), "held", json!({}))).await;
    subject.wait_for_calls(1).await;
    assert_eq!(handle.drain(Duration::from_millis(50)).await, 1);
    until(|| subject.cancelled() == 1).await;
    drop(open);
}
