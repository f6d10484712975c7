//! Servers that die, hang or answer late while they have calls, and callers that go away.

use std::time::{Duration, Instant};

use serde_json::json;
use tsugi_protocol::answer::{Answer, FaultCode, SentState};
use tsugi_protocol::json::RawJson;
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::wait;

use super::{eras, patient, subject};
use crate::outcome::{fault, notes_of, text};
use crate::subject::{answers_late, dies_in_calls, hangs};
use crate::world::{Bench, LIMIT, SHORT, call, within};

/// The server dies in its first launch when `count` is called, in one of two ways.
async fn check_death(action: Action, size: usize) {
    for script in eras() {
        let dying = patient(script).rule(Rule::on_tool("count").launch(1).act(action.clone()));
        let bench = Bench::new(dying);
        assert_eq!(dies_in_calls(&subject(&bench), &bench.peer.journal(), size).await, Ok(()));
        assert_eq!(bench.peer.journal().launches(), 2);
        bench.finish().await;
    }
}

#[tokio::test]
async fn f06_a_call_whose_server_dies_before_answering_fails_and_is_not_made_again() {
    check_death(Action::Exit(3), 1).await;
}

#[tokio::test]
async fn f06_a_call_whose_server_dies_within_its_answer_fails_and_is_not_made_again() {
    check_death(Action::HalfThenExit(3), 1).await;
}

#[tokio::test]
async fn f06_a_call_that_died_says_that_it_was_sent_and_how_the_server_ended() {
    for script in eras() {
        let bench = Bench::new(script);
        bench.works().await;
        let fault = fault(&bench.call("crash", json!({"code": 42})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ServerCrashed, SentState::Unknown));
        assert_eq!(fault.process.as_ref().unwrap().status, "exit code 42");
        let data = fault.to_rpc().data_object().unwrap();
        assert_eq!(data.get_bytes("sent"), Some(&b"true"[..]));
        bench.works().await;
        assert_eq!(bench.peer.journal().effects("crash"), 1);
        bench.finish().await;
    }
}

#[tokio::test]
async fn f06_an_answer_that_was_written_before_the_death_is_kept() {
    for script in eras() {
        let bench = Bench::new(script.rule(Rule::on_tool("count").launch(1).after().act(Action::Exit(3))));
        bench.works().await;
        assert_eq!(text(&bench.call("count", json!({})).await), "1");
        assert!(wait::until(|| bench.peer.journal().launches() == 2).await);
        assert_eq!(bench.peer.journal().effects("count"), 1);
        bench.finish().await;
    }
}

#[tokio::test]
async fn f07_64_calls_in_flight_all_fail_when_the_server_dies() {
    check_death(Action::Exit(3), 64).await;
    check_death(Action::HalfThenExit(3), 64).await;
}

async fn check_hanging(size: usize) {
    for script in eras() {
        let bench = Bench::new(patient(script));
        assert_eq!(hangs(&subject(&bench), &bench.peer.journal(), size).await, Ok(()));
        assert_eq!(bench.peer.journal().launches(), 1, "the process is kept");
        bench.finish().await;
    }
}

#[tokio::test]
async fn f11_a_call_that_hangs_ends_at_its_limit_and_the_server_is_told() {
    check_hanging(1).await;
}

#[tokio::test]
async fn f11_64_calls_that_hang_end_at_their_limit_and_the_server_is_told_of_each() {
    check_hanging(64).await;
}

#[tokio::test]
async fn f11_the_limit_says_so_and_that_the_effect_is_not_known() {
    let bench = Bench::new(patient(eras()[0].clone()));
    bench.works().await;
    let fault = fault(&bench.outcome(within(call("hold", json!({})), SHORT)).await);
    assert_eq!((fault.code, fault.sent, fault.tool.as_deref()), (FaultCode::Timeout, SentState::Unknown, Some("hold")));
    bench.finish().await;
}

