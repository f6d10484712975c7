//! The scripted server as a child process.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_testkit::script::{Action, Eras, Form, Framing, Junk, Paging, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait::{PATIENCE, until_blocking};

use crate::peer::{Peer, hello, modern};

fn on_call(action: Action) -> Script {
    Script::legacy().rule(Rule::on("tools/call").act(action))
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

#[test]
fn a_legacy_server_knows_initialize_and_not_discover() {
    let server = Scripted::new(Script::legacy());
    let mut peer = Peer::start(&server);
    assert_eq!(peer.exchange("server/discover", modern(json!({})))["error"]["code"], -32601);
    assert_eq!(peer.exchange("initialize", hello())["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(text_of(&peer.call("echo", json!({"message": "hi"}))), "hi");
    let answer = peer.call("add", json!({"a": 1, "b": 2}));
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"sum": 3}}));
}

#[test]
fn a_server_of_one_revision_answers_with_it() {
    let server = Scripted::new(Script::only("2024-11-05"));
    assert_eq!(Peer::start(&server).exchange("initialize", hello())["result"]["protocolVersion"], "2024-11-05");
}

#[test]
fn a_modern_server_demands_meta_and_marks_its_results() {
    let server = Scripted::new(Script::modern());
    let mut peer = Peer::start(&server);
    assert_eq!(peer.exchange("initialize", hello())["error"]["code"], -32602);
    let discovered = peer.exchange("server/discover", modern(json!({})));
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    let called = peer.exchange("tools/call", modern(json!({"name": "echo", "arguments": {"message": "x"}})));
    assert_eq!(called["result"]["resultType"], "complete");
    let mut old = modern(json!({}));
    old["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01".into();
    assert_eq!(peer.exchange("tools/list", old)["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[test]
fn lies_about_version_and_capabilities_are_told() {
    let script =
        Script { claims_version: Some("3000-01-01".into()), claims_capabilities: Some(json!({})), ..Script::default() };
    let server = Scripted::new(script);
    let mut peer = Peer::start(&server);
    let hello = peer.exchange("initialize", hello());
    assert_eq!(
        (&hello["result"]["protocolVersion"], &hello["result"]["capabilities"]),
        (&json!("3000-01-01"), &json!({}))
    );
    assert_eq!(
        peer.exchange("server/discover", modern(json!({})))["result"]["supportedVersions"],
        json!(["3000-01-01"])
    );
}

#[test]
fn content_length_is_spoken_in_both_directions() {
    let server = Scripted::new(Script { framing: Framing::ContentLength, ..Script::legacy() });
    let mut peer = Peer::start(&server);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    std::io::Write::write_all(
        peer.stdin.as_mut().unwrap(),
        format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes(),
    )
    .unwrap();
    peer.stdin = None;
    assert_eq!(
        String::from_utf8(peer.rest()).unwrap(),
        "Content-Length: 36\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"
    );
}

#[test]
fn it_exits_where_and_how_the_script_says() {
    let start = |rule: Rule| {
        let server = Scripted::new(Script::legacy().rule(rule));
        let mut peer = Peer::start(&server);
        peer.ask("initialize", hello());
        let status = peer.wait();
        (status, String::from_utf8(peer.rest()).unwrap(), server)
    };
    let (status, output, _server) = start(Rule::on("start").act(Action::Exit(7)));
    assert_eq!((status.code(), output.as_str()), (Some(7), ""));
    let (status, output, _server) = start(Rule::on("initialize").act(Action::Signal("KILL".into())));
    assert_eq!((std::os::unix::process::ExitStatusExt::signal(&status), output.as_str()), (Some(9), ""));
    let (status, output, _server) = start(Rule::on("initialize").after().act(Action::Exit(0)));
    assert!(status.success() && output.contains("protocolVersion"));
    let (status, output, _server) = start(Rule::on("initialize").act(Action::HalfThenExit(3)));
    assert!(status.code() == Some(3) && output.starts_with("{\"jsonrpc\"") && !output.contains('\n'), "{output}");
}

#[test]
fn a_rule_can_be_for_the_nth_time_or_for_one_launch_only() {
    let script = Script::legacy()
        .rule(Rule::on("tools/call").nth(2).act(Action::Error { code: -1, message: "second".into(), data: None }))
        .rule(Rule::on("tools/call").every(3).act(Action::Error { code: -3, message: "third".into(), data: None }))
        .rule(Rule::on("start").launch(2).act(Action::Exit(9)));
    let server = Scripted::new(script);
    let mut peer = Peer::start(&server);
    let codes: Vec<Value> =
        (0..7).map(|_| peer.call("echo", json!({"message": ""}))["error"]["code"].clone()).collect();
    assert_eq!(codes, [json!(null), json!(-1), json!(-3), json!(null), json!(null), json!(-3), json!(null)]);
    assert_eq!(Peer::start(&server).wait().code(), Some(9));
    assert_eq!(Peer::start(&server).exchange("ping", json!({}))["result"], json!({}));
    assert_eq!(server.journal().launches(), 3);
}

#[test]
fn each_launch_can_be_another_server() {
    let script = Script {
        launches: vec![json!({"era": "modern"}), json!({"claims_capabilities": {"tools": {}}})],
        ..Script::legacy()
    };
    let server = Scripted::new(script);
    assert!(Peer::start(&server).exchange("server/discover", modern(json!({})))["result"].is_object());
    let mut second = Peer::start(&server);
    assert!(second.exchange("server/discover", modern(json!({})))["error"].is_object());
    assert_eq!(second.exchange("initialize", hello())["result"]["capabilities"], json!({"tools": {}}));
}

#[test]
fn effects_are_counted_from_outside_even_when_the_answer_is_lost() {
    let server = Scripted::new(Script::legacy().rule(Rule::on_tool("count").launch(2).act(Action::HalfThenExit(1))));
    assert_eq!(text_of(&Peer::start(&server).call("count", json!({}))), "1");
    let mut second = Peer::start(&server);
    second.ask("tools/call", json!({"name": "count", "arguments": {}}));
    second.wait();
    assert_eq!(server.journal().effects("count"), 2);
    assert_eq!(server.journal().received("tools/call").len(), 2);
}

#[test]
fn a_sleeping_tool_can_be_cancelled_and_then_does_not_answer() {
    let server = Scripted::new(Script::legacy());
    let mut peer = Peer::start(&server);
    let id = peer.ask("tools/call", json!({"name": "sleep", "arguments": {"ms": 600_000}}));
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    assert_eq!(peer.exchange("ping", json!({}))["id"], id + 1);
    assert_eq!(server.journal().cancelled(), [json!(id)]);
    peer.stdin = None;
    assert!(peer.wait().success() && peer.rest().is_empty());
}

#[test]
fn a_silent_call_does_not_hold_up_others() {
    let server = Scripted::new(Script::legacy().rule(Rule::on_tool("add").act(Action::Silence)));
    let mut peer = Peer::start(&server);
    for _ in 0..100 {
        peer.ask("tools/call", json!({"name": "add", "arguments": {}}));
    }
    assert_eq!(peer.call("echo", json!({"message": "on"}))["id"], 101);
}

#[test]
fn progress_comes_to_those_who_gave_a_token() {
    let server = Scripted::new(on_call(Action::Progress { count: 2, every_ms: 1 }));
    let mut peer = Peer::start(&server);
    assert!(peer.call("echo", json!({}))["result"].is_object());
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}, "_meta": {"progressToken": "p"}}));
    let params: Vec<Value> = (0..2).map(|_| peer.message()["params"].clone()).collect();
    assert_eq!(params, [json!({"progressToken": "p", "progress": 1}), json!({"progressToken": "p", "progress": 2})]);
    assert_eq!(peer.message()["id"], 2);
}

