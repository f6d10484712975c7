//! Extensions that no revision knows, through the aggregate beside other servers: nothing is lost, nothing goes astray.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call, Outcome, Reply, ReplyEvent};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;

use crate::world::*;

const WIDGETS: &str = "com.example/widgets";

/// What reached a server beside lists: method, parameters, `_meta` of others, declared extensions.
type Received = Arc<Mutex<Vec<(String, Value, Value, Value)>>>;

/// A server with a tool, a resource and these extensions. It notes and answers what `say` returns.
fn server(
    mark: &'static str,
    extensions: Value,
    received: Received,
    say: Arc<Mutex<(Value, Value)>>,
) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "resources": {}, "extensions": extensions},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": mark, "version": "1"}}
        })),
        Method::ToolsList => listed("tools", json!([{"name": "run", "inputSchema": {"type": "object"}}])),
        Method::ResourcesList => listed(
            "resources",
            json!([
                {"uri": format!("{mark}://own"), "name": "own"}, {"uri": "shared://thing", "name": "shared"}
            ]),
        ),
        Method::PromptsList => listed("prompts", json!([])),
        Method::TemplatesList => listed("resourceTemplates", json!([])),
        Method::Listen => {
            let wanted: Value = call.params.raw().to().unwrap();
            received.lock().push(("listen".to_owned(), wanted.clone(), Value::Null, Value::Null));
            let told = [
                note("notifications/subscriptions/acknowledged", wanted),
                note("notifications/widgets/changed", say.lock().0.clone()),
            ];
            Reply::from_source(Events(told.into(), None))
        }
        _ => {
            let capabilities: Value = call.meta.client.capabilities.raw().to().unwrap();
            let (params, meta) = (call.params.raw().to().unwrap(), call.meta.rest.raw().to().unwrap());
            received.lock().push((call.method.to_string(), params, meta, capabilities["extensions"].clone()));
            let (notified, mut result) = say.lock().clone();
            result["resultType"] = json!("complete");
            let done = ReplyEvent::Done(Outcome::complete(JsonObject::from(result)));
            Reply::from_source(Events([note("notifications/widgets/changed", notified), done].into(), None))
        }
    })
}

struct ExtensionWorld {
    client: Client,
    /// By server, in the order of `a`, `b`, `c`, `ext`.
    received: Vec<Received>,
    say: Arc<Mutex<(Value, Value)>>,
    _running: (Manager, GatewayHandle),
}

impl ExtensionWorld {
    /// Three servers without the extension, and one with it.
    async fn new() -> Self {
        let manager = Manager::new(ManagerOptions::default());
        let say = Arc::new(Mutex::new((json!({}), json!({}))));
        let mut received = Vec::new();
        for (mark, extensions) in [
            ("a", json!({})),
            ("b", json!({"org.other/things": {}})),
            ("c", json!({})),
            ("ext", json!({WIDGETS: {"deep": [1, {"x": null}]}})),
        ] {
            let journal = Received::default();
            received.push(journal.clone());
            let answer = server(mark, extensions, journal, say.clone());
            let server = manager.register(ServerConfig::new(mark, ConnectTarget::InProcess(answer))).unwrap();
            server.ready(Duration::from_secs(60)).await.unwrap();
        }
        let config = GatewayConfig::on_free_port();
        let hub = Hub::new(manager.clone(), HubConfig::default(), Arc::new(AccessGuard::new(&config)));
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), received, say, _running: (manager, handle) }
    }

    /// What the server `ext` received, and proof that the others received nothing.
    fn taken(&self) -> Vec<(String, Value, Value, Value)> {
        for other in &self.received[..3] {
            assert_eq!(*other.lock(), [], "a call went astray");
        }
        std::mem::take(&mut *self.received[3].lock())
    }
}

/// A modern request that declares these extensions.
fn declaring(method: &str, params: Value, extensions: Value) -> Value {
    let mut message = modern(json!(1), method, params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] = extensions;
    message
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9 é日\"\\\\/]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z/.]{1,6}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// An object of values under keys that nobody knows.
fn unknown_object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("x-[a-zé/. ]{0,6}", json_value(), 0..4).prop_map(|map| json!(map))
}

fn merge(mut base: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        base[key.as_str()] = value.clone();
    }
    base
}

