//! Servers that take subscriptions although they say they do not: the server decides, and its answer is passed on.

use super::*;

/// Says nothing of subscriptions, and takes one of `test://watched` all the same, as the Python SDK 1.x does.
fn modest() -> Arc<dyn Answer> {
    script(|call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modest", "version": "1"}}
        })),
        Method::ResourcesList => complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public",
            "resources": [{"uri": "test://watched", "name": "watched"}, {"uri": "test://other", "name": "other"}]})),
        Method::ResourcesSubscribe | Method::ResourcesUnsubscribe if call.subject().unwrap() == "test://watched" => {
            complete(json!({"resultType": "complete"}))
        }
        _ => Reply::ready(Outcome::error(RpcError::new(-32601, "not here"))),
    })
}

#[tokio::test]
async fn a_server_that_does_not_promise_subscriptions_is_asked_and_its_answer_passed_on() {
    let world = World::of(&[], Config::on_free_port(), HubConfig::default()).await;
    let server = world.manager.register(ServerConfig::new("modest", Target::InProcess(modest()))).unwrap();
    server.ready(std::time::Duration::from_secs(60)).await.unwrap();
    for path in ["/servers/modest/mcp", "/mcp"] {
        let session = world.legacy(path).await;
        let taken = session.post("resources/subscribe", json!({"uri": "test://watched"})).await.json();
        assert_eq!(taken["result"], json!({}), "{path}: {taken}");
        let refused = session.post("resources/subscribe", json!({"uri": "test://other"})).await.json();
        assert_eq!(refused["error"]["code"], -32601, "{path}: {refused}");
    }
}

#[tokio::test]
async fn no_server_hears_that_one_of_its_watchers_is_gone() {
    let heard = Drops::default();
    let (counted, modest) = (heard.clone(), modest());
    let server = script(move |call| {
        if call.method == Method::ResourcesUnsubscribe {
            drop(counted.guard());
        }
        modest.answer(call)
    });
    let world = World::of(&[], Config::on_free_port(), HubConfig::default()).await;
    let server = world.manager.register(ServerConfig::new("modest", Target::InProcess(server))).unwrap();
    server.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let (ann, bob) = (world.legacy("/mcp").await, world.legacy("/servers/modest/mcp").await);
    for session in [&ann, &bob] {
        session.post("resources/subscribe", json!({"uri": "test://watched"})).await;
    }
    let left = ann.post("resources/unsubscribe", json!({"uri": "test://watched"})).await.json();
    assert_eq!(left["result"], json!({}), "{left}");
    assert_eq!(heard.0.load(std::sync::atomic::Ordering::SeqCst), 0, "bob still watches");
}
