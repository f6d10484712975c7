//! A restricted caller on every face: other spellings of a name, addresses, and what an error may show.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig, StartPolicy};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, ProcessEnd, Reply};
use tsugi_protocol::mcp::Method;

use crate::faults::{BASE, JSON, initialize, legacy_call, tool_call};
use crate::world::*;

/// What ran, under the name that the server understood.
type Ran = Arc<Mutex<Vec<String>>>;

/// The tools `ping` and `admin_ping`, by a server that ignores case, white space and dots at the ends of a name.
fn lenient_server(ran: Ran) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "lenient", "version": "1"}}
        })),
        Method::ToolsList => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            listed("tools", json!([tool("ping"), tool("admin_ping"), tool("crash")]))
        }
        Method::PromptsList => listed("prompts", json!([{"name": "hello"}, {"name": "admin_hello"}])),
        Method::ResourcesList => listed("resources", json!([{"uri": "file:///pub/a", "name": "a"}])),
        Method::TemplatesList => {
            listed("resourceTemplates", json!([{"uriTemplate": "file:///{+path}", "name": "files"}]))
        }
        Method::ToolsCall if call.subject().as_deref() == Some("crash") => {
            let process = ProcessEnd { status: "exit code 1".into(), stderr: vec!["plain value hunter2".into()] };
            let cause = Fault::new(FaultCode::ServerCrashed, "it crashed before").with_process(process.clone());
            Reply::fault(Fault::new(FaultCode::ServerCrashed, "it crashed").with_process(process).because(cause))
        }
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead => {
            let name = call.subject().unwrap_or_default().to_lowercase();
            ran.lock().push(name.trim().trim_matches('.').to_owned());
            complete(json!({"resultType": "complete", "content": [], "messages": [], "contents": []}))
        }
        _ => complete(json!({"resultType": "complete"})),
    })
}

struct World {
    client: Client,
    secret: String,
    admin: String,
    ran: Ran,
    _manager: Manager,
    _handle: GatewayHandle,
}

impl World {
    /// The server `lenient`, and a key that may use what `deny` does not name.
    async fn of(deny: &[&str], start: StartPolicy) -> Self {
        let (secret, key) = ApiKey::generate("ann");
        let (admin, root) = ApiKey::generate("root");
        let key = key.with_permit(AccessPermit::new(&["*"], deny).unwrap());
        let config = GatewayConfig { keys: vec![key, root.with_role(KeyRole::Admin)], ..GatewayConfig::on_free_port() };
        let manager = Manager::new(ManagerOptions::default());
        let ran = Ran::default();
        let mut server = ServerConfig::new("lenient", ConnectTarget::InProcess(lenient_server(ran.clone())));
        server.start = start;
        let server = manager.register(server).unwrap();
        if start == StartPolicy::Eager {
            server.ready(Duration::from_secs(60)).await.unwrap();
        }
        let hub = Hub::new(manager.clone(), HubConfig::default(), Arc::new(AccessGuard::new(&config)));
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), secret, admin, ran, _manager: manager, _handle: handle }
    }

    async fn modern(&self, secret: &str, path: &str, message: &Value) -> Got {
        let own = modern_headers(message);
        // A header cannot carry every spelling; what does not fit is refused before it gets here.
        let plain = |value: &str| value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && value.trim() == value;
        let mut headers: Vec<(&str, &str)> =
            own.iter().filter(|(_, value)| plain(value)).map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", secret));
        self.client.send("POST", path, &headers, &message.to_string()).await
    }

    async fn post(&self, path: &str, body: &Value, extra: &[(&str, &str)]) -> Got {
        let headers = [&BASE[..], &[("X-Api-Key", self.secret.as_str())], extra].concat();
        self.client.send("POST", path, &headers, &body.to_string()).await
    }

    /// Calls a tool under this name on every face, in both eras.
    async fn call_everywhere(&self, session: &str, name: &str) {
        let public = format!("lenient__{name}");
        self.modern(&self.secret, "/servers/lenient/mcp", &tool_call(json!(1), name, json!({}))).await;
        self.modern(&self.secret, "/mcp", &tool_call(json!(1), &public, json!({}))).await;
        let in_session = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
        self.post("/servers/lenient/mcp", &legacy_call(json!(1), name, json!({})), &in_session).await;
        self.post("/rpc", &legacy_call(json!(1), &public, json!({})), &[]).await;
        for server in [json!("lenient"), Value::Null] {
            self.post("/mcp/call", &json!({"server": server, "toolName": name, "input": {}}), &[]).await;
        }
        let path = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        self.post(&format!("/tools/lenient/{path}"), &json!({}), &[]).await;
    }

    async fn session(&self) -> String {
        let opened = self.post("/servers/lenient/mcp", &initialize("2025-11-25"), &[]).await;
        opened.header("mcp-session-id").unwrap_or_else(|| panic!("{opened:?}")).to_owned()
    }
}

