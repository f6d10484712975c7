//! The task that owns a child until its last descendant is reaped.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{net::unix::pipe::Receiver, sync::watch, task::JoinHandle};

use super::{
    SupervisionTier,
    control::JobControl,
    grouped,
    state::{ChildExit, ExitCause, ExitReport, JobPhase, JobState, StopWish},
};
use crate::{
    ChildPipes, JobCommand, JobOptions, ProcessError, SandboxReport, StderrLog, blocking,
    command::ResolvedCommand,
    orphans::JobMark,
    pipes::{self, ChildEnds},
    sandbox,
};

/// How long the end of a child waits for its last words, which another process may keep open.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// All that is needed to start a child.
pub(super) struct JobPlan {
    pub(super) label: String,
    pub(super) resolved: ResolvedCommand,
    pub(super) ends: ChildEnds,
    pub(super) options: JobOptions,
    pub(super) mark: JobMark,
    pub(super) stderr: StderrLog,
    /// Our end of the child's stderr.
    pub(super) stderr_pipe: Receiver,
    /// Always `None` on systems without a sandbox.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is confined here"))]
    pub(super) confinement: Option<sandbox::Confinement>,
    pub(super) sandbox: SandboxReport,
}

/// Starts the child and the task that owns it.
pub(super) async fn spawn(
    command: JobCommand,
    mut options: JobOptions,
) -> Result<(JobControl, ChildPipes), ProcessError> {
    let label = command.label();
    options.redact.extend(command.secrets());
    let (pipes, stderr_pipe, ends) = pipes::open().map_err(|error| ProcessError::spawn(&label, "open pipes", error))?;
    // The mark goes into the environment, so it is needed before the command is complete.
    let mark = JobMark::next();
    let policy = command.sandbox.clone();
    let resolved = resolve(command, &mark).await?;
    let (confinement, sandbox) = sandbox::plan(&policy, &resolved).await?;
    let stderr = StderrLog::new(options.redact.clone());
    let inner = start(JobPlan { label, resolved, ends, options, mark, stderr, stderr_pipe, confinement, sandbox });
    Ok((inner.await?, pipes))
}

/// Looking for a program reads directories, which may be slow ones.
async fn resolve(command: JobCommand, mark: &JobMark) -> Result<ResolvedCommand, ProcessError> {
    let label = command.label();
    let resolved = blocking::run(move || command.resolve()).await;
    let mut resolved = resolved.map_err(|error| ProcessError::spawn(label, "look for it", error))??;
    resolved.env.push(mark.variable());
    Ok(resolved)
}

#[cfg(target_os = "linux")]
async fn start(plan: JobPlan) -> Result<JobControl, ProcessError> {
    match SupervisionTier::available() {
        SupervisionTier::ProcessGroup => grouped::start(plan),
        _ => super::guarded::start(plan).await,
    }
}

#[cfg(not(target_os = "linux"))]
async fn start(plan: JobPlan) -> Result<JobControl, ProcessError> {
    grouped::start(plan)
}

/// What both kinds of owner share: requests of handles, the last output, and the published state.
pub(super) struct OwnerContext {
    started: Instant,
    options: JobOptions,
    stderr: StderrLog,
    drain: Option<JoinHandle<()>>,
    state: watch::Sender<JobState>,
    wish: watch::Receiver<StopWish>,
    cause: ExitCause,
    is_abandoned: bool,
}

/// The parts of a plan that the owner needs.
pub(super) struct OwnerContextParts {
    pub(super) options: JobOptions,
    pub(super) stderr: StderrLog,
    pub(super) stderr_pipe: Receiver,
    pub(super) sandbox: SandboxReport,
}

/// What handles ask of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerRequest {
    Stop,
    Abandon,
    Kill,
}

