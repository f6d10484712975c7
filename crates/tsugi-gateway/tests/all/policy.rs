//! A policy on every face: what it forbids reaches no server, and what it permits does. The witness is the journal of the
//! server behind the gateway.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::policy::{PolicyGuard, PolicyMode, ServerFacts};
use tsugi_gateway::hub::tool_search::ToolListing;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_policy::set::{PolicySet, PolicySource};
use tsugi_protocol::answer::{Answer, Call};
use tsugi_protocol::mcp::Method;

use crate::faults::{BASE, initialize, legacy_call, tool_call};
use crate::world::*;

type Journal = Arc<Mutex<Vec<String>>>;

fn server(journal: Journal) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}, "instructions": "secret words",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        })),
        Method::ToolsList => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            listed("tools", json!([tool("read"), tool("write"), tool("Delete_all")]))
        }
        Method::PromptsList => listed("prompts", json!([{"name": "greet"}, {"name": "admin_greet"}])),
        Method::ResourcesList => listed(
            "resources",
            json!([{"uri": "file:///pub/a", "name": "a"}, {"uri": "file:///secret/a", "name": "s"}]),
        ),
        Method::TemplatesList => {
            listed("resourceTemplates", json!([{"uriTemplate": "file:///{+path}", "name": "files"}]))
        }
        _ => {
            let what = call.subject().map(|name| name.into_owned()).unwrap_or_else(|| call.method.to_string());
            journal.lock().push(what);
            complete(
                json!({"resultType": "complete", "content": [], "messages": [], "contents": [], "completion": {"values": []}}),
            )
        }
    })
}

struct PolicyWorld {
    client: Client,
    url: String,
    user: String,
    admin: String,
    journal: Journal,
    hub: Hub,
    guard: Arc<AccessGuard>,
    _handle: GatewayHandle,
}

fn rules(rules: &str) -> Arc<PolicySet> {
    let text = format!("rules:\n{rules}\n...\n");
    Arc::new(PolicySet::load(vec![PolicySource { file: "p.yaml".into(), text }]).unwrap())
}

impl PolicyWorld {
    async fn of(text: &str, mode: PolicyMode) -> Self {
        Self::with(text, mode, None, HubConfig::default()).await
    }

    async fn with(text: &str, mode: PolicyMode, permit: Option<AccessPermit>, shown: HubConfig) -> Self {
        let ((user, key), (admin, root)) = (ApiKey::generate("ann"), ApiKey::generate("root"));
        let key = permit.into_iter().fold(key, ApiKey::with_permit);
        let config = GatewayConfig { keys: vec![key, root.with_role(KeyRole::Admin)], ..GatewayConfig::on_free_port() };
        let manager = Manager::new(ManagerOptions::default());
        let journal = Journal::default();
        for name in ["files", "other"] {
            let target = ConnectTarget::InProcess(server(journal.clone()));
            manager.register(ServerConfig::new(name, target)).unwrap().ready(Duration::from_secs(60)).await.unwrap();
        }
        let guard = Arc::new(AccessGuard::new(&config));
        let facts = ServerFacts { tags: vec!["tagged".to_owned()], ..ServerFacts::default() };
        let facts = [("files".to_owned(), facts)].into();
        guard.replace_policy(Some(PolicyGuard::new(rules(text), mode).with_servers(facts)));
        let hub = Hub::new(manager, shown, guard.clone());
        let handle = Gateway::serve(config, Arc::new(hub.clone())).await.unwrap();
        let (client, url) = (Client::of(&handle), handle.url());
        Self { client, url, user, admin, journal, hub, guard, _handle: handle }
    }

    fn ran(&self) -> Vec<String> {
        std::mem::take(&mut *self.journal.lock())
    }

    async fn post_as(&self, secret: &str, path: &str, body: &Value, extra: &[(&str, &str)]) -> Got {
        let headers = [&BASE[..], &[("X-Api-Key", secret)], extra].concat();
        self.client.send("POST", path, &headers, &body.to_string()).await
    }

    async fn post(&self, path: &str, body: &Value, extra: &[(&str, &str)]) -> Got {
        self.post_as(&self.user, path, body, extra).await
    }

