//! Two callers and a legacy server that asks on a shared stream: a question never reaches the wrong one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tsugi_protocol::answer::{Answer, Call, Caller, FaultCode, Outcome, SentState};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::questions::{answered, form};
use crate::outcome::{asked, end_of, fault, text};
use crate::world::{Bench, LIMIT, call};

fn of(name: &str, tool: &str) -> Call {
    call(tool, json!({"by": name})).from_caller(Caller::new(name))
}

/// Asks, answers with the caller's own name, and gives the end.
async fn ask_and_answer(bench: &Bench, name: &str) -> Outcome {
    let first = end_of(bench.server.answer(of(name, "ask")), LIMIT).await.expect("the call ends");
    match &first {
        Outcome::InputRequired(_) => bench.outcome(answered(of(name, "ask"), &first, form(name))).await,
        _ => first,
    }
}

#[tokio::test]
async fn the_question_of_one_caller_waits_until_it_cannot_be_the_others() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let sleeping = tokio::spawn(end_of(bench.server.answer(of("bob", "sleep")), LIMIT));
    let outcome = ask_and_answer(&bench, "alice").await;
    assert!(text(&outcome).contains("alice"), "{outcome:?}");
    assert_eq!(text(&sleeping.await.unwrap().unwrap()), "slept");
    bench.finish().await;
}

#[tokio::test]
async fn questions_of_two_callers_at_once_are_refused_the_first_time_and_take_turns_from_then_on() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let (ann, bob) = tokio::join!(ask_and_answer(&bench, "alice"), ask_and_answer(&bench, "bob"));
    for (outcome, own, other) in [(&ann, "alice", "bob"), (&bob, "bob", "alice")] {
        let text = text(outcome);
        assert!(!text.contains(other), "{own} got what {other} said: {text}");
        assert!(text.contains(own) || text.contains("cannot be told"), "{text}");
    }
    for _ in 0..5 {
        let (ann, bob) = tokio::join!(ask_and_answer(&bench, "alice"), ask_and_answer(&bench, "bob"));
        assert_eq!((text(&ann).contains("alice"), text(&bob).contains("bob")), (true, true), "{ann:?} {bob:?}");
    }
    bench.finish().await;
}

#[tokio::test]
async fn many_callers_that_all_ask_each_get_their_own_answer_once_the_server_is_known_to_ask() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, "first").await).contains("first"));
    let names: Vec<String> = (0..16).map(|number| format!("caller-{number}-")).collect();
    let outcomes = futures_util::future::join_all(names.iter().map(|name| ask_and_answer(&bench, name))).await;
    for (name, outcome) in names.iter().zip(&outcomes) {
        assert!(text(outcome).contains(name), "{name}: {outcome:?}");
    }
    bench.finish().await;
}

/// Answers alice's call until it ends: the server may have asked in the other order, and then the question of
/// her other call moves here.
async fn answer_to_the_end(bench: &Bench, mut outcome: Outcome, name: &str) -> Outcome {
    while let Outcome::InputRequired(_) = &outcome {
        outcome = bench.outcome(answered(of("alice", "ask"), &outcome, form(name))).await;
    }
    outcome
}

#[tokio::test]
async fn one_caller_may_have_two_calls_that_ask() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let asking = || end_of(bench.server.answer(of("alice", "ask")), LIMIT);
    let (one, two) = tokio::join!(asking(), asking());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(asked(&one).state, asked(&two).state);
    for (outcome, name) in [(one, "one"), (two, "two")] {
        let told = text(&answer_to_the_end(&bench, outcome, name).await);
        assert!(told.contains("one") || told.contains("two"), "{told}");
    }
    bench.finish().await;
}

#[tokio::test]
async fn a_question_of_ones_own_does_not_keep_ones_other_calls_out_although_somebody_waits() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, "first").await).contains("first"));
    let parked = end_of(bench.server.answer(of("alice", "ask")), LIMIT).await.unwrap();
    let bob = tokio::spawn(end_of(bench.server.answer(of("bob", "echo")), LIMIT));
    tokio::task::yield_now().await;
    let helping = bench.outcome(of("alice", "echo")).await;
    assert!(matches!(helping, Outcome::Complete(_)), "{helping:?}");
    assert!(!bob.is_finished());
    let answered = bench.outcome(answered(of("alice", "ask"), &parked, form("alice"))).await;
    assert!(text(&answered).contains("alice"));
    assert!(matches!(bob.await, Ok(Some(Outcome::Complete(_)))));
    bench.finish().await;
}