/// Another way to write a name, which a lenient server may understand.
fn spelling(name: &str, random: &mut StdRng) -> String {
    let mut spelled: String =
        name.chars().map(|letter| if random.random_bool(0.5) { letter.to_ascii_uppercase() } else { letter }).collect();
    let around = ["", "", " ", "\t", "\u{a0}", "\u{3000}", "\n"];
    spelled.insert_str(0, around[random.random_range(0..around.len())]);
    spelled.push_str(["", "", ".", "..", " ", "\u{2003}", ". "][random.random_range(0..7)]);
    spelled
}

#[tokio::test]
async fn a_denied_tool_does_not_run_under_another_spelling() {
    let world = World::of(&["lenient/admin_*"], StartPolicy::Eager).await;
    let session = world.session().await;
    let mut random = StdRng::seed_from_u64(19);
    for name in ["admin_ping".to_owned(), "ADMIN_PING".into(), " admin_ping".into(), "admin_ping.".into()] {
        world.call_everywhere(&session, &name).await;
    }
    for _ in 0..60 {
        world.call_everywhere(&session, &spelling("admin_ping", &mut random)).await;
    }
    assert_eq!(*world.ran.lock(), [] as [&str; 0]);
    // What it may use still runs, on each of the seven ways.
    world.call_everywhere(&session, "ping").await;
    assert_eq!(*world.ran.lock(), ["ping"; 7]);
    let allowed = World::of(&["other"], StartPolicy::Eager).await;
    allowed.modern(&allowed.admin, "/servers/lenient/mcp", &tool_call(json!(1), "PING", json!({}))).await;
    assert_eq!(*allowed.ran.lock(), ["ping"], "without a restriction the server decides what a name means");
}

#[tokio::test]
async fn a_call_that_comes_before_the_list_waits_for_it() {
    let world = World::of(&["lenient/admin_*"], StartPolicy::Lazy).await;
    let path = "/servers/lenient/mcp";
    for name in ["ADMIN_PING", "admin_ping"] {
        let denied = world.modern(&world.secret, path, &tool_call(json!(1), name, json!({}))).await;
        assert_eq!((denied.status, denied.error_code()), (403, -31008), "{denied:?}");
    }
    let fine = world.modern(&world.secret, path, &tool_call(json!(1), "ping", json!({}))).await;
    assert_eq!(fine.status, 200, "{fine:?}");
    assert_eq!(*world.ran.lock(), ["ping"]);
}

#[tokio::test]
async fn a_restricted_caller_cannot_tell_a_denied_name_from_one_that_is_not_there() {
    let world = World::of(&["lenient/admin_*", "lenient/file:///secret*"], StartPolicy::Eager).await;
    let ask = |path: &'static str, method: &'static str, params: Value| {
        let message = modern(json!(1), method, params);
        let world = &world;
        async move { world.modern(&world.secret, path, &message).await }
    };
    for (path, method, denied, missing) in [
        ("/mcp", "tools/call", json!({"name": "lenient__admin_ping"}), json!({"name": "lenient__admin_gone"})),
        ("/servers/lenient/mcp", "tools/call", json!({"name": "admin_ping"}), json!({"name": "admin_gone"})),
        ("/mcp", "prompts/get", json!({"name": "lenient__admin_hello"}), json!({"name": "lenient__admin_gone1"})),
        ("/mcp", "resources/read", json!({"uri": "file:///secret_1"}), json!({"uri": "other:///secret2"})),
    ] {
        let (denied, missing) = (ask(path, method, denied).await, ask(path, method, missing).await);
        assert_eq!((denied.status, missing.status), (403, 403), "{method}: {denied:?} {missing:?}");
        let shape = |got: &Got| {
            let error = got.json()["error"].clone();
            let message = error["message"].as_str().unwrap().split('"').next().unwrap().to_owned();
            (error["code"].clone(), message, error["data"].clone())
        };
        assert_eq!(shape(&denied), shape(&missing), "{method}");
    }
    let headers = [JSON, ("X-Api-Key", world.secret.as_str())];
    for tool in ["admin_ping", "gone"] {
        let got = world.client.send("POST", &format!("/tools/lenient/{tool}"), &headers, "{}").await;
        assert_eq!(got.status, 403, "{got:?}");
    }
}

