//! What reaches the audit log, on every face, and in which order with what reaches the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::audit::{
    AuditEnding, AuditEvent, AuditQuery, AuditSinkStatus, AuditTicket, AuditTrail, CallAuditEntry,
};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Outcome, Reply};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::version::Era;

use crate::faults::{BASE, initialize, legacy_call, tool_call};
use crate::world::*;

/// Everything that happened, in order: what was written, what ran, what was answered.
type Journal = Arc<Mutex<Vec<String>>>;

#[derive(Clone, Default)]
struct FakeTrail {
    journal: Journal,
    eras: Arc<Mutex<Vec<Option<Era>>>>,
    is_full: Arc<AtomicBool>,
    waits: bool,
}

struct FakeEntry(Journal, String);

impl CallAuditEntry for FakeEntry {
    fn end(self: Box<Self>, ending: AuditEnding<'_>) {
        let how = match ending {
            AuditEnding::Abandoned => "abandoned",
            AuditEnding::Outcome(Outcome::Complete(_)) => "complete",
            AuditEnding::Outcome(Outcome::InputRequired(_)) => "asked",
            AuditEnding::Outcome(Outcome::Failed(_)) => "failed",
        };
        self.0.lock().push(format!("ended {} {how}", self.1));
    }
}

impl AuditTrail for FakeTrail {
    fn begin(&self, call: &Call, server: &str) -> Result<AuditTicket, Fault> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(Fault::new(FaultCode::AuditUnavailable, "full"));
        }
        let what = format!("{server}/{}", call.subject().unwrap_or_default());
        self.journal.lock().push(format!("begun {what}"));
        self.eras.lock().push(call.options.era);
        let synced = self.journal.clone();
        let on_disk = async move {
            tokio::task::yield_now().await;
            synced.lock().push("synced".to_owned());
            Ok(())
        };
        let on_disk = self.waits.then(|| Box::pin(on_disk) as futures_util::future::BoxFuture<'static, _>);
        Ok(AuditTicket { entry: Box::new(FakeEntry(self.journal.clone(), what)), on_disk })
    }

    fn look(&self, query: &AuditQuery) -> Result<Value, Fault> {
        Ok(json!({"kind": query.kind, "lines": self.journal.lock().len()}))
    }

    fn sinks(&self) -> Vec<AuditSinkStatus> {
        vec![AuditSinkStatus { name: "file".to_owned(), is_up: false, waiting: 3, lost: 2 }]
    }

    fn note(&self, event: &AuditEvent<'_>) {
        self.journal.lock().push(match event {
            AuditEvent::CallDenied { call, by, .. } => {
                format!("denied {} by {}", call.subject().unwrap_or_default(), by.as_str())
            }
            AuditEvent::RequestDenied { route, by, .. } => format!("denied {route} by {}", by.as_str()),
            AuditEvent::CredentialRefused { address } => format!("wrong credential from {}", address.unwrap_or("-")),
            AuditEvent::TokenRefused { error, .. } => format!("refused a token: {}", error.code()),
            AuditEvent::SignedIn { address, .. } => format!("signed in from {}", address.unwrap_or("-")),
            AuditEvent::SignedOut { .. } => "signed out".to_owned(),
            AuditEvent::ServerOrdered { order, server, is_done, .. } => format!("{order} {server} {is_done}"),
        });
    }
}

/// A server whose tool `touch` has an effect, and whose tool `hang` never answers.
fn effectful(journal: Journal) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "prompts": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "up", "version": "1"}}
        })),
        Method::ToolsList => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            listed("tools", json!([tool("touch"), tool("hang"), tool("secret")]))
        }
        Method::PromptsList => listed("prompts", json!([{"name": "hello"}])),
        Method::ToolsCall if call.subject().as_deref() == Some("hang") => {
            journal.lock().push("ran hang".to_owned());
            Reply::from_future(std::future::pending())
        }
        Method::ToolsCall | Method::PromptsGet => {
            journal.lock().push(format!("ran {}", call.subject().unwrap_or_default()));
            complete(json!({"resultType": "complete", "content": [], "messages": []}))
        }
        _ => complete(json!({"resultType": "complete"})),
    })
}

struct AuditedWorld {
    client: Client,
    key: String,
    admin: String,
    trail: FakeTrail,
    _running: (Manager, GatewayHandle),
}

