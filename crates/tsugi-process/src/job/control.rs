//! The handle by which others watch and stop a job.

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    Tier,
    state::{ExitReport, Phase, State, Wish},
    task,
};
use crate::{Command, Error, JobOptions, Pipes, ProcessInfo, Report, Stderr, tree};

/// A running child; cheap to clone.
///
/// When the last handle is dropped the child and all its descendants are ended without anyone waiting for it.
#[derive(Debug, Clone)]
pub struct Job {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) pid: u32,
    /// Whose descendants belong to the job.
    pub(super) root: u32,
    pub(super) sandbox: Report,
    pub(super) stderr: Stderr,
    pub(super) state: watch::Receiver<State>,
    pub(super) wish: watch::Sender<Wish>,
}

impl Job {
    /// Starts a child and gives its handle and the pipes to it.
    ///
    /// A missing program or working directory is found before anything is started.
    /// The result comes when the program runs, or could not be run.
    /// Dropping the future ends whatever was started.
    /// Must be called within a tokio runtime with I/O and time.
    pub async fn spawn(command: Command, options: JobOptions) -> Result<(Job, Pipes), Error> {
        let (inner, pipes) = task::spawn(command, options).await?;
        Ok((Job { inner: Arc::new(inner) }, pipes))
    }

    /// The main child's process id.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    /// What makes sure that no descendant survives.
    pub fn tier(&self) -> Tier {
        self.inner.sandbox.tier
    }

    /// What is truly enforced of the sandbox policy.
    pub fn sandbox_report(&self) -> &Report {
        &self.inner.sandbox
    }

    /// What the child says on stderr.
    pub fn stderr(&self) -> Stderr {
        self.inner.stderr.clone()
    }

    /// Where in its life the job is.
    pub fn phase(&self) -> Phase {
        self.inner.state.borrow().phase
    }

    /// The living processes of the job: the child and its descendants.
    pub fn tree(&self) -> Vec<ProcessInfo> {
        if self.phase() == Phase::Gone { Vec::new() } else { tree::inspect_below(self.inner.root) }
    }

    /// Stops the job: end of input, SIGTERM, SIGKILL, each with its time, until no process is left.
    ///
    /// Drop [`Pipes::stdin`] before: it belongs to you, so only you can end the child's input.
    /// Safe to call many times and from many places; dropping the future does not undo the stop.
    pub async fn stop(&self) -> Arc<ExitReport> {
        self.wish(Wish::Stop);
        self.gone().await
    }

    /// Ends all processes of the job at once, without waiting for it.
    pub fn kill(&self) {
        self.wish(Wish::Kill);
    }

    /// Waits until someone asks the job to stop, or it ends: the time to drop its stdin.
    pub async fn stopping(&self) {
        self.wait_for(Phase::Stopping).await;
    }

    /// Waits for the main child's end; processes it left behind may take a moment longer.
    pub async fn exited(&self) -> Arc<ExitReport> {
        self.report_at(Phase::Exited).await
    }

    /// Waits until no process of the job is left.
    pub async fn gone(&self) -> Arc<ExitReport> {
        self.report_at(Phase::Gone).await
    }

    /// How the main child ended, if it has.
    pub fn try_exit_report(&self) -> Option<Arc<ExitReport>> {
        self.inner.state.borrow().report.clone()
    }

    fn wish(&self, wish: Wish) {
        self.inner.wish.send_if_modified(|current| {
            let is_stronger = wish > *current;
            *current = wish.max(*current);
            is_stronger
        });
    }

    async fn report_at(&self, phase: Phase) -> Arc<ExitReport> {
        self.wait_for(phase).await.report.expect("a job that has ended has a report")
    }

    async fn wait_for(&self, phase: Phase) -> State {
        let mut state = self.inner.state.clone();
        let reached = state.wait_for(|state| state.phase >= phase).await.map(|state| state.clone());
        match reached {
            Ok(state) => state,
            // The task is gone without a word: the runtime is shutting down, and this future with it.
            Err(_) => std::future::pending().await,
        }
    }
}
