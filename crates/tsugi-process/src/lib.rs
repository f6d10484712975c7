//! Run a child process confined, watched and stoppable; the only crate with unsafe code.
//!
//! A [`Job`] is one supervised child.
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

mod aside;
mod command;
mod error;
mod footprint;
mod inherited;
mod job;
mod output;
mod pipes;
mod sandbox;
mod stop;
mod stray;
mod tree;
mod units;

#[cfg(target_os = "linux")]
mod guardian;

pub use command::{Command, Inherit};
pub use error::Error;
pub use footprint::{forget_rare_code, return_large_blocks};
pub use inherited::inherited_listener;
pub use job::{Cause, Exit, ExitReport, Job, JobOptions, Phase, Tier};
pub use output::{Redact, Stderr};
pub use pipes::Pipes;
pub use sandbox::{Caches, Enforcement, Isolation, Memory, Net, Policy, Report, Rules};
pub use stop::Grace;
pub use stray::sweep_strays;
pub use tree::ProcessInfo;
