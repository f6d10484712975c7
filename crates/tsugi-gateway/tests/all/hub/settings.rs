//! Settings of single servers and of the gateway that change what callers see.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn shaped(name: &str, shape: ServerPresentation) -> HubConfig {
    HubConfig { presentations: [(name.to_owned(), shape)].into(), ..HubConfig::default() }
}

#[tokio::test]
async fn a_server_can_be_named_in_another_way_than_the_others() {
    let hub = shaped("a", ServerPresentation::default().named(ToolNaming::Bare));
    let world = World::of(&["a", "b"], GatewayConfig::on_free_port(), hub).await;
    let names = world.tool_names().await;
    assert_eq!(names[..2], ["echo", "only_a"], "{names:?}");
    assert_eq!(names[4..6], ["b__echo", "b__only_b"], "{names:?}");
    let called = world.ask("tools/call", json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"by":"a","got":{}}"#);
    let prompts = world.ask("prompts/list", json!({})).await["result"]["prompts"].clone();
    assert_eq!((&prompts[0]["name"], &prompts[1]["name"]), (&json!("greet"), &json!("b__greet")));
}

#[tokio::test]
async fn the_instructions_of_a_silent_server_reach_nobody() {
    let world =
        World::of(&["a", "b"], GatewayConfig::on_free_port(), shaped("a", ServerPresentation::default().silent()))
            .await;
    let discover = modern(json!(1), "server/discover", json!({}));
    for (path, expected) in
        [("/mcp", json!("b: I am b")), ("/servers/a/mcp", Value::Null), ("/servers/b/mcp", json!("I am b"))]
    {
        assert_eq!(world.client.modern(path, &discover).await.json()["result"]["instructions"], expected, "{path}");
    }
    let initialize =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let session = Legacy { client: &world.client, path: "/servers/a/mcp", id: None };
    let opened = session.post("initialize", initialize).await.json();
    assert_eq!(
        (&opened["result"]["instructions"], opened["result"]["serverInfo"]["name"].is_null()),
        (&Value::Null, false)
    );
}

#[tokio::test]
async fn a_batch_has_as_many_calls_as_the_limits_say_and_so_says_the_document() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.batch = 2;
    let world = World::of(&["a"], config, HubConfig::default()).await;
    let batch = |count: usize| json!({"calls": vec![json!({"toolName": "echo"}); count]});
    assert_eq!(world.post("/mcp/batch", batch(2)).await.status, 200);
    let refused = world.post("/mcp/batch", batch(3)).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("at most 2 calls"), "{}", refused.body);
    let document = world.get("/openapi.json").await.json();
    assert_eq!(document["components"]["schemas"]["Batch"]["properties"]["calls"]["maxItems"], 2);
}

#[tokio::test]
async fn as_many_calls_of_a_batch_run_at_once_as_the_limits_say() {
    let counts: Arc<(AtomicUsize, AtomicUsize)> = Arc::default();
    let shared = counts.clone();
    let slow = script(move |call| {
        if call.method != Method::ToolsCall {
            return answer("a", &call);
        }
        let counts = shared.clone();
        Reply::from_future(async move {
            counts.1.fetch_max(counts.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            counts.0.fetch_sub(1, Ordering::SeqCst);
            Outcome::complete(tsugi_protocol::json::JsonObject::from(text("done")))
        })
    });
    let mut config = GatewayConfig::on_free_port();
    config.limits.parallel = 2;
    let world = World::of(&[], config, HubConfig::default()).await;
    let server = world.manager.register(ServerConfig::new("a", ConnectTarget::InProcess(slow))).unwrap();
    server.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let calls = vec![json!({"server": "a", "toolName": "echo"}); 6];
    let results = world.post("/mcp/batch", json!({"calls": calls})).await.json();
    assert_eq!(results["results"][5]["result"], "done", "{results}");
    assert_eq!(counts.1.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn numbers_that_are_switched_off_are_nowhere() {
    for (metrics, status) in [(true, 200), (false, 404)] {
        let config = GatewayConfig { metrics, ..GatewayConfig::on_free_port() };
        let world = World::of(&["a"], config, HubConfig::default()).await;
        assert_eq!(world.get("/metrics").await.status, status, "metrics: {metrics}");
        assert_eq!(world.get("/healthz").await.status, 200);
    }
}

/// A server with these tools, which answers with the name it was called by.
fn named_tools(names: &'static [&'static str], capabilities: Value) -> Arc<dyn Answer> {
    script(move |call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "named", "version": "1"}}
        })),
        Method::ToolsList => {
            let tools: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
            complete(json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}))
        }
        Method::ToolsCall => complete(text(&call.subject().unwrap_or_default())),
        _ => answer("named", &call),
    })
}

