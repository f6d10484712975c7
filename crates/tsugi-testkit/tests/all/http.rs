//! The scripted server over HTTP.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};
use tsugi_testkit::script::{Action, Http, Rule, Script};
use tsugi_testkit::scripted::HttpServer;
use tsugi_testkit::wait::PATIENCE;

use crate::peer::{hello, modern, open, open_post, post, read_all};

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A modern call with the headers that belong to it.
fn modern_post(server: &HttpServer, method: &str, params: Value) -> String {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", &name)];
    post(&server.url(), &headers, &request(1, method, &modern(params)))
}

fn legacy_session(server: &HttpServer) -> String {
    let answer = post(&server.url(), &[], &request(1, "initialize", &hello()));
    answer.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: ")).unwrap().to_owned()
}

fn legacy_post(server: &HttpServer, session: &str, method: &str, params: &Value) -> String {
    post(&server.url(), &[("Mcp-Session-Id", session)], &request(2, method, params))
}

fn echo() -> Value {
    json!({"name": "echo", "arguments": {"message": "hi"}})
}

#[test]
fn a_modern_server_answers_without_a_session() {
    let server = HttpServer::start(&Script::modern());
    let answer = modern_post(&server, "tools/call", echo());
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("application/json") && answer.contains("\"hi\""),
        "{answer}"
    );
    assert!(modern_post(&server, "nope", json!({})).starts_with("HTTP/1.1 404"));
    assert!(read_all(&mut open(&server.url(), "GET", &[], "")).starts_with("HTTP/1.1 405"));
}

#[test]
fn headers_that_disagree_with_the_body_are_refused() {
    let server = HttpServer::start(&Script::modern());
    let answer = post(
        &server.url(),
        &[("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "other")],
        &request(1, "ping", &modern(json!({}))),
    );
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("-32020"), "{answer}");
}

#[test]
fn a_legacy_server_gives_a_session_and_demands_it() {
    let server = HttpServer::start(&Script::legacy());
    assert!(modern_post(&server, "server/discover", json!({})).starts_with("HTTP/1.1 400"));
    let session = legacy_session(&server);
    assert!(legacy_post(&server, &session, "tools/call", &echo()).contains("\"hi\""));
    assert!(legacy_post(&server, "other", "tools/call", &echo()).starts_with("HTTP/1.1 404"));
    assert!(
        read_all(&mut open(&server.url(), "DELETE", &[("Mcp-Session-Id", &session)], "")).starts_with("HTTP/1.1 200")
    );
    assert!(legacy_post(&server, &session, "tools/call", &echo()).starts_with("HTTP/1.1 404"));
    let seen = server.journal().of("http");
    assert!(
        seen.iter()
            .any(|request| request["method"] == "DELETE" && request["headers"]["mcp-session-id"] == session.as_str())
    );
}

#[test]
fn sessions_can_be_forgotten() {
    let server = HttpServer::start(&Script::legacy().rule(Rule::on_tool("echo").nth(2).act(Action::ForgetSessions)));
    let session = legacy_session(&server);
    for expected in ["200", "200", "404"] {
        assert!(legacy_post(&server, &session, "tools/call", &echo()).starts_with(&format!("HTTP/1.1 {expected}")));
    }
}

#[test]
fn notes_make_a_stream_and_the_answer_ends_it() {
    let server = HttpServer::start(&Script::modern().rule(Rule::on("tools/call").act(Action::Notifications(2))));
    let answer = modern_post(&server, "tools/call", echo());
    assert!(answer.contains("text/event-stream") && answer.ends_with("0\r\n\r\n"));
    assert_eq!(answer.matches("data: ").count(), 3);
    let always = HttpServer::start(&Script { http: Http { always_sse: true, ..Http::default() }, ..Script::modern() });
    assert!(modern_post(&always, "tools/call", echo()).contains("text/event-stream"));
}

#[test]
fn a_modern_caller_who_goes_away_has_cancelled() {
    let server = HttpServer::start(&Script::modern());
    let params = modern(json!({"name": "sleep", "arguments": {"ms": 600_000}}));
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "sleep")];
    let socket = open_post(&server.url(), &headers, &request(5, "tools/call", &params));
    assert!(server.journal().until_blocking(PATIENCE, |journal| !journal.received("tools/call").is_empty()));
    drop(socket);
    assert!(server.journal().until_blocking(PATIENCE, |journal| journal.of("gone") == [json!(5)]));
}

#[test]
fn a_legacy_server_asks_on_the_stream_of_the_call() {
    let server = HttpServer::start(&Script::legacy());
    let session = legacy_session(&server);
    let socket = open_post(
        &server.url(),
        &[("Mcp-Session-Id", &session)],
        &request(2, "tools/call", &json!({"name": "ask", "arguments": {}})),
    );
    let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
    let question: Value =
        serde_json::from_str(lines.find(|line| line.starts_with("data: ")).unwrap().strip_prefix("data: ").unwrap())
            .unwrap();
    let answer =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ann"}}})
            .to_string();
    assert!(post(&server.url(), &[("Mcp-Session-Id", &session)], &answer).starts_with("HTTP/1.1 202"));
    assert!(read_all_lines(&mut lines).contains("Ann"));
}

