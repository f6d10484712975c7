//! The careless control: the checks of the rows find every fault there, so they can fail.

use super::careless::Manner::{self, Cancels, Ignores};
use super::{Subject, Verdict, agree, door, ids, input, leave, session, stop};

/// The check found a fault of this kind.
#[track_caller]
fn found(verdict: Verdict, what: &str) {
    let error = verdict.expect_err("the careless control passes");
    assert!(error.contains(what), "{what:?} is not what was found: {error}");
}

async fn careless(manner: Manner) -> Subject {
    let subject = Subject::careless(manner).await;
    subject.works().await.expect("the control serves whoever behaves");
    subject
}

#[tokio::test]
async fn d01_the_control_goes_on_for_a_client_that_left() {
    found(leave::leaves_modern(&careless(Ignores).await, "hang", 2).await, "0 of 2 calls were cancelled");
}

#[tokio::test]
async fn d02_the_control_cancels_the_call_of_a_legacy_client_that_left() {
    found(leave::leaves_legacy(&careless(Cancels).await).await, "the call was cancelled");
}

#[tokio::test]
async fn d12_the_control_lets_anybody_cancel() {
    found(leave::cancels_others(&careless(Ignores).await).await, "somebody else cancelled");
}

#[tokio::test]
async fn d08_the_control_answers_with_a_web_page() {
    found(input::refuses_malformed(&careless(Ignores).await).await, "<h1>");
}

#[tokio::test]
async fn d09_t16_the_control_waits_for_a_body_without_end() {
    found(input::refuses_large(&careless(Ignores).await).await, "100 MB announced");
}

#[tokio::test]
async fn d10_t12_the_control_believes_the_headers() {
    let subject = careless(Ignores).await;
    found(agree::refuses_mismatches(&subject.client, &subject.upstream).await, "200");
}

#[tokio::test]
async fn d11_the_control_loses_calls_with_equal_ids() {
    found(ids::equal_ids_of_many(&careless(Ignores).await, 8).await, "unanswered");
}

#[tokio::test]
async fn d13_the_control_takes_every_revision() {
    found(agree::keeps_eras_apart(&careless(Ignores).await).await, "unknown version");
}

#[tokio::test]
async fn t01_the_control_answers_every_web_page() {
    found(door::refuses_foreign_pages(&careless(Ignores).await).await, "200");
}

#[tokio::test]
async fn t06_the_control_has_ids_that_can_be_guessed() {
    found(session::refuses_strange_sessions(&careless(Ignores).await).await, "can be guessed");
}

#[tokio::test]
async fn t14_the_control_runs_every_batch() {
    found(input::refuses_batches(&careless(Ignores).await).await, "200");
}

#[tokio::test]
async fn w06_the_control_does_not_survive_a_panic() {
    found(stop::survives_a_panic(&careless(Ignores).await).await, "unanswered");
}