async fn world_of(servers: Vec<(&str, Arc<dyn Answer>)>, hub: HubConfig) -> World {
    let world = World::of(&[], GatewayConfig::on_free_port(), hub).await;
    for (name, answer) in servers {
        let server = world.manager.register(ServerConfig::new(name, ConnectTarget::InProcess(answer))).unwrap();
        server.ready(std::time::Duration::from_secs(60)).await.unwrap();
    }
    world
}

#[tokio::test]
async fn rest_runs_the_tool_that_it_lists_under_a_name_although_another_one_owns_that_name() {
    let shape = ServerPresentation::default().rename("remove", "archive").rename("archive", "store");
    let tools = named_tools(&["archive", "remove"], json!({"tools": {}}));
    let world = world_of(vec![("a", tools)], shaped("a", shape)).await;
    for (name, own) in [("archive", "remove"), ("store", "archive"), ("remove", "remove")] {
        for body in [json!({"toolName": name}), json!({"server": "a", "toolName": name})] {
            let called = world.post("/mcp/call", body.clone()).await.json();
            assert_eq!(called["result"], own, "{body}");
        }
    }
    let listed = world.get("/mcp/tools").await.json()["tools"].clone();
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&json!("store"), &json!("archive")));
}

#[tokio::test]
async fn a_tool_whose_new_name_is_taken_keeps_its_own_and_the_status_says_so() {
    let tools = named_tools(&["find", "search", "search"], json!({"tools": {}}));
    let world = world_of(vec![("a", tools)], shaped("a", ServerPresentation::default().rename("find", "search"))).await;
    assert_eq!(world.tool_names().await, ["a__find", "a__search"]);
    for name in ["find", "search"] {
        let called = world.ask("tools/call", json!({"name": format!("a__{name}")})).await;
        assert_eq!(called["result"]["content"][0]["text"], name);
    }
    let status = world.get("/api/overview").await;
    assert!(status.body.contains("another one is called"), "{status:?}");
    assert!(status.body.contains("more than once"), "{status:?}");
}

#[tokio::test]
async fn a_key_that_may_use_nothing_of_a_silent_server_does_not_learn_who_it_is() {
    let (secret, key) = ApiKey::generate("only-b");
    let key = key.with_permit(AccessPermit::new(&["b/*"], &[]).unwrap());
    let config = GatewayConfig { keys: vec![key], ..GatewayConfig::on_free_port() };
    let world = World::of(&["a", "b"], config, shaped("a", ServerPresentation::default().silent())).await;
    for method in ["server/discover", "tools/list"] {
        let message = modern(json!(1), method, json!({}));
        let mut headers = modern_headers(&message);
        headers.push(("X-Api-Key", secret.clone()));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let got = world.client.send("POST", "/servers/a/mcp", &headers, &message.to_string()).await;
        assert_eq!(got.error_code(), -31008, "{method}: {got:?}");
    }
}

