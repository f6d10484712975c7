//! The door: who comes in, and what they may use once they are in: T01, T03, T07, T08, T18, T20.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::route::ROUTES;
use tsugi_gateway::{Gateway, GatewayConfig, Hub, HubConfig};
use tsugi_protocol::mcp::Method;

use super::{BASE, JSON, Subject, Verdict, ensure, initialize, legacy_call, scaled, tool_call};
use crate::world::*;

const HOSTS: [&str; 6] =
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "evil@localhost", ""];
const ORIGINS: [&str; 6] = [
    "http://evil.example",
    "null",
    "http://localhost.evil.example",
    "file://",
    "http://localhost@evil.example",
    "https://127.0.0.1:1@x",
];

/// T01: nothing answers a foreign name or web page, whatever the content type.
pub(crate) async fn refuses_foreign_pages(subject: &Subject) -> Verdict {
    subject.works().await?;
    let before = subject.upstream.calls();
    let body = tool_call(json!(1), "echo", json!({"text": "x"})).to_string();
    let mut foreign: Vec<Vec<(&str, &str)>> = HOSTS.iter().map(|host| vec![("Host", *host)]).collect();
    foreign.extend(ORIGINS.iter().map(|origin| vec![("Origin", *origin)]));
    foreign.extend(HOSTS.iter().map(|host| vec![("Host", *host), ("Origin", "http://localhost")]));
    foreign.push(vec![("Origin", "http://localhost"), ("Origin", "http://evil.example")]);
    foreign.push(vec![("Host", "localhost"), ("Host", "evil.example")]);
    for entry in ROUTES {
        let path = entry.pattern.replace("{}", "x");
        for headers in &foreign {
            for kind in ["application/json", "text/plain"] {
                let mut all = vec![("Content-Type", kind)];
                all.extend_from_slice(headers);
                let got = subject.client.send(entry.verb.as_str(), &path, &all, &body).await;
                // An empty or doubled Host may be refused before any route is known.
                ensure([400, 403].contains(&got.status), || {
                    format!("{} {path} {headers:?}: {}", entry.verb, got.status)
                })?;
            }
        }
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", ""] {
        let got = subject.client.send("POST", "/mcp", &[("Content-Type", kind)], &body).await;
        ensure(got.status == 415, || format!("{kind}: {got:?}"))?;
    }
    ensure(subject.upstream.calls() == before, || "something reached the server".to_owned())
}

#[tokio::test]
async fn t01_no_route_answers_a_foreign_name_page_or_form() {
    refuses_foreign_pages(&Subject::tsugi().await).await.unwrap();
}

