//! The careless control: the checks of the rows find every fault there, so they can fail.

use super::careless::Manner::{self, Cancels, Ignores};
use super::{Subject, Verdict, agree, door, ids, input, leave, load, session, stop};

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

#[tokio::test]
async fn d04_the_control_takes_everything_for_a_client_that_does_not_read() {
    found(load::holds_little_for_a_stalled_reader(&careless(Ignores).await).await, "for a client that does not read");
}

#[tokio::test]
async fn d05_the_control_tells_its_listeners_nothing() {
    found(load::loses_nothing_of_idle_clients(&careless(Ignores).await, 1).await, "hears nothing");
}

#[tokio::test]
async fn d06_t17_the_control_keeps_every_session() {
    found(session::forgets_sessions_that_nobody_ends(&careless(Ignores).await, 20).await, "40 sessions are kept");
}

#[tokio::test]
async fn d07_the_control_keeps_the_calls_of_clients_that_went() {
    found(load::rests_after_a_spike(&careless(Ignores).await, 20, 1).await, "20 of 20 calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d14_the_control_gives_a_server_everything_at_once() {
    found(load::sheds_what_is_too_much(&careless(Ignores).await, "", 400).await, "calls at once");
}

#[tokio::test]
async fn t03_the_control_asks_for_no_key() {
    found(door::refuses_forged_headers(&careless(Ignores).await).await, "200");
}

#[tokio::test]
async fn t08_the_control_runs_what_is_hidden() {
    found(door::hides_what_is_denied(&careless(Ignores).await, "x").await, "up__secret");
}

#[tokio::test]
async fn t13_the_control_takes_the_last_of_two_names() {
    found(input::reads_names_one_way(&careless(Ignores).await).await, "\"Name\"");
}

#[tokio::test]
async fn t18_the_control_passes_on_whatever_state_it_gets() {
    found(door::refuses_changed_states(&careless(Ignores).await, "").await, "a changed state is taken");
}
