//! Answers that break off, never end, or are not what they say they are.

use serde_json::json;
use tsugi_protocol::answer::{FaultCode, SentState};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::fake::{Fake, Recorded, Step, Steps, reply};

use super::{ERAS, counted, fake, response, said, subject};
use crate::outcome::{fault, text};
use crate::role::{alone, name_of};
use crate::subject::{breaks_off, never_answers, never_ends};
use crate::world::{Bench, LIMIT, call, within};

/// The good answer to `count`.
fn answer(era: Era, request: &Recorded) -> String {
    response(request, &said(era, "1"))
}

#[tokio::test]
async fn h04_an_answer_that_breaks_off_fails_the_call_which_is_not_made_again() {
    let breaks: [fn(Era, &Recorded) -> Steps; 4] = [
        |_, _| reply::reset_before_head(),
        |era, request| reply::reset_in_body(&answer(era, request)),
        |_, _| reply::sse_reset(&[]),
        |_, _| {
            reply::sse_reset(&[
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
            ])
        },
    ];
    for era in ERAS {
        for breaking in breaks {
            for size in [1, 64] {
                let bench = Bench::of(fake(era, move |request| breaking(era, request)));
                assert_eq!(breaks_off(&subject(&bench), || counted(&bench.peer), size).await, Ok(()));
                let fault = fault(&bench.call("count", json!({})).await);
                assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{fault}");
                bench.finish().await;
            }
        }
    }
}

/// A server of 2025-03-26 that sends everything in batches, its handshake too.
#[tokio::test]
async fn an_answer_in_a_batch_is_an_answer() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    let forms: [fn(&str) -> Steps; 2] = [reply::json, |batch| reply::sse(&[batch])];
    for form in forms {
        let bench = Bench::of(Fake::start(move |request| {
            let message = request.json();
            match super::result(Era::Legacy, &message) {
                Some(result) => form(&format!("[{note},{}]", response(request, &result))),
                None => super::good(Era::Legacy, request),
            }
        }));
        bench.finish().await;
    }
}

#[tokio::test]
async fn h05_an_answer_byte_by_byte_and_a_head_without_end_are_given_up() {
    for era in ERAS {
        let slow = fake(era, move |request| reply::slow(&answer(era, request), 1000));
        let endless = fake(era, |_| reply::endless_head());
        for peer in [slow, endless] {
            let bench = Bench::of(peer);
            assert_eq!(never_answers(&subject(&bench)).await, Ok(()));
            bench.finish().await;
        }
    }
}

#[test]
fn h05_a_body_without_end_is_refused_at_the_limit() {
    alone(name_of(h05_a_body_without_end_is_refused_at_the_limit), async || {
        let bench = Bench::of(fake(Era::Modern, |_| reply::endless_body()));
        bench.works().await;
        let fault = fault(&bench.call("count", json!({})).await);
        assert_eq!(fault.code, FaultCode::InvalidResponse, "{fault}");
        assert!(fault.message.contains("64 MiB"), "{fault}");
        bench.finish().await;
    });
}

#[tokio::test]
async fn h06_a_stream_that_goes_on_after_the_answer_is_left() {
    for era in ERAS {
        let open = fake(era, move |request| [reply::sse_open(&[&answer(era, request)]), vec![Step::Hold]].concat());
        let alive = fake(era, move |request| reply::sse_keep_alive(&[&answer(era, request)], 10));
        for peer in [open, alive] {
            let bench = Bench::of(peer);
            assert_eq!(never_ends(&subject(&bench)).await, Ok(()));
            bench.finish().await;
        }
    }
}

#[tokio::test]
async fn h06_a_stream_of_signs_of_life_without_an_answer_ends_at_the_limit() {
    for era in ERAS {
        let bench = Bench::of(fake(era, |_| reply::sse_keep_alive(&[], 10)));
        assert_eq!(never_answers(&subject(&bench)).await, Ok(()));
        bench.finish().await;
    }
}

#[tokio::test]
async fn h07_malformed_streams_are_read_as_the_standard_says_or_refused() {
    for era in ERAS {
        let names: Vec<(&str, bool)> =
            reply::malformed_streams("{}").into_iter().map(|(name, is_readable, _)| (name, is_readable)).collect();
        for (index, (name, is_readable)) in names.into_iter().enumerate() {
            let bench = Bench::of(fake(era, move |request| {
                reply::malformed_streams(&answer(era, request)).swap_remove(index).2
            }));
            bench.works().await;
            let outcome = bench.call("count", json!({})).await;
            match is_readable {
                true => assert_eq!(text(&outcome), "1", "{name}"),
                false => assert_eq!(fault(&outcome).sent, SentState::Unknown, "{name}"),
            }
            bench.finish().await;
        }
    }
}

#[test]
fn h07_an_event_of_100_megabytes_is_refused_and_the_next_call_works() {
    alone(name_of(h07_an_event_of_100_megabytes_is_refused_and_the_next_call_works), async || {
        for era in ERAS {
            let bench = Bench::of(fake(era, |_| reply::sse_huge_event(100 << 20)));
            bench.works().await;
            let fault = fault(&bench.call("count", json!({})).await);
            assert_eq!((fault.code, fault.sent), (FaultCode::InvalidResponse, SentState::Unknown), "{fault}");
            bench.finish().await;
        }
    });
}

