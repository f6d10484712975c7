//! The guardian from start to end: receive one request, start the child, obey, and leave nothing behind.
#![allow(unsafe_code, reason = "signal masks, signalfd and the borrowed stdin have no safe form")]

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, getpid, set_child_subreaper, setsid},
};

use super::{
    child_start::ChildStart,
    control::{ControlInput, GuardianControl},
    entry,
    message::{self, GuardianEvent, GuardianRequest, RunRequest},
    reap,
};
use crate::{
    pipes::ChildEnds,
    sandbox::linux::{kernel_support, limit::LimitWatch, scratch::ScratchDirectories},
    stop::{StopEvent, StopLadder, StopStage},
};

/// Between two rounds of SIGKILL.
const KILL_ROUND: Duration = Duration::from_millis(10);

/// Entered from `guardian_main`; ends the process.
pub(super) fn main() -> ! {
    let code = i32::from(prepare().and_then(serve).is_err());
    // SAFETY: ends this process; nothing of the program around us has been started.
    unsafe { libc::_exit(code) }
}

fn serve(signals: OwnedFd) -> io::Result<()> {
    // SAFETY: stdin is open for the whole life of the guardian and never closed.
    let control = GuardianControl::new(unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) });
    match control.receive_request()? {
        (GuardianRequest::Probe, _) => control.send_event(&GuardianEvent::Probed(kernel_support::try_all())),
        (GuardianRequest::Run(run), ends) => GuardianProcess::start(control, signals, &run, ends)?.run(),
    }
    Ok(())
}

/// Lets go of everything inherited: files, session, signals, working directory.
fn prepare() -> io::Result<OwnedFd> {
    let signals = block_signals()?;
    // SAFETY: none of these files belongs to any value of this process. Ours, made just now, is kept.
    unsafe {
        let ours = std::os::fd::AsRawFd::as_raw_fd(&signals) as libc::c_uint;
        libc::syscall(libc::SYS_close_range, 3, ours - 1, 0);
        libc::syscall(libc::SYS_close_range, ours + 1, libc::c_uint::MAX, 0);
    }
    // Refused only if we lead a group already, which is as good against the terminal.
    let _ = setsid();
    let _ = rustix::thread::set_name(entry::NAME);
    let _ = std::env::set_current_dir("/");
    set_child_subreaper(Some(getpid()))?;
    Ok(signals)
}

/// Blocks all signals and gives a file that is readable when a child has ended.
fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: the sets are plain values filled in by the calls; the new file has no other owner.
    unsafe {
        let (mut all, mut child) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
        // If our parent ignored SIGCHLD, children would vanish without a status.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        match libc::signalfd(-1, &raw const child, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(OwnedFd::from_raw_fd(file)),
        }
    }
}

struct GuardianProcess {
    control: GuardianControl,
    /// Readable when a child has ended.
    signals: OwnedFd,
    /// Until the program runs.
    birth: Option<ChildStart>,
    main: Pid,
    /// Whether it has namespaces of its own, of which `main` is the first process.
    has_world: bool,
    /// Says how the program ended, if it has namespaces of its own.
    exit: Option<File>,
    is_supervised: bool,
    ladder: StopLadder,
    watch: Option<LimitWatch>,
    swept: u32,
    /// Removed after the last process that could use it.
    scratch: ScratchDirectories,
}

impl GuardianProcess {
    fn start(
        control: GuardianControl,
        signals: OwnedFd,
        run: &RunRequest,
        ends: ChildEnds,
    ) -> io::Result<GuardianProcess> {
        let scratch = run.confinement.as_ref().map(|confinement| confinement.scratch.clone()).unwrap_or_default();
        let made = scratch.make().map_err(|error| ("make its temporary directory", error));
        let birth = made.and_then(|()| ChildStart::begin(run, ends).map_err(|error| ("fork", error)));
        let birth = birth.map_err(|(step, error)| {
            scratch.remove();
            control
                .send_event(&GuardianEvent::Failed { step: step.to_owned(), errno: error.raw_os_error().unwrap_or(0) });
            error
        })?;
        Ok(GuardianProcess {
            control,
            signals,
            main: birth.pid,
            has_world: run.confinement.as_ref().is_some_and(|confinement| confinement.namespaces.is_some()),
            birth: Some(birth),
            exit: None,
            is_supervised: true,
            ladder: StopLadder::new(run.grace),
            watch: run.confinement.as_ref().and_then(LimitWatch::new),
            swept: 0,
            scratch,
        })
    }

