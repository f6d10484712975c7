//! A plain client of a scripted server: writes lines, reads bytes, and never waits for ever.
#![allow(clippy::disallowed_methods, reason = "the testkit cannot use the crates that are tested with it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait::PATIENCE;

/// A running scripted server.
pub(crate) struct Peer {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    seen: Vec<u8>,
    next_id: u64,
}

impl Peer {
    pub(crate) fn start(server: &Scripted) -> Self {
        Self::start_with(server, server.args(), Stdio::null())
    }

    pub(crate) fn start_with(server: &Scripted, args: Vec<String>, stderr: Stdio) -> Self {
        let mut command = Command::new(server.program());
        command.args(args).envs(server.env()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let (stdin, mut stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            while let Ok(read) = stdout.read(&mut block) {
                if read == 0 || sender.send(block[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, output, seen: Vec::new(), next_id: 0 }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").ok();
        stdin.flush().ok();
    }

    /// Sends a request and gives its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    /// A request and the next message that comes back.
    pub(crate) fn exchange(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params);
        self.message()
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.exchange("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The next line, without its end; `None` at the end of the output.
    pub(crate) fn line(&mut self) -> Option<Vec<u8>> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.seen.drain(..=at).collect();
                return Some(line[..at].to_vec());
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    panic!("nothing came; so far: {}", String::from_utf8_lossy(&self.seen))
                }
            }
        }
    }

    /// The next line as JSON.
    pub(crate) fn message(&mut self) -> Value {
        let line = self.line().expect("the output ended");
        serde_json::from_slice(&line).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)))
    }

    /// Everything until the output ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.seen.extend(bytes);
        }
        std::mem::take(&mut self.seen)
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("the server did not end")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The parameters of a modern request.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}});
    params
}

pub(crate) fn hello() -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "sampling": {}, "roots": {}}, "clientInfo": {"name": "t", "version": "0"}})
}

/// A POST on a connection of its own; everything that comes back until the server closes or falls silent after
/// a whole answer.
pub(crate) fn post(url: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut socket = open_post(url, headers, body);
    read_all(&mut socket)
}

/// A POST whose answer is read by the caller.
pub(crate) fn open_post(url: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    open(url, "POST", headers, body)
}

pub(crate) fn open(url: &str, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut socket = TcpStream::connect(host).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    socket
}

/// Reads until the answer is whole, or the connection ends.
pub(crate) fn read_all(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if is_whole(&text) {
            return text;
        }
        match socket.read(&mut block) {
            Ok(0) => return text,
            Ok(read) => bytes.extend_from_slice(&block[..read]),
            Err(error) => return format!("{text}<{:?}>", error.kind()),
        }
    }
}

fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .and_then(|length| length.parse::<usize>().ok());
    match length {
        Some(length) => body.len() >= length,
        None => body.ends_with("\r\n0\r\n\r\n"),
    }
}
