//! The legacy era over HTTP: sessions, questions, streams that survive their connection.

mod kept;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::{GatewayConfig, GatewayHandle};
use tsugi_protocol::answer::{Answer, Call, InputRequired, Outcome, Reply, ReplyEvent};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;

use crate::world::*;

/// A modern answer that greets, echoes, asks and watches.
fn server() -> Arc<dyn Answer> {
    script(answer)
}

fn answer(call: Call) -> Reply {
    match call.method {
        Method::Discover => complete(discover()),
        Method::Listen => {
            let filter: Value = call.params.get("notifications").unwrap().to().unwrap();
            let mut events = VecDeque::from([note("notifications/subscriptions/acknowledged", json!({}))]);
            if filter["resourceSubscriptions"] == json!(["test://watched"]) {
                events.push_back(note(
                    "notifications/resources/updated",
                    json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 1}, "uri": "test://watched"}),
                ));
            }
            Reply::from_source(Events(events, None))
        }
        Method::ToolsCall => tool(&call),
        _ => complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": []})),
    }
}

fn discover() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
    })
}

fn tool(call: &Call) -> Reply {
    let name = call.subject().unwrap_or_default().into_owned();
    match name.as_str() {
        "ask" => ask(call),
        "for_ever" => {
            let input = InputRequired::one("k", &Method::RootsList, None, None);
            Reply::ready(Outcome::InputRequired(input))
        }
        "progress" => {
            let token = call.meta.progress_token.as_ref().map_or(json!(5), |token| token.to().unwrap());
            let events = [
                note("notifications/progress", json!({"progressToken": token, "progress": 1})),
                note("notifications/message", json!({"level": "info", "data": "log"})),
                ReplyEvent::Done(Outcome::complete(JsonObject::from(text("done")))),
            ];
            Reply::from_source(Events(events.into(), None))
        }
        "never" => Reply::from_source(Events(VecDeque::new(), None)),
        other => complete(text(other)),
    }
}

fn ask(call: &Call) -> Reply {
    let Some(answers) = call.params.get("inputResponses") else {
        let params = RawJson::from(json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}));
        return Reply::ready(Outcome::InputRequired(InputRequired::one(
            "who",
            &Method::Elicit,
            Some(&params),
            Some("s".into()),
        )));
    };
    assert_eq!(call.params.get_str("requestState").unwrap(), "s");
    complete(text(answers.as_str()))
}

const BASE: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];

fn initialize(version: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {"elicitation": {}, "roots": {}}, "clientInfo": {"name": "t", "version": "1"}
    }})
    .to_string()
}

