//! Writing HTTP answers, and seeing whether the other side is still there.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use parking_lot::Mutex;
use rustix::net::RecvFlags;

/// One connection, for writing. Failures to write are not this server's concern.
pub(super) struct Wire(Mutex<Option<TcpStream>>);

impl Wire {
    pub(super) fn new(socket: &TcpStream) -> Self {
        Self(Mutex::new(socket.try_clone().ok()))
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        if let Some(socket) = self.0.lock().as_mut() {
            socket.write_all(bytes).ok();
        }
    }

    /// A whole answer.
    pub(super) fn respond(&self, code: u16, headers: &[(&str, &str)], body: &str) {
        let mut head = head(code, headers);
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !body.is_empty() && !has_type {
            head.push_str("Content-Type: application/json\r\n");
        }
        self.write(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    /// The head of a stream of events.
    pub(super) fn open_stream(&self, headers: &[(&str, &str)]) {
        let head = head(200, headers);
        let rest = "Content-Type: text/event-stream\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n";
        self.write(format!("{head}{rest}").as_bytes());
    }

    /// One event of a stream; the id and the name may be empty.
    pub(super) fn event(&self, id: &str, name: &str, data: &str) {
        let mut event = String::new();
        for (key, value) in [("id", id), ("event", name)] {
            if !value.is_empty() {
                event.push_str(&format!("{key}: {value}\n"));
            }
        }
        for line in data.split('\n') {
            event.push_str(&format!("data: {line}\n"));
        }
        self.chunk(&format!("{event}\n"));
    }

    pub(super) fn chunk(&self, text: &str) {
        self.write(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }

    pub(super) fn end_stream(&self) {
        self.write(b"0\r\n\r\n");
    }

    /// True when the other side has closed or broken the connection.
    pub(super) fn is_gone(&self) -> bool {
        let socket = self.0.lock();
        let Some(socket) = socket.as_ref() else { return true };
        let mut byte = [0u8; 1];
        match rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, read)) => read == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }

    /// Closing will send a reset instead of a farewell.
    pub(super) fn reset(&self) {
        if let Some(socket) = self.0.lock().take() {
            rustix::net::sockopt::set_socket_linger(&socket, Some(std::time::Duration::ZERO)).ok();
        }
    }

    /// The connection is closed for writing and reading.
    pub(super) fn close(&self) {
        if let Some(socket) = self.0.lock().take() {
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

fn head(code: u16, headers: &[(&str, &str)]) -> String {
    let reason = match code {
        200 => "OK",
        202 => "Accepted",
        _ => "Scripted",
    };
    let mut head = format!("HTTP/1.1 {code} {reason}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}
