//! A scripted server on two streams: those of its process, or any pair.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::message::Request;
use super::output::{Shared, Voice};
use super::server::{Host, Server, Session};
use super::turn::Turn;
use crate::script::{Action, Framing, Script};
use crate::wait::until_blocking;

/// How long turns in flight may take when the input has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves one client on a pair of streams until the input ends. `Exit` in a script ends the serving, not the
/// process.
pub fn serve(
    script: &Script,
    folder: Option<&Path>,
    input: impl Read,
    output: impl Write + Send + 'static,
) -> Result<(), String> {
    let server = Arc::new(Server::new(script, folder, Host::Threads(Arc::default()))?);
    let voice: Arc<dyn Voice> = Arc::new(Shared::new(Box::new(output), &server.script));
    Conversation::new(server, voice).run(input);
    Ok(())
}

/// Serves stdin and stdout of this process, with everything that only a process can do wrong.
pub fn run_process(script: &Script, folder: Option<&Path>) -> Result<(), String> {
    let server = Arc::new(Server::new(script, folder, Host::Process)?);
    watch_for_sigterm(&server);
    std::thread::sleep(Duration::from_millis(server.script.start_delay_ms));
    let voice: Arc<dyn Voice> = Arc::new(Shared::new(Box::new(std::io::stdout()), &server.script));
    let conversation = Conversation::new(server, voice);
    conversation.at_point("start");
    conversation.run(std::io::stdin());
    conversation.server.journal.write("eof", Value::Null);
    conversation.at_point("eof");
    if conversation.server.outlives_input.load(Ordering::Acquire) {
        sleep_for_good();
    }
    Ok(())
}

fn sleep_for_good() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(600));
    }
}

/// Records SIGTERM, and obeys it unless the script says otherwise.
pub(super) fn watch_for_sigterm(server: &Arc<Server>) {
    let server = server.clone();
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for signals can be made");
        runtime.block_on(async {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let mut signals = tokio::signal::unix::signal(kind).expect("SIGTERM can be watched");
            ready.send(()).ok();
            loop {
                signals.recv().await;
                server.journal.write("signal", json!("TERM"));
                if !server.script.ignores_sigterm {
                    std::process::exit(143);
                }
            }
        });
    });
    // Nothing else may happen before, or a quick SIGTERM would end a server that must ignore it.
    is_ready.recv().ok();
}

struct Conversation {
    server: Arc<Server>,
    session: Arc<Session>,
    voice: Arc<dyn Voice>,
}

impl Conversation {
    fn new(server: Arc<Server>, voice: Arc<dyn Voice>) -> Self {
        let session = Arc::new(Session::default());
        *session.voice.lock() = Some(voice.clone());
        server.sessions.lock().insert(String::new(), session.clone());
        Self { server, session, voice }
    }

    /// Does what the script wants outside of any request.
    fn at_point(&self, point: &str) {
        let request = Request { id: Value::Null, method: point.into(), params: json!({}) };
        let mut turn = Turn::new(&self.server, &self.session, request, self.voice.clone());
        for action in self.server.actions_at(point, None, false) {
            turn.act(&action);
        }
    }

    fn run(&self, input: impl Read) {
        let mut input = BufReader::new(input);
        while let Some(text) = next_text(&mut input, self.server.script.framing) {
            if let Host::Threads(is_ended) = &self.server.host
                && is_ended.load(Ordering::Acquire)
            {
                return;
            }
            if !text.trim().is_empty() {
                self.receive(&text);
            }
            while self.server.is_frozen.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.close();
    }

    fn receive(&self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return self.server.journal.write("unreadable", json!(text.chars().take(200).collect::<String>()));
        };
        let Some(request) = Request::of(&message) else { return self.server.told(&message) };
        self.server.journal.write("received", message);
        if request.method == "notifications/cancelled" {
            self.server.cancel(&request.params["requestId"]);
        }
        if request.id.is_null() {
            return self.at_point(&request.method);
        }
        let takes_time = self.server.has_rule_for(&request) || request.tool().is_some_and(super::may_take_time);
        let blocks_reading = self.blocks_reading(&request);
        let turn = Turn::new(&self.server, &self.session, request, self.voice.clone());
        match takes_time && !blocks_reading {
            true => self.run_beside(turn),
            false => turn.run(),
        }
    }

    fn run_beside(&self, turn: Turn) {
        let server = self.server.clone();
        server.turns.fetch_add(1, Ordering::AcqRel);
        std::thread::spawn(move || {
            turn.run();
            server.turns.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// Lets the turns in flight give their answers; those that only wait stop.
    fn close(&self) {
        self.server.is_closing.store(true, Ordering::Release);
        until_blocking(LAST_WORDS, || self.server.turns.load(Ordering::Acquire) == 0);
    }

    /// What stops reading or closes the input must be done where the reading is done.
    fn blocks_reading(&self, request: &Request) -> bool {
        let rules = self.server.script.rules.iter().filter(|rule| rule.on == request.method || rule.on == "*");
        let mut actions = rules.flat_map(|rule| &rule.actions);
        actions.any(|action| matches!(action, Action::StopReading(_) | Action::CloseStdin | Action::Freeze))
    }
}

/// The next message; `None` at the end of the input.
fn next_text(input: &mut impl BufRead, framing: Framing) -> Option<String> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line).ok()? == 0 {
        return None;
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    let length =
        line.to_ascii_lowercase().trim_end().strip_prefix("content-length:").and_then(|text| text.trim().parse().ok());
    match (framing, length) {
        (Framing::ContentLength | Framing::OnlyContentLength, Some(length)) => counted_text(input, length),
        // A server of lines takes a header for a line, and one of headers skips what is no header.
        (Framing::ContentLength, None) => Some(String::new()),
        (Framing::OnlyContentLength, None) => None,
        (Framing::Newline, _) => Some(line),
    }
}

fn counted_text(input: &mut impl BufRead, length: usize) -> Option<String> {
    let mut header = String::new();
    while input.read_line(&mut header).ok()? > 0 && !header.trim_end().is_empty() {
        header.clear();
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(String::from_utf8_lossy(&body).into_owned())
}
