//! The door: who comes in, with what, and how the gateway stops.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_gateway::backend::{Endpoint, ToolDirectory};
use tsugi_gateway::config::Exposure;
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::route::ROUTES;
use tsugi_gateway::{Backend, Gateway, GatewayConfig, StartError};
use tsugi_protocol::answer::{Outcome, Reply};
use tsugi_protocol::json::JsonObject;

use crate::world::*;

fn path(pattern: &str) -> String {
    pattern.replace("{}", "x")
}

fn ping() -> Value {
    modern(json!(1), "tools/list", json!({}))
}

#[tokio::test]
async fn no_route_answers_a_foreign_host_or_web_page() {
    let hits = Drops::default();
    let counted = hits.clone();
    let handle = serve(script(move |_| {
        drop(counted.guard());
        complete(json!({"resultType": "complete", "tools": []}))
    }))
    .await;
    let client = Client::of(&handle);
    let foreign: [&[(&str, &str)]; 5] = [
        &[("Host", "evil.example")],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://localhost"), ("Origin", "http://evil.example")],
        &[("Host", "evil.example"), ("Origin", "http://localhost")],
    ];
    for entry in ROUTES {
        for headers in foreign {
            let mut all = vec![("Content-Type", "application/json")];
            all.extend_from_slice(headers);
            let got = client.send(entry.verb.as_str(), &path(entry.pattern), &all, &ping().to_string()).await;
            assert_eq!(got.status, 403, "{entry:?} {headers:?}");
        }
    }
    assert_eq!(hits.0.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing went through");
    assert_eq!(client.modern("/mcp", &ping()).await.status, 200, "the legitimate call works");
}

#[tokio::test]
async fn no_route_answers_without_a_key_when_keys_are_asked_for() {
    let (secret, key) = ApiKey::generate("ann");
    // Each request comes from another client of a proxy, so that guesses are not refused for their number.
    let trusted_proxies = vec![AddressRange::parse("127.0.0.1").unwrap()];
    let config = GatewayConfig { keys: vec![key], trusted_proxies, ..GatewayConfig::on_free_port() };
    let handle = serve_with(config, script(|_| complete(json!({"resultType": "complete", "tools": []})))).await;
    let client = Client::of(&handle);
    let mut client_number = 0_u32;
    let forged: [&[(&str, &str)]; 4] = [
        &[],
        &[("Authorization", "Bearer x")],
        &[("X-Api-Key", "")],
        &[("Mcp-Init-Host", "localhost"), ("X-User", "ann")],
    ];
    for entry in ROUTES.iter().filter(|entry| !entry.route.is_open()) {
        for headers in forged {
            client_number += 1;
            let from = std::net::Ipv4Addr::from(0x0a00_0000 + client_number).to_string();
            let mut all = vec![("Content-Type", "application/json"), ("X-Forwarded-For", from.as_str())];
            all.extend_from_slice(headers);
            let got = client.send(entry.verb.as_str(), &path(entry.pattern), &all, "{}").await;
            assert_eq!(got.status, 401, "{entry:?} {headers:?}");
            assert_eq!(got.header("www-authenticate"), Some("Bearer"));
        }
    }
    let unknown = client.send("GET", "/nowhere", &[], "").await;
    assert_eq!(unknown.status, 401, "also what does not exist");
    let bearer = format!("Bearer {secret}");
    let known = client.send("GET", "/healthz", &[("Authorization", &bearer)], "").await;
    assert_eq!((known.status, known.body.as_str()), (200, "ok\n"));
}

#[tokio::test]
async fn whoever_only_looks_whether_it_lives_needs_no_key_and_may_ask_for_the_head_alone() {
    let config = GatewayConfig { keys: vec![ApiKey::generate("ann").1], ..GatewayConfig::on_free_port() };
    let handle = serve_with(config, script(|_| complete(json!({"resultType": "complete", "tools": []})))).await;
    let client = Client::of(&handle);
    let alive = client.send("GET", "/healthz", &[], "").await;
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok\n"));
    let head = client.send("HEAD", "/healthz", &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), Some("3"), "{head:?}");
    assert_eq!(client.send("HEAD", "/readyz", &[], "").await.status, 200);
    assert_eq!(client.send("HEAD", "/mcp/tools", &[], "").await.status, 401, "all else asks for a key as before");
    let stream = client.send("HEAD", "/mcp", &[], "").await;
    assert_eq!(stream.status, 401, "{stream:?}");
}

#[tokio::test]
async fn a_gateway_without_an_address_does_not_start() {
    let nowhere = GatewayConfig { listen: Vec::new(), ..GatewayConfig::default() };
    let backend = std::sync::Arc::new(tsugi_gateway::backend::SingleBackend::new(script(|_| complete(json!({})))));
    assert!(matches!(Gateway::serve(nowhere, backend).await, Err(StartError::NoAddress)));
}

