//! Waiting for tasks: results, questions, failures and callers that go away.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tsugi_protocol::answer::{CallOptions, Caller, ReplyEvent};
use tsugi_protocol::mcp::{ClientCapabilities, ServerCapabilities, ServerIdentity};

use super::*;
use crate::catalog::Catalog;
use crate::config::{ConnectTarget, ServerConfig};

/// A server whose looks at its one task are scripted, and what it was asked.
struct ScriptedTasks {
    looks: Mutex<VecDeque<Value>>,
    asked: Mutex<Vec<(String, Value, bool)>>,
}

impl Answer for ScriptedTasks {
    fn answer(&self, call: Call) -> Reply {
        let params: Value = call.params.raw().to().unwrap();
        let declares = call.meta.client.capabilities.has_extension(extension::TASKS);
        self.asked.lock().push((call.method.to_string(), params, declares));
        let task = json!({"taskId": "t1", "createdAt": "", "lastUpdatedAt": "", "ttlMs": null, "pollIntervalMs": 50});
        let with = |base: Value, more: Value| {
            let mut all = base.as_object().unwrap().clone();
            all.extend(more.as_object().unwrap().clone());
            Reply::ready(Outcome::complete(JsonObject::from(Value::Object(all))))
        };
        match call.method {
            Method::ToolsCall => with(task, json!({"resultType": "task", "status": "working"})),
            Method::TasksGet => match self.looks.lock().pop_front() {
                Some(look) => with(task, look),
                None => with(task, json!({"status": "working"})),
            },
            _ => Reply::ready(Outcome::complete(JsonObject::from(json!({"resultType": "complete"})))),
        }
    }
}

impl ScriptedTasks {
    fn methods(&self) -> Vec<String> {
        self.asked.lock().iter().map(|(method, ..)| method.clone()).collect()
    }
}

fn layer(looks: impl IntoIterator<Item = Value>) -> (Arc<ScriptedTasks>, TaskWaitLayer) {
    let config = ServerConfig::new("s", ConnectTarget::stdio(tsugi_process::JobCommand::new("s")));
    let tools = ToolTable::new(&config);
    let capabilities = json!({"tools": {}, "extensions": {extension::TASKS: {}}});
    let identity = ServerIdentity {
        info: None,
        version: tsugi_protocol::mcp::ProtocolVersion::LATEST,
        capabilities: ServerCapabilities::from_object(JsonObject::from(capabilities)),
        instructions: None,
        supported_versions: Vec::new(),
    };
    tools.fill(&Catalog::empty(Arc::new(identity)));
    let server = Arc::new(ScriptedTasks { looks: Mutex::new(looks.into_iter().collect()), asked: Mutex::default() });
    let layer = TaskWaitLayer::new(server.clone(), "s".into(), Arc::new(tools), &ManagerOptions::default());
    (server, layer)
}

