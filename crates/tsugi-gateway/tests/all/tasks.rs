//! Tasks through the gateway: whose they are, who may ask about them, and callers that do not know them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_gateway::guard::caller_access::ServerTenants;
use tsugi_protocol::answer::{Answer, Call, Outcome, Reply};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::{RpcError, code};

use crate::faults::{BASE, JSON, legacy_call, open_session};
use crate::identity::{TokenGateway, token};
use crate::world::*;

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The tool of a task, how often it was looked at, and the answer to its question.
type TaskLooks = (String, u32, Option<Value>);

/// A server with tasks: `slow` is done at the second look, `ask` asks for a name first, `never` works for ever.
#[derive(Default)]
struct TaskServer {
    looks: Mutex<HashMap<String, TaskLooks>>,
    journal: Mutex<Vec<(String, Value)>>,
}

impl TaskServer {
    fn task(id: &str, more: Value) -> Value {
        let mut task = json!({
            "taskId": id, "createdAt": "2026-11-18T00:00:00Z", "lastUpdatedAt": "2026-11-18T00:00:00Z", "ttlMs": 60000,
            "pollIntervalMs": 50
        });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    }

    fn look(&self, id: &str) -> Option<Value> {
        let mut looks = self.looks.lock();
        let (tool, count, answer) = looks.get_mut(id)?;
        *count += 1;
        let done = |text: &str| json!({"status": "completed", "result": {"content": [{"type": "text", "text": text}]}});
        let state = match (tool.as_str(), &answer) {
            ("ask", None) => json!({"status": "input_required", "inputRequests": {"name": {
                "method": "elicitation/create", "params": {"mode": "form", "message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
            }}}),
            ("ask", Some(answer)) => done(&format!("hello {}", answer["name"]["content"]["name"])),
            ("slow", _) if *count > 1 => done("slow is done"),
            _ => json!({"status": "working", "statusMessage": "half of it"}),
        };
        Some(Self::task(id, state))
    }
}

impl Answer for TaskServer {
    fn answer(&self, call: Call) -> Reply {
        let params: Value = call.params.raw().to().unwrap();
        let id = params["taskId"].as_str().unwrap_or_default().to_owned();
        if call.method.is_about_task() || call.method == Method::ToolsCall || call.method == Method::Listen {
            self.journal.lock().push((call.method.to_string(), params.clone()));
        }
        let unknown = || Reply::ready(Outcome::error(RpcError::new(code::INVALID_PARAMS, "no such task")));
        match call.method {
            Method::Discover => complete(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tasks", "version": "1"}}
            })),
            Method::ToolsList => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                listed("tools", json!([tool("slow"), tool("ask"), tool("never")]))
            }
            Method::ToolsCall if !call.meta.client.capabilities.has_extension(TASKS) => {
                let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}}).into();
                Reply::ready(Outcome::error(RpcError::with_data(-32021, "tasks only", Some(&data))))
            }
            Method::ToolsCall => {
                let tool = params["name"].as_str().unwrap().to_owned();
                let id = format!("own-{}", self.looks.lock().len());
                self.looks.lock().insert(id.clone(), (tool, 0, None));
                complete(Self::task(&id, json!({"resultType": "task", "status": "working"})))
            }
            Method::TasksGet => match self.look(&id) {
                Some(task) => {
                    let mut task = task;
                    task["resultType"] = json!("complete");
                    complete(task)
                }
                None => unknown(),
            },
            Method::TasksUpdate | Method::TasksCancel => {
                if call.method == Method::TasksUpdate
                    && let Some(known) = self.looks.lock().get_mut(&id)
                {
                    known.2 = Some(params["inputResponses"].clone());
                }
                complete(json!({"resultType": "complete"}))
            }
            Method::Listen => {
                let ids: Vec<String> =
                    serde_json::from_value(params["notifications"]["taskIds"].clone()).unwrap_or_default();
                let mut told = vec![note("notifications/subscriptions/acknowledged", params)];
                told.extend(
                    ids.iter().map(|id| note("notifications/tasks", Self::task(id, json!({"status": "working"})))),
                );
                told.push(note("notifications/tasks", Self::task("own-of-another", json!({"status": "working"}))));
                Reply::from_source(Events(told.into(), None))
            }
            _ => complete(json!({"resultType": "complete"})),
        }
    }
}

fn plain(mark: &'static str) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": mark, "version": "1"}}
        })),
        Method::ToolsList => listed("tools", json!([{"name": "read", "inputSchema": {"type": "object"}}])),
        Method::ToolsCall => complete(text(mark)),
        _ => panic!("{} reached a server without tasks", call.method),
    })
}

async fn world() -> (Arc<TaskServer>, TokenGateway) {
    let server = Arc::new(TaskServer::default());
    let servers: Vec<(&str, Arc<dyn Answer>)> =
        vec![("one", plain("one")), ("jobs", server.clone()), ("two", plain("two"))];
    let gateway = TokenGateway::serving(servers, Vec::new(), ServerTenants::default()).await;
    (server, gateway)
}

