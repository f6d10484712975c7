//! Keys while the gateway runs: what they allow, what their calls may take, and what happens when they are taken away.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{SinkExt, StreamExt};
use http::request::Parts;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::authority::Authority;
use tsugi_gateway::guard::credential::{CredentialCheck, CredentialVerifier};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::guard::quota::CallQuota;
use tsugi_gateway::guard::refusal::HttpRefusal;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call, Identity, Reply};
use tsugi_protocol::mcp::Method;

use crate::faults::{BASE, JSON, initialize, legacy_call, open_session, tool_call};
use crate::world::*;

/// The tools `echo`, `secret` and `never`; the last one stays silent.
fn server(drops: Drops) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "instructions": "the words of a server",
            "capabilities": {"tools": {}, "resources": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        })),
        Method::ToolsList => complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": [
            {"name": "echo", "inputSchema": {"type": "object"}}, {"name": "secret", "inputSchema": {"type": "object"}},
            {"name": "never", "inputSchema": {"type": "object"}}
        ]})),
        Method::ResourcesList => complete(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
            "resources": [{"uri": "x://open", "name": "open"}, {"uri": "x://secret", "name": "secret"}]
        })),
        Method::ToolsCall if call.subject().as_deref() == Some("never") => {
            Reply::from_source(Events(VecDeque::new(), Some(drops.guard())))
        }
        Method::ToolsCall => complete(text("done")),
        _ => complete(json!({"resultType": "complete"})),
    })
}

struct World {
    client: Client,
    guard: Arc<AccessGuard>,
    drops: Drops,
    _manager: Manager,
    _handle: GatewayHandle,
}

impl World {
    /// The servers `up` and `other` behind a gateway with these settings.
    async fn of(config: GatewayConfig) -> Self {
        let guard = Arc::new(AccessGuard::new(&config));
        Self::guarded(config, guard).await
    }

    async fn guarded(config: GatewayConfig, guard: Arc<AccessGuard>) -> Self {
        let manager = Manager::new(ManagerOptions::default());
        let drops = Drops::default();
        for name in ["up", "other"] {
            let added = manager.register(ServerConfig::new(name, ConnectTarget::InProcess(server(drops.clone()))));
            added.unwrap().ready(std::time::Duration::from_secs(60)).await.unwrap();
        }
        let hub = Hub::new(manager.clone(), HubConfig::default(), guard.clone());
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        let client = Client(SocketAddr::new([127, 0, 0, 1].into(), handle.addresses()[0].port()));
        Self { client, guard, drops, _manager: manager, _handle: handle }
    }

    async fn with_keys(keys: Vec<ApiKey>) -> Self {
        Self::of(GatewayConfig { keys, ..GatewayConfig::on_free_port() }).await
    }

    async fn call(&self, secret: &str, tool: &str) -> Got {
        let message = tool_call(json!(1), tool, json!({}));
        let own = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", secret));
        self.client.send("POST", "/mcp", &headers, &message.to_string()).await
    }

    async fn socket(&self, secret: &str) -> Socket {
        let mut request = format!("ws://{}/ws", self.client.0).into_client_request().unwrap();
        request.headers_mut().insert("x-api-key", secret.parse().unwrap());
        Socket(tokio_tungstenite::connect_async(request).await.unwrap().0)
    }

    /// A stream that stays open, with what shows that it is.
    async fn stream(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str, shows: &str) -> Exchange {
        let mut stream = Exchange::send(self.client.0, &self.client.request(verb, path, headers, body)).await;
        stream.read_until(shows).await;
        stream
    }
}

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.send(&message).await;
        loop {
            if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Waits until the gateway has closed it.
    async fn closed(&mut self) {
        let closing = async { while let Some(Ok(_)) = self.0.next().await {} };
        tokio::time::timeout(std::time::Duration::from_secs(10), closing).await.expect("the socket is closed");
    }
}

fn restricted(name: &str) -> (String, ApiKey) {
    let (secret, key) = ApiKey::generate(name);
    (secret, key.with_permit(AccessPermit::new(&["up/*"], &["up/secret"]).unwrap()))
}

#[tokio::test]
async fn a_socket_whose_key_is_taken_away_gains_nothing_and_is_closed() {
    let (ann, key) = restricted("ann");
    let world = World::with_keys(vec![key.clone(), ApiKey::generate("bob").1]).await;
    let mut socket = world.socket(&ann).await;
    assert_eq!(socket.ask(tool_call(json!(1), "up__secret", json!({}))).await["error"]["code"], -31008);
    // What others change does not concern her.
    world.guard.replace_keys(vec![key]);
    assert_eq!(socket.ask(tool_call(json!(2), "up__echo", json!({}))).await["id"], 2);
    world.guard.replace_keys(vec![ApiKey::generate("bob").1]);
    socket.closed().await;
}