#[test]
fn junk_comes_before_the_answer_and_the_answer_still_comes() {
    for (junk, lines) in
        [(Junk::Words, 1), (Junk::Blank, 1), (Junk::Json, 4), (Junk::Partial, 1), (Junk::OneByte, 1), (Junk::Deep, 1)]
    {
        let server = Scripted::new(on_call(Action::Junk(junk)));
        let mut peer = Peer::start(&server);
        peer.ask("tools/call", json!({"name": "echo", "arguments": {"message": "x"}}));
        for _ in 0..lines {
            let line = peer.line().unwrap();
            assert!(
                serde_json::from_slice::<Value>(&line).map_or(true, |value| value["jsonrpc"].is_null()),
                "{junk:?}"
            );
        }
        assert_eq!(text_of(&peer.message()), "x");
    }
    let server = Scripted::new(on_call(Action::Junk(Junk::Bom)));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    assert!(peer.line().unwrap().starts_with(b"\xef\xbb\xbf{"));
    let server = Scripted::new(on_call(Action::Junk(Junk::Random)));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    peer.stdin = None;
    assert!(std::str::from_utf8(&peer.rest()).is_err());
}

#[test]
fn a_long_line_is_as_long_as_it_says() {
    let server = Scripted::new(on_call(Action::LongLine(3 << 20)));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    assert_eq!(peer.line().unwrap().len(), 3 << 20);
    assert_eq!(peer.message()["id"], 1);
}

