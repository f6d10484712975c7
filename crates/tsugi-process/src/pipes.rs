//! The child's stdin and stdout as ends that can be tried without waiting.

use std::{io, os::fd::OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe::{Receiver, Sender};

/// Our ends of the child's stdin and stdout.
///
/// They are plain pipes, so `try_write` and `try_read` work and a write of up to 4 KiB is never split.
/// Dropping `stdin` is the child's end of input; do so before [`Job::stop`](crate::Job::stop),
/// or the polite part of stopping is lost on the child.
#[derive(Debug)]
pub struct Pipes {
    /// Writes to the child.
    pub stdin: Sender,
    /// Reads from the child.
    pub stdout: Receiver,
}

/// The child's ends: its stdin, stdout and stderr.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Makes all three pipes; the third part is our end of stderr.
///
/// All ends are close-on-exec: another child started at the same moment never holds one open.
/// The pipes keep the kernel's 64 KiB, since larger ones were measured slower with many calls in flight.
pub(crate) fn open() -> io::Result<(Pipes, Receiver, ChildEnds)> {
    let (stdin_read, stdin_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout_read, stdout_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr_read, stderr_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let pipes = Pipes { stdin: Sender::from_owned_fd(stdin_write)?, stdout: Receiver::from_owned_fd(stdout_read)? };
    let ends = ChildEnds { stdin: stdin_read, stdout: stdout_write, stderr: stderr_write };
    Ok((pipes, Receiver::from_owned_fd(stderr_read)?, ends))
}

/// Ends of a child that has nothing to read and to whom nobody listens.
#[cfg(target_os = "linux")]
pub(crate) fn closed_ends() -> io::Result<ChildEnds> {
    let nothing = || std::fs::File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    Ok(ChildEnds { stdin: nothing()?, stdout: nothing()?, stderr: nothing()? })
}
