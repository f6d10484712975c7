//! Servers to which no connection comes about, and what their first answer says of them.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::backoff::BackoffPolicy;
use tsugi_client::config::RetryPolicy;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::{ConnectTarget, Manager};
use tsugi_protocol::answer::{Answer, Blame, Fault, FaultCode, Outcome, SentState};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::fake::tls::Certificate;
use tsugi_testkit::fake::{BlackHole, Fake, Recorded, Steps, refused, reply};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::HttpServer;
use tsugi_testkit::wait;
use tsugi_transport::http::HttpTarget;

use super::{ERAS, fake, good, response, result};
use crate::outcome::{end_of, fault, text};
use crate::role;
use crate::world::{Bench, EAGER, LIMIT, call, config, http, options};

/// Calls a server once; it is not tried a second time.
async fn call_once(target: ConnectTarget) -> Outcome {
    let manager = Manager::new(options());
    let mut config = config("tested", target);
    config.backoff = BackoffPolicy { max_retries: Some(0), ..EAGER };
    let server = manager.register(config).unwrap();
    let outcome = end_of(server.answer(call("echo", json!({"message": "hello"}))), LIMIT).await.expect("the call ends");
    manager.stop().await;
    outcome
}

/// The server cannot be reached, and the fault names the cause.
#[track_caller]
fn check_unavailable(fault: &Fault, cause: &str) {
    assert_eq!((fault.code, fault.sent), (FaultCode::ServerNotRunning, SentState::NotSent), "{fault}");
    assert!(fault.message.contains(cause), "{cause:?} is not in {fault}");
    assert!(fault.hint.is_some(), "no hint for {fault}");
}

#[tokio::test]
async fn h01_a_refused_connection_and_a_name_that_is_none_are_told_with_their_cause() {
    let refusing = format!("http://{}/mcp", refused());
    check_unavailable(&fault(&call_once(http(&refusing)).await), "refused");
    // Too long for a name, so that nobody is asked for it.
    let nameless = format!("http://{}.example/mcp", "x".repeat(70));
    check_unavailable(&fault(&call_once(http(&nameless)).await), "cannot be resolved");
    let refusing = format!("ws://{}/mcp", refused());
    assert!(fault(&call_once(http(&refusing)).await).message.contains("refused"));
}

#[tokio::test]
async fn h01_an_address_that_swallows_everything_is_given_up() {
    let hole = BlackHole::new();
    let fault = fault(&call_once(http(&format!("http://{}/mcp", hole.address()))).await);
    check_unavailable(&fault, "no connection within 5 s");
}

#[tokio::test]
async fn h01_a_tls_handshake_that_never_ends_is_given_up() {
    let silent = Fake::silent();
    let fault = fault(&call_once(http(&format!("https://{}/mcp", silent.address()))).await);
    check_unavailable(&fault, "no connection within 5 s");
}

/// Calls an `https` server in a process that trusts its authority, and gives what it says.
fn call_trusting(test: &str, url: &str, authority: &Path) -> String {
    let output = role::command(test, "trusting", url).env("SSL_CERT_FILE", authority).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix("said: "));
    line.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

/// The part of the process that trusts.
fn trust(url: &str) {
    let outcome = tokio::runtime::Runtime::new().unwrap().block_on(call_once(http(url)));
    match &outcome {
        Outcome::Complete(_) => println!("\nsaid: {}", text(&outcome)),
        other => println!("\nsaid: {}", fault(other)),
    }
}

