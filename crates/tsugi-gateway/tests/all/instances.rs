//! A server with an instance per session, seen from its sessions: who shares a process, and when one ends.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tsugi_client::config::{EraChoice, InstancePolicy};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, HubConfig};
use tsugi_process::JobCommand;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use crate::faults::{BASE, JSON, initialize, legacy_call, open_session, tool_call};
use crate::world::*;

const VERSION: &str = "2025-06-18";

/// A gateway with one server, `s`, that has an instance per session.
struct World {
    scripted: Scripted,
    handle: GatewayHandle,
    client: Client,
    _manager: Manager,
}

async fn world(config: GatewayConfig) -> World {
    let scripted = Scripted::new(Script::legacy());
    let command = JobCommand::new(scripted.program()).args(scripted.args());
    let command = scripted.env().into_iter().fold(command, |command, (name, value)| command.env(name, value));
    let mut server = ServerConfig::new("s", ConnectTarget::stdio(command));
    (server.era, server.instances) = (EraChoice::Legacy, InstancePolicy::PerSession);
    let manager = Manager::new(ManagerOptions::default());
    manager.register(server).unwrap().ready(wait::PATIENCE).await.unwrap();
    let (handle, _) = Gateway::serve_manager(config, manager.clone(), HubConfig::default()).await.unwrap();
    let client = Client::of(&handle);
    World { scripted, handle, client, _manager: manager }
}

impl World {
    /// The process that serves this session.
    async fn pid(&self, session: &str) -> u64 {
        let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session), ("MCP-Protocol-Version", VERSION)];
        let call = legacy_call(json!(1), "s__about", json!({})).to_string();
        pid_in(&self.client.send("POST", "/mcp", &headers, &call).await.json())
    }

    /// The first instance, which tells what the server offers, and those of sessions.
    async fn has_processes(&self, count: usize) -> bool {
        wait::until(|| self.scripted.mark().count() == count).await
    }
}

fn pid_in(answer: &Value) -> u64 {
    answer["result"]["structuredContent"]["pid"].as_u64().unwrap_or_else(|| panic!("no pid: {answer}"))
}

#[tokio::test]
async fn each_legacy_session_has_a_process_of_its_own_that_ends_with_it() {
    let world = world(GatewayConfig::on_free_port()).await;
    let one = open_session(&world.client, VERSION, &[]).await;
    let two = open_session(&world.client, VERSION, &[]).await;
    let (first, second) = (world.pid(&one).await, world.pid(&two).await);
    assert_ne!(first, second, "two sessions share a process");
    assert_eq!(world.pid(&one).await, first, "a session keeps its own");
    assert!(world.has_processes(3).await);
    let headers = [("Mcp-Session-Id", one.as_str()), ("MCP-Protocol-Version", VERSION)];
    assert_eq!(world.client.send("DELETE", "/mcp", &headers, "").await.status, 200);
    assert!(world.has_processes(2).await, "a process outlives its session");
    assert_eq!(world.pid(&two).await, second, "the other session is not touched");
}

#[tokio::test]
async fn a_session_that_makes_room_for_another_takes_its_process_along() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.sessions = 1;
    let world = world(config).await;
    let one = open_session(&world.client, VERSION, &[]).await;
    world.pid(&one).await;
    assert!(world.has_processes(2).await);
    open_session(&world.client, VERSION, &[]).await;
    assert!(world.has_processes(1).await);
}

#[tokio::test]
async fn each_web_socket_has_a_process_of_its_own_that_ends_with_it() {
    let world = world(GatewayConfig::on_free_port()).await;
    let url = world.handle.url().replace("http", "ws") + "/ws";
    let mut sockets = Vec::new();
    for _ in 0..2 {
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        let mut ask = async |message: Value| {
            let id = message["id"].clone();
            socket.send(Message::text(message.to_string())).await.unwrap();
            loop {
                let Some(Ok(Message::Text(text))) = socket.next().await else { panic!("the socket is closed") };
                let said: Value = serde_json::from_str(&text).unwrap();
                if said["id"] == id {
                    return said;
                }
            }
        };
        ask(initialize(VERSION)).await;
        let pid = pid_in(&ask(legacy_call(json!(1), "s__about", json!({}))).await);
        sockets.push((pid, socket));
    }
    assert_ne!(sockets[0].0, sockets[1].0, "two clients share a process");
    assert!(world.has_processes(3).await);
    sockets.pop();
    assert!(world.has_processes(2).await, "a process outlives its client");
}

#[tokio::test]
async fn calls_without_a_session_go_by_key_and_without_either_are_refused() {
    let open = world(GatewayConfig::on_free_port()).await;
    let refused = open.client.modern("/mcp", &tool_call(json!(1), "s__about", json!({}))).await.json();
    assert_eq!(refused["error"]["data"]["code"], "PERMISSION_DENIED", "{refused}");
    let body = json!({"server": "s", "toolName": "about", "input": {}}).to_string();
    let refused = open.client.send("POST", "/mcp/call", &[JSON], &body).await;
    assert!(refused.status == 403 && refused.body.contains("tsugi key add"), "{refused:?}");

    let (ann, key_of_ann) = ApiKey::generate("ann");
    let (bob, key_of_bob) = ApiKey::generate("bob");
    let world = world(GatewayConfig { keys: vec![key_of_ann, key_of_bob], ..GatewayConfig::on_free_port() }).await;
    let pid = async |key: &str| {
        let message = tool_call(json!(1), "s__about", json!({}));
        let headers = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", key));
        let got = world.client.send("POST", "/mcp", &headers, &message.to_string()).await;
        got.events().last().map_or_else(|| pid_in(&got.json()), pid_in)
    };
    let own = pid(&ann).await;
    assert_eq!(pid(&ann).await, own);
    assert_ne!(pid(&bob).await, own, "two callers share a process");
}
