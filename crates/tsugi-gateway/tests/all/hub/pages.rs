//! Lists in pages: whole where they fit, every entry once where they do not, nobody's but the caller's.

use std::time::Duration;

use tsugi_gateway::hub::page::PageLimit;

use super::*;

const LIMIT: PageLimit = PageLimit { items: 3, bytes: 1 << 20 };

fn paging() -> HubConfig {
    HubConfig { page: LIMIT, ..HubConfig::default() }
}

/// The names on every page, as a client that follows `nextCursor` finds them.
async fn walk(mut ask: impl AsyncFnMut(Value) -> Value) -> Vec<Vec<String>> {
    let (mut pages, mut params) = (Vec::new(), json!({}));
    loop {
        let result = ask(params).await["result"].clone();
        let tools = result["tools"].as_array().unwrap_or_else(|| panic!("no tools: {result}"));
        pages.push(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect());
        match result.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return pages,
        }
    }
}

/// Waits until something is so: the hub hears of changes a moment later.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async { while !is_so().await {} };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it becomes so");
}

#[tokio::test]
async fn a_long_list_comes_in_pages_with_every_entry_once() {
    let world = World::of(&["a", "b"], GatewayConfig::on_free_port(), paging()).await;
    let pages = walk(async |params| world.ask("tools/list", params).await).await;
    let expected =
        [vec!["a__echo", "a__only_a", "a__fail"], vec!["a__ask", "b__echo", "b__only_b"], vec!["b__fail", "b__ask"]];
    assert_eq!(pages, expected);
    let own =
        async |params| world.client.modern("/servers/b/mcp", &modern(json!(1), "tools/list", params)).await.json();
    assert_eq!(walk(own).await, [vec!["echo", "only_b", "fail"], vec!["ask"]]);
    let whole = world.ask("prompts/list", json!({})).await;
    assert_eq!(whole["result"].get("nextCursor"), None);
}

#[tokio::test]
async fn a_legacy_client_follows_the_same_cursors() {
    let world = World::of(&["a", "b"], GatewayConfig::on_free_port(), paging()).await;
    for (path, expected) in [("/mcp", 8), ("/servers/a/mcp", 4)] {
        let session = world.legacy(path).await;
        let pages = walk(async |params| session.post("tools/list", params).await.json()).await;
        assert_eq!(pages.concat().len(), expected, "{path}");
        assert!(pages.iter().all(|page| page.len() <= LIMIT.items));
    }
}

#[tokio::test]
async fn a_cursor_is_good_while_its_entry_is_there_and_refused_clearly_when_it_is_gone() {
    let world = World::of(&["a", "b"], GatewayConfig::on_free_port(), paging()).await;
    let first = world.ask("tools/list", json!({})).await;
    let second = json!({"cursor": first["result"]["nextCursor"]});
    world.manager.remove("b").await;
    until(async || world.ask("tools/list", second.clone()).await["result"]["tools"].as_array().unwrap().len() == 1)
        .await;
    world.manager.remove("a").await;
    until(async || world.ask("tools/list", second.clone()).await["error"]["code"] == -32602).await;
    for strange in [json!("x"), json!(7)] {
        assert_eq!(world.ask("tools/list", json!({"cursor": strange})).await["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn pages_hold_what_the_caller_may_see_and_nothing_else() {
    let (secret, key) = ApiKey::generate("ann");
    let permit = AccessPermit::new(&["*/*"], &["*/fail", "b/echo"]).unwrap();
    let config = GatewayConfig { keys: vec![key.with_permit(permit)], ..GatewayConfig::on_free_port() };
    let world = World::of(&["a", "b"], config, paging()).await;
    let send = async |path: &str, params: Value| {
        let message = modern(json!(1), "tools/list", params);
        let mut headers = modern_headers(&message);
        headers.push(("X-Api-Key", secret.clone()));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        world.client.send("POST", path, &headers, &message.to_string()).await.json()
    };
    let pages = walk(async |params| send("/mcp", params).await).await;
    assert_eq!(pages, [vec!["a__echo", "a__only_a", "a__ask"], vec!["b__only_b", "b__ask"]]);
    assert_eq!(walk(async |params| send("/servers/b/mcp", params).await).await, [vec!["only_b", "ask"]]);
}

/// A server whose only tool has another name whenever it is listed, and which tells of no change.
#[derive(Default)]
struct Aging(std::sync::atomic::AtomicUsize);

impl tsugi_protocol::answer::Answer for Aging {
    fn answer(&self, call: tsugi_protocol::answer::Call) -> tsugi_protocol::answer::Reply {
        use tsugi_protocol::mcp::Method;
        let result = match call.method {
            Method::Discover => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            Method::ToolsList => {
                let name = format!("tool_{}", self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
                json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}], "ttlMs": 1})
            }
            _ => json!({}),
        };
        let body = tsugi_protocol::json::JsonObject::from(result);
        tsugi_protocol::answer::Reply::ready(tsugi_protocol::answer::Outcome::complete(body))
    }
}

#[tokio::test]
async fn a_list_that_has_grown_stale_is_fetched_again_when_a_client_looks_at_all_of_them() {
    let world = World::of(&[], GatewayConfig::on_free_port(), HubConfig::default()).await;
    world.manager.register(ServerConfig::new("aging", ConnectTarget::InProcess(Arc::new(Aging::default())))).unwrap();
    until(async || world.tool_names().await.len() == 1).await;
    let first = world.tool_names().await;
    until(async || world.tool_names().await != first).await;
    assert_eq!(world.tool_names().await.len(), 1);
}
