//! Confines the child, in the child, as the last step before `execve`.
#![allow(unsafe_code, reason = "dropping capabilities has no safe form")]

use std::io;

use rustix::thread::set_no_new_privs;

use super::{Confinement, filter, landlock, limit};

/// Confines this process and all it will start, for good; says which step failed.
pub(crate) fn confine(confinement: &Confinement) -> Result<(), (&'static str, io::Error)> {
    let at = |step| move |error| (step, error);
    limit::restrict(confinement).map_err(at("set the sandbox's limits"))?;
    drop_capabilities();
    set_no_new_privs(true).map_err(|error| ("give up new privileges", error.into()))?;
    if let Some(places) = &confinement.places {
        landlock::restrict(places, &confinement.net).map_err(at("apply the sandbox's file rules"))?;
    }
    if confinement.has_filter {
        let is_pinned = confinement.cores.is_some();
        filter::restrict(&confinement.net, is_pinned).map_err(at("apply the sandbox's system call filter"))?;
    }
    Ok(())
}

/// Takes from root what a tool server does not need: everything but rights over files, users and low ports.
/// Ordinary users have none of it, and are refused here, harmlessly.
fn drop_capabilities() {
    const KEPT: &[i32] = &[CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE];
    const CHOWN: i32 = 0;
    const DAC_OVERRIDE: i32 = 1;
    const FOWNER: i32 = 3;
    const FSETID: i32 = 4;
    const KILL: i32 = 5;
    const SETGID: i32 = 6;
    const SETUID: i32 = 7;
    const NET_BIND_SERVICE: i32 = 10;
    for capability in (0..64).filter(|capability| !KEPT.contains(capability)) {
        // SAFETY: changes only what later programs of this process can gain.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}
