//! More than the gateway can take, and clients that do not read: D-04, D-05, D-07, D-14.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tsugi_gateway::GatewayConfig;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::quota::CallQuota;

use super::leave::soon;
use super::line::Line;
use super::upstream::NOTE;
use super::{BASE, JSON, Subject, Verdict, ensure, open_session, scaled, tool_call};
use crate::world::*;

/// D-04: a client asks for a flood and reads nothing. What was taken from the server stays bounded.
pub(crate) async fn holds_little_for_a_stalled_reader(subject: &Subject) -> Verdict {
    subject.works().await?;
    let stalled = subject.client.open_modern("/mcp", &tool_call(json!(1), "flood", json!({}))).await;
    until(|| subject.upstream.notes() > 0).await;
    // It has come to rest when nothing more is taken while many others are served: they share its thread, so that
    // it would have had its turn.
    let mut last = 0;
    let mut quiet = 0;
    while quiet < 50 {
        subject.works().await?;
        let now = subject.upstream.notes();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        // The kernel's buffers of both ends take a few megabytes beside the one that we may hold.
        ensure(now * NOTE < 24 << 20, || {
            format!("{} MiB were taken for a client that does not read", (now * NOTE) >> 20)
        })?;
    }
    drop(stalled);
    until(|| subject.upstream.cancelled() == 1).await;
    subject.works().await
}

#[tokio::test]
async fn d04_a_client_that_does_not_read_makes_us_hold_little() {
    holds_little_for_a_stalled_reader(&Subject::tsugi().await).await.unwrap();
}

#[tokio::test]
async fn d04_a_posting_client_that_does_not_read_its_stream_is_held_back() {
    let subject = Subject::tsugi().await;
    let get = subject.client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let mut stream = Exchange::send(subject.client.0, &get).await;
    stream.read_until("event: endpoint\ndata: ").await;
    let path = stream.read_until("\n\n").await.trim().to_owned();
    let mut line = Line::open(subject.client.0).await;
    let large = tool_call(json!(1), "echo", json!({"text": "x".repeat(1 << 20)})).to_string();
    let mut accepted = 0;
    // Each post makes an answer of its own size, which nobody reads.
    while line.post(&path, &[JSON], &large).await.unwrap().status == 202 {
        accepted += 1;
        assert!(accepted < 64, "64 MiB wait for a client that does not read");
    }
    subject.works().await.unwrap();
    drop(stream);
}

/// D-05: many idle sessions and listeners. Each listener hears that it is one, and each session works when it wakes.
pub(crate) async fn loses_nothing_of_idle_clients(subject: &Subject, count: usize) -> Verdict {
    let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let (mut sessions, mut listeners) = (Vec::new(), Vec::new());
    for index in 0..count {
        sessions.push(open_session(&subject.client, "2025-11-25", &[]).await);
        let mut listener = subject.client.open_modern("/mcp", &listen).await;
        let told = tokio::time::timeout(Duration::from_secs(8), listener.read_until("acknowledged")).await;
        ensure(told.is_ok(), || format!("listener {index} hears nothing"))?;
        listeners.push(listener);
    }
    let call = super::legacy_call(json!(1), "echo", json!({"text": "awake"})).to_string();
    let mut line = Line::open(subject.client.0).await;
    for session in &sessions {
        let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
        let answered = line.post("/mcp", &headers, &call).await;
        ensure(answered.is_some_and(|answered| answered.body.contains("awake")), || format!("{session} is lost"))?;
    }
    Ok(())
}

#[tokio::test]
async fn d05_idle_sessions_and_listeners_hear_of_nothing_lost() {
    // 10,000 of each for an hour in the row; here 200 of each, unless TSUGI_TEST_LONG is set, and without the hour.
    loses_nothing_of_idle_clients(&Subject::tsugi().await, scaled(200, 5_000)).await.unwrap();
}

/// How long this process has used the processor.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Whether this process comes to use the processor hardly at all; what spins never does.
async fn comes_to_rest() -> bool {
    for _ in 0..100 {
        let before = cpu_time();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if cpu_time() - before <= Duration::from_millis(30) {
            return true;
        }
    }
    false
}

