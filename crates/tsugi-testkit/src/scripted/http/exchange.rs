//! The way back from one HTTP request: a JSON answer, or a stream of events when there are notes.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::log::EventLog;
use super::wire::Wire;
use crate::script::Http;
use crate::scripted::output::Voice;

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is written.
    Waiting,
    /// A stream is open with so many events.
    Streaming(usize),
    /// The stream was cut and goes on in the log.
    Cut,
    /// The answer is complete.
    Done,
    /// The connection must end.
    Broken,
}

pub(super) struct Exchange {
    wire: Wire,
    http: Http,
    is_modern: bool,
    headers: Vec<(String, String)>,
    log: Option<Arc<EventLog>>,
    state: Mutex<State>,
}

impl Exchange {
    pub(super) fn new(socket: &TcpStream, http: Http, is_modern: bool) -> Self {
        Self {
            wire: Wire::new(socket),
            http,
            is_modern,
            headers: Vec::new(),
            log: None,
            state: Mutex::new(State::Waiting),
        }
    }

    pub(super) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn with_log(mut self, log: Arc<EventLog>) -> Self {
        self.log = Some(log);
        self
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The answer to a notification, unless the script gave one.
    pub(super) fn accept(&self) {
        let mut state = self.state.lock();
        if *state == State::Waiting {
            self.wire.respond(202, &[], "");
            *state = State::Done;
        }
    }

    /// Waits for the end of what is still open; false when the connection cannot be used again.
    pub(super) fn finish(&self) -> bool {
        loop {
            let state = *self.state.lock();
            match state {
                State::Done if !self.http.lingers => return true,
                State::Broken | State::Cut => return false,
                _ if self.wire.is_gone() => return false,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn event(&self, state: &mut State, text: &str) {
        if *state == State::Waiting {
            self.wire.open_stream(&self.headers());
            *state = State::Streaming(0);
            if let Some(log) = &self.log {
                self.wire.event(&log.add(""), "", "");
            }
        }
        let id = self.log.as_ref().map(|log| log.add(text)).unwrap_or_default();
        let State::Streaming(sent) = *state else { return };
        self.wire.event(&id, "message", text);
        *state = State::Streaming(sent + 1);
        if self.http.cut_after.is_some_and(|limit| sent + 1 >= limit) && self.log.is_some() {
            self.wire.chunk("retry: 10\n\n");
            self.wire.close();
            *state = State::Cut;
        }
    }

    fn json(&self, text: &str) {
        self.wire.respond(self.status_of(text), &self.headers(), text);
    }

    /// Modern errors have a status of their own; legacy ones travel with 200.
    fn status_of(&self, text: &str) -> u16 {
        if !self.is_modern {
            return 200;
        }
        // Only errors are small enough to be looked into without regret.
        let error = (text.len() < 10_000).then(|| serde_json::from_str::<Value>(text).ok()).flatten();
        match error.and_then(|message| message["error"]["code"].as_i64()) {
            Some(-32601) => 404,
            Some(-32602 | -32022 | -32021 | -32020 | -32600) => 400,
            _ => 200,
        }
    }
}

impl Voice for Exchange {
    fn note(&self, text: &str) {
        if !self.http.never_sse {
            self.event(&mut self.state.lock(), text);
        }
    }

    fn last(&self, text: &str) {
        let mut state = self.state.lock();
        let is_stream = *state != State::Waiting || self.http.always_sse;
        match is_stream {
            false => self.json(text),
            true => self.event(&mut state, text),
        }
        if let Some(log) = &self.log {
            log.end();
        }
        if *state == State::Cut {
            return;
        }
        if is_stream && !self.http.lingers {
            self.wire.end_stream();
        }
        *state = State::Done;
    }

    fn raw(&self, bytes: &[u8]) {
        self.wire.write(bytes);
    }

    fn half(&self, text: &str) {
        let length = text.len().to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        self.wire.write(head.as_bytes());
        self.wire.write(&text.as_bytes()[..text.len() / 2]);
    }

    fn is_gone(&self) -> bool {
        // A stream that was cut to be resumed has nobody at its end, and goes on all the same.
        *self.state.lock() != State::Cut && self.is_modern && self.wire.is_gone()
    }

    fn status(&self, code: u16, headers: &[(String, String)], body: &str) {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.wire.respond(code, &headers, body);
        *self.state.lock() = State::Done;
    }

    fn reset(&self) {
        self.wire.reset();
        *self.state.lock() = State::Broken;
    }
}