#[test]
fn h01_certificates_that_are_expired_self_signed_or_for_another_name_are_refused_with_their_cause() {
    let test =
        role::name_of(h01_certificates_that_are_expired_self_signed_or_for_another_name_are_refused_with_their_cause);
    if let Some((_, url)) = role::given() {
        return trust(&url);
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    let check = |certificate: Certificate, cause: &str| {
        std::fs::write(&authority, certificate.authority_pem()).unwrap();
        let fake = Fake::start_tls(certificate, |request| good(Era::Modern, request));
        let said = call_trusting(test, &fake.url(), &authority);
        assert!(said.contains(cause), "{cause:?} is not in {said:?}");
        assert_eq!(fake.requests() > 0, cause == "hello", "nothing is sent over what is not trusted");
    };
    check(Certificate::good(), "hello");
    check(Certificate::expired(), "expired");
    check(Certificate::wrong_name(), "for another host name");
    check(Certificate::self_signed(), "not signed by an authority");
}

#[test]
fn h09_a_redirect_from_https_to_http_is_not_followed() {
    let test = role::name_of(h09_a_redirect_from_https_to_http_is_not_followed);
    if let Some((_, url)) = role::given() {
        return trust(&url);
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    let certificate = Certificate::good();
    std::fs::write(&authority, certificate.authority_pem()).unwrap();
    let sink = Fake::start(|_| reply::status(200, &[], ""));
    let location = sink.url();
    let fake = Fake::start_tls(certificate, move |_| reply::redirect(307, &location));
    assert!(call_trusting(test, &fake.url(), &authority).contains("another origin"));
    assert_eq!((fake.requests(), sink.connections()), (1, 0));
}

/// A server whose first answer, to the modern question, is this; in the legacy way it works.
fn legacy_after(first: impl Fn(&Recorded) -> Steps + Send + Sync + 'static) -> Fake {
    Fake::start(move |request| match request.json()["method"].as_str() {
        Some("server/discover") => first(request),
        _ => good(Era::Legacy, request),
    })
}

#[tokio::test]
async fn h02_a_refusal_that_is_no_modern_error_leads_to_the_legacy_handshake() {
    let error = |code: i64| {
        move |request: &Recorded| {
            let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": {"code": code, "message": "no"}});
            reply::status(400, &[("Content-Type", "application/json")], &body.to_string())
        }
    };
    let plain = |code: u16| move |_: &Recorded| reply::status(code, &[], "");
    let fakes = [
        legacy_after(plain(400)),
        legacy_after(plain(404)),
        legacy_after(plain(405)),
        legacy_after(plain(406)),
        legacy_after(error(-32000)),
        legacy_after(error(-32600)),
        legacy_after(|_| reply::status(400, &[("Content-Type", "text/html")], "<h1>Bad Request</h1>")),
        legacy_after(unsupported(&["2025-06-18"])),
    ];
    for peer in fakes {
        let bench = Bench::of(peer);
        bench.works().await;
        assert_eq!(bench.server.status().version.unwrap().era(), Era::Legacy);
        bench.finish().await;
    }
}

fn unsupported(versions: &'static [&'static str]) -> impl Fn(&Recorded) -> Steps {
    move |request| {
        let error = json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": versions}});
        let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error});
        reply::status(400, &[("Content-Type", "application/json")], &body.to_string())
    }
}

#[tokio::test]
async fn h02_a_modern_error_does_not_lead_to_the_legacy_handshake() {
    let other = Fake::start(unsupported(&["2030-01-01"]));
    let fault = fault(&call_once(http(&other.url())).await);
    assert!(fault.message.contains("2030-01-01"), "{fault}");
    assert!(other.recorded().iter().all(|request| request.json()["method"] == "server/discover"));
}

#[tokio::test]
async fn h02_missing_rights_are_told_and_nothing_else_is_tried() {
    for code in [401, 403] {
        let guarded = Fake::start(move |_| reply::status(code, &[], ""));
        let fault = fault(&call_once(http(&guarded.url())).await);
        assert_eq!((fault.sent, fault.retryable), (SentState::NotSent, false), "{fault}");
        assert_eq!(fault.cause.as_ref().unwrap().code, FaultCode::PermissionDenied);
        assert!(fault.message.contains(&code.to_string()), "{fault}");
        assert_eq!(guarded.requests(), 1);
    }
}