/// D-07: many clients come, begin calls and go, again and again. Nothing of them is left, and nothing spins.
pub(crate) async fn rests_after_a_spike(subject: &Subject, size: usize, rounds: usize) -> Verdict {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for round in 1..=rounds {
        let mut open = Vec::new();
        for _ in 0..size {
            open.push(subject.client.open_modern("/mcp", &tool_call(json!(1), "hang", json!({}))).await);
        }
        subject.upstream.wait_for_calls(round * size).await;
        drop(open);
        let cancelled = || subject.upstream.cancelled();
        ensure(soon(|| cancelled() == round * size).await, || {
            format!("{} of {} calls of clients that went are left", round * size - cancelled(), round * size)
        })?;
    }
    ensure(soon(|| tasks() <= before).await, || format!("{} tasks were {before}", tasks()))?;
    ensure(comes_to_rest().await, || "the processor is used though there is nothing to do".to_owned())
}

#[tokio::test]
async fn d07_a_spike_leaves_nothing_that_spins() {
    // 2,000 clients twenty times in the row; here 200 three times, unless TSUGI_TEST_LONG is set.
    rests_after_a_spike(&Subject::tsugi().await, scaled(200, 2_000), scaled(3, 20)).await.unwrap();
}

/// D-14: far more calls at once than a server should have. Each is served or told that it is not, and the server never
/// has more than its share at once.
pub(crate) async fn sheds_what_is_too_much(subject: &Subject, server: &str, size: usize) -> Verdict {
    let before = subject.upstream.calls();
    let calls = (0..size).map(|index| {
        let arguments = json!({"text": format!("mark-{index}-"), "ms": 20});
        let call = tool_call(json!(index), &format!("{server}later"), arguments);
        let client = Client(subject.client.0);
        async move { (index, client.modern("/mcp", &call).await) }
    });
    let (mut served, mut shed) = (0, 0);
    for (index, got) in join_all(calls).await {
        match got.status {
            200 if got.body.contains(&format!("mark-{index}-")) => served += 1,
            503 if got.error_code() == -31002 => shed += 1,
            _ => return Err(format!("neither served nor shed: {got:?}")),
        }
    }
    ensure(served >= 64, || format!("{served} served, {shed} shed"))?;
    let most = subject.upstream.most_running();
    ensure(most <= 64, || format!("the server had {most} calls at once"))?;
    ensure(subject.upstream.calls() == before + served, || "what is shed reaches the server".to_owned())?;
    let after = tool_call(json!(1), &format!("{server}echo"), json!({"text": "after"}));
    let got = subject.client.modern("/mcp", &after).await;
    ensure(got.body.contains("after"), || format!("{got:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d14_too_much_is_shed_with_a_clear_error_and_the_rest_is_served() {
    // Ten times what the server's slots and queue take, at once instead of for five minutes.
    let subject = Subject::hub(GatewayConfig::on_free_port()).await;
    sheds_what_is_too_much(&subject, "up__", scaled(1_000, 3_200)).await.unwrap();
}

#[tokio::test]
async fn d14_one_callers_flood_leaves_the_others_their_share() {
    let (loud, key_of_loud) = ApiKey::generate("loud");
    let (calm, key_of_calm) = ApiKey::generate("calm");
    let key_of_loud = key_of_loud.with_quota(CallQuota { per_minute: 60, burst: 10 });
    let subject =
        Subject::with(GatewayConfig { keys: vec![key_of_loud, key_of_calm], ..GatewayConfig::on_free_port() }).await;
    let call = tool_call(json!(1), "echo", json!({"text": "x"})).to_string();
    let ask = async |key: &str| {
        let message = tool_call(json!(1), "echo", json!({"text": "x"}));
        let own = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", key));
        subject.client.send("POST", "/mcp", &headers, &call).await.status
    };
    let mut refused = 0;
    for _ in 0..100 {
        refused += usize::from(ask(&loud).await == 429);
        assert_eq!(ask(&calm).await, 200);
    }
    assert!(refused >= 80, "{refused} of 100 were refused");
}

#[tokio::test]
async fn d04_a_connection_that_never_says_anything_is_closed() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.head_timeout = Duration::from_millis(200);
    let subject = Subject::with(config).await;
    let mut silent = tokio::net::TcpStream::connect(subject.client.0).await.unwrap();
    let mut read = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut read)).await.expect("it is closed").unwrap();
    subject.works().await.unwrap();
}
