//! One supervised child: started, watched, stoppable, and never leaving a descendant behind.

mod control;
mod state;
mod task;

mod grouped;
#[cfg(target_os = "linux")]
mod guarded;

use serde::{Deserialize, Serialize};

pub use control::Job;
pub use state::{Cause, Exit, ExitReport, Phase};

use crate::{Grace, Redact};

/// How a job is run.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// How long each step of stopping may take.
    pub grace: Grace,
    /// Values to mask in what the child says, besides those of its own variables with a secret's name.
    pub redact: Redact,
    /// Lines of stderr in an [`ExitReport`].
    pub tail_lines: usize,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions { grace: Grace::default(), redact: Redact::default(), tail_lines: 20 }
    }
}

/// What makes sure that no descendant of a job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// A namespace of process ids whose first process dies with the guardian: the kernel itself ends all others.
    PidNamespace,
    /// A guardian process to which all orphans are handed; it survives us by the time it needs to end them.
    Guardian,
    /// Only a process group: descendants that leave it, and all of them if we are killed, survive.
    ProcessGroup,
}

impl Tier {
    /// The tier that a job without a sandbox gets here; found out once per process.
    pub fn available() -> Tier {
        #[cfg(target_os = "linux")]
        if crate::guardian::hook::is_usable() {
            return Tier::Guardian;
        }
        Tier::ProcessGroup
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Tier::PidNamespace => "pid-namespace",
            Tier::Guardian => "guardian",
            Tier::ProcessGroup => "process-group",
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
