//! The rows of the fault matrix that a gateway meets from downstream; each check also runs against a careless
//! gateway (see `control`), where it must fail.

mod agree;
mod careless;
mod control;
mod door;
mod ids;
mod input;
mod leave;
mod line;
mod load;
mod mixed;
mod session;
mod stop;
mod upstream;

use std::any::Any;
use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::{Backend, Gateway, GatewayConfig, Hub, HubConfig};
use tsugi_protocol::answer::Answer;

use crate::world::*;
use careless::{Careless, Manner};
use upstream::Upstream;

/// What a check found: nothing, or what is wrong.
pub(crate) type Verdict = Result<(), String>;

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// How many of something: the small number, or the full one where `TSUGI_TEST_LONG` is set.
pub(crate) fn scaled(small: usize, full: usize) -> usize {
    if std::env::var_os("TSUGI_TEST_LONG").is_some() { full } else { small }
}

/// A gateway under test, and what stands behind it.
pub(crate) struct Subject {
    pub(crate) client: Client,
    pub(crate) upstream: Upstream,
    /// The same without a socket, for clients on standard streams.
    pub(crate) answer: Arc<dyn Answer>,
    _running: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// tsugi itself, with one answer behind it.
    pub(crate) async fn tsugi() -> Self {
        Self::with(GatewayConfig::on_free_port()).await
    }

    /// tsugi itself under these settings.
    pub(crate) async fn with(config: GatewayConfig) -> Self {
        let upstream = Upstream::default();
        let answer = upstream.answer();
        let handle = serve_with(config, answer.clone()).await;
        Self { client: Client::of(&handle), upstream, answer, _running: Box::new(handle) }
    }

    /// tsugi itself, with the answer as the server `up` of a hub: its tools are called `up__…`, and REST knows them.
    pub(crate) async fn hub(config: GatewayConfig) -> Self {
        let upstream = Upstream::default();
        let manager = Manager::new(ManagerOptions::default());
        manager.register(ServerConfig::new("up", ConnectTarget::InProcess(upstream.answer()))).unwrap();
        let guard = Arc::new(AccessGuard::new(&config));
        let hub = Hub::new(manager.clone(), HubConfig::default(), guard);
        let answer = hub.all().answer;
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), upstream, answer, _running: Box::new((handle, manager)) }
    }

    /// The careless control.
    pub(crate) async fn careless(manner: Manner) -> Self {
        let upstream = Upstream::default();
        let answer = upstream.answer();
        let careless = Careless::start(answer.clone(), manner).await;
        Self { client: Client(careless.address), upstream, answer, _running: Box::new(careless) }
    }

    /// The legitimate call works.
    pub(crate) async fn works(&self) -> Verdict {
        let got = self.client.modern("/mcp", &tool_call(json!("works"), "echo", json!({"text": "fine"}))).await;
        ensure(got.body.contains(r#""text":"fine""#), || format!("the legitimate call fails: {got:?}"))
    }
}

/// A modern call of a tool.
pub(crate) fn tool_call(id: Value, name: &str, arguments: Value) -> Value {
    modern(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

/// A legacy request.
pub(crate) fn legacy(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A legacy call of a tool.
pub(crate) fn legacy_call(id: Value, name: &str, arguments: Value) -> Value {
    legacy(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

/// The first message of a legacy client.
pub(crate) fn initialize(version: &str) -> Value {
    legacy(
        json!("i"),
        "initialize",
        json!({"protocolVersion": version, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}),
    )
}

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");
pub(crate) const BASE: [(&str, &str); 2] = [JSON, ("Accept", "application/json, text/event-stream")];

/// A legacy session over HTTP; its id. With headers that say who asks.
pub(crate) async fn open_session(client: &Client, version: &str, extra: &[(&str, &str)]) -> String {
    let headers = [&BASE[..], extra].concat();
    let got = client.send("POST", "/mcp", &headers, &initialize(version).to_string()).await;
    got.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {got:?}")).to_owned()
}
