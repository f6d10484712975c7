//! Many servers as one: names, addresses, lists, changes, gates.

mod pages;
mod settings;
mod subscribe;

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_client::config::BreakerPolicy;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::hub::presentation::ServerPresentation;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, InputRequired, Outcome, Reply};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcError;
use tsugi_schema::tool_name::ToolNaming;

use crate::world::*;

/// A server named after its mark, which it puts into every answer.
fn marked(mark: &'static str) -> Arc<dyn Answer> {
    script(move |call| answer(mark, &call))
}

fn answer(mark: &str, call: &Call) -> Reply {
    let subject = call.subject().unwrap_or_default().into_owned();
    match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "instructions": format!("I am {mark}"),
            "capabilities": {"tools": {}, "prompts": {}, "resources": {"subscribe": true}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": mark, "version": "1"}}
        })),
        Method::ToolsList => {
            complete(json!({"resultType": "complete", "tools": tools(mark), "ttlMs": 0, "cacheScope": "public"}))
        }
        Method::PromptsList => complete(
            json!({"resultType": "complete", "prompts": [{"name": "greet"}], "ttlMs": 0, "cacheScope": "public"}),
        ),
        Method::ResourcesList => {
            complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "resources": [
                {"uri": "shared://x", "name": "x"}, {"uri": format!("{mark}://own"), "name": "own"}
            ]}))
        }
        Method::TemplatesList => {
            complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "resourceTemplates": [
                {"uriTemplate": format!("{mark}://item/{{id}}"), "name": "item"}
            ]}))
        }
        Method::ToolsCall => tool(mark, &subject, call),
        Method::Listen => Reply::from_source(Events(VecDeque::new(), None)),
        _ => complete(json!({"resultType": "complete", "by": mark, "about": subject, "params": call.params.raw()})),
    }
}