#[tokio::test]
async fn streams_of_every_kind_end_with_the_key_that_opened_them() {
    let (ann, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key]).await;
    let with_key = ("X-Api-Key", ann.as_str());
    let session = open_session(&world.client, "2025-11-25", &[with_key]).await;
    let changes = [BASE[1], with_key, ("Mcp-Session-Id", session.as_str())];
    let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let own = modern_headers(&listen);
    let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(with_key);
    let streams = [
        world.stream("GET", "/sse", &[("Accept", "text/event-stream"), with_key], "", "event: endpoint").await,
        world.stream("GET", "/mcp", &changes, "", ":\n\n").await,
        world.stream("POST", "/mcp", &headers, &listen.to_string(), "acknowledged").await,
    ];
    world.guard.replace_keys(vec![ApiKey::generate("bob").1]);
    for stream in streams {
        stream.read_to_end().await;
    }
}

#[tokio::test]
async fn a_key_that_is_made_smaller_loses_its_socket_and_calls_with_its_new_rights_in_its_session() {
    let (ann, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key.clone().with_role(KeyRole::Admin)]).await;
    let with_key = ("X-Api-Key", ann.as_str());
    let session = open_session(&world.client, "2025-11-25", &[with_key]).await;
    let mut socket = world.socket(&ann).await;
    world.guard.replace_keys(vec![key.with_permit(AccessPermit::new(&["up/echo"], &[]).unwrap())]);
    socket.closed().await;
    let headers = [BASE[0], BASE[1], with_key, ("Mcp-Session-Id", session.as_str())];
    let call = async |tool: &str| {
        let body = legacy_call(json!(1), tool, json!({})).to_string();
        world.client.send("POST", "/mcp", &headers, &body).await.body
    };
    assert!(call("up__echo").await.contains("done"));
    assert!(call("up__secret").await.contains("-31008"));
}

#[tokio::test]
async fn the_last_key_that_goes_shuts_a_door_that_others_can_reach() {
    let (ann, key) = ApiKey::generate("ann");
    let listen = vec!["0.0.0.0:0".parse().unwrap()];
    let trusted_proxies = vec![AddressRange::parse("127.0.0.1").unwrap()];
    let keys = vec![key.clone()];
    let world = World::of(GatewayConfig { listen, keys, trusted_proxies, ..GatewayConfig::on_free_port() }).await;
    assert_eq!(world.call(&ann, "up__echo").await.status, 200);
    let mut socket = world.socket(&ann).await;
    world.guard.replace_keys(Vec::new());
    assert!(world.guard.refuses_everyone() && world.guard.asks_for_keys());
    socket.closed().await;
    assert_eq!(world.call(&ann, "up__echo").await.status, 401, "the key is gone");
    assert_eq!(world.client.send("GET", "/mcp/tools", &[], "").await.status, 401, "and nobody comes in without one");
    world.guard.replace_keys(vec![key]);
    assert_eq!(world.call(&ann, "up__echo").await.status, 200);
    let local = World::with_keys(vec![ApiKey::generate("ann").1]).await;
    local.guard.replace_keys(Vec::new());
    assert_eq!(local.client.send("GET", "/mcp/tools", &[], "").await.status, 200, "on this machine it opens");
}

#[tokio::test]
async fn a_gateway_over_a_manager_has_one_door_for_coming_in_and_for_what_may_be_used() {
    let manager = Manager::new(ManagerOptions::default());
    let up = manager.register(ServerConfig::new("up", ConnectTarget::InProcess(server(Drops::default())))).unwrap();
    up.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let config = GatewayConfig { keys: vec![ApiKey::generate("ann").1], ..GatewayConfig::on_free_port() };
    let (handle, hub) = Gateway::serve_manager(config, manager.clone(), HubConfig::default()).await.unwrap();
    let (bob, key) = ApiKey::generate("bob");
    handle.guard().replace_keys(vec![key.with_permit(AccessPermit::new(&["up/echo"], &[]).unwrap())]);
    let tools = Client::of(&handle).send("GET", "/mcp/tools", &[("X-Api-Key", &bob)], "").await;
    assert!(tools.body.contains("echo") && !tools.body.contains("secret"), "{tools:?}");
    assert_eq!(hub.manager().servers().len(), 1);
}

