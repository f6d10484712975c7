//! The dashboard seen from outside: who may see what, what is remembered, and what a page hears.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Fault, FaultCode, Reply};
use tsugi_protocol::mcp::Method;

use crate::world::*;

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A server with a tool that works, one that says it failed, one that fails, and one that never ends.
fn server() -> Arc<dyn Answer> {
    let tool = |name: &str| json!({"name": name, "description": "<b>x</b>", "inputSchema": {"type": "object"}});
    script(move |call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "instructions": "be kind", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}
        })),
        Method::ToolsList => complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public",
            "tools": [tool("good"), tool("bad"), tool("broken"), tool("endless")]})),
        Method::ToolsCall => match call.subject().as_deref() {
            Some("bad") => complete(json!({"resultType": "complete", "isError": true,
                "content": [{"type": "text", "text": "the word is xyzzy"}]})),
            Some("broken") => Reply::fault(Fault::new(FaultCode::Timeout, "no answer about plugh").with_hint("wait")),
            Some("endless") => Reply::from_source(Events(Default::default(), None)),
            _ => complete(text("fine")),
        },
        _ => complete(json!({"resultType": "complete"})),
    })
}

struct World {
    handle: GatewayHandle,
    client: Client,
}

impl World {
    async fn open() -> Self {
        Self::with(GatewayConfig::on_free_port(), HubConfig::default()).await
    }

    async fn with_keys(keys: Vec<ApiKey>) -> Self {
        Self::with(GatewayConfig { keys, ..GatewayConfig::on_free_port() }, HubConfig::default()).await
    }

    async fn with(config: GatewayConfig, shown: HubConfig) -> Self {
        let manager = Manager::new(ManagerOptions::default());
        for name in ["files", "mail"] {
            manager.register(ServerConfig::new(name, ConnectTarget::InProcess(server()))).unwrap();
        }
        manager.settled(Duration::from_secs(10)).await;
        let guard = Arc::new(AccessGuard::new(&config));
        let hub = Hub::new(manager, shown, guard);
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        let client = Client::of(&handle);
        Self { handle, client }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        self.client.send("GET", path, headers, "").await
    }

    async fn json(&self, path: &str) -> Value {
        let got = self.get(path, &[]).await;
        assert_eq!(got.status, 200, "{path}: {got:?}");
        got.json()
    }

    async fn call(&self, tool: &str) {
        self.client.modern("/mcp", &modern(json!(1), "tools/call", json!({"name": tool}))).await;
    }

    /// Signs in and gives the cookie and the word against forgery.
    async fn sign_in(&self, key: &str) -> (String, String) {
        let got = self.client.send("POST", "/api/session", &[JSON], &json!({"key": key}).to_string()).await;
        assert_eq!(got.status, 200, "{got:?}");
        let cookie = got.header("set-cookie").unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        (cookie.split(';').next().unwrap().to_owned(), got.json()["csrf"].as_str().unwrap().to_owned())
    }

    async fn open_events(&self, query: &str, headers: &[(&str, &str)]) -> Exchange {
        let request = self.client.request("GET", &format!("/api/events{query}"), headers, "");
        let mut events = Exchange::send(self.client.0, &request).await;
        events.read_until("event: stats").await;
        events
    }
}

/// The data of the next event of this name.
async fn next_event(events: &mut Exchange, name: &str) -> Value {
    events.read_until(&format!("event: {name}\ndata: ")).await;
    let data = events.read_until("\n").await;
    serde_json::from_str(data.trim_end()).unwrap()
}

#[tokio::test]
async fn the_page_is_embedded_under_a_strict_policy() {
    let world = World::open().await;
    for (path, kind) in [("/", "text/html"), ("/assets/app.js", "text/javascript")] {
        let got = world.get(path, &[]).await;
        assert_eq!(got.status, 200, "{path}");
        assert!(got.header("content-type").unwrap().starts_with(kind));
        let policy = got.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(got.header("cache-control"), Some("no-cache"));
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(got.header("content-encoding"), None);
        let held = world.get(path, &[("If-None-Match", got.header("etag").unwrap())]).await;
        assert_eq!((held.status, held.body.as_str()), (304, ""));
        let refused = world.get(path, &[("Accept-Encoding", "br, gzip;q=0")]).await;
        assert_eq!(refused.header("content-encoding"), None);
    }
}

