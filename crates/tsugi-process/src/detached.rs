//! A program of the user's own that may outlive us: their browser.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Starts a program with these arguments and no input or output of ours, in a process group of its own: Ctrl-C at our
/// terminal does not reach it. No shell is involved, so each argument arrives as it is.
#[expect(clippy::disallowed_methods, reason = "a browser is not a server of ours, and must stay when we end")]
pub fn start_detached(program: &OsStr, arguments: &[&OsStr]) -> io::Result<()> {
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    // Collected when it ends, unless we end first.
    std::thread::spawn(move || child.wait());
    Ok(())
}
