//! Faults of servers over HTTP: rows H-01 to H-16 of the fault list.
//!
//! Not here: HTTP/2 (its GOAWAY, resets and windows of H-13), for which the test kit has no fake; and ten minutes
//! of flapping (H-14), which is shown in a hundred calls.

mod answer;
mod connect;
mod gap;
mod own_stream;
mod redirect;
mod resume;
mod session;

use serde_json::{Value, json};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::fake::{Fake, Recorded, Steps, reply};

use crate::subject::Subject;
use crate::world::{Bench, LIMIT, Peer};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A server whose tool `count` is answered byte by byte as `count` says; everything else is answered well.
pub(crate) fn fake(era: Era, count: impl Fn(&Recorded) -> Steps + Send + Sync + 'static) -> Fake {
    Fake::start(move |request| match is_count(request) {
        true => count(request),
        false => good(era, request),
    })
}

/// True for calls of the tool `count`.
pub(crate) fn is_count(request: &Recorded) -> bool {
    request.json()["params"]["name"] == "count"
}

/// How often `count` was called.
pub(crate) fn counted(fake: &Fake) -> usize {
    fake.recorded().iter().filter(|request| is_count(request)).count()
}

/// What a well-behaved server answers.
pub(crate) fn good(era: Era, request: &Recorded) -> Steps {
    let message = request.json();
    if request.method != "POST" {
        return reply::status(405, &[], "");
    }
    match result(era, &message) {
        Some(result) => reply::json(&response(request, &result)),
        None if message.get("id").is_none() => reply::status(202, &[], ""),
        None => {
            let error = json!({"code": -32601, "message": "Method not found"});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string();
            reply::status(if era == Era::Modern { 404 } else { 200 }, &[("Content-Type", "application/json")], &text)
        }
    }
}

/// The answer to a request, with this result.
pub(crate) fn response(request: &Recorded, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request.id())
}

/// The result of a call with this text.
pub(crate) fn said(era: Era, text: &str) -> Value {
    dressed(era, json!({"content": [{"type": "text", "text": text}]}))
}

fn dressed(era: Era, mut result: Value) -> Value {
    if era == Era::Modern {
        result["resultType"] = "complete".into();
    }
    result
}

fn result(era: Era, message: &Value) -> Option<Value> {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match (era, message["method"].as_str()?) {
        (Era::Modern, "server/discover") => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        (Era::Legacy, "initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}})
        }
        (_, "tools/list") => json!({"tools": [tool("echo"), tool("count")]}),
        (_, "tools/call") => return Some(said(era, message["params"]["arguments"]["message"].as_str()?)),
        _ => return None,
    };
    Some(dressed(era, result))
}

fn subject<P: Peer>(bench: &Bench<P>) -> Subject {
    Subject::new(bench.server.clone(), LIMIT)
}
