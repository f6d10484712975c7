//! The state of a job at any moment, and the report of its end.

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;

/// Where in its life a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobPhase {
    Running,
    /// The child was asked to end.
    Stopping,
    /// The child has ended; processes it left behind are being ended.
    Exited,
    Gone,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChildExit {
    /// By itself, with this code.
    Code(i32),
    Signal(i32),
    /// Unknown, because the guardian was killed.
    Unknown,
}

impl ChildExit {
    /// Whether it ended by itself with code 0.
    pub fn is_success(self) -> bool {
        self == ChildExit::Code(0)
    }
}

impl fmt::Display for ChildExit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildExit::Code(code) => write!(formatter, "exit code {code}"),
            ChildExit::Signal(signal) => write!(formatter, "{} (signal {signal})", signal_name(*signal)),
            ChildExit::Unknown => formatter.write_str("unknown end"),
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGSYS => "SIGSYS",
        _ => "signal",
    }
}

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCause {
    /// The child ended without being asked.
    Itself,
    /// Someone called [`SupervisedJob::stop`](crate::SupervisedJob::stop).
    Stopped,
    /// Someone called [`SupervisedJob::kill`](crate::SupervisedJob::kill).
    Killed,
    /// The last handle was dropped.
    Abandoned,
    /// It held more memory than its sandbox allows.
    MemoryLimit,
    /// It had more processes than its sandbox allows.
    ProcessLimit,
    /// The guardian was killed, and the rest of the job with it.
    GuardianLost,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitReport {
    /// The main child's own end.
    pub status: ChildExit,
    pub cause: ExitCause,
    /// The last lines of stderr, masked and harmless to show.
    pub stderr_tail: Vec<String>,
    /// From start to end of the main child.
    pub ran_for: Duration,
    /// Processor time of the main child and those of its children that it waited for.
    pub cpu: Duration,
    /// The most memory it held, in bytes.
    pub peak_bytes: u64,
    /// Processes it left behind that had to be ended.
    pub swept: u32,
    /// Processes that even SIGKILL has not ended in time; they hang inside the kernel.
    pub survivors: Vec<u32>,
}

impl fmt::Display for ExitReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} after {:.1} s", self.status, self.ran_for.as_secs_f64())
    }
}

#[derive(Debug, Clone)]
pub(super) struct JobState {
    pub(super) phase: JobPhase,
    pub(super) report: Option<Arc<ExitReport>>,
}

impl JobState {
    pub(super) fn running() -> Self {
        JobState { phase: JobPhase::Running, report: None }
    }
}

/// What handles wish; a later wish is never weaker than an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopWish {
    Run,
    Stop,
    Kill,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_reads_as_a_person_would_say_it() {
        assert_eq!(ChildExit::Code(3).to_string(), "exit code 3");
        assert_eq!(ChildExit::Signal(9).to_string(), "SIGKILL (signal 9)");
    }
}