impl AuditedWorld {
    async fn new(waits: bool) -> Self {
        let trail = FakeTrail { waits, ..FakeTrail::default() };
        let (key, ann) = ApiKey::generate("ann");
        let (admin, root) = ApiKey::generate("root");
        let ann = ann.with_permit(AccessPermit::new(&["*"], &["up/secret"]).unwrap());
        let config = GatewayConfig { keys: vec![ann, root.with_role(KeyRole::Admin)], ..GatewayConfig::on_free_port() };
        let manager = Manager::new(ManagerOptions::default());
        let server = ServerConfig::new("up", ConnectTarget::InProcess(effectful(trail.journal.clone())));
        manager.register(server).unwrap().ready(Duration::from_secs(60)).await.unwrap();
        let hub = Hub::new(manager.clone(), HubConfig::default(), Arc::new(AccessGuard::new(&config)));
        hub.record_to(Arc::new(trail.clone()));
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), key, admin, trail, _running: (manager, handle) }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.trail.journal.lock())
    }

    async fn modern(&self, path: &str, message: &Value) -> Got {
        let own = modern_headers(message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", &self.key));
        self.client.send("POST", path, &headers, &message.to_string()).await
    }

    async fn post(&self, path: &str, body: &Value, extra: &[(&str, &str)]) -> Got {
        let headers = [&BASE[..], &[("X-Api-Key", self.key.as_str())], extra].concat();
        self.client.send("POST", path, &headers, &body.to_string()).await
    }
}

/// What a careful gateway does with a call that runs: the line first, then the effect, then the second line.
const ONE_CALL: [&str; 3] = ["begun up/touch", "ran touch", "ended up/touch complete"];

#[tokio::test]
async fn every_face_writes_a_call_down_before_it_runs_and_after() {
    let world = AuditedWorld::new(false).await;
    world.modern("/mcp", &tool_call(json!(1), "up__touch", json!({}))).await;
    assert_eq!(world.take(), ONE_CALL, "modern");
    world.modern("/servers/up/mcp", &tool_call(json!(1), "touch", json!({}))).await;
    assert_eq!(world.take(), ONE_CALL, "modern, one server");
    let opened = world.post("/mcp", &initialize("2025-11-25"), &[]).await;
    let session = opened.header("mcp-session-id").unwrap();
    let in_session = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
    world.post("/mcp", &legacy_call(json!(1), "up__touch", json!({})), &in_session).await;
    assert_eq!(world.take(), ONE_CALL, "legacy");
    world.post("/rpc", &legacy_call(json!(1), "up__touch", json!({})), &[]).await;
    assert_eq!(world.take(), ONE_CALL, "rpc");
    world.post("/mcp/call", &json!({"server": "up", "toolName": "touch", "input": {}}), &[]).await;
    assert_eq!(world.take(), ONE_CALL, "rest");
    world.post("/tools/up/touch", &json!({}), &[]).await;
    assert_eq!(world.take(), ONE_CALL, "one route per tool");
    world.modern("/mcp", &modern(json!(1), "prompts/get", json!({"name": "up__hello"}))).await;
    assert_eq!(world.take(), ["begun up/hello", "ran hello", "ended up/hello complete"], "prompts");
    let (new, old) = (Some(Era::Modern), Some(Era::Legacy));
    assert_eq!(*world.trail.eras.lock(), [new, new, old, None, None, None, new]);
    // Lists come from what is known; no line is written for them.
    world.modern("/mcp", &modern(json!(1), "tools/list", json!({}))).await;
    assert_eq!(world.take(), [] as [&str; 0]);
}

