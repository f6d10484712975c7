//! One supervised child: started, watched, stoppable, and never leaving a descendant behind.

mod control;
mod state;
mod task;

mod grouped;
#[cfg(target_os = "linux")]
mod guarded;

use serde::{Deserialize, Serialize};

pub use control::SupervisedJob;
pub use state::{ChildExit, ExitCause, ExitReport, JobPhase};

use crate::{EgressAccess, SecretMask, StopGrace};

/// How a job is run.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// How long each step of stopping may take.
    pub grace: StopGrace,
    /// Values to mask in what the child says, besides those of its own variables with a secret's name.
    pub redact: SecretMask,
    /// Lines of stderr in an [`ExitReport`].
    pub tail_lines: usize,
    /// What a child with a list of hosts may find behind their names. If left out, only public addresses.
    pub egress: Option<EgressAccess>,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions { grace: StopGrace::default(), redact: SecretMask::default(), tail_lines: 20, egress: None }
    }
}

/// What makes sure that no descendant of a job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupervisionTier {
    /// A namespace of process ids whose first process dies with the guardian: the kernel itself ends all others.
    PidNamespace,
    /// A guardian process to which all orphans are handed; it survives us by the time it needs to end them.
    Guardian,
    /// Only a process group: descendants that leave it, and all of them if we are killed, survive.
    ProcessGroup,
}

impl SupervisionTier {
    /// The tier that a job without a sandbox gets here; found out once per process.
    pub fn available() -> SupervisionTier {
        #[cfg(target_os = "linux")]
        if crate::guardian::entry::is_usable() {
            return SupervisionTier::Guardian;
        }
        #[cfg(target_os = "linux")]
        warn_without_guardian();
        SupervisionTier::ProcessGroup
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            SupervisionTier::PidNamespace => "pid-namespace",
            SupervisionTier::Guardian => "guardian",
            SupervisionTier::ProcessGroup => "process-group",
        }
    }
}

/// On Linux a guardian is always possible, so that its absence is a mistake of the program.
#[cfg(target_os = "linux")]
fn warn_without_guardian() {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| {
        tracing::warn!("jobs have no guardian: call `tsugi_process::guardian_main()` first in `main`");
    });
}

impl std::fmt::Display for SupervisionTier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
