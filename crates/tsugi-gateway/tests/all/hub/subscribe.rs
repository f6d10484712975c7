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
        let post = async |session: Option<&str>, method: &str, params: Value| {
            let mut headers =
                vec![("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
            headers.extend(session.map(|id| ("Mcp-Session-Id", id)));
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
            world.client.send("POST", path, &headers, &body).await
        };
        let client = json!({"name": "t", "version": "1"});
        let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let opened = post(None, "initialize", initialize).await;
        let session = opened.header("mcp-session-id");
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let taken = post(session, method, json!({"uri": "test://watched"})).await.json();
            assert_eq!(taken["result"], json!({}), "{path} {method}: {taken}");
            let refused = post(session, method, json!({"uri": "test://other"})).await.json();
            assert_eq!(refused["error"]["code"], -32601, "{path} {method}: {refused}");
        }
    }
}
