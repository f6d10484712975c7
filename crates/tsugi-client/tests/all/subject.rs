//! What a fault row checks, written once, so that the careless control can be seen to fail it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_protocol::answer::{Answer, Call, Outcome, Reply};
use tsugi_testkit::journal::Journal;
use tsugi_testkit::wait;

use crate::outcome::end_of;
use crate::world::{SHORT, call, within};

/// What a check found.
pub(crate) type Verdict = Result<(), String>;

/// A client under test: tsugi, or the careless control.
#[derive(Clone)]
pub(crate) struct Subject {
    client: Arc<dyn Answer>,
    patience: Duration,
}

impl Subject {
    /// This client, whose calls hang when they take longer than `patience`.
    pub(crate) fn new(client: impl Answer + 'static, patience: Duration) -> Self {
        Self { client: Arc::new(client), patience }
    }

    pub(crate) fn answer(&self, call: Call) -> Reply {
        self.client.answer(call)
    }

    pub(crate) async fn outcome(&self, call: Call) -> Result<Outcome, String> {
        let name = call.subject().map_or_else(|| call.method.to_string(), |subject| subject.into_owned());
        end_of(self.client.answer(call), self.patience).await.ok_or_else(|| format!("{name} hangs"))
    }

    /// The same call many times at once.
    pub(crate) async fn crowd(&self, size: usize, call: &Call) -> Result<Vec<Outcome>, String> {
        let calls = (0..size).map(|_| self.outcome(call.clone()));
        futures_util::future::join_all(calls).await.into_iter().collect()
    }

    /// The positive control.
    pub(crate) async fn works(&self) -> Verdict {
        self.echoes("hello").await
    }

    async fn echoes(&self, message: &str) -> Verdict {
        let outcome = self.outcome(call("echo", json!({"message": message}))).await?;
        let found = text_of(&outcome);
        ensure(found.as_deref() == Some(message), || format!("echo of {message:?} gave {outcome:?}"))
    }
}

fn text_of(outcome: &Outcome) -> Option<String> {
    let Outcome::Complete(complete) = outcome else { return None };
    let value: Value = complete.body.raw().to().ok()?;
    value["content"][0]["text"].as_str().map(str::to_owned)
}

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub(crate) fn all_failed(outcomes: &[Outcome]) -> Verdict {
    let answered = outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Failed(_))).count();
    ensure(answered == 0, || format!("{answered} calls of a dead server have a result"))
}

/// F-06, F-07: the server dies in `count` while it has `hold` from everybody else. All calls fail, none is made twice.
pub(crate) async fn dies_in_calls(subject: &Subject, journal: &Journal, size: usize) -> Verdict {
    subject.works().await?;
    let held = call("hold", json!({}));
    let (mut outcomes, last) = tokio::join!(subject.crowd(size - 1, &held), subject.outcome(call("count", json!({}))));
    outcomes.as_mut().map_err(|error| error.clone())?.push(last?);
    all_failed(&outcomes?)?;
    subject.works().await?;
    let sent = calls_of(journal, "hold").len() + calls_of(journal, "count").len();
    ensure(sent <= size, || format!("{size} calls were sent {sent} times"))
}

/// The ids of the calls of one tool that reached the server.
fn calls_of(journal: &Journal, tool: &str) -> Vec<Value> {
    let calls = journal.received("tools/call").into_iter().filter(|call| call["params"]["name"] == tool);
    calls.map(|mut call| call["id"].take()).collect()
}

/// F-11: the server never answers `hold`. The call ends by itself, the server is told, and the rest goes on.
pub(crate) async fn hangs(subject: &Subject, journal: &Journal, size: usize) -> Verdict {
    subject.works().await?;
    let outcomes = subject.crowd(size, &within(call("hold", json!({})), SHORT)).await?;
    all_failed(&outcomes)?;
    let told = wait::until(|| journal.cancelled().len() >= size).await;
    ensure(told, || format!("the server was told of {} of {size}", journal.cancelled().len()))?;
    subject.works().await
}

/// F-13: the server answers `late` after its caller gave up. The next callers get their own answers.
pub(crate) async fn answers_late(subject: &Subject, journal: &Journal, size: usize) -> Verdict {
    subject.works().await?;
    let outcomes = subject.crowd(size, &within(call("late", json!({"of": "another"})), SHORT)).await?;
    all_failed(&outcomes)?;
    let is_over = || {
        let answered = journal.of("answered");
        calls_of(journal, "late").iter().filter(|id| answered.contains(id)).count() >= size
    };
    while !is_over() {
        subject.echoes("mine").await?;
    }
    subject.works().await
}

/// F-14, F-15, F-16: the server writes something that is no message before each answer. Calls work all the same.
pub(crate) async fn writes_junk(subject: &Subject, journal: &Journal) -> Verdict {
    for message in ["one", "two", "three"] {
        subject.echoes(message).await?;
    }
    let answered_to = journal.of("unreadable").len() + journal.of("told").len();
    ensure(answered_to == 0, || format!("{answered_to} messages were written in answer to junk"))
}

/// H-04: the connection breaks in the answer to `count`. Every call fails, and none is made twice.
pub(crate) async fn breaks_off(subject: &Subject, counted: impl Fn() -> usize, size: usize) -> Verdict {
    subject.works().await?;
    let outcomes = subject.crowd(size, &call("count", json!({}))).await?;
    all_failed(&outcomes)?;
    ensure(counted() == size, || format!("{size} calls were sent {} times", counted()))?;
    subject.works().await
}

/// H-05, H-06: the answer to `count` never comes. The call ends by itself.
pub(crate) async fn never_answers(subject: &Subject) -> Verdict {
    subject.works().await?;
    let outcome = subject.outcome(within(call("count", json!({})), SHORT)).await?;
    all_failed(&[outcome])?;
    subject.works().await
}

/// H-06: the answer to `count` comes on a stream that then goes on. The call ends with its answer.
pub(crate) async fn never_ends(subject: &Subject) -> Verdict {
    subject.works().await?;
    let outcome = subject.outcome(call("count", json!({}))).await?;
    ensure(text_of(&outcome).as_deref() == Some("1"), || format!("no answer but {outcome:?}"))?;
    subject.works().await
}

/// H-09: `count` is answered with a redirect to another origin, which must not hear of it.
pub(crate) async fn leads_away(subject: &Subject, heard: impl Fn() -> usize) -> Verdict {
    subject.works().await?;
    let outcome = subject.outcome(call("count", json!({}))).await?;
    all_failed(&[outcome])?;
    ensure(heard() == 0, || format!("the other origin heard of {} requests", heard()))
}
