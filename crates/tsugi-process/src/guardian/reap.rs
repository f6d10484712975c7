//! Signals everything below the guardian, and reaps what has ended.
#![allow(unsafe_code, reason = "wait4, which gives use of resources with a status, and scheduling have no safe form")]

use std::{collections::BTreeSet, time::Duration};

use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process, kill_process_group};

use super::message::GuardianEvent;
use crate::tree::{ProcStat, descendants};

/// What a round of burying found.
#[derive(Debug, Default)]
pub(super) struct ReapedChildren {
    /// The end of the main child, if it was among them.
    pub(super) main: Option<GuardianEvent>,
    /// How many others there were.
    pub(super) others: u32,
    /// Whether any child, and so any descendant, is left.
    pub(super) is_last: bool,
}

/// Buries every child that has ended, without waiting for others.
pub(super) fn bury(main: Pid) -> ReapedChildren {
    let mut buried = ReapedChildren::default();
    loop {
        match wait(libc::WNOHANG) {
            WaitResult::Ended(pid, exited) if pid == main => buried.main = Some(exited),
            WaitResult::Ended(..) => buried.others += 1,
            WaitResult::NotYet => return buried,
            WaitResult::NoChild => {
                buried.is_last = true;
                return buried;
            }
        }
    }
}

/// Waits for one child, burying all others on the way.
pub(super) fn wait_for(main: Pid) -> GuardianEvent {
    loop {
        match wait(0) {
            WaitResult::Ended(pid, exited) if pid == main => return exited,
            WaitResult::NoChild => {
                return GuardianEvent::Exited { code: None, signal: None, cpu: Duration::ZERO, peak_bytes: 0 };
            }
            WaitResult::Ended(..) | WaitResult::NotYet => {}
        }
    }
}

enum WaitResult {
    Ended(Pid, GuardianEvent),
    NotYet,
    NoChild,
}

fn wait(options: libc::c_int) -> WaitResult {
    let (mut status, mut usage) = (0, empty_usage());
    // SAFETY: both pointers are to local values of the right type.
    let pid = unsafe { libc::wait4(-1, &raw mut status, options, &raw mut usage) };
    match pid {
        1.. => WaitResult::Ended(Pid::from_raw(pid).expect("it is positive"), exited(status, &usage)),
        -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) => WaitResult::NoChild,
        _ => WaitResult::NotYet,
    }
}

fn empty_usage() -> libc::rusage {
    // SAFETY: a structure of plain numbers.
    unsafe { std::mem::zeroed() }
}

fn exited(status: i32, usage: &libc::rusage) -> GuardianEvent {
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
    GuardianEvent::Exited { code, signal, cpu, peak_bytes: usage.ru_maxrss as u64 * 1024 }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// Asks all descendants to end; a stopped one is continued so that it can react.
pub(super) fn terminate_all() {
    let pids = descendants(own_id());
    signal_each(&pids, Signal::TERM);
    signal_each(&pids, Signal::CONT);
}

/// Puts this process before all others, if we may: among thousands that fork as fast as they can,
/// a process that waits for its turn comes too late. A user without that right is bound by the kernel's limit of processes.
pub(super) fn hurry() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: changes the scheduling of this process only.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
}

/// Ends a whole namespace by its first process; the kernel lets no process in it fork from then on.
pub(super) fn kill_world(first: Pid) {
    let _ = kill_process(first, Signal::KILL);
}

/// Ends all descendants that exist now; call it again until nothing is left to bury.
///
/// Whole groups go first: the kernel signals a group at once, so a group of forking processes cannot outrun us.
pub(super) fn kill_all() {
    let pids = descendants(own_id());
    let own_group = getpgrp().as_raw_nonzero().get() as u32;
    let groups: BTreeSet<u32> = pids.iter().filter_map(|pid| Some(ProcStat::read(*pid)?.group)).collect();
    // A descendant may have joined our own group; it is reached by its own id below.
    for group in groups.into_iter().filter(|group| *group > 1 && *group != own_group).filter_map(to_pid) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    signal_each(&pids, Signal::KILL);
}

fn signal_each(pids: &[u32], signal: Signal) {
    for pid in pids.iter().copied().filter_map(to_pid) {
        // One that has ended in between is what we want.
        let _ = kill_process(pid, signal);
    }
}

pub(super) fn own_id() -> u32 {
    getpid().as_raw_nonzero().get() as u32
}

fn to_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(pid as i32)
}