impl OwnerContext {
    /// The owner's side and the handle's side; `root` is the process below which everything belongs to the job.
    pub(super) fn open(parts: OwnerContextParts, pid: u32, root: u32) -> (OwnerContext, JobControl) {
        let OwnerContextParts { options, stderr, stderr_pipe, sandbox } = parts;
        let (state_sender, state) = watch::channel(JobState::running());
        let (wish, wish_receiver) = watch::channel(StopWish::Run);
        // Read from the start: a child that fills the pipe would block.
        let drain = tokio::spawn(stderr.clone().drain(stderr_pipe));
        let context = OwnerContext {
            started: Instant::now(),
            options,
            stderr: stderr.clone(),
            drain: Some(drain),
            state: state_sender,
            wish: wish_receiver,
            cause: ExitCause::Itself,
            is_abandoned: false,
        };
        (context, JobControl { pid, root, sandbox, stderr, state, wish })
    }

    /// The longest that anything should be left after a request to stop.
    pub(super) fn patience(&self) -> Duration {
        self.options.grace.total() + Duration::from_secs(1)
    }

    /// Waits for the next request; once every handle is gone there is one `Abandon` and then silence.
    pub(super) async fn asked(&mut self) -> OwnerRequest {
        if self.is_abandoned {
            // A closed channel would otherwise be ready for ever and starve the other arms of `select`.
            return std::future::pending().await;
        }
        let wish = self.wish.changed().await.map(|()| *self.wish.borrow_and_update());
        self.is_abandoned = wish.is_err();
        let (asked, cause) = match wish {
            Ok(StopWish::Kill) => (OwnerRequest::Kill, ExitCause::Killed),
            Ok(StopWish::Stop | StopWish::Run) => (OwnerRequest::Stop, ExitCause::Stopped),
            Err(_) => (OwnerRequest::Abandon, ExitCause::Abandoned),
        };
        // The first cause counts: a kill after a stop is still a stop.
        if self.cause == ExitCause::Itself {
            self.cause = cause;
        }
        self.advance(JobPhase::Stopping);
        asked
    }

    fn advance(&self, phase: JobPhase) {
        self.state.send_if_modified(|state| {
            // Phases only advance; a late request must not undo an exit.
            let is_later = phase > state.phase;
            state.phase = phase.max(state.phase);
            is_later
        });
    }

    /// Publishes the main child's end, with its last words.
    pub(super) async fn exited(&mut self, status: ChildExit, cpu: Duration, peak_bytes: u64) {
        let ran_for = self.started.elapsed();
        self.collect_last_words().await;
        let report = ExitReport {
            status,
            cause: self.cause,
            stderr_tail: self.stderr.tail(self.options.tail_lines),
            ran_for,
            cpu,
            peak_bytes,
            swept: 0,
            survivors: Vec::new(),
        };
        self.state.send_modify(|state| *state = JobState { phase: JobPhase::Exited, report: Some(Arc::new(report)) });
    }

    /// Publishes that nothing is left, or who is.
    pub(super) async fn gone(&mut self, swept: u32, survivors: Vec<u32>) {
        // The guardian may vanish before it reported the exit.
        if self.state.borrow().report.is_none() {
            self.exited(ChildExit::Unknown, Duration::ZERO, 0).await;
        }
        self.state.send_modify(|state| {
            state.phase = JobPhase::Gone;
            let report = state.report.as_deref().expect("set above");
            state.report = Some(Arc::new(ExitReport { swept, survivors, ..report.clone() }));
        });
    }

    /// The job is being ended for a reason that no handle gave.
    pub(super) fn ended_by(&mut self, cause: ExitCause) {
        self.cause = cause;
    }

    async fn collect_last_words(&mut self) {
        if let Some(drain) = &mut self.drain
            && tokio::time::timeout(LAST_WORDS, drain).await.is_ok()
        {
            self.drain = None;
        }
    }
}

impl Drop for OwnerContext {
    /// Stops reading stderr of a job that is over, even if a process that hangs in the kernel holds it open.
    fn drop(&mut self) {
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}
