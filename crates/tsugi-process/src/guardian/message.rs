//! What supervisor and guardian say to each other over their socket.

use std::{ffi::OsString, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{command::Resolved, stop::Grace};

/// Asks for the polite ladder.
pub(crate) const STOP: u8 = b'S';
/// Nobody wants the job any more.
pub(crate) const ABANDON: u8 = b'A';
/// Asks for SIGKILL at once.
pub(crate) const KILL: u8 = b'K';

/// The one request a guardian receives, together with the child's stdin, stdout and stderr.
///
/// Paths travel as `OsString`, which keeps names that are not UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: OsString,
    pub(crate) grace: Grace,
}

impl Request {
    pub(crate) fn new(resolved: &Resolved, grace: Grace) -> Self {
        Request {
            program: resolved.program.clone().into(),
            args: resolved.args.clone(),
            env: resolved.env.clone(),
            cwd: resolved.cwd.clone().into(),
            grace,
        }
    }
}

/// What a guardian tells, one JSON text per line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The program runs.
    Started { pid: u32 },
    /// The program could not be run; the guardian ends.
    Failed { step: String, errno: i32 },
    /// The main child has ended.
    Exited { code: Option<i32>, signal: Option<i32>, cpu: Duration, peak_bytes: u64 },
    /// Nothing is left; the guardian ends.
    Gone { swept: u32 },
}
