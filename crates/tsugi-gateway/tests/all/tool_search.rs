//! Tool search from outside: what is listed, found and called, in both eras, and what a restricted caller cannot reach.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::hub::tool_search::ToolListing;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call};
use tsugi_protocol::mcp::Method;
use tsugi_schema::tool_name::ToolNaming;

use crate::faults::{BASE, legacy, legacy_call, open_session, tool_call};
use crate::world::*;

/// What servers were asked to run, with its arguments.
type CalledTools = Arc<Mutex<Vec<String>>>;

fn office(called: CalledTools, tools: Value) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "office", "version": "1"}}
        })),
        Method::ToolsList => listed("tools", tools.clone()),
        Method::ToolsCall => {
            let arguments = call.params.get("arguments").map(|raw| raw.as_str().to_owned()).unwrap_or_default();
            called.lock().push(format!("{} {arguments}", call.subject().unwrap_or_default()));
            complete(text("done"))
        }
        _ => complete(json!({"resultType": "complete"})),
    })
}

fn few_tools() -> Value {
    let path = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    json!([
        {"name": "delete_document", "description": "Deletes a document.", "inputSchema": path},
        {"name": "read_document", "description": "Reads a document.", "inputSchema": path},
        {"name": "send_fax", "description": "Sends a fax.", "inputSchema": {"type": "object"}}
    ])
}

fn many_tools(count: usize) -> Value {
    let tool = |n: usize| {
        json!({"name": format!("handle_case{n}_of_kind{}", n % 90), "description": "Handles a case. ".repeat(20),
            "inputSchema": {"type": "object"}})
    };
    (0..count).map(tool).collect()
}

struct SearchWorld {
    client: Client,
    called: CalledTools,
    secret: String,
    hub: Hub,
    _manager: Manager,
    _handle: GatewayHandle,
}

impl SearchWorld {
    async fn of(listing: ToolListing, naming: ToolNaming, tools: Value, deny: &[&str]) -> Self {
        let (secret, key) = ApiKey::generate("ann");
        let key = key.with_permit(AccessPermit::new(&["*"], deny).unwrap());
        let config = GatewayConfig { keys: vec![key], ..GatewayConfig::on_free_port() };
        let (manager, called) = (Manager::new(ManagerOptions::default()), CalledTools::default());
        let server = ConnectTarget::InProcess(office(called.clone(), tools));
        manager.register(ServerConfig::new("office", server)).unwrap();
        let shown = HubConfig { listing, naming, ..HubConfig::default() };
        let hub = Hub::new(manager.clone(), shown, Arc::new(AccessGuard::new(&config)));
        let handle = Gateway::serve(config, Arc::new(hub.clone())).await.unwrap();
        Self { client: Client::of(&handle), called, secret, hub, _manager: manager, _handle: handle }
    }

    async fn searching(deny: &[&str]) -> Self {
        Self::of(ToolListing::Search, ToolNaming::Prefix, few_tools(), deny).await
    }

    async fn send(&self, message: &Value) -> Got {
        let own = modern_headers(message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("X-Api-Key", &self.secret));
        self.client.send("POST", "/mcp", &headers, &message.to_string()).await
    }

    async fn list(&self) -> Value {
        self.send(&modern(json!(1), "tools/list", json!({}))).await.json()["result"]["tools"].clone()
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        self.send(&tool_call(json!(1), name, arguments)).await.json()
    }

    async fn search(&self, query: &str) -> Vec<Value> {
        let answer = self.call("search_tools", json!({"query": query})).await;
        found_in(&answer)
    }
}