/// A modern request of a client that takes tasks.
fn with_tasks(method: &str, params: Value) -> Value {
    let mut message = modern(json!(1), method, params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] = json!({TASKS: {}});
    message["params"]["_meta"].as_object_mut().unwrap().remove("progressToken");
    message
}

/// N10 and R4.
#[tokio::test]
async fn a_task_is_its_owners_alone() {
    let (server, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    for (path, tool) in [("/mcp", "jobs__slow"), ("/servers/jobs/mcp", "slow")] {
        let created = world.modern(path, &ann, &with_tasks("tools/call", json!({"name": tool, "arguments": {}}))).await;
        let created = created.json()["result"].clone();
        let id = created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        assert_eq!((&created["resultType"], created["ttlMs"].as_u64()), (&json!("task"), Some(60000)));
        assert!(!id.contains("own-"), "the server's own name is not shown: {id}");
        server.journal.lock().clear();
        let get = |id: &str| with_tasks("tasks/get", json!({"taskId": id}));
        let unknown = world.modern(path, &ann, &get("nothing")).await;
        assert_eq!((unknown.status, unknown.error_code()), (404, -32602), "{unknown:?}");
        let others = [
            json!({"iss": "corp", "sub": "bob"}),
            json!({"iss": "other", "sub": "ann"}),
            json!({"iss": "corp", "sub": "ann", "client": "shell"}),
            json!({"iss": "corp", "sub": "ann", "tenant": "acme"}),
        ];
        for other in others.map(token) {
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                let message = with_tasks(method, json!({"taskId": id, "inputResponses": {}}));
                let got = world.modern(path, &other, &message).await;
                assert_eq!((got.status, &got.body), (unknown.status, &unknown.body), "{method} {other}");
            }
        }
        let narrow = token(json!({"iss": "corp", "sub": "ann", "allow": "one/read"}));
        assert_eq!(world.modern(path, &narrow, &get(&id)).await.status, 403, "a tool that it may not use any longer");
        assert!(server.journal.lock().is_empty(), "the server heard nothing");
        // The owner, also with a token for the tool alone.
        let owner = token(json!({"iss": "corp", "sub": "ann", "allow": "jobs/slow"}));
        let first = world.modern(path, &owner, &get(&id)).await.json();
        assert_eq!(
            (&first["result"]["status"], &first["result"]["taskId"]),
            (&json!("working"), &json!(id)),
            "{first}"
        );
        let second = world.modern(path, &ann, &get(&id)).await.json();
        assert_eq!(second["result"]["result"]["content"][0]["text"], "slow is done");
        let cancelled = world.modern(path, &ann, &with_tasks("tasks/cancel", json!({"taskId": id}))).await.json();
        assert_eq!(cancelled["result"], json!({"resultType": "complete"}));
        let own =
            server.journal.lock().iter().all(|(_, params)| params["taskId"].as_str().unwrap().starts_with("own-"));
        assert!(own, "the server gets its own names: {:?}", server.journal.lock());
    }
    // A task of one server is unknown at the address of another.
    let call = with_tasks("tools/call", json!({"name": "jobs__slow", "arguments": {}}));
    let id = world.modern("/mcp", &ann, &call).await.json()["result"]["taskId"].clone();
    let got = world.modern("/servers/one/mcp", &ann, &with_tasks("tasks/get", json!({"taskId": id}))).await;
    assert_eq!((got.status, got.error_code()), (404, -32602), "{got:?}");
}

#[tokio::test]
async fn a_modern_client_that_does_not_declare_tasks_is_told_so() {
    let (server, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    for (path, tool) in [("/mcp", "jobs__slow"), ("/servers/jobs/mcp", "slow")] {
        for message in [
            modern(json!(1), "tools/call", json!({"name": tool, "arguments": {}})),
            modern(json!(1), "tasks/get", json!({"taskId": "x"})),
            modern(json!(1), "tasks/update", json!({"taskId": "x", "inputResponses": {}})),
            modern(json!(1), "tasks/cancel", json!({"taskId": "x"})),
        ] {
            let got = world.modern(path, &ann, &message).await;
            assert_eq!((got.status, got.error_code()), (400, -32021), "{path} {got:?}");
            let needed = json!({"extensions": {TASKS: {}}});
            assert_eq!(got.json()["error"]["data"]["requiredCapabilities"], needed, "{path} {got:?}");
        }
        let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}}));
        let got = world.modern(path, &ann, &listen).await;
        assert!(got.body.contains("-32021") && got.body.contains("requiredCapabilities"), "{path} {got:?}");
        // The header says which task is meant, and must agree.
        let message = with_tasks("tasks/get", json!({"taskId": "x"}));
        let mut headers = modern_headers(&message);
        headers.retain(|(name, _)| *name != "Mcp-Name");
        headers.extend([("Mcp-Name", "another".to_owned()), ("X-Api-Key", ann.clone())]);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let got = world.client.send("POST", path, &headers, &message.to_string()).await;
        assert_eq!((got.status, got.error_code()), (400, -32020), "{path} {got:?}");
    }
    let reached = server.journal.lock().iter().filter(|(method, _)| method != "tools/call").count();
    assert_eq!(reached, 0, "{:?}", server.journal.lock());
}

