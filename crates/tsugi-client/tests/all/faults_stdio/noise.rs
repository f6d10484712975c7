//! Servers that write what is no message, too much, or without reading.

use serde_json::json;
use tsugi_protocol::answer::Answer;
use tsugi_testkit::process::peak_resident_bytes;
use tsugi_testkit::script::{Action, Junk, Rule, Script};

use super::{eras, subject};
use crate::outcome::{end_of, text};
use crate::role::{alone, name_of};
use crate::subject::writes_junk;
use crate::world::{Bench, LIMIT, call};

const MIB: u64 = 1 << 20;

/// How many notifications are a flood. A million pass as well, but take a minute in a debug build.
const FLOOD: usize = 100_000;

/// Something that is no message comes before every answer, also those of the handshake.
async fn check_junk(script: Script, junk: &[Action]) {
    let rule = Rule { actions: junk.to_vec(), ..Rule::on("*") };
    let bench = Bench::new(script.rule(rule));
    bench.settle().await;
    assert_eq!(writes_junk(&subject(&bench), &bench.peer.journal()).await, Ok(()));
    bench.finish().await;
}

#[tokio::test]
async fn f14_lines_that_are_no_messages_are_skipped_and_never_answered() {
    for junk in [Junk::Words, Junk::Blank, Junk::Json, Junk::Partial, Junk::Bom, Junk::Deep] {
        for script in eras() {
            check_junk(script, &[Action::Junk(junk)]).await;
        }
    }
}

#[tokio::test]
async fn f14_carriage_returns_and_messages_in_pieces_are_understood() {
    for script in eras() {
        check_junk(Script { line_end: "\r\n".into(), ..script.clone() }, &[]).await;
        check_junk(Script { pieces: Some(3), ..script }, &[Action::Junk(Junk::Words)]).await;
    }
}

#[tokio::test]
async fn f14_an_answer_over_several_lines_is_no_answer_and_the_next_call_works() {
    let spread = Rule::on_tool("add").act(Action::Answer(tsugi_testkit::script::Form::Indented));
    let bench = Bench::new(Script::legacy().rule(spread));
    bench.works().await;
    let outcome = bench.outcome(crate::world::within(call("add", json!({"a": 1, "b": 2})), crate::world::SHORT)).await;
    assert_eq!(crate::outcome::fault(&outcome).code, tsugi_protocol::answer::FaultCode::Timeout);
    bench.finish().await;
}

#[tokio::test]
async fn f15_bytes_that_are_no_text_are_skipped() {
    for junk in [Junk::OneByte, Junk::Random] {
        for script in eras() {
            check_junk(script, &[Action::Junk(junk)]).await;
        }
    }
}

/// The memory of this process must not have grown by more than 64 MiB.
struct Memory(u64);

impl Memory {
    fn now() -> Self {
        Self(peak_resident_bytes(std::process::id()).unwrap())
    }

    fn check(self) {
        let grown = Self::now().0.saturating_sub(self.0) / MIB;
        assert!(grown <= 64, "the memory grew by {grown} MiB");
    }
}

#[test]
fn f16_a_line_of_300_megabytes_is_dropped_and_the_next_one_works() {
    alone(name_of(f16_a_line_of_300_megabytes_is_dropped_and_the_next_one_works), async || {
        for script in eras() {
            let bench = Bench::new(script.rule(Rule::on_tool("echo").nth(2).act(Action::LongLine(300 << 20))));
            bench.settle().await;
            let memory = Memory::now();
            assert_eq!(writes_junk(&subject(&bench), &bench.peer.journal()).await, Ok(()));
            memory.check();
            bench.finish().await;
        }
    });
}

#[test]
fn f17_floods_of_notifications_lose_notifications_and_never_answers() {
    alone(name_of(f17_floods_of_notifications_lose_notifications_and_never_answers), async || {
        let flood = [Action::Notifications(FLOOD), Action::Progress { count: FLOOD, every_ms: 0 }];
        for (script, action) in eras().into_iter().zip(flood) {
            let bench = Bench::new(script.rule(Rule::on_tool("count").act(action)));
            bench.works().await;
            let memory = Memory::now();
            let (counting, echoing) = (call("count", json!({})), call("echo", json!({"message": "beside"})));
            let (counted, beside) = tokio::join!(bench.outcome(counting), bench.crowd(16, &echoing));
            assert_eq!(text(&counted), "1");
            assert!(beside.iter().all(|outcome| text(outcome) == "beside"));
            memory.check();
            bench.finish().await;
        }
    });
}

#[tokio::test]
async fn f18_a_server_that_writes_without_reading_and_a_client_that_sends_much_both_get_on() {
    for script in eras() {
        let stuffed = Rule::on_tool("count").act(Action::StopReading(4 << 20));
        let bench = Bench::new(script.rule(stuffed));
        bench.works().await;
        let counting = bench.server.answer(call("count", json!({})));
        // Far more than a pipe holds, while the server reads nothing.
        let large = "x".repeat(50_000);
        let beside = bench.crowd(63, &call("echo", json!({"message": large}))).await;
        assert!(beside.iter().all(|outcome| text(outcome) == large));
        let counted = end_of(counting, LIMIT).await.expect("the call ends");
        assert_eq!(text(&counted), "1");
        bench.finish().await;
    }
}

#[test]
fn f20_a_flood_on_stderr_is_drained_and_its_last_lines_are_kept() {
    alone(name_of(f20_a_flood_on_stderr_is_drained_and_its_last_lines_are_kept), async || {
        for script in eras() {
            let flood = Rule::on_tool("count").act(Action::StderrFlood(32 << 20)).act(Action::Stderr("the end".into()));
            let bench = Bench::new(script.rule(flood));
            bench.works().await;
            let memory = Memory::now();
            assert_eq!(text(&bench.call("count", json!({})).await), "1");
            let has_end = || bench.server.stderr(5).last().is_some_and(|line| line == "the end");
            assert!(tsugi_testkit::wait::until(has_end).await, "{:?}", bench.server.stderr(5));
            let kept: usize = bench.server.stderr(usize::MAX).iter().map(String::len).sum();
            // 64 KiB are kept; a byte that is no text takes three to show.
            assert!(kept <= 128 << 10, "{kept} bytes are kept");
            memory.check();
            bench.finish().await;
        }
    });
}
