//! Subscriptions: the acknowledgment first, then the changes, until the end.

use super::*;

fn listen(filter: Value) -> Call {
    call(Method::Listen, json!({"notifications": filter}))
}

const EVERYTHING: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["demo://a","demo://b"]}"#;

fn everything() -> Call {
    listen(serde_json::from_str(EVERYTHING).unwrap())
}

#[tokio::test]
async fn the_acknowledgment_comes_first_and_names_what_is_honoured() {
    let only_tools = InProcessServer::builder("t", "1").tool(adding()).build();
    let mut reply = only_tools.answer(everything());
    only_tools.notifier().tools_changed();
    let first = note(&mut reply).await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], json!({"toolsListChanged": true}));
    let second = note(&mut reply).await;
    assert_eq!(second["method"], "notifications/tools/list_changed");
    let tag = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(first["params"]["_meta"][tag], second["params"]["_meta"][tag]);
}

#[tokio::test]
async fn a_server_is_prepared_before_a_listener_to_resources_is_acknowledged() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let asked = gate.clone();
    let prepare = move || {
        let asked = asked.clone();
        async move { asked.acquire().await.unwrap().forget() }
    };
    let server = InProcessServer::builder("t", "1").with_tools().with_resources().before_watching(prepare).build();
    let mut lists = server.answer(listen(json!({"toolsListChanged": true})));
    assert_eq!(note(&mut lists).await["method"], "notifications/subscriptions/acknowledged");
    let mut reply = server.answer(listen(json!({"resourceSubscriptions": ["demo://a"]})));
    assert!(is_waiting(&mut reply));
    assert!(server.notifier().is_any_watched(), "a change while it waits is reported too");
    server.notifier().resource_updated("demo://a");
    gate.add_permits(1);
    assert_eq!(note(&mut reply).await["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(note(&mut reply).await["params"]["uri"], "demo://a");
}

#[tokio::test]
async fn only_wanted_changes_arrive_and_equal_ones_are_told_once() {
    let server = server();
    let mut reply = server.answer(listen(json!({"promptsListChanged": true, "resourceSubscriptions": ["demo://a"]})));
    note(&mut reply).await;
    server.notifier().tools_changed();
    server.notifier().resource_updated("demo://b");
    for _ in 0..1000 {
        server.notifier().resource_updated("demo://a");
    }
    server.notifier().prompts_changed();
    assert_eq!(note(&mut reply).await["method"], "notifications/prompts/list_changed");
    assert_eq!(note(&mut reply).await["params"]["uri"], "demo://a");
    assert!(is_waiting(&mut reply));
}

#[tokio::test]
async fn adding_and_removing_is_announced_and_seen_in_the_list() {
    let server = InProcessServer::builder("changing", "1").with_tools().with_resources().with_prompts().build();
    let mut reply = server.answer(everything());
    note(&mut reply).await;
    server.add_tool(adding());
    assert_eq!(note(&mut reply).await["method"], "notifications/tools/list_changed");
    assert_eq!(result(&server, Call::bare(Method::ToolsList)).await["tools"][0]["name"], "add");
    assert!(server.remove_tool("add") && !server.remove_tool("add"));
    assert_eq!(note(&mut reply).await["method"], "notifications/tools/list_changed");
    assert_eq!(error(&server, tool("add", json!({}))).await["message"], "unknown tool: add");
    server.add_resource(ResourceBuilder::new("demo://a", "a").handler(|_| async { Ok(ResourceContents::empty()) }));
    assert_eq!(note(&mut reply).await["method"], "notifications/resources/list_changed");
    server.add_template(
        TemplateBuilder::new("x:{y}", "x").handler(|_: FileAt, _| async { Ok(ResourceContents::empty()) }),
    );
    assert_eq!(note(&mut reply).await["method"], "notifications/resources/list_changed");
    assert!(server.remove_resource("demo://a") && server.remove_template("x:{y}"));
    assert_eq!(note(&mut reply).await["method"], "notifications/resources/list_changed");
    server.add_prompt(PromptBuilder::new("p", "").handler(|_: NoArguments, _| async { Ok(PromptOutput::user("")) }));
    assert_eq!(note(&mut reply).await["method"], "notifications/prompts/list_changed");
    assert!(server.remove_prompt("p"));
}

#[tokio::test]
async fn a_waiting_listener_is_woken() {
    let server = server();
    let notifier = server.notifier().clone();
    let mut reply = server.answer(everything());
    note(&mut reply).await;
    let waiting = tokio::spawn(async move { note(&mut reply).await });
    tokio::task::yield_now().await;
    notifier.resource_updated("demo://b");
    assert_eq!(waiting.await.unwrap()["params"]["uri"], "demo://b");
}

#[tokio::test]
async fn a_dropped_listener_is_forgotten() {
    let server = server();
    let replies: Vec<_> = (0..10).map(|_| server.answer(everything())).collect();
    assert_eq!(server.notifier().listeners(), 10);
    assert!(server.notifier().is_watched("demo://a"));
    drop(replies);
    assert_eq!(server.notifier().listeners(), 0);
}

#[tokio::test]
async fn the_end_is_graceful_and_carries_the_subscription() {
    let server = server();
    let mut reply = server.answer(everything());
    let acknowledged = note(&mut reply).await;
    server.notifier().tools_changed();
    server.notifier().end();
    note(&mut reply).await;
    let ReplyEvent::Done(Outcome::Complete(complete)) = reply.next().await else { panic!() };
    let ended: Value = complete.body.raw().to().unwrap();
    let tag = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(ended["_meta"][tag], acknowledged["params"]["_meta"][tag]);
    if let Some(schema) = official::Official::load() {
        schema.check("SubscriptionsListenResult", &ended);
        schema.check("SubscriptionsAcknowledgedNotification", &acknowledged);
    }
}