fn call(era: Option<Era>) -> Call {
    let mut call = Call::tool("slow", None).from_caller(Caller::of_key("ann"));
    call.options = CallOptions { era, ..CallOptions::default() };
    call
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_tasks_gets_the_result_with_progress() {
    for era in [None, Some(Era::Legacy)] {
        let working = json!({"status": "working", "statusMessage": "half"});
        let (server, layer) = layer([working, json!({"status": "completed", "result": {"content": [], "x": 1}})]);
        let mut call = call(era);
        call.meta.progress_token = Some(RawJson::literal("\"p\""));
        let mut reply = layer.answer(call);
        let ReplyEvent::Note(note) = reply.next().await else { panic!("no progress") };
        assert_eq!(note.params.unwrap().as_str(), r#"{"progressToken":"p","progress":1,"message":"half"}"#);
        let ReplyEvent::Done(Outcome::Complete(complete)) = reply.next().await else { panic!("no result") };
        assert_eq!(complete.body.raw().as_str(), r#"{"content":[],"x":1}"#);
        assert_eq!(server.methods(), ["tools/call", "tasks/get", "tasks/get"]);
        assert!(server.asked.lock().iter().all(|(.., declares)| *declares), "every request declares tasks");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_knows_tasks_gets_the_task_and_a_modern_one_that_does_not_is_the_servers_matter() {
    let (server, layer) = layer([]);
    let mut knowing = call(None);
    let capabilities = ClientCapabilities::none().with_extension(extension::TASKS);
    knowing.meta.client = Arc::new(ClientProfile { capabilities, ..ClientProfile::default() });
    for call in [knowing, call(Some(Era::Modern))] {
        let Outcome::Complete(complete) = layer.answer(call).outcome().await else { panic!("no task") };
        assert_eq!(task::created(&complete.body).as_deref(), Some("t1"));
    }
    assert!(!server.asked.lock()[1].2, "nothing is declared for a modern caller");
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_once_and_their_answers_go_to_the_task() {
    let question = json!({"method": "elicitation/create", "params": {"message": "name?"}});
    let asks = json!({"status": "input_required", "inputRequests": {"name": question}});
    let done = json!({"status": "completed", "result": {"content": []}});
    let (server, layer) = layer([asks.clone(), asks, done]);
    let Outcome::InputRequired(input) = layer.answer(call(None)).outcome().await else { panic!("no question") };
    assert_eq!(input.questions()[0].key, "name");
    let answers = RawJson::from(json!({"name": {"action": "accept", "content": {"name": "Ann"}}}));
    let retry = |caller| call(None).from_caller(caller).retry_with(Some(&answers), input.state.as_deref());
    let Outcome::Complete(_) = layer.answer(retry(Caller::of_key("ann"))).outcome().await else { panic!("no result") };
    assert_eq!(server.methods(), ["tools/call", "tasks/get", "tasks/update", "tasks/get", "tasks/get"]);
    assert_eq!(server.asked.lock()[2].1["inputResponses"]["name"]["content"]["name"], "Ann");
    // Another caller's state is not opened here, and goes down to where it is refused.
    let before = server.methods().len();
    assert!(matches!(layer.answer(retry(Caller::of_key("bob"))).next().await, ReplyEvent::Note(_)));
    assert!(!server.methods()[before..].contains(&"tasks/update".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_is_a_call_that_fails() {
    let failed = json!({"status": "failed", "error": {"code": -32603, "message": "no"}});
    let Outcome::Failed(CallFailure::Upstream(error)) = layer([failed]).1.answer(call(None)).outcome().await else {
        panic!("no error")
    };
    assert_eq!((error.code(), error.message()), (-32603, "no".to_owned()));
    for (look, code) in [
        (json!({"status": "cancelled"}), FaultCode::Cancelled),
        (json!({"status": "completed"}), FaultCode::InvalidResponse),
        (json!({"status": "dancing"}), FaultCode::InvalidResponse),
    ] {
        let Outcome::Failed(CallFailure::Fault(fault)) = layer([look]).1.answer(call(None)).outcome().await else {
            panic!("no fault")
        };
        assert_eq!(fault.code, code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_interval_between_two_looks_is_not_silent() {
    let working = json!({"status": "working", "pollIntervalMs": 30000});
    let (server, layer) = layer([working, json!({"status": "completed", "result": {"content": []}})]);
    let mut notes = 0;
    let outcome = layer.answer(call(None)).outcome_with(|_| notes += 1).await;
    assert!(matches!(outcome, Outcome::Complete(_)));
    assert_eq!((server.methods().len(), notes), (3, 30), "one for the look, and one for each second but the last");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cancels_the_task() {
    let (server, layer) = layer([]);
    let mut reply = layer.answer(call(Some(Era::Legacy)));
    assert!(matches!(reply.next().await, ReplyEvent::Note(_)), "it is being waited for");
    drop(reply);
    while !server.methods().contains(&"tasks/cancel".to_owned()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.asked.lock().last().unwrap().1, json!({"taskId": "t1"}));
}
