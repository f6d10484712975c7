//! The start-up hook by which our own executable, run again under the guardian's name, becomes a guardian.
#![allow(unsafe_code, reason = "a function run before `main` is registered by its place in the executable")]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    sync::OnceLock,
};

use super::run;

/// The name (`argv[0]`) under which the executable is a guardian.
pub(super) const NAME: &CStr = c"tsugi-guardian";

/// The C library calls every function whose address stands in this section before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static HOOK: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = hook;

extern "C" fn hook(count: c_int, arguments: *const *const c_char, _: *const *const c_char) {
    if is_guardian(count, arguments) {
        run::main();
    }
}

/// glibc gives the arguments of `main` to these functions.
#[cfg(target_env = "gnu")]
fn is_guardian(count: c_int, arguments: *const *const c_char) -> bool {
    // SAFETY: with glibc, `arguments` holds `count` pointers to C strings that live as long as the process.
    count > 0 && unsafe { CStr::from_ptr(*arguments) } == NAME
}

/// Other C libraries give nothing, so the kernel is asked.
#[cfg(not(target_env = "gnu"))]
fn is_guardian(_: c_int, _: *const *const c_char) -> bool {
    std::fs::read("/proc/self/cmdline").is_ok_and(|line| line.starts_with(NAME.to_bytes_with_nul()))
}

/// Whether running `/proc/self/exe` again would reach [`hook`]; found out once.
///
/// It would not if this library was loaded into a program that is not linked with it.
/// Running that program's own `main` again would be a disaster, hence the care.
pub(crate) fn is_usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| Path::new("/proc/self/exe").exists() && is_in_main_program())
}

/// Whether this code belongs to the executable itself and not to a loaded library.
fn is_in_main_program() -> bool {
    let mut search = ExecutableSearch { address: HOOK as usize, found: false };
    // SAFETY: the callback gets back exactly the pointer given here, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look_at_first), (&raw mut search).cast()) };
    search.found
}

struct ExecutableSearch {
    address: usize,
    found: bool,
}

/// The first object listed is always the main program; a result other than zero ends the listing.
unsafe extern "C" fn look_at_first(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: both pointers come from `dl_iterate_phdr` and are valid during this call.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<ExecutableSearch>()) };
    // SAFETY: the loader guarantees that many program headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let holds = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&search.address)
    };
    search.found = headers.iter().any(holds);
    1
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_binary_is_linked_with_the_hook() {
        assert!(super::is_usable());
    }
}
