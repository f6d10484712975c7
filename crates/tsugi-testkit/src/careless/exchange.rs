//! HTTP without any care: no limit, no deadline, no look at what comes back.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::{hello, message};

pub(super) struct Exchange {
    url: String,
    session: Option<String>,
    is_open: bool,
    next_id: u64,
}

struct Answer {
    code: u16,
    headers: String,
    body: String,
}

impl Exchange {
    pub(super) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), session: None, is_open: false, next_id: 0 }
    }

    pub(super) fn request(&mut self, method: &str, params: &Value, handshake: bool) -> Result<Value, String> {
        if handshake && !self.is_open {
            let answer = self.post("initialize", &hello())?;
            self.session = header(&answer.headers, "mcp-session-id");
            self.is_open = true;
        }
        // A failure is tried once more, come what may.
        let answer = self.post(method, params).or_else(|_| self.post(method, params))?;
        first_response(&answer.body).ok_or_else(|| format!("status {}: {}", answer.code, answer.body))
    }

    fn post(&mut self, method: &str, params: &Value) -> Result<Answer, String> {
        self.next_id += 1;
        let body = message(Some(self.next_id), method, params);
        let name = params["name"].as_str().unwrap_or_default();
        let mut url = self.url.clone();
        loop {
            let answer = self.send(&url, method, name, &body)?;
            match header(&answer.headers, "location") {
                Some(location) if (300..400).contains(&answer.code) => url = location,
                _ => return Ok(answer),
            }
        }
    }

    fn send(&self, url: &str, method: &str, name: &str, body: &str) -> Result<Answer, String> {
        let rest = url.strip_prefix("http://").ok_or("only http")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let version = if self.is_open { "2025-06-18" } else { "2026-07-28" };
        let head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {version}\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\nAuthorization: Bearer secret\r\n{session}\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut socket = TcpStream::connect(host).map_err(|error| error.to_string())?;
        socket.write_all((head + body).as_bytes()).map_err(|error| error.to_string())?;
        read_answer(&mut socket)
    }
}

/// Reads until the promised length is there, or the stream of events ends, or the connection does.
fn read_answer(socket: &mut impl Read) -> Result<Answer, String> {
    let mut text = Vec::new();
    let mut block = vec![0; 1 << 16];
    loop {
        let read = socket.read(&mut block).map_err(|error| error.to_string())?;
        text.extend_from_slice(&block[..read]);
        let shown = String::from_utf8_lossy(&text);
        let Some((head, body)) = shown.split_once("\r\n\r\n") else {
            if read == 0 {
                return Err("no answer".into());
            }
            continue;
        };
        let length = header(head, "content-length").and_then(|length| length.parse::<usize>().ok());
        if read == 0 || length.is_some_and(|length| body.len() >= length) || body.ends_with("0\r\n\r\n") {
            let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
            return Ok(Answer { code, headers: head.to_owned(), body: body.to_owned() });
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
}

/// The first thing in the body that looks like a response.
fn first_response(body: &str) -> Option<Value> {
    let candidates = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    candidates
        .filter_map(|text| serde_json::from_str::<Value>(text).ok())
        .find(|message| message.get("result").is_some() || message.get("error").is_some())
}