    async fn modern(&self, path: &str, message: &Value) -> Got {
        let own = modern_headers(message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", &self.user));
        self.client.send("POST", path, &headers, &message.to_string()).await
    }

    /// Opens a session. At a server of which nothing may be seen there is none, which is a refusal too.
    async fn session(&self, path: &str) -> Result<String, Got> {
        let opened = self.post(path, &initialize("2025-11-25"), &[]).await;
        opened.header("mcp-session-id").map(str::to_owned).ok_or(opened)
    }

    /// Calls a tool of `files` on every face and in both eras; gives the face and whether a refusal came.
    async fn everywhere(&self, name: &str, arguments: Value) -> Vec<(&'static str, bool, u16)> {
        let public = format!("files__{name}");
        let mut seen = Vec::new();
        let mut add = |face: &'static str, got: &Got| {
            let is_refused = got.body.contains("-31008") || got.body.contains("PERMISSION_DENIED");
            seen.push((face, is_refused, got.status));
        };
        add("modern", &self.modern("/mcp", &tool_call(json!(1), &public, arguments.clone())).await);
        add("single", &self.modern("/servers/files/mcp", &tool_call(json!(1), name, arguments.clone())).await);
        for (face, path, name) in [("legacy", "/mcp", &*public), ("legacy single", "/servers/files/mcp", name)] {
            let called = match self.session(path).await {
                Ok(session) => {
                    let extra = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
                    self.post(path, &legacy_call(json!(1), name, arguments.clone()), &extra).await
                }
                Err(refused) => refused,
            };
            add(face, &called);
        }
        add("rpc", &self.post("/rpc", &legacy_call(json!(1), &public, arguments.clone()), &[]).await);
        let rest = json!({"server": "files", "toolName": name, "input": arguments});
        add("rest", &self.post("/mcp/call", &rest, &[]).await);
        add("operation", &self.post(&format!("/tools/files/{name}"), &arguments, &[]).await);
        let batch = self.post("/mcp/batch", &json!({"calls": [rest]}), &[]).await;
        add("batch", &batch);
        for (face, message) in [
            ("ws modern", tool_call(json!(1), &public, arguments.clone())),
            ("ws legacy", legacy_call(json!(1), &public, arguments.clone())),
        ] {
            let answer = self.over_websocket(face == "ws legacy", &message).await;
            seen.push((face, answer.contains("-31008"), 0));
        }
        let answer = self.over_sse(&legacy_call(json!(1), &public, arguments)).await;
        seen.push(("sse", answer.contains("-31008"), 0));
        seen
    }