#[tokio::test]
async fn a_gateway_without_dashboard_has_nothing_there() {
    let world =
        World::with(GatewayConfig { dashboard: false, ..GatewayConfig::on_free_port() }, HubConfig::default()).await;
    for path in ["/", "/assets/app.js", "/api/session", "/api/overview", "/api/events"] {
        assert_eq!(world.get(path, &[]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_overview_shows_servers_and_what_needs_attention() {
    let world = World::open().await;
    for tool in ["files__good", "files__bad", "files__broken", "files__broken", "files__broken", "files__broken"] {
        world.call(tool).await;
    }
    let overview = world.json("/api/overview").await;
    let [files, mail] = overview["servers"].as_array().unwrap().as_slice() else { panic!("{overview}") };
    assert_eq!((files["name"].clone(), files["state"].clone()), (json!("files"), json!("connected")));
    assert_eq!((files["era"].clone(), files["transport"].clone()), (json!("modern"), json!("builtin")));
    assert_eq!((files["tools"].clone(), files["restarts"].clone()), (json!(4), json!(0)));
    assert_eq!(files["spark"].as_array().unwrap().len(), 60);
    assert!((files["errorRate"].as_f64().unwrap() - 5.0 / 6.0).abs() < 1e-9);
    assert!(files["p50"].is_number() && mail["p50"].is_null());
    assert_eq!(mail["callsPerSecond"], 0.0);
    let attention = &overview["attention"];
    assert_eq!((attention[0]["server"].clone(), attention[0]["kind"].clone()), (json!("files"), json!("errors")));
    assert_eq!(overview["listen"][0], world.handle.url());
}

#[tokio::test]
async fn a_server_is_shown_with_what_it_offers_and_its_settings() {
    let settings = [("files".to_owned(), json!({"name": "files", "env": [["KEY", "***"]]}))].into();
    let world = World::with(GatewayConfig::on_free_port(), HubConfig { settings, ..HubConfig::default() }).await;
    world.call("files__good").await;
    world.call("mail__good").await;
    let page = world.json("/api/servers/files").await;
    assert_eq!((page["tools"].as_array().unwrap().len(), page["tools"][0]["name"].clone()), (4, json!("good")));
    assert_eq!(page["tools"][0]["description"], "<b>x</b>", "text is text; the page must show it as such");
    assert_eq!((page["instructions"].clone(), page["config"]["env"][0][1].clone()), (json!("be kind"), json!("***")));
    assert_eq!((page["title"].clone(), page["capabilities"].clone()), (json!("x"), json!({"tools": {}})));
    assert_eq!(page["recentCalls"].as_array().unwrap().len(), 1);
    assert_eq!(world.get("/api/servers/nobody", &[]).await.status, 404);
}

#[tokio::test]
async fn calls_are_listed_and_filtered_and_never_with_what_they_carried() {
    let world = World::open().await;
    for tool in ["files__good", "files__bad", "mail__broken"] {
        world.call(tool).await;
    }
    let all = world.json("/api/calls").await;
    assert_eq!(all["total"], 3);
    let newest = &all["calls"][0];
    for (key, value) in [
        ("server", json!("mail")),
        ("tool", json!("broken")),
        ("method", json!("tools/call")),
        ("caller", json!("anonymous")),
        ("face", json!("mcp")),
        ("outcome", json!("failed")),
        ("error", json!({"code": "TIMEOUT", "message": "no answer about plugh"})),
    ] {
        assert_eq!(newest[key], value, "{key} of {newest}");
    }
    assert!(!all.to_string().contains("xyzzy"), "what a tool says is not kept");
    for (query, ids) in [
        ("?server=files", vec![1, 0]),
        ("?server=files&limit=1", vec![1]),
        ("?tool=BRO", vec![2]),
        ("?outcome=tool-error", vec![1]),
        ("?outcome=ok&caller=anon", vec![0]),
        ("?caller=nobody", vec![]),
        ("?minMs=60000", vec![]),
        ("?before=2", vec![1, 0]),
    ] {
        let found = world.json(&format!("/api/calls{query}")).await;
        let found: Vec<u64> =
            found["calls"].as_array().unwrap().iter().map(|call| call["id"].as_u64().unwrap()).collect();
        assert_eq!(found, ids, "{query}");
    }
    assert_eq!(world.get("/api/calls?limit=many", &[]).await.status, 400);
    let one = world.json("/api/calls/2").await;
    assert_eq!(
        (one["error"]["hint"].clone(), one["error"]["details"]["fault"].clone()),
        (json!("wait"), json!("upstream"))
    );
    assert!(one["timeline"].as_array().is_some_and(|steps| !steps.is_empty()));
    assert_eq!(world.get("/api/calls/3", &[]).await.status, 404);
}

#[tokio::test]
async fn calls_that_no_server_was_asked_about_are_listed_and_counted() {
    let world = World::open().await;
    world.client.modern("/mcp", &modern(json!(1), "tools/call", json!({"name": "nobody__has_this"}))).await;
    world.client.send("POST", "/mcp/call", &[JSON], r#"{"server":"nobody","toolName":"good"}"#).await;
    world.client.send("POST", "/mcp/call", &[JSON], r#"{"server":"files","toolName":"none"}"#).await;
    let calls = world.json("/api/calls").await["calls"].clone();
    let told: Vec<_> =
        calls.as_array().unwrap().iter().map(|call| (&call["server"], &call["tool"], &call["error"]["code"])).collect();
    assert_eq!(
        told,
        [
            (&json!("files"), &json!("none"), &json!("TOOL_NOT_FOUND")),
            (&json!(""), &json!("good"), &json!("SERVER_NOT_FOUND")),
            (&json!(""), &json!("nobody__has_this"), &json!("TOOL_NOT_FOUND")),
        ]
    );
    let numbers = world.get("/metrics", &[]).await.body;
    assert!(numbers.contains("tsugi_calls_refused_total{code=\"TOOL_NOT_FOUND\"} 2"), "{numbers}");
    assert!(numbers.contains("tsugi_calls_refused_total{code=\"SERVER_NOT_FOUND\"} 1"), "{numbers}");
}

#[tokio::test]
async fn calls_of_every_face_and_method_are_remembered() {
    let world = World::open().await;
    world.client.send("POST", "/mcp/call", &[JSON], r#"{"server":"files","toolName":"good"}"#).await;
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "files__good"}});
    world.client.send("POST", "/rpc", &[JSON], &rpc.to_string()).await;
    world.client.modern("/servers/mail/mcp", &modern(json!(1), "tools/call", json!({"name": "good"}))).await;
    let long = format!("x://{}", "y".repeat(500));
    world.client.modern("/servers/mail/mcp", &modern(json!(1), "resources/read", json!({"uri": long}))).await;
    world.client.modern("/servers/mail/mcp", &modern(json!(1), "tools/list", json!({}))).await;
    let calls = world.json("/api/calls").await;
    let told: Vec<_> = calls["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (&call["server"], &call["method"], &call["face"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("mail"), &json!("resources/read"), &json!("mcp")),
            (&json!("mail"), &json!("tools/call"), &json!("mcp")),
            (&json!("files"), &json!("tools/call"), &json!("rpc")),
            (&json!("files"), &json!("tools/call"), &json!("rest")),
        ]
    );
    assert!(calls["calls"][0]["tool"].as_str().unwrap().chars().count() <= 201, "an address is kept short");
}

#[tokio::test]
async fn while_a_page_is_open_calls_say_what_they_do_when() {
    let world = World::open().await;
    world.call("files__good").await;
    let _events = world.open_events("", &[]).await;
    world.call("files__good").await;
    let before = world.json("/api/calls/0").await["timeline"].clone();
    assert_eq!(before[0]["stage"], "call");
    assert!(before[0]["note"].as_str().unwrap().contains("while a dashboard is open"));
    let watched = world.json("/api/calls/1").await;
    let steps = watched["timeline"].as_array().unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last["stage"], "upstream", "{steps:?}");
    let end = last["startMs"].as_f64().unwrap() + last["durationMs"].as_f64().unwrap();
    assert!(end <= watched["durationMs"].as_f64().unwrap() + 0.001, "{watched}");
}

#[tokio::test]
async fn a_call_whose_caller_left_is_cancelled() {
    let world = World::open().await;
    let message = modern(json!(1), "tools/call", json!({"name": "files__endless"}));
    let running = world.client.open_modern("/mcp", &message).await;
    world.call("files__good").await;
    drop(running);
    loop {
        let found = world.json("/api/calls?tool=endless").await;
        if found["total"] == 1 {
            assert_eq!(found["calls"][0]["outcome"], "cancelled");
            return;
        }
    }
}

#[tokio::test]
async fn charts_are_of_the_last_hour() {
    let world = World::open().await;
    world.call("files__good").await;
    let sum = |chart: &Value| {
        chart["points"].as_array().unwrap().iter().map(|point| point["calls"].as_u64().unwrap()).sum::<u64>()
    };
    let (all, files, mail) = (
        world.json("/api/charts").await,
        world.json("/api/charts?server=files").await,
        world.json("/api/charts?server=mail").await,
    );
    assert_eq!((all["stepMs"].clone(), sum(&all), sum(&files), sum(&mail)), (json!(10_000), 1, 1, 0));
}

#[tokio::test]
async fn without_keys_everybody_is_the_administrator() {
    let session = World::open().await.json("/api/session").await;
    assert_eq!(session["authRequired"], false);
    assert_eq!((session["signedIn"].clone(), session["role"].clone()), (json!(true), json!("admin")));
    assert_eq!((session["pm"].clone(), session["allowAdd"].clone()), (json!(false), json!(true)));
}

#[tokio::test]
async fn a_key_signs_in_and_its_cookie_opens_every_route_until_it_signs_out() {
    let (secret, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key.with_role(KeyRole::Admin)]).await;
    let before = world.get("/api/session", &[]).await.json();
    assert_eq!((before["authRequired"].clone(), before["signedIn"].clone()), (json!(true), json!(false)));
    assert_eq!(
        (before["role"].clone(), before["name"].clone(), before["pm"].clone()),
        (json!(null), json!(null), json!(false))
    );
    assert_eq!(world.get("/", &[]).await.status, 200, "the page must load before anybody can sign in");
    assert_eq!(world.get("/api/overview", &[]).await.status, 401);
    let wrong = world.client.send("POST", "/api/session", &[JSON], r#"{"key":"tsugi_wrong"}"#).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    assert_eq!(world.client.send("POST", "/api/session", &[], r#"{"key":"x"}"#).await.status, 415);

    let (cookie, csrf) = world.sign_in(&secret).await;
    let with_cookie = ("Cookie", cookie.as_str());
    let session = world.get("/api/session", &[with_cookie]).await.json();
    assert_eq!((session["role"].clone(), session["name"].clone()), (json!("admin"), json!("ann")));
    assert_eq!(session["csrf"], csrf.as_str());
    for path in ["/api/overview", "/api/calls", "/servers", "/mcp/tools", "/healthz"] {
        assert_eq!(world.get(path, &[with_cookie]).await.status, 200, "{path}");
    }
    let out = world.client.send("DELETE", "/api/session", &[with_cookie, ("X-Tsugi-Csrf", &csrf)], "").await;
    assert_eq!((out.status, out.json()["signedIn"].clone()), (200, json!(false)));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(world.get("/api/overview", &[with_cookie]).await.status, 401);
}

#[tokio::test]
async fn a_cookie_alone_changes_nothing_and_no_other_page_may_use_it() {
    let (secret, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key.with_role(KeyRole::Admin)]).await;
    let (cookie, csrf) = world.sign_in(&secret).await;
    let with_cookie = ("Cookie", cookie.as_str());
    let call = modern(json!(1), "tools/call", json!({"name": "files__good"}));
    let mut headers = modern_headers(&call);
    headers.push(("Cookie", cookie.clone()));
    let post = async |extra: &[(&'static str, String)]| {
        let all: Vec<_> = headers.iter().chain(extra).map(|(name, value)| (*name, value.as_str())).collect();
        world.client.send("POST", "/mcp", &all, &call.to_string()).await.status
    };
    let word = || ("X-Tsugi-Csrf", csrf.clone());
    assert_eq!(post(&[]).await, 403);
    assert_eq!(post(&[("X-Tsugi-Csrf", "wrong".into())]).await, 403);
    assert_eq!(post(&[word(), word()]).await, 403);
    assert_eq!(post(&[word(), ("Origin", "http://localhost:3000".into())]).await, 403, "another port, another page");
    assert_eq!(post(&[word(), ("Sec-Fetch-Site", "same-site".into())]).await, 403);
    assert_eq!(world.json("/api/session").await["signedIn"], false);
    let calls = world.get("/api/calls", &[with_cookie]).await.json();
    assert_eq!(calls["total"], 0, "none of them got through");
    assert_eq!(post(&[word(), ("Origin", world.handle.url()), ("Sec-Fetch-Site", "same-origin".into())]).await, 200);
    for (verb, path) in [("POST", "/servers/files/stop"), ("DELETE", "/servers/files"), ("DELETE", "/api/session")] {
        assert_eq!(world.client.send(verb, path, &[with_cookie], "").await.status, 403, "{verb} {path}");
    }
    let socket =
        [with_cookie, ("Origin", "http://localhost:3000"), ("Upgrade", "websocket"), ("Connection", "Upgrade")];
    assert_eq!(world.get("/ws", &socket).await.status, 403, "a socket that another page opens");
    let forged = world.get("/api/overview", &[with_cookie, ("Origin", "http://localhost:3000")]).await;
    assert_eq!(forged.status, 403);
    let both = world.get("/api/overview", &[with_cookie, ("Authorization", "Bearer wrong")]).await;
    assert_eq!(both.status, 401, "a wrong key is not saved by a cookie");
}

#[tokio::test]
async fn a_key_without_admin_right_sees_what_it_may_use_and_orders_nothing() {
    let (admin_secret, admin) = ApiKey::generate("root");
    let (secret, key) = ApiKey::generate("bob");
    let key = key.with_permit(AccessPermit::new(&["files/good", "files/broken"], &[]).unwrap());
    let world = World::with_keys(vec![admin.with_role(KeyRole::Admin), key]).await;
    let root = ("Authorization", format!("Bearer {admin_secret}"));
    for tool in ["files__good", "files__bad", "files__broken", "mail__good"] {
        let call = modern(json!(1), "tools/call", json!({"name": tool}));
        let mut headers = modern_headers(&call);
        headers.push(root.clone());
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        world.client.send("POST", "/mcp", &headers, &call.to_string()).await;
    }
    let (cookie, csrf) = world.sign_in(&secret).await;
    let with_cookie = ("Cookie", cookie.as_str());
    let get = async |path: &str| world.get(path, &[with_cookie]).await;
    let session = get("/api/session").await.json();
    assert_eq!((session["role"].clone(), session["allowAdd"].clone()), (json!("user"), json!(false)));
    let overview = get("/api/overview").await.json();
    let names: Vec<&str> =
        overview["servers"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["files"]);
    assert_eq!(get("/api/servers/mail").await.status, 404);
    let page = get("/api/servers/files").await.json();
    let tools: Vec<&str> =
        page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["good", "broken"]);
    assert_eq!(
        (page["config"].clone(), page["stderr"].clone(), page["processes"].clone()),
        (json!(null), json!([]), json!([]))
    );
    let calls = get("/api/calls").await.json();
    assert_eq!(calls["total"], 2);
    assert_eq!(calls["calls"][0]["error"]["code"], "TIMEOUT");
    assert!(!calls.to_string().contains("plugh"), "the words of another caller's error may repeat what it sent");
    assert_eq!(get("/api/calls/1").await.status, 404);
    assert_eq!(get("/api/charts").await.json()["points"], json!([]), "all together would tell of the others");
    for (verb, path) in [("POST", "/servers/files/stop"), ("DELETE", "/servers/files"), ("POST", "/servers")] {
        let headers = [with_cookie, JSON, ("X-Tsugi-Csrf", csrf.as_str())];
        assert_eq!(world.client.send(verb, path, &headers, "{}").await.status, 403, "{verb} {path}");
    }
}

#[tokio::test]
async fn a_key_for_looking_looks_and_does_nothing_else() {
    let (secret, key) = ApiKey::generate("eve");
    let world = World::with_keys(vec![key.with_role(KeyRole::Reader)]).await;
    let bearer = format!("Bearer {secret}");
    let headers = [("Authorization", bearer.as_str())];
    for path in ["/", "/api/overview", "/api/calls", "/api/charts", "/healthz"] {
        assert_eq!(world.get(path, &headers).await.status, 200, "{path}");
    }
    for path in ["/mcp/tools", "/servers", "/metrics", "/openapi.json", "/ws", "/sse"] {
        assert_eq!(world.get(path, &headers).await.status, 403, "{path}");
    }
    for path in ["/mcp", "/servers/files/mcp", "/mcp/call", "/rpc", "/tools/files/good"] {
        let got = world.client.send("POST", path, &[headers[0], JSON], "{}").await;
        assert_eq!(got.status, 403, "{path}");
    }
}

#[tokio::test]
async fn a_page_hears_of_servers_and_calls_in_order() {
    let world = World::open().await;
    world.call("files__good").await;
    let mut events = world.open_events("", &[]).await;
    for tool in ["files__good", "files__bad", "mail__broken"] {
        world.call(tool).await;
    }
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let event = next_event(&mut events, "calls").await;
        assert_eq!(event["dropped"], 0);
        heard.extend(event["calls"].as_array().unwrap().iter().map(|call| call["id"].as_u64().unwrap()));
    }
    assert_eq!(heard, [1, 2, 3], "what was before the page opened is not told again");
    let servers = next_event(&mut events, "servers").await;
    assert_eq!(servers["servers"].as_array().unwrap().len(), 2);
    let stopped = world.client.send("POST", "/servers/mail/stop", &[], "").await;
    assert_eq!(stopped.status, 200);
    loop {
        let event = next_event(&mut events, "servers").await;
        if event["servers"][1]["state"] == "disconnected" {
            break;
        }
    }
}