#[tokio::test]
async fn h07_a_stream_that_asks_to_be_resumed_at_once_again_and_again_is_not_resumed_in_a_hurry() {
    let primed = Fake::start(|request| match (request.method.as_str(), super::is_count(request)) {
        ("POST", true) | ("GET", _) => reply::sse_text("id: same\nretry: 0\n\n"),
        _ => super::good(Era::Legacy, request),
    });
    let bench = Bench::of(primed);
    bench.works().await;
    let fault = fault(&bench.outcome(within(call("count", json!({})), LIMIT)).await);
    assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{fault}");
    bench.finish().await;
}

/// The answer to `count` is not one: the server's fault, and the call may have been done.
async fn check_wrong(name: &str, peer: Fake) {
    let bench = Bench::of(peer);
    bench.works().await;
    let fault = fault(&bench.call("count", json!({})).await);
    assert_eq!((fault.code, fault.sent), (FaultCode::InvalidResponse, SentState::Unknown), "{name}: {fault}");
    assert_eq!(counted(&bench.peer), 1, "{name}");
    bench.finish().await;
}

#[tokio::test]
async fn h08_what_is_no_message_is_told_as_the_servers_fault() {
    for era in ERAS {
        check_wrong("html", fake(era, |_| reply::typed("text/html", "<p>hello</p>"))).await;
        check_wrong("no content type", fake(era, move |request| reply::typed("", &answer(era, request)))).await;
        let labelled = move |request: &Recorded| reply::typed("text/event-stream", &answer(era, request));
        check_wrong("JSON labelled as events", fake(era, labelled)).await;
        check_wrong("nothing", fake(era, |_| reply::typed("application/json", ""))).await;
        check_wrong("nothing at all", fake(era, |_| reply::status(200, &[], ""))).await;
        check_wrong("half", fake(era, |_| reply::json(r#"{"jsonrpc":"2.0","id":1,"#))).await;
        let wide = move |request: &Recorded| {
            let text = answer(era, request);
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let length = bytes.len().to_string();
            let headers = [("Content-Type", "application/json; charset=utf-16"), ("Content-Length", length.as_str())];
            vec![Step::Send(reply::head(200, &headers).into_bytes()), Step::Send(bytes)]
        };
        check_wrong("UTF-16", fake(era, wide)).await;
    }
}

/// On the wire it cannot be told apart from a connection that broke.
#[tokio::test]
async fn h08_an_answer_shorter_than_it_says_is_a_lost_connection() {
    for era in ERAS {
        let bench = Bench::of(fake(era, move |request| reply::truncated(&answer(era, request))));
        let fault = fault(&bench.call("count", json!({})).await);
        assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{fault}");
        bench.finish().await;
    }
}

#[tokio::test]
async fn h10_encoded_answers_are_refused_unread() {
    for era in ERAS {
        check_wrong("gzip bomb", fake(era, |_| reply::gzip_bomb(1 << 30))).await;
        check_wrong("lie", fake(era, move |request| reply::lying_encoding("br", &answer(era, request)))).await;
    }
}

#[tokio::test]
async fn h11_two_answers_in_one_body_and_answers_to_others_are_refused() {
    for era in ERAS {
        check_wrong("twice", fake(era, move |request| reply::json_twice(&answer(era, request)))).await;
        let other = move |request: &Recorded| {
            reply::json(&answer(era, request).replace(&format!(r#""id":{}"#, request.id()), r#""id":987654"#))
        };
        check_wrong("another id", fake(era, other)).await;
    }
}

#[tokio::test]
async fn h11_on_a_stream_the_first_answer_with_our_id_counts() {
    for era in ERAS {
        let stream = move |request: &Recorded| {
            let ours = answer(era, request);
            let other = response(request, &said(era, "not yours"));
            let strange = other.replace(&format!(r#""id":{}"#, request.id()), r#""id":987654"#);
            reply::sse(&[&strange, &ours, &other])
        };
        let bench = Bench::of(fake(era, stream));
        for outcome in bench.crowd(64, &call("count", json!({}))).await {
            assert_eq!(text(&outcome), "1");
        }
        bench.finish().await;
    }
}

#[tokio::test]
async fn h11_callers_of_two_sessions_whose_answers_are_swapped_get_none_of_the_others() {
    for era in ERAS {
        // Each answer carries the id of the call before.
        let swapped = move |request: &Recorded| {
            let id: u64 = request.id().parse().unwrap();
            reply::json(&answer(era, request).replace(&format!(r#""id":{id}"#), &format!(r#""id":{}"#, id - 1)))
        };
        let bench = Bench::of(fake(era, swapped));
        for outcome in bench.crowd(16, &call("count", json!({}))).await {
            assert_eq!(fault(&outcome).code, FaultCode::InvalidResponse);
        }
        bench.finish().await;
    }
}