    async fn over_websocket(&self, is_legacy: bool, message: &Value) -> String {
        let mut request = format!("{}/ws", self.url.replace("http", "ws")).into_client_request().unwrap();
        request.headers_mut().insert("x-api-key", self.user.parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        if is_legacy {
            socket.send(Message::text(initialize("2025-11-25").to_string())).await.unwrap();
            socket.next().await.unwrap().unwrap();
        }
        socket.send(Message::text(message.to_string())).await.unwrap();
        socket.next().await.unwrap().unwrap().to_text().unwrap().to_owned()
    }

    async fn over_sse(&self, message: &Value) -> String {
        let headers = [("Accept", "text/event-stream"), ("X-Api-Key", self.user.as_str())];
        let mut stream = Exchange::send(self.client.0, &self.client.request("GET", "/sse", &headers, "")).await;
        stream.read_until("event: endpoint\ndata: ").await;
        let address = stream.read_until("\n\n").await.trim().to_owned();
        self.post(&address, &initialize("2025-11-25"), &[]).await;
        stream.read_until("2025-11-25").await;
        stream.read_until("\n\n").await;
        self.post(&address, message, &[]).await;
        stream.read_until("\n\n").await
    }

    async fn metrics(&self) -> String {
        self.client.send("GET", "/metrics", &[("X-Api-Key", &self.admin)], "").await.body
    }
}

const CAREFUL: &str = "
  - permit: reads
    resources: [files/read, 'files/file:///pub/*', files/greet]
  - permit: public-writes
    actions: [callTool]
    resources: [files/write]
    when: context.arguments.path.startsWith(\"/pub/\")
  - permit: admins
    principals: ['key:root']
    actions: ['*']
  - forbid: deletes
    resources: ['*/delete*']
  - permit: everything-of-ann
    principals: ['key:ann']
    resources: [files/delete_all, files/Delete_all]";

#[tokio::test]
async fn what_a_policy_forbids_runs_on_no_face_and_what_it_permits_on_all() {
    let world = PolicyWorld::of(CAREFUL, PolicyMode::Enforce).await;
    let good = world.everywhere("read", json!({})).await;
    assert!(good.iter().all(|(_, is_refused, status)| !is_refused && [0, 200].contains(status)), "{good:?}");
    assert_eq!(world.ran(), vec!["read"; good.len()]);
    let good = world.everywhere("write", json!({"path": "/pub/a"})).await;
    assert!(good.iter().all(|(_, is_refused, _)| !is_refused), "{good:?}");
    assert_eq!(world.ran(), vec!["write"; good.len()]);
    for (name, arguments) in [
        ("write", json!({"path": "/etc/passwd"})),
        ("write", json!({})),
        ("write", json!({"path": 7})),
        ("Delete_all", json!({})),
        ("nothing_here", json!({})),
    ] {
        let seen = world.everywhere(name, arguments.clone()).await;
        for (face, is_refused, status) in &seen {
            // Authorization is of HTTP where a request is one call.
            let is_one_call = ["modern", "single", "rest", "operation"].contains(face);
            assert!(*is_refused && (!is_one_call || *status == 403), "{name} {arguments} {face} {status}");
        }
        assert_eq!(world.ran(), Vec::<String>::new(), "{name} {arguments}");
    }
}

#[tokio::test]
async fn a_refusal_reads_like_one_by_permit_and_does_not_name_the_rule() {
    let policy = PolicyWorld::of(CAREFUL, PolicyMode::Enforce).await;
    let deny = AccessPermit::new(&["files/read"], &[]).unwrap();
    let all = "\n  - permit: all\n    actions: ['*']";
    let permit = PolicyWorld::with(all, PolicyMode::Enforce, Some(deny), HubConfig::default()).await;
    for (path, message) in [
        ("/mcp", tool_call(json!(1), "files__Delete_all", json!({}))),
        ("/mcp", tool_call(json!(1), "files__unknown", json!({}))),
        ("/servers/files/mcp", tool_call(json!(1), "Delete_all", json!({}))),
        ("/mcp", modern(json!(1), "prompts/get", json!({"name": "files__admin_greet"}))),
        ("/mcp", modern(json!(1), "resources/read", json!({"uri": "tsugi://files/file:///secret/a"}))),
    ] {
        let (by_policy, by_permit) = (policy.modern(path, &message).await, permit.modern(path, &message).await);
        assert_eq!((by_policy.status, &by_policy.body), (by_permit.status, &by_permit.body), "{message}");
        assert_eq!(by_policy.status, 403);
        assert!(!by_policy.body.contains("deletes") && !by_policy.body.contains("policy"), "{}", by_policy.body);
    }
    assert!(policy.ran().is_empty() && permit.ran().is_empty());
}

#[tokio::test]
async fn lists_show_what_may_be_seen_in_both_eras_and_to_rest() {
    let world = PolicyWorld::of(CAREFUL, PolicyMode::Enforce).await;
    let listed = |method: &'static str| {
        let world = &world;
        async move { world.modern("/mcp", &modern(json!(1), method, json!({}))).await.body }
    };
    let tools = listed("tools/list").await;
    assert!(tools.contains("files__read") && tools.contains("\"private\""), "{tools}");
    for hidden in ["files__write", "files__Delete_all", "other__"] {
        assert!(!tools.contains(hidden), "{hidden}: {tools}");
    }
    let prompts = listed("prompts/list").await;
    assert!(prompts.contains("files__greet") && !prompts.contains("admin_greet"), "{prompts}");
    let resources = listed("resources/list").await;
    assert!(resources.contains("file:///pub/a") && !resources.contains("secret"), "{resources}");
    let single = world.modern("/servers/files/mcp", &modern(json!(1), "tools/list", json!({}))).await.body;
    assert!(single.contains("\"read\"") && !single.contains("write") && !single.contains("Delete"), "{single}");
    let rest = world.client.send("GET", "/mcp/tools", &[("X-Api-Key", &world.user)], "").await.body;
    assert!(rest.contains("\"read\"") && !rest.contains("write") && !rest.contains("other"), "{rest}");
    // Of a server of which nothing may be seen not even a greeting comes.
    let other = world.modern("/servers/other/mcp", &modern(json!(1), "server/discover", json!({}))).await;
    assert!(other.status == 403 && !other.body.contains("secret words"), "{other:?}");
    assert!(!listed("server/discover").await.contains("other"), "instructions of other servers");
}

#[tokio::test]
async fn prompts_addresses_methods_and_completions_are_asked_about_too() {
    let world = PolicyWorld::of(CAREFUL, PolicyMode::Enforce).await;
    for (message, expected) in [
        (modern(json!(1), "prompts/get", json!({"name": "greet"})), "greet"),
        (modern(json!(1), "resources/read", json!({"uri": "file:///pub/a"})), "file:///pub/a"),
        (
            modern(
                json!(1),
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": ""}}),
            ),
            "completion/complete",
        ),
    ] {
        let got = world.modern("/servers/files/mcp", &message).await;
        assert_eq!((got.status, world.ran()), (200, vec![expected.to_owned()]), "{got:?}");
    }
    for message in [
        modern(json!(1), "prompts/get", json!({"name": "admin_greet"})),
        modern(json!(1), "resources/read", json!({"uri": "file:///secret/a"})),
        modern(json!(1), "resources/read", json!({"uri": "file:///pub/../secret/a"})),
        modern(
            json!(1),
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "admin_greet"}, "argument": {"name": "a", "value": ""}}),
        ),
        modern(json!(1), "tasks/get", json!({"taskId": "t"})),
        modern(json!(1), "vendor/x", json!({})),
    ] {
        let got = world.modern("/servers/files/mcp", &message).await;
        assert_eq!((got.status, world.ran()), (403, Vec::new()), "{message} {got:?}");
    }
}

