//! Forks, confines and executes the child inside the guardian, which has one thread and may use all of Rust.
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

use super::{
    message::{GuardianEvent, RunRequest},
    reap,
};
use crate::{
    egress,
    pipes::ChildEnds,
    sandbox::linux::{
        apply,
        mount::MountPlan,
        namespace::{NamespaceSet, OuterIdentity},
    },
    tree::descendants,
};

/// A child on its way to `execve`.
#[derive(Debug)]
pub(super) struct ChildStart {
    /// The guardian's own child: the program, or the first process of its namespaces.
    pub(super) pid: Pid,
    /// Ends without a word when the program runs; otherwise says what failed.
    failure: File,
    /// In namespaces, where the guardian cannot wait for the program itself: how it ended.
    exit: Option<File>,
}

/// What the child needs besides the run.
struct ChildSetup<'a> {
    run: &'a RunRequest,
    ends: ChildEnds,
    failure: File,
}

impl ChildStart {
    /// Forks; the child executes the program.
    pub(super) fn begin(run: &RunRequest, ends: ChildEnds) -> io::Result<ChildStart> {
        let (failure, failure_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let cradle = ChildSetup { run, ends, failure: failure_write.into() };
        let namespaces = run.confinement.as_ref().and_then(|confinement| confinement.namespaces);
        let (pid, exit) = match namespaces {
            None => (fork_program(cradle)?, None),
            Some(namespaces) => fork_world(cradle, namespaces).map(|(pid, exit)| (pid, Some(exit)))?,
        };
        Ok(ChildStart { pid, failure: failure.into(), exit })
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.failure.as_fd()
    }

    /// Reads how it went, and gives the file that will say how the program ended; waits if called too early.
    pub(super) fn outcome(mut self) -> (GuardianEvent, Option<File>) {
        let mut text = Vec::new();
        // What cannot be read was not written.
        let _ = self.failure.read_to_end(&mut text);
        let event = serde_json::from_slice(&text).unwrap_or_else(|_| GuardianEvent::Started { pid: self.program_id() });
        (event, self.exit)
    }

    /// In namespaces, the program is the only child of the first process.
    fn program_id(&self) -> u32 {
        let own = self.pid.as_raw_nonzero().get() as u32;
        let inner = self.exit.as_ref().and_then(|_| descendants(own).first().copied());
        inner.unwrap_or(own)
    }
}

fn fork_program(cradle: ChildSetup<'_>) -> io::Result<Pid> {
    let parent = getpid();
    // SAFETY: this process has one thread, so no lock can be held by another one.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => live(cradle, parent),
        pid => {
            let pid = Pid::from_raw(pid).expect("fork gives a positive id");
            // The child does the same; the first one wins, and a signal to the group finds it in any case.
            let _ = setpgid(Some(pid), Some(pid));
            Ok(pid)
        }
    }
}

/// Forks the first process of new namespaces, which starts the program and waits for it.
fn fork_world(cradle: ChildSetup<'_>, namespaces: NamespaceSet) -> io::Result<(Pid, File)> {
    let (exit, exit_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let identity = OuterIdentity::ours();
    match namespaces.fork()? {
        0 => lead_world(cradle, namespaces, identity, exit_write.into()),
        pid => Ok((Pid::from_raw(pid).expect("clone gives a positive id"), exit.into())),
    }
}

/// The life of the first process: when it ends, the kernel ends everyone in its namespace. Does not return.
///
/// It is not the program itself, because the kernel ignores most signals to a first process,
/// and few programs bury the orphans that a first process is given.
fn lead_world(mut cradle: ChildSetup<'_>, namespaces: NamespaceSet, identity: OuterIdentity, mut exit: File) -> ! {
    let settled = set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    if let Err(error) = settled.and_then(|()| namespaces.settle(identity)) {
        report(&mut cradle.failure, "set up the sandbox's namespaces", &error);
        end(1);
    }
    let mounts = cradle.run.confinement.as_ref().and_then(|confinement| confinement.mounts.as_ref());
    if let Err(error) = mounts.map_or(Ok(()), MountPlan::arrange) {
        report(&mut cradle.failure, "set up the sandbox's files", &error);
        end(1);
    }
    // Before the program starts, so that the first thing it does may be a request.
    let egress = cradle.ends.egress.take();
    if let Err(error) = egress.map_or(Ok(()), egress::open_way_out) {
        report(&mut cradle.failure, "open the sandbox's way out", &error);
        end(1);
    }
    let ChildSetup { run, ends, failure } = cradle;
    // The end of both pipes must be seen when the program has them no more, so ours are closed by the move.
    match fork_program(ChildSetup { run, ends, failure }) {
        Ok(program) => {
            let ended = serde_json::to_vec(&reap::wait_for(program)).expect("events are plain data");
            let _ = exit.write_all(&ended);
            end(0)
        }
        Err(_) => end(1),
    }
}

/// The life of the child up to the program; does not return.
fn live(mut cradle: ChildSetup<'_>, parent: Pid) -> ! {
    let (step, error) = match prepare(&cradle, parent) {
        Ok(()) => ("execute", execute(cradle.run)),
        Err(failed) => failed,
    };
    report(&mut cradle.failure, step, &error);
    end(127)
}

fn report(failure: &mut File, step: &str, error: &io::Error) {
    let event = GuardianEvent::Failed { step: step.to_owned(), errno: error.raw_os_error().unwrap_or(libc::EINVAL) };
    let text = serde_json::to_vec(&event).expect("events are plain data");
    // The guardian may be gone.
    let _ = failure.write_all(&text);
}

fn end(code: i32) -> ! {
    // SAFETY: ends this process without running anything that belongs to the guardian.
    unsafe { libc::_exit(code) }
}

type SetupFailure = (&'static str, io::Error);

fn prepare(cradle: &ChildSetup<'_>, parent: Pid) -> Result<(), SetupFailure> {
    let at = |step| move |error: rustix::io::Errno| (step, error.into());
    setpgid(None, None).map_err(at("make a process group"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("set the parent-death signal"))?;
    if getppid() != Some(parent) {
        return Err(("stay with the guardian", io::ErrorKind::BrokenPipe.into()));
    }
    dup2_stdin(&cradle.ends.stdin).map_err(at("set stdin"))?;
    dup2_stdout(&cradle.ends.stdout).map_err(at("set stdout"))?;
    dup2_stderr(&cradle.ends.stderr).map_err(at("set stderr"))?;
    reset_signals();
    chdir(&*cradle.run.cwd).map_err(at("enter the working directory"))?;
    cradle.run.confinement.as_ref().map_or(Ok(()), apply::confine)
}

/// Handlers do not survive `execve`, but ignored and blocked signals would, and a child that cannot receive SIGTERM
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
fn execute(run: &RunRequest) -> io::Error {
    let arguments = std::iter::once(&run.program).chain(&run.args);
    let variables = run.env.iter().map(|(name, value)| variable(name, value));
    let (Ok(program), Ok(arguments), Ok(variables)) = (
        c_string(&run.program),
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