fn request(id: Value, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

struct Session {
    client: Client,
    id: String,
    extra: Vec<(&'static str, String)>,
}

impl Session {
    async fn open(handle: &GatewayHandle, version: &str) -> Self {
        Self::open_as(handle, version, Vec::new()).await
    }

    async fn open_as(handle: &GatewayHandle, version: &str, extra: Vec<(&'static str, String)>) -> Self {
        let client = Client::of(handle);
        let mut session = Self { client, id: String::new(), extra };
        let got = session.post(&initialize(version)).await;
        assert_eq!((got.status, got.json()["result"]["protocolVersion"].as_str()), (200, Some(version)), "{got:?}");
        session.id = got.header("mcp-session-id").expect("a session").to_owned();
        session
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = BASE.to_vec();
        if !self.id.is_empty() {
            headers.push(("Mcp-Session-Id", self.id.as_str()));
        }
        headers.extend(self.extra.iter().map(|(name, value)| (*name, value.as_str())));
        headers
    }

    async fn post(&self, body: &str) -> Got {
        self.client.send("POST", "/mcp", &self.headers(), body).await
    }

    async fn open_post(&self, body: &str) -> Exchange {
        Exchange::send(self.client.0, &self.client.request("POST", "/mcp", &self.headers(), body)).await
    }

    async fn open_get(&self, last: Option<&str>) -> Exchange {
        let mut headers = self.headers();
        headers.extend(last.map(|last| ("Last-Event-ID", last)));
        Exchange::send(self.client.0, &self.client.request("GET", "/mcp", &headers, "")).await
    }
}

#[tokio::test]
async fn every_legacy_revision_is_agreed_to_and_an_unknown_one_gets_the_newest() {
    let handle = serve(server()).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        Session::open(&handle, version).await;
    }
    let got = Client::of(&handle).send("POST", "/mcp", &BASE, &initialize("1999-01-01")).await;
    assert_eq!(got.json()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(got.json()["result"]["serverInfo"]["name"], "scripted");
}

#[tokio::test]
async fn a_request_is_answered_as_json_in_the_legacy_form() {
    let handle = serve(server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let got = session.post(&request(json!("a"), "tools/call", json!({"name": "hello"}))).await;
    assert_eq!(got.body, r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"hello"}]}}"#);
    let ping = session.post(&request(json!(1), "ping", json!({}))).await;
    assert_eq!(ping.body, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let initialized = session.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!((initialized.status, initialized.body.as_str()), (202, ""));
    for gone in ["server/discover", "subscriptions/listen"] {
        assert_eq!(session.post(&request(json!(2), gone, json!({}))).await.error_code(), -32601);
    }
}

#[tokio::test]
async fn a_session_belongs_to_its_caller_and_ends_when_deleted() {
    let (ann, ann_key) = ApiKey::generate("ann");
    let (bob, bob_key) = ApiKey::generate("bob");
    let config = GatewayConfig { keys: vec![ann_key, bob_key], ..GatewayConfig::on_free_port() };
    let handle = serve_with(config, server()).await;
    let mut session = Session::open_as(&handle, "2025-11-25", vec![("X-Api-Key", ann.clone())]).await;
    let ping = request(json!(1), "ping", json!({}));
    assert_eq!(session.post(&ping).await.status, 200);
    session.extra = vec![("X-Api-Key", bob)];
    assert_eq!(session.post(&ping).await.status, 404, "somebody else's session does not exist");
    for verb in ["GET", "DELETE"] {
        assert_eq!(session.client.send(verb, "/mcp", &session.headers(), "").await.status, 404);
    }
    session.extra = vec![("X-Api-Key", ann)];
    assert_eq!(session.post(&ping).await.status, 200, "and was not harmed");
    assert_eq!(session.client.send("DELETE", "/mcp", &session.headers(), "").await.status, 200);
    assert_eq!(session.post(&ping).await.status, 404);
}

#[tokio::test]
async fn requests_without_a_session_or_with_an_odd_one_are_refused() {
    let handle = serve(server()).await;
    let client = Client::of(&handle);
    let ping = request(json!(1), "ping", json!({}));
    assert_eq!(client.send("POST", "/mcp", &BASE, &ping).await.status, 400);
    let mut unknown = BASE.to_vec();
    unknown.push(("Mcp-Session-Id", "guess"));
    assert_eq!(client.send("POST", "/mcp", &unknown, &ping).await.status, 404);
    unknown.push(("Mcp-Session-Id", "guess"));
    assert_eq!(client.send("POST", "/mcp", &unknown, &ping).await.status, 400);
    let modern = [("MCP-Protocol-Version", "2026-07-28"), ("Accept", "text/event-stream")];
    for verb in ["GET", "DELETE"] {
        assert_eq!(client.send(verb, "/mcp", &modern, "").await.status, 405);
    }
    let session = Session::open(&handle, "2025-11-25").await;
    let mut bad_version = session.headers();
    bad_version.push(("MCP-Protocol-Version", "2031-01-01"));
    assert_eq!(client.send("POST", "/mcp", &bad_version, &ping).await.status, 400);
}

#[tokio::test]
async fn a_failed_initialize_leaves_no_session() {
    let handle = serve(server()).await;
    for params in [json!({}), json!([1])] {
        let body = request(json!(1), "initialize", params);
        let got = Client::of(&handle).send("POST", "/mcp", &BASE, &body).await;
        assert_eq!((got.error_code(), got.header("mcp-session-id")), (-32602, None));
    }
}

#[tokio::test]
async fn notes_come_on_the_requests_own_stream() {
    let handle = serve(server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let params = json!({"name": "progress", "_meta": {"progressToken": 5}});
    let got = session.post(&request(json!(1), "tools/call", params.clone())).await;
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    assert!(got.body.starts_with("id: 1-0\nretry: 1000\ndata: \n\nid: 1-1\n"), "{}", got.body);
    let events = got.events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2]["result"]["content"][0]["text"], "done");
    session.post(&request(json!(2), "logging/setLevel", json!({"level": "error"}))).await;
    assert_eq!(session.post(&request(json!(3), "tools/call", params.clone())).await.events().len(), 2, "no log");
    let older = Session::open(&handle, "2025-06-18").await;
    let got = older.post(&request(json!(1), "tools/call", params)).await;
    assert!(got.body.starts_with("id: 1-1\ndata: {"), "older clients get no event without data: {}", got.body);
    let level = session.post(&request(json!(2), "logging/setLevel", json!({"level": "loud"}))).await;
    assert_eq!(level.error_code(), -32602);
}

#[tokio::test]
async fn a_servers_question_goes_to_the_client_and_the_call_goes_on_with_the_answer() {
    let handle = serve(server()).await;
    let session = Session::open(&handle, "2025-06-18").await;
    let mut stream = session.open_post(&request(json!("c"), "tools/call", json!({"name": "ask"}))).await;
    let question = stream.read_until("\n\n").await;
    let question = question.lines().find_map(|line| line.strip_prefix("data: ")).expect("a question");
    let question: Value = serde_json::from_str(question).unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"n": 1}}});
    assert_eq!(session.post(&answer.to_string()).await.status, 202);
    let rest = stream.read_to_end().await;
    assert!(rest.contains(r#"\"who\":{\"action\":\"accept\",\"content\":{\"n\":1}}"#), "{rest}");
    assert!(rest.contains(r#""id":"c""#));
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_gets_an_error() {
    let handle = serve(server()).await;
    let client = Client::of(&handle);
    let body = initialize("2025-06-18").replace(r#""elicitation":{},"#, "");
    let got = client.send("POST", "/mcp", &BASE, &body).await;
    let mut headers = BASE.to_vec();
    headers.push(("Mcp-Session-Id", got.header("mcp-session-id").unwrap()));
    let got = client.send("POST", "/mcp", &headers, &request(json!(1), "tools/call", json!({"name": "ask"}))).await;
    assert_eq!(got.json()["error"]["data"]["kind"], "MISSING_CAPABILITY", "{got:?}");
}

#[tokio::test]
async fn changed_roots_are_asked_for_on_the_stream_for_changes_also_when_it_is_opened_later() {
    let told = Drops::default();
    let heard = told.clone();
    let handle = serve(script(move |call| match (&call.method, call.params.has("inputResponses")) {
        (Method::RootsChanged, true) => {
            drop(heard.guard());
            complete(json!({}))
        }
        (Method::RootsChanged, false) => {
            Reply::ready(Outcome::InputRequired(InputRequired::one("roots", &Method::RootsList, None, None)))
        }
        _ => answer(call),
    }))
    .await;
    let client = Client::of(&handle);
    let opening = initialize("2025-11-25").replace(r#""roots":{}"#, r#""roots":{"listChanged":true}"#);
    let got = client.send("POST", "/mcp", &BASE, &opening).await;
    let id = got.header("mcp-session-id").unwrap().to_owned();
    let session = Session { client, id, extra: Vec::new() };
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}).to_string();
    assert_eq!(session.post(&changed).await.status, 202);
    let mut stream = session.open_get(None).await;
    for number in 1..=2 {
        stream.read_until(&format!("\"id\":{number},\"method\":\"roots/list\"")).await;
        let roots = json!({"jsonrpc": "2.0", "id": number, "result": {"roots": []}}).to_string();
        assert_eq!(session.post(&roots).await.status, 202);
        until(|| told.0.load(std::sync::atomic::Ordering::SeqCst) == number).await;
        assert_eq!(session.post(&changed).await.status, 202);
    }
}

#[tokio::test]
async fn a_server_that_never_stops_asking_is_stopped() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.rounds = 2;
    let handle = serve_with(config, server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let mut stream = session.open_post(&request(json!(9), "tools/call", json!({"name": "for_ever"}))).await;
    for id in 1..=2 {
        stream.read_until(&format!("\"id\":{id},\"method\":\"roots/list\"")).await;
        session.post(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}}).to_string()).await;
    }
    assert!(stream.read_to_end().await.contains("more than 2 times"));
}

#[tokio::test]
async fn cancelling_ends_the_call_without_a_response() {
    let drops = Drops::default();
    let guarded = drops.clone();
    let handle = serve(script(move |call| match call.method {
        Method::ToolsCall => Reply::from_source(Events(VecDeque::new(), Some(guarded.guard()))),
        _ => answer(call),
    }))
    .await;
    let session = Session::open(&handle, "2025-06-18").await;
    let waiting = session.open_post(&request(json!(4), "tools/call", json!({"name": "x"}))).await;
    let cancel =
        |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    for harmless in [json!("4"), json!(5), json!(null)] {
        assert_eq!(session.post(&cancel(harmless).to_string()).await.status, 202);
    }
    assert_eq!(drops.0.load(std::sync::atomic::Ordering::SeqCst), 0);
    // The request may still be on its way when the first cancellation arrives.
    while drops.0.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        session.post(&cancel(json!(4)).to_string()).await;
    }
    assert!(!waiting.read_to_end().await.contains("\"id\":4"));
}

