//! The one stream of a page: servers, calls, numbers, a log and the board, as they happen and no faster than people
//! can read.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tsugi_protocol::answer::FaultCode;

use super::observe::ServerObserver;
use super::record::CallRecord;
use super::recorder::OpenPageGuard;
use super::row::{self, AttentionItem, ServerRow};
use super::viewer::DashboardViewer;
use crate::body::{BodyChunks, ResponseBody};
use crate::face::{FaceRequest, event, http};
use crate::guard::refusal::HttpRefusal;

/// How often calls are told.
const TICK: Duration = Duration::from_millis(200);
/// Every so many ticks the numbers are told.
const NUMBERS: u32 = 5;
/// How many calls are told at once; of more, the newest.
const CALLS: usize = 100;
/// How many lines of a log are told at once; of more, the newest.
const LINES: usize = 200;
/// How many events may wait for a slow page.
const WAITING: usize = 4;
/// How many pages can be open.
const PAGES: usize = 64;

/// `GET /api/events`
pub(super) fn open(viewer: &DashboardViewer, asked: &FaceRequest<'_>) -> Result<Response<ResponseBody>, HttpRefusal> {
    let recorder = viewer.recorder();
    if recorder.pages() >= PAGES {
        let message = "too many dashboards are open: close one";
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message)
            .retry_after(Duration::from_secs(5)));
    }
    let query = asked.parts.uri.query().unwrap_or_default();
    let log = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "log");
    // What a process writes is for administrators, here as on the page of its server.
    let log = log.map(|(_, name)| name.into_owned()).filter(|_| viewer.is_admin());
    let (sender, receiver) = mpsc::channel(WAITING);
    let stream = PageEventStream {
        _watching: recorder.watch(),
        since: recorder.next_id(),
        viewer: DashboardViewer::of(asked),
        sender,
        servers: Vec::new(),
        told: Instant::now(),
        has_changed: false,
        log: log.map(|name| StderrFollower { name, lines: None, has_followed: false, gathered: Vec::new() }),
    };
    asked.gateway.tasks().spawn(stream.run());
    Ok(http::long_events(EventChunks(receiver)))
}

/// What the task says, as a body.
struct EventChunks(mpsc::Receiver<Bytes>);

impl BodyChunks for EventChunks {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}

struct PageEventStream {
    _watching: OpenPageGuard,
    viewer: DashboardViewer,
    sender: mpsc::Sender<Bytes>,
    /// The id of the next call to tell.
    since: u64,
    /// The servers as they were told last.
    servers: Vec<ServerRow>,
    /// When that was.
    told: Instant,
    /// Whether something has changed since.
    has_changed: bool,
    log: Option<StderrFollower>,
}

/// A server's standard error.
struct StderrFollower {
    name: String,
    lines: Option<broadcast::Receiver<Arc<str>>>,
    has_followed: bool,
    gathered: Vec<Arc<str>>,
}

impl StderrFollower {
    /// Follows the newest process. What the first one said so far is known to the page; of its successors everything
    /// is new.
    fn follow(&mut self, observed: &dyn ServerObserver) {
        self.lines = observed.follow_stderr(&self.name);
        if self.has_followed && self.lines.is_some() {
            self.gathered.extend(observed.newest_stderr(&self.name, LINES).into_iter().map(Arc::from));
        }
        self.has_followed |= self.lines.is_some();
    }
}

#[derive(Serialize)]
struct ServersEvent<'a> {
    servers: &'a [ServerRow],
    attention: Vec<AttentionItem>,
}

#[derive(Serialize)]
struct CallsEvent {
    calls: Vec<CallRecord>,
    dropped: u64,
}

impl PageEventStream {
    /// Tells until the page closes, its viewer signs out, or the gateway stops.
    async fn run(mut self) {
        let draining = self.viewer.gateway.drain().draining();
        let sender = self.sender.clone();
        tokio::select! {
            _ = self.tell() => {}
            () = sender.closed() => {}
            () = draining => {
                // A page that reads nothing need not hear it.
                let _ = sender.try_send(event::named("bye", "{\"reason\":\"the gateway is stopping\"}"));
            }
        }
    }

