//! The child's stdin and stdout as non-blocking pipe ends.

use std::{io, os::fd::OwnedFd};

use tokio::net::unix::pipe::{Receiver, Sender};

/// Our ends of the child's stdin and stdout.
///
/// They are plain pipes, so `try_write` and `try_read` work and a write of up to 4 KiB is never split.
/// Dropping `stdin` is the child's end of input; do so before [`SupervisedJob::stop`](crate::SupervisedJob::stop),
/// or the polite part of stopping is lost on the child.
#[derive(Debug)]
pub struct ChildPipes {
    /// Writes to the child.
    pub stdin: Sender,
    /// Reads from the child.
    pub stdout: Receiver,
}

/// The child's ends: its stdin, stdout and stderr, and what is sent along with them.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Where the listening socket of an egress proxy is to be sent, for a child with a list of hosts.
    pub(crate) egress: Option<OwnedFd>,
}

/// Makes all three pipes; the third part is our end of stderr.
///
/// All ends are close-on-exec: another child started at the same moment never holds one open.
pub(crate) fn open() -> io::Result<(ChildPipes, Receiver, ChildEnds)> {
    let (stdin_read, stdin_write) = open_one()?;
    let (stdout_read, stdout_write) = open_one()?;
    let (stderr_read, stderr_write) = open_one()?;
    widen(&stdin_write);
    widen(&stdout_read);
    let pipes =
        ChildPipes { stdin: Sender::from_owned_fd(stdin_write)?, stdout: Receiver::from_owned_fd(stdout_read)? };
    let ends = ChildEnds { stdin: stdin_read, stdout: stdout_write, stderr: stderr_write, egress: None };
    Ok((pipes, Receiver::from_owned_fd(stderr_read)?, ends))
}

#[cfg(not(target_vendor = "apple"))]
fn open_one() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// The size of a pipe to or from a child. With the kernel's 64 KiB, the writer of a large answer sleeps several times
/// before it is done; a quarter of a mebibyte was measured to halve the cost of results of 100 KB.
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 256 << 10;

/// Makes a pipe larger. It works as it is, too, where the user has no more pages for pipes.
fn widen(end: &OwnedFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(end, PIPE_SIZE);
    #[cfg(not(target_os = "linux"))]
    let _ = end;
}

/// Apple's systems cannot make a pipe close-on-exec in one step.
#[cfg(target_vendor = "apple")]
fn open_one() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::CLOEXEC)?;
    Ok((read, write))
}

/// Ends of a child without input, whose output is discarded.
#[cfg(target_os = "linux")]
pub(crate) fn closed_ends() -> io::Result<ChildEnds> {
    let nothing = || std::fs::File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    Ok(ChildEnds { stdin: nothing()?, stdout: nothing()?, stderr: nothing()?, egress: None })
}
