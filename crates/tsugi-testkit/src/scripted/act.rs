//! Doing what a script says at a point.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;

use super::child::{Role, start};
use super::message::{Body, outgoing};
use super::server::Host;
use super::turn::Turn;
use crate::script::{Action, Junk};

/// A line for floods of stderr, with bytes that are no UTF-8.
const FLOOD: &[u8] = b"flood \xff\xfe of words without end\n";

/// Whether a turn goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next action or the answer follows.
    On,
    /// The turn is over.
    Ended,
}

impl Turn {
    /// Does one thing.
    pub(super) fn act(&mut self, action: &Action) -> Flow {
        match action {
            Action::Exit(code) => return self.end(*code),
            Action::Signal(name) => return self.signal(name),
            Action::Silence => return Flow::Ended,
            Action::Freeze => return self.freeze(),
            Action::Error { code, message, data } => {
                let mut error = json!({"code": code, "message": message});
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                self.send(&Body::Error(error));
                return Flow::Ended;
            }
            Action::Result(result) => {
                self.send(&Body::Result(result.to_string()));
                return Flow::Ended;
            }
            Action::Status { code, headers, body } => {
                self.voice.status(*code, headers, body);
                return Flow::Ended;
            }
            Action::Reset => {
                self.voice.reset();
                return Flow::Ended;
            }
            Action::HalfThenExit(code) => self.half_then_exit = Some(*code),
            Action::Answer(form) => self.form = Some(*form),
            Action::ForgetSessions => self.server.sessions.lock().clear(),
            other => self.disturb(other),
        }
        Flow::On
    }

    /// The things after which the usual answer follows.
    fn disturb(&self, action: &Action) {
        match action {
            Action::Sleep(ms) => std::thread::sleep(Duration::from_millis(*ms)),
            Action::StopReading(bytes) => self.notify_bytes(*bytes),
            Action::CloseStdout => replace_by_null(rustix::stdio::dup2_stdout),
            Action::CloseStdin => {
                self.server.outlives_input.store(true, Ordering::Release);
                replace_by_null(rustix::stdio::dup2_stdin);
            }
            Action::Write(text) => self.voice.raw(text.as_bytes()),
            Action::Junk(junk) => self.voice.raw(&bytes_of(*junk)),
            Action::LongLine(bytes) => self.long_line(*bytes),
            Action::Notifications(count) => self.voice.notes(&mut (0..*count).map(log_note)),
            Action::Progress { count, every_ms } => self.keep_reporting(*count, *every_ms),
            Action::Ask { method, params, wait } => _ = self.ask(method, params, *wait),
            Action::Stderr(text) => to_stderr(format!("{text}\n").as_bytes(), 1),
            Action::StderrFlood(bytes) => to_stderr(FLOOD, bytes / FLOOD.len() + 1),
            Action::Children(count) => (0..*count).for_each(|_| start(Role::Sleep)),
            Action::Detached(count) => (0..*count).for_each(|_| start(Role::Detach)),
            Action::ForkBomb(count) => start(Role::Multiply(*count)),
            Action::Allocate(bytes) => std::mem::forget(vec![1u8; *bytes]),
            Action::Spin(threads) => (0..*threads).for_each(|_| spin()),
            _ => {}
        }
    }

    /// Ends the server.
    pub(super) fn end(&self, code: i32) -> Flow {
        match &self.server.host {
            Host::Process => std::process::exit(code),
            Host::Threads(is_ended) => is_ended.store(true, Ordering::Release),
        }
        self.voice.reset();
        Flow::Ended
    }

    fn signal(&self, name: &str) -> Flow {
        if let (Host::Process, Some(signal)) = (&self.server.host, signal_named(name)) {
            kill_process(getpid(), signal).ok();
            // A signal that stops is continued one day, and then the turn goes on.
            std::thread::sleep(Duration::from_millis(50));
            return Flow::On;
        }
        self.end(1)
    }

    fn freeze(&self) -> Flow {
        self.server.is_frozen.store(true, Ordering::Release);
        Flow::Ended
    }

    fn notify_bytes(&self, bytes: usize) {
        let params = json!({"level": "info", "data": "x".repeat(1000)});
        let note = outgoing(None, "notifications/message", &params);
        self.voice.notes(&mut std::iter::repeat_n(note.clone(), bytes / note.len() + 1));
    }

    fn long_line(&self, bytes: usize) {
        let block = vec![b'x'; 1 << 20];
        let mut left = bytes;
        while left > 0 {
            let now = left.min(block.len());
            self.voice.raw(&block[..now]);
            left -= now;
        }
        self.voice.raw(b"\n");
    }

    fn keep_reporting(&self, count: usize, every_ms: u64) {
        if every_ms == 0 {
            return self.flood_with_progress(count);
        }
        for done in 1..=count {
            if !self.work_for(Duration::from_millis(every_ms)) {
                return;
            }
            self.progress(done, None);
        }
    }

    fn flood_with_progress(&self, count: usize) {
        let Some(token) = self.request.meta("progressToken").map(|token| token.to_string()) else { return };
        self.voice.notes(&mut (1..=count).map(|done| progress_note(&token, done)));
    }
}

/// Written by hand, since a million of them must not take long.
fn log_note(number: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"note {number}"}}}}"#
    )
}

fn progress_note(token: &str, done: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done}}}}}"#
    )
}

fn signal_named(name: &str) -> Option<Signal> {
    let known = [
        ("KILL", Signal::KILL),
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("SEGV", Signal::SEGV),
        ("ABORT", Signal::ABORT),
        ("STOP", Signal::STOP),
        ("PIPE", Signal::PIPE),
    ];
    known.into_iter().find(|(known, _)| *known == name).map(|(_, signal)| signal)
}

fn replace_by_null(replace: impl FnOnce(std::fs::File) -> rustix::io::Result<()>) {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        replace(null).ok();
    }
}

fn to_stderr(line: &[u8], times: usize) {
    let mut stderr = std::io::stderr().lock();
    for _ in 0..times {
        if stderr.write_all(line).is_err() {
            return;
        }
    }
}

fn spin() {
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
}

fn bytes_of(junk: Junk) -> Vec<u8> {
    match junk {
        Junk::Words => b"npm warn exec The following package was not found\n".to_vec(),
        Junk::Blank => b"\n".to_vec(),
        Junk::Json => b"{\"level\":30,\"msg\":\"started\"}\n[1,2]\n\"text\"\n17\n".to_vec(),
        Junk::Partial => b"{\"jsonrpc\":\"2.0\",\"id\":1,\"res\n".to_vec(),
        Junk::Bom => b"\xef\xbb\xbf".to_vec(),
        Junk::OneByte => b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}\n".to_vec(),
        Junk::Random => random_bytes(200_000),
        Junk::Deep => [vec![b'['; 200_000], b"\n".to_vec()].concat(),
    }
}

/// Bytes without order, the same every time, ended by a line end.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes: Vec<u8> = (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect();
    bytes.push(b'\n');
    bytes
}
