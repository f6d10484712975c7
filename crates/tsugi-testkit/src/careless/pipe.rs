//! A child process, started and spoken to without any care.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender};

use serde_json::{Value, json};

use super::{hello, message};

pub(super) struct Pipe {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    running: Option<Running>,
    next_id: u64,
    /// What it does wrong besides.
    vice: Vice,
}

/// What a control does wrong that others do not.
pub(super) enum Vice {
    /// Nothing more.
    None,
    /// It never starts a server again.
    GivesUp,
    /// It keeps what the server tells for somebody who never comes, in a queue that ends somewhere.
    Queues(SyncSender<Value>, #[expect(dead_code, reason = "nobody ever looks at it")] Receiver<Value>),
}

impl Vice {
    pub(super) fn queueing() -> Self {
        let (sender, receiver) = std::sync::mpsc::sync_channel(64);
        Vice::Queues(sender, receiver)
    }
}

struct Running {
    /// Kept and never waited for or ended; its stderr is never read.
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Pipe {
    pub(super) fn new(program: PathBuf, args: Vec<String>, env: Vec<(String, String)>) -> Self {
        Self { program, args, env, running: None, next_id: 0, vice: Vice::None }
    }

    pub(super) fn set_vice(&mut self, vice: Vice) {
        self.vice = vice;
    }

    pub(super) fn request(&mut self, method: &str, params: &Value, handshake: bool) -> Result<Value, String> {
        match self.try_request(method, params, handshake) {
            Err(_) if !matches!(self.vice, Vice::GivesUp) => {
                // Once more, come what may.
                self.running = None;
                self.try_request(method, params, handshake)
            }
            done => done,
        }
    }

    fn try_request(&mut self, method: &str, params: &Value, handshake: bool) -> Result<Value, String> {
        self.open(handshake)?;
        self.exchange(method, params)
    }

    /// Sends all calls, and takes the next answers for theirs.
    pub(super) fn burst(&mut self, calls: &[(&str, Value)]) -> Result<Vec<Value>, String> {
        self.open(true)?;
        for (tool, arguments) in calls {
            self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        }
        calls.iter().map(|_| self.next_answer()).collect()
    }

    fn open(&mut self, handshake: bool) -> Result<(), String> {
        if self.running.is_some() {
            return Ok(());
        }
        self.running = Some(self.start()?);
        if handshake {
            self.exchange("initialize", &hello())?;
            self.send(&message(None, "notifications/initialized", &Value::Object(Default::default())))?;
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "this is how it should not be done")]
    fn start(&self) -> Result<Running, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or("no pipes")?;
        Ok(Running { _child: child, stdin, stdout: BufReader::new(stdout) })
    }

    fn running(&mut self) -> Result<&mut Running, String> {
        self.running.as_mut().ok_or_else(|| "not running".into())
    }

    fn send(&mut self, message: &str) -> Result<(), String> {
        writeln!(self.running()?.stdin, "{message}").map_err(|error| error.to_string())
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<(), String> {
        self.next_id += 1;
        let request = message(Some(self.next_id), method, params);
        self.send(&request)
    }

    fn exchange(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.ask(method, params)?;
        self.next_answer()
    }

    /// Takes the next thing with a result or an error for the answer.
    fn next_answer(&mut self) -> Result<Value, String> {
        loop {
            let mut line = String::new();
            let read = self.running()?.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed its output".into());
            }
            let message: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            if message.get("result").is_some() || message.get("error").is_some() {
                return Ok(message);
            }
            if let Vice::Queues(queue, _) = &self.vice {
                queue.send(message).map_err(|error| error.to_string())?;
            }
        }
    }
}
