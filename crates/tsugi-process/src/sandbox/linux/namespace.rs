//! Namespaces: a process tree that dies with its first process, and an empty network.
#![allow(unsafe_code, reason = "clone, mount and the interface ioctl have no safe form in what we use")]

use std::{fs, io, ptr};

use rustix::process::{Gid, Uid, getgid, getuid};
use serde::{Deserialize, Serialize};

use super::{kernel_support::wait_for_success, mount::MountPlan};

/// Which namespaces a child gets, besides those of processes, mounts and IPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamespaceSet {
    /// Ordinary users need one in which they may make the others; root does better without,
    /// since files of other users would be foreign to it there.
    pub(crate) has_user: bool,
    /// Whether the network is its own.
    pub(crate) has_net: bool,
    /// Whether mounts of its own can be made read-only and put in the place of others.
    pub(crate) has_mounts: bool,
    /// The most processes and threads it may hold, where the kernel can count them.
    pub(crate) tasks: Option<u32>,
}

/// Who we are outside, to be the same inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OuterIdentity(Uid, Gid);

impl OuterIdentity {
    pub(crate) fn ours() -> OuterIdentity {
        OuterIdentity(getuid(), getgid())
    }
}

impl NamespaceSet {
    /// How namespaces can be had here, or why not.
    pub(crate) fn try_out() -> Result<NamespaceSet, String> {
        let ways = [(false, true), (false, false), (true, true), (true, false)];
        let ways = ways.map(|(has_user, has_mounts)| NamespaceSet { has_user, has_net: true, has_mounts, tasks: None });
        let mut reason = String::new();
        for way in ways {
            match way.try_once() {
                Ok(()) => return Ok(way),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(reason)
    }

    fn try_once(self) -> io::Result<()> {
        let identity = OuterIdentity::ours();
        match self.fork()? {
            // SAFETY: ends the child at once.
            0 => unsafe { libc::_exit(i32::from(self.settle(identity).and_then(|()| self.try_mounts()).is_err())) },
            pid if wait_for_success(pid) => Ok(()),
            _ => Err(io::Error::other("a namespace could be made but not set up")),
        }
    }

    fn try_mounts(self) -> io::Result<()> {
        if self.has_mounts { MountPlan::of_trial().arrange() } else { Ok(()) }
    }

    fn flags(self) -> libc::c_int {
        let user = if self.has_user { libc::CLONE_NEWUSER } else { 0 };
        let net = if self.has_net { libc::CLONE_NEWNET } else { 0 };
        libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | user | net
    }

    /// Forks into the namespaces, as `fork` does; the child is the first process there and must call [`settle`](Self::settle).
    pub(crate) fn fork(self) -> io::Result<libc::pid_t> {
        let flags = libc::c_long::from(self.flags() | libc::SIGCHLD);
        // SAFETY: without a stack of its own and without shared memory this is `fork`; the caller has one thread.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(pid as libc::pid_t),
        }
    }

    /// Makes the new world habitable: the same user, a process table of its own, a loopback device that is up.
    pub(crate) fn settle(self, identity: OuterIdentity) -> io::Result<()> {
        if self.has_user {
            map_identity(identity)?;
        }
        separate_mounts()?;
        // In a container the old table may be partly hidden, and then a new one is refused; the old one does.
        let has_table = mount_process_table().is_ok();
        if let Some(tasks) = self.tasks.filter(|_| has_table && can_count_tasks()) {
            limit_tasks(tasks)?;
        }
        if self.has_net { raise_loopback() } else { Ok(()) }
    }
}

/// Groups must be given up first, or a user could escape a group that is refused a file.
fn map_identity(OuterIdentity(user, group): OuterIdentity) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

/// What is mounted here is not seen outside.
fn separate_mounts() -> io::Result<()> {
    // SAFETY: all strings are constants; the calls change only this mount namespace.
    check(unsafe { libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), libc::MS_REC | libc::MS_PRIVATE, ptr::null()) })
}

fn mount_process_table() -> io::Result<()> {
    let (name, flags) = (c"proc".as_ptr(), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
    // SAFETY: as above.
    check(unsafe { libc::mount(name, c"/proc".as_ptr(), name, flags, ptr::null()) })
}

/// Whether a namespace has its own greatest process id: from Linux 6.14 on, and only for root.
///
/// Before that version the same file changed the whole machine, so the version is asked and nothing tried.
pub(super) fn can_count_tasks() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next().and_then(Result::ok).unwrap_or(0), numbers.next().and_then(Result::ok).unwrap_or(0));
    rustix::process::geteuid().is_root() && version >= (6, 14)
}

/// Ids below 300 are not given out a second time, so they come on top.
fn limit_tasks(tasks: u32) -> io::Result<()> {
    fs::write("/proc/sys/kernel/pid_max", (tasks + 300).to_string())
}

fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: a structure of plain numbers, filled in below.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let file = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: the request names an interface and holds its flags, as this call wants.
    check(unsafe { libc::ioctl(file, libc::SIOCSIFFLAGS, &raw const request) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