#[tokio::test]
async fn an_address_with_dot_segments_is_not_for_a_restricted_caller() {
    let (secret, key) = ApiKey::generate("ann");
    let key = key.with_permit(AccessPermit::new(&["lenient/file:///pub/*"], &[]).unwrap());
    let world = World::of(&[], StartPolicy::Eager).await;
    world._handle.guard().replace_keys(vec![key]);
    for (uri, status) in [
        ("file:///pub/a", 200),
        ("file:///pub/b", 200),
        ("file:///pub/../secret", 403),
        ("file:///pub/%2e%2e/secret", 403),
        ("tsugi://lenient/file:///pub/../secret", 403),
        ("file:///secret", 403),
        ("other:///pub/a", 403),
    ] {
        for path in ["/mcp", "/servers/lenient/mcp"] {
            if path != "/mcp" && uri.starts_with("tsugi:") {
                continue;
            }
            let message = modern(json!(1), "resources/read", json!({"uri": uri}));
            let got = world.modern(&secret, path, &message).await;
            assert_eq!(got.status, status, "{path} {uri}: {got:?}");
        }
    }
}

#[tokio::test]
async fn only_administrators_see_what_a_crashed_server_wrote() {
    let world = World::of(&["other"], StartPolicy::Eager).await;
    let call = tool_call(json!(1), "lenient__crash", json!({}));
    let seen = world.modern(&world.admin, "/mcp", &call).await;
    assert_eq!(seen.body.matches("hunter2").count(), 2, "{seen:?}");
    let hidden = world.modern(&world.secret, "/mcp", &call).await;
    assert!(hidden.body.contains("exit code 1") && !hidden.body.contains("hunter2"), "{hidden:?}");
    let rest = world.post("/mcp/call", &json!({"server": "lenient", "toolName": "crash"}), &[]).await;
    assert!(rest.body.contains("SERVER_CRASHED") && !rest.body.contains("hunter2"), "{rest:?}");
    let session = world.session().await;
    let in_session = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let legacy = world.post("/servers/lenient/mcp", &legacy_call(json!(1), "crash", json!({})), &in_session).await;
    assert!(legacy.body.contains("exit code 1") && !legacy.body.contains("hunter2"), "{legacy:?}");
}

#[tokio::test]
async fn discovery_without_a_key_says_that_there_is_nothing() {
    let world = World::of(&[], StartPolicy::Eager).await;
    let path = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(world.client.send("GET", path, &[], "").await.status, 404);
    assert_eq!(world.client.send("GET", "/nowhere", &[], "").await.status, 401, "elsewhere it is not said");
}

#[tokio::test]
async fn a_page_of_another_port_opens_neither_a_socket_nor_a_stream() {
    let handle = serve(script(|_| complete(json!({"resultType": "complete"})))).await;
    let client = Client::of(&handle);
    let own = format!("http://{}", client.0);
    let upgrade =
        [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")];
    for (origin, is_ours) in [("http://localhost:3000", false), (own.as_str(), true)] {
        let socket = [&upgrade[..], &[("Origin", origin)]].concat();
        let request = client.request("GET", "/ws", &socket, "").replace("Connection: close", "Connection: Upgrade");
        let answer = Exchange::send(client.0, &request).await.read_until("\r\n").await;
        assert_eq!(answer.contains("101"), is_ours, "{origin}: {answer}");
        let request = client.request("GET", "/sse", &[("Accept", "text/event-stream"), ("Origin", origin)], "");
        let answer = Exchange::send(client.0, &request).await.read_until("\r\n").await;
        assert_eq!(answer.contains("200"), is_ours, "{origin}: {answer}");
    }
}