/// T03: no header but a key opens a door that asks for one.
pub(crate) async fn refuses_forged_headers(subject: &Subject) -> Verdict {
    let forged: [(&str, &str); 14] = [
        ("Authorization", "Bearer "),
        ("Authorization", "Basic YW5uOg=="),
        ("Authorization", "Bearer ann"),
        ("X-Api-Key", "ann"),
        ("X-User", "ann"),
        ("X-Forwarded-User", "ann"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-Ip", "127.0.0.1"),
        ("X-Forwarded-Host", "localhost"),
        ("Mcp-Init-Host", "localhost"),
        ("Mcp-Session-Id", "x"),
        ("Cookie", "tsugi_session=x"),
        ("X-Tsugi-Csrf", "x"),
        ("X-Original-Url", "/healthz"),
    ];
    for entry in ROUTES.iter().filter(|entry| !entry.route.is_open()) {
        for forged in forged {
            let path = entry.pattern.replace("{}", "x");
            let got = subject.client.send(entry.verb.as_str(), &path, &[JSON, forged], "{}").await;
            // After twenty wrong keys the address is refused as one that guesses.
            ensure(matches!(got.status, 401 | 429), || format!("{entry:?} {forged:?}: {}", got.status))?;
        }
    }
    // Ways to write a path that a lax router would take for an open one.
    for path in ["//mcp/tools", "/./mcp/tools", "/healthz/../mcp/tools", "/MCP/TOOLS", "/mcp/tools/", "/%6dcp/tools"] {
        let status = subject.client.send("GET", path, &[], "").await.status;
        ensure(status == 401, || format!("{path}: {status}"))?;
    }
    ensure(subject.upstream.calls() == 0, || "a call came through".to_owned())
}

#[tokio::test]
async fn t03_no_header_replaces_a_key() {
    let subject =
        Subject::hub(GatewayConfig { keys: vec![ApiKey::generate("ann").1], ..GatewayConfig::on_free_port() }).await;
    refuses_forged_headers(&subject).await.unwrap();
}

/// Says who calls.
async fn mirror(config: GatewayConfig) -> (tsugi_gateway::GatewayHandle, Manager) {
    let manager = Manager::new(ManagerOptions::default());
    let answer = script(|call| match call.method {
        Method::Discover => complete(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "resources": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "who", "version": "1"}}})),
        Method::ToolsList => complete(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            "tools": [{"name": "who", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]})),
        Method::ResourcesList => complete(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            "resources": [{"uri": "who://am-i", "name": "who"}]})),
        Method::ResourcesRead => {
            let who = format!("[{}]", call.caller.identity().short_name());
            complete(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
                "contents": [{"uri": "who://am-i", "text": who}]}))
        }
        Method::ToolsCall => complete(text(&format!("[{}]", call.caller.identity().short_name()))),
        _ => complete(json!({"resultType": "complete"})),
    });
    manager.register(ServerConfig::new("up", ConnectTarget::InProcess(answer))).unwrap();
    let guard = Arc::new(AccessGuard::new(&config));
    let hub = Hub::new(manager.clone(), HubConfig::default(), guard);
    (Gateway::serve(config, Arc::new(hub)).await.unwrap(), manager)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t07_every_answer_is_for_the_caller_who_asked() {
    // 64 callers with 10,000 calls each in the row; here 30 each, unless TSUGI_TEST_LONG is set.
    let (secrets, keys): (Vec<String>, Vec<ApiKey>) =
        (0..64).map(|index| ApiKey::generate(format!("caller-{index}"))).unzip();
    let (handle, _manager) = mirror(GatewayConfig { keys, ..GatewayConfig::on_free_port() }).await;
    let address = handle.addresses()[0];
    let callers = secrets.into_iter().enumerate().map(|(index, secret)| {
        tokio::spawn(async move {
            let mut line = super::line::Line::open(address).await;
            let mine = format!("[caller-{index}]");
            for round in 0..scaled(30, 10_000) {
                let message = match round % 2 {
                    0 => modern(json!(1), "resources/read", json!({"uri": "who://am-i"})),
                    _ => tool_call(json!(1), "up__who", json!({})),
                };
                let own = modern_headers(&message);
                let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
                headers.push(("X-Api-Key", &secret));
                let answered = line.post("/mcp", &headers, &message.to_string()).await.expect("an answer");
                assert!(answered.body.contains(&mine), "{mine} got {}", answered.body);
            }
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
}

/// T08: the tool `secret`, which this key may not use, is in no list and under no name.
pub(crate) async fn hides_what_is_denied(subject: &Subject, secret: &str) -> Verdict {
    let ann = ("X-Api-Key", secret);
    let ask = async |path: &str, body: Value| subject.client.send("POST", path, &[JSON, ann], &body.to_string()).await;
    let allowed = ask("/rpc", legacy_call(json!(1), "up__echo", json!({"text": "allowed"}))).await;
    ensure(allowed.body.contains("allowed"), || format!("{allowed:?}"))?;
    let before = subject.upstream.calls();
    for name in HIDDEN {
        let call = legacy_call(json!(1), name, json!({}));
        for path in ["/rpc", "/servers/up/mcp"] {
            let got = ask(path, call.clone()).await;
            ensure(got.status >= 400 || got.json().get("error").is_some(), || format!("{path} {name}: {got:?}"))?;
        }
        let got = ask("/mcp/call", json!({"toolName": name, "input": {}})).await;
        ensure(got.status >= 400, || format!("{name}: {got:?}"))?;
        let got = ask("/mcp/call", json!({"server": "up", "toolName": name, "input": {}})).await;
        ensure(got.status >= 400, || format!("{name}: {got:?}"))?;
        let got = ask("/mcp/batch", json!({"calls": [{"server": "up", "toolName": name, "input": {}}]})).await;
        ensure(got.json()["results"][0]["success"] == false, || format!("{name}: {got:?}"))?;
    }
    for path in ["/tools/up/secret", "/tools/up/%73ecret", "/tools/up/Secret", "/tools/UP/secret"] {
        for path in [path.to_owned(), format!("{path}/answer")] {
            let got = subject.client.send("POST", &path, &[JSON, ann], r#"{"requestState":"x"}"#).await;
            ensure(got.status >= 400, || format!("{path}: {got:?}"))?;
        }
    }
    let list = ask("/rpc", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    ensure(list.body.contains("up__echo") && !list.body.contains("secret"), || format!("{list:?}"))?;
    ensure(subject.upstream.calls() == before, || "a call came through".to_owned())
}

/// Ways to write the name of the tool `secret`.
const HIDDEN: [&str; 11] = [
    "up__secret",
    "secret",
    "UP__SECRET",
    "up__Secret",
    "up/secret",
    "up__secret ",
    " up__secret",
    "up__secret\0",
    "up____secret",
    "up.secret",
    "tsugi://up/secret",
];

#[tokio::test]
async fn t08_what_is_hidden_cannot_be_called_under_any_name_on_any_face() {
    let (secret, key) = ApiKey::generate("ann");
    let permit = AccessPermit::new(&["up/*"], &["up/secret"]).unwrap();
    let config = GatewayConfig { keys: vec![key.with_permit(permit)], ..GatewayConfig::on_free_port() };
    let subject = Subject::hub(config).await;
    hides_what_is_denied(&subject, &secret).await.unwrap();
    let before = subject.upstream.calls();
    let ann = ("X-Api-Key", secret.as_str());
    let one = subject
        .client
        .send("POST", "/servers/up/mcp", &[BASE[0], BASE[1], ann], &initialize("2025-03-26").to_string())
        .await;
    let session = one.header("mcp-session-id").unwrap().to_owned();
    let headers = [BASE[0], BASE[1], ann, ("Mcp-Session-Id", session.as_str())];
    let batch =
        json!([legacy_call(json!(1), "echo", json!({"text": "fine"})), legacy_call(json!(2), "secret", json!({}))]);
    let got = subject.client.send("POST", "/servers/up/mcp", &headers, &batch.to_string()).await;
    assert!(got.body.contains("fine") && got.body.contains("may not use"), "{got:?}");
    assert_eq!(subject.upstream.calls(), before + 1, "only the allowed member of the batch was run");
}

/// T18: the state of a call that waits for input is given back changed, made up, or for another call.
pub(crate) async fn refuses_changed_states(subject: &Subject, server: &str) -> Verdict {
    let tool = format!("{server}ask");
    let ask = async |arguments: Value, state: Option<&str>| {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let Some(state) = state {
            params["inputResponses"] = json!({"who": {"roots": []}});
            params["requestState"] = state.into();
        }
        subject.client.modern("/mcp", &modern(json!(1), "tools/call", params)).await.json()
    };
    let asked = ask(json!({}), None).await;
    let state = asked["result"]["requestState"].as_str().ok_or_else(|| format!("no question: {asked}"))?.to_owned();
    for at in [0, state.len() / 2, state.len() - 1] {
        let mut changed = state.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let got = ask(json!({}), std::str::from_utf8(&changed).ok()).await;
        ensure(got.get("error").is_some(), || format!("a changed state is taken: {got}"))?;
    }
    let got = ask(json!({"other": 1}), Some(&state)).await;
    ensure(got.get("error").is_some(), || format!("a state is taken for another call: {got}"))?;
    let got = ask(json!({}), Some(&state)).await;
    ensure(got.to_string().contains("roots"), || format!("the true answer is refused: {got}"))
}

#[tokio::test]
async fn t18_a_modern_servers_state_cannot_be_changed_or_moved() {
    refuses_changed_states(&Subject::hub(GatewayConfig::on_free_port()).await, "up__").await.unwrap();
}

#[tokio::test]
async fn t20_a_user_cannot_add_or_order_servers() {
    let (user, key_of_user) = ApiKey::generate("user");
    let (admin, key_of_admin) = ApiKey::generate("admin");
    let keys = vec![key_of_user, key_of_admin.with_role(KeyRole::Admin)];
    let subject = Subject::hub(GatewayConfig { keys, ..GatewayConfig::on_free_port() }).await;
    let (user, admin) = (("X-Api-Key", user.as_str()), ("X-Api-Key", admin.as_str()));
    let spawn = json!({"name": "evil", "command": "sh", "args": ["-c", "true"]}).to_string();
    for (verb, path) in [
        ("POST", "/servers"),
        ("DELETE", "/servers/up"),
        ("POST", "/servers/up/stop"),
        ("POST", "/servers/up/start"),
        ("POST", "/servers/up/restart"),
        ("GET", "/servers"),
        ("GET", "/servers/up/logs"),
        ("GET", "/metrics"),
    ] {
        let got = subject.client.send(verb, path, &[JSON, user], &spawn).await;
        assert_eq!(got.status, 403, "{verb} {path}");
    }
    assert_eq!(subject.client.send("GET", "/servers", &[admin], "").await.status, 200);
    // A web page cannot make an admin's browser send it either.
    let page = ("Origin", "http://localhost:1");
    assert_eq!(subject.client.send("POST", "/servers", &[JSON, admin, page], &spawn).await.status, 403);
}
