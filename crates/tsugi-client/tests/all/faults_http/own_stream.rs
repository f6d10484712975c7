//! What a legacy server says on the session's own stream while calls are in flight: pings, questions, and nothing at all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tsugi_client::ConnectTarget;
use tsugi_client::config::own_profile;
use tsugi_protocol::answer::{Answer, Call, Caller, Outcome};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, Era, ProtocolVersion};
use tsugi_testkit::fake::{Fake, Recorded, Step, Steps, reply};
use tsugi_testkit::wait;

use super::{counted, good, is_count, response, said};
use crate::outcome::{asked, end_of, text};
use crate::world::{Bench, LIMIT, Peer, call};

/// A server whose every word is told from the test.
struct Talkative {
    fake: Fake,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What the first stream of the session says.
    said: Option<Vec<String>>,
    /// The calls of `count` that may end.
    finished: Vec<String>,
}

impl Peer for Talkative {
    fn target(&self) -> ConnectTarget {
        self.fake.target()
    }
}

impl Script {
    fn wait_for<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(done) = ready(&mut state) {
                return Some(done);
            }
            if self.changed.wait_for(&mut state, LIMIT).timed_out() {
                return None;
            }
        }
    }

    fn answer(&self, request: &Recorded) -> Steps {
        let message = request.json();
        if request.method == "GET" {
            return match self.wait_for(|state| state.said.take()) {
                Some(said) => {
                    let said: Vec<&str> = said.iter().map(String::as_str).collect();
                    [reply::sse_open(&said), vec![Step::Hold]].concat()
                }
                None => reply::nothing(),
            };
        }
        if is_count(request) {
            let label = message["params"]["arguments"]["label"].as_str().unwrap_or_default();
            self.wait_for(|state| state.finished.iter().any(|finished| finished == label).then_some(()));
            return reply::json(&response(request, &said(Era::Legacy, label)));
        }
        if message.get("method").is_none() {
            return reply::status(202, &[], "");
        }
        good(Era::Legacy, request)
    }
}

impl Talkative {
    fn start() -> Self {
        let script = Arc::new(Script::default());
        let answering = script.clone();
        Self { fake: Fake::start(move |request| answering.answer(request)), script }
    }

    fn say(&self, messages: &[Value]) {
        self.script.state.lock().said = Some(messages.iter().map(Value::to_string).collect());
        self.script.changed.notify_all();
    }

    fn finish(&self, label: &str) {
        self.script.state.lock().finished.push(label.into());
        self.script.changed.notify_all();
    }

    /// What the server was answered, by the id of its request.
    fn answers(&self) -> HashMap<String, Value> {
        let messages = self.fake.recorded().into_iter().map(|request| request.json());
        messages
            .filter(|message| message.get("method").is_none())
            .map(|message| (message["id"].to_string(), message))
            .collect()
    }

    async fn answer_to(&self, id: &str) -> Value {
        assert!(wait::until(|| self.answers().contains_key(id)).await, "no answer to {id}");
        self.answers().remove(id).unwrap()
    }

    /// The id of the call with this label.
    fn id_of(&self, label: &str) -> Value {
        let messages = self.fake.recorded().into_iter().map(|request| request.json());
        let mut calls = messages.filter(|message| message["params"]["arguments"]["label"] == label);
        calls.next().unwrap()["id"].clone()
    }
}

fn request(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method})
}

