//! Settings of single servers and of the gateway that change what callers see.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn shaped(name: &str, shape: Shape) -> HubConfig {
    HubConfig { shapes: [(name.to_owned(), shape)].into(), ..HubConfig::default() }
}

#[tokio::test]
async fn a_server_can_be_named_in_another_way_than_the_others() {
    let hub = shaped("a", Shape::default().named(Naming::Bare));
    let world = World::of(&["a", "b"], Config::on_free_port(), hub).await;
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
    let world = World::of(&["a", "b"], Config::on_free_port(), shaped("a", Shape::default().silent())).await;
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
    let mut config = Config::on_free_port();
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
            Outcome::complete(tsugi_protocol::json::Object::from(text("done")))
        })
    });
    let mut config = Config::on_free_port();
    config.limits.parallel = 2;
    let world = World::of(&[], config, HubConfig::default()).await;
    let server = world.manager.register(ServerConfig::new("a", Target::InProcess(slow))).unwrap();
    server.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let calls = vec![json!({"server": "a", "toolName": "echo"}); 6];
    let results = world.post("/mcp/batch", json!({"calls": calls})).await.json();
    assert_eq!(results["results"][5]["result"], "done", "{results}");
    assert_eq!(counts.1.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn numbers_that_are_switched_off_are_nowhere() {
    for (metrics, status) in [(true, 200), (false, 404)] {
        let config = Config { metrics, ..Config::on_free_port() };
        let world = World::of(&["a"], config, HubConfig::default()).await;
        assert_eq!(world.get("/metrics").await.status, status, "metrics: {metrics}");
        assert_eq!(world.get("/healthz").await.status, 200);
    }
}
