//! Scopes per server and tool: refusals that say what to ask for, on every face and in both eras.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::{ISSUER, OauthGateway, PUBLIC, Setup, claims, with};
use crate::faults::{BASE, initialize, legacy_call, open_session, tool_call};
use crate::world::*;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Where `write` of `up` needs two scopes, and everything of `other` one.
fn scoped() -> Setup {
    Setup {
        base: "mcp",
        rules: vec![("up/write*", "files.write audit"), ("up/write", "files.top"), ("other", "other.use")],
        implies: vec![("files.all", "files.write files.top audit")],
        ..Setup::default()
    }
}

fn token(world: &OauthGateway, scope: &str) -> String {
    let mut claims = with("scope", json!(scope));
    claims["aud"] = json!(PUBLIC);
    format!("Bearer {}", world.key.token(&claims))
}

/// A modern call of a public tool name at an address.
async fn call(world: &OauthGateway, path: &str, tool: &str, bearer: &str) -> Got {
    let message = tool_call(json!(1), tool, json!({}));
    let own = modern_headers(&message);
    let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Authorization", bearer));
    world.client.send("POST", path, &headers, &message.to_string()).await
}

fn expect_challenge(got: &Got, scope: &str, path: &str) {
    assert_eq!(got.status, 403, "{got:?}");
    let challenge = got.header("www-authenticate").unwrap_or_else(|| panic!("no challenge: {got:?}"));
    assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
    assert!(challenge.contains(&format!(" scope=\"{scope}\"")), "{challenge}");
    assert!(challenge.contains(&format!("resource_metadata=\"{PUBLIC}{WELL_KNOWN}{path}\"")), "{challenge}");
}

fn expect_data(data: &Value, scope: &str, path: &str) {
    assert_eq!(data["error"], "insufficient_scope", "{data}");
    assert_eq!(data["scope"], scope, "{data}");
    assert_eq!(data["resource_metadata"], format!("{PUBLIC}{WELL_KNOWN}{path}"), "{data}");
}

const NEEDED: &str = "audit files.top files.write mcp";

#[tokio::test]
async fn n15_a_call_needs_its_scopes_all_at_once_and_an_implied_scope_counts() {
    let world = OauthGateway::new(scoped()).await;
    for (scope, tool, missing) in [
        ("mcp", "up__echo", None),
        ("mcp", "up__write", Some(NEEDED)),
        ("mcp files.write", "up__write", Some(NEEDED)),
        ("mcp files.write audit files.top", "up__write", None),
        ("mcp files.all", "up__write", None),
        ("mcp files.all", "other__echo", Some("mcp other.use")),
        ("mcp other.use", "other__echo", None),
    ] {
        let got = call(&world, "/mcp", tool, &token(&world, scope)).await;
        match missing {
            None => assert_eq!((got.status, world.reached()), (200, 1), "{scope} {tool}: {got:?}"),
            Some(needed) => {
                expect_challenge(&got, needed, "/mcp");
                expect_data(&got.json()["error"]["data"]["details"], needed, "/mcp");
                assert_eq!(got.json()["error"]["data"]["kind"], "PERMISSION_DENIED", "{got:?}");
                assert_eq!(world.reached(), 0, "{scope} {tool}");
            }
        }
    }
    // The careless gateway: without the rules the same token reaches the tool.
    let careless = OauthGateway::new(Setup { rules: Vec::new(), ..scoped() }).await;
    assert_eq!(call(&careless, "/mcp", "up__write", &token(&careless, "mcp")).await.status, 200);
    assert_eq!(careless.reached(), 1);
}

