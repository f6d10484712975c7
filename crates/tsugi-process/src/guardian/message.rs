//! The messages between supervisor and guardian.

use std::{ffi::OsString, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    command::ResolvedCommand,
    egress,
    sandbox::linux::{Confinement, kernel_support::KernelSupport, limit::ExceededLimit},
    stop::StopGrace,
};

/// Asks for the polite ladder.
pub(crate) const STOP: u8 = b'S';
/// The last handle of the job was dropped.
pub(crate) const ABANDON: u8 = b'A';
/// Asks for SIGKILL at once.
pub(crate) const KILL: u8 = b'K';

/// The one request a guardian receives, together with the files of the child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GuardianRequest {
    /// Try what the kernel allows, tell it and end.
    Probe,
    /// Run a program; the files are its stdin, stdout and stderr.
    Run(Box<RunRequest>),
}

/// What to run.
///
/// Paths travel as `OsString`, which keeps names that are not UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: OsString,
    pub(crate) grace: StopGrace,
    pub(crate) confinement: Option<Confinement>,
}

impl RunRequest {
    pub(crate) fn new(resolved: &ResolvedCommand, grace: StopGrace, confinement: Option<Confinement>) -> Self {
        let env = confinement.as_ref().map(|confinement| confinement.scratch.complete(&resolved.env));
        let env = env.unwrap_or_else(|| resolved.env.clone());
        let list = confinement.as_ref().and_then(Confinement::egress);
        RunRequest {
            program: resolved.program.clone().into(),
            args: resolved.args.clone(),
            env: list.map_or_else(|| env.clone(), |list| egress::variables(&env, list)),
            cwd: resolved.cwd.clone().into(),
            grace,
            confinement,
        }
    }
}

/// What a guardian tells, one JSON text per line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GuardianEvent {
    /// What the kernel allows.
    Probed(KernelSupport),
    Started {
        pid: u32,
    },
    /// The program could not be run; the guardian ends.
    Failed {
        step: String,
        errno: i32,
    },
    /// The main child has ended.
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
        cpu: Duration,
        peak_bytes: u64,
    },
    /// The job has passed a limit and is being ended.
    Passed(ExceededLimit),
    /// Nothing is left; the guardian ends.
    Gone {
        swept: u32,
    },
}

impl GuardianEvent {
    /// The same, if it is an end, with a peak of memory of at least this; the kernel tells only that of one process.
    pub(crate) fn with_peak(mut self, seen: u64) -> GuardianEvent {
        if let GuardianEvent::Exited { peak_bytes, .. } = &mut self {
            *peak_bytes = seen.max(*peak_bytes);
        }
        self
    }
}