#[tokio::test]
async fn each_call_of_a_batch_has_both_lines() {
    let world = AuditedWorld::new(false).await;
    let call = json!({"server": "up", "toolName": "touch", "input": {}});
    let got = world.post("/mcp/batch", &json!({"calls": [call, call, call]}), &[]).await;
    assert_eq!(got.status, 200, "{got:?}");
    let journal = world.take();
    for line in ONE_CALL {
        assert_eq!(journal.iter().filter(|entry| *entry == line).count(), 3, "{line}: {journal:?}");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_the_disk_is_sent_after_it() {
    let world = AuditedWorld::new(true).await;
    let got = world.modern("/mcp", &tool_call(json!(1), "up__touch", json!({}))).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(world.take(), ["begun up/touch", "synced", "ran touch", "ended up/touch complete"]);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_refuses_every_face_and_nothing_runs() {
    let world = AuditedWorld::new(false).await;
    world.trail.is_full.store(true, Ordering::SeqCst);
    for (path, tool) in [("/mcp", "up__touch"), ("/servers/up/mcp", "touch")] {
        let got = world.modern(path, &tool_call(json!(1), tool, json!({}))).await;
        assert_eq!((got.status, got.error_code()), (503, -31012), "{got:?}");
    }
    let got = world.post("/mcp/call", &json!({"server": "up", "toolName": "touch", "input": {}}), &[]).await;
    assert_eq!((got.status, got.json()["error"]["code"].clone()), (503, json!("AUDIT_UNAVAILABLE")), "{got:?}");
    let got = world.post("/rpc", &legacy_call(json!(1), "up__touch", json!({})), &[]).await;
    assert_eq!(got.error_code(), -31012, "{got:?}");
    assert_eq!(world.take(), [] as [&str; 0]);
    world.trail.is_full.store(false, Ordering::SeqCst);
    world.modern("/mcp", &tool_call(json!(1), "up__touch", json!({}))).await;
    assert_eq!(world.take(), ONE_CALL);
}

#[tokio::test]
async fn a_caller_that_leaves_ends_its_entry() {
    let world = AuditedWorld::new(false).await;
    let message = tool_call(json!(1), "up__hang", json!({}));
    let own = modern_headers(&message);
    let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("X-Api-Key", &world.key));
    let request = world.client.request("POST", "/mcp", &headers, &message.to_string());
    let exchange = Exchange::send(world.client.0, &request).await;
    until(|| world.trail.journal.lock().iter().any(|line| line == "ran hang")).await;
    drop(exchange);
    until(|| world.trail.journal.lock().iter().any(|line| line == "ended up/hang abandoned")).await;
    assert_eq!(world.take(), ["begun up/hang", "ran hang", "ended up/hang abandoned"]);
}

#[tokio::test]
async fn refusals_are_written_down_with_the_rule_that_decided() {
    let world = AuditedWorld::new(false).await;
    world.modern("/mcp", &tool_call(json!(1), "up__secret", json!({}))).await;
    world.modern("/servers/up/mcp", &tool_call(json!(1), "secret", json!({}))).await;
    assert_eq!(world.take(), ["denied up__secret by permit", "denied secret by permit"]);
    // A key that may not control.
    let headers = [("X-Api-Key", world.key.as_str())];
    let got = world.client.send("POST", "/servers/up/restart", &headers, "").await;
    assert_eq!(got.status, 403, "{got:?}");
    assert_eq!(world.take(), ["denied /servers/{}/restart by role"]);
    let got = world.client.send("POST", "/mcp", &[("X-Api-Key", "wrong")], "{}").await;
    assert_eq!(got.status, 401, "{got:?}");
    assert_eq!(world.take(), ["wrong credential from 127.0.0.1"]);
    // Without a credential nothing was guessed.
    world.client.send("POST", "/mcp", &[], "{}").await;
    assert_eq!(world.take(), [] as [&str; 0]);
}

#[tokio::test]
async fn orders_and_sign_ins_are_written_down() {
    let world = AuditedWorld::new(false).await;
    let admin = [("X-Api-Key", world.admin.as_str())];
    world.client.send("POST", "/servers/up/stop", &admin, "").await;
    world.client.send("POST", "/servers/nothing/start", &admin, "").await;
    assert_eq!(world.take(), ["stop up true", "start nothing false"]);
    let body = json!({"key": world.admin}).to_string();
    let json_body = [("Content-Type", "application/json")];
    let signed_in = world.client.send("POST", "/api/session", &json_body, &body).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    assert_eq!(world.take(), ["signed in from 127.0.0.1"]);
    let wrong = world.client.send("POST", "/api/session", &json_body, r#"{"key":"wrong"}"#).await;
    assert_eq!(wrong.status, 401, "{wrong:?}");
    assert_eq!(world.take(), ["wrong credential from 127.0.0.1"]);
}

#[tokio::test]
async fn lines_that_are_lost_or_wait_are_in_the_metrics() {
    let world = AuditedWorld::new(false).await;
    let admin = [("X-Api-Key", world.admin.as_str())];
    let text = world.client.send("GET", "/metrics", &admin, "").await.body;
    for line in [
        r#"tsugi_audit_up{sink="file"} 0"#,
        r#"tsugi_audit_waiting_lines{sink="file"} 3"#,
        r#"tsugi_audit_lost_lines_total{sink="file"} 2"#,
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    // Two scrapes do not add up what was lost.
    let again = world.client.send("GET", "/metrics", &admin, "").await.body;
    assert!(again.contains(r#"tsugi_audit_lost_lines_total{sink="file"} 2"#), "{again}");
}

#[tokio::test]
async fn only_administrators_read_the_log_in_the_dashboard() {
    let world = AuditedWorld::new(false).await;
    let look = |key: String| {
        let client = &world.client;
        async move { client.send("GET", "/api/audit?kind=denied", &[("X-Api-Key", key.as_str())], "").await }
    };
    let shown = look(world.admin.clone()).await;
    assert_eq!((shown.status, shown.json()), (200, json!({"kind": "denied", "lines": 0})), "{shown:?}");
    assert_eq!(look(world.key.clone()).await.status, 403);
    let session = |key: String| {
        let client = &world.client;
        async move { client.send("GET", "/api/session", &[("X-Api-Key", key.as_str())], "").await.json()["audit"].clone() }
    };
    assert_eq!((session(world.admin.clone()).await, session(world.key.clone()).await), (json!(true), json!(false)));
}