#[tokio::test]
async fn n15_every_face_says_in_its_form_which_scopes_are_missing() {
    let world = OauthGateway::new(scoped()).await;
    let bearer = token(&world, "mcp");
    let json_headers = [BASE[0], ("Authorization", bearer.as_str())];
    // A server's own address has its own metadata.
    let got = call(&world, "/servers/up/mcp", "write", &bearer).await;
    expect_challenge(&got, NEEDED, "/servers/up/mcp");
    // REST: tokens are for the gateway as a whole.
    for (path, body) in [("/tools/up/write", json!({})), ("/mcp/call", json!({"server": "up", "toolName": "write"}))] {
        let got = world.client.send("POST", path, &json_headers, &body.to_string()).await;
        expect_challenge(&got, NEEDED, "");
        assert_eq!(got.json()["error"]["code"], "PERMISSION_DENIED", "{got:?}");
        expect_data(&got.json()["error"]["details"]["details"], NEEDED, "");
    }
    // In a batch only the member can say it.
    let calls = json!({"calls": [{"toolName": "up__write"}, {"toolName": "up__echo"}]});
    let got = world.client.send("POST", "/mcp/batch", &json_headers, &calls.to_string()).await;
    assert_eq!(got.status, 200, "{got:?}");
    expect_data(&got.json()["results"][0]["error"]["details"]["details"], NEEDED, "");
    assert_eq!((got.json()["results"][1]["success"].clone(), world.reached()), (json!(true), 1));
    // Bare JSON-RPC.
    for message in [tool_call(json!(1), "up__write", json!({})), legacy_call(json!(1), "up__write", json!({}))] {
        let got = world.client.send("POST", "/rpc", &json_headers, &message.to_string()).await;
        expect_challenge(&got, NEEDED, "/rpc");
        expect_data(&got.json()["error"]["data"]["details"], NEEDED, "/rpc");
    }
    assert_eq!(world.reached(), 0);
}

#[tokio::test]
async fn n15_a_challenge_to_a_legacy_client_has_the_scopes_of_its_token_too() {
    let world = OauthGateway::new(scoped()).await;
    let bearer = token(&world, "mcp extra");
    let all = "audit extra files.top files.write mcp";
    for (version, accept) in [
        ("2025-11-25", "application/json, text/event-stream"),
        // A stream is preferred, and a refusal is still a status.
        ("2025-11-25", "text/event-stream, application/json"),
        ("2025-06-18", "application/json, text/event-stream"),
        ("2025-03-26", "text/event-stream, application/json"),
    ] {
        let session = open_session(&world.client, version, &[("Authorization", &bearer)]).await;
        let headers =
            [BASE[0], ("Accept", accept), ("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
        let ask = async |tool: &str| {
            let body = legacy_call(json!(1), tool, json!({})).to_string();
            world.client.send("POST", "/mcp", &headers, &body).await
        };
        let got = ask("up__write").await;
        expect_challenge(&got, all, "/mcp");
        expect_data(&got.json()["error"]["data"]["details"], all, "/mcp");
        assert_eq!(world.reached(), 0);
        assert_eq!((ask("up__echo").await.status, world.reached()), (200, 1), "{version} {accept}");
    }
    // The base scopes are asked for in the same way, before there is a session.
    let bearer = token(&world, "extra");
    let headers = [&BASE[..], &[("Authorization", bearer.as_str())]].concat();
    let got = world.client.send("POST", "/mcp", &headers, &initialize("2025-11-25").to_string()).await;
    expect_challenge(&got, "extra mcp", "/mcp");
    expect_challenge(&call(&world, "/mcp", "up__echo", &bearer).await, "mcp", "/mcp");
}

#[tokio::test]
async fn n15_on_an_open_stream_the_body_says_it() {
    let world = OauthGateway::new(scoped()).await;
    let bearer = token(&world, "mcp");
    let mut request = format!("ws://{}/ws", world.client.0).into_client_request().unwrap();
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    socket.send(Message::text(tool_call(json!(7), "up__write", json!({})).to_string())).await.unwrap();
    let answer = loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            break serde_json::from_str::<Value>(&text).unwrap();
        }
    };
    expect_data(&answer["error"]["data"]["details"], NEEDED, "/ws");
    assert_eq!(world.reached(), 0);
}

/// Opens the two-endpoint stream with a token; the stream, and where to post.
async fn open_sse(world: &OauthGateway, bearer: &str) -> (Exchange, String) {
    let headers = [("Accept", "text/event-stream"), ("Authorization", bearer)];
    let mut stream = Exchange::send(world.client.0, &world.client.request("GET", "/sse", &headers, "")).await;
    stream.read_until("event: endpoint\ndata: ").await;
    let address = stream.read_until("\n\n").await.trim().to_owned();
    (stream, address)
}