#[tokio::test]
async fn notifications_about_tasks_have_the_names_that_the_caller_knows() {
    let (server, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    for (path, tool) in [("/mcp", "jobs__never"), ("/servers/jobs/mcp", "never")] {
        let call = with_tasks("tools/call", json!({"name": tool, "arguments": {}}));
        let id = world.modern(path, &ann, &call).await.json()["result"]["taskId"].as_str().unwrap().to_owned();
        let bob = token(json!({"iss": "corp", "sub": "bob"}));
        for (caller, is_owner) in [(&bob, false), (&ann, true)] {
            server.journal.lock().clear();
            let filter = json!({"notifications": {"taskIds": [id, "nothing"], "toolsListChanged": true}});
            let listen = with_tasks("subscriptions/listen", filter);
            let mut headers = modern_headers(&listen);
            headers.push(("X-Api-Key", caller.clone()));
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let request = world.client.request("POST", path, &headers, &listen.to_string());
            let mut stream = Exchange::send(world.client.0, &request).await;
            let acknowledged = stream.read_until("acknowledged").await + &stream.read_until("\n\n").await;
            assert!(acknowledged.contains("toolsListChanged"), "{acknowledged}");
            assert_eq!(acknowledged.contains(&id), is_owner, "{acknowledged}");
            assert!(!acknowledged.contains("nothing"), "{acknowledged}");
            if is_owner {
                let told = stream.read_until(r#""status":"working""#).await;
                assert!(told.contains("notifications/tasks") && told.contains(&id) && !told.contains("own-"), "{told}");
            } else {
                assert!(server.journal.lock().is_empty(), "{:?}", server.journal.lock());
            }
        }
    }
}

#[tokio::test]
async fn legacy_callers_and_rest_wait_for_the_result() {
    let (server, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    let session = open_session(&world.client, "2025-11-25", &[("X-Api-Key", &ann)]).await;
    let headers = [BASE[0], BASE[1], ("X-Api-Key", ann.as_str()), ("Mcp-Session-Id", session.as_str())];
    let mut call = legacy_call(json!(1), "jobs__slow", json!({}));
    call["params"]["_meta"] = json!({"progressToken": "p"});
    let got = world.client.send("POST", "/mcp", &headers, &call.to_string()).await;
    let events = got.events();
    assert_eq!(events[0]["params"]["message"], "half of it", "{got:?}");
    assert_eq!(events.last().unwrap()["result"]["content"][0]["text"], "slow is done", "{got:?}");
    let no_such = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"taskId": "own-0"}});
    let got = world.client.send("POST", "/mcp", &headers, &no_such.to_string()).await;
    assert!(got.body.contains("-32601"), "{got:?}");
    let body = json!({"server": "jobs", "toolName": "slow", "input": {}}).to_string();
    let got = world.client.send("POST", "/mcp/call", &[JSON, ("X-Api-Key", &ann)], &body).await;
    assert_eq!((got.status, &got.json()["result"]), (200, &json!("slow is done")), "{got:?}");
    // A question of the task is a question of the call, and the answer goes back to the task.
    let body = json!({"server": "jobs", "toolName": "ask", "input": {}});
    let got = world.client.send("POST", "/mcp/call", &[JSON, ("X-Api-Key", &ann)], &body.to_string()).await;
    let details = got.json()["error"]["details"].clone();
    assert_eq!(details["inputRequests"]["name"]["method"], "elicitation/create", "{got:?}");
    let mut again = body;
    again["requestState"] = details["requestState"].clone();
    again["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ann"}}});
    let bob = token(json!({"iss": "corp", "sub": "bob"}));
    let got = world.client.send("POST", "/mcp/call", &[JSON, ("X-Api-Key", &bob)], &again.to_string()).await;
    assert_ne!(got.status, 200, "another caller's answer: {got:?}");
    let got = world.client.send("POST", "/mcp/call", &[JSON, ("X-Api-Key", &ann)], &again.to_string()).await;
    assert_eq!(got.json()["result"], json!("hello \"Ann\""), "{got:?}");
    assert!(!server.journal.lock().iter().any(|(method, _)| method == "tasks/cancel"));
}

#[tokio::test]
async fn a_legacy_caller_that_leaves_cancels_its_task() {
    let (server, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    let session = open_session(&world.client, "2025-11-25", &[("X-Api-Key", &ann)]).await;
    let headers = [BASE[0], BASE[1], ("X-Api-Key", ann.as_str()), ("Mcp-Session-Id", session.as_str())];
    let request =
        world.client.request("POST", "/mcp", &headers, &legacy_call(json!(7), "jobs__never", json!({})).to_string());
    let _stream = Exchange::send(world.client.0, &request).await;
    let has = |name: &str| server.journal.lock().iter().any(|(method, _)| method == name);
    until(|| has("tasks/get")).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    world.client.send("POST", "/mcp", &headers, &cancel.to_string()).await;
    until(|| has("tasks/cancel")).await;
}
