//! Attacks on who a caller is: names that spell another caller, narrow credentials in wide sessions, what belongs to
//! others, methods outside a permit, tenants, and guessing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use http::request::Parts;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::authority::Authority;
use tsugi_gateway::guard::caller_access::ServerTenants;
use tsugi_gateway::guard::credential::{CredentialCheck, CredentialVerifier};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::guard::refusal::HttpRefusal;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::identity::{ClientId, TenantName};
use tsugi_protocol::answer::{Answer, Call, Identity};
use tsugi_protocol::mcp::Method;

use crate::faults::{BASE, JSON, legacy_call, open_session, tool_call};
use crate::world::*;

/// What reached the servers: method and identity of each call.
type Journal = Arc<Mutex<Vec<(String, String)>>>;

fn server(journal: Journal) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "prompts": {}, "completions": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        })),
        Method::ToolsList => complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": [
            {"name": "read", "inputSchema": {"type": "object"}}, {"name": "write", "inputSchema": {"type": "object"}}
        ]})),
        Method::PromptsList => complete(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public", "prompts": [{"name": "secret"}]
        })),
        _ => {
            journal.lock().push((call.method.to_string(), call.caller.identity().to_string()));
            complete(text(&call.caller.identity().to_string()))
        }
    })
}

/// Takes `tok_` and a JSON object for what a verifier has found out: the constructor of subjects for tests.
struct OpenVerifier;

impl CredentialVerifier for OpenVerifier {
    fn recognizes(&self, secret: &str) -> bool {
        secret.starts_with("tok_")
    }

    fn verify<'a>(&'a self, secret: &'a str, _: &'a Parts) -> CredentialCheck<'a> {
        let found: Value = serde_json::from_str(&secret[4..]).unwrap_or_default();
        let text = |key: &str| found[key].as_str().map(str::to_owned);
        let (Some(issuer), Some(sub)) = (text("iss"), text("sub")) else {
            return CredentialCheck::Ready(Err(HttpRefusal::wrong_credential("this is not a token")));
        };
        let mut authority = Authority::new(Identity::subject(issuer, sub));
        if let Some(client) = text("client") {
            authority = authority.for_client(ClientId::new(client));
        }
        if let Some(tenant) = text("tenant") {
            authority = authority.of_tenant(TenantName::new(tenant));
        }
        if let Some(allow) = text("allow") {
            authority = authority.with_permit(AccessPermit::new(&[allow], &[]).unwrap());
        }
        if let Some(millis) = found["ms"].as_u64() {
            authority = authority.until(SystemTime::now() + Duration::from_millis(millis));
        }
        CredentialCheck::Ready(Ok(Arc::new(authority)))
    }

    fn still_holds<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }

    fn closes_gateway(&self) -> bool {
        true
    }
}

pub(crate) fn token(found: Value) -> String {
    format!("tok_{found}")
}

pub(crate) struct TokenGateway {
    pub(crate) client: Client,
    journal: Journal,
    _manager: Manager,
    _handle: GatewayHandle,
}

impl TokenGateway {
    async fn of(names: &[&str], keys: Vec<ApiKey>, tenants: ServerTenants) -> Self {
        let journal = Journal::default();
        let servers = names.iter().map(|name| (*name, server(journal.clone()))).collect();
        Self { journal, ..Self::serving(servers, keys, tenants).await }
    }

    pub(crate) async fn serving(
        servers: Vec<(&str, Arc<dyn Answer>)>,
        keys: Vec<ApiKey>,
        tenants: ServerTenants,
    ) -> Self {
        let config = GatewayConfig { keys, ..GatewayConfig::on_free_port() };
        let manager = Manager::new(ManagerOptions::default());
        for (name, server) in servers {
            let server = ServerConfig::new(name, ConnectTarget::InProcess(server));
            manager.register(server).unwrap().ready(Duration::from_secs(60)).await.unwrap();
        }
        let guard = Arc::new(AccessGuard::new(&config).with_verifier(Arc::new(OpenVerifier)));
        let hub = Hub::new(manager.clone(), HubConfig { tenants, ..HubConfig::default() }, guard);
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), journal: Journal::default(), _manager: manager, _handle: handle }
    }

    async fn one() -> Self {
        Self::of(&["up"], Vec::new(), ServerTenants::default()).await
    }

    pub(crate) async fn modern(&self, path: &str, secret: &str, message: &Value) -> Got {
        let own = modern_headers(message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", secret));
        self.client.send("POST", path, &headers, &message.to_string()).await
    }

    async fn in_session(&self, session: &str, secret: &str, tool: &str) -> Got {
        let headers = [BASE[0], BASE[1], ("X-Api-Key", secret), ("Mcp-Session-Id", session)];
        self.client.send("POST", "/mcp", &headers, &legacy_call(json!(1), tool, json!({})).to_string()).await
    }
}