#[tokio::test]
async fn a_page_that_cannot_follow_hears_how_much_it_missed() {
    let world = World::open().await;
    let mut events = world.open_events("", &[]).await;
    let calls: Vec<Value> = (0..400).map(|_| json!({"server": "files", "toolName": "good"})).collect();
    for calls in calls.chunks(50) {
        let body = json!({"calls": calls}).to_string();
        assert_eq!(world.client.send("POST", "/mcp/batch", &[JSON], &body).await.status, 200);
    }
    let (mut told, mut dropped, mut last) = (0, 0, None);
    while told + dropped < 400 {
        let event = next_event(&mut events, "calls").await;
        let ids: Vec<u64> =
            event["calls"].as_array().unwrap().iter().map(|call| call["id"].as_u64().unwrap()).collect();
        assert!(ids.len() <= 100 && ids.is_sorted() && ids.first().copied() > last, "{ids:?} after {last:?}");
        (told, dropped, last) =
            (told + ids.len() as u64, dropped + event["dropped"].as_u64().unwrap(), ids.last().copied());
    }
    assert_eq!(told + dropped, 400);
}

#[tokio::test]
async fn the_stream_of_somebody_who_signed_out_ends() {
    let (secret, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key.with_role(KeyRole::Admin)]).await;
    let (cookie, csrf) = world.sign_in(&secret).await;
    let with_cookie = ("Cookie", cookie.as_str());
    let mut events = world.open_events("", &[with_cookie]).await;
    world.client.send("DELETE", "/api/session", &[with_cookie, ("X-Tsugi-Csrf", &csrf)], "").await;
    assert_eq!(next_event(&mut events, "bye").await["reason"], "signed out");
    events.read_to_end().await;
}

