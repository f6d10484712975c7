//! Requests that are malformed, huge, slow or endless: D-08, D-09, T13, T14, T16.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tsugi_gateway::GatewayConfig;

use super::{BASE, JSON, Subject, Verdict, ensure, legacy_call, open_session, scaled, tool_call};
use crate::world::*;

/// Bodies that are no message, each in its own way.
fn malformed() -> Vec<(&'static str, String)> {
    let call = tool_call(json!(1), "echo", json!({"text": "x"})).to_string();
    let keys: Vec<String> = (0..100_000).map(|key| format!("\"k{key}\":")).collect();
    vec![
        ("nothing", String::new()),
        ("half", call[..call.len() / 2].to_owned()),
        ("deep arrays", "[".repeat(200_000)),
        ("deep objects", "{\"a\":".repeat(200_000)),
        ("deep arguments", call.replace("\"x\"", &format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)))),
        ("NUL", call.replace("echo", "ec\0ho")),
        ("lone surrogate in a name", call.replace("\"echo\"", r#""ec\ud800ho""#)),
        ("name of a wrong type", call.replace("\"echo\"", "[\"echo\"]")),
        ("raw control", call.replace("\"x\"", "\"a\nb\"")),
        ("keys without values", format!("{{{}}}", keys.join(","))),
        ("trailing data", format!("{call}{call}")),
        ("comment", format!("// hello\n{call}")),
        ("number of another base", call.replace("\"x\"", "0x10")),
        ("not a number", call.replace("\"x\"", "NaN")),
        ("bare word", "tools/call".to_owned()),
        ("string", "\"tools/call\"".to_owned()),
        ("number", "1".repeat(10_000)),
        ("no method", json!({"jsonrpc": "2.0", "id": 1, "params": {}}).to_string()),
        ("no version", call.replace("\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"1.0\"")),
        ("id of a wrong type", call.replace("\"id\":1", "\"id\":{\"a\":1}")),
        ("method twice", call.replace("\"method\":", "\"method\":\"tools/list\",\"method\":")),
        ("name twice", call.replace("\"name\":\"echo\"", "\"name\":\"secret\",\"name\":\"echo\"")),
    ]
}

/// D-08: every malformed body is refused with a JSON-RPC error, and none reaches a server.
pub(crate) async fn refuses_malformed(subject: &Subject) -> Verdict {
    subject.works().await?;
    let before = subject.upstream.calls();
    let headers = modern_headers(&tool_call(json!(1), "echo", json!({})));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for (what, body) in malformed() {
        let got = subject.client.send("POST", "/mcp", &headers, &body).await;
        let code = serde_json::from_str::<Value>(&got.body).ok().and_then(|body| body["error"]["code"].as_i64());
        let is_refused = got.status == 400 && code.is_some_and(|code| [-32700, -32600, -32602, -32020].contains(&code));
        ensure(is_refused, || format!("{what}: {} {:.200}", got.status, got.body))?;
    }
    ensure(subject.upstream.calls() == before, || "a malformed call reached the server".to_owned())?;
    subject.works().await
}

#[tokio::test]
async fn d08_what_is_no_message_is_refused_as_json_rpc() {
    refuses_malformed(&Subject::tsugi().await).await.unwrap();
}