#[tokio::test]
async fn a_broken_stream_can_be_resumed_and_its_call_goes_on() {
    let (finish, finished) = tokio::sync::watch::channel(false);
    let handle = serve(script(move |call| match call.method {
        Method::ToolsCall => {
            let mut finished = finished.clone();
            Reply::from_future(async move {
                let _ = finished.wait_for(|done| *done).await;
                Outcome::complete(JsonObject::from(text("kept")))
            })
        }
        _ => answer(call),
    }))
    .await;
    let session = Session::open(&handle, "2025-11-25").await;
    let mut stream = session.open_post(&request(json!(1), "tools/call", json!({"name": "slow"}))).await;
    assert!(stream.read_until("id: 1-0\n").await.contains("200 OK"));
    drop(stream);
    finish.send(true).unwrap();
    let mut resumed = session.open_get(Some("1-0")).await;
    let rest = resumed.read_until("kept").await;
    assert!(rest.contains("id: 1-1\n"), "{rest}");
    let again = session.open_get(Some("1-0")).await.read_to_end().await;
    assert!(again.contains("kept"), "it can be read once more");
    let unknown = session.open_get(Some("77-1")).await.read_to_end().await;
    assert!(unknown.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn stopping_waits_for_calls_whose_clients_have_left() {
    let (finish, finished) = tokio::sync::watch::channel(false);
    let (begun, ended) = (Drops::default(), Drops::default());
    let (counted, over) = (begun.clone(), ended.clone());
    let handle = serve(script(move |call| match call.method {
        Method::ToolsCall => {
            drop(counted.guard());
            let (mut finished, over) = (finished.clone(), over.clone());
            Reply::from_future(async move {
                let _ = finished.wait_for(|done| *done).await;
                drop(over.guard());
                Outcome::complete(JsonObject::from(text("kept")))
            })
        }
        _ => answer(call),
    }))
    .await;
    let call = request(json!(1), "tools/call", json!({"name": "slow"}));
    let waiting = Session::open(&handle, "2025-06-18").await.open_post(&call).await;
    let mut stream = Session::open(&handle, "2025-11-25").await.open_post(&call).await;
    stream.read_until("id: 1-0\n").await;
    let old = Session::open(&handle, "2025-03-26").await;
    let json_only = [BASE[0], ("Accept", "application/json"), ("Mcp-Session-Id", old.id.as_str())];
    let batch = old.client.request("POST", "/mcp", &json_only, &format!("[{call}]"));
    let batch = Exchange::send(old.client.0, &batch).await;
    begun.wait_for(3).await;
    drop((waiting, stream, batch));
    let mut draining = tokio::spawn(async move { handle.drain(Duration::from_secs(60)).await });
    let early = tokio::time::timeout(Duration::from_millis(500), &mut draining).await;
    assert!(early.is_err(), "it did not wait for the calls");
    finish.send(true).unwrap();
    assert_eq!(draining.await.unwrap(), 0, "none is cut off");
    assert_eq!(ended.0.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_watched_resource_is_announced_on_the_sessions_own_stream() {
    let handle = serve(server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let mut changes = session.open_get(None).await;
    changes.read_until(":\n\n").await;
    let got = session.post(&request(json!(1), "resources/subscribe", json!({"uri": "test://watched"}))).await;
    assert_eq!(got.json()["result"], json!({}));
    let told = changes.read_until("test://watched").await;
    assert!(told.contains("notifications/resources/updated") && !told.contains("subscriptionId"), "{told}");
    let got = session.post(&request(json!(2), "resources/unsubscribe", json!({"uri": "test://watched"}))).await;
    assert_eq!(got.json()["result"], json!({}));
    let bad = session.post(&request(json!(3), "resources/subscribe", json!({}))).await;
    assert_eq!(bad.error_code(), -32602);
}

#[tokio::test]
async fn batches_belong_to_one_revision_and_are_bounded() {
    let handle = serve(server()).await;
    let old = Session::open(&handle, "2025-03-26").await;
    let call = |id: u64| request(json!(id), "tools/call", json!({"name": format!("t{id}")}));
    let got = old.post(&format!("[{},{},{}]", call(1), call(2), request(json!(3), "ping", json!({})))).await;
    let mut ids: Vec<u64> = got.events().iter().map(|event| event["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    let quiet = r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#;
    assert_eq!(old.post(quiet).await.status, 202);
    let many = format!("[{}]", vec![call(1); 51].join(","));
    for bad in ["[]", "[{}]", many.as_str(), &format!("[{}]", initialize("2025-03-26"))] {
        let got = old.post(bad).await;
        assert_eq!((got.status, got.error_code()), (400, -32600), "{bad}");
    }
    let new = Session::open(&handle, "2025-11-25").await;
    assert_eq!(new.post(&format!("[{}]", call(1))).await.error_code(), -32600);
}

#[tokio::test]
async fn equal_ids_in_flight_are_all_answered_right() {
    let handle = serve(script(|call| match call.method {
        Method::ToolsCall => {
            let name = call.subject().unwrap_or_default().into_owned();
            Reply::from_future(async move {
                tokio::task::yield_now().await;
                Outcome::complete(JsonObject::from(text(&name)))
            })
        }
        _ => answer(call),
    }))
    .await;
    let session = Arc::new(Session::open(&handle, "2025-11-25").await);
    let calls = (0..40).map(|number| {
        let session = session.clone();
        tokio::spawn(async move {
            let name = format!("n{number}");
            let got = session.post(&request(json!(1), "tools/call", json!({"name": name}))).await;
            assert_eq!(got.json()["result"]["content"][0]["text"], name);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn the_table_of_sessions_never_grows_beyond_its_limit() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.sessions = 20;
    let handle = serve_with(config, server()).await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(Session::open(&handle, "2025-11-25").await);
    }
    let mut alive = 0;
    for session in &ids {
        alive += usize::from(session.post(&request(json!(1), "ping", json!({}))).await.status == 200);
    }
    assert_eq!(alive, 20);
}
