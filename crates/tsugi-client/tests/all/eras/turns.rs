//! Several clients and a legacy server that asks on a shared stream: they take turns, and no question reaches another
//! client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tsugi_client::ManagerOptions;
use tsugi_client::config::own_profile;
use tsugi_protocol::answer::{Answer, Call, Caller, FaultCode, Outcome, SentState, SessionLifetime};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, ProtocolVersion};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use super::questions::{answered, form};
use crate::outcome::{asked, end_of, fault, text};
use crate::world::{Bench, LIMIT, call};

/// A modern request of a caller with this key.
pub(super) fn modern(key: &str, call: Call) -> Call {
    call.from_caller(Caller::of_key(key))
}

/// A request in a legacy session.
pub(super) fn legacy(session: &str, call: Call) -> Call {
    let profile = ClientProfile { version: ProtocolVersion::LATEST_LEGACY, ..own_profile(ClientCapabilities::all()) };
    let mut call = call.from_caller(Caller::of_key("key").in_session(session));
    call.meta = RequestMeta::of_client(Arc::new(profile));
    call
}

/// A request of a client that cannot be asked.
pub(super) fn unaskable(mut call: Call) -> Call {
    call.meta = RequestMeta::default();
    call
}

fn ask_of(name: &str) -> Call {
    modern(name, call("ask", json!({"by": name})))
}

async fn first_round(bench: &Bench, call: Call) -> Outcome {
    end_of(bench.server.answer(call), LIMIT).await.expect("the call ends")
}

/// Asks, answers with the caller's own name, and returns the end.
async fn ask_and_answer(bench: &Bench, call: Call, name: &str) -> Outcome {
    let first = first_round(bench, call.clone()).await;
    match &first {
        Outcome::InputRequired(_) => bench.outcome(answered(call, &first, form(name))).await,
        _ => first,
    }
}

/// A server that is known to ask, so that calls take turns.
async fn asking_server(options: ManagerOptions) -> Bench {
    let bench = Bench::under(options, Scripted::new(Script::legacy()), |config| config);
    bench.settle().await;
    assert!(text(&ask_and_answer(&bench, ask_of("first"), "first").await).contains("first"));
    bench
}

fn patient() -> ManagerOptions {
    ManagerOptions { input_patience: LIMIT, ..crate::world::options() }
}

fn hasty() -> ManagerOptions {
    ManagerOptions { input_patience: Duration::from_millis(300), ..crate::world::options() }
}

#[tokio::test]
async fn questions_of_two_clients_at_once_are_refused_the_first_time_and_take_turns_from_then_on() {
    for key in ["alice", "bob"] {
        let bench = Bench::new(Script::legacy());
        bench.settle().await;
        let (alice, bob) = (modern("alice", call("ask", json!({"by": 1}))), modern(key, call("ask", json!({"by": 2}))));
        let both = || async {
            tokio::join!(ask_and_answer(&bench, alice.clone(), "one"), ask_and_answer(&bench, bob.clone(), "two"))
        };
        let (one, two) = both().await;
        for (outcome, own, other) in [(&one, "one", "two"), (&two, "two", "one")] {
            let text = text(outcome);
            assert!(!text.contains(other), "{own} got what {other} answered: {text}");
            assert!(text.contains(own) || text.contains("cannot be told"), "{text}");
        }
        for _ in 0..5 {
            let (one, two) = both().await;
            assert_eq!((text(&one).contains("one"), text(&two).contains("two")), (true, true), "{one:?} {two:?}");
        }
        bench.finish().await;
    }
}

#[tokio::test]
async fn fifty_callers_of_five_keys_are_served_in_turn_although_some_never_answer() {
    let bench =
        asking_server(ManagerOptions { input_patience: Duration::from_millis(50), ..crate::world::options() }).await;
    let callers = (0..50).map(|number| {
        let (bench, name) = (&bench, format!("answer-{number}-"));
        let call = modern(&format!("key-{}", number % 5), call("ask", json!({"by": number})));
        async move {
            let first = first_round(bench, call.clone()).await;
            assert!(matches!(first, Outcome::InputRequired(_)), "{first:?}");
            if number % 10 != 0 {
                let end = bench.outcome(answered(call, &first, form(&name))).await;
                assert!(text(&end).contains(&name), "{name}: {end:?}");
            }
        }
    });
    futures_util::future::join_all(callers).await;
    bench.finish().await;
}

