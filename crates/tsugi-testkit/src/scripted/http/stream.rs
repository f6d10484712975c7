//! A stream of events that belongs to a session and not to a request.

use std::time::Duration;

use super::wire::Wire;
use crate::scripted::output::Voice;

pub(super) struct Stream(Wire);

impl Stream {
    pub(super) fn open(wire: Wire) -> Self {
        wire.open_stream(&[]);
        Self(wire)
    }

    pub(super) fn event(&self, name: &str, data: &str) {
        self.0.event("", name, data);
    }

    pub(super) fn wait_until_gone(&self) {
        while !self.0.is_gone() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Voice for Stream {
    fn note(&self, text: &str) {
        self.event("message", text);
    }

    fn last(&self, text: &str) {
        self.event("message", text);
    }

    fn raw(&self, bytes: &[u8]) {
        self.0.chunk(&String::from_utf8_lossy(bytes));
    }

    fn half(&self, text: &str) {
        self.0.chunk(&format!("data: {}", &text[..text.len() / 2]));
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    fn status(&self, _code: u16, _headers: &[(String, String)], _body: &str) {
        self.0.close();
    }

    fn reset(&self) {
        self.0.reset();
    }
}
