//! The guardian's whole life: receive one request, start the child, obey, and leave nothing behind.
#![allow(unsafe_code, reason = "signal masks, signalfd and the borrowed stdin have no safe form")]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, getpid, set_child_subreaper, setsid},
};

use super::{
    birth::Birth,
    control::{Control, Heard},
    hook,
    message::{self, Event},
    reap,
};
use crate::stop::{Ladder, Push, Stage};

/// Between two rounds of SIGKILL.
const KILL_ROUND: Duration = Duration::from_millis(10);

/// Entered from the start-up hook; ends the process.
pub(super) fn main() -> ! {
    let code = match prepare().and_then(Guardian::start) {
        Ok(mut guardian) => guardian.run(),
        Err(_) => 1,
    };
    // SAFETY: ends this process; nothing of the program around us has been started.
    unsafe { libc::_exit(code) }
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
    let _ = rustix::thread::set_name(hook::NAME);
    let _ = std::env::set_current_dir("/");
    set_child_subreaper(Some(getpid()))?;
    Ok(signals)
}

/// Blocks all signals and gives a file that is readable when a child has ended.
fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: the sets are plain values filled in by the calls; the new file is owned by nobody else.
    unsafe {
        let (mut all, mut child) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
        // If SIGCHLD was ignored by whoever started us, children would vanish without a status.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        match libc::signalfd(-1, &raw const child, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(OwnedFd::from_raw_fd(file)),
        }
    }
}

struct Guardian {
    control: Control,
    /// Readable when a child has ended.
    signals: OwnedFd,
    /// Until the program runs.
    birth: Option<Birth>,
    main: Pid,
    is_supervised: bool,
    ladder: Ladder,
    swept: u32,
}

impl Guardian {
    fn start(signals: OwnedFd) -> io::Result<Guardian> {
        // SAFETY: stdin is open for the whole life of the guardian and never closed.
        let control = Control::new(unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) });
        let (request, ends) = control.receive_request()?;
        let birth = Birth::begin(&request, ends).inspect_err(|error| {
            control.tell(&Event::Failed { step: "fork".into(), errno: error.raw_os_error().unwrap_or(0) });
        })?;
        Ok(Guardian {
            control,
            signals,
            main: birth.pid,
            birth: Some(birth),
            is_supervised: true,
            ladder: Ladder::new(request.grace),
            swept: 0,
        })
    }

    fn run(&mut self) -> i32 {
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
            if self.bury() {
                self.control.tell(&Event::Gone { swept: self.swept });
                return 0;
            }
        }
    }

    /// Sleeps until something happens; says whether the birth is decided and whether the supervisor spoke.
    fn wait(&self) -> (bool, bool) {
        // A socket whose other end is closed is always ready, so it is not asked any more then.
        let control = self.is_supervised.then(|| self.control.socket());
        let birth = self.birth.as_ref().map(Birth::file);
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
            Stage::Killing => Some(KILL_ROUND),
            _ => self.ladder.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        };
        left.and_then(|left| Timespec::try_from(left).ok())
    }

    fn end_birth(&mut self) {
        if let Some(birth) = self.birth.take() {
            self.control.tell(&birth.outcome());
        }
    }

    fn obey(&mut self) {
        loop {
            let push = match self.control.hear() {
                Heard::Letter(message::STOP) => Push::Stop,
                Heard::Letter(message::ABANDON) => Push::Abandon,
                Heard::Letter(message::KILL) => Push::Kill,
                Heard::Letter(_) => continue,
                Heard::Nothing => return,
                Heard::End => {
                    self.is_supervised = false;
                    Push::Abandon
                }
            };
            let stage = self.ladder.push(push, Instant::now());
            self.enter(stage);
            if !self.is_supervised {
                return;
            }
        }
    }

    fn enter(&mut self, stage: Option<Stage>) {
        if stage == Some(Stage::Terminating) {
            reap::terminate_all();
        }
        if self.ladder.stage == Stage::Killing {
            reap::kill_all();
        }
    }

    /// Buries the dead; true when nobody is left.
    fn bury(&mut self) -> bool {
        self.forget_signals();
        let buried = reap::bury(self.main);
        self.swept += buried.others;
        if let Some(exited) = buried.main {
            // The pipe of the birth has ended with its writer, so this does not wait.
            self.end_birth();
            self.control.tell(&exited);
            let stage = self.ladder.push(Push::MainExited, Instant::now());
            if !buried.is_last {
                self.enter(stage);
            }
        }
        buried.is_last
    }

    fn forget_signals(&self) {
        let mut buffer = [0; 512];
        while rustix::io::read(&self.signals, &mut buffer).is_ok_and(|count| count > 0) {}
    }
}