#[tokio::test]
async fn one_legacy_session_may_have_two_calls_that_ask() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let asking = || legacy("s", call("ask", json!({})));
    let (one, two) = tokio::join!(first_round(&bench, asking()), first_round(&bench, asking()));
    assert_ne!(asked(&one).state, asked(&two).state);
    for (mut outcome, name) in [(one, "one"), (two, "two")] {
        // The server may have asked in the other order. Then the question of the other call moves here.
        while let Outcome::InputRequired(_) = &outcome {
            outcome = bench.outcome(answered(asking(), &outcome, form(name))).await;
        }
        let end = text(&outcome);
        assert!(end.contains("one") || end.contains("two"), "{end}");
    }
    bench.finish().await;
}

#[tokio::test]
async fn an_open_question_does_not_keep_its_own_sessions_other_calls_out_although_another_client_waits() {
    let bench = asking_server(patient()).await;
    let asking = legacy("alice", call("ask", json!({})));
    let parked = first_round(&bench, asking.clone()).await;
    let bob = tokio::spawn(end_of(bench.server.answer(ask_of("bob")), LIMIT));
    tokio::task::yield_now().await;
    let helping = bench.outcome(legacy("alice", call("echo", json!({})))).await;
    assert!(matches!(helping, Outcome::Complete(_)), "{helping:?}");
    assert!(!bob.is_finished());
    let end = bench.outcome(answered(asking, &parked, form("alice"))).await;
    assert!(text(&end).contains("alice"));
    let bobs = bob.await.unwrap().unwrap();
    assert!(text(&bench.outcome(answered(ask_of("bob"), &bobs, form("bob"))).await).contains("bob"));
    bench.finish().await;
}

#[tokio::test]
async fn calls_that_cannot_be_asked_and_tools_that_do_not_ask_need_no_turn() {
    let bench = asking_server(patient()).await;
    let echo = || modern("bob", call("echo", json!({"message": "hello"})));
    assert_eq!(text(&bench.outcome(echo()).await), "hello", "seen alone, it does not ask");
    let parked = first_round(&bench, ask_of("alice")).await;
    assert_eq!(text(&bench.outcome(echo()).await), "hello", "a tool that does not ask");
    let unaskable = unaskable(modern("bob", call("add", json!({"a": 1, "b": 2}))));
    assert_eq!(text(&bench.outcome(unaskable).await), "3", "a client that cannot be asked");
    let end = bench.outcome(answered(ask_of("alice"), &parked, form("alice"))).await;
    assert!(text(&end).contains("alice"));
    bench.finish().await;
}

