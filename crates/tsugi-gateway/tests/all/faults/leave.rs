//! Clients that leave or change their mind: D-01, D-02, D-03, D-12.

use serde_json::json;

use super::{BASE, JSON, Subject, Verdict, ensure, legacy_call, open_session, tool_call};
use crate::world::*;

/// How long a call may go on for nobody.
const SOON: std::time::Duration = std::time::Duration::from_secs(5);

pub(crate) async fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.is_ok()
}

/// D-01: modern clients leave in mid-call. Each call is cancelled, and nothing more is taken from it.
pub(crate) async fn leaves_modern(subject: &Subject, tool: &str, size: usize) -> Verdict {
    subject.works().await?;
    let (before, cancelled) = (subject.upstream.calls(), subject.upstream.cancelled());
    let mut open = Vec::new();
    for _ in 0..size {
        open.push(subject.client.open_modern("/mcp", &tool_call(json!(1), tool, json!({}))).await);
    }
    subject.upstream.wait_for_calls(before + size).await;
    drop(open);
    let is_over = soon(|| subject.upstream.cancelled() == cancelled + size).await;
    ensure(is_over, || format!("{} of {size} calls were cancelled", subject.upstream.cancelled() - cancelled))?;
    subject.works().await
}

#[tokio::test]
async fn d01_a_modern_client_that_leaves_cancels_its_call() {
    let subject = Subject::tsugi().await;
    for tool in ["hang", "held", "flood"] {
        for size in [1, 64] {
            leaves_modern(&subject, tool, size).await.unwrap();
        }
    }
}

#[tokio::test]
async fn d01_a_modern_client_that_leaves_frees_the_servers_slot() {
    // The hub's own limits hold for its servers: more calls than there are slots only work when slots come back.
    let subject = Subject::hub(tsugi_gateway::GatewayConfig::on_free_port()).await;
    for round in 1..=5 {
        let mut open = Vec::new();
        for _ in 0..64 {
            open.push(subject.client.open_modern("/mcp", &tool_call(json!(1), "up__hang", json!({}))).await);
        }
        subject.upstream.wait_for_calls(round * 64).await;
        drop(open);
        until(|| subject.upstream.cancelled() == round * 64).await;
    }
    let got = subject.client.modern("/mcp", &tool_call(json!(1), "up__echo", json!({"text": "free"}))).await;
    assert!(got.body.contains("free"), "{got:?}");
}

