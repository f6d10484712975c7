//! Locks among processes: `flock` on a file, released when it is closed, and so when its process dies.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tsugi_oauth::store::StoreLock;

use crate::seal::VaultProblem;

/// A lock that this process holds.
pub(crate) struct FileLock {
    _file: File,
}

impl StoreLock for FileLock {}

impl FileLock {
    /// Waits for the lock. It blocks the thread.
    pub(crate) fn wait(path: &Path) -> Result<Self, VaultProblem> {
        let failed = |error: std::io::Error| VaultProblem::File(error.kind());
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                // A signal is not a reason to go on without the lock.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}