/// Four workers of one session, so that one of its calls is always under way, until another client has been served.
#[tokio::test]
async fn a_session_whose_calls_overlap_does_not_keep_others_out() {
    let bench = asking_server(patient()).await;
    let is_served = AtomicBool::new(false);
    let overlapping = (0..4).map(|worker| {
        let (bench, is_served) = (&bench, &is_served);
        async move {
            while !is_served.load(Ordering::Relaxed) {
                bench.outcome(legacy("alice", call("sleep", json!({"ms": 30 + worker * 11})))).await;
            }
        }
    });
    let bob = async {
        let mut served = Vec::new();
        for _ in 0..3 {
            served.push(end_of(bench.server.answer(modern("bob", call("echo", json!({})))), LIMIT / 4).await);
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
async fn an_unanswered_question_expires_and_the_server_gets_an_error() {
    let options = ManagerOptions { input_lifetime: Duration::from_millis(300), ..patient() };
    let bench = asking_server(options).await;
    let left = first_round(&bench, ask_of("alice")).await;
    assert!(matches!(left, Outcome::InputRequired(_)));
    assert!(text(&ask_and_answer(&bench, ask_of("bob"), "bob").await).contains("bob"));
    assert!(wait::until(|| bench.server.status().parked == 0).await);
    let errors = bench.peer.journal().of("told").iter().filter(|told| told["error"].is_object()).count();
    assert_eq!(errors, 1, "{:?}", bench.peer.journal().of("told"));
    bench.finish().await;
}

#[tokio::test]
async fn an_unanswered_question_gives_way_soon_when_another_client_waits() {
    let bench = asking_server(hasty()).await;
    let left = first_round(&bench, ask_of("alice")).await;
    assert!(text(&ask_and_answer(&bench, ask_of("bob"), "bob").await).contains("bob"));
    let late = bench.outcome(answered(ask_of("alice"), &left, form("alice"))).await;
    assert_eq!(fault(&late).code, FaultCode::StateRejected);
    bench.finish().await;
}

#[tokio::test]
async fn a_question_that_comes_while_another_client_waits_gives_way_soon_too() {
    let bench = asking_server(hasty()).await;
    let (alice, bob) = tokio::join!(first_round(&bench, ask_of("alice")), first_round(&bench, ask_of("bob")));
    assert!(matches!((&alice, &bob), (Outcome::InputRequired(_), Outcome::InputRequired(_))), "{alice:?} {bob:?}");
    bench.finish().await;
}

#[tokio::test]
async fn a_client_that_keeps_asking_and_never_answers_does_not_starve_another() {
    let bench =
        asking_server(ManagerOptions { input_patience: Duration::from_millis(50), ..crate::world::options() }).await;
    let is_served = AtomicBool::new(false);
    let silent = (0..3).map(|worker| {
        let (bench, is_served) = (&bench, &is_served);
        async move {
            while !is_served.load(Ordering::Relaxed) {
                first_round(bench, modern("silent", call("ask", json!({"worker": worker})))).await;
            }
        }
    });
    let bob = async {
        for _ in 0..7 {
            assert!(text(&ask_and_answer(&bench, ask_of("bob"), "bob").await).contains("bob"));
        }
        is_served.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures_util::future::join_all(silent), bob);
    assert!(wait::until(|| bench.server.status().parked == 0).await || bench.server.status().parked <= 1);
    bench.manager.stop().await;
}

/// Parks a call of alice's, has `end` give it up, and lets bob be served at once although patience is long.
async fn check_turn_is_freed(call: Call, end: impl AsyncFnOnce(&Outcome)) {
    let bench = asking_server(patient()).await;
    let parked = first_round(&bench, call).await;
    let before = bench.peer.journal().cancelled().len();
    let bob = tokio::spawn(end_of(bench.server.answer(ask_of("bob")), LIMIT));
    tokio::task::yield_now().await;
    end(&parked).await;
    let bobs = bob.await.unwrap().expect("bob's call ends");
    assert!(text(&bench.outcome(answered(ask_of("bob"), &bobs, form("bob"))).await).contains("bob"));
    assert_eq!(bench.peer.journal().cancelled().len(), before + 1, "the server receives the cancellation");
    bench.finish().await;
}

#[tokio::test]
async fn a_call_that_is_released_while_it_waits_for_input_frees_its_turn_at_once() {
    check_turn_is_freed(ask_of("alice"), async |parked| asked(parked).release.unwrap().release()).await;
}

#[tokio::test]
async fn a_session_that_ends_while_its_call_waits_for_input_frees_the_turn_at_once() {
    let session = SessionLifetime::of(&Caller::of_key("alice"));
    let asking = call("ask", json!({})).from_caller(session.caller().clone());
    check_turn_is_freed(asking, async |_| session.end()).await;
}

#[tokio::test]
async fn a_question_that_a_cancelled_call_caused_reaches_no_other_client() {
    let params = json!({"message": "alice's secret", "requestedSchema": {"type": "object", "properties": {}}});
    let asks = Action::Ask { method: "elicitation/create".into(), params, wait: false };
    // The server reads the cancellation and asks all the same.
    let bench = Bench::new(Script::legacy().rule(Rule::on("notifications/cancelled").act(asks)));
    bench.settle().await;
    let alice = tokio::spawn(bench.server.answer(modern("alice", call("sleep", json!({"ms": 600_000})))).outcome());
    assert!(wait::until(|| bench.server.status().in_flight == 1).await);
    let bob = tokio::spawn(bench.server.answer(modern("bob", call("sleep", json!({"ms": 700})))).outcome());
    assert!(wait::until(|| bench.server.status().in_flight == 2).await);
    alice.abort();
    assert_eq!(text(&bob.await.unwrap()), "slept");
    let told = bench.peer.journal().of("told");
    assert!(told.len() == 1 && told[0]["error"].is_object(), "{told:?}");
    bench.finish().await;
}

#[tokio::test]
async fn a_call_without_a_turn_in_time_reports_that_nothing_was_sent_and_what_helps() {
    let bench = asking_server(patient()).await;
    let left = first_round(&bench, ask_of("alice")).await;
    assert!(matches!(left, Outcome::InputRequired(_)));
    let mut short = ask_of("bob");
    short.options.timeout = Some(Duration::from_millis(200));
    let outcome = bench.outcome(short).await;
    let fault = fault(&outcome);
    assert_eq!((fault.code, fault.sent), (FaultCode::Overloaded, SentState::NotSent));
    assert!(fault.message.contains("waits for another caller's answer"), "{}", fault.message);
    let hint = fault.hint.unwrap_or_default();
    assert!(hint.contains("instances: per-session") && hint.contains("pool"), "{hint}");
    bench.outcome(answered(ask_of("alice"), &left, form("alice"))).await;
    bench.finish().await;
}
