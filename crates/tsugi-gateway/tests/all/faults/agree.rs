//! Headers that say something else than the body, and eras that are mixed up: D-10, D-13, T12.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_gateway::backend::SingleBackend;
use tsugi_gateway::{Endpoint, GatewayConfig, ToolHeaders};
use tsugi_schema::header_param::HeaderParams;

use super::upstream::Upstream;
use super::{BASE, JSON, Subject, Verdict, ensure, open_session, tool_call};
use crate::world::*;

/// `echo` mirrors its number into a header.
struct Mirrors;

impl ToolHeaders for Mirrors {
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}});
        (tool == "echo").then(|| Arc::new(HeaderParams::of(&schema).unwrap()))
    }
}

/// Header sets that differ from the body, each in one way.
fn mismatches() -> Vec<Vec<(&'static str, &'static str)>> {
    let good = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
        ("Mcp-Param-N", "42"),
    ];
    let wrong: [&[&str]; 4] = [
        &["2025-11-25", "2099-01-01", "", "2026-07-28, 2025-11-25"],
        &["tools/list", "Tools/Call", "", "tools/call2", "=?base64?dG9vbHMvY2FsbA==?="],
        &[
            "secret",
            "Echo",
            "ECHO",
            "",
            "echo2",
            "=?base64?c2VjcmV0?=",
            "=?base64?ZWNobw?",
            "=?base64?!!!!?=",
            "echo,echo",
        ],
        &["43", "42.5", "0x2a", "", "=?base64?NDM=?=", "forty-two", "42,42"],
    ];
    let mut all = Vec::new();
    for (index, values) in wrong.iter().enumerate() {
        let mut without = good.to_vec();
        without.remove(index);
        all.push(without);
        let mut twice = good.to_vec();
        twice.push(good[index]);
        all.push(twice);
        for value in *values {
            let mut differs = good.to_vec();
            differs[index].1 = value;
            all.push(differs);
        }
    }
    all
}

/// D-10, T12: a header that differs from the body is refused with −32020 before anybody is asked.
pub(crate) async fn refuses_mismatches(client: &Client, upstream: &Upstream) -> Verdict {
    let body = tool_call(json!(7), "echo", json!({"text": "x", "n": 42})).to_string();
    let good = [
        JSON,
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
        ("Mcp-Param-N", "42"),
    ];
    let got = client.send("POST", "/mcp", &good, &body).await;
    ensure(got.status == 200, || format!("the legitimate call fails: {got:?}"))?;
    let before = upstream.calls();
    for mismatch in mismatches() {
        let headers = [&[JSON][..], &mismatch].concat();
        let got = client.send("POST", "/mcp", &headers, &body).await;
        let code = serde_json::from_str::<Value>(&got.body).ok().and_then(|body| body["error"]["code"].as_i64());
        ensure((got.status, code) == (400, Some(-32020)), || format!("{mismatch:?}: {} {}", got.status, got.body))?;
    }
    ensure(upstream.calls() == before, || "a call whose headers lie reached the server".to_owned())
}

#[tokio::test]
async fn d10_t12_a_header_that_differs_from_the_body_reaches_nobody() {
    let upstream = Upstream::default();
    let endpoint = Endpoint { answer: upstream.answer(), tools: Arc::new(Mirrors) };
    let handle = serve_backend(GatewayConfig::on_free_port(), Arc::new(SingleBackend::of(endpoint))).await;
    refuses_mismatches(&Client::of(&handle), &upstream).await.unwrap();
}

/// D-13: eras are not mixed up.
pub(crate) async fn keeps_eras_apart(subject: &Subject) -> Verdict {
    subject.works().await?;
    let unknown = {
        let mut message = tool_call(json!(1), "echo", json!({}));
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
        let headers =
            [JSON, ("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
        subject.client.send("POST", "/mcp", &headers, &message.to_string()).await
    };
    ensure(unknown.status == 400 && unknown.error_code() == -32022, || format!("unknown version: {unknown:?}"))?;
    let mut bare = tool_call(json!(1), "echo", json!({}));
    bare["params"].as_object_mut().unwrap().remove("_meta");
    let bare = subject.client.modern("/mcp", &bare).await;
    ensure(bare.status == 400 && bare.error_code() == -32602, || format!("no _meta: {bare:?}"))?;
    for verb in ["GET", "DELETE"] {
        let headers = [BASE[1], ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Session-Id", "x")];
        let got = subject.client.send(verb, "/mcp", &headers, "").await;
        ensure(got.status == 405, || format!("{verb}: {got:?}"))?;
    }
    let session = open_session(&subject.client, "2025-11-25", &[]).await;
    let message = tool_call(json!(1), "echo", json!({"text": "new"}));
    let own = modern_headers(&message);
    let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for id in [session.as_str(), "somebody else's"] {
        headers.push(("Mcp-Session-Id", id));
        let got = subject.client.send("POST", "/mcp", &headers, &message.to_string()).await;
        let is_modern = got.status == 200 && got.body.contains("resultType") && got.header("mcp-session-id").is_none();
        ensure(is_modern, || format!("a modern request with a session id: {got:?}"))?;
        headers.pop();
    }
    Ok(())
}

#[tokio::test]
async fn d13_eras_are_not_mixed_up() {
    keeps_eras_apart(&Subject::tsugi().await).await.unwrap();
}