#[tokio::test]
async fn a_forbidden_name_is_forbidden_under_every_spelling() {
    let world = PolicyWorld::of(CAREFUL, PolicyMode::Enforce).await;
    for name in ["Delete_all", "delete_all", "DELETE_ALL", "Delete_all.", "DELETE_all.."] {
        world.everywhere(name, json!({})).await;
    }
    assert_eq!(world.ran(), Vec::<String>::new());
}

#[tokio::test]
async fn tool_search_finds_and_calls_only_what_the_policy_lets_it() {
    let shown = HubConfig { listing: ToolListing::Search, ..HubConfig::default() };
    let world = PolicyWorld::with(CAREFUL, PolicyMode::Enforce, None, shown).await;
    let found = world
        .modern("/mcp", &tool_call(json!(1), "search_tools", json!({"query": "read write delete all", "limit": 20})))
        .await;
    assert!(
        found.body.contains("files__read")
            && !found.body.contains("Delete_all")
            && !found.body.contains("files__write"),
        "{found:?}"
    );
    let through = |arguments: Value| tool_call(json!(1), "call_tool", arguments);
    world.modern("/mcp", &through(json!({"name": "files__Delete_all", "arguments": {}}))).await;
    // What counts are the arguments of the tool, not those of the tool that calls it.
    world
        .modern("/mcp", &through(json!({"name": "files__write", "path": "/pub/x", "arguments": {"path": "/etc/x"}})))
        .await;
    assert_eq!(world.ran(), Vec::<String>::new());
    world.modern("/mcp", &through(json!({"name": "files__write", "arguments": {"path": "/pub/x"}}))).await;
    assert_eq!(world.ran(), ["write"]);
}

