//! What this kernel allows, found by trying it in a child of a guardian, once per process.
#![allow(unsafe_code, reason = "the trials fork, and one asks Landlock for its version")]

use std::io;

use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::{filter, landlock, namespace::NamespaceSet};
use crate::{
    blocking,
    guardian::{
        launch::GuardianHandle,
        message::{GuardianEvent, GuardianRequest},
    },
};

/// What can be used here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KernelSupport {
    /// The version of Landlock's interface; 0 if it cannot be used.
    pub(crate) landlock: i32,
    pub(crate) has_seccomp: bool,
    /// How namespaces can be had, or why not.
    pub(crate) namespaces: Result<NamespaceSet, String>,
}

/// Asks once; later calls get the same answer.
pub(crate) async fn probe() -> io::Result<KernelSupport> {
    static ABILITY: OnceCell<KernelSupport> = OnceCell::const_new();
    ABILITY.get_or_try_init(ask).await.cloned()
}

async fn ask() -> io::Result<KernelSupport> {
    let mut guardian = blocking::run(|| GuardianHandle::start("probe")).await??;
    guardian.send(&GuardianRequest::Probe, crate::pipes::closed_ends()?).await?;
    let answer = guardian.event().await;
    guardian.bury().await;
    match answer {
        Some(GuardianEvent::Probed(ability)) => Ok(ability),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Tries everything; runs in the guardian, which has one thread.
pub(crate) fn try_all() -> KernelSupport {
    let landlock = if succeeds(landlock::try_out) { landlock_version() } else { 0 };
    KernelSupport { landlock, has_seccomp: succeeds(filter::try_out), namespaces: NamespaceSet::try_out() }
}

fn landlock_version() -> i32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call reads nothing and gives a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Runs a trial in a child of its own, since most of them cannot be undone.
fn succeeds(trial: impl FnOnce() -> io::Result<()>) -> bool {
    // SAFETY: the guardian has one thread; the child only runs the trial and ends.
    match unsafe { libc::fork() } {
        -1 => false,
        // SAFETY: ends the child at once.
        0 => unsafe { libc::_exit(i32::from(trial().is_err())) },
        pid => wait_for_success(pid),
    }
}

/// Waits for a child of ours and says whether it ended with code 0.
pub(super) fn wait_for_success(pid: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: waits for a child of ours and writes its status to a local value.
    unsafe {
        libc::waitpid(pid, &raw mut status, 0) == pid && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}