#[tokio::test]
async fn an_invented_extension_loses_nothing_beside_three_other_servers() {
    let world = ExtensionWorld::new().await;
    let mut runner = TestRunner::deterministic();
    let methods = ["widgets/make", "com.example/widgets/make", "com.example/other", "tools/call"];
    for case in 0..60 {
        let mut pick = || unknown_object().new_tree(&mut runner).unwrap().current();
        let (params, meta, notified, settings) = (pick(), pick(), pick(), pick());
        let result = merge(json!({"_meta": pick(), "content": []}), &pick());
        *world.say.lock() = (notified.clone(), result.clone());
        let method = methods[case % methods.len()];
        let sent = if method == "tools/call" { merge(json!({"name": "ext__run"}), &params) } else { params.clone() };
        let mut message = declaring(method, sent, json!({WIDGETS: settings, "org.other/things": {}}));
        let own = message["params"]["_meta"].clone();
        message["params"]["_meta"] = merge(own, &meta);
        let got = world.client.modern("/mcp", &message).await;
        let events = got.events();
        assert_eq!(events[0]["method"], "notifications/widgets/changed", "{got:?}");
        assert_eq!(events[0]["params"], notified);
        assert_eq!(events[1]["result"], merge(result, &json!({"resultType": "complete"})));
        let expected = if method == "tools/call" { merge(json!({"name": "run"}), &params) } else { params };
        assert_eq!(world.taken(), [(method.to_owned(), expected, meta, json!({WIDGETS: settings}))]);
    }
}

#[tokio::test]
async fn what_servers_declare_is_announced_together() {
    let world = ExtensionWorld::new().await;
    let discovered = world.client.modern("/mcp", &modern(json!(1), "server/discover", json!({}))).await.json();
    let expected = json!({"org.other/things": {}, WIDGETS: {"deep": [1, {"x": null}]}});
    assert_eq!(discovered["result"]["capabilities"]["extensions"], expected, "{discovered}");
}

#[tokio::test]
async fn an_unknown_subscription_reaches_the_server_and_its_notifications_come_back() {
    let world = ExtensionWorld::new().await;
    world.say.lock().0 = json!({"widget": {"id": 7}});
    let filter = json!({"toolsListChanged": true, "com.example/widgets": ["w1", {"deep": 1}]});
    let listen = declaring("subscriptions/listen", json!({"notifications": filter}), json!({WIDGETS: {}}));
    let mut stream = world.client.open_modern("/mcp", &listen).await;
    let acknowledged = stream.read_until("\n\n").await;
    assert!(acknowledged.contains("HTTP/1.1 200"), "{acknowledged}");
    let told = stream.read_until(r#""widget":{"id":7}"#).await;
    let all = acknowledged + &told;
    assert!(all.contains(r#""com.example/widgets":["w1",{"deep":1}]"#), "acknowledged: {all}");
    assert!(all.contains(r#""toolsListChanged":true"#), "with the rest: {all}");
    assert_eq!(world.received[3].lock()[0].1["notifications"], json!({"com.example/widgets": ["w1", {"deep": 1}]}));
    assert!(world.received[0].lock().is_empty(), "a server without extensions is not asked");
}

#[tokio::test]
async fn methods_are_routed_by_what_they_name_and_unknown_ones_reach_no_server() {
    let world = ExtensionWorld::new().await;
    let call = async |method: &str, params: Value| world.client.modern("/mcp", &modern(json!(1), method, params)).await;
    assert_eq!(call("things/do", json!({"x": 1})).await.status, 200);
    assert_eq!(world.received[1].lock().pop().unwrap().1, json!({"x": 1}), "by the one that declares it");
    assert_eq!(call("vendor/look", json!({"uri": "c://own"})).await.status, 200);
    assert_eq!(world.received[2].lock().pop().unwrap().1, json!({"uri": "c://own"}), "by its address");
    assert_eq!(call("vendor/look", json!({"uri": "tsugi://a/shared://thing", "y": 2})).await.status, 200);
    assert_eq!(world.received[0].lock().pop().unwrap().1, json!({"uri": "shared://thing", "y": 2}), "by its server");
    assert_eq!(call("vendor/look", json!({"name": "c__run"})).await.status, 200);
    assert_eq!(world.received[2].lock().pop().unwrap().1, json!({"name": "run"}), "by its name");
    for (method, params) in [
        ("vendor/look", json!({})),
        ("vendor/look", json!({"name": "nothing"})),
        ("tasks/list", json!({})),
        ("tasks/get", json!({"taskId": "1"})),
    ] {
        let got = call(method, params).await;
        assert_eq!((got.status, got.error_code()), (404, -32601), "{method}");
    }
    assert_eq!(world.taken(), []);
}