    fn run(&mut self) {
        loop {
            let (is_born, is_heard) = self.wait();
            if is_born {
                self.end_birth();
            }
            if is_heard {
                self.obey();
            }
            let stage = self.ladder.tick(Instant::now());
            self.enter(stage);
            self.keep_watch();
            if self.bury() {
                self.scratch.remove();
                self.control.send_event(&GuardianEvent::Gone { swept: self.swept });
                return;
            }
        }
    }

    /// Sleeps until something happens; says whether the birth is decided and whether the supervisor spoke.
    fn wait(&self) -> (bool, bool) {
        // A socket whose other end is closed is always ready, so it is not asked any more then.
        let control = self.is_supervised.then(|| self.control.socket());
        let birth = self.birth.as_ref().map(ChildStart::file);
        let watched = [Some(self.signals.as_fd()), control, birth];
        let mut files: Vec<_> =
            watched.iter().flatten().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
        // A failure is as good as a timeout: everything is looked at again.
        let _ = poll(&mut files, self.timeout().as_ref());
        let mut ready = files.iter().skip(1).map(|file| !file.revents().is_empty());
        let is_heard = control.is_some() && ready.next().unwrap_or(false);
        let is_born = birth.is_some() && ready.next().unwrap_or(false);
        (is_born, is_heard)
    }

    fn timeout(&self) -> Option<Timespec> {
        let left = match self.ladder.stage {
            StopStage::Killing => Some(KILL_ROUND),
            _ => self.ladder.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        };
        let next_look = self.watch.as_ref().map(LimitWatch::pause);
        let earliest = left.into_iter().chain(next_look).min();
        earliest.and_then(|time| Timespec::try_from(time).ok())
    }

    /// Ends the job if it has passed a limit.
    fn keep_watch(&mut self) {
        let Some(watch) = self.watch.as_mut().filter(|_| self.ladder.stage != StopStage::Killing) else { return };
        if let Some(passed) = watch.check(reap::own_id()) {
            self.control.send_event(&GuardianEvent::Passed(passed));
            let stage = self.ladder.push(StopEvent::Kill, Instant::now());
            self.enter(stage);
        }
    }

    fn end_birth(&mut self) {
        if let Some(birth) = self.birth.take() {
            let (event, exit) = birth.outcome();
            self.exit = exit;
            self.control.send_event(&event);
            // From now on it only waits, and there is one beside every server.
            crate::forget_rare_code();
        }
    }

    fn obey(&mut self) {
        loop {
            let push = match self.control.hear() {
                ControlInput::Letter(message::STOP) => StopEvent::Stop,
                ControlInput::Letter(message::ABANDON) => StopEvent::Abandon,
                ControlInput::Letter(message::KILL) => StopEvent::Kill,
                ControlInput::Letter(_) => continue,
                ControlInput::Nothing => return,
                ControlInput::End => {
                    self.is_supervised = false;
                    StopEvent::Abandon
                }
            };
            let stage = self.ladder.push(push, Instant::now());
            self.enter(stage);
            if !self.is_supervised {
                return;
            }
        }
    }

    fn enter(&mut self, stage: Option<StopStage>) {
        if stage == Some(StopStage::Terminating) {
            reap::terminate_all();
        }
        if stage == Some(StopStage::Killing) {
            reap::hurry();
        }
        match self.ladder.stage {
            StopStage::Killing if self.has_world => reap::kill_world(self.main),
            StopStage::Killing => reap::kill_all(),
            _ => {}
        }
    }

    /// Reaps the dead; true when no process is left.
    fn bury(&mut self) -> bool {
        self.forget_signals();
        let buried = reap::bury(self.main);
        self.swept += buried.others;
        if let Some(exited) = buried.main {
            // The pipe of the birth has ended with its writer, so this does not wait.
            self.end_birth();
            let exited = self.exit_in_world().unwrap_or(exited);
            self.control.send_event(&exited.with_peak(self.watch.as_ref().map_or(0, |watch| watch.peak)));
            let stage = self.ladder.push(StopEvent::MainExited, Instant::now());
            if !buried.is_last {
                self.enter(stage);
            }
        }
        buried.is_last
    }

    /// How the program ended, as the first process of its namespaces has seen it; that one is dead, so this does not wait.
    fn exit_in_world(&mut self) -> Option<GuardianEvent> {
        let mut text = Vec::new();
        self.exit.take()?.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn forget_signals(&self) {
        let mut buffer = [0; 512];
        while rustix::io::read(&self.signals, &mut buffer).is_ok_and(|count| count > 0) {}
    }
}