#[tokio::test]
async fn f12_progress_keeps_a_call_alive_until_the_limit_of_all() {
    for script in eras() {
        let bench = Bench::with(script, |mut config| {
            config.max_timeout = Some(Duration::from_millis(1500));
            config
        });
        bench.works().await;
        let started = Instant::now();
        let reporting = within(call("progress", json!({"steps": 10_000, "every_ms": 50})), Duration::from_secs(1));
        let fault = fault(&bench.outcome(reporting).await);
        assert_eq!(fault.code, FaultCode::Timeout);
        assert!(started.elapsed() >= Duration::from_millis(1500), "progress counts as a sign of life");
        assert!(fault.message.contains("in all"), "{fault}");
        assert!(wait::until(|| bench.peer.journal().cancelled().len() == 1).await);
        bench.finish().await;
    }
}

async fn check_late(size: usize) {
    for script in eras() {
        let bench = Bench::new(patient(script));
        assert_eq!(answers_late(&subject(&bench), &bench.peer.journal(), size).await, Ok(()));
        bench.finish().await;
    }
}

#[tokio::test]
async fn f13_an_answer_after_the_limit_is_given_to_nobody() {
    check_late(1).await;
}

#[tokio::test]
async fn f13_64_answers_after_the_limit_are_given_to_nobody() {
    check_late(64).await;
}

#[tokio::test]
async fn f19_a_caller_that_does_not_look_holds_up_nobody_and_costs_little() {
    for script in eras() {
        let flood = Rule::on_tool("count").act(Action::Progress { count: 20_000, every_ms: 0 });
        let bench = Bench::new(script.rule(flood));
        bench.works().await;
        let mut counting = call("count", json!({}));
        counting.meta.progress_token = Some(RawJson::string("mine"));
        let stalled = bench.server.answer(counting);
        for outcome in bench.crowd(64, &call("echo", json!({"message": "past it"}))).await {
            assert_eq!(text(&outcome), "past it");
        }
        // A caller that begins to look in mid-flood would see the rest of it. What comes after its end on the same
        // pipe has been read, so the flood has too.
        assert!(bench.peer.journal().until(|journal| journal.effects("count") == 1).await);
        bench.works().await;
        let (notes, outcome) = notes_of(stalled, LIMIT).await.expect("the answer is there when it is looked at");
        assert_eq!(text(&outcome), "1");
        assert!(notes.len() < 2000, "{} notes were kept for a caller that did not look", notes.len());
        bench.finish().await;
    }
}

#[tokio::test]
async fn f24_ten_thousand_callers_that_went_away_leave_nothing_behind() {
    for script in eras() {
        let bench = Bench::new(patient(script));
        bench.settle().await;
        for round in 0..10_000 {
            drop(bench.server.answer(call("hold", json!({}))));
            // A call that waits for room in the pipe would not be sent at all.
            if round % 500 == 0 {
                bench.works().await;
            }
        }
        bench.works().await;
        assert_eq!(bench.server.status().in_flight, 0);
        assert_eq!(cancelled(&bench), 10_000);
        bench.finish().await;
    }
}

/// How many calls the server was told to give up, counted without reading each entry.
fn cancelled(bench: &Bench) -> usize {
    let journal = std::fs::read_to_string(bench.peer.folder().join("journal.jsonl")).unwrap();
    journal.matches(r#""event":"cancelled""#).count()
}

#[tokio::test]
async fn questions_without_end_beside_a_call_that_waits_for_its_caller_are_refused() {
    let params = json!({"message": "Again?", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = || Action::Ask { method: "elicitation/create".into(), params: params.clone(), wait: false };
    let rule = (0..40).fold(Rule::on_tool("count"), |rule, _| rule.act(ask()));
    let bench = Bench::new(Script::legacy().rule(rule.act(Action::Silence)));
    bench.settle().await;
    let asked = crate::outcome::asked(&bench.call("count", json!({})).await);
    assert!(asked.questions().len() <= 16);
    let refused = || bench.peer.journal().of("told").iter().filter(|answer| answer.get("error").is_some()).count();
    assert!(wait::until(|| refused() == 40 - 16).await, "{} are refused", refused());
    // Left unanswered; stopping gives it up.
    bench.manager.stop().await;
}