#[tokio::test]
async fn n09_a_narrow_token_does_not_gain_from_the_session_that_a_broad_one_opened() {
    let world = OauthGateway::new(scoped()).await;
    let (broad, narrow) = (token(&world, "mcp files.all"), token(&world, "mcp"));
    // A session over HTTP.
    let session = open_session(&world.client, "2025-11-25", &[("Authorization", &broad)]).await;
    let body = legacy_call(json!(1), "up__write", json!({})).to_string();
    let ask = async |bearer: &str| {
        let headers = [BASE[0], BASE[1], ("Authorization", bearer), ("Mcp-Session-Id", session.as_str())];
        world.client.send("POST", "/mcp", &headers, &body).await.status
    };
    assert_eq!((ask(&narrow).await, world.reached()), (403, 0));
    assert_eq!((ask(&broad).await, world.reached()), (200, 1));
    // Posts beside a stream.
    let (mut stream, address) = open_sse(&world, &broad).await;
    let post = async |bearer: &str, message: &Value| {
        let headers = [BASE[0], ("Authorization", bearer)];
        assert_eq!(world.client.send("POST", &address, &headers, &message.to_string()).await.status, 202);
    };
    for message in [initialize("2024-11-05"), legacy_call(json!(2), "up__write", json!({}))] {
        post(&narrow, &message).await;
    }
    stream.read_until("\"id\":\"i\"").await;
    let refused = stream.read_until("\n\n").await + &stream.read_until("\n\n").await;
    assert!(refused.contains("insufficient_scope") && refused.contains("/sse"), "{refused}");
    assert_eq!(world.reached(), 0);
    post(&narrow, &tool_call(json!(3), "up__write", json!({}))).await;
    assert!(stream.read_until("\n\n").await.contains("insufficient_scope"));
    assert_eq!(world.reached(), 0);
    post(&broad, &legacy_call(json!(4), "up__write", json!({}))).await;
    assert!(stream.read_until("\n\n").await.contains("\"done\""));
    assert_eq!(world.reached(), 1);
}

#[tokio::test]
async fn n09_a_narrow_token_does_not_read_the_stream_that_answers_a_broad_one() {
    let world = OauthGateway::new(scoped()).await;
    let (broad, narrow) = (token(&world, "mcp files.all"), token(&world, "mcp"));
    let session = open_session(&world.client, "2025-11-25", &[("Authorization", &broad)]).await;
    let stream_first = ("Accept", "text/event-stream, application/json");
    let headers = [BASE[0], stream_first, ("Authorization", broad.as_str()), ("Mcp-Session-Id", session.as_str())];
    let body = legacy_call(json!(1), "up__write", json!({"later": true})).to_string();
    let answered = world.client.send("POST", "/mcp", &headers, &body).await;
    assert!(answered.body.contains("\"done\""), "{answered:?}");
    let place = answered.body.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    let place = format!("{}-0", place.split_once('-').unwrap().0);
    let resume = async |bearer: &str| {
        let headers = [
            ("Accept", "text/event-stream"),
            ("Authorization", bearer),
            ("Mcp-Session-Id", session.as_str()),
            ("Last-Event-ID", place.as_str()),
        ];
        world.client.send("GET", "/mcp", &headers, "").await
    };
    let refused = resume(&narrow).await;
    expect_challenge(&refused, "files.all mcp", "/mcp");
    assert!(!refused.body.contains("done"), "{refused:?}");
    assert!(resume(&broad).await.body.contains("\"done\""), "its own token reads it again");
    // A token that was refreshed has the same scopes and is not the same token.
    assert!(resume(&token(&world, "files.all mcp")).await.body.contains("\"done\""));
    assert!(resume(&token(&world, "mcp files.all more")).await.body.contains("\"done\""));
}

#[tokio::test]
async fn methods_that_mcp_does_not_define_need_the_scopes_of_their_rules() {
    let rules = vec![("up/method:vendor/*", "vendor.use"), ("other", "other.use")];
    let world = OauthGateway::new(Setup { base: "mcp", rules, ..Setup::default() }).await;
    let ask = async |path: &str, method: &str, scope: &str| {
        let message = modern(json!(1), method, json!({}));
        let (own, bearer) = (modern_headers(&message), token(&world, scope));
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("Authorization", &bearer));
        world.client.send("POST", path, &headers, &message.to_string()).await
    };
    for (path, method, scope) in [
        ("/servers/up/mcp", "vendor/wipe", "mcp vendor.use"),
        ("/servers/other/mcp", "vendor/wipe", "mcp other.use"),
        ("/servers/other/mcp", "another/thing", "mcp other.use"),
    ] {
        let refused = ask(path, method, "mcp").await;
        assert_eq!((refused.status, world.reached()), (403, 0), "{path} {method}: {refused:?}");
        assert_eq!((ask(path, method, scope).await.status, world.reached()), (200, 1), "{path} {method}");
    }
}

