//! Reading how a call ended, and making sure that it ended once.

use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tsugi_protocol::answer::{CallFailure, CallNote, Fault, InputRequired, Outcome, Reply, ReplyEvent};
use tsugi_protocol::json::JsonObject;

/// The one outcome of a reply; `None` when it does not come in time.
pub(crate) async fn end_of(reply: Reply, limit: Duration) -> Option<Outcome> {
    notes_of(reply, limit).await.map(|(_, outcome)| outcome)
}

/// The notes of a reply and its one outcome; `None` when that does not come in time.
pub(crate) async fn notes_of(mut reply: Reply, limit: Duration) -> Option<(Vec<CallNote>, Outcome)> {
    let mut notes = Vec::new();
    let ended = tokio::time::timeout(limit, async {
        loop {
            match reply.next().await {
                ReplyEvent::Note(note) => notes.push(note),
                ReplyEvent::Done(outcome) => return outcome,
            }
        }
    });
    let outcome = ended.await.ok()?;
    assert!(reply.next().now_or_never().is_none(), "something came after the outcome");
    Some((notes, outcome))
}

/// The result of a call that must have one.
#[track_caller]
pub(crate) fn body(outcome: &Outcome) -> JsonObject {
    match outcome {
        Outcome::Complete(complete) => complete.body.clone(),
        other => panic!("no result but {other:?}"),
    }
}

/// The same as a value.
#[track_caller]
pub(crate) fn value(outcome: &Outcome) -> Value {
    body(outcome).raw().to().unwrap()
}

/// The first text of a result.
#[track_caller]
pub(crate) fn text(outcome: &Outcome) -> String {
    let value = value(outcome);
    value["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {value}")).to_owned()
}

/// The fault of a call that must have failed on our side.
#[track_caller]
pub(crate) fn fault(outcome: &Outcome) -> Fault {
    match outcome {
        Outcome::Failed(CallFailure::Fault(fault)) => (**fault).clone(),
        other => panic!("no fault but {other:?}"),
    }
}

/// The questions of a call that must have asked.
#[track_caller]
pub(crate) fn asked(outcome: &Outcome) -> InputRequired {
    match outcome {
        Outcome::InputRequired(asked) => asked.clone(),
        other => panic!("no question but {other:?}"),
    }
}