fn tools(mark: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"b": {"type": "number"}, "a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "string"}}});
    json!([
        {"name": "echo", "description": "says it again", "inputSchema": schema, "zzz": 1},
        {"name": format!("only_{mark}"), "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "fail", "inputSchema": {"type": "object"}},
        {"name": "ask", "inputSchema": {"type": "object"}}
    ])
}

fn tool(mark: &str, name: &str, call: &Call) -> Reply {
    let arguments = call.params.get("arguments").unwrap_or_else(|| RawJson::literal("{}"));
    match name {
        "fail" => {
            let how: Value = arguments.to().unwrap();
            match how["how"].as_str() {
                Some("error") => complete(
                    json!({"resultType": "complete", "isError": true, "content": [{"type": "text", "text": "it broke"}]}),
                ),
                Some("rpc") => {
                    let data = RawJson::from(json!({"field": "weight_kg"}));
                    Reply::ready(Outcome::error(RpcError::with_data(
                        -32602,
                        "Invalid params: weight_kg must be positive",
                        Some(&data),
                    )))
                }
                Some("text") => {
                    complete(json!({"resultType": "complete", "content": [{"type": "text", "text": "plain words"}]}))
                }
                Some("two") => complete(
                    json!({"resultType": "complete", "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]}),
                ),
                Some("structured") => {
                    complete(json!({"resultType": "complete", "content": [], "structuredContent": {"n": 1.50}}))
                }
                _ => Reply::fault(Fault::new(FaultCode::ServerCrashed, "died").on_server(mark)),
            }
        }
        "ask" => match call.params.get("inputResponses") {
            Some(answers) => complete(text(answers.as_str())),
            None => Reply::ready(Outcome::InputRequired(InputRequired::one(
                "who",
                &Method::RootsList,
                None,
                Some("st".into()),
            ))),
        },
        _ => complete(
            json!({"resultType": "complete", "content": [{"type": "text", "text": json!({"by": mark, "got": arguments.to::<Value>().unwrap()}).to_string()}]}),
        ),
    }
}

struct World {
    handle: GatewayHandle,
    manager: Manager,
    client: Client,
}

impl World {
    async fn of(marks: &[&'static str], config: GatewayConfig, hub: HubConfig) -> Self {
        let manager = Manager::new(ManagerOptions::default());
        for mark in marks {
            manager.register(ServerConfig::new(*mark, ConnectTarget::InProcess(marked(mark)))).unwrap();
        }
        let guard = Arc::new(AccessGuard::new(&config));
        let hub = Hub::new(manager.clone(), hub, guard);
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), handle, manager }
    }

    async fn two() -> Self {
        Self::of(&["a", "b"], GatewayConfig::on_free_port(), HubConfig::default()).await
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        self.client.modern("/mcp", &modern(json!(1), method, params)).await.json()
    }

    async fn tool_names(&self) -> Vec<String> {
        let list = self.ask("tools/list", json!({})).await;
        list["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn post(&self, path: &str, body: Value) -> Got {
        self.client.send("POST", path, &[("Content-Type", "application/json")], &body.to_string()).await
    }

    async fn get(&self, path: &str) -> Got {
        self.client.send("GET", path, &[], "").await
    }

    /// A legacy session at this address.
    async fn legacy<'a>(&'a self, path: &'a str) -> Legacy<'a> {
        let mut session = Legacy { client: &self.client, path, id: None };
        let client = json!({"name": "t", "version": "1"});
        let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        session.id = session.post("initialize", initialize).await.header("mcp-session-id").map(str::to_owned);
        session
    }
}

struct Legacy<'a> {
    client: &'a Client,
    path: &'a str,
    id: Option<String>,
}

impl Legacy<'_> {
    async fn post(&self, method: &str, params: Value) -> Got {
        let mut headers = vec![("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        headers.extend(self.id.as_deref().map(|id| ("Mcp-Session-Id", id)));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.client.send("POST", self.path, &headers, &body).await
    }
}

#[tokio::test]
async fn tools_of_all_servers_are_listed_under_their_names_in_order() {
    let world = World::two().await;
    let names = world.tool_names().await;
    assert_eq!(names, ["a__echo", "a__only_a", "a__fail", "a__ask", "b__echo", "b__only_b", "b__fail", "b__ask"]);
    let list = world.ask("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"][0]["zzz"], 1, "members we do not know survive");
    assert_eq!(world.ask("tools/list", json!({"cursor": "x"})).await["error"]["code"], -32602);
    let called = world.ask("tools/call", json!({"name": "b__echo", "arguments": {"n": 1}})).await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"by":"b","got":{"n":1}}"#);
    let unknown = world.ask("tools/call", json!({"name": "echo"})).await;
    assert_eq!(unknown["error"]["data"]["kind"], "TOOL_NOT_FOUND");
}

#[tokio::test]
async fn a_legacy_client_gets_the_same_list_in_its_own_form() {
    let world = World::two().await;
    let modern_list = world.ask("tools/list", json!({})).await["result"].clone();
    let initialize =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let post = async |session: Option<&str>, method: &str, params: Value| {
        let mut headers = headers.to_vec();
        headers.extend(session.map(|id| ("Mcp-Session-Id", id)));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        world.client.send("POST", "/mcp", &headers, &body).await
    };
    let opened = post(None, "initialize", initialize).await;
    assert_eq!(opened.json()["result"]["serverInfo"]["name"], "tsugi");
    let list = post(opened.header("mcp-session-id"), "tools/list", json!({})).await.json()["result"].clone();
    assert_eq!(list["tools"], modern_list["tools"]);
    assert_eq!(
        list.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["tools"],
        "nothing that only modern clients read"
    );
}

#[tokio::test]
async fn names_are_prefixed_only_where_they_must_be_when_so_configured() {
    let hub = HubConfig { naming: ToolNaming::PrefixOnConflict, ..HubConfig::default() };
    let world = World::of(&["a", "b"], GatewayConfig::on_free_port(), hub).await;
    let names = world.tool_names().await;
    assert!(names.contains(&"a__echo".to_owned()) && names.contains(&"only_b".to_owned()), "{names:?}");
}

#[tokio::test]
async fn addresses_keep_their_form_unless_two_servers_have_them() {
    let world = World::two().await;
    let list = world.ask("resources/list", json!({})).await;
    let uris: Vec<&str> =
        list["result"]["resources"].as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["tsugi://a/shared://x", "a://own", "tsugi://b/shared://x", "b://own"]);
    for (uri, server, own) in
        [("tsugi://b/shared://x", "b", "shared://x"), ("a://own", "a", "a://own"), ("b://item/7", "b", "b://item/7")]
    {
        let read = world.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(
            (read["result"]["by"].as_str(), read["result"]["about"].as_str()),
            (Some(server), Some(own)),
            "{uri}"
        );
    }
    let missing = world.ask("resources/read", json!({"uri": "nobody://x"})).await;
    assert_eq!(missing["error"]["code"], -32602);
}