#[tokio::test]
async fn a_tool_whose_scope_is_missing_is_listed_and_another_spelling_of_it_is_not_run() {
    let world = OauthGateway::new(scoped()).await;
    let bearer = token(&world, "mcp");
    let listed = world.get("/mcp/tools", &[("Authorization", &bearer)]).await;
    let names: Vec<String> =
        listed.json()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()).collect();
    assert!(names.iter().any(|name| name.contains("write")), "{names:?}");
    for tool in ["Write", "write ", "WRITE", "nowhere"] {
        let got = call(&world, "/servers/up/mcp", tool, &bearer).await;
        assert!(got.status != 200 || got.json()["error"].is_object(), "{tool}: {got:?}");
        assert_eq!(got.header("www-authenticate"), None, "more scope would not help: {got:?}");
    }
    assert_eq!(world.reached(), 0);
}

#[tokio::test]
async fn keys_need_no_scopes() {
    let (secret, key) = tsugi_gateway::guard::api_key::ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], ..scoped() }).await;
    assert_eq!(call(&world, "/mcp", "up__write", &format!("Bearer {secret}")).await.status, 200);
    assert_eq!(world.reached(), 1);
}

#[tokio::test]
async fn the_document_of_the_rest_face_says_which_credentials_and_scopes_are_needed() {
    let (secret, key) = tsugi_gateway::guard::api_key::ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], ..scoped() }).await;
    let document = world.get("/openapi.json", &[("X-Api-Key", &secret)]).await.json();
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(schemes["token"]["type"], "http");
    assert_eq!(schemes["token"]["scheme"], "bearer");
    assert!(schemes["token"]["description"].as_str().unwrap().contains(ISSUER), "{schemes}");
    assert_eq!(schemes["token"]["x-protected-resource-metadata"], format!("{PUBLIC}{WELL_KNOWN}"));
    assert_eq!(schemes["keyHeader"]["name"], "X-Api-Key");
    let any = |scopes: Value| json!([{"token": scopes}, {"key": []}, {"keyHeader": []}]);
    assert_eq!(document["security"], any(json!(["mcp"])));
    let write = &document["paths"]["/tools/up/write"]["post"]["security"];
    assert_eq!(*write, any(json!(["audit", "files.top", "files.write", "mcp"])));
    assert_eq!(document["paths"]["/tools/up/echo"]["post"]["security"], Value::Null);
    // A gateway that takes no credentials says nothing about them.
    let open = serve(script(|_| complete(json!({"resultType": "complete"})))).await;
    let document = Client::of(&open).send("GET", "/openapi.json", &[], "").await;
    assert!(document.status == 404 || document.json()["components"]["securitySchemes"].is_null());
}

#[tokio::test]
async fn a_tenant_comes_from_its_claim_and_from_nothing_else() {
    let world = OauthGateway::new(Setup { tenants: vec![("up", "acme")], ..Setup::default() }).await;
    let of = |org: Value| format!("Bearer {}", world.key.token(&with("org", org)));
    assert_eq!(call(&world, "/mcp", "up__echo", &of(json!("acme"))).await.status, 200);
    assert_eq!(world.reached(), 1);
    for org in [json!("other"), json!(["acme"]), json!(""), Value::Null] {
        let bearer = of(org.clone());
        let message = tool_call(json!(1), "up__echo", json!({"tenant": "acme", "org": "acme"}));
        let own = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend([("Authorization", bearer.as_str()), ("X-Tenant", "acme"), ("X-Org", "acme")]);
        let got = world.client.send("POST", "/mcp?tenant=acme", &headers, &message.to_string()).await;
        assert_eq!((got.status, world.reached()), (403, 0), "{org}: {got:?}");
    }
}

#[tokio::test]
async fn a_quota_comes_from_the_first_rule_that_fits_the_claim() {
    use tsugi_gateway::guard::quota::CallQuota;
    let world = OauthGateway::new(Setup { quota: Some(CallQuota::per_minute(1)), ..Setup::default() }).await;
    let of = |sub: &str, plan: Value, jti: u32| {
        let mut claims = with("sub", json!(sub));
        claims["plan"] = plan;
        claims["jti"] = json!(jti);
        world.key.token(&claims)
    };
    let calls = async |sub: &str, plan: Value| {
        let mut passed = 0;
        for jti in 0..5 {
            passed += usize::from(world.call(&of(sub, plan.clone(), jti)).await.status == 200);
        }
        passed
    };
    assert_eq!(calls("alice", json!("gold")).await, 3);
    assert_eq!(calls("bob", json!(["x", "gold"])).await, 3);
    assert_eq!(calls("eve", json!("golden")).await, 1);
    assert_eq!(calls("dan", Value::Null).await, 1);
    // The quota is the issuer's word: what a caller says about itself is not looked at.
    assert_eq!(claims()["plan"], Value::Null);
}
