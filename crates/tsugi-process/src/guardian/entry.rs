//! How a program becomes its own guardian: the explicit call that comes first in `main`.

use std::{
    ffi::CStr,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use super::run;

/// The name (`argv[0]`) under which the executable is a guardian.
pub(super) const NAME: &CStr = c"tsugi-guardian";

/// Whether this program called [`guardian_main`], so that running it again reaches that call.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// Makes this process a guardian if it was started as one, and then does not return. Otherwise it does nothing.
///
/// Call it first in `main`, before any thread or runtime exists: a guardian forks, and must have one thread. Jobs of a
/// program that never calls it get no guardian, only a process group: descendants that leave the group survive.
pub fn guardian_main() {
    if is_guardian() {
        run::main();
    }
    IS_CALLED.store(true, Ordering::Relaxed);
}

fn is_guardian() -> bool {
    match std::env::args_os().next() {
        Some(name) => name.as_bytes() == NAME.to_bytes(),
        // Before `main`, where tests call this, some C libraries have not given the arguments to Rust yet.
        None => std::fs::read("/proc/self/cmdline").is_ok_and(|line| line.starts_with(NAME.to_bytes_with_nul())),
    }
}

/// Whether running `/proc/self/exe` again gives a guardian. Running a `main` that knows nothing of guardians a second
/// time would be a disaster, hence the care.
pub(crate) fn is_usable() -> bool {
    IS_CALLED.load(Ordering::Relaxed) && Path::new("/proc/self/exe").exists()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_that_calls_guardian_main_has_guardians() {
        assert!(super::is_usable());
    }
}
