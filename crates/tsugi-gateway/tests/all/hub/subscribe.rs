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
    let world = World::of(&[], GatewayConfig::on_free_port(), HubConfig::default()).await;
    let server = world.manager.register(ServerConfig::new("modest", ConnectTarget::InProcess(modest()))).unwrap();
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
    let world = World::of(&[], GatewayConfig::on_free_port(), HubConfig::default()).await;
    let server = world.manager.register(ServerConfig::new("modest", ConnectTarget::InProcess(server))).unwrap();
    server.ready(std::time::Duration::from_secs(60)).await.unwrap();
    let (ann, bob) = (world.legacy("/mcp").await, world.legacy("/servers/modest/mcp").await);
    for session in [&ann, &bob] {
        session.post("resources/subscribe", json!({"uri": "test://watched"})).await;
    }
    let left = ann.post("resources/unsubscribe", json!({"uri": "test://watched"})).await.json();
    assert_eq!(left["result"], json!({}), "{left}");
    assert_eq!(heard.0.load(std::sync::atomic::Ordering::SeqCst), 0, "bob still watches");
}

/// Tells of an update of its own resource as soon as somebody watches it.
fn talkative(mark: &'static str) -> Arc<dyn Answer> {
    script(move |call| {
        let is_watched = call.params.get("notifications").is_some_and(|filter| filter.as_str().contains("://own"));
        if call.method != Method::Listen || !is_watched {
            return answer(mark, &call);
        }
        let told = [
            note("notifications/subscriptions/acknowledged", call.params.raw().to().unwrap()),
            note("notifications/resources/updated", json!({"uri": format!("{mark}://own")})),
        ];
        Reply::from_source(Events(told.into(), None))
    })
}

#[tokio::test]
async fn a_resource_whose_server_comes_later_is_watched_from_then_on() {
    let world = World::two().await;
    world.tool_names().await;
    let filter = json!({"resourceSubscriptions": ["a://own", "c://own"]});
    let listen = modern(json!("s"), "subscriptions/listen", json!({"notifications": filter}));
    let mut stream = world.client.open_modern("/mcp", &listen).await;
    let acknowledged = stream.read_until("a://own\"]").await;
    assert!(!acknowledged.contains("c://own"), "nobody has it yet: {acknowledged}");
    world.manager.register(ServerConfig::new("c", ConnectTarget::InProcess(talkative("c")))).unwrap();
    stream.read_until("notifications/resources/updated").await;
    stream.read_until("c://own").await;
}

#[tokio::test]
async fn what_is_acknowledged_waits_for_servers_that_have_not_told_their_lists() {
    let hub = HubConfig { settle: std::time::Duration::from_secs(60), ..HubConfig::default() };
    let world = World::of(&["a", "b"], GatewayConfig::on_free_port(), hub).await;
    let (told, is_told) = tokio::sync::watch::channel(false);
    let slow = script(move |call| {
        let mut is_told = is_told.clone();
        Reply::from_pending_reply(async move {
            let _ = is_told.wait_for(|is_told| *is_told).await;
            answer("c", &call)
        })
    });
    world.manager.register(ServerConfig::new("c", ConnectTarget::InProcess(slow))).unwrap();
    let filter = json!({"resourceSubscriptions": ["c://own"]});
    let listen = modern(json!("s"), "subscriptions/listen", json!({"notifications": filter}));
    let mut stream = world.client.open_modern("/mcp", &listen).await;
    let session = world.legacy("/mcp");
    told.send_replace(true);
    stream.read_until("c://own").await;
    let taken = session.await.post("resources/subscribe", json!({"uri": "c://own"})).await.json();
    assert_eq!(taken["result"], json!({}), "{taken}");
}

#[tokio::test]
async fn a_legacy_client_hears_that_there_is_no_such_resource_to_subscribe_to() {
    let world = World::two().await;
    let session = world.legacy("/mcp").await;
    let unknown = session.post("resources/subscribe", json!({"uri": "nobody://x"})).await.json();
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
    for uri in ["a://own", "b://item/7", "tsugi://a/shared://x"] {
        let taken = session.post("resources/subscribe", json!({"uri": uri})).await.json();
        assert_eq!(taken["result"], json!({}), "{uri}: {taken}");
    }
}
