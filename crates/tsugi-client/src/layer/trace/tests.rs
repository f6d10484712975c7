//! What the log hears of calls, caught by a listener of our own.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;
use tsugi_protocol::json::JsonObject;

use super::*;
use crate::config::{ConnectTarget, ToolConfig};
use crate::log_capture::{LogCapture, LogLines};

/// Answers at once, but for `wait`.
struct Server;

impl Answer for Server {
    fn answer(&self, call: Call) -> Reply {
        match call.subject().as_deref() {
            Some("wait") => Reply::from_future(std::future::pending()),
            _ => Reply::ready(Outcome::complete(JsonObject::empty())),
        }
    }
}

/// The lines of calls of these tools.
fn lines(tools: &[&str]) -> Vec<(Level, String)> {
    let lines = LogLines::default();
    let mut config = ServerConfig::new("s", ConnectTarget::InProcess(Arc::new(Server)));
    config.tools.insert("get_comments".into(), ToolConfig { is_quiet: true, ..ToolConfig::default() });
    tracing::subscriber::with_default(LogCapture(lines.clone()), || {
        for tool in tools {
            let mut call = Call::tool(tool, Some(&json!({"secret": "canary"}).into()));
            call.options.request_id = Some("abc-1".into());
            TraceLayer::new(Server, &config).answer(call).outcome().now_or_never();
        }
    });
    let lines = lines.lock().clone();
    lines.into_iter().filter(|(_, text)| text.contains("message=call")).collect()
}

#[test]
fn quiet_tools_are_not_logged_at_info_and_others_are() {
    let lines = lines(&["speak", "get_comments"]);
    assert_eq!(lines.iter().map(|(level, _)| *level).collect::<Vec<_>>(), [Level::INFO, Level::DEBUG]);
    assert!(lines[0].1.contains("\"speak\"") && lines[1].1.contains("\"get_comments\""), "{lines:?}");
}

#[test]
fn a_line_carries_the_id_of_the_request_that_brought_the_call() {
    assert!(lines(&["speak"])[0].1.contains("request_id=\"abc-1\""));
}

#[test]
fn arguments_never_reach_the_log() {
    assert!(lines(&["speak"]).iter().all(|(_, text)| !text.contains("canary")));
}

#[test]
fn a_call_that_its_caller_gave_up_has_its_line_too() {
    let lines = lines(&["wait", "speak"]);
    let ended: Vec<bool> = lines.iter().map(|(_, text)| text.contains("cancelled")).collect();
    assert_eq!(ended, [true, false], "{lines:?}");
}
