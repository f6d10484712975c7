//! A server of known behaviour, which counts what it sees: the verdict of a row is read here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tsugi_protocol::answer::{Answer, Call, InputRequired, Outcome, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;

use crate::world::*;

/// What the server saw. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<Inner>);

struct Inner {
    calls: AtomicUsize,
    cancelled: AtomicUsize,
    finished: AtomicUsize,
    notes: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
    is_released: watch::Sender<bool>,
}

impl Default for Upstream {
    fn default() -> Self {
        Self(Arc::new(Inner {
            calls: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            notes: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            is_released: watch::Sender::new(false),
        }))
    }
}

impl Upstream {
    /// How many tools were called.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// How many calls were abandoned before they had an outcome.
    pub(crate) fn cancelled(&self) -> usize {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// How many calls that waited had an outcome.
    pub(crate) fn finished(&self) -> usize {
        self.0.finished.load(Ordering::SeqCst)
    }

    /// How many notes of `flood` were taken.
    pub(crate) fn notes(&self) -> usize {
        self.0.notes.load(Ordering::SeqCst)
    }

    /// How many calls that wait ran at once when it was most.
    pub(crate) fn most_running(&self) -> usize {
        self.0.most_running.load(Ordering::SeqCst)
    }

    /// Lets every `held` call end.
    pub(crate) fn release(&self) {
        self.0.is_released.send_replace(true);
    }

    /// Waits until so many tools were called.
    pub(crate) async fn wait_for_calls(&self, count: usize) {
        until(|| self.calls() >= count).await;
    }

    pub(crate) fn answer(&self) -> Arc<dyn Answer> {
        let upstream = self.clone();
        script(move |call| upstream.reply(&call))
    }

    fn reply(&self, call: &Call) -> Reply {
        match call.method {
            Method::Discover => complete(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "up", "version": "1"}}
            })),
            Method::ToolsList => {
                complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": tools()}))
            }
            Method::ResourcesList => complete(json!({"resultType": "complete", "resources": []})),
            Method::Listen => {
                Reply::from_source(Events([note("notifications/subscriptions/acknowledged", json!({}))].into(), None))
            }
            Method::ToolsCall => {
                self.0.calls.fetch_add(1, Ordering::SeqCst);
                self.tool(call)
            }
            _ => complete(json!({"resultType": "complete"})),
        }
    }

    fn tool(&self, call: &Call) -> Reply {
        let arguments: Value = call.params.get("arguments").and_then(|raw| raw.to().ok()).unwrap_or_default();
        let said = arguments["text"].as_str().unwrap_or_default().to_owned();
        match call.subject().as_deref() {
            Some("later") => {
                let wait = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(1));
                self.guarded(async move { tokio::time::sleep(wait).await }, said)
            }
            Some("held") => {
                let mut is_released = self.0.is_released.subscribe();
                self.guarded(async move { _ = is_released.wait_for(|released| *released).await }, said)
            }
            Some("hang") => {
                let progress = note("notifications/progress", json!({"progressToken": "p1", "progress": 1}));
                Reply::from_source(Hanging { first: Some(progress), _guard: self.guard() })
            }
            Some("flood") => Reply::from_source(Flood { upstream: self.clone(), _guard: self.guard() }),
            Some("ask") => match call.params.get("inputResponses") {
                Some(answers) => complete(text(answers.as_str())),
                None => {
                    let asked = InputRequired::one("who", &Method::RootsList, None, Some("state-of-the-server".into()));
                    Reply::ready(Outcome::InputRequired(asked))
                }
            },
            Some("panic") => panic!("on purpose"),
            _ => complete(text(&said)),
        }
    }

    fn guard(&self) -> Guard {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_running.fetch_max(running, Ordering::SeqCst);
        Guard { upstream: self.clone(), is_finished: false }
    }

    fn guarded(&self, wait: impl Future<Output = ()> + Send + 'static, said: String) -> Reply {
        let mut guard = self.guard();
        Reply::from_future(async move {
            wait.await;
            guard.finish();
            Outcome::complete(JsonObject::from(text(&said)))
        })
    }
}

fn tools() -> Vec<Value> {
    let names = ["echo", "later", "held", "hang", "flood", "ask", "panic", "secret"];
    names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect()
}

/// Tells when a call is dropped, and whether it had an outcome then.
struct Guard {
    upstream: Upstream,
    is_finished: bool,
}

impl Guard {
    fn finish(&mut self) {
        self.is_finished = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let counter = if self.is_finished { &self.upstream.0.finished } else { &self.upstream.0.cancelled };
        counter.fetch_add(1, Ordering::SeqCst);
        self.upstream.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Says one thing, then nothing for ever.
struct Hanging {
    first: Option<ReplyEvent>,
    _guard: Guard,
}

impl ReplySource for Hanging {
    fn poll_event(mut self: std::pin::Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<ReplyEvent> {
        self.first.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// How large one note of a flood is.
pub(crate) const NOTE: usize = 64 << 10;

/// Has always one more note.
struct Flood {
    upstream: Upstream,
    _guard: Guard,
}

impl ReplySource for Flood {
    fn poll_event(self: std::pin::Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<ReplyEvent> {
        self.upstream.0.notes.fetch_add(1, Ordering::SeqCst);
        let message = "x".repeat(NOTE);
        let params = json!({"progressToken": "p1", "progress": 1, "message": message});
        Poll::Ready(note("notifications/progress", params))
    }
}