#[tokio::test]
async fn what_one_server_offers_as_an_experiment_is_not_promised_for_several_and_extensions_are() {
    let special = || named_tools(&[], json!({"tools": {}, "experimental": {"x": {}}, "extensions": {"e/f": {}}}));
    let world = world_of(vec![("a", special())], HubConfig::default()).await;
    let capabilities = async || world.ask("server/discover", json!({})).await["result"]["capabilities"].clone();
    let alone = capabilities().await;
    assert_eq!((&alone["experimental"], &alone["extensions"]), (&json!({"x": {}}), &json!({"e/f": {}})));
    let other = world.manager.register(ServerConfig::new("b", ConnectTarget::InProcess(marked("b")))).unwrap();
    other.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let mut both = capabilities().await;
    while both["resources"]["subscribe"].is_null() {
        tokio::task::yield_now().await;
        both = capabilities().await;
    }
    assert_eq!((&both["experimental"], &both["extensions"]), (&Value::Null, &json!({"e/f": {}})));
}

#[tokio::test]
async fn a_legacy_client_hears_of_every_list_of_a_server_that_comes_later() {
    let world = world_of(vec![("a", named_tools(&["x"], json!({"tools": {}})))], HubConfig::default()).await;
    let session = world.legacy("/mcp").await;
    let id = session.id.as_deref().unwrap();
    let request = world.client.request("GET", "/mcp", &[("Accept", "text/event-stream"), ("Mcp-Session-Id", id)], "");
    let mut stream = Exchange::send(world.client.0, &request).await;
    stream.read_until("200 OK").await;
    let later = world.manager.register(ServerConfig::new("b", ConnectTarget::InProcess(marked("b")))).unwrap();
    later.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let mut heard = String::new();
    for list in ["tools", "prompts", "resources"] {
        let change = format!("notifications/{list}/list_changed");
        if !heard.contains(&change) {
            heard += &stream.read_until(&change).await;
        }
    }
}

#[tokio::test]
async fn a_lazy_server_that_nobody_knows_is_started_once_to_see_what_it_has_and_rests_again() {
    let manager = Manager::new(ManagerOptions::default());
    let lazy = ServerConfig {
        start: tsugi_client::StartPolicy::Lazy,
        ..ServerConfig::new("late", ConnectTarget::InProcess(marked("late")))
    };
    let server = manager.register(lazy).unwrap();
    let config = GatewayConfig::on_free_port();
    let hub = HubConfig { naming: ToolNaming::Bare, ..HubConfig::default() };
    let hub = Hub::new(manager.clone(), hub, Arc::new(AccessGuard::new(&config)));
    let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
    let world = World { client: Client::of(&handle), handle, manager };
    assert_eq!(world.tool_names().await[..2], ["echo", "only_late"], "the first list has them");
    until(|| server.status().state == ConnectionState::Disconnected).await;
    let called = world.ask("tools/call", json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"by":"late","got":{}}"#);
    assert_eq!(server.status().state, ConnectionState::Connected, "a call starts it again");
}

#[tokio::test]
async fn every_face_says_in_the_same_words_that_there_is_no_such_server_or_that_a_tool_has_several() {
    let world = World::two().await;
    let missing = r#"there is no server "nobody""#;
    let call = |tool: &str, server: Option<&str>| json!({"toolName": tool, "server": server, "input": {}});
    let rest = world.post("/mcp/call", call("echo", Some("nobody"))).await;
    let direct = world.post("/tools/nobody/echo", json!({})).await;
    let control = world.client.send("POST", "/servers/nobody/restart", &[], "").await;
    let face = world.client.modern("/servers/nobody/mcp", &modern(json!(1), "tools/list", json!({}))).await;
    let library = world.manager.find_tool(Some("nobody"), "echo").await.err().unwrap();
    assert_eq!(library.message, missing);
    for got in [rest, direct, control, face] {
        assert!(got.json().to_string().contains(&json!(missing).to_string()), "{got:?}");
    }
    let several = r#"several servers have a tool named "echo": a, b"#;
    let rest = world.post("/mcp/call", json!({"toolName": "echo", "input": {}})).await;
    assert!(rest.json().to_string().contains(&json!(several).to_string()), "{rest:?}");
    assert_eq!(world.manager.find_tool(None, "echo").await.err().unwrap().message, several);
}