#[tokio::test]
async fn h02_a_server_that_is_ill_is_not_taken_for_a_legacy_one_and_is_tried_again() {
    for code in [429, 500, 502, 503] {
        let peer = Fake::start(move |request| match request.number {
            1 | 2 => reply::status(code, &[("Retry-After", "0")], ""),
            _ => good(Era::Modern, request),
        });
        let bench = Bench::of(peer);
        bench.works().await;
        let methods: Vec<Value> =
            bench.peer.recorded().iter().take(3).map(|request| request.json()["method"].clone()).collect();
        assert_eq!(methods, ["server/discover"; 3]);
        bench.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_comes_late_is_used_as_soon_as_it_is_there() {
    // More failures than make a crash loop of a program.
    let peer = Fake::start(|request| match request.number {
        1..=6 => reply::status(502, &[], ""),
        _ => good(Era::Modern, request),
    });
    let bench = Bench::under(options(), peer, |mut config| {
        config.backoff = BackoffPolicy::default();
        config
    });
    bench.works().await;
    bench.finish().await;
}

#[tokio::test]
async fn h02_a_pause_that_a_server_asks_for_is_kept_before_connecting_again() {
    let asking = Fake::start(|_| reply::status(503, &[("Retry-After", "100")], ""));
    let bench = Bench::of(asking);
    assert!(wait::until(|| bench.server.status().state == ConnectionState::Reconnecting).await);
    let hasty = crate::world::within(call("echo", json!({})), Duration::from_millis(500));
    assert_eq!(fault(&bench.outcome(hasty).await).code, FaultCode::ServerNotRunning);
    assert_eq!(bench.peer.requests(), 1);
    bench.finish_dead().await;
}

#[tokio::test]
async fn h02_a_call_that_is_refused_for_now_says_how_long_to_wait() {
    for (code, expected) in [(429, FaultCode::RateLimitExceeded), (503, FaultCode::Overloaded)] {
        for era in ERAS {
            let bench = Bench::of(fake(era, move |_| reply::status(code, &[("Retry-After", "7")], "")));
            bench.works().await;
            let fault = fault(&bench.call("count", json!({})).await);
            assert_eq!(
                (fault.code, fault.sent, fault.retry_after_ms),
                (expected, SentState::NotSent, Some(7000)),
                "{fault}"
            );
            assert_eq!(fault.blame, Blame::Upstream, "the server said so, not tsugi: {fault}");
            assert_eq!(super::counted(&bench.peer), 1);
            bench.finish().await;
        }
    }
}

/// What tsugi itself sends: the status and the wait in the head, the reason as a JSON-RPC error in the body.
fn refusal_in_words(request: &Recorded, code: u16, wait: &str, data: &Value) -> Steps {
    let error = json!({"code": -32010, "message": "too often", "data": data});
    let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}).to_string();
    reply::status(code, &[("Content-Type", "application/json"), ("Retry-After", wait)], &body)
}

#[tokio::test]
async fn h02_a_refusal_in_words_keeps_its_words_and_how_long_to_wait() {
    let known =
        [(json!({"outcome": "not_sent"}), SentState::NotSent), (json!({"outcome": "unknown"}), SentState::Unknown)];
    for (code, expected) in [(429, FaultCode::RateLimitExceeded), (503, FaultCode::Overloaded)] {
        for (era, (data, sent)) in ERAS.into_iter().zip(known.clone()) {
            let bench = Bench::of(fake(era, move |request| refusal_in_words(request, code, "7", &data)));
            bench.works().await;
            let fault = fault(&bench.call("count", json!({})).await);
            assert_eq!((fault.code, fault.sent, fault.retry_after_ms), (expected, sent, Some(7000)), "{fault}");
            assert!(fault.message.contains("too often"), "{fault}");
            assert!(fault.details.as_ref().unwrap().as_str().contains("-32010"), "{:?}", fault.details);
            assert_eq!(super::counted(&bench.peer), 1);
            bench.finish().await;
        }
    }
}

/// The fake has done its work when it answers: how often it was asked is how often the effect happened.
#[tokio::test]
async fn h02_a_call_whose_effect_a_status_does_not_rule_out_is_made_once() {
    for era in ERAS {
        for code in [404, 405, 429, 500, 502, 503, 504] {
            let peer = fake(era, move |_| reply::status(code, &[], ""));
            let bench = Bench::under(options(), peer, |mut config| {
                config.retry = Some(RetryPolicy::default());
                config
            });
            bench.works().await;
            let fault = fault(&bench.call("count", json!({})).await);
            assert_eq!(fault.sent, SentState::Unknown, "{code}: {fault}");
            assert_eq!(super::counted(&bench.peer), 1, "{code}");
            bench.finish().await;
        }
    }
}

#[tokio::test]
async fn h02_a_call_that_was_refused_in_words_is_made_again_after_the_pause() {
    for era in ERAS {
        let tried = std::sync::atomic::AtomicUsize::new(0);
        let peer = fake(era, move |request| match tried.fetch_add(1, std::sync::atomic::Ordering::AcqRel) {
            0 => refusal_in_words(request, 429, "0", &json!({})),
            _ => reply::json(&response(request, &super::said(era, "1"))),
        });
        let bench = Bench::under(options(), peer, |mut config| {
            config.retry = Some(RetryPolicy { max_retries: 1, ..RetryPolicy::default() });
            config
        });
        assert_eq!(text(&bench.call("count", json!({})).await), "1");
        bench.finish().await;
    }
}