/// Breaks when somebody looks for its tools.
struct Broken;

impl Backend for Broken {
    fn all(&self) -> Endpoint {
        Endpoint::plain(script(|_| complete(json!({}))))
    }

    fn server(&self, _name: &str) -> Option<Endpoint> {
        None
    }

    fn guard(&self) -> Option<Arc<AccessGuard>> {
        None
    }

    fn directory(&self) -> Option<&dyn ToolDirectory> {
        panic!("this backend is broken on purpose")
    }
}

#[tokio::test]
async fn a_handler_that_panics_is_answered_in_the_style_of_its_route_and_counted() {
    let page = "https://app.example.com";
    let config = GatewayConfig { allowed_origins: vec![page.into()], ..GatewayConfig::on_free_port() };
    let handle = serve_backend(config, std::sync::Arc::new(Broken)).await;
    let client = Client::of(&handle);
    let got = client.send("GET", "/mcp/tools", &[("Origin", page)], "").await;
    assert_eq!((got.status, &got.json()["success"]), (500, &json!(false)), "{got:?}");
    assert_eq!(got.header("access-control-allow-origin"), Some(page), "the page can read it");
    let numbers = client.send("GET", "/metrics", &[], "").await.body;
    assert!(numbers.contains(r#"tsugi_http_requests_total{route="/mcp/tools",status="500"} 1"#), "{numbers}");
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_a_key_or_an_explicit_word() {
    let open = GatewayConfig { listen: vec!["0.0.0.0:0".parse().unwrap()], ..GatewayConfig::default() };
    let backend = || std::sync::Arc::new(tsugi_gateway::backend::SingleBackend::new(script(|_| complete(json!({})))));
    assert!(matches!(Gateway::serve(open.clone(), backend()).await, Err(StartError::Exposed(_))));
    let insecure = GatewayConfig { exposure: Exposure::Insecure, ..open.clone() };
    assert!(Gateway::serve(insecure, backend()).await.is_ok());
    let trusted_proxies = vec![AddressRange::parse("10.0.0.0/8").unwrap()];
    let keyed = GatewayConfig { keys: vec![ApiKey::generate("ann").1], trusted_proxies, ..open };
    assert!(Gateway::serve(keyed, backend()).await.is_ok());
}

#[tokio::test]
async fn bodies_that_arrive_slowly_are_bounded_together() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.bodies = 100_000;
    let handle = serve_with(config, script(|_| complete(json!({"resultType": "complete"})))).await;
    let client = Client::of(&handle);
    let whole = client.request("POST", "/rpc", &[("Content-Type", "application/json")], &" ".repeat(90_000));
    let unfinished = &whole[..whole.len() - 1];
    let (mut one, mut other) = (Exchange::send(client.0, unfinished).await, Exchange::send(client.0, unfinished).await);
    let status = tokio::select! {
        status = one.read_until("\r\n") => status,
        status = other.read_until("\r\n") => status,
    };
    assert!(status.contains("503"), "there is room for one of them: {status}");
    drop((one, other));
    // What they took is given back; spaces are no message, but they are read.
    let served = async { while client.send_raw(&whole).await.status != 400 {} };
    tokio::time::timeout(Duration::from_secs(10), served).await.expect("there is room again");
}

#[tokio::test]
async fn bodies_are_bounded_plain_json() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.body = 2000;
    let handle = serve_with(config, script(|_| complete(json!({"resultType": "complete"})))).await;
    let client = Client::of(&handle);
    let json_type = ("Content-Type", "application/json");
    assert_eq!(client.send("POST", "/mcp", &[("Content-Type", "text/plain")], "{}").await.status, 415);
    assert_eq!(client.send("POST", "/mcp", &[], "{}").await.status, 415);
    assert_eq!(client.send("POST", "/mcp", &[json_type, ("Content-Encoding", "gzip")], "{}").await.status, 415);
    let large = client.send("POST", "/mcp", &[json_type], &" ".repeat(2001)).await;
    assert_eq!((large.status, large.error_code()), (413, -31001));
    let chunked = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n7d1\r\n{}\r\n0\r\n\r\n",
        client.0,
        " ".repeat(2001)
    );
    assert_eq!(client.send_raw(&chunked).await.status, 413);
    let deep = "{\"a\":".repeat(300);
    for (bad, code) in [("", -32700), ("{", -32700), (deep.as_str(), -32700), ("{}", -32600), ("\"\\ud800\"", -32700)] {
        let got = client.send("POST", "/mcp", &[json_type], bad).await;
        assert_eq!((got.status, got.error_code()), (400, code), "{bad}");
        assert!(got.json().get("id").is_none());
    }
}

