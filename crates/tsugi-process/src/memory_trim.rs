//! Returns memory that was needed once, so that a program that runs for weeks does not keep its peak.

/// Lets go of every page of this program's code and constants; those still needed come back as they are used.
///
/// Starting, and everything that happens rarely, walks through far more code than running does, and the kernel keeps
/// all of it mapped, with its neighbours, while memory is plenty. Nothing is lost: the pages are the executable's own
/// and mostly still cached, and coming back costs each about a microsecond. Other systems than Linux keep what they
/// have.
pub fn forget_rare_code() {
    #[cfg(target_os = "linux")]
    linux::forget();
}

/// Has large blocks of memory given back as soon as they are free.
///
/// The allocator of the GNU system learns from the first large block that is freed to keep such blocks for later, in
/// the heap of one thread, where smaller ones soon lie between them. To be called once, at the start.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    linux::return_large_blocks();
}

/// Gives back memory that the allocator holds free.
///
/// The allocator of the GNU system keeps the pages of small blocks, also when thousands of connections have gone. This
/// takes a few milliseconds, so call it after much was freed.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    linux::return_free_memory();
}

/// How many bytes this process holds in memory that are its own, without code and other files; `None` where the system
/// does not tell.
pub fn own_memory() -> Option<u64> {
    #[cfg(target_os = "linux")]
    return linux::own_memory();
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
mod linux {
    #![allow(unsafe_code, reason = "where the program lies in memory, and advice about it, have no safe form")]

    use std::{
        ffi::{c_int, c_void},
        ops::Range,
    };

    /// A block of at least this size gets pages of its own. It is where the allocator begins, too.
    #[cfg(target_env = "gnu")]
    const LARGE: c_int = 128 << 10;

    #[cfg(target_env = "gnu")]
    pub(super) fn return_large_blocks() {
        // SAFETY: sets a number of the allocator. It cannot refuse this one.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }

    #[cfg(target_env = "gnu")]
    pub(super) fn return_free_memory() {
        // SAFETY: touches only blocks that are free, under the allocator's own locks.
        unsafe { libc::malloc_trim(0) };
    }

    /// Size, resident and shared, in pages: [statm](https://docs.kernel.org/filesystems/proc.html#process-specific-subdirectories).
    pub(super) fn own_memory() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        let mut pages = text.split(' ').skip(1).map_while(|word| word.parse::<u64>().ok());
        let (resident, shared) = (pages.next()?, pages.next()?);
        Some(resident.saturating_sub(shared) * page_size() as u64)
    }

    pub(super) fn forget() {
        // SAFETY: the callback takes nothing from the pointer it is given.
        unsafe { libc::dl_iterate_phdr(Some(forget_first), std::ptr::null_mut()) };
    }

    /// The first object listed is always the main program; a result other than zero ends the listing.
    unsafe extern "C" fn forget_first(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the pointer comes from `dl_iterate_phdr` and is valid during this call.
        let info = unsafe { &*info };
        // SAFETY: the loader guarantees that many program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        // What may be written was changed by the loader and exists nowhere else.
        let is_unchanged = |flags: u32| flags & libc::PF_W == 0;
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && is_unchanged(header.p_flags)) {
            let start = info.dlpi_addr as usize + header.p_vaddr as usize;
            let pages = whole_pages(start..start + header.p_memsz as usize, page_size());
            // SAFETY: these pages hold the bytes of the file and nothing else, so the kernel can read them again.
            unsafe { libc::madvise(pages.start as *mut c_void, pages.len(), libc::MADV_DONTNEED) };
        }
        1
    }

    /// The pages that lie in a range with all their bytes: others may belong to a neighbour, too.
    fn whole_pages(range: Range<usize>, page: usize) -> Range<usize> {
        let start = range.start.next_multiple_of(page);
        start..(range.end / page * page).max(start)
    }

    fn page_size() -> usize {
        // SAFETY: asks for a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).expect("every system has a page size")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn mapped_of_files() -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        }

        #[test]
        fn a_program_that_forgets_rare_code_holds_less_and_goes_on() {
            let before = mapped_of_files();
            forget();
            let after = mapped_of_files();
            assert!(after < before, "{after} kB after, {before} kB before");
            assert_eq!(format!("{:?}", "still here".to_uppercase()), "\"STILL HERE\"");
        }

        #[test]
        fn pages_shared_with_a_neighbour_stay() {
            assert_eq!(whole_pages(4097..16385, 4096), 8192..16384);
            assert!(whole_pages(4097..4098, 4096).is_empty());
        }
    }
}