#[tokio::test]
async fn the_stream_of_somebody_whose_key_was_taken_away_ends() {
    let (secret, key) = ApiKey::generate("ann");
    let config = GatewayConfig { keys: vec![key.with_role(KeyRole::Admin)], ..GatewayConfig::on_free_port() };
    let backend = Arc::new(tsugi_gateway::backend::SingleBackend::new(server()));
    let handle = Gateway::serve(config, backend).await.unwrap();
    let guard = handle.guard().clone();
    let client = Client::of(&handle);
    let world = World { handle, client };
    let bearer = format!("Bearer {secret}");
    let (cookie, _) = world.sign_in(&secret).await;
    for header in [("Authorization", bearer.as_str()), ("Cookie", cookie.as_str())] {
        let (_, again) = ApiKey::generate("other");
        let mut events = world.open_events("", &[header]).await;
        guard.replace_keys(vec![again]);
        assert_eq!(next_event(&mut events, "bye").await["reason"], "signed out", "{header:?}");
        guard.replace_keys(vec![ApiKey::of_secret("ann", &secret).with_role(KeyRole::Admin)]);
    }
}

#[tokio::test]
async fn an_open_page_shows_no_more_than_its_key_allows_by_now() {
    let (secret, key) = ApiKey::generate("ann");
    let config = GatewayConfig { keys: vec![key.clone()], ..GatewayConfig::on_free_port() };
    let manager = Manager::new(ManagerOptions::default());
    for name in ["files", "mail"] {
        let added = manager.register(ServerConfig::new(name, ConnectTarget::InProcess(server()))).unwrap();
        added.ready(Duration::from_secs(60)).await.unwrap();
    }
    let guard = Arc::new(AccessGuard::new(&config));
    let hub = Hub::new(manager.clone(), HubConfig::default(), guard.clone());
    let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
    let client = Client::of(&handle);
    let world = World { handle, client };
    let mut events = world.open_events("", &[("X-Api-Key", &secret)]).await;
    guard.replace_keys(vec![key.with_permit(AccessPermit::new(&["files"], &[]).unwrap())]);
    let names = |shown: Value| -> Vec<String> {
        shown["servers"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    // The page was opened with rights that no longer hold: it shows nothing more and has to be opened again.
    assert!(names(next_event(&mut events, "servers").await).is_empty());
    next_event(&mut events, "bye").await;
    let overview = world.client.send("GET", "/api/overview", &[("X-Api-Key", &secret)], "").await;
    assert_eq!(names(overview.json()), ["files"]);
}

#[tokio::test]
async fn a_socket_of_a_sign_in_ends_with_it() {
    let (secret, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key]).await;
    let (cookie, csrf) = world.sign_in(&secret).await;
    let with_cookie = ("Cookie", cookie.as_str());
    let get = world.client.request("GET", "/sse", &[("Accept", "text/event-stream"), with_cookie], "");
    let mut stream = Exchange::send(world.client.0, &get).await;
    stream.read_until("event: endpoint").await;
    world.client.send("DELETE", "/api/session", &[with_cookie, ("X-Tsugi-Csrf", &csrf)], "").await;
    stream.read_to_end().await;
}

#[tokio::test]
async fn another_page_of_this_machine_orders_nothing_even_without_keys() {
    let world = World::open().await;
    let order =
        async |origin: &str| world.client.send("POST", "/servers/mail/restart", &[("Origin", origin)], "").await.status;
    assert_eq!(order("http://localhost:3000").await, 403);
    assert_eq!(order(&world.handle.url()).await, 200);
    assert_eq!(world.client.send("POST", "/servers/mail/restart", &[], "").await.status, 200, "no browser at all");
}

#[tokio::test]
async fn an_open_page_does_not_hold_up_the_end() {
    let world = World::open().await;
    let mut events = world.open_events("", &[]).await;
    assert_eq!(world.handle.drain(Duration::from_secs(20)).await, 0);
    assert_eq!(next_event(&mut events, "bye").await["reason"], "the gateway is stopping");
}

#[tokio::test]
async fn there_are_only_so_many_open_pages() {
    let world = World::open().await;
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(world.open_events("", &[]).await);
    }
    assert_eq!(world.get("/api/events", &[]).await.status, 503);
    open.pop();
    loop {
        let request = world.client.request("GET", "/api/events", &[], "");
        let mut events = Exchange::send(world.client.0, &request).await;
        if events.read_until("\r\n").await.contains("200") {
            return;
        }
    }
}