#[test]
fn wrong_forms_of_answers_are_wrong_in_the_way_they_say() {
    let lines = |form: Form| {
        let server = Scripted::new(on_call(Action::Answer(form)));
        let mut peer = Peer::start(&server);
        peer.ask("tools/call", json!({"name": "echo", "arguments": {"message": "x"}}));
        peer.stdin = None;
        String::from_utf8(peer.rest()).unwrap()
    };
    let body = r#""result":{"content":[{"type":"text","text":"x"}]}}"#;
    let usual = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{body}\n");
    assert_eq!(lines(Form::Twice), format!("{usual}{usual}"));
    assert_eq!(lines(Form::UnknownIdFirst), format!("{{\"jsonrpc\":\"2.0\",\"id\":987654321,{body}\n{usual}"));
    assert_eq!(lines(Form::OtherIdType), usual.replace("\"id\":1", "\"id\":\"1\""));
    assert_eq!(lines(Form::NullId), usual.replace("\"id\":1", "\"id\":null"));
    assert_eq!(lines(Form::FloatId), usual.replace("\"id\":1", "\"id\":1.0"));
    assert_eq!(lines(Form::NoId), usual.replace("\"id\":1,", ""));
    assert_eq!(lines(Form::OldJsonRpc), usual.replace("2.0", "1.0"));
    assert_eq!(lines(Form::InArray), format!("[{}]\n", usual.trim_end()));
    assert_eq!(lines(Form::Neither), "{\"jsonrpc\":\"2.0\",\"id\":1}\n");
    assert!(lines(Form::ResultAndError).contains("\"result\":{},\"error\""));
    assert!(lines(Form::ResultIsText).contains("\"result\":\"text\""));
    assert!(lines(Form::Indented).lines().count() > 5);
}

#[test]
fn line_ends_and_pieces_are_as_the_script_says() {
    let server = Scripted::new(Script { line_end: "\r\n".into(), pieces: Some(3), ..Script::legacy() });
    assert_eq!(Peer::start(&server).exchange("ping", json!({}))["result"], json!({}));
    let mut peer = Peer::start(&server);
    peer.ask("ping", json!({}));
    assert!(peer.line().unwrap().ends_with(b"}\r"));
}

#[test]
fn floods_come_in_full() {
    let server = Scripted::new(on_call(Action::Notifications(20_000)));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    let notes = std::iter::from_fn(|| Some(peer.message())).take_while(|message| message.get("id").is_none()).count();
    assert_eq!(notes, 20_000);
}

#[test]
fn a_flood_of_progress_grows_all_the_way() {
    let server = Scripted::new(on_call(Action::Progress { count: 20_000, every_ms: 0 }));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}, "_meta": {"progressToken": 5}}));
    for expected in 1..=20_000 {
        assert_eq!(peer.message()["params"], json!({"progressToken": 5, "progress": expected}));
    }
    assert_eq!(peer.message()["id"], 1);
}

#[test]
fn stderr_gets_words_and_floods() {
    let script = Script::legacy().rule(
        Rule::on("start").act(Action::Stderr("oh no".into())).act(Action::StderrFlood(100_000)).act(Action::Exit(1)),
    );
    let server = Scripted::new(script);
    let file = tempfile::tempfile().unwrap();
    Peer::start_with(&server, server.args(), Stdio::from(file.try_clone().unwrap())).wait();
    let mut text = Vec::new();
    std::io::Seek::rewind(&mut &file).unwrap();
    std::io::Read::read_to_end(&mut &file, &mut text).unwrap();
    assert!(text.starts_with(b"oh no\n") && text.len() >= 100_000 && std::str::from_utf8(&text).is_err());
}

#[test]
fn a_server_that_stops_reading_until_it_is_drained_goes_on_when_it_is() {
    let server = Scripted::new(Script::legacy().rule(Rule::on("tools/call").nth(1).act(Action::StopReading(1 << 20))));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {"message": "a"}}));
    let notes = std::iter::from_fn(|| Some(peer.message())).take_while(|message| message.get("id").is_none()).count();
    assert!(notes > 900, "{notes}");
    assert_eq!(text_of(&peer.call("echo", json!({"message": "b"}))), "b");
}