#[tokio::test]
async fn control_is_asked_about_even_for_administrators() {
    let no_restarts = format!(
        "{CAREFUL}\n  - forbid: no-restarts\n    actions: [control]\n    resources: [files/restart, other]\n  - forbid: no-strangers\n    actions: [connectUpstream]"
    );
    let world = PolicyWorld::of(&no_restarts, PolicyMode::Enforce).await;
    let ask = |verb: &'static str, path: &'static str, body: &'static str| {
        let headers = [("X-Api-Key", world.admin.as_str()), ("Content-Type", "application/json")];
        let world = &world;
        async move { world.client.send(verb, path, &headers, body).await.status }
    };
    assert_eq!(ask("GET", "/servers", "").await, 200);
    assert_eq!(ask("POST", "/servers/files/restart", "{}").await, 403);
    assert_eq!(ask("POST", "/servers/other/stop", "{}").await, 403);
    assert_eq!(ask("POST", "/servers", r#"{"name": "evil", "url": "http://127.0.0.1:9/"}"#).await, 403);
    assert!(world.hub.manager().server("evil").is_none());
    assert_eq!(ask("GET", "/servers/files/logs", "").await, 200);
}

#[tokio::test]
async fn in_shadow_mode_everything_passes_and_what_would_not_is_counted_once() {
    let world = PolicyWorld::of(CAREFUL, PolicyMode::Shadow).await;
    let seen = world.everywhere("Delete_all", json!({})).await;
    assert!(seen.iter().all(|(_, is_refused, _)| !is_refused), "{seen:?}");
    assert_eq!(world.ran().len(), seen.len());
    let counted = format!("tsugi_policy_shadow_denied_total{{policy=\"deletes\"}} {}", seen.len());
    let metrics = world.metrics().await;
    assert!(metrics.contains(&counted), "{counted} is not in {metrics}");
    world.everywhere("read", json!({})).await;
    assert!(world.metrics().await.contains(&counted), "what is permitted is not counted");
    let tools = world.modern("/mcp", &modern(json!(1), "tools/list", json!({}))).await.body;
    assert!(tools.contains("files__Delete_all") && tools.contains("other__read"), "{tools}");
}

#[tokio::test]
async fn tags_and_addresses_decide_and_other_rules_hold_at_once() {
    let world = PolicyWorld::of(
        "\n  - permit: tagged\n    when: '\"tagged\" in resource.tags && inNetwork(context.address, \"127.0.0.0/8\")'",
        PolicyMode::Enforce,
    )
    .await;
    let good = world.everywhere("read", json!({})).await;
    assert_eq!(world.ran().len(), good.len(), "{good:?}");
    assert_eq!(world.modern("/mcp", &tool_call(json!(1), "other__read", json!({}))).await.status, 403);
    let elsewhere = rules("\n  - permit: elsewhere\n    when: inNetwork(context.address, \"10.0.0.0/8\")");
    world.guard.replace_policy(Some(PolicyGuard::new(elsewhere, PolicyMode::Enforce)));
    let refused = world.everywhere("read", json!({})).await;
    assert!(refused.iter().all(|(_, is_refused, _)| *is_refused) && world.ran().is_empty(), "{refused:?}");
    world.guard.replace_policy(None);
    assert_eq!(world.everywhere("read", json!({})).await.len(), world.ran().len());
}

/// N38: what must never open anything, beside the good case.
#[tokio::test]
async fn errors_large_arguments_and_empty_rules_open_nothing() {
    let large = json!({"path": "/pub/x", "padding": "x".repeat(1 << 20)});
    for (text, arguments) in [
        (CAREFUL, large.clone()),
        ("\n  - permit: all\n  - forbid: f\n    when: context.arguments.path == \"/secret\"", large.clone()),
        ("\n  - permit: all\n  - forbid: f\n    when: context.arguments.force", json!({})),
        ("\n  - permit: p\n    when: context.arguments.a.b.c == 1", json!({"a": 1})),
        ("\n  - forbid: only\n    resources: [files/other]", json!({})),
        ("  []", json!({})),
    ] {
        let world = PolicyWorld::of(text, PolicyMode::Enforce).await;
        let seen = world.everywhere("write", arguments).await;
        assert!(seen.iter().all(|(_, is_refused, _)| *is_refused), "{text} {seen:?}");
        assert_eq!(world.ran(), Vec::<String>::new(), "{text}");
    }
    // `allow: []` of a key stays nothing, whatever a policy permits.
    let nothing = AccessPermit::new(&[] as &[&str], &[]).unwrap();
    let all = "\n  - permit: all\n    actions: ['*']";
    let shut = PolicyWorld::with(all, PolicyMode::Enforce, Some(nothing), HubConfig::default()).await;
    shut.everywhere("read", json!({})).await;
    assert_eq!(shut.ran(), Vec::<String>::new());
    let open = PolicyWorld::of(all, PolicyMode::Enforce).await;
    let good = open.everywhere("write", large).await;
    assert_eq!(open.ran().len(), good.len(), "{good:?}");
}