/// D-02: a legacy client leaves in mid-call. The call goes on, and its result waits for the client.
pub(crate) async fn leaves_legacy(subject: &Subject) -> Verdict {
    subject.works().await?;
    let session = open_session(&subject.client, "2025-11-25", &[]).await;
    let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
    let before = subject.upstream.calls();
    let body = legacy_call(json!(7), "held", json!({"text": "kept"})).to_string();
    let request = subject.client.request("POST", "/mcp", &headers, &body);
    let mut exchange = Exchange::send(subject.client.0, &request).await;
    subject.upstream.wait_for_calls(before + 1).await;
    let place = tokio::time::timeout(SOON, exchange.read_until("\nretry")).await.ok();
    drop(exchange);
    // Whoever notices that the client is gone has time to do so.
    for _ in 0..10 {
        subject.works().await?;
    }
    subject.upstream.release();
    ensure(soon(|| subject.upstream.finished() == 1).await, || "the call was cancelled".to_owned())?;
    let place = place.ok_or("there is no place to come back to")?;
    let place = place.rsplit("id: ").next().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    let headers = [&headers[..], &[("Last-Event-ID", place.as_str())]].concat();
    let got = subject.client.send("GET", "/mcp", &headers, "").await;
    ensure(got.body.contains(r#""text":"kept""#), || format!("the result is lost: {got:?}"))
}

#[tokio::test]
async fn d02_a_legacy_client_that_leaves_finds_its_result_when_it_comes_back() {
    leaves_legacy(&Subject::tsugi().await).await.unwrap();
}

#[tokio::test]
async fn d03_a_reset_and_a_closed_half_are_found_at_once() {
    let subject = Subject::tsugi().await;
    subject.works().await.unwrap();
    let before = subject.upstream.calls();
    let request = |tool: &str| {
        let message = tool_call(json!(1), tool, json!({}));
        let headers = modern_headers(&message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        subject.client.request("POST", "/mcp", &headers, &message.to_string())
    };
    for (index, tool) in ["held", "hang"].into_iter().enumerate() {
        let stream = std::net::TcpStream::connect(subject.client.0).unwrap();
        std::io::Write::write_all(&mut &stream, request(tool).as_bytes()).unwrap();
        subject.upstream.wait_for_calls(before + 2 * index + 1).await;
        // Unread data or a zero linger makes the close a reset; `hang` leaves its first note unread.
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(stream);
        until(|| subject.upstream.cancelled() == 2 * index + 1).await;
        let stream = std::net::TcpStream::connect(subject.client.0).unwrap();
        std::io::Write::write_all(&mut &stream, request(tool).as_bytes()).unwrap();
        subject.upstream.wait_for_calls(before + 2 * index + 2).await;
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        until(|| subject.upstream.cancelled() == 2 * index + 2).await;
    }
    subject.works().await.unwrap();
}

/// D-12: another session cancels the id of a call that is not its own.
pub(crate) async fn cancels_others(subject: &Subject) -> Verdict {
    let (one, other) = (
        open_session(&subject.client, "2025-06-18", &[]).await,
        open_session(&subject.client, "2025-06-18", &[]).await,
    );
    let headers = |session| [BASE[0], BASE[1], ("Mcp-Session-Id", session)];
    let before = subject.upstream.calls();
    let body = legacy_call(json!(5), "held", json!({"text": "mine"})).to_string();
    let waiting = subject.client.request("POST", "/mcp", &headers(&one), &body);
    let waiting = Exchange::send(subject.client.0, &waiting).await;
    subject.upstream.wait_for_calls(before + 1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}).to_string();
    for _ in 0..2 {
        subject.client.send("POST", "/mcp", &headers(&other), &cancel).await;
        subject.client.send("POST", "/mcp", &BASE, &cancel).await;
    }
    subject.upstream.release();
    ensure(soon(|| subject.upstream.finished() == 1).await, || "somebody else cancelled the call".to_owned())?;
    let answer = waiting.read_to_end().await;
    ensure(answer.contains(r#""text":"mine""#), || format!("no answer but {answer}"))
}

#[tokio::test]
async fn d12_nobody_cancels_the_call_of_another() {
    cancels_others(&Subject::tsugi().await).await.unwrap();
}

#[tokio::test]
async fn d12_a_cancellation_may_come_too_early_too_late_twice_or_for_nothing() {
    let subject = Subject::tsugi().await;
    let session = open_session(&subject.client, "2025-06-18", &[]).await;
    let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
    let cancel = async |id: serde_json::Value| {
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        subject.client.send("POST", "/mcp", &headers, &body.to_string()).await.status
    };
    // Before the request was sent, of another type than the id, and without any sense.
    for id in [json!(9), json!("9"), json!(null), json!([]), json!({"a": 1}), json!(1e300)] {
        assert_eq!(cancel(id).await, 202);
    }
    let call = legacy_call(json!(9), "echo", json!({"text": "x"})).to_string();
    assert!(subject.client.send("POST", "/mcp", &headers, &call).await.body.contains(r#""text":"x""#));
    assert_eq!(cancel(json!(9)).await, 202, "after the answer");
    let held = legacy_call(json!(9), "held", json!({})).to_string();
    let waiting = Exchange::send(subject.client.0, &subject.client.request("POST", "/mcp", &headers, &held)).await;
    subject.upstream.wait_for_calls(2).await;
    assert_eq!(cancel(json!("9")).await, 202, "the text 9 is not the number 9");
    assert_eq!(subject.upstream.cancelled(), 0);
    assert_eq!((cancel(json!(9)).await, cancel(json!(9)).await), (202, 202));
    until(|| subject.upstream.cancelled() == 1).await;
    drop(waiting);
    assert!(subject.client.send("POST", "/mcp", &headers, &call).await.body.contains(r#""text":"x""#));
    assert_eq!(subject.client.send("POST", "/rpc", &[JSON], &call).await.status, 200);
}

#[tokio::test]
async fn d01_a_request_whose_client_leaves_before_its_answer_is_counted() {
    let subject = Subject::tsugi().await;
    let open = subject.client.open_modern("/mcp", &tool_call(json!(1), "held", json!({}))).await;
    subject.upstream.wait_for_calls(1).await;
    drop(open);
    let line = r#"tsugi_http_requests_total{route="/mcp",status="499"} 1"#;
    let counted = async {
        while !subject.client.send("GET", "/metrics", &[], "").await.body.contains(line) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, counted).await.expect("it is in the numbers");
}