#[test]
fn closed_streams_do_not_end_the_process() {
    let server = Scripted::new(on_call(Action::CloseStdout));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    assert_eq!(peer.line(), None);
    assert!(peer.child.try_wait().unwrap().is_none());

    let server = Scripted::new(on_call(Action::CloseStdin));
    let mut peer = Peer::start(&server);
    assert!(peer.call("echo", json!({}))["result"].is_object());
    assert!(until_blocking(PATIENCE, || std::io::Write::write_all(peer.stdin.as_mut().unwrap(), b"\n").is_err()));
    assert!(peer.child.try_wait().unwrap().is_none());
}

#[test]
fn eof_ends_a_server_unless_it_ignores_it() {
    let server = Scripted::new(Script::legacy());
    let mut peer = Peer::start(&server);
    peer.stdin = None;
    assert!(peer.wait().success());
    let stubborn = Scripted::new(Script { ignores_eof: true, ..Script::legacy() });
    let mut peer = Peer::start(&stubborn);
    peer.stdin = None;
    assert!(stubborn.journal().until_blocking(PATIENCE, |journal| !journal.of("eof").is_empty()));
    assert!(peer.child.try_wait().unwrap().is_none());
}

#[test]
fn sigterm_ends_a_server_unless_it_ignores_it() {
    for ignores_sigterm in [false, true] {
        let server = Scripted::new(Script { ignores_sigterm, ..Script::legacy() });
        let mut peer = Peer::start(&server);
        peer.exchange("ping", json!({}));
        tsugi_testkit::process::send(peer.child.id(), rustix::process::Signal::TERM);
        assert!(server.journal().until_blocking(PATIENCE, |journal| !journal.of("signal").is_empty()));
        match ignores_sigterm {
            false => assert_eq!(peer.wait().code(), Some(143)),
            true => assert_eq!(peer.exchange("ping", json!({}))["result"], json!({})),
        }
    }
}

#[test]
fn a_frozen_server_lives_and_does_nothing() {
    let server = Scripted::new(on_call(Action::Freeze));
    let mut peer = Peer::start(&server);
    peer.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    assert!(server.journal().until_blocking(PATIENCE, |journal| !journal.received("tools/call").is_empty()));
    peer.stdin = None;
    assert!(server.journal().of("eof").is_empty() && peer.child.try_wait().unwrap().is_none());
}

#[test]
fn pages_end_or_do_not() {
    let tools = |script: Script, cursor: Option<Value>| {
        let server = Scripted::new(script);
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        Peer::start(&server).exchange("tools/list", params)["result"].clone()
    };
    let honest = Script { page_size: 15, extra_tools: 100, ..Script::legacy() };
    let first = tools(honest.clone(), None);
    assert_eq!((first["tools"].as_array().unwrap().len(), &first["nextCursor"]), (15, &json!("15")));
    assert!(tools(honest, Some(json!("110")))["nextCursor"].is_null());
    let endless = Script { paging: Paging::Endless, ..Script::legacy() };
    assert_eq!(tools(endless, Some(json!("77")))["nextCursor"], "78");
    let looping = Script { paging: Paging::Loop, ..Script::legacy() };
    assert_eq!(tools(looping.clone(), Some(json!("a")))["nextCursor"], "b");
    assert_eq!(tools(looping, Some(json!("b")))["nextCursor"], "a");
}

