//! Blocking clients of every face, as small as they can be: one call at a time, always with the id 1.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::stream::MaybeTlsStream;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::world::{ACCEPT, LONG, modern_call, modern_headers};

/// The faces, in the order of their clients' numbers.
pub(crate) const FACES: [&str; 8] = [
    "mcp, modern",
    "mcp, modern, a connection for each call",
    "mcp, legacy",
    "rest",
    "rpc",
    "websocket, modern",
    "websocket, legacy",
    "sse",
];

const TOOL: &str = "far__echo";

/// What became of a call.
pub(crate) enum Heard {
    /// An answer of any kind.
    Answer(String),
    /// A clear word that the gateway stops, or nobody listens any more.
    Refusal,
    /// The connection broke.
    Broken(io::Error),
}

/// A client of one face.
pub(crate) enum Caller {
    Modern(Http),
    ModernOnce(String),
    Legacy(Http, String),
    Rest(Http),
    Rpc(Http),
    Socket(WebSocket<MaybeTlsStream<TcpStream>>),
    LegacySocket(WebSocket<MaybeTlsStream<TcpStream>>),
    TwoEndpoints(Http, String, BufReader<TcpStream>),
}

fn initialize() -> String {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

fn legacy_call(mark: &str) -> String {
    let params = json!({"name": TOOL, "arguments": {"message": mark}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

fn modern(mark: &str) -> String {
    modern_call(TOOL, json!({"message": mark}))
}

impl Caller {
    pub(crate) fn open(host: &str, number: usize) -> Self {
        let http = || Http::open(host).unwrap();
        match number % FACES.len() {
            0 => Caller::Modern(http()),
            1 => Caller::ModernOnce(host.to_owned()),
            2 => {
                let mut http = http();
                let greeting = http.post("/mcp", &[ACCEPT], &initialize()).unwrap();
                Caller::Legacy(http, greeting.header("mcp-session-id").expect("a session"))
            }
            3 => Caller::Rest(http()),
            4 => Caller::Rpc(http()),
            5 => Caller::Socket(socket(host)),
            6 => {
                let mut socket = socket(host);
                said(&mut socket, initialize()).unwrap();
                Caller::LegacySocket(socket)
            }
            _ => Self::two_endpoints(host),
        }
    }

    fn two_endpoints(host: &str) -> Self {
        let mut stream = connect(host).unwrap();
        write!(stream, "GET /sse HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n").unwrap();
        let mut stream = BufReader::new(stream);
        let path = data(&mut stream).unwrap();
        let mut http = Http::open(host).unwrap();
        assert_eq!(http.post(&path, &[], &initialize()).unwrap().status, 202);
        data(&mut stream).unwrap();
        Caller::TwoEndpoints(http, path, stream)
    }

    /// Calls the tool with this mark.
    pub(crate) fn call(&mut self, mark: &str) -> Heard {
        match self.try_call(mark) {
            Ok(text) if text.contains("-31007") || text.contains("shutting down") => Heard::Refusal,
            Ok(text) => Heard::Answer(text),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Heard::Refusal,
            Err(error) => Heard::Broken(error),
        }
    }

    fn try_call(&mut self, mark: &str) -> io::Result<String> {
        let headers = modern_headers(TOOL);
        Ok(match self {
            Caller::Modern(http) => http.post("/mcp", &headers, &modern(mark))?.body,
            Caller::ModernOnce(host) => Http::open(host)?.post("/mcp", &headers, &modern(mark))?.body,
            Caller::Legacy(http, session) => {
                http.post("/mcp", &[ACCEPT, ("Mcp-Session-Id", session)], &legacy_call(mark))?.body
            }
            Caller::Rest(http) => {
                let body = json!({"server": "far", "toolName": "echo", "input": {"message": mark}}).to_string();
                http.post("/mcp/call", &[], &body)?.body
            }
            Caller::Rpc(http) => http.post("/rpc", &[], &legacy_call(mark))?.body,
            Caller::Socket(socket) => said(socket, modern(mark))?,
            Caller::LegacySocket(socket) => said(socket, legacy_call(mark))?,
            Caller::TwoEndpoints(http, path, stream) => {
                let posted = http.post(path, &[], &legacy_call(mark))?;
                if posted.status == 202 { data(stream)? } else { posted.body }
            }
        })
    }
}

fn connect(host: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection that is used again and again, until it is said that it closes.
pub(crate) struct Http {
    host: String,
    stream: BufReader<TcpStream>,
    is_over: bool,
}

/// One answer.
pub(crate) struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    }
}

impl Http {
    fn open(host: &str) -> io::Result<Self> {
        Ok(Self { host: host.to_owned(), stream: BufReader::new(connect(host)?), is_over: false })
    }

    fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<Answer> {
        if self.is_over {
            *self = Self::open(&self.host)?;
        }
        let mut request = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", self.host);
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let request = format!("{request}Content-Length: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(request.as_bytes())?;
        let answer = self.read()?;
        self.is_over = answer.header("connection").is_some_and(|value| value == "close");
        Ok(answer)
    }

    fn read(&mut self) -> io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            line(&mut self.stream, &mut head)?;
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut answer = Answer { status, head, body: String::new() };
        match answer.header("content-length") {
            Some(length) => {
                let mut body = vec![0; length.parse().unwrap()];
                self.stream.read_exact(&mut body)?;
                answer.body = String::from_utf8(body).unwrap();
            }
            None => while chunk(&mut self.stream, &mut answer.body)? {},
        }
        Ok(answer)
    }
}

/// Reads a line; an end before it is an error.
fn line(stream: &mut impl BufRead, text: &mut String) -> io::Result<()> {
    match stream.read_line(text)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Reads one chunk; false at the last.
fn chunk(stream: &mut BufReader<TcpStream>, text: &mut String) -> io::Result<bool> {
    let mut size = String::new();
    line(stream, &mut size)?;
    let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
    stream.read_exact(&mut chunk)?;
    text.push_str(std::str::from_utf8(&chunk[..chunk.len() - 2]).unwrap());
    Ok(chunk.len() > 2)
}

/// The data of the next event that is no notification.
fn data(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    loop {
        let mut text = String::new();
        line(stream, &mut text)?;
        match text.trim_end().strip_prefix("data: ") {
            Some(data) if !data.contains(r#""method":"notifications/"#) => return Ok(data.to_owned()),
            _ => {}
        }
    }
}

fn socket(host: &str) -> WebSocket<MaybeTlsStream<TcpStream>> {
    tungstenite::connect(format!("ws://{host}/ws")).unwrap().0
}

fn said(socket: &mut WebSocket<MaybeTlsStream<TcpStream>>, message: String) -> io::Result<String> {
    socket.send(Message::text(message)).map_err(io::Error::other)?;
    loop {
        match socket.read().map_err(io::Error::other)? {
            Message::Text(text) if is_answer(&text) => return Ok(text.to_string()),
            Message::Close(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
    }
}

fn is_answer(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|message| message.get("method").is_none())
}
