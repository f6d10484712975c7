//! The units in which this kernel counts memory and processor time.
#![allow(unsafe_code, reason = "sysconf has no safe form in the features of rustix that we use")]

/// Bytes in a page of memory.
pub(crate) fn page_bytes() -> u64 {
    ask(libc::_SC_PAGESIZE, 4096)
}

/// Ticks in a second of processor time.
pub(crate) fn ticks_per_second() -> u64 {
    ask(libc::_SC_CLK_TCK, 100)
}

fn ask(name: libc::c_int, usual: u64) -> u64 {
    // SAFETY: sysconf takes a number, gives a number and touches nothing.
    let answer = unsafe { libc::sysconf(name) };
    u64::try_from(answer).ok().filter(|answer| *answer > 0).unwrap_or(usual)
}
