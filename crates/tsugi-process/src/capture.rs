//! Runs a program of the user's own for its output, within limits.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// What running a program for its output may cost.
#[derive(Debug, Clone, Copy)]
pub struct CaptureLimits {
    pub time: Duration,
    pub bytes: usize,
}

/// Runs a program without a shell and without input, and gives what it wrote to its standard output. It blocks. A program
/// that fails, takes too long or writes too much is an error, and what it started is ended with it.
#[expect(clippy::disallowed_methods, reason = "it is waited for here, and ended with its group when it takes too long")]
pub fn capture_output<S: AsRef<OsStr>>(program: &OsStr, arguments: &[S], limits: CaptureLimits) -> io::Result<Vec<u8>> {
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let read = read_within(&mut child, limits);
    if read.is_err() {
        end_group(&child);
    }
    let status = child.wait()?;
    match read? {
        _ if !status.success() => Err(io::Error::other(format!("it failed ({status})"))),
        output => Ok(output),
    }
}

fn read_within(child: &mut Child, limits: CaptureLimits) -> io::Result<Vec<u8>> {
    let Some(stdout) = child.stdout.take() else { return Ok(Vec::new()) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.take(limits.bytes as u64 + 1).read_to_end(&mut output).map(|_| output);
        // No one waits any more if it took too long.
        let _ = sender.send(read);
    });
    match receiver.recv_timeout(limits.time) {
        Ok(Ok(output)) if output.len() > limits.bytes => Err(io::Error::other("it writes too much")),
        Ok(read) => read,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long")),
    }
}

fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> io::Result<Vec<u8>> {
        let limits = CaptureLimits { time: Duration::from_secs(1), bytes: 16 };
        capture_output(OsStr::new("sh"), &["-c", script], limits)
    }

    #[test]
    fn output_is_taken_and_failures_are_errors() {
        assert_eq!(run("printf secret").unwrap(), b"secret");
        assert!(run("printf secret; exit 3").is_err());
        assert!(run("printf 12345678901234567").is_err());
        assert_eq!(run("sleep 600 & sleep 600").unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(
            capture_output::<&str>(
                OsStr::new("no-such-program"),
                &[],
                CaptureLimits { time: Duration::ZERO, bytes: 1 }
            )
            .is_err()
        );
    }
}
