//! Run a child process confined, watched and stoppable; the only crate with unsafe code.
//!
//! A [`SupervisedJob`] is one supervised child.
//! Between it and us stands a small *guardian* process, which ends every descendant of the child
//! when we ask for it, when the child itself ends, and when we die in whatever way.
//!
//! ```no_run
//! # async fn example() -> Result<(), tsugi_process::Error> {
//! use tsugi_process::{Command, Job, JobOptions};
//! let (job, pipes) = Job::spawn(Command::new("cat"), JobOptions::default()).await?;
//! drop(pipes); // Closing stdin is the polite request to end.
//! let report = job.stop().await;
//! assert!(report.status.is_success());
//! # Ok(())
//! # }
//! ```

mod blocking;
mod command;
mod error;
mod inherited;
mod job;
mod memory_trim;
mod orphans;
mod output;
mod pipes;
mod sandbox;
mod stop;
mod sysconf;
mod tree;

#[cfg(target_os = "linux")]
mod guardian;

pub use command::{EnvInheritance, JobCommand};
pub use error::ProcessError;
pub use inherited::inherited_listener;
pub use job::{ChildExit, ExitCause, ExitReport, JobOptions, JobPhase, SupervisedJob, SupervisionTier};
pub use memory_trim::{forget_rare_code, return_free_memory, return_large_blocks};
pub use orphans::sweep_strays;
pub use output::{SecretMask, StderrLog};
pub use pipes::ChildPipes;
pub use sandbox::{
    CacheAccess, Enforcement, Isolation, MemorySize, NetworkAccess, SandboxPolicy, SandboxReport, SandboxRules,
};
pub use stop::StopGrace;
pub use tree::ProcessInfo;
