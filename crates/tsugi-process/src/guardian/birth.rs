//! Forking and executing the child inside the guardian, which has one thread and may therefore use all of Rust.
#![allow(unsafe_code, reason = "fork, execve and signal masks have no safe form")]

use std::{
    ffi::{CString, OsStr, OsString, c_char},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    ptr,
};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, chdir, getpid, getppid, set_parent_process_death_signal, setpgid},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

use super::message::{Event, Request};
use crate::pipes::ChildEnds;

/// A child on its way to `execve`.
#[derive(Debug)]
pub(super) struct Birth {
    pub(super) pid: Pid,
    /// Ends without a word when the program runs; otherwise says what failed.
    failure: File,
}

impl Birth {
    /// Forks; the child executes the program.
    pub(super) fn begin(request: &Request, ends: ChildEnds) -> io::Result<Birth> {
        let (failure_read, failure_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let guardian = getpid();
        // SAFETY: this process has one thread, so no lock can be held by another one.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => live(request, &ends, guardian, failure_write.into()),
            pid => {
                let pid = Pid::from_raw(pid).expect("fork gives a positive id");
                // The child does the same; whoever is first wins, and a signal to the group finds it in any case.
                let _ = setpgid(Some(pid), Some(pid));
                Ok(Birth { pid, failure: failure_read.into() })
            }
        }
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.failure.as_fd()
    }

    /// Reads how it went; call it when the pipe is readable, it waits otherwise.
    pub(super) fn outcome(mut self) -> Event {
        let mut text = Vec::new();
        // What cannot be read was not written.
        let _ = self.failure.read_to_end(&mut text);
        serde_json::from_slice(&text).unwrap_or(Event::Started { pid: self.pid.as_raw_nonzero().get() as u32 })
    }
}

/// The life of the child up to the program; does not return.
fn live(request: &Request, ends: &ChildEnds, guardian: Pid, mut failure: File) -> ! {
    let (step, error) = match prepare(request, ends, guardian) {
        Ok(()) => ("execute", execute(request)),
        Err(failed) => failed,
    };
    let event = Event::Failed { step: step.to_owned(), errno: error.raw_os_error().unwrap_or(libc::EINVAL) };
    let text = serde_json::to_vec(&event).expect("events are plain data");
    let _ = failure.write_all(&text);
    // SAFETY: ends this process without running anything that belongs to the guardian.
    unsafe { libc::_exit(127) }
}

type Failed = (&'static str, io::Error);

fn prepare(request: &Request, ends: &ChildEnds, guardian: Pid) -> Result<(), Failed> {
    let at = |step| move |error: rustix::io::Errno| (step, error.into());
    setpgid(None, None).map_err(at("make a process group"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("set the parent-death signal"))?;
    if getppid() != Some(guardian) {
        return Err(("stay with the guardian", io::ErrorKind::BrokenPipe.into()));
    }
    dup2_stdin(&ends.stdin).map_err(at("set stdin"))?;
    dup2_stdout(&ends.stdout).map_err(at("set stdout"))?;
    dup2_stderr(&ends.stderr).map_err(at("set stderr"))?;
    reset_signals();
    chdir(&*request.cwd).map_err(at("enter the working directory"))
}

/// Handlers do not survive `execve`, but ignored and blocked signals would, and a child that cannot hear SIGTERM
/// because of us could not end politely.
fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: setting the default action is always allowed; it fails for SIGKILL and SIGSTOP, harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: the set is a plain value filled in by `sigemptyset`.
    unsafe {
        let mut nothing = std::mem::zeroed();
        libc::sigemptyset(&raw mut nothing);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const nothing, ptr::null_mut());
    }
}

/// Becomes the program; only a failure returns.
fn execute(request: &Request) -> io::Error {
    let arguments = std::iter::once(&request.program).chain(&request.args);
    let variables = request.env.iter().map(|(name, value)| variable(name, value));
    let (Ok(program), Ok(arguments), Ok(variables)) = (
        c_string(&request.program),
        arguments.map(|text| c_string(text)).collect::<Result<Vec<_>, _>>(),
        variables.map(|text| c_string(&text)).collect::<Result<Vec<_>, _>>(),
    ) else {
        return io::ErrorKind::InvalidInput.into();
    };
    close_others();
    // SAFETY: both lists end with a null pointer and point into vectors that live until the process is replaced.
    unsafe { libc::execve(program.as_ptr(), pointers(&arguments).as_ptr(), pointers(&variables).as_ptr()) };
    io::Error::last_os_error()
}

fn variable(name: &OsStr, value: &OsStr) -> OsString {
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    text
}

fn c_string(text: &OsStr) -> Result<CString, std::ffi::NulError> {
    CString::new(text.as_bytes())
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Everything but stdin, stdout and stderr is closed by `execve`; our own files are so already, this is the belt.
fn close_others() {
    // SAFETY: marks files of this process only, and closes none before `execve`.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
