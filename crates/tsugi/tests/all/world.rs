//! What the tests share: a home of its own for each, the command in it, and raw HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tsugi_testkit::process::{self, Mark};

/// Far above what any machine needs, so that a failure shows instead of hanging.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The command under test.
pub(crate) const TSUGI: &str = env!("CARGO_BIN_EXE_tsugi");

/// An empty home, and everything that is started in it.
pub(crate) struct World {
    pub(crate) mark: Mark,
    folder: tempfile::TempDir,
}

/// A running `tsugi serve`.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) url: String,
    talk: Arc<Mutex<String>>,
}

/// A command that goes on until it is ended.
pub(crate) struct Following {
    child: Child,
    text: Arc<Mutex<String>>,
}

impl Following {
    /// Its process.
    pub(crate) fn id(&self) -> u64 {
        self.child.id().into()
    }

    /// What it printed so far.
    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let mark = Mark::new();
        // Servers are given a path in here as an argument, so that they can be found by the mark.
        let folder = tempfile::Builder::new().prefix(mark.as_str()).tempdir().unwrap();
        World { mark, folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file at once, as editors do.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let (path, new) = (self.path().join(name), self.path().join("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    /// The entry of a server that is this very command over stdio, with the built-in tools.
    pub(crate) fn entry(&self, name: &str) -> String {
        let config = self.write("child.yaml", "servers: [{name: demo, builtin: demo}]\n");
        format!("{{name: {name}, command: {TSUGI}, args: [stdio, --server, demo, --config, {}]}}", config.display())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the command is what is tested, and the mark ends what is left of it"
    )]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TSUGI);
        let (name, value) = self.mark.variable();
        command.args(args).current_dir(self.path()).env_clear().env(name, value);
        command.env("HOME", self.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts the command with its standard streams in our hands.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts `tsugi serve` on a free port and waits until it listens.
    pub(crate) fn serve(&self, args: &[&str]) -> Serving {
        self.serve_as_written(&[&["--listen", "127.0.0.1:0"], args].concat())
    }

    /// Starts `tsugi serve` with nothing but these arguments, so that the configuration says where it listens.
    pub(crate) fn serve_as_written(&self, args: &[&str]) -> Serving {
        let all = [&["serve"], args].concat();
        Serving::of(self.command(&all).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Runs the command for as long as this is kept, and gathers what it prints.
    pub(crate) fn follow(&self, args: &[&str]) -> Following {
        let mut child =
            self.command(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let text = collect(child.stdout.take().unwrap());
        Following { child, text }
    }

    /// Starts `tsugi serve` with nothing but these arguments; what it says after where it listens stays unread in its pipe.
    pub(crate) fn serve_unread(&self, args: &[&str]) -> (Serving, BufReader<ChildStderr>) {
        let all = [&["serve"], args].concat();
        let mut child = self.command(&all).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut unread = BufReader::with_capacity(1, child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on ") {
            line.clear();
            assert!(unread.read_line(&mut line).unwrap() > 0, "it does not listen");
        }
        let url = line.trim_start_matches("listening on ").trim().to_owned();
        (Serving { child, url, talk: Arc::default() }, unread)
    }

    /// Waits until no process of this world is left.
    pub(crate) fn assert_empty(&self) {
        let is_empty = || self.mark.processes().iter().all(|process| process.state == 'Z');
        until(is_empty, || format!("processes are left: {:?}", self.mark.processes()));
    }
}

/// Waits for a condition.
pub(crate) fn until(mut condition: impl FnMut() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "{}", what());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn collect(stream: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let talk = Arc::new(Mutex::new(String::new()));
    let shared = talk.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut talk = shared.lock().unwrap();
            talk.push_str(&line);
            talk.push('\n');
        }
    });
    talk
}

impl Serving {
    /// A `tsugi serve` that was just started, once it listens.
    pub(crate) fn of(mut child: Child) -> Self {
        let talk = collect(child.stderr.take().unwrap());
        let mut serving = Serving { child, url: String::new(), talk };
        serving.wait_for("listening on http");
        let talk = serving.talk();
        let line = talk.lines().find(|line| line.starts_with("listening on ")).unwrap();
        serving.url = line.trim_start_matches("listening on ").to_owned();
        serving
    }

    /// What it said so far.
    pub(crate) fn talk(&self) -> String {
        self.talk.lock().unwrap().clone()
    }

    /// Waits until it said this.
    pub(crate) fn wait_for(&self, words: &str) {
        until(|| self.talk().contains(words), || format!("waited for {words:?} in:\n{}", self.talk()));
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        process::send(self.child.id(), signal);
    }

    /// Waits for its end and gives its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let mut ended = None;
        until(
            || {
                ended = self.child.try_wait().unwrap();
                ended.is_some()
            },
            || "the gateway does not end".to_owned(),
        );
        ended.and_then(|status| status.code())
    }

    /// Opens a request and leaves the answer to be read.
    pub(crate) fn open(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let host = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut head = format!("{verb} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// The whole answer: head and body.
    pub(crate) fn ask(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (String, String) {
        let mut answer = String::new();
        self.open(verb, path, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// Its servers, as control shows them.
    pub(crate) fn servers(&self) -> Vec<Value> {
        let (_, body) = self.ask("GET", "/servers", &[], "");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["servers"].as_array().unwrap().clone()
    }

    /// One server once it is connected.
    pub(crate) fn connected(&self, name: &str) -> Value {
        let find =
            || self.servers().into_iter().find(|server| server["name"] == name && server["state"] == "connected");
        let mut found = None;
        until(
            || {
                found = find();
                found.is_some()
            },
            || format!("{name} is not connected: {:?}\n{}", self.servers(), self.talk()),
        );
        found.unwrap()
    }
}

/// The accept header that MCP wants.
pub(crate) const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// A modern tools/call.
pub(crate) fn modern_call(tool: &str, arguments: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool,
        "arguments": arguments,
        "_meta": {
            "progressToken": "p",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
    .to_string()
}

/// The headers of a modern tools/call.
pub(crate) fn modern_headers(tool: &str) -> [(&'static str, &str); 4] {
    [ACCEPT, ("Mcp-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)]
}