#[tokio::test]
async fn a_key_that_calls_too_often_is_told_when_to_come_back() {
    let (ann, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key.with_quota(CallQuota { per_minute: 1, burst: 2 })]).await;
    let headers = [JSON, ("X-Api-Key", ann.as_str())];
    for _ in 0..5 {
        assert_eq!(world.client.send("GET", "/healthz", &headers, "").await.status, 200, "looking is no call");
    }
    for expected in [200, 200, 429] {
        let got = world.call(&ann, "up__echo").await;
        assert_eq!(got.status, expected);
        if expected == 429 {
            assert!(got.header("retry-after").unwrap().parse::<u64>().unwrap() <= 60);
            assert_eq!(got.json()["error"]["data"]["kind"], "RATE_LIMIT_EXCEEDED");
        }
    }
    let rest = world.client.send("POST", "/tools/up/echo", &headers, "{}").await;
    assert_eq!((rest.status, rest.json()["error"]["code"].clone()), (429, json!("RATE_LIMIT_EXCEEDED")));
    assert!(rest.header("retry-after").is_some());
    assert_eq!(world.client.send("GET", "/mcp/tools", &headers, "").await.status, 429);
}

#[tokio::test]
async fn every_call_of_a_socket_and_of_a_batch_counts() {
    let quota = CallQuota { per_minute: 1, burst: 2 };
    let (ann, of_ann) = ApiKey::generate("ann");
    let (bob, of_bob) = ApiKey::generate("bob");
    let (cid, of_cid) = ApiKey::generate("cid");
    let keys = [of_ann, of_bob, of_cid].map(|key| key.with_quota(quota));
    let world = World::with_keys(keys.to_vec()).await;
    let mut socket = world.socket(&ann).await;
    let mut refused = Vec::new();
    for id in 0..3 {
        refused.push(socket.ask(tool_call(json!(id), "up__echo", json!({}))).await["error"]["code"].as_i64());
    }
    assert_eq!(refused, [None, None, Some(-31009)]);

    let calls = json!({"calls": vec![json!({"server": "up", "toolName": "echo", "input": {}}); 3]}).to_string();
    let batch = world.client.send("POST", "/mcp/batch", &[JSON, ("X-Api-Key", &bob)], &calls).await.json();
    let told: Vec<bool> = (0..3).map(|index| batch["results"][index]["success"].as_bool().unwrap()).collect();
    assert_eq!(told.iter().filter(|worked| **worked).count(), 2, "{batch}");

    let with_key = ("X-Api-Key", cid.as_str());
    let session = open_session(&world.client, "2025-03-26", &[with_key]).await;
    let calls: Vec<Value> = (0..3).map(|id| legacy_call(json!(id), "up__echo", json!({}))).collect();
    let headers = [JSON, ("Accept", "application/json"), with_key, ("Mcp-Session-Id", session.as_str())];
    let got = world.client.send("POST", "/mcp", &headers, &json!(calls).to_string()).await;
    assert_eq!(got.body.matches("has used up").count(), 1, "{got:?}");
}

#[tokio::test]
async fn a_key_has_only_so_many_calls_in_flight() {
    let (ann, key) = ApiKey::generate("ann");
    let world = World::with_keys(vec![key.with_max_in_flight(2)]).await;
    let mut socket = world.socket(&ann).await;
    for id in ["a", "b"] {
        socket.send(&tool_call(json!(id), "up__never", json!({}))).await;
    }
    let refused = socket.ask(tool_call(json!("c"), "up__echo", json!({}))).await;
    assert_eq!(
        (refused["id"].as_str(), refused["error"]["data"]["kind"].as_str()),
        (Some("c"), Some("RATE_LIMIT_EXCEEDED"))
    );
    assert_eq!(world.call(&ann, "up__echo").await.status, 429, "whichever way it comes");
    socket.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})).await;
    world.drops.wait_for(1).await;
    assert_eq!(world.call(&ann, "up__echo").await.status, 200, "there is room again");
}