    async fn tell(&mut self) -> ControlFlow<()> {
        let mut ticks = tokio::time::interval(TICK);
        // After a slow send, one tick follows and not a burst of the missed ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = self.viewer.backend().observe().map(|observed| observed.changes());
        let mut board = self.board();
        let mut count = 0;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.tick(count).await?;
                    count = (count + 1) % NUMBERS;
                }
                () = changed(&mut changes) => self.note_change().await?,
                line = next_line(&mut self.log) => self.gather(line),
                change = next_of(&mut board) => match change {
                    Some(change) => self.send("pm", &change).await?,
                    // A stream that has ended is ready at once, for ever. Asking it again would spin.
                    None => board = None,
                },
            }
        }
    }

    async fn tick(&mut self, count: u32) -> ControlFlow<()> {
        if count == 0 || std::mem::take(&mut self.has_changed) {
            self.tell_servers().await?;
        }
        if count == 0 {
            self.expect_viewer().await?;
            let (recorder, now) = (self.viewer.recorder(), self.viewer.recorder().now());
            // The sum over all servers would reveal those that a restricted viewer does not see.
            let all = (!self.viewer.access().is_restricted()).then(|| recorder.numbers(None));
            self.send("stats", &json!({"now": now, "all": all, "pages": recorder.pages()})).await?;
        }
        self.tell_calls().await?;
        self.tell_log().await
    }

    /// A change is told at once, so that a short one is seen; the next ones of a server in trouble, which can be many
    /// a second, with the next tick.
    async fn note_change(&mut self) -> ControlFlow<()> {
        if self.told.elapsed() < TICK {
            self.has_changed = true;
            return ControlFlow::Continue(());
        }
        self.tell_servers().await
    }

    /// Ends the stream of a viewer who signed out elsewhere, or whose key was taken away.
    async fn expect_viewer(&self) -> ControlFlow<()> {
        if self.viewer.is_still_in() {
            return ControlFlow::Continue(());
        }
        self.send("bye", &json!({"reason": "signed out"})).await?;
        ControlFlow::Break(())
    }

    /// Tells the servers when something about them is different.
    async fn tell_servers(&mut self) -> ControlFlow<()> {
        let servers = row::rows(&self.viewer);
        if servers == self.servers {
            return ControlFlow::Continue(());
        }
        self.told = Instant::now();
        self.send("servers", &ServersEvent { attention: row::attention(&servers), servers: &servers }).await?;
        self.servers = servers;
        ControlFlow::Continue(())
    }

    async fn tell_calls(&mut self) -> ControlFlow<()> {
        let (found, dropped, next) = self.viewer.recorder().since(self.since, CALLS);
        // Past the hidden calls too, so that they are not looked at again.
        self.since = next;
        let seen = found.into_iter().filter(|call| self.viewer.sees_call(call));
        let calls: Vec<CallRecord> = seen.map(|call| self.viewer.shown(call)).collect();
        match calls.is_empty() && dropped == 0 {
            true => ControlFlow::Continue(()),
            false => self.send("calls", &CallsEvent { calls, dropped }).await,
        }
    }

    fn gather(&mut self, line: Option<Arc<str>>) {
        let Some(log) = &mut self.log else { return };
        log.gathered.extend(line);
        // A noisy process must not grow our memory between two ticks.
        let excess = log.gathered.len().saturating_sub(LINES);
        log.gathered.drain(..excess);
    }

    async fn tell_log(&mut self) -> ControlFlow<()> {
        let observed = self.viewer.backend().observe();
        let Some(log) = &mut self.log else { return ControlFlow::Continue(()) };
        if let (None, Some(observed)) = (&log.lines, observed) {
            log.follow(observed);
        }
        if log.gathered.is_empty() {
            return ControlFlow::Continue(());
        }
        let lines = std::mem::take(&mut log.gathered);
        let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        let told = json!({"server": log.name, "lines": lines});
        self.send("log", &told).await
    }

    /// What happens on the board, for those who may see it.
    fn board(&self) -> Option<BoxStream<'static, Value>> {
        self.viewer.backend().board_changes(self.viewer.looker()).filter(|_| self.viewer.sees_server("pm"))
    }

    /// Waits for a slow page. What happens while it waits is sent later, or counted as dropped.
    async fn send(&self, name: &str, data: &impl Serialize) -> ControlFlow<()> {
        let text = serde_json::to_string(data).expect("what is shown is always JSON");
        self.sender.send(event::named(name, &text)).await.map_or(ControlFlow::Break(()), ControlFlow::Continue)
    }
}

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    let is_alive = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => std::future::pending().await,
    };
    // A closed channel is ready at once, for ever, so it is not awaited again.
    if !is_alive {
        *changes = None;
    }
}

async fn next_of(board: &mut Option<BoxStream<'static, Value>>) -> Option<Value> {
    match board {
        Some(board) => board.next().await,
        None => std::future::pending().await,
    }
}

/// The next line; nothing when the process has ended, whose successor is followed from the next tick on.
async fn next_line(log: &mut Option<StderrFollower>) -> Option<Arc<str>> {
    let Some(log) = log else { return std::future::pending().await };
    let Some(lines) = &mut log.lines else { return std::future::pending().await };
    match lines.recv().await {
        Ok(line) => Some(line),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => {
            log.lines = None;
            None
        }
    }
}
