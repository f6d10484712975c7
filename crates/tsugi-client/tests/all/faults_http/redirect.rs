//! Servers that send us elsewhere, close kept connections, or work every other time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue};
use serde_json::json;
use tsugi_client::ConnectTarget;
use tsugi_protocol::answer::{FaultCode, Outcome, SentState};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::fake::{Fake, Steps, reply};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::HttpServer;

use super::{ERAS, counted, fake, good, is_count, response, said, subject};
use crate::outcome::{fault, text};
use crate::subject::leads_away;
use crate::world::{Bench, call, options};

/// A fake that answers `count` with a redirect, with secrets in our headers.
fn redirecting(era: Era, code: u16, location: impl Into<String>) -> Bench<Fake> {
    let location = location.into();
    let peer = fake(era, move |_| reply::redirect(code, &location));
    Bench::under(options(), peer, |mut config| {
        let ConnectTarget::Http(target) = &mut config.target else { unreachable!() };
        target.headers = HeaderMap::from_iter([
            (http::header::AUTHORIZATION, HeaderValue::from_static("Bearer secret")),
            (http::HeaderName::from_static("x-api-key"), HeaderValue::from_static("secret")),
        ]);
        config
    })
}

#[tokio::test]
async fn h09_a_redirect_to_another_origin_is_not_followed_and_no_header_leaks() {
    for era in ERAS {
        for code in [301, 302, 303, 307, 308] {
            let sink = Fake::start(|_| reply::status(200, &[], ""));
            let bench = redirecting(era, code, sink.url());
            assert_eq!(leads_away(&subject(&bench), || sink.requests()).await, Ok(()), "{code}");
            let fault = fault(&bench.call("count", json!({})).await);
            assert!(fault.message.contains("redirect"), "{fault}");
            assert_eq!(sink.connections(), 0);
            bench.finish().await;
        }
    }
}

#[tokio::test]
async fn h09_a_redirect_within_the_origin_is_followed_when_it_repeats_the_request() {
    for era in ERAS {
        for code in [301, 302, 303, 307, 308] {
            let peer = Fake::start(move |request| match (request.path.as_str(), is_count(request)) {
                ("/mcp", true) => reply::redirect(code, "/elsewhere"),
                ("/elsewhere", _) => reply::json(&response(request, &said(era, "there"))),
                _ => good(era, request),
            });
            let bench = Bench::of(peer);
            bench.works().await;
            let outcome = bench.call("count", json!({})).await;
            match code {
                307 | 308 => assert_eq!(text(&outcome), "there"),
                // The server may have acted before it sent us to look at what came of it.
                _ => assert_eq!(fault(&outcome).sent, SentState::Unknown),
            }
            bench.finish().await;
        }
    }
}

#[tokio::test]
async fn h09_redirects_in_a_circle_end_after_three() {
    for era in ERAS {
        let bench = redirecting(era, 307, "/mcp");
        bench.works().await;
        let fault = fault(&bench.call("count", json!({})).await);
        assert!(fault.message.contains("redirects"), "{fault}");
        assert_eq!(counted(&bench.peer), 4);
        bench.finish().await;
    }
}

/// The connection is closed after every answer, just when it would be used again.
fn closing(era: Era) -> Fake {
    Fake::start(move |request| {
        let mut steps: Steps = match is_count(request) {
            true => reply::json(&response(request, &said(era, "1"))),
            false => good(era, request),
        };
        steps.push(tsugi_testkit::fake::Step::Close);
        steps
    })
}

#[tokio::test]
async fn h13_a_kept_connection_that_closes_when_it_is_used_costs_no_call_and_doubles_none() {
    for era in ERAS {
        let bench = Bench::of(closing(era));
        bench.works().await;
        let mut unlucky = 0;
        for _ in 0..200 {
            match bench.call("count", json!({})).await {
                Outcome::Complete(_) => {}
                // The request was on its way when the connection closed: nobody can tell, so it is not repeated.
                outcome => {
                    let fault = fault(&outcome);
                    assert_eq!((fault.code, fault.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{fault}");
                    unlucky += 1;
                }
            }
        }
        assert!(counted(&bench.peer) <= 200, "{} calls for 200", counted(&bench.peer));
        // How many meet the very moment depends on the machine; a client that reuses closed connections fails
        // every second call.
        assert!(unlucky < 80, "{unlucky} of 200 calls met a closing connection");
        bench.finish_dead().await;
    }
}

#[tokio::test]
async fn h14_a_server_that_flaps_gets_no_more_than_a_fifth_more_calls() {
    for script in [Script::legacy(), Script::modern()] {
        let flapping =
            Rule::on_tool("add").every(2).act(Action::Status { code: 503, headers: Vec::new(), body: String::new() });
        let bench = Bench::of(HttpServer::start(&script.rule(flapping)));
        bench.settle().await;
        let failed = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            if let Outcome::Failed(_) = bench.outcome(call("add", json!({"a": 1, "b": 1}))).await {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        let sent = bench.peer.journal().received("tools/call").len();
        assert!((100..=120).contains(&sent), "{sent} requests for 100 calls");
        assert!(failed.load(Ordering::Relaxed) <= 50);
        bench.finish().await;
    }
}