#[tokio::test]
async fn prompts_and_completions_go_to_their_server_with_its_own_names() {
    let world = World::two().await;
    let got = world.ask("prompts/get", json!({"name": "b__greet"})).await;
    assert_eq!((got["result"]["by"].as_str(), got["result"]["about"].as_str()), (Some("b"), Some("greet")));
    let completion =
        json!({"ref": {"type": "ref/prompt", "name": "a__greet"}, "argument": {"name": "x", "value": "y"}});
    let completed = world.ask("completion/complete", completion).await;
    assert_eq!(completed["result"]["by"], "a");
    assert_eq!(completed["result"]["params"]["ref"]["name"], "greet");
    let template =
        json!({"ref": {"type": "ref/resource", "uri": "b://item/{id}"}, "argument": {"name": "id", "value": ""}});
    assert_eq!(world.ask("completion/complete", template).await["result"]["by"], "b");
}

#[tokio::test]
async fn one_server_is_shown_with_its_own_names() {
    let world = World::two().await;
    let list = world.client.modern("/servers/b/mcp", &modern(json!(1), "tools/list", json!({}))).await.json();
    assert_eq!(list["result"]["tools"][0]["name"], "echo");
    let call = modern(json!(1), "tools/call", json!({"name": "echo"}));
    let called = world.client.modern("/servers/b/mcp", &call).await.json();
    assert_eq!(called["result"]["content"][0]["text"], r#"{"by":"b","got":{}}"#);
}

#[tokio::test]
async fn together_they_can_what_any_of_them_can() {
    let world = World::two().await;
    let discovered = world.ask("server/discover", json!({})).await["result"].clone();
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(discovered["capabilities"]["resources"], json!({"subscribe": true, "listChanged": true}));
    assert_eq!(discovered["instructions"], "a: I am a\n\nb: I am b");
}

#[tokio::test]
async fn a_server_that_appears_later_is_announced() {
    let world = World::two().await;
    world.tool_names().await;
    let listen = modern(json!("s"), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut stream = world.client.open_modern("/mcp", &listen).await;
    stream.read_until("acknowledged").await;
    world.manager.register(ServerConfig::new("c", ConnectTarget::InProcess(marked("c")))).unwrap();
    stream.read_until("notifications/tools/list_changed").await;
    assert!(world.tool_names().await.contains(&"c__echo".to_owned()));
    world.manager.remove("c").await;
    stream.read_until("notifications/tools/list_changed").await;
}

#[tokio::test]
async fn what_a_caller_may_not_use_it_neither_sees_nor_calls() {
    let (secret, key) = ApiKey::generate("ann");
    let permit = AccessPermit::new(&["a/*", "b/only_*"], &["*/fail"]).unwrap();
    let config = GatewayConfig { keys: vec![key.with_permit(permit)], ..GatewayConfig::on_free_port() };
    let world = World::of(&["a", "b"], config, HubConfig::default()).await;
    let send = async |path: &str, method: &str, params: Value| {
        let message = modern(json!(1), method, params);
        let mut headers = modern_headers(&message);
        headers.push(("X-Api-Key", secret.clone()));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        world.client.send("POST", path, &headers, &message.to_string()).await.json()
    };
    let names = |list: &Value| -> Vec<String> {
        list["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&send("/mcp", "tools/list", json!({})).await), ["a__echo", "a__only_a", "a__ask", "b__only_b"]);
    assert_eq!(names(&send("/servers/b/mcp", "tools/list", json!({})).await), ["only_b"]);
    for (path, name) in
        [("/mcp", "b__echo"), ("/mcp", "a__fail"), ("/servers/b/mcp", "echo"), ("/servers/a/mcp", "fail")]
    {
        let denied = send(path, "tools/call", json!({"name": name})).await;
        assert_eq!(denied["error"]["code"], -31008, "{path} {name}");
    }
    assert!(send("/mcp", "tools/call", json!({"name": "a__echo"})).await["result"].is_object());
    let headers = [("Content-Type", "application/json"), ("X-Api-Key", secret.as_str())];
    let body = json!({"server": "b", "toolName": "echo", "input": {}}).to_string();
    let rest = world.client.send("POST", "/mcp/call", &headers, &body).await;
    assert_eq!((rest.status, rest.json()["error"]["code"].clone()), (403, json!("PERMISSION_DENIED")));
    for path in ["/servers", "/metrics"] {
        assert_eq!(world.client.send("GET", path, &headers, "").await.status, 403, "{path} needs an admin key");
    }
}

#[tokio::test]
async fn a_server_can_be_shown_differently() {
    let shape = ServerPresentation::new(&["echo", "only_*"], &[])
        .unwrap()
        .rename("echo", "say")
        .describe("echo", "another word");
    let hub = HubConfig { presentations: [("a".to_owned(), shape)].into(), ..HubConfig::default() };
    let world = World::of(&["a"], GatewayConfig::on_free_port(), hub).await;
    assert_eq!(world.tool_names().await, ["a__say", "a__only_a"]);
    let list = world.ask("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"][0]["description"], "another word");
    let own = world.client.modern("/servers/a/mcp", &modern(json!(1), "tools/list", json!({}))).await.json();
    let shown = &own["result"]["tools"][0];
    assert_eq!((shown["name"].as_str(), shown["description"].as_str()), (Some("echo"), Some("another word")));
    for name in ["say", "echo", "a__say"] {
        let rest = world.post("/mcp/call", json!({"toolName": name, "input": {}})).await;
        assert_eq!(rest.json()["result"], json!({"by": "a", "got": {}}), "{name}: {rest:?}");
    }
    let called = world.ask("tools/call", json!({"name": "a__say", "arguments": {}})).await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"by":"a","got":{}}"#);
    let hidden = world.client.modern("/servers/a/mcp", &modern(json!(1), "tools/call", json!({"name": "fail"}))).await;
    assert_eq!(hidden.error_code(), -31008);
}

#[tokio::test]
async fn rest_lists_tools_with_their_servers() {
    let world = World::two().await;
    let tools = world.get("/mcp/tools").await.json()["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 8);
    assert_eq!(
        (tools[0]["name"].clone(), tools[0]["server"].clone(), tools[0]["timeout"].clone()),
        (json!("echo"), json!("a"), json!(30000))
    );
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], true);
    let only = world.get("/mcp/tools?server=b").await.json()["tools"].clone();
    assert!(only.as_array().unwrap().iter().all(|tool| tool["server"] == "b"));
}

#[tokio::test]
async fn rest_gives_what_the_tool_meant() {
    let world = World::two().await;
    let call = async |how: &str| {
        world.post("/mcp/call", json!({"server": "a", "toolName": "fail", "input": {"how": how}})).await
    };
    assert_eq!(call("text").await.body, r#"{"success":true,"result":"plain words"}"#);
    assert_eq!(call("structured").await.body, r#"{"success":true,"result":{"n":1.5}}"#);
    assert_eq!(call("two").await.json()["result"].as_array().unwrap().len(), 2);
    let json_text = world.post("/mcp/call", json!({"toolName": "only_a", "input": {}})).await;
    assert_eq!(json_text.body, r#"{"success":true,"result":{"by":"a","got":{}}}"#, "the name alone is enough");
    let raw = world.post("/mcp/call?raw=true", json!({"toolName": "only_a"})).await.json();
    assert_eq!(raw["result"]["resultType"], "complete");
}

#[tokio::test]
async fn rest_tells_failures_as_the_seed_writes_them() {
    let world = World::two().await;
    let call = async |body: Value| {
        let got = world.post("/mcp/call", body).await;
        let json = got.json();
        assert_eq!(json["success"], false);
        (got.status, json["error"]["code"].as_str().unwrap().to_owned(), json["error"].clone())
    };
    let with = |how: &str| json!({"server": "a", "toolName": "fail", "input": {"how": how}});
    let (status, code, error) = call(with("rpc")).await;
    assert_eq!((status, code.as_str()), (400, "VALIDATION_ERROR"));
    assert_eq!(error["details"], json!({"jsonrpcCode": -32602, "field": "weight_kg"}));
    let (status, code, error) = call(with("error")).await;
    assert_eq!((status, code.as_str(), error["message"].as_str()), (500, "TOOL_EXECUTION_ERROR", Some("it broke")));
    let (status, code, _) = call(with("crash")).await;
    assert_eq!((status, code.as_str()), (502, "SERVER_CRASHED"));
    for (body, status, code) in [
        (json!({"server": "none", "toolName": "echo"}), 404, "SERVER_NOT_FOUND"),
        (json!({"server": "a", "toolName": "none"}), 404, "TOOL_NOT_FOUND"),
        (json!({"toolName": "none"}), 404, "TOOL_NOT_FOUND"),
        (json!({"toolName": "echo"}), 400, "VALIDATION_ERROR"),
        (json!({}), 400, "VALIDATION_ERROR"),
        (json!({"toolName": "echo", "input": [1]}), 400, "VALIDATION_ERROR"),
        (json!([]), 400, "VALIDATION_ERROR"),
    ] {
        let (got, word, _) = call(body.clone()).await;
        assert_eq!((got, word.as_str()), (status, code), "{body}");
    }
}

#[tokio::test]
async fn rest_is_asked_for_input_and_repeats_the_call_with_it() {
    let world = World::two().await;
    let asked = world.post("/mcp/call", json!({"server": "a", "toolName": "ask"})).await;
    assert_eq!((asked.status, asked.json()["error"]["code"].clone()), (409, json!("INPUT_REQUIRED")));
    let details = asked.json()["error"]["details"].clone();
    assert_eq!(details["inputRequests"]["who"]["method"], "roots/list");
    let again = json!({"server": "a", "toolName": "ask", "inputResponses": {"who": {"roots": []}}, "requestState": details["requestState"]});
    assert_eq!(world.post("/mcp/call", again).await.json()["result"], json!({"who": {"roots": []}}));
}

#[tokio::test]
async fn a_batch_keeps_its_order_and_isolates_failures() {
    let world = World::two().await;
    let calls = json!({"calls": [{"toolName": "only_b"}, {"toolName": "none"}, {"server": "a", "toolName": "echo", "input": {"n": 2}}, 7]});
    let results = world.post("/mcp/batch", calls).await.json()["results"].clone();
    let outcomes: Vec<bool> =
        results.as_array().unwrap().iter().map(|result| result["success"].as_bool().unwrap()).collect();
    assert_eq!(outcomes, [true, false, true, false]);
    assert_eq!(results[2]["result"]["got"]["n"], 2);
    assert_eq!(world.post("/mcp/batch", json!({"calls": 1})).await.status, 400);
}

#[tokio::test]
async fn each_tool_is_a_documented_operation() {
    let world = World::two().await;
    let document = world.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let operation = &document["paths"]["/tools/a/echo"]["post"];
    assert_eq!(operation["operationId"], "a__echo");
    let reference =
        operation["requestBody"]["content"]["application/json"]["schema"]["properties"]["a"]["$ref"].as_str();
    let name = reference.unwrap().strip_prefix("#/components/schemas/").unwrap();
    assert_eq!(document["components"]["schemas"][name]["type"], "string");
    let called = world.post("/tools/a/echo", json!({"n": 3})).await;
    assert_eq!((called.status, called.body.as_str()), (200, r#"{"by":"a","got":{"n":3}}"#));
    assert_eq!(world.post("/tools/a/none", json!({})).await.status, 404);
    assert_eq!(world.post("/tools/a/echo", json!([])).await.status, 400);
}

#[tokio::test]
async fn servers_are_controlled_over_http_but_no_command_comes_in() {
    let world = World::two().await;
    let servers = world.get("/servers").await.json()["servers"].clone();
    assert_eq!(
        (servers[0]["name"].clone(), servers[0]["state"].clone(), servers[0]["transport"].clone()),
        (json!("a"), json!("connected"), json!("builtin"))
    );
    let elsewhere = [("Sec-Fetch-Site", "cross-site")];
    let head = world.client.send("HEAD", "/servers", &elsewhere, "").await;
    assert_eq!(head.status, 200, "who asks for the head changes nothing either: {head:?}");
    let stopped = world.post("/servers/a/stop", json!({})).await;
    assert_eq!((stopped.status, stopped.json()["success"].clone()), (200, json!(true)));
    assert_eq!(world.post("/servers/a/restart", json!({})).await.status, 200);
    assert_eq!(world.get("/servers/a/logs").await.json()["lines"], json!([]));
    assert_eq!(world.get("/servers/none/logs").await.status, 404);
    assert_eq!(world.post("/servers/none/start", json!({})).await.status, 404);
    let command = world.post("/servers", json!({"name": "evil", "command": "sh", "args": ["-c", "id"]})).await;
    assert_eq!((command.status, command.json()["error"]["code"].clone()), (403, json!("PERMISSION_DENIED")));
    assert_eq!(world.post("/servers", json!({"name": "x y", "url": "http://localhost:1"})).await.status, 400);
    let taken = world.post("/servers", json!({"name": "a", "url": "http://localhost:1"})).await;
    assert_eq!((taken.status, taken.json()["error"]["code"].clone()), (409, json!("SERVER_EXISTS")), "{taken:?}");
    let removed = world.client.send("DELETE", "/servers/b", &[], "").await;
    assert_eq!(removed.status, 200);
    assert_eq!(world.get("/servers").await.json()["servers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_admin_key_may_control() {
    let (secret, key) = ApiKey::generate("root");
    let config = GatewayConfig { keys: vec![key.with_role(KeyRole::Admin)], ..GatewayConfig::on_free_port() };
    let world = World::of(&["a"], config, HubConfig::default()).await;
    assert_eq!(world.client.send("GET", "/servers", &[("X-Api-Key", &secret)], "").await.status, 200);
}

#[tokio::test]
async fn numbers_are_told_per_server_and_tool() {
    let world = World::two().await;
    world.ask("tools/call", json!({"name": "a__echo"})).await;
    world.ask("tools/call", json!({"name": "a__fail"})).await;
    world.ask("tools/call", json!({"name": "a__fail", "arguments": {"how": "error"}})).await;
    world.ask("tools/call", json!({"name": "made_up_by_a_caller"})).await;
    let numbers = world.get("/metrics").await.body;
    for line in [
        r#"tsugi_calls_total{server="a",tool="echo",outcome="ok"} 1"#,
        r#"tsugi_calls_total{server="a",tool="fail",outcome="tool_error"} 1"#,
        r#"tsugi_calls_total{server="a",tool="fail",outcome="ok"} 0"#,
        r#"tsugi_calls_total{server="a",tool="fail",outcome="failed"} 1"#,
        r#"tsugi_server_up{server="a"} 1"#,
        r#"tsugi_http_requests_total{route="/mcp",status="200"} 4"#,
    ] {
        assert!(numbers.contains(line), "{line}\n{numbers}");
    }
    assert!(!numbers.contains("made_up"), "callers cannot make labels");
    assert_eq!(world.get("/readyz").await.json()["servers"], json!({"a": "connected", "b": "connected"}));
    drop(world.handle);
}

/// Nobody waits for the servers of this one: what they have is not known when the first call comes.
async fn with_lazy(name: &str, target: ConnectTarget) -> World {
    let manager = Manager::new(ManagerOptions::default());
    let mut lazy = ServerConfig::new(name, target);
    lazy.start = tsugi_client::StartPolicy::Lazy;
    manager.register(lazy).unwrap();
    let config = GatewayConfig::on_free_port();
    let guard = Arc::new(AccessGuard::new(&config));
    let hub = HubConfig { settle: std::time::Duration::ZERO, ..HubConfig::default() };
    let hub = Hub::new(manager.clone(), hub, guard);
    let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
    World { client: Client::of(&handle), handle, manager }
}

#[tokio::test]
async fn a_call_waits_for_the_server_that_its_name_begins_with() {
    let world = with_lazy("late", ConnectTarget::InProcess(marked("late"))).await;
    let got = world.ask("tools/call", json!({"name": "late__echo", "arguments": {"a": "x"}})).await;
    assert!(got["result"]["content"][0]["text"].as_str().unwrap().contains("late"), "{got}");
    for unknown in ["late__nothing", "nobody__echo"] {
        let got = world.ask("tools/call", json!({"name": unknown, "arguments": {}})).await;
        assert_eq!(got["error"]["data"]["code"], "TOOL_NOT_FOUND", "{got}");
    }
}

#[tokio::test]
async fn a_call_of_a_server_that_cannot_start_hears_why() {
    let target = ConnectTarget::stdio(tsugi_process::JobCommand::new("tsugi-test-no-such-program"));
    let world = with_lazy("gone", target).await;
    let got = world.ask("tools/call", json!({"name": "gone__echo", "arguments": {}})).await;
    assert!(got["error"]["message"].as_str().unwrap().contains("tsugi-test-no-such-program"), "{got}");
}

#[tokio::test]
async fn a_server_that_was_stopped_stays_stopped_until_somebody_starts_it() {
    let world = World::two().await;
    let call = json!({"server": "a", "toolName": "echo", "input": {}});
    assert_eq!(world.post("/mcp/call", call.clone()).await.status, 200);
    for order in ["start", "restart"] {
        let stopped = world.post("/servers/a/stop", json!({})).await.json();
        assert_eq!(stopped["server"]["stopped"], true, "{stopped}");
        let refused = world.post("/mcp/call", call.clone()).await;
        assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (503, json!("SERVER_NOT_RUNNING")));
        let modern = world.ask("tools/call", json!({"name": "a__echo"})).await;
        assert_eq!(modern["error"]["data"]["kind"], "SERVER_NOT_RUNNING", "{modern}");
        let servers = world.get("/servers").await.json();
        assert_eq!(servers["servers"][0]["state"], "disconnected", "calls do not start it: {servers}");
        assert!(
            world.ask("tools/call", json!({"name": "b__echo"})).await["result"].is_object(),
            "nobody else is touched"
        );
        assert_eq!(world.post(&format!("/servers/a/{order}"), json!({})).await.json()["server"]["stopped"], false);
        assert_eq!(world.post("/mcp/call", call.clone()).await.status, 200, "after {order}");
    }
}

#[tokio::test]
async fn the_list_of_servers_tells_what_waits_and_what_is_left_alone() {
    let world = World::two().await;
    let server = world.get("/servers").await.json()["servers"][0].clone();
    for key in ["waiting", "leftAlone", "sandbox", "sandboxLacks", "stopped"] {
        assert!(server.get(key).is_some(), "{key}: {server}");
    }
    let breaker = Some(BreakerPolicy { failure_threshold: 1, ..BreakerPolicy::default() });
    let config = ServerConfig { breaker, ..ServerConfig::new("c", ConnectTarget::InProcess(marked("c"))) };
    world.manager.register(config).unwrap().ready(std::time::Duration::from_secs(60)).await.unwrap();
    world.post("/mcp/call", json!({"server": "c", "toolName": "fail", "input": {}})).await;
    let servers = world.get("/servers").await.json();
    assert!(servers["servers"][2]["leftAlone"].as_str().unwrap().contains("keeps failing"), "{servers}");
}

#[tokio::test]
async fn a_tool_that_asks_over_its_own_operation_is_answered_beside_it() {
    let world = World::two().await;
    let asked = world.post("/tools/a/ask", json!({"n": 1})).await.json()["error"].clone();
    assert!(asked["message"].as_str().unwrap().contains("`/answer`"), "{asked}");
    let answer = json!({"input": {"n": 1}, "inputResponses": {"who": {"roots": []}},
        "requestState": asked["details"]["requestState"]});
    let other =
        json!({"input": {"n": 2}, "inputResponses": answer["inputResponses"], "requestState": answer["requestState"]});
    assert_eq!(world.post("/tools/a/ask/answer", other).await.status, 400, "the state is bound to the arguments");
    let told = world.post("/tools/a/ask/answer", answer.clone()).await;
    assert_eq!((told.status, told.json()), (200, json!({"who": {"roots": []}})));
    for wrong in [json!({}), json!({"input": {"n": 1}}), json!({"requestState": 1}), json!([])] {
        let told = world.post("/tools/a/ask/answer", wrong.clone()).await;
        assert_eq!((told.status, told.json()["error"]["code"].clone()), (400, json!("VALIDATION_ERROR")), "{wrong}");
    }
    let document = world.get("/openapi.json").await.json();
    let described = &document["paths"]["/tools/{server}/{tool}/answer"]["post"]["requestBody"]["content"];
    assert_eq!(described["application/json"]["schema"]["$ref"], "#/components/schemas/Answer");
    for member in ["input", "inputResponses", "requestState"] {
        assert!(document["components"]["schemas"]["Answer"]["properties"][member].is_object(), "{member}");
    }
}

#[tokio::test]
async fn a_session_with_one_server_goes_on_with_the_one_that_takes_its_place() {
    let world = World::two().await;
    let session = world.legacy("/servers/a/mcp").await;
    let call = json!({"name": "echo", "arguments": {"n": 1}});
    assert!(session.post("tools/call", call.clone()).await.body.contains("by"));
    let old = world.manager.server("a").unwrap();
    let timeout = Some(std::time::Duration::from_secs(50));
    let configs = ["a", "b"]
        .map(|mark| ServerConfig { timeout, ..ServerConfig::new(mark, ConnectTarget::InProcess(marked(mark))) });
    world.manager.reconcile(configs.into());
    until(|| old.status().state == ConnectionState::Disconnected).await;
    let got = session.post("tools/call", call).await;
    assert!(got.body.contains("by"), "{got:?}");
    assert!(session.post("tools/list", json!({})).await.body.contains("only_a"));
}