#[tokio::test]
async fn unknown_paths_and_verbs_say_so() {
    let handle = serve(script(|_| complete(json!({})))).await;
    let client = Client::of(&handle);
    let nothing = client.send("GET", "/nowhere", &[], "").await;
    assert_eq!((nothing.status, nothing.json()["error"]["code"].clone()), (404, json!("NOT_FOUND")));
    for verb in ["PUT", "TRACE", "PATCH", "OPTIONS"] {
        let other = client.send(verb, "/mcp", &[], "").await;
        assert_eq!((other.status, other.header("allow")), (405, Some("POST, GET, DELETE")), "{verb}");
    }
}

#[tokio::test]
async fn a_panic_is_that_calls_error_and_nobody_elses() {
    let handle = serve(script(|call| match call.subject().as_deref() {
        Some("now") => panic!("on purpose"),
        Some("later") => Reply::from_future(async { panic!("on purpose") }),
        _ => complete(text("fine")),
    }))
    .await;
    let client = Client::of(&handle);
    for name in ["now", "later"] {
        let got = client.modern("/mcp", &modern(json!("a"), "tools/call", json!({"name": name}))).await;
        assert_eq!((got.error_code(), got.json()["id"].clone()), (-32603, json!("a")), "{name}");
    }
    let fine = client.modern("/mcp", &modern(json!(2), "tools/call", json!({"name": "fine"}))).await;
    assert_eq!(fine.json()["result"]["content"][0]["text"], "fine");
}

#[tokio::test]
async fn a_drain_lets_running_calls_finish_and_refuses_new_ones() {
    let (finish, finished) = tokio::sync::watch::channel(false);
    let handle = serve(script(move |_| {
        let mut finished = finished.clone();
        Reply::from_future(async move {
            let _ = finished.wait_for(|done| *done).await;
            Outcome::complete(JsonObject::from(text("late")))
        })
    }))
    .await;
    let client = Client::of(&handle);
    let call = modern(json!(1), "tools/call", json!({"name": "slow"}));
    let running = client.open_modern("/mcp", &call).await;
    until(|| finish.receiver_count() > 1).await;
    let handle = std::sync::Arc::new(handle);
    let draining = tokio::spawn({
        let handle = handle.clone();
        async move { handle.drain(Duration::from_secs(20)).await }
    });
    let refused = loop {
        let got = client.modern("/mcp", &modern(json!(2), "tools/list", json!({}))).await;
        if got.status == 503 {
            break got;
        }
    };
    assert_eq!(refused.error_code(), -31007);
    finish.send(true).unwrap();
    assert!(running.read_to_end().await.contains("late"));
    assert_eq!(draining.await.unwrap(), 0, "nothing was cut off");
}

#[test]
fn the_reference_names_every_route() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/http.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut plain = String::new();
    for (index, part) in page.split('{').enumerate() {
        plain.push_str(if index == 0 { part } else { part.split_once('}').map_or(part, |(_, rest)| rest) });
    }
    for entry in ROUTES {
        let line = format!("`{} {}`", entry.verb, entry.pattern.replace("{}", ""));
        assert!(plain.contains(&line), "docs/reference/http.md lacks {} {}", entry.verb, entry.pattern);
    }
}

#[tokio::test]
async fn a_web_page_that_is_allowed_hears_what_its_browser_must_hear() {
    let (secret, key) = ApiKey::generate("ann");
    let page = "https://app.example.com";
    let config =
        GatewayConfig { keys: vec![key], allowed_origins: vec![page.to_owned()], ..GatewayConfig::on_free_port() };
    let handle = serve_with(config, script(|_| complete(json!({"resultType": "complete", "tools": []})))).await;
    let client = Client::of(&handle);
    let preflight = async |origin: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization, content-type, mcp-protocol-version"),
        ];
        client.send("OPTIONS", "/mcp", &headers, "").await
    };
    let allowed = preflight(page).await;
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (204, Some(page)));
    assert!(allowed.header("access-control-allow-methods").unwrap().contains("DELETE"));
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("mcp-protocol-version"));
    let foreign = preflight("https://evil.example.com").await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (403, None));
    let local = preflight("http://localhost:3000").await;
    assert_eq!((local.status, local.header("access-control-allow-origin")), (401, None), "not named, not told");

    let message = ping();
    let own = modern_headers(&message);
    let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Origin", page));
    let refused = client.send("POST", "/mcp", &headers, &message.to_string()).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some(page)), "it may read why");
    headers.push(("X-Api-Key", &secret));
    let answered = client.send("POST", "/mcp", &headers, &message.to_string()).await;
    assert_eq!((answered.status, answered.header("access-control-allow-origin")), (200, Some(page)));
    assert!(answered.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    assert_eq!(answered.header("vary"), Some("origin"));
    assert_eq!(answered.header("access-control-allow-credentials"), None);
}