/// Four workers of one caller, so that one of its calls is always under way, until another caller has been served.
#[tokio::test]
async fn a_caller_whose_calls_overlap_does_not_keep_others_out() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, "first").await).contains("first"));
    let is_served = AtomicBool::new(false);
    let overlapping = (0..4).map(|worker| {
        let (bench, is_served) = (&bench, &is_served);
        async move {
            while !is_served.load(Ordering::Relaxed) {
                let sleep = call("sleep", json!({"ms": 30 + worker * 11})).from_caller(Caller::new("alice"));
                bench.outcome(sleep).await;
            }
        }
    });
    let bob = async {
        let mut served = Vec::new();
        for _ in 0..3 {
            served.push(end_of(bench.server.answer(of("bob", "echo")), LIMIT / 4).await);
        }
        is_served.store(true, Ordering::Relaxed);
        served
    };
    let (_, served) = tokio::join!(futures_util::future::join_all(overlapping), bob);
    let is_complete = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Complete(_)));
    assert!(served.iter().all(is_complete), "{served:?}");
    bench.finish().await;
}

#[tokio::test]
async fn a_caller_that_leaves_its_question_unanswered_gives_way_when_it_expires() {
    let options =
        tsugi_client::ManagerOptions { input_lifetime: Duration::from_millis(300), ..crate::world::options() };
    let bench = Bench::under(options, Scripted::new(Script::legacy()), |config| config);
    bench.settle().await;
    let left = end_of(bench.server.answer(of("alice", "ask")), LIMIT).await.unwrap();
    assert!(matches!(left, Outcome::InputRequired(_)));
    assert!(text(&ask_and_answer(&bench, "bob").await).contains("bob"));
    assert!(wait::until(|| bench.server.status().parked == 0).await);
    bench.finish().await;
}

#[tokio::test]
async fn a_caller_that_leaves_its_question_unanswered_gives_way_soon_when_another_waits() {
    let options =
        tsugi_client::ManagerOptions { input_patience: Duration::from_millis(300), ..crate::world::options() };
    let bench = Bench::under(options, Scripted::new(Script::legacy()), |config| config);
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, "first").await).contains("first"));
    let left = end_of(bench.server.answer(of("alice", "ask")), LIMIT).await.unwrap();
    assert!(
        matches!(bench.outcome(of("bob", "echo")).await, Outcome::Complete(_)),
        "bob does not wait for ten minutes"
    );
    let late = bench.outcome(answered(of("alice", "ask"), &left, form("alice"))).await;
    assert_eq!(fault(&late).code, FaultCode::StateRejected);
    bench.finish().await;
}

#[tokio::test]
async fn a_question_that_comes_while_another_caller_waits_is_given_up_soon_too() {
    let options =
        tsugi_client::ManagerOptions { input_patience: Duration::from_millis(300), ..crate::world::options() };
    let bench = Bench::under(options, Scripted::new(Script::legacy()), |config| config);
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, "first").await).contains("first"));
    let (left, bob) = tokio::join!(
        end_of(bench.server.answer(of("alice", "ask")), LIMIT),
        end_of(bench.server.answer(of("bob", "echo")), LIMIT),
    );
    assert!(matches!(left, Some(Outcome::InputRequired(_))), "{left:?}");
    assert!(matches!(bob, Some(Outcome::Complete(_))), "{bob:?}");
    bench.finish().await;
}

#[tokio::test]
async fn who_gets_no_turn_in_time_hears_that_nothing_was_sent() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, "first").await).contains("first"));
    let left = end_of(bench.server.answer(of("alice", "ask")), LIMIT).await.unwrap();
    assert!(matches!(left, Outcome::InputRequired(_)));
    let mut short = of("bob", "echo");
    short.options.timeout = Some(Duration::from_millis(200));
    let outcome = bench.outcome(short).await;
    let fault = fault(&outcome);
    assert_eq!((fault.code, fault.sent), (FaultCode::Overloaded, SentState::NotSent));
    assert!(fault.message.contains("waits for another caller's answer"), "{}", fault.message);
    bench.outcome(answered(of("alice", "ask"), &left, form("alice"))).await;
    bench.finish().await;
}
