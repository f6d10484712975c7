//! Carries the lines elsewhere. The file is the queue: a sink reads it at its own pace from the position it has reached,
//! so that a slow one costs calls nothing, and a gateway that starts again goes on where it was.

mod otlp;
mod postgres;
mod syslog;
mod tls;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use otlp::OtlpSink;
pub use postgres::PostgresSink;
pub use syslog::SyslogSink;

use crate::file_set::AuditFileSet;
use crate::follow::{FollowedLine, LineFollower};

/// What is sent at once.
const BATCH_LINES: usize = 500;
const BATCH_BYTES: usize = 1 << 20;
/// How often a sink that has sent everything looks for more.
const LOOK: Duration = Duration::from_millis(200);
/// How long one batch may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pauses after failures.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long the last lines may take when the gateway stops.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// It may be taken later.
    #[error("{reason}")]
    Unavailable { reason: String, retry_after: Option<Duration> },
    /// It will never be taken. The lines stay in the file.
    #[error("{0}")]
    Rejected(String),
}

impl SinkError {
    pub(crate) fn unavailable(reason: impl std::fmt::Display) -> Self {
        SinkError::Unavailable { reason: reason.to_string(), retry_after: None }
    }
}

/// What a sink gives back for a batch.
pub type SinkReply<'a> = Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send + 'a>>;

/// A place that takes lines in order. A line may come twice: its `seq` tells.
pub trait LineSink: Send + 'static {
    fn send<'a>(&'a mut self, lines: &'a [FollowedLine]) -> SinkReply<'a>;
}

/// How a sink stands.
#[derive(Debug)]
pub struct SinkProgress {
    /// Tells it from other sinks.
    pub name: String,
    taken: AtomicU64,
    lost: AtomicU64,
    is_up: AtomicBool,
}

impl SinkProgress {
    /// The `seq` of the last line that it has taken or refused for good.
    pub fn position(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Lines that it refused for good since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// False while it takes no lines.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

/// The task of one sink.
pub struct SinkTask {
    progress: Arc<SinkProgress>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl SinkTask {
    /// Sends the lines of `files` to `sink` from where it was. The name tells it from others in the log, and its position
    /// on the disk.
    pub fn spawn(files: AuditFileSet, name: String, sink: impl LineSink) -> Self {
        let stop = CancellationToken::new();
        let position = SinkPosition { path: files.beside(&format!(".{name}.position")) };
        let taken = AtomicU64::new(position.read());
        let progress = Arc::new(SinkProgress { name, taken, lost: AtomicU64::new(0), is_up: AtomicBool::new(true) });
        let task = tokio::spawn(run(files, position, progress.clone(), sink, stop.clone()));
        Self { progress, stop, task }
    }

    pub fn progress(&self) -> &Arc<SinkProgress> {
        &self.progress
    }

    /// Sends what is there, for a short time, and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

async fn run(
    files: AuditFileSet,
    position: SinkPosition,
    progress: Arc<SinkProgress>,
    mut sink: impl LineSink,
    stop: CancellationToken,
) {
    let name = &*progress.name;
    let mut follower = LineFollower::new(files, progress.position());
    let mut pause = FIRST_PAUSE;
    let mut is_reported = false;
    loop {
        let is_stopping = stop.is_cancelled();
        let begin = follower.seq();
        // Files are read on a thread that may block.
        let read = tokio::task::spawn_blocking(move || {
            let batch = follower.next_batch(BATCH_LINES, BATCH_BYTES);
            (follower, batch)
        });
        let Ok((back, batch)) = read.await else { return };
        follower = back;
        let batch = match batch {
            Ok(batch) if !batch.is_empty() => batch,
            Ok(_) if is_stopping => return,
            Ok(_) => {
                wait(&stop, LOOK).await;
                continue;
            }
            Err(error) => {
                tracing::warn!(sink = name, %error, "the audit log cannot be read for a sink");
                if is_stopping {
                    return;
                }
                wait(&stop, LONGEST_PAUSE).await;
                continue;
            }
        };
        // A sink that hangs must not hold up the end of the gateway.
        let patience = if is_stopping { LAST_WORDS } else { PATIENCE };
        let sent = tokio::time::timeout(patience, sink.send(&batch)).await;
        let sent = sent.unwrap_or_else(|_| Err(SinkError::unavailable("no answer in time")));
        match sent {
            Ok(()) => {
                // After the sink, so that a crash in between sends lines twice and loses none.
                position.write(follower.seq());
                progress.taken.store(follower.seq(), Ordering::Relaxed);
                progress.is_up.store(true, Ordering::Relaxed);
                pause = FIRST_PAUSE;
                if std::mem::take(&mut is_reported) {
                    tracing::info!(sink = name, "an audit sink takes lines again");
                }
            }
            Err(SinkError::Rejected(reason)) => {
                let (first, last) = (begin + 1, follower.seq());
                tracing::error!(sink = name, reason, first, last, "an audit sink refused lines for good");
                position.write(follower.seq());
                progress.taken.store(last, Ordering::Relaxed);
                progress.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
            }
            Err(SinkError::Unavailable { reason, retry_after }) => {
                progress.is_up.store(false, Ordering::Relaxed);
                if !std::mem::replace(&mut is_reported, true) {
                    tracing::warn!(sink = name, reason, "an audit sink does not take lines; they wait in the file");
                }
                if is_stopping {
                    return;
                }
                // The same lines again: the position on the disk has not moved.
                follower.rewind(begin);
                wait(&stop, retry_after.unwrap_or(pause).min(LONGEST_PAUSE)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn wait(stop: &CancellationToken, pause: Duration) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

/// The last line that a sink has taken, on the disk.
struct SinkPosition {
    path: PathBuf,
}

impl SinkPosition {
    fn read(&self) -> u64 {
        std::fs::read_to_string(&self.path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// A position that is lost costs lines that are sent twice, so a failure is only reported.
    fn write(&self, seq: u64) {
        let mut fresh = self.path.as_os_str().to_owned();
        fresh.push(".new");
        let written = std::fs::write(&fresh, format!("{seq}\n")).and_then(|()| std::fs::rename(&fresh, &self.path));
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "the position of an audit sink cannot be written");
        }
    }
}
