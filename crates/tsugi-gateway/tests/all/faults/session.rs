//! Sessions of others and sessions without end: D-06, T06, T17, and bounds on streams and subscriptions.

use serde_json::json;
use tsugi_gateway::GatewayConfig;
use tsugi_gateway::guard::api_key::ApiKey;

use super::line::Line;
use super::{BASE, JSON, Subject, Verdict, ensure, initialize, legacy, legacy_call, open_session, scaled};
use crate::world::*;

/// How many sessions the gateway says it holds.
async fn sessions(client: &Client) -> usize {
    let numbers = client.send("GET", "/metrics", &[], "").await.body;
    let line =
        numbers.lines().find(|line| line.starts_with("tsugi_legacy_sessions ")).unwrap_or_else(|| panic!("{numbers}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

/// D-06, T17: twice as many sessions as there may be are opened, and none is ended. No more than allowed are kept.
pub(crate) async fn forgets_sessions_that_nobody_ends(subject: &Subject, cap: usize) -> Verdict {
    let mut opened = Vec::new();
    for _ in 0..2 * cap {
        opened.push(open_session(&subject.client, "2025-06-18", &[]).await);
    }
    let call = legacy_call(json!(1), "echo", json!({"text": "x"})).to_string();
    let mut kept = 0;
    for session in &opened {
        let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
        kept += usize::from(subject.client.send("POST", "/mcp", &headers, &call).await.status == 200);
    }
    ensure(kept <= cap, || format!("{kept} sessions are kept, of which nobody ended any"))?;
    ensure(kept > 0, || "no session works".to_owned())
}

#[tokio::test]
async fn d06_t17_a_session_that_nobody_uses_makes_room_for_another() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.sessions = 20;
    forgets_sessions_that_nobody_ends(&Subject::with(config).await, 20).await.unwrap();
}

#[tokio::test]
async fn d06_t17_sessions_that_nobody_ends_stay_below_the_cap() {
    // The rows open 10⁶ sessions; here 2,000 against a cap of 100, unless TSUGI_TEST_LONG is set.
    let mut config = GatewayConfig::on_free_port();
    config.limits.sessions = 100;
    let subject = Subject::with(config).await;
    let kept = open_session(&subject.client, "2025-06-18", &[]).await;
    let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", kept.as_str())];
    let get = subject.client.request("GET", "/mcp", &headers, "");
    let mut used = Exchange::send(subject.client.0, &get).await;
    used.read_until(":\n\n").await;
    let (mut line, hello) = (Line::open(subject.client.0).await, initialize("2025-06-18").to_string());
    for _ in 0..scaled(2_000, 1_000_000) {
        let opened = line.post("/mcp", &BASE, &hello).await.unwrap();
        assert!(opened.status == 200 && opened.head.contains("mcp-session-id"), "{}", opened.head);
    }
    assert_eq!(sessions(&subject.client).await, 100);
    let call = legacy_call(json!(1), "echo", json!({"text": "still here"})).to_string();
    let got = subject.client.send("POST", "/mcp", &headers, &call).await;
    assert!(got.body.contains("still here"), "a session that is used is not the one to go: {got:?}");
}

#[tokio::test]
async fn t17_an_initialize_that_fails_leaves_no_session() {
    let subject = Subject::tsugi().await;
    let mut line = Line::open(subject.client.0).await;
    for index in 0..scaled(1_000, 1_000_000) {
        let params = [json!(null), json!([]), json!({}), json!({"protocolVersion": "2025-06-18"})][index % 3].clone();
        let body = legacy(json!(1), "initialize", params).to_string();
        let answered = line.post("/mcp", &BASE, &body).await.unwrap();
        assert!(answered.body.contains("error") && !answered.head.contains("mcp-session-id"), "{}", answered.body);
    }
    assert_eq!(sessions(&subject.client).await, 0);
}

#[tokio::test]
async fn t17_one_caller_cannot_take_the_sessions_of_all() {
    let (ann, key_of_ann) = ApiKey::generate("ann");
    let (bob, key_of_bob) = ApiKey::generate("bob");
    let mut config = GatewayConfig { keys: vec![key_of_ann, key_of_bob], ..GatewayConfig::on_free_port() };
    config.limits.sessions_per_caller = 5;
    let subject = Subject::with(config).await;
    let hello = initialize("2025-06-18").to_string();
    let ask = async |key: &str| {
        let headers = [BASE[0], BASE[1], ("X-Api-Key", key)];
        subject.client.send("POST", "/mcp", &headers, &hello).await
    };
    for _ in 0..5 {
        assert_eq!(ask(&ann).await.status, 200);
    }
    let refused = ask(&ann).await;
    assert_eq!((refused.status, refused.error_code()), (503, -31002));
    assert_eq!(ask(&bob).await.status, 200);
}

/// T06: a session cannot be used by whoever guesses or steals its id.
pub(crate) async fn refuses_strange_sessions(subject: &Subject) -> Verdict {
    let id = open_session(&subject.client, "2025-06-18", &[]).await;
    ensure(id.len() >= 22, || format!("{id} can be guessed"))?;
    let call = legacy_call(json!(1), "echo", json!({"text": "x"})).to_string();
    for guess in ["session-0", "", "0", "../x", &id[..id.len() - 1], &id.to_lowercase()] {
        let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", guess)];
        let got = subject.client.send("POST", "/mcp", &headers, &call).await;
        ensure([400, 404].contains(&got.status), || format!("{guess}: {got:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn t06_session_ids_cannot_be_guessed() {
    refuses_strange_sessions(&Subject::tsugi().await).await.unwrap();
}

#[tokio::test]
async fn t06_a_session_of_another_does_not_exist() {
    let (ann, key_of_ann) = ApiKey::generate("ann");
    let (bob, key_of_bob) = ApiKey::generate("bob");
    let config = GatewayConfig { keys: vec![key_of_ann, key_of_bob], ..GatewayConfig::on_free_port() };
    let subject = Subject::with(config).await;
    let (ann, bob) = (("X-Api-Key", ann.as_str()), ("X-Api-Key", bob.as_str()));
    let id = open_session(&subject.client, "2025-11-25", &[ann]).await;
    let session = ("Mcp-Session-Id", id.as_str());
    let get = subject.client.request("GET", "/mcp", &[BASE[1], session, ann], "");
    let mut stream = Exchange::send(subject.client.0, &get).await;
    stream.read_until(":\n\n").await;
    let call = legacy_call(json!(1), "echo", json!({"text": "mine"})).to_string();
    for (verb, more) in [("POST", None), ("GET", None), ("GET", Some(("Last-Event-ID", "0-0"))), ("DELETE", None)] {
        let headers: Vec<(&str, &str)> = [BASE[0], BASE[1], session, bob].into_iter().chain(more).collect();
        let got = subject.client.send(verb, "/mcp", &headers, if verb == "POST" { &call } else { "" }).await;
        assert_eq!(got.status, 404, "{verb} {more:?}");
    }
    assert_eq!(subject.upstream.calls(), 0);
    let got = subject.client.send("POST", "/mcp", &[BASE[0], BASE[1], session, ann], &call).await;
    assert!(got.body.contains("mine"), "the owner's session is untouched: {got:?}");

    let get = subject.client.request("GET", "/sse", &[("Accept", "text/event-stream"), ann], "");
    let mut stream = Exchange::send(subject.client.0, &get).await;
    stream.read_until("event: endpoint\ndata: ").await;
    let address = stream.read_until("\n\n").await.trim().to_owned();
    let got = subject.client.send("POST", &address, &[JSON, bob], &initialize("2024-11-05").to_string()).await;
    assert_eq!(got.status, 404, "nor does a stream of another");
}

#[tokio::test]
async fn d05_streams_of_every_kind_share_one_cap_and_room_comes_back() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.streams = 7;
    let subject = Subject::with(config).await;
    let session = open_session(&subject.client, "2025-11-25", &[]).await;
    let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let headers = [BASE[1], ("Mcp-Session-Id", session.as_str())];
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = subject.client.open_modern("/mcp", &listen).await;
        stream.read_until("acknowledged").await;
        open.push(stream);
        let get = subject.client.request("GET", "/sse", &[("Accept", "text/event-stream")], "");
        let mut stream = Exchange::send(subject.client.0, &get).await;
        stream.read_until("event: endpoint").await;
        open.push(stream);
    }
    let socket = format!("ws://{}/ws", subject.client.0);
    let held = tokio_tungstenite::connect_async(&socket).await.expect("there is room for one");
    assert!(tokio_tungstenite::connect_async(&socket).await.unwrap_err().to_string().contains("503"));
    let refused = subject.client.modern("/mcp", &listen).await;
    assert_eq!((refused.status, refused.error_code()), (503, -31002), "a subscription too many");
    for path in ["/mcp", "/sse"] {
        let refused = subject.client.send("GET", path, &headers, "").await;
        assert_eq!((refused.status, refused.error_code()), (503, -31002), "{path}");
    }
    subject.works().await.unwrap();
    drop(held);
    while tokio_tungstenite::connect_async(&socket).await.is_err() {}
    drop(open);
    loop {
        let mut again = subject.client.open_modern("/mcp", &listen).await;
        if again.read_until("\r\n").await.contains("200") {
            break;
        }
    }
}

#[tokio::test]
async fn d05_a_session_watches_only_so_many_resources() {
    let subject = Subject::tsugi().await;
    let session = open_session(&subject.client, "2025-11-25", &[]).await;
    let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
    let mut line = Line::open(subject.client.0).await;
    let mut watched = 0;
    let refused = loop {
        let body = legacy(json!(1), "resources/subscribe", json!({"uri": format!("x://{watched}")})).to_string();
        let answered = line.post("/mcp", &headers, &body).await.unwrap();
        if answered.body.contains("error") {
            break answered.body;
        }
        watched += 1;
        assert!(watched <= 1024, "there is no bound");
    };
    assert!(watched == 1024 && refused.contains("1024"), "{watched} {refused}");
    let many: Vec<String> = (0..1025).map(|index| format!("x://{index}")).collect();
    let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": many}}));
    let refused = subject.client.modern("/mcp", &listen).await;
    assert_eq!((refused.status, refused.error_code()), (400, -32602), "{refused:?}");
}