/// N08.
#[tokio::test]
async fn a_subject_that_is_named_like_another_caller_is_not_that_caller() {
    let (secret, key) = ApiKey::generate("ann");
    let world = TokenGateway::of(&["up"], vec![key], ServerTenants::default()).await;
    let mut secrets = vec![secret];
    for sub in ["local", "anonymous", "pm:agt_boss@pm", "ann", "key:ann"] {
        secrets.extend(["corp", "other"].map(|issuer| token(json!({"iss": issuer, "sub": sub}))));
    }
    let mut sessions = Vec::new();
    for secret in &secrets {
        sessions.push(open_session(&world.client, "2025-11-25", &[("X-Api-Key", secret)]).await);
    }
    let mut seen = BTreeSet::new();
    for (owner, session) in sessions.iter().enumerate() {
        for (asking, secret) in secrets.iter().enumerate() {
            let got = world.in_session(session, secret, "up__read").await;
            assert_eq!(got.status, if owner == asking { 200 } else { 404 }, "{secret}: {got:?}");
        }
    }
    seen.extend(world.journal.lock().iter().map(|(_, identity)| identity.clone()));
    assert_eq!(seen.len(), secrets.len(), "each is its own caller: {seen:?}");
    let open = world.client.send("GET", "/mcp/tools", &[], "").await;
    assert_eq!(open.status, 401, "an issuer closes the gateway for callers without a credential");
}

/// N09.
#[tokio::test]
async fn a_narrow_token_stays_narrow_in_a_session_that_a_broad_one_opened() {
    let world = TokenGateway::one().await;
    let broad = token(json!({"iss": "corp", "sub": "ann", "client": "editor"}));
    let narrow = token(json!({"iss": "corp", "sub": "ann", "client": "editor", "allow": "up/read"}));
    let session = open_session(&world.client, "2025-11-25", &[("X-Api-Key", &broad)]).await;
    let call = async |secret: &str, tool: &str| world.in_session(&session, secret, tool).await.json();
    assert!(call(&broad, "up__write").await["result"].is_object());
    assert!(call(&narrow, "up__read").await["result"].is_object());
    let before = world.journal.lock().len();
    assert_eq!(call(&narrow, "up__write").await["error"]["code"], -31008);
    assert_eq!(world.journal.lock().len(), before, "the server was not asked");
    assert!(call(&broad, "up__write").await["result"].is_object(), "and the broad one is not made narrow by it");
    // The other way round: a narrow opener does not bind a broad request.
    let session = open_session(&world.client, "2025-11-25", &[("X-Api-Key", &narrow)]).await;
    assert!(world.in_session(&session, &broad, "up__write").await.json()["result"].is_object());
    let listed = world.modern("/mcp", &narrow, &modern(json!(1), "tools/list", json!({}))).await.body;
    assert!(listed.contains("up__read") && !listed.contains("up__write"), "{listed}");
}

