//! The state of a parked call: sealed, for one caller, one request and a while, and good for one answer.

use std::time::Duration;

use serde_json::json;
use tsugi_client::ManagerOptions;
use tsugi_protocol::answer::{Caller, Fault, FaultCode, Outcome, SentState};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::wait;

use super::cell::Cell;
use super::questions::{answered, form};
use super::turns::legacy;
use crate::outcome::{asked, fault, text};
use crate::world::{call, options};

#[track_caller]
fn check_rejected(outcome: &Outcome, name: &str) {
    let fault: Fault = fault(outcome);
    assert_eq!((fault.code, fault.sent), (FaultCode::StateRejected, SentState::NotSent), "{name}: {fault}");
}

#[tokio::test]
async fn a_state_that_was_changed_or_belongs_to_another_caller_or_request_is_refused() {
    for cell in Cell::all().await {
        let ann = Caller::of_key("ann");
        let asking = call("ask", json!({})).from_caller(ann.clone());
        let first = cell.outcome(asking.clone()).await;
        let good = answered(asking.clone(), &first, form("Ann"));
        let state = asked(&first).state.unwrap();
        let mut changed = state.clone().into_bytes();
        let middle = changed.len() / 2;
        changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let answers = good.params.get("inputResponses").unwrap();
        for wrong in [
            asking.clone().retry_with(Some(&answers), Some(&changed)),
            asking.clone().retry_with(Some(&answers), Some("made up")),
            good.clone().from_caller(Caller::of_key("bob")),
            call("ask", json!({"other": 1})).from_caller(ann.clone()).retry_with(Some(&answers), Some(&state)),
            call("ask_twice", json!({})).from_caller(ann).retry_with(Some(&answers), Some(&state)),
        ] {
            check_rejected(&cell.outcome(wrong).await, cell.name);
        }
        assert!(text(&cell.outcome(good).await).contains("Ann"), "{}: nothing was spoilt", cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_state_that_comes_late_is_refused_and_the_server_is_told() {
    let hasty = ManagerOptions { input_lifetime: Duration::from_millis(200), ..options() };
    for cell in Cell::legacy(&hasty).await {
        let asking = call("ask", json!({}));
        let first = cell.outcome(asking.clone()).await;
        // The call that waits is given up by itself, without anybody coming back.
        let is_given_up = || cell.server.status().parked == 0 && cell.server.status().in_flight == 0;
        assert!(wait::until(is_given_up).await, "{}: {:?}", cell.name, cell.server.status());
        check_rejected(&cell.outcome(answered(asking, &first, form("late"))).await, cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_question_that_the_server_takes_back_is_not_answered_and_its_call_ends_as_the_server_ends_it() {
    for cell in Cell::legacy(&options()).await {
        let asking = legacy("s", call("ask", json!({})));
        let first = cell.outcome(asking.clone()).await;
        let answer = answered(asking, &first, form("too late"));
        // Of the same session: another client's call would wait for its turn.
        let withdraw = legacy("s", call("withdraw", json!({})));
        assert_eq!(text(&cell.outcome(withdraw).await), "withdrawn", "{}", cell.name);
        assert_eq!(text(&cell.outcome(answer.clone()).await), r#"["withdrawn"]"#, "{}", cell.name);
        assert_eq!(cell.told(), Vec::<serde_json::Value>::new(), "{}: it must not be answered any more", cell.name);
        check_rejected(&cell.outcome(answer).await, cell.name);
        cell.finish().await;
    }
}

#[tokio::test]
async fn of_two_answers_one_counts() {
    for cell in Cell::legacy(&options()).await {
        let asking = call("ask", json!({}));
        let first = cell.outcome(asking.clone()).await;
        let answer = answered(asking, &first, form("once"));
        let (one, two) = tokio::join!(cell.outcome(answer.clone()), cell.outcome(answer));
        let (good, bad) = if matches!(one, Outcome::Complete(_)) { (one, two) } else { (two, one) };
        assert!(text(&good).contains("once"), "{}", cell.name);
        check_rejected(&bad, cell.name);
        assert_eq!(cell.era, Era::Legacy);
        cell.finish().await;
    }
}

#[tokio::test]
async fn a_call_that_waits_for_an_answer_ends_with_its_server() {
    for cell in Cell::legacy(&options()).await {
        let asking = call("ask", json!({}));
        let first = cell.outcome(asking.clone()).await;
        assert_eq!(cell.server.status().parked, 1);
        cell.server.restart().await;
        check_rejected(&cell.outcome(answered(asking, &first, form("late"))).await, cell.name);
        cell.finish().await;
    }
}
