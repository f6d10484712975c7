//! The history of the board to take away: every event that fits, as JSON lines or as a table, however many there are.

use std::task::{Context, Poll};

use ::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use ::http::{HeaderValue, Response};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::super::viewer::DashboardViewer;
use super::{answer, look, time_label};
use crate::body::{BodyChunks, ResponseBody};
use crate::guard::refusal::HttpRefusal;

/// Events that are read at a time.
const PAGE: i64 = 500;
/// Parts that wait for a slow reader.
const WAITING: usize = 2;
/// What one may narrow it down by.
const FILTERS: [&str; 4] = ["project_id", "agent_id", "task_id", "kind"];
/// The columns of the table.
const COLUMNS: [&str; 13] = [
    "seq",
    "at",
    "type",
    "entity_type",
    "entity_id",
    "project_id",
    "actor_agent_id",
    "session_id",
    "claim_id",
    "reason",
    "changes",
    "version_after",
    "hash",
];

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportFormat {
    /// One object on each line.
    JsonLines,
    /// A table.
    Csv,
}

/// The format that a name stands for.
pub(super) fn format(name: &str) -> Option<ExportFormat> {
    match name {
        "events.jsonl" => Some(ExportFormat::JsonLines),
        "events.csv" => Some(ExportFormat::Csv),
        _ => None,
    }
}

/// `GET /api/board/events.csv` and `events.jsonl`, oldest first. What cannot be read at all is refused; where reading
/// fails later, the body ends in the middle of the connection and is seen to be cut.
pub(super) async fn open(
    viewer: &DashboardViewer,
    format: ExportFormat,
    query: &str,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let wish = wish(query);
    // The first page is read before the response begins, while an error can still set the status.
    let first = match page(viewer, &wish, 0).await? {
        Ok(first) => first,
        Err(fault) => return Ok(answer(Err(fault))),
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    // The task outlives this request, so it owns its viewer.
    let reader = DashboardViewer { gateway: viewer.gateway.clone(), principal: viewer.principal.clone() };
    viewer.gateway.tasks().spawn(write(reader, format, wish, first, sender));
    let mut response = Response::new(ResponseBody::Stream(Box::new(ExportChunks(receiver))));
    let (kind, file) = match format {
        ExportFormat::JsonLines => ("application/jsonl; charset=utf-8", "attachment; filename=\"events.jsonl\""),
        ExportFormat::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"events.csv\""),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(file));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The text comes from agents. A browser must not guess that it is HTML.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

struct ExportChunks(mpsc::Receiver<Bytes>);

impl BodyChunks for ExportChunks {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}

fn wish(query: &str) -> Map<String, Value> {
    let given = url::form_urlencoded::parse(query.as_bytes());
    let known = given.filter(|(key, value)| FILTERS.contains(&&**key) && !value.is_empty());
    known.map(|(key, value)| (key.into_owned(), json!(value))).collect()
}

/// The events after a number; the outer error is the viewer's, the inner one the board's.
async fn page(
    viewer: &DashboardViewer,
    wish: &Map<String, Value>,
    since: i64,
) -> Result<Result<Vec<Value>, Value>, HttpRefusal> {
    let mut arguments = wish.clone();
    arguments.extend([
        ("since_seq".to_owned(), json!(since)),
        ("full".to_owned(), json!(true)),
        ("limit".to_owned(), json!(PAGE)),
    ]);
    let told = look(viewer, "get_timeline", Value::Object(arguments))?.await;
    Ok(told.map(|mut told| match told["events"].take() {
        Value::Array(events) => events,
        _ => Vec::new(),
    }))
}

async fn write(
    viewer: DashboardViewer,
    format: ExportFormat,
    wish: Map<String, Value>,
    mut events: Vec<Value>,
    sender: mpsc::Sender<Bytes>,
) {
    let head = if format == ExportFormat::Csv { format!("{}\r\n", COLUMNS.join(",")) } else { String::new() };
    let mut text = head;
    loop {
        text.extend(events.iter().map(|event| line(format, event)));
        // The channel holds few parts, so a slow reader slows the reading and memory stays bounded.
        if !text.is_empty() && sender.send(Bytes::from(std::mem::take(&mut text))).await.is_err() {
            return;
        }
        let Some(last) = events.last().and_then(|event| event["seq"].as_i64()) else { return };
        // Reading may take long: a viewer who was signed out in that time reads no further.
        if (events.len() as i64) < PAGE || !viewer.is_still_in() {
            return;
        }
        events = match page(&viewer, &wish, last).await {
            Ok(Ok(more)) => more,
            // The head is sent already, so an error cannot be reported any more.
            _ => return,
        };
    }
}

fn line(format: ExportFormat, event: &Value) -> String {
    match format {
        ExportFormat::JsonLines => format!("{event}\n"),
        ExportFormat::Csv => {
            let cells: Vec<String> = COLUMNS.iter().map(|column| cell(column, &event[*column])).collect();
            format!("{}\r\n", cells.join(","))
        }
    }
}

fn cell(column: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Number(number) if column == "at" => time_label::iso(number.as_i64().unwrap_or(0)),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    }
}

/// A text as a cell. Programs for tables take what begins like a formula for one; a sign before it keeps it a text.
fn quoted(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let sign = if is_formula { "'" } else { "" };
    format!("\"{sign}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_and_never_a_formula() {
        assert_eq!(quoted("a \"b\", c\nd"), "\"a \"\"b\"\", c\nd\"");
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"] {
            assert!(quoted(formula).starts_with("\"'"), "{formula}");
        }
        let event = json!({"seq": 7, "at": 0, "type": "task.done", "reason": "=cmd()", "changes": [{"field": "a,b"}]});
        let expected =
            "7,1970-01-01T00:00:00.000Z,\"task.done\",,,,,,,\"'=cmd()\",\"[{\"\"field\"\":\"\"a,b\"\"}]\",,\r\n";
        assert_eq!(line(ExportFormat::Csv, &event), expected);
    }
}