/// N10.
#[tokio::test]
async fn what_belongs_to_one_caller_is_not_found_by_another() {
    let world = TokenGateway::one().await;
    let ann = token(json!({"iss": "corp", "sub": "ann", "client": "editor", "tenant": "acme"}));
    let session = open_session(&world.client, "2025-11-25", &[("X-Api-Key", &ann)]).await;
    let with_key = ("X-Api-Key", ann.as_str());
    let get = world.client.request("GET", "/sse", &[("Accept", "text/event-stream"), with_key], "");
    let mut stream = Exchange::send(world.client.0, &get).await;
    let greeting = stream.read_until("sessionId=").await;
    let path = greeting.split("data: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let path = match path.ends_with("sessionId=") {
        true => path + stream.read_until("\n\n").await.split("sessionId=").last().unwrap().trim(),
        false => path.trim().to_owned(),
    };
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let others = [
        json!({"iss": "corp", "sub": "bob", "client": "editor", "tenant": "acme"}),
        json!({"iss": "other", "sub": "ann", "client": "editor", "tenant": "acme"}),
        json!({"iss": "corp", "sub": "ann", "client": "shell", "tenant": "acme"}),
        json!({"iss": "corp", "sub": "ann", "client": "editor", "tenant": "other"}),
        json!({"iss": "corp", "sub": "ann"}),
    ];
    for other in others.map(token) {
        assert_eq!(world.in_session(&session, &other, "up__read").await.status, 404, "{other}");
        let headers = [BASE[1], ("X-Api-Key", &other), ("Mcp-Session-Id", &session)];
        for verb in ["GET", "DELETE"] {
            assert_eq!(world.client.send(verb, "/mcp", &headers, "").await.status, 404, "{verb} {other}");
        }
        let posted = world.client.send("POST", &path, &[JSON, ("X-Api-Key", &other)], &ping).await;
        assert_eq!(posted.status, 404, "{other}");
    }
    assert!(world.journal.lock().is_empty());
    assert_eq!(
        world.client.send("POST", &path, &[JSON, with_key], &ping).await.status,
        202,
        "and the owner's is there"
    );
    assert_eq!(world.in_session(&session, &ann, "up__read").await.status, 200);
}

/// N44.
#[tokio::test]
async fn methods_outside_a_permit_are_refused_and_reach_no_server() {
    let world = TokenGateway::one().await;
    let (broad, narrow) =
        (json!({"iss": "corp", "sub": "ann"}), json!({"iss": "corp", "sub": "ann", "allow": "up/read"}));
    let named = json!({"iss": "corp", "sub": "ann", "allow": "up/method:vendor/*"});
    let (broad, narrow, named) = (token(broad), token(narrow), token(named));
    let reference = json!({"ref": {"type": "ref/prompt", "name": "secret"}, "argument": {"name": "a", "value": ""}});
    let methods = [
        ("task/list", json!({})),
        ("vendor/x", json!({})),
        ("tools/call/", json!({"name": "write"})),
        ("completion/complete", reference),
    ];
    for path in ["/mcp", "/servers/up/mcp"] {
        for (method, params) in &methods {
            let message = modern(json!(1), method, params.clone());
            let got = world.modern(path, &narrow, &message).await;
            assert_eq!((got.status, got.error_code()), (403, -31008), "{path} {method}: {got:?}");
            assert!(world.journal.lock().is_empty(), "{path} {method} reached the server");
            assert_eq!(world.modern(path, &broad, &message).await.status, 200, "{path} {method}");
            // Whether a completion reaches the server depends on what that declares.
            if *method == "completion/complete" {
                continue;
            }
            assert_eq!(std::mem::take(&mut *world.journal.lock()).len(), 1, "{path} {method} reaches the server");
        }
        world.journal.lock().clear();
        // Tasks belong to the caller whose call they came of, so these reach no server whatever the permit says.
        for method in ["tasks/get", "tasks/list", "tasks/cancel", "tasks/update", "tasks/result"] {
            let message = modern(json!(1), method, json!({"taskId": "1"}));
            let got = world.modern(path, &narrow, &message).await;
            assert_eq!((got.status, got.error_code()), (403, -31008), "{path} {method}: {got:?}");
            let got = world.modern(path, &broad, &message).await;
            assert_eq!((got.status, got.error_code()), (404, -32601), "{path} {method}: {got:?}");
            assert!(world.journal.lock().is_empty(), "{path} {method} reached the server");
        }
        let vendor = modern(json!(1), "vendor/x", json!({}));
        assert_eq!(world.modern(path, &named, &vendor).await.status, 200);
        assert_eq!(world.modern(path, &named, &modern(json!(1), "tasks/list", json!({}))).await.status, 403);
        world.journal.lock().clear();
    }
}

