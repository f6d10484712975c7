//! Answers of an HTTP fake, good ones and all the bad ones of the fault list, by name.

use super::gzip;
use super::step::{Step, Steps};

fn send(text: impl AsRef<[u8]>) -> Step {
    Step::Send(text.as_ref().to_vec())
}

/// A head with these headers.
pub fn head(code: u16, headers: &[(&str, &str)]) -> String {
    let mut head = format!("HTTP/1.1 {code} Scripted\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

/// An answer with these headers and this body; its length is added.
pub fn status(code: u16, headers: &[(&str, &str)], body: &str) -> Steps {
    let length = body.len().to_string();
    let all: Vec<(&str, &str)> = headers.iter().copied().chain([("Content-Length", length.as_str())]).collect();
    vec![send(head(code, &all) + body)]
}

/// A good answer.
pub fn json(body: &str) -> Steps {
    typed("application/json", body)
}

/// An answer of this content type, whatever it holds; an empty type is left out.
pub fn typed(content_type: &str, body: &str) -> Steps {
    match content_type {
        "" => status(200, &[], body),
        content_type => status(200, &[("Content-Type", content_type)], body),
    }
}

/// The beginning of a stream of events that ends with the connection.
fn stream_head() -> Step {
    send(head(200, &[("Content-Type", "text/event-stream"), ("Connection", "close")]))
}

/// A good stream: one event for each message, then the end.
pub fn sse(messages: &[&str]) -> Steps {
    let mut steps = sse_open(messages);
    steps.push(Step::Close);
    steps
}

/// The same, but the stream never ends.
pub fn sse_open(messages: &[&str]) -> Steps {
    let events = messages.iter().map(|message| send(format!("event: message\ndata: {message}\n\n")));
    [stream_head()].into_iter().chain(events).collect()
}

/// A stream that goes on with keep-alive comments for ever.
pub fn sse_keep_alive(messages: &[&str], every_ms: u64) -> Steps {
    let mut steps = sse_open(messages);
    steps.push(Step::Forever(b": still here\n\n".to_vec(), every_ms));
    steps
}

/// A stream of exactly this text, then the end: for streams that are malformed.
pub fn sse_text(text: impl AsRef<[u8]>) -> Steps {
    vec![stream_head(), send(text), Step::Close]
}

/// The malformed streams of the fault list, by name. Those marked true still carry `message` in a way that a
/// reader of the standard understands.
pub fn malformed_streams(message: &str) -> Vec<(&'static str, bool, Steps)> {
    let halves = message.split_at(message.find(',').map_or(0, |at| at + 1));
    let text = |text: String| sse_text(text);
    vec![
        ("no blank line at the end", false, text(format!("data: {message}\n"))),
        ("carriage returns alone", true, text(format!("event: message\rdata: {message}\r\r"))),
        ("carriage returns and line feeds", true, text(format!("data: {message}\r\n\r\n"))),
        ("byte order mark", true, text(format!("\u{feff}data: {message}\n\n"))),
        ("data split over lines", true, text(format!("data: {}\ndata: {}\n\n", halves.0, halves.1))),
        ("no space after the colon", true, text(format!("data:{message}\n\n"))),
        ("unknown event", true, text(format!("event: odd\ndata: {{}}\n\ndata: {message}\n\n"))),
        ("unknown field", true, text(format!("odd: 1\nodder\ndata: {message}\n\n"))),
        ("retry of zero", true, text(format!("retry: 0\n\ndata: {message}\n\n"))),
        ("flood of comments", true, text(format!("{}data: {message}\n\n", ": comment\n".repeat(50_000)))),
        ("empty events", true, text(format!("{}data: {message}\n\n", "data:\n\n".repeat(100)))),
        ("not JSON", false, text("data: hello\n\n".into())),
        ("invalid UTF-8", false, sse_text(b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}\n\n")),
    ]
}

/// An event of this many bytes that does not end.
pub fn sse_huge_event(bytes: usize) -> Steps {
    vec![stream_head(), send("data: "), Step::Repeat(vec![b'x'; 1 << 16], bytes >> 16), Step::Hold]
}

/// A stream that is reset after these messages.
pub fn sse_reset(messages: &[&str]) -> Steps {
    let mut steps = sse_open(messages);
    steps.extend([Step::Wait(20), Step::Reset]);
    steps
}

/// Reset before any byte.
pub fn reset_before_head() -> Steps {
    vec![Step::Reset]
}

/// Reset in the middle of a body.
pub fn reset_in_body(body: &str) -> Steps {
    let head = head(200, &[("Content-Type", "application/json"), ("Content-Length", &body.len().to_string())]);
    vec![send(head + &body[..body.len() / 2]), Step::Wait(20), Step::Reset]
}

/// Fewer bytes than promised, then a farewell.
pub fn truncated(body: &str) -> Steps {
    let promised = (body.len() + 100).to_string();
    vec![send(head(200, &[("Content-Type", "application/json"), ("Content-Length", &promised)]) + body), Step::Close]
}

/// One byte at a time.
pub fn slow(body: &str, pause_ms: u64) -> Steps {
    let head = head(200, &[("Content-Type", "application/json"), ("Content-Length", &body.len().to_string())]);
    vec![Step::Slowly((head + body).into_bytes(), pause_ms)]
}

/// A head that never ends.
pub fn endless_head() -> Steps {
    vec![send("HTTP/1.1 200 OK\r\n"), Step::Forever(b"X-More: and more\r\n".to_vec(), 1)]
}

/// A body that never ends.
pub fn endless_body() -> Steps {
    let head = head(200, &[("Content-Type", "application/json"), ("Connection", "close")]);
    vec![send(head + "{\"a\":\""), Step::Forever(vec![b'x'; 1 << 16], 0)]
}

/// An answer of two messages in one body.
pub fn json_twice(body: &str) -> Steps {
    json(&format!("{body}{body}"))
}

/// A redirect.
pub fn redirect(code: u16, location: &str) -> Steps {
    status(code, &[("Location", location)], "")
}

/// A small body that says it grows to this many bytes.
pub fn gzip_bomb(bytes: usize) -> Steps {
    encoded("gzip", gzip::zeros(bytes))
}

/// A body that is not what its `Content-Encoding` says.
pub fn lying_encoding(encoding: &str, body: &str) -> Steps {
    encoded(encoding, body.as_bytes().to_vec())
}

fn encoded(encoding: &str, body: Vec<u8>) -> Steps {
    let length = body.len().to_string();
    let head =
        head(200, &[("Content-Type", "application/json"), ("Content-Encoding", encoding), ("Content-Length", &length)]);
    vec![send(head), Step::Send(body)]
}

/// No answer at all, on an open connection.
pub fn nothing() -> Steps {
    vec![Step::Hold]
}

/// The connection is closed between two requests just when it would be used again.
pub fn json_then_close(body: &str) -> Steps {
    let mut steps = json(body);
    steps.push(Step::Close);
    steps
}