#[tokio::test]
async fn h02_a_status_without_a_message_fails_the_call_and_an_error_in_it_passes() {
    for era in ERAS {
        for code in [400, 404, 500, 502] {
            let bench =
                Bench::of(fake(era, move |_| reply::status(code, &[("Content-Type", "text/html")], "<p>no</p>")));
            bench.works().await;
            let fault = fault(&bench.call("count", json!({})).await);
            assert!(fault.message.contains(&code.to_string()), "{fault}");
            bench.finish().await;
        }
        let peer = fake(era, |request| {
            let text =
                json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": {"code": -32001, "message": "own"}});
            reply::status(400, &[("Content-Type", "application/json")], &text.to_string())
        });
        let bench = Bench::of(peer);
        let outcome = bench.call("count", json!({})).await;
        assert!(
            matches!(&outcome, Outcome::Failed(tsugi_protocol::answer::CallFailure::Upstream(error)) if error.code() == -32001)
        );
        bench.finish().await;
    }
}

#[tokio::test]
async fn h02_a_session_id_that_was_given_is_sent_with_everything_that_follows() {
    let peer = Fake::start(|request| match request.json()["method"].as_str() {
        Some("server/discover") => reply::status(400, &[], ""),
        Some("initialize") => {
            let text = response(request, &result(Era::Legacy, &request.json()).unwrap());
            reply::status(200, &[("Content-Type", "application/json"), ("Mcp-Session-Id", "s-1")], &text)
        }
        _ if request.header("mcp-session-id") != Some("s-1") => reply::status(400, &[], ""),
        _ => good(Era::Legacy, request),
    });
    let bench = Bench::of(peer);
    bench.works().await;
    bench.finish().await;
}

#[tokio::test]
async fn h16_of_ten_servers_nine_serve_while_one_is_dead_and_its_status_says_so() {
    let manager = Manager::new(options());
    let dead = manager.register(config("dead", http(&format!("http://{}/mcp", refused())))).unwrap();
    let scripts = [Script::legacy(), Script::modern(), Script::default()];
    let living: Vec<HttpServer> = (0..9).map(|index| HttpServer::start(&scripts[index % 3])).collect();
    for (index, server) in living.iter().enumerate() {
        manager.register(config(&format!("server-{index}"), http(&server.url()))).unwrap();
    }
    for index in 0..9 {
        let server = manager.server(&format!("server-{index}")).unwrap();
        let outcome = end_of(server.answer(call("echo", json!({"message": "here"}))), LIMIT).await.unwrap();
        assert_eq!(text(&outcome), "here");
    }
    let failures =
        tokio::time::timeout(LIMIT, manager.settled(LIMIT * 10)).await.expect("one dead server delays nobody");
    assert_eq!(failures.keys().collect::<Vec<_>>(), ["dead"]);
    let status = dead.status();
    assert_ne!(status.state, ConnectionState::Connected);
    assert!(status.fault.unwrap().message.contains("refused"));
    manager.stop().await;
}

/// A server of the oldest kind: JSON-RPC at one address, no handshake.
fn plain_rpc(request: &Recorded) -> Steps {
    let message = request.json();
    let result = match message["method"].as_str() {
        _ if request.path != "/mcp/rpc" || request.method != "POST" => return reply::status(404, &[], ""),
        Some("tools/list") => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => {
            let text = message["params"]["arguments"]["message"].clone();
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return reply::json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
        }
    };
    reply::json(&response(request, &result))
}

#[tokio::test]
async fn a_server_that_only_answers_json_rpc_below_its_address_is_used_without_a_handshake() {
    let peer = Fake::start(plain_rpc);
    let target = HttpTarget::new(peer.url().parse().unwrap(), ::http::HeaderMap::new());
    let bench = Bench::under(options(), peer, |config| tsugi_client::ServerConfig {
        target: ConnectTarget::PlainRpc(target),
        ..config
    });
    bench.works().await;
    assert_eq!(bench.server.status().transport, "rpc");
    let missing = fault(&bench.manager.call_tool(Some("tested"), "nope", None).outcome().await);
    assert_eq!(missing.code, FaultCode::ToolNotFound, "{missing}");
    let methods: Vec<Value> = bench.peer.recorded().iter().map(|request| request.json()["method"].clone()).collect();
    assert!(!methods.iter().any(|method| method == "initialize" || method == "server/discover"), "{methods:?}");
    bench.finish().await;
}