fn read_all_lines(lines: &mut impl Iterator<Item = String>) -> String {
    lines.find(|line| line.starts_with("data: ")).unwrap_or_default()
}

#[test]
fn a_stream_that_was_cut_can_be_continued() {
    let http = Http { resumable: true, cut_after: Some(1), ..Http::default() };
    let server = HttpServer::start(
        &Script { http, ..Script::legacy() }.rule(Rule::on_tool("echo").act(Action::Notifications(2))),
    );
    let session = legacy_session(&server);
    let cut = legacy_post(&server, &session, "tools/call", &echo());
    assert_eq!(cut.matches("event: message").count(), 1, "{cut}");
    let last = cut.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned();
    let rest = read_all(&mut open(&server.url(), "GET", &[("Mcp-Session-Id", &session), ("Last-Event-ID", &last)], ""));
    assert_eq!(rest.matches("event: message").count(), 2, "{rest}");
    assert!(rest.contains("\"hi\"") && rest.ends_with("0\r\n\r\n"));
}

#[test]
fn changes_come_on_the_stream_of_the_session_and_on_subscriptions() {
    let server = HttpServer::start(&Script::default());
    let session = legacy_session(&server);
    let get = open(&server.url(), "GET", &[("Mcp-Session-Id", &session)], "");
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "subscriptions/listen")];
    let params = modern(json!({"notifications": {"promptsListChanged": true}}));
    let listen = open_post(&server.url(), &headers, &request(9, "subscriptions/listen", &params));
    let mut listened = BufReader::new(listen).lines().map_while(Result::ok);
    assert!(listened.any(|line| line.contains("acknowledged")));
    let mut got = BufReader::new(get).lines().map_while(Result::ok);
    assert!(got.any(|line| line.contains("text/event-stream")));
    let change = json!({"name": "change", "arguments": {"what": "prompts"}});
    // The stream's head is sent before it is known to the session, so a change may come too early for it.
    let changing = std::thread::spawn(move || {
        for _ in 0..20 {
            legacy_post(&server, &session, "tools/call", &change);
        }
        server
    });
    assert!(got.any(|line| line.contains("prompts/list_changed")));
    assert!(
        listened.any(|line| line.contains("\"io.modelcontextprotocol/subscriptionId\":9")
            && line.contains("prompts/list_changed"))
    );
    drop(changing.join());
}

#[test]
fn the_two_endpoints_of_2024_work() {
    let server = HttpServer::start(&Script::only("2024-11-05"));
    let stream = open(&server.sse_url(), "GET", &[], "");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let endpoint = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
    let url = format!("http://{}{endpoint}", server.address());
    assert!(post(&url, &[], &request(1, "initialize", &hello())).starts_with("HTTP/1.1 202"));
    assert!(lines.any(|line| line.contains("\"protocolVersion\":\"2024-11-05\"")));
    assert!(post(&url, &[], &request(2, "tools/call", &echo())).starts_with("HTTP/1.1 202"));
    assert!(lines.any(|line| line.contains("\"hi\"")));
}

#[test]
fn statuses_resets_and_tokens_are_scripted() {
    let busy = Action::Status { code: 503, headers: vec![("Retry-After".into(), "1".into())], body: String::new() };
    let script = Script::modern()
        .rule(Rule::on("tools/call").nth(1).act(busy))
        .rule(Rule::on("tools/call").nth(2).act(Action::Reset));
    let server = HttpServer::start(&Script { http: Http { token: Some("t".into()), ..Http::default() }, ..script });
    assert!(modern_post(&server, "tools/call", echo()).starts_with("HTTP/1.1 401"));
    let call = || {
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "echo"),
            ("Authorization", "Bearer t"),
        ];
        post(&server.url(), &headers, &request(1, "tools/call", &modern(echo())))
    };
    assert!(call().starts_with("HTTP/1.1 503 Scripted\r\nRetry-After: 1"));
    assert_eq!(call(), "<ConnectionReset>");
    assert!(call().contains("\"hi\""));
}

#[test]
fn a_server_in_this_process_can_end_as_well() {
    let server = HttpServer::start(&Script::modern().rule(Rule::on_tool("crash").act(Action::Exit(1))));
    assert_eq!(modern_post(&server, "tools/call", json!({"name": "crash", "arguments": {}})), "<ConnectionReset>");
    // The one who accepts notices with the next connection, and then nobody listens any more.
    std::net::TcpStream::connect(server.address()).ok();
    assert!(tsugi_testkit::wait::until_blocking(PATIENCE, || std::net::TcpStream::connect(server.address()).is_err()));
}
