//! Run a child process confined, watched and stoppable. Almost all unsafe code of the workspace is here: system calls
//! that have no safe form (the rest is the vector code of `tsugi-protocol`'s string scanner).
//!
//! A [`SupervisedJob`] is one supervised child.
//! Between it and us stands a small *guardian* process, which ends every descendant of the child when we ask for it,
//! when the child itself ends, and when we die in any way.
//! The guardian is our own executable, run again: call [`guardian_main`] first in `main`.
//!
//! ```no_run
//! # async fn example() -> Result<(), tsugi_process::ProcessError> {
//! use tsugi_process::{JobCommand, JobOptions, SupervisedJob};
//! let (job, pipes) = SupervisedJob::spawn(JobCommand::new("cat"), JobOptions::default()).await?;
//! drop(pipes); // Closing stdin is the polite request to end.
//! let report = job.stop().await;
//! assert!(report.status.is_success());
//! # Ok(())
//! # }
//! ```

#[cfg(not(unix))]
compile_error!("tsugi runs on Linux and macOS; on Windows, use WSL");

mod blocking;
mod capture;
mod command;
mod detached;
mod egress;
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

pub use capture::{CaptureLimits, capture_output};
pub use command::{EnvInheritance, JobCommand};
pub use detached::start_detached;
pub use egress::EgressAccess;
pub use error::ProcessError;
#[cfg(target_os = "linux")]
pub use guardian::entry::guardian_main;
pub use inherited::inherited_listener;
pub use job::{ChildExit, ExitCause, ExitReport, JobOptions, JobPhase, SupervisedJob, SupervisionTier};
pub use memory_trim::{forget_rare_code, own_memory, return_free_memory, return_large_blocks};
pub use orphans::sweep_strays;
pub use output::{SecretMask, StderrLog};
pub use pipes::ChildPipes;
pub use sandbox::{
    CacheAccess, Enforcement, Isolation, MemorySize, NetworkAccess, SandboxPolicy, SandboxReport, SandboxRules,
};
pub use stop::StopGrace;
pub use tree::ProcessInfo;

/// Other systems have no guardians: this does nothing there.
#[cfg(not(target_os = "linux"))]
pub fn guardian_main() {}

/// Calls [`guardian_main`] before `main`, for test binaries, whose `main` belongs to the test harness. A program calls
/// the function itself. Write it once, in the root module of the binary.
#[macro_export]
macro_rules! guardian_before_main {
    () => {
        #[cfg(target_os = "linux")]
        #[used]
        #[unsafe(link_section = ".init_array")]
        #[allow(unsafe_code, reason = "the C library calls what stands in this section before `main`")]
        static GUARDIAN_BEFORE_MAIN: extern "C" fn() = {
            extern "C" fn call() {
                $crate::guardian_main();
            }
            call
        };
    };
}

#[cfg(test)]
guardian_before_main!();