#[tokio::test]
async fn a_restricted_key_hears_nothing_of_servers_that_it_may_not_use() {
    let (ann, key) = restricted("ann");
    let (ops, admin) = ApiKey::generate("ops");
    let world = World::with_keys(vec![key, admin.with_role(KeyRole::Admin)]).await;
    let ask = async |secret: &str, path: &str, method: &str, params: Value| {
        let message = modern(json!(1), method, params);
        let own = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", secret));
        world.client.send("POST", path, &headers, &message.to_string()).await
    };
    let all = ask(&ops, "/mcp", "server/discover", json!({})).await.json();
    assert_eq!(all["result"]["instructions"], "up: the words of a server\n\nother: the words of a server");
    let own = ask(&ann, "/mcp", "server/discover", json!({})).await.json();
    assert_eq!(own["result"]["instructions"], "the words of a server");
    let greeted = world
        .client
        .send("POST", "/mcp", &[BASE[0], BASE[1], ("X-Api-Key", &ann)], &initialize("2025-11-25").to_string())
        .await;
    assert!(greeted.status == 200 && !greeted.body.contains("other"), "{greeted:?}");

    assert_eq!(ask(&ann, "/servers/other/mcp", "server/discover", json!({})).await.error_code(), -31008);
    assert!(ask(&ann, "/servers/up/mcp", "server/discover", json!({})).await.body.contains("the words"));

    let ready = async |secret: &str| world.client.send("GET", "/readyz", &[("X-Api-Key", secret)], "").await.json();
    assert_eq!(ready(&ann).await["servers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["up"]);
    assert_eq!(ready(&ops).await["servers"].as_object().unwrap().len(), 2);
    let guest = world.client.send("GET", "/readyz", &[], "").await;
    assert_eq!((guest.status, guest.json()), (200, json!({"status": "ready"})), "without a key it names no server");

    let call = json!({"toolName": "echo", "input": {}}).to_string();
    let rest = async |secret: &str| world.client.send("POST", "/mcp/call", &[JSON, ("X-Api-Key", secret)], &call).await;
    assert!(rest(&ops).await.body.contains("several servers"), "two servers have it");
    assert_eq!(rest(&ann).await.status, 200, "she may use one of them only");
}

#[tokio::test]
async fn one_server_by_itself_is_narrowed_for_completions_and_subscriptions_too() {
    let (ann, key) = ApiKey::generate("ann");
    let key = key.with_permit(AccessPermit::new(&["up/*"], &["up/secret", "up/x://secret"]).unwrap());
    let world = World::with_keys(vec![key]).await;
    let ask = async |method: &str, params: Value| {
        let message = modern(json!(1), method, params);
        let own = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", &ann));
        Exchange::send(world.client.0, &world.client.request("POST", "/servers/up/mcp", &headers, &message.to_string()))
            .await
    };
    let reference = json!({"ref": {"type": "ref/prompt", "name": "secret"}, "argument": {"name": "a", "value": ""}});
    ask("completion/complete", reference).await.read_until("may not use").await;
    let uris = json!({"notifications": {"resourceSubscriptions": ["x://secret", "x://open"]}});
    let acknowledged = ask("subscriptions/listen", uris).await.read_until("x://open").await;
    assert!(!acknowledged.contains("x://secret"), "{acknowledged}");
}

/// A token that holds until it does not.
struct OneToken(Arc<AtomicBool>);

impl CredentialVerifier for OneToken {
    fn recognizes(&self, secret: &str) -> bool {
        secret.starts_with("tok_")
    }

    fn verify<'a>(&'a self, _: &'a str, _: &'a Parts) -> CredentialCheck<'a> {
        let authority = Authority::new(Identity::pm_token("agt_ann", "up"));
        let authority = authority.with_permit(AccessPermit::new(&["up"], &[]).unwrap());
        CredentialCheck::Ready(match self.0.load(Ordering::SeqCst) {
            true => Ok(Arc::new(authority)),
            false => Err(HttpRefusal::wrong_credential("this token is not known")),
        })
    }

    fn still_holds<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.0.load(Ordering::SeqCst) })
    }
}

#[tokio::test]
async fn a_socket_whose_token_does_not_hold_any_more_is_closed() {
    let mut config = GatewayConfig { keys: vec![ApiKey::generate("bob").1], ..GatewayConfig::on_free_port() };
    config.limits.keep_alive = std::time::Duration::from_millis(20);
    let holds = Arc::new(AtomicBool::new(true));
    let guard = AccessGuard::new(&config).with_verifier(Arc::new(OneToken(holds.clone())));
    let world = World::guarded(config, Arc::new(guard)).await;
    let mut socket = world.socket("tok_1").await;
    for id in 0..3 {
        assert_eq!(socket.ask(tool_call(json!(id), "up__echo", json!({}))).await["id"], id);
    }
    holds.store(false, Ordering::SeqCst);
    socket.closed().await;
}