fn question(id: u64) -> Value {
    let params = json!({"message": format!("question {id}"), "requestedSchema": {"type": "object", "properties": {}}});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

/// Calls `count`, and waits until the server has the call.
async fn begin(bench: &Bench<Talkative>, label: &str) -> tokio::task::JoinHandle<Option<Outcome>> {
    let before = counted(&bench.peer.fake);
    let calling = tokio::spawn(end_of(bench.server.answer(labelled(label)), LIMIT / 2));
    assert!(wait::until(|| counted(&bench.peer.fake) == before + 1).await);
    calling
}

/// A call of one legacy session: its calls are one client's.
fn labelled(label: &str) -> Call {
    let profile = ClientProfile { version: ProtocolVersion::LATEST_LEGACY, ..own_profile(ClientCapabilities::all()) };
    let mut call = call("count", json!({"label": label})).from_caller(Caller::of_key("key").in_session("s"));
    call.meta = RequestMeta::of_client(Arc::new(profile));
    call
}

/// Answers what a call asks until it ends.
async fn to_the_end(bench: &Bench<Talkative>, label: &str, mut outcome: Outcome) -> Outcome {
    while let Outcome::InputRequired(_) = &outcome {
        outcome = go_on(bench, label, &outcome).await;
    }
    outcome
}

/// Answers the questions that a call asked.
async fn go_on(bench: &Bench<Talkative>, label: &str, outcome: &Outcome) -> Outcome {
    let asked = asked(outcome);
    let mut answers = InputResponses::default();
    for question in asked.questions() {
        answers.add(&question.key, &RawJson::from(json!({"action": "accept", "content": {}})));
    }
    bench.outcome(labelled(label).retry_with(Some(&answers.finish()), asked.state.as_deref())).await
}

fn message_of(outcome: &Outcome) -> String {
    let params: Value = asked(outcome).questions().remove(0).params.unwrap().to().unwrap();
    params["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_ping_beside_a_call_is_answered_and_what_nobody_knows_is_refused() {
    let bench = Bench::of(Talkative::start());
    bench.settle().await;
    let calling = begin(&bench, "a").await;
    bench.peer.say(&[request(1, "ping"), request(2, "no/such")]);
    assert_eq!(bench.peer.answer_to("1").await["result"], json!({}));
    assert_eq!(bench.peer.answer_to("2").await["error"]["code"], -32601);
    bench.peer.finish("a");
    assert_eq!(text(&calling.await.unwrap().unwrap()), "a");
    bench.finish().await;
}

#[tokio::test]
async fn a_ping_beside_a_call_that_waits_for_its_caller_is_answered() {
    let bench = Bench::of(Talkative::start());
    bench.settle().await;
    let calling = begin(&bench, "a").await;
    bench.peer.say(&[question(1), request(2, "ping")]);
    let parked = calling.await.unwrap().unwrap();
    assert_eq!(bench.peer.answer_to("2").await["result"], json!({}));
    bench.peer.finish("a");
    assert_eq!(text(&go_on(&bench, "a", &parked).await), "a");
    bench.finish().await;
}

#[tokio::test]
async fn questions_that_come_at_the_same_time_are_asked_together() {
    let bench = Bench::of(Talkative::start());
    bench.settle().await;
    let calling = begin(&bench, "a").await;
    bench.peer.say(&[question(1), question(2)]);
    let parked = calling.await.unwrap().unwrap();
    assert_eq!(asked(&parked).questions().len(), 2);
    let answering = async {
        for id in ["1", "2"] {
            assert_eq!(bench.peer.answer_to(id).await["result"]["action"], "accept");
        }
        bench.peer.finish("a");
    };
    let (ended, ()) = tokio::join!(go_on(&bench, "a", &parked), answering);
    assert_eq!(text(&ended), "a");
    bench.finish().await;
}

#[tokio::test]
async fn questions_beside_two_calls_of_one_caller_go_to_one_each_and_none_is_lost() {
    let bench = Bench::of(Talkative::start());
    bench.settle().await;
    let (one, other) = (begin(&bench, "a").await, begin(&bench, "b").await);
    // The answer to the first call comes on this stream too, before a question that it is then not the asker of.
    let answer = json!({"jsonrpc": "2.0", "id": bench.peer.id_of("a"), "result": said(Era::Legacy, "a")});
    bench.peer.say(&[question(1), question(2), answer, question(3)]);
    let (one, other) = (one.await.unwrap().expect("the first ends"), other.await.unwrap().expect("the other is asked"));
    assert_eq!(message_of(&other), "question 2");
    assert_eq!(text(&to_the_end(&bench, "a", one).await), "a");
    let answering = async {
        for id in ["1", "2", "3"] {
            assert_eq!(bench.peer.answer_to(id).await["result"]["action"], "accept");
        }
        bench.peer.finish("b");
    };
    let (ended, ()) = tokio::join!(to_the_end(&bench, "b", other), answering);
    assert_eq!(text(&ended), "b");
    bench.peer.finish("a");
    bench.finish().await;
}

#[tokio::test]
async fn a_stream_that_is_refused_for_now_is_asked_for_again() {
    let refusing = Fake::start(|request| match request.method.as_str() {
        "GET" => reply::status(409, &[], ""),
        _ => good(Era::Legacy, request),
    });
    let bench = Bench::of(refusing);
    bench.settle().await;
    let asked = || bench.peer.recorded().iter().filter(|request| request.method == "GET").count();
    assert!(wait::until(|| asked() >= 2).await, "the stream was given up");
    bench.finish().await;
}