fn found_in(answer: &Value) -> Vec<Value> {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let found: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"));
    found["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_search_finds_a_tool_with_its_schema_and_call_tool_calls_it() {
    let world = SearchWorld::searching(&[]).await;
    let listed = world.list().await;
    assert_eq!(names(listed.as_array().unwrap()), ["search_tools", "call_tool"]);
    assert!(listed[0]["description"].as_str().unwrap().contains("- office: document"), "{listed}");

    let found = world.search("erase a file").await;
    assert_eq!(found[0]["name"], "office__delete_document");
    assert_eq!(found[0]["inputSchema"], few_tools()[0]["inputSchema"]);

    let answer = world.call("call_tool", json!({"name": "office__delete_document", "arguments": {"path": "a"}})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    let answer = world.call("office__read_document", json!({"path": "b"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "a tool keeps its own name: {answer}");
    assert_eq!(*world.called.lock(), [r#"delete_document {"path":"a"}"#, r#"read_document {"path":"b"}"#]);
}

#[tokio::test]
async fn legacy_clients_search_too() {
    let world = SearchWorld::searching(&[]).await;
    let key = ("X-Api-Key", world.secret.as_str());
    let session = open_session(&world.client, "2025-06-18", &[key]).await;
    let headers =
        [&BASE[..], &[key, ("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-06-18")]].concat();
    let send = async |message: Value| world.client.send("POST", "/mcp", &headers, &message.to_string()).await;
    let answer = |got: Got| if got.body.starts_with('{') { got.json() } else { got.events().pop().unwrap() };

    let listed = answer(send(legacy(json!(1), "tools/list", json!({}))).await);
    assert_eq!(names(listed["result"]["tools"].as_array().unwrap()), ["search_tools", "call_tool"]);
    let found = answer(send(legacy_call(json!(2), "search_tools", json!({"query": "fax"}))).await);
    assert_eq!(names(&found_in(&found)), ["office__send_fax"]);
    let done = answer(send(legacy_call(json!(3), "call_tool", json!({"name": "office__send_fax"}))).await);
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
}

#[tokio::test]
async fn a_denied_tool_is_neither_named_nor_found_nor_callable() {
    let world = SearchWorld::searching(&["office/delete_*"]).await;
    let listed = world.list().await.to_string();
    assert!(!listed.contains("delete"), "{listed}");
    for query in ["delete a document", "office__delete_document", "delete_document"] {
        let found = world.search(query).await;
        assert!(!names(&found).contains(&"office__delete_document"), "{query}: {found:?}");
    }
    // The same answer as for a tool that does not exist, and as for a call by name.
    let arguments = json!({"path": "a"});
    let through = world.call("call_tool", json!({"name": "office__delete_document", "arguments": arguments})).await;
    let missing = world.call("call_tool", json!({"name": "office__no_such_thing", "arguments": arguments})).await;
    let by_name = world.call("office__delete_document", arguments).await;
    assert_eq!(through["error"], by_name["error"]);
    assert_eq!(through["error"]["code"], missing["error"]["code"]);
    assert!(through["error"]["code"].is_number(), "{through}");
    assert!(world.called.lock().is_empty());
}

#[tokio::test]
async fn arguments_are_validated_against_the_schema_of_the_tool_that_is_called() {
    let world = SearchWorld::searching(&[]).await;
    let through = world.call("call_tool", json!({"name": "office__read_document", "arguments": {"path": 7}})).await;
    let by_name = world.call("office__read_document", json!({"path": 7})).await;
    assert_eq!(through, by_name);
    assert!(world.called.lock().is_empty(), "{through}");
}

#[tokio::test]
async fn call_tool_says_what_is_wrong_with_its_own_arguments() {
    let world = SearchWorld::searching(&[]).await;
    for arguments in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "call_tool", "arguments": {"name": "office__send_fax"}}),
        json!({"name": "search_tools", "arguments": {"query": "fax"}}),
        json!({"name": "office__send_fax", "arguments": "{}"}),
    ] {
        let answer = world.call("call_tool", arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{arguments} {answer}");
    }
    for arguments in [json!({}), json!({"query": "  "})] {
        assert_eq!(world.call("search_tools", arguments).await["result"]["isError"], true);
    }
    assert!(world.called.lock().is_empty());
}

#[tokio::test]
async fn the_list_is_small_for_any_number_of_tools_and_its_bytes_stay_the_same() {
    for count in [527, 5000] {
        let world = SearchWorld::of(ToolListing::Search, ToolNaming::Prefix, many_tools(count), &[]).await;
        let message = modern(json!(1), "tools/list", json!({}));
        let first = world.send(&message).await.body;
        let tools = serde_json::from_str::<Value>(&first).unwrap()["result"]["tools"].to_string();
        assert!(tools.len() <= 3600, "{count} tools: {} bytes", tools.len());
        world.search("handle a case").await;
        assert_eq!(world.send(&message).await.body, first);
    }
}

#[tokio::test]
async fn auto_searches_only_when_the_callers_own_list_is_large() {
    let listed = async |tools: Value, deny: &[&str]| {
        let world = SearchWorld::of(ToolListing::Auto, ToolNaming::Prefix, tools, deny).await;
        world.list().await.as_array().unwrap().len()
    };
    assert_eq!(listed(few_tools(), &[]).await, 3);
    assert_eq!(listed(many_tools(200), &[]).await, 2);
    assert_eq!(listed(many_tools(200), &["office/*_of_kind?*"]).await, 0, "what is denied does not count");
}

#[tokio::test]
async fn search_can_be_switched_while_the_gateway_runs() {
    let world = SearchWorld::of(ToolListing::All, ToolNaming::Prefix, few_tools(), &[]).await;
    assert_eq!(world.list().await.as_array().unwrap().len(), 3);
    let off = world.call("search_tools", json!({"query": "fax"})).await;
    assert!(off["error"].is_object(), "without search there is no such tool: {off}");
    world.hub.reconfigure(HubConfig { listing: ToolListing::Search, ..HubConfig::default() });
    while world.list().await.as_array().unwrap().len() != 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(names(&world.search("fax").await), ["office__send_fax"]);
}

#[tokio::test]
async fn a_servers_tool_cannot_take_the_place_of_the_search() {
    let schema = json!({"type": "object"});
    let tools = json!([{"name": "call_tool", "inputSchema": schema}, {"name": "search_tools", "inputSchema": schema}]);
    let world = SearchWorld::of(ToolListing::Search, ToolNaming::Bare, tools.clone(), &[]).await;
    assert_eq!(world.call("call_tool", json!({})).await["result"]["isError"], true);
    assert!(world.search("call a tool").await.is_empty());
    assert!(world.called.lock().is_empty());
    // Without search the names are the server's, as ever.
    let world = SearchWorld::of(ToolListing::All, ToolNaming::Bare, tools, &[]).await;
    world.call("call_tool", json!({})).await;
    assert_eq!(*world.called.lock(), ["call_tool {}"]);
}