#[test]
fn very_many_tools_and_very_large_results_come_whole() {
    let server = Scripted::new(Script { extra_tools: 100_000, ..Script::legacy() });
    let mut peer = Peer::start(&server);
    assert!(peer.exchange("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len() > 100_000);
    assert_eq!(text_of(&peer.call("big", json!({"bytes": 2_000_000}))).len(), 2_000_000);
    assert_eq!(text_of(&peer.call("tool_99999", json!({"x": 1}))), "{\"x\":1}");
    assert_eq!(peer.call("tool_100000", json!({}))["error"]["code"], -32602);
}

#[test]
fn a_legacy_server_asks_in_mid_call() {
    let server = Scripted::new(Script::legacy());
    let mut peer = Peer::start(&server);
    peer.exchange("initialize", hello());
    for (tool, method, answer) in [
        ("ask", "elicitation/create", json!({"action": "accept", "content": {"name": "Ann"}})),
        ("sample", "sampling/createMessage", json!({"role": "assistant"})),
        ("roots", "roots/list", json!({"roots": []})),
    ] {
        let question = peer.call(tool, json!({}));
        assert_eq!(question["method"], method);
        peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        assert_eq!(text_of(&peer.message()), json!([answer]).to_string());
    }
}

#[test]
fn a_modern_server_asks_by_its_result() {
    let server = Scripted::new(Script::modern());
    let mut peer = Peer::start(&server);
    let first = peer.exchange("tools/call", modern(json!({"name": "ask_twice", "arguments": {}})));
    assert_eq!(first["result"]["resultType"], "input_required");
    assert_eq!(first["result"]["inputRequests"]["first"]["method"], "elicitation/create");
    let retry = |answers: Value, state: &Value| {
        modern(json!({"name": "ask_twice", "arguments": {}, "inputResponses": answers, "requestState": state}))
    };
    let second =
        peer.exchange("tools/call", retry(json!({"first": {"action": "decline"}}), &first["result"]["requestState"]));
    assert!(second["result"]["inputRequests"]["second"].is_object());
    let third =
        peer.exchange("tools/call", retry(json!({"second": {"action": "cancel"}}), &second["result"]["requestState"]));
    assert_eq!(text_of(&third), r#"[{"action":"decline"},{"action":"cancel"}]"#);
    let forged = peer.exchange("tools/call", retry(json!({}), &json!("forged")));
    assert_eq!(forged["error"]["code"], -32602);
}

#[test]
fn a_client_that_cannot_be_asked_is_not() {
    let server = Scripted::new(Script::default());
    let mut peer = Peer::start(&server);
    assert_eq!(peer.call("roots", json!({}))["result"]["isError"], true);
    let mut params = modern(json!({"name": "roots", "arguments": {}}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    assert_eq!(peer.exchange("tools/call", params)["error"]["code"], -32021);
}

#[test]
fn requests_are_sent_even_where_they_are_forbidden() {
    let ask = Action::Ask { method: "elicitation/create".into(), params: json!({}), wait: false };
    let server = Scripted::new(Script { era: Eras::Modern, ..on_call(ask) });
    let mut peer = Peer::start(&server);
    assert_eq!(
        peer.exchange("tools/call", modern(json!({"name": "echo", "arguments": {}})))["method"],
        "elicitation/create"
    );
    assert!(peer.message()["result"].is_object());
}

#[test]
fn changes_are_announced_in_the_way_of_each_era() {
    let server = Scripted::new(Script::default());
    let mut peer = Peer::start(&server);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://text"]});
    let id = peer.ask("subscriptions/listen", modern(json!({"notifications": filter})));
    assert_eq!(peer.message()["method"], "notifications/subscriptions/acknowledged");
    peer.ask("tools/call", modern(json!({"name": "change", "arguments": {"what": "tools"}})));
    assert_eq!(peer.message()["params"], json!({}), "the legacy form, for a legacy client on the same pipe");
    assert_eq!(peer.message()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    assert!(peer.message()["result"].is_object());
    assert!(peer.exchange("tools/list", json!({}))["result"]["tools"].to_string().contains("\"extra\""));
    peer.exchange("resources/subscribe", json!({"uri": "test://blob"}));
    assert_eq!(peer.call("change", json!({"what": "test://blob"}))["params"]["uri"], "test://blob");
}

#[test]
fn it_waits_before_it_starts() {
    let server = Scripted::new(Script { start_delay_ms: 50, ..Script::legacy() });
    let start = std::time::Instant::now();
    Peer::start(&server).exchange("ping", json!({}));
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_script_that_is_none_is_refused() {
    let server = Scripted::new(Script::default());
    let status = Peer::start_with(&server, vec!["--script".into(), "{\"ear\":1}".into()], Stdio::null()).wait();
    assert_eq!(status.code(), Some(64));
}

#[test]
fn a_server_can_serve_any_pair_of_streams() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let script = Script::legacy().rule(Rule::on_tool("crash").act(Action::Exit(1)));
    let serving =
        std::thread::spawn(move || tsugi_testkit::scripted::serve(&script, None, theirs.try_clone().unwrap(), theirs));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(ours.try_clone().unwrap()));
    let call = |tool: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"message": "m"}}});
    std::io::Write::write_all(&mut &ours, format!("{}\n", call("echo")).as_bytes()).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("\"m\""));
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
    assert!(lines.next().is_none());
}
