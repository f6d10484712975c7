//! The handle that watches and stops a job.

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    SupervisionTier,
    state::{ExitReport, JobPhase, JobState, StopWish},
    task,
};
use crate::{ChildPipes, JobCommand, JobOptions, ProcessError, ProcessInfo, SandboxReport, StderrLog, tree};

/// A running child; cheap to clone.
///
/// When the last handle is dropped the child and all its descendants are ended without anyone waiting for it.
#[derive(Debug, Clone)]
pub struct SupervisedJob {
    inner: Arc<JobControl>,
}

#[derive(Debug)]
pub(super) struct JobControl {
    pub(super) pid: u32,
    /// Whose descendants belong to the job.
    pub(super) root: u32,
    pub(super) sandbox: SandboxReport,
    pub(super) stderr: StderrLog,
    pub(super) state: watch::Receiver<JobState>,
    pub(super) wish: watch::Sender<StopWish>,
}

impl SupervisedJob {
    /// Starts a child and gives its handle and the pipes to it.
    ///
    /// A missing program or working directory is found before anything is started.
    /// The result comes when the program runs, or could not be run.
    /// Dropping the future ends whatever was started.
    /// Must be called within a tokio runtime with I/O and time.
    pub async fn spawn(command: JobCommand, options: JobOptions) -> Result<(SupervisedJob, ChildPipes), ProcessError> {
        let (inner, pipes) = task::spawn(command, options).await?;
        Ok((SupervisedJob { inner: Arc::new(inner) }, pipes))
    }

    /// The main child's process id.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    /// What makes sure that no descendant survives.
    pub fn tier(&self) -> SupervisionTier {
        self.inner.sandbox.tier
    }

    /// What is truly enforced of the sandbox policy.
    pub fn sandbox_report(&self) -> &SandboxReport {
        &self.inner.sandbox
    }

    /// What the child says on stderr.
    pub fn stderr(&self) -> StderrLog {
        self.inner.stderr.clone()
    }

    /// Where in its life the job is.
    pub fn phase(&self) -> JobPhase {
        self.inner.state.borrow().phase
    }

    /// The living processes of the job: the child and its descendants.
    pub fn tree(&self) -> Vec<ProcessInfo> {
        if self.phase() == JobPhase::Gone { Vec::new() } else { tree::inspect_below(self.inner.root) }
    }

    /// Stops the job: end of input, SIGTERM, SIGKILL, each with its time, until no process is left.
    ///
    /// Drop [`ChildPipes::stdin`] before: it belongs to you, so only you can end the child's input.
    /// Safe to call many times and from many places; dropping the future does not undo the stop.
    pub async fn stop(&self) -> Arc<ExitReport> {
        self.wish(StopWish::Stop);
        self.gone().await
    }

    /// Ends all processes of the job at once, without waiting for it.
    pub fn kill(&self) {
        self.wish(StopWish::Kill);
    }

    /// Waits until someone asks the job to stop, or it ends: the time to drop its stdin.
    pub async fn stopping(&self) {
        self.wait_for(JobPhase::Stopping).await;
    }

    /// Waits for the main child's end; processes it left behind may take a moment longer.
    pub async fn exited(&self) -> Arc<ExitReport> {
        self.report_at(JobPhase::Exited).await
    }

    /// Waits until no process of the job is left.
    pub async fn gone(&self) -> Arc<ExitReport> {
        self.report_at(JobPhase::Gone).await
    }

    /// How the main child ended, if it has.
    pub fn try_exit_report(&self) -> Option<Arc<ExitReport>> {
        self.inner.state.borrow().report.clone()
    }

    fn wish(&self, wish: StopWish) {
        self.inner.wish.send_if_modified(|current| {
            let is_stronger = wish > *current;
            *current = wish.max(*current);
            is_stronger
        });
    }

    async fn report_at(&self, phase: JobPhase) -> Arc<ExitReport> {
        self.wait_for(phase).await.report.expect("a job that has ended has a report")
    }

    async fn wait_for(&self, phase: JobPhase) -> JobState {
        let mut state = self.inner.state.clone();
        let reached = state.wait_for(|state| state.phase >= phase).await.map(|state| state.clone());
        match reached {
            Ok(state) => state,
            // The task is gone without a word: the runtime is shutting down, and this future with it.
            Err(_) => std::future::pending().await,
        }
    }
}
