//! `@modelcontextprotocol/server-everything` over each of its three wires.

use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tsugi_client::ConnectTarget;
use tsugi_protocol::answer::{Answer, Call, CallNote, InputRequired, Outcome};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_testkit::process::Mark;
use tsugi_transport::http::HttpTarget;

use super::{Extra, Real, node, port};
use crate::outcome::{asked, notes_of, text};
use crate::world::{LIMIT, call};

/// All that it has: lists, calls, progress, cancelling, and questions to the user and to the model.
async fn has_everything(real: &Real) {
    assert_eq!(real.era(), Era::Legacy);
    knows_the_roots(real).await;
    assert!(real.tools() >= 13, "{} tools", real.tools());
    assert_eq!(real.say("echo", json!({"message": "hi"})).await, "Echo: hi");
    let prompts = real.ask(Method::PromptsList, json!({})).await;
    assert!(!prompts["prompts"].as_array().unwrap().is_empty());
    let prompt = real.ask(Method::PromptsGet, json!({"name": "simple-prompt"})).await;
    assert!(prompt["messages"][0]["content"]["text"].is_string(), "{prompt}");
    let resources = real.ask(Method::ResourcesList, json!({})).await;
    let uri = &resources["resources"][0]["uri"];
    let read = real.ask(Method::ResourcesRead, json!({"uri": uri})).await;
    assert!(!read["contents"][0]["text"].as_str().unwrap().is_empty());
    tells_progress(real).await;
    can_be_cancelled(real).await;
    asks(real).await;
}

/// The server also asks for roots by itself, a moment after the handshake. On most wires nobody can tell which
/// call such a question belongs to, so whichever runs may be asked; afterwards the server knows and is silent.
async fn knows_the_roots(real: &Real) {
    let asking = call("get-roots-list", json!({}));
    let mut outcome = real.outcome(asking.clone()).await;
    while let Outcome::InputRequired(question) = &outcome {
        let again = answer_to(asking.clone(), question, json!({"roots": [{"uri": "file:///pots", "name": "Pots"}]}));
        outcome = real.outcome(again).await;
    }
    assert!(text(&outcome).contains("file:///pots"), "{}", text(&outcome));
}

async fn tells_progress(real: &Real) {
    let mut long = call("trigger-long-running-operation", json!({"duration": 0.2, "steps": 2}));
    long.meta.progress_token = Some(RawJson::string("mine"));
    let (notes, outcome) = notes_of(real.server.answer(long), LIMIT).await.unwrap();
    let progress = notes.iter().filter(|note| note.method == Method::Progress).map(step);
    assert_eq!(progress.collect::<Vec<_>>(), [(json!("mine"), json!(1)), (json!("mine"), json!(2))]);
    assert!(text(&outcome).contains("completed"));
}

fn step(note: &CallNote) -> (Value, Value) {
    let params: Value = note.params.as_ref().unwrap().to().unwrap();
    (params["progressToken"].clone(), params["progress"].clone())
}

/// A call that would take an hour is dropped, and the server goes on.
async fn can_be_cancelled(real: &Real) {
    let mut long = call("trigger-long-running-operation", json!({"duration": 3600, "steps": 36000}));
    long.meta.progress_token = Some(RawJson::string("hour"));
    let mut reply = real.server.answer(long);
    reply.next().await;
    drop(reply);
    assert_eq!(real.say("echo", json!({"message": "on"})).await, "Echo: on");
}

async fn asks(real: &Real) {
    let form = json!({"action": "accept", "content": {"name": "Ann", "check": true}});
    let told = answered(real, call("trigger-elicitation-request", json!({})), Method::Elicit, form).await;
    assert!(told.contains("User provided"), "{told}");
    let refused = json!({"action": "decline"});
    let told = answered(real, call("trigger-elicitation-request", json!({})), Method::Elicit, refused).await;
    assert!(told.contains("declined"), "{told}");
    let message = json!({"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"});
    let sampling = call("trigger-sampling-request", json!({"prompt": "what?", "maxTokens": 10}));
    let told = answered(real, sampling, Method::CreateMessage, message).await;
    assert!(told.contains("forty-two"), "{told}");
}

/// Answers the one question of a call, and gives the text that it ends with.
async fn answered(real: &Real, asking: Call, method: Method, answer: Value) -> String {
    let first: Outcome = real.outcome(asking.clone()).await;
    let question = asked(&first);
    assert_eq!(question.questions()[0].method, method);
    text(&real.outcome(answer_to(asking, &question, answer)).await)
}

/// The call again, with an answer to its one question.
fn answer_to(asking: Call, question: &InputRequired, answer: Value) -> Call {
    let mut answers = InputResponses::default();
    answers.add(&question.questions()[0].key, &RawJson::from(answer));
    asking.retry_with(Some(&answers.finish()), question.state.as_deref())
}

#[tokio::test]
async fn everything_works_over_stdio() {
    let Some(command) = node("server-everything") else { return };
    Real::each(command, |_| Extra::default(), has_everything).await;
}

/// The server over HTTP, which is ended with the test.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts the server with this wire on any port.
#[allow(clippy::disallowed_methods, reason = "nobody's child but the test's, which ends it")]
fn listening(wire: &str, mark: &Mark) -> Option<(Listening, u16)> {
    let command = node("server-everything")?;
    let mut starting = std::process::Command::new(&command.program);
    starting.args(&command.args).arg(wire).env("PORT", "0").envs([mark.variable()]);
    let child = starting.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let port = port::of(child.id());
    Some((Listening(child), port))
}

async fn over_http(wire: &str, path: &str, targets: &[fn(HttpTarget) -> ConnectTarget]) {
    for target in targets {
        let mark = Mark::new();
        let Some((listening, port)) = listening(wire, &mark) else { return };
        let url = format!("http://127.0.0.1:{port}{path}").parse().unwrap();
        let target = target(HttpTarget::new(url, Default::default()));
        let real = Real::connected(wire.into(), target, Mark::new(), tempfile::tempdir().unwrap()).await;
        has_everything(&real).await;
        real.finish().await;
        assert_eq!(mark.count(), 1, "{wire}: the server lives on without us");
        drop(listening);
        assert_eq!(mark.processes(), []);
    }
}

#[tokio::test]
async fn everything_works_over_streamable_http() {
    over_http("streamableHttp", "/mcp", &[ConnectTarget::StreamableHttp, ConnectTarget::Http]).await;
}

#[tokio::test]
async fn everything_works_over_http_and_sse() {
    over_http("sse", "/sse", &[ConnectTarget::Sse, ConnectTarget::Http]).await;
}