#[tokio::test]
async fn d08_many_keys_and_long_numbers_are_carried_or_refused_but_never_harm() {
    let subject = Subject::tsugi().await;
    // 10⁵ keys in 1.3 MB; the row's 10⁶ would be over the body limit and is refused with 413 in D-09.
    let keys: serde_json::Map<String, Value> = (0..100_000).map(|key| (format!("k{key}"), json!(1))).collect();
    for arguments in [Value::Object(keys), json!({"text": "x", "n": "N"})] {
        let mut message = tool_call(json!(1), "echo", json!({}));
        message["params"]["arguments"] = arguments;
        let headers = modern_headers(&message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = message.to_string().replace("\"N\"", &"9".repeat(10_000));
        let got = subject.client.send("POST", "/mcp", &headers, &body).await;
        assert!([200, 400].contains(&got.status), "{} {:.200}", got.status, got.body);
    }
    subject.works().await.unwrap();
}

#[tokio::test]
async fn d08_every_face_refuses_what_is_no_message() {
    let subject = Subject::hub(GatewayConfig::on_free_port()).await;
    for (what, body) in malformed() {
        for path in ["/rpc", "/mcp/call", "/mcp/batch", "/tools/up/echo", "/servers/up/mcp"] {
            // An operation takes any object as arguments, so a message is one too, and nothing means none.
            if path == "/tools/up/echo"
                && matches!(
                    what,
                    "nothing" | "no method" | "no version" | "id of a wrong type" | "name of a wrong type"
                )
            {
                continue;
            }
            let got = subject.client.send("POST", path, &[JSON], &body).await;
            let is_refused = got.status == 400 || got.json().get("error").is_some() || got.json()["success"] == false;
            assert!(is_refused || what.ends_with("twice"), "{path} {what}: {} {:.200}", got.status, got.body);
            assert!(got.status < 500, "{path} {what}: {} {:.200}", got.status, got.body);
        }
    }
}

/// What a raw request is answered with: the status, or nothing when the connection ends first.
async fn status_of(subject: &Subject, head: &str, mut body: impl AsyncFnMut() -> Option<Vec<u8>>) -> Option<u16> {
    let (mut stream, mut writing) = TcpStream::connect(subject.client.0).await.unwrap().into_split();
    writing.write_all(head.as_bytes()).await.ok()?;
    let mut read = Vec::new();
    while let Some(part) = body().await {
        tokio::select! {
            written = writing.write_all(&part) => if written.is_err() { break },
            _ = stream.read_buf(&mut read) => break,
        }
    }
    while !read.windows(4).any(|four| four == b"\r\n\r\n") {
        match tokio::time::timeout(Duration::from_secs(20), stream.read_buf(&mut read)).await {
            Ok(Ok(count)) if count > 0 => {}
            _ => break,
        }
    }
    String::from_utf8_lossy(&read).split(' ').nth(1)?.parse().ok()
}

fn head(subject: &Subject, more: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{more}\r\n", subject.client.0)
}

/// D-09, T16: bodies without end are cut off, announced or not.
pub(crate) async fn refuses_large(subject: &Subject) -> Verdict {
    subject.works().await?;
    let announced = head(subject, "Content-Length: 104857600\r\n");
    let status = status_of(subject, &announced, async || None).await;
    ensure(status == Some(413), || format!("100 MB announced: {status:?}"))?;
    let expects = head(subject, "Content-Length: 104857600\r\nExpect: 100-continue\r\n");
    let status = status_of(subject, &expects, async || None).await;
    ensure(status == Some(413), || format!("100 MB with Expect: {status:?}"))?;
    let endless = head(subject, "Transfer-Encoding: chunked\r\n");
    let mut sent = 0;
    let status = status_of(subject, &endless, async || {
        sent += 1 << 16;
        let chunk = [b"10000\r\n".to_vec(), vec![b' '; 1 << 16], b"\r\n".to_vec()].concat();
        (sent < 64 << 20).then_some(chunk)
    })
    .await;
    // A server that stops reading may also close before its answer is read.
    ensure(sent < 64 << 20 && matches!(status, Some(413) | None), || format!("an endless body: {status:?} at {sent}"))?;
    subject.works().await
}

#[tokio::test]
async fn d09_t16_a_body_without_end_is_cut_off() {
    refuses_large(&Subject::tsugi().await).await.unwrap();
}

#[tokio::test]
async fn d09_heads_are_bounded_in_size_and_number() {
    let subject = Subject::tsugi().await;
    let large = head(&subject, &format!("X-Large: {}\r\n", "x".repeat(1 << 20)));
    let many: String = (0..10_000).map(|index| format!("X-{index}: 1\r\n")).collect();
    for head in [large, head(&subject, &many)] {
        let status = status_of(&subject, &head, async || None).await;
        assert!(matches!(status, Some(431) | Some(400) | None), "{status:?}");
    }
    assert_eq!(subject.upstream.calls(), 0);
    subject.works().await.unwrap();
}

#[tokio::test]
async fn d09_two_lengths_never_make_two_requests() {
    let subject = Subject::tsugi().await;
    let message = tool_call(json!(1), "echo", json!({"text": "smuggled"})).to_string();
    let inner = format!("{}{message}", head(&subject, &format!("Content-Length: {}\r\n", message.len())));
    for lengths in ["Content-Length: 4\r\nContent-Length: 5\r\n", "Transfer-Encoding: chunked, identity\r\n"] {
        let mut parts = vec![format!("0\r\n\r\n{inner}").into_bytes()];
        status_of(&subject, &head(&subject, lengths), async || parts.pop()).await;
    }
    assert_eq!(subject.upstream.calls(), 0, "what was hidden in a body was taken for a request");
    subject.works().await.unwrap();
}

#[tokio::test]
async fn d09_slow_clients_are_sent_away_while_others_are_served() {
    // The row has 2,000 of them at 1 B/s; here 64 unless TSUGI_TEST_LONG is set, and the limits are short.
    let mut config = GatewayConfig::on_free_port();
    config.limits.head_timeout = Duration::from_millis(500);
    config.limits.body_timeout = Duration::from_millis(500);
    let subject = Subject::with(config).await;
    let mut slow = Vec::new();
    for index in 0..scaled(64, 2000) {
        let mut stream = TcpStream::connect(subject.client.0).await.unwrap();
        let begun = match index % 2 {
            0 => "POST /mcp HTTP/1.1\r\nHost: loc".to_owned(),
            _ => head(&subject, "Content-Length: 100\r\n") + "{",
        };
        stream.write_all(begun.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    subject.works().await.unwrap();
    for (index, mut stream) in slow.into_iter().enumerate() {
        let mut read = Vec::new();
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut read)).await.unwrap().unwrap();
        let read = String::from_utf8_lossy(&read);
        assert!(read.is_empty() || read.starts_with("HTTP/1.1 408"), "{index}: {read}");
    }
    subject.works().await.unwrap();
}

/// T13: bodies that one parser reads differently from another are refused.
pub(crate) async fn reads_names_one_way(subject: &Subject) -> Verdict {
    let call = legacy_call(json!(1), "up__echo", json!({"text": "x"})).to_string();
    let plain = subject.client.send("POST", "/rpc", &[JSON], &call).await;
    ensure(plain.body.contains(r#""text":"x""#), || format!("the plain name does not work: {plain:?}"))?;
    let before = subject.upstream.calls();
    let mut bodies = Vec::new();
    for other in ["Name", "NAME", "name\\u0000", "n\\u0061me\\u0000", "ſame"] {
        bodies.push(call.replace("\"name\":", &format!("\"{other}\":")));
    }
    for twice in ["name", "n\\u0061me"] {
        bodies.push(call.replace("\"name\":", &format!("\"{twice}\":\"up__secret\",\"name\":")));
        bodies.push(call.replace("\"arguments\":", &format!("\"{twice}\":\"up__secret\",\"arguments\":")));
    }
    for key in ["method", "m\\u0065thod", "params", "id"] {
        bodies.push(call.replacen('{', &format!("{{\"{key}\":\"tools/list\","), 1));
    }
    for body in bodies {
        let got = subject.client.send("POST", "/rpc", &[JSON], &body).await;
        ensure(got.json().get("error").is_some(), || format!("{body}: {got:?}"))?;
    }
    ensure(subject.upstream.calls() == before, || "a call came through".to_owned())
}

#[tokio::test]
async fn t13_names_are_read_one_way_only() {
    reads_names_one_way(&Subject::hub(GatewayConfig::on_free_port()).await).await.unwrap();
}

/// T14: a batch is refused unless its revision has batches and it is short; no member is run.
pub(crate) async fn refuses_batches(subject: &Subject) -> Verdict {
    subject.works().await?;
    let before = subject.upstream.calls();
    let many = Value::Array(vec![legacy_call(json!(1), "echo", json!({"text": "x"})); 10_000]).to_string();
    let (old, new) = (
        open_session(&subject.client, "2025-03-26", &[]).await,
        open_session(&subject.client, "2025-06-18", &[]).await,
    );
    let few = Value::Array(vec![legacy_call(json!(1), "echo", json!({"text": "x"})); 2]).to_string();
    for (session, body) in [(&old, &many), (&new, &many), (&new, &few)] {
        let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
        let got = subject.client.send("POST", "/mcp", &headers, body).await;
        ensure(got.status == 400 && got.error_code() == -32600, || format!("{:.200} {}", got.body, got.status))?;
    }
    ensure(subject.upstream.calls() == before, || "a member of a refused batch was run".to_owned())
}

#[tokio::test]
async fn t14_batches_are_short_and_only_where_the_revision_has_them() {
    let subject = Subject::tsugi().await;
    refuses_batches(&subject).await.unwrap();
    let session = open_session(&subject.client, "2025-03-26", &[]).await;
    let headers = [JSON, ("Accept", "application/json, text/event-stream"), ("Mcp-Session-Id", session.as_str())];
    let batch = json!([
        legacy_call(json!(1), "echo", json!({"text": "one"})),
        legacy_call(json!("1"), "echo", json!({"text": "two"})),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
    ]);
    let got = subject.client.send("POST", "/mcp", &headers, &batch.to_string()).await;
    assert!(got.body.contains("one") && got.body.contains("two"), "{got:?}");
    let headers = [JSON, ("Accept", "application/json"), ("Mcp-Session-Id", session.as_str())];
    let got = subject.client.send("POST", "/mcp", &headers, &batch.to_string()).await;
    let ids: Vec<Value> = got.json().as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!("1")], "one array for who reads no streams: {got:?}");
}

#[tokio::test]
async fn t16_compressed_bodies_are_refused_unread() {
    let subject = Subject::tsugi().await;
    for encoding in ["gzip", "br", "deflate", "zstd", "gzip, gzip", "identity, gzip", "x-unknown"] {
        let got = subject.client.send("POST", "/mcp", &[JSON, ("Content-Encoding", encoding)], "xxxx").await;
        assert_eq!(got.status, 415, "{encoding}");
    }
    assert_eq!(subject.upstream.calls(), 0);
}