#[tokio::test]
async fn a_tenants_server_does_not_exist_for_other_tenants() {
    let (acme, key) = ApiKey::generate("ann");
    let keys = vec![key.of_tenant(TenantName::new("acme"))];
    let tenants = ServerTenants::new([("books".to_owned(), BTreeSet::from([TenantName::new("acme")]))]);
    let world = TokenGateway::of(&["books", "up"], keys, tenants).await;
    let other = token(json!({"iss": "corp", "sub": "bob", "tenant": "other"}));
    let without = token(json!({"iss": "corp", "sub": "acme"}));
    let tools = modern(json!(1), "tools/list", json!({}));
    assert!(world.modern("/mcp", &acme, &tools).await.body.contains("books__read"));
    // Nothing in arguments, `_meta`, path or headers makes a tenant.
    let mut call = tool_call(json!(1), "books__read", json!({"tenant": "acme"}));
    call["params"]["_meta"]["tenant"] = json!("acme");
    assert_eq!(world.modern("/mcp", &acme, &call).await.status, 200);
    for secret in [&other, &without] {
        let listed = world.modern("/mcp", secret, &tools).await.body;
        assert!(listed.contains("up__read") && !listed.contains("books"), "{listed}");
        world.journal.lock().clear();
        assert_eq!(world.modern("/mcp", secret, &call).await.status, 403);
        let own = tool_call(json!(1), "read", json!({}));
        assert_eq!(world.modern("/servers/books/mcp", secret, &own).await.status, 403);
        let unknown = world.modern("/servers/none/mcp", secret, &own).await;
        assert_eq!(unknown.status, 403, "a server that does not exist reads the same");
        let headers = [JSON, ("X-Api-Key", secret.as_str()), ("X-Tenant", "acme"), ("Tenant", "acme")];
        for (verb, path) in [("POST", "/tools/books/read"), ("GET", "/mcp/tools"), ("GET", "/openapi.json")] {
            let got = world.client.send(verb, path, &headers, "{}").await;
            assert!(!got.body.contains("books__") && !got.body.contains("/tools/books"), "{path}: {got:?}");
        }
        assert!(world.journal.lock().is_empty());
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let world = TokenGateway::one().await;
    let short = token(json!({"iss": "corp", "sub": "ann", "ms": 700}));
    let get = world.client.request("GET", "/sse", &[("Accept", "text/event-stream"), ("X-Api-Key", &short)], "");
    let mut stream = Exchange::send(world.client.0, &get).await;
    stream.read_until("event: endpoint").await;
    stream.read_to_end().await;
}

/// N17, from outside.
#[tokio::test]
async fn an_address_that_guesses_is_refused_before_its_guess_is_looked_at() {
    let (secret, key) = ApiKey::generate("ann");
    let mut config = GatewayConfig { keys: vec![key], ..GatewayConfig::on_free_port() };
    config.trusted_proxies = vec![AddressRange::parse("127.0.0.1").unwrap()];
    let guard = Arc::new(AccessGuard::new(&config));
    let hub = Hub::new(Manager::new(ManagerOptions::default()), HubConfig::default(), guard);
    let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
    let client = Client::of(&handle);
    let ask = async |secret: &str, from: &str| {
        client.send("GET", "/mcp/tools", &[("X-Api-Key", secret), ("X-Forwarded-For", from)], "").await
    };
    for guess in 0..20 {
        assert_eq!(ask(&format!("wrong{guess}"), "192.0.2.1").await.status, 401);
    }
    for guess in ["wrong", &secret] {
        let refused = ask(guess, "192.0.2.1").await;
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!((1..=7).contains(&refused.header("retry-after").unwrap().parse::<u64>().unwrap()));
    }
    // What the client itself writes in front does not count.
    assert_eq!(ask("wrong", "198.51.100.77, 192.0.2.1").await.status, 429);
    let sign_in = [JSON, ("X-Forwarded-For", "192.0.2.1")];
    let body = json!({"key": secret}).to_string();
    assert_eq!(client.send("POST", "/api/session", &sign_in, &body).await.status, 429, "the dashboard's door too");
    assert_eq!(client.send("GET", "/mcp/tools", &[("X-Forwarded-For", "192.0.2.1")], "").await.status, 401);
    assert_eq!(ask(&secret, "192.0.2.2").await.status, 200, "a bystander");
}
