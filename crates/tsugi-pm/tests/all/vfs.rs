//! A file layer for SQLite that writes down every write and sync, and can fail or end the process at any of them.
//!
//! It passes everything on to the real layer. From the record a test builds what a disk could hold after a power cut:
//! what was synced is there, and of the rest any part may be.
#![allow(unsafe_code, reason = "SQLite's file layer is a C interface; only this test file speaks it")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock};

use rusqlite::ffi;

/// One thing that happened to a file, or an acknowledgement to the outside.
#[derive(Clone, Debug)]
pub enum Step {
    Write { file: String, offset: usize, data: Vec<u8> },
    Truncate { file: String, size: usize },
    Sync { file: String },
    Delete { file: String },
    Acknowledged(String),
}

static RECORD: Mutex<Vec<Step>> = Mutex::new(Vec::new());
/// How many steps are left before the process ends itself; negative means never.
static ABORT_IN: AtomicI64 = AtomicI64::new(-1);
/// How many steps are left before one fails with an I/O error; negative means never.
static FAIL_IN: AtomicI64 = AtomicI64::new(-1);
/// How large a file may grow; negative means any size.
static CAPACITY: AtomicI64 = AtomicI64::new(-1);
/// How many writes are left before the disk is full, for all files and for good; negative means never.
static FULL_IN: AtomicI64 = AtomicI64::new(-1);
static NAME: &CStr = c"tsugi-test";

/// The record and the switches belong to one test at a time, also when all tests share a process.
pub async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}

/// Ends the process at this step; zero means never.
pub fn abort_at(step: i64) {
    ABORT_IN.store(if step == 0 { -1 } else { step }, Ordering::SeqCst);
}

/// Fails one step with an I/O error.
pub fn fail_at(step: i64) {
    FAIL_IN.store(step, Ordering::SeqCst);
}

/// Whether the failure is still to come.
pub fn is_failure_pending() -> bool {
    FAIL_IN.load(Ordering::SeqCst) >= 0
}

/// Lets no file grow beyond a size.
pub fn set_capacity(bytes: i64) {
    CAPACITY.store(bytes, Ordering::SeqCst);
}

/// Lets nothing be written after so many writes; a negative number makes room again.
pub fn full_after(writes: i64) {
    FULL_IN.store(writes, Ordering::SeqCst);
}

/// Whether the disk has become full.
pub fn is_full() -> bool {
    FULL_IN.load(Ordering::SeqCst) == 0
}

pub fn acknowledge(what: &str) {
    RECORD.lock().unwrap().push(Step::Acknowledged(what.to_owned()));
}

/// Takes everything that was written down.
pub fn take_record() -> Vec<Step> {
    std::mem::take(&mut RECORD.lock().unwrap())
}

#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    name: *mut String,
}

impl File {
    /// The real file lies right behind ours, in the memory that SQLite gave us.
    unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
        unsafe { file.cast::<File>().add(1).cast() }
    }

    unsafe fn name(file: *mut ffi::sqlite3_file) -> String {
        unsafe { (*(*file.cast::<File>()).name).clone() }
    }
}

fn default_vfs() -> *mut ffi::sqlite3_vfs {
    unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) }
}

/// Makes the layer known to SQLite; answers its name.
pub fn register() -> String {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| unsafe {
        let mut vfs = *default_vfs();
        vfs.zName = NAME.as_ptr();
        vfs.szOsFile += size_of::<File>() as c_int;
        vfs.pNext = std::ptr::null_mut();
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0), ffi::SQLITE_OK);
    });
    NAME.to_str().unwrap().to_owned()
}

fn is_interesting(name: &str) -> bool {
    !name.is_empty() && !name.ends_with("-shm")
}

/// One write fewer, down to none; without a bound it stays as it is.
fn fewer(left: i64) -> Option<i64> {
    (left >= 0).then(|| (left - 1).max(0))
}

/// Counts a step: writes it down, or says that it must fail.
fn step(step: Step) -> c_int {
    if ABORT_IN.load(Ordering::SeqCst) > 0 && ABORT_IN.fetch_sub(1, Ordering::SeqCst) == 1 {
        std::process::abort();
    }
    if FAIL_IN.load(Ordering::SeqCst) >= 0 && FAIL_IN.fetch_sub(1, Ordering::SeqCst) == 0 {
        return ffi::SQLITE_IOERR_WRITE;
    }
    let is_write = matches!(step, Step::Write { .. });
    if is_write && FULL_IN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) == Ok(0) {
        return ffi::SQLITE_FULL;
    }
    let capacity = CAPACITY.load(Ordering::SeqCst);
    if let Step::Write { offset, data, .. } = &step
        && capacity >= 0
        && (offset + data.len()) as i64 > capacity
    {
        return ffi::SQLITE_FULL;
    }
    RECORD.lock().unwrap().push(step);
    ffi::SQLITE_OK
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    unsafe {
        let real = default_vfs();
        let result = (*real).xOpen.unwrap()(real, name, File::real(file), flags, out_flags);
        let text = if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() };
        (*file.cast::<File>()).name = Box::into_raw(Box::new(text));
        (*file).pMethods = if result == ffi::SQLITE_OK { methods() } else { std::ptr::null() };
        result
    }
}

unsafe extern "C" fn delete(_vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    unsafe {
        let real = default_vfs();
        let text = CStr::from_ptr(name).to_string_lossy().into_owned();
        let result = (*real).xDelete.unwrap()(real, name, sync);
        if result == ffi::SQLITE_OK && is_interesting(&text) {
            RECORD.lock().unwrap().push(Step::Delete { file: text });
        }
        result
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe {
        drop(Box::from_raw((*file.cast::<File>()).name));
        let real = File::real(file);
        (*(*real).pMethods).xClose.unwrap()(real)
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, data: *const c_void, amount: c_int, offset: i64) -> c_int {
    unsafe {
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), amount as usize).to_vec();
        let name = File::name(file);
        if is_interesting(&name) {
            let result = step(Step::Write { file: name, offset: offset as usize, data: bytes });
            if result != ffi::SQLITE_OK {
                return result;
            }
        }
        let real = File::real(file);
        (*(*real).pMethods).xWrite.unwrap()(real, data, amount, offset)
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    unsafe {
        let name = File::name(file);
        if is_interesting(&name) {
            let result = step(Step::Truncate { file: name, size: size as usize });
            if result != ffi::SQLITE_OK {
                return result;
            }
        }
        let real = File::real(file);
        (*(*real).pMethods).xTruncate.unwrap()(real, size)
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    unsafe {
        let name = File::name(file);
        if is_interesting(&name) {
            let result = step(Step::Sync { file: name });
            if result != ffi::SQLITE_OK {
                return result;
            }
        }
        let real = File::real(file);
        (*(*real).pMethods).xSync.unwrap()(real, flags)
    }
}

/// Passes a call on to the real file.
macro_rules! pass_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) $(-> $answer:ty)?;)+) => {
        $(unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($argument: $kind),*) $(-> $answer)? {
            unsafe {
                let real = File::real(file);
                (*(*real).pMethods).$method.unwrap()(real, $($argument),*)
            }
        })+
    };
}

pass_on! {
    read => xRead(data: *mut c_void, amount: c_int, offset: i64) -> c_int;
    file_size => xFileSize(size: *mut i64) -> c_int;
    lock => xLock(level: c_int) -> c_int;
    unlock => xUnlock(level: c_int) -> c_int;
    check_reserved => xCheckReservedLock(out: *mut c_int) -> c_int;
    control => xFileControl(operation: c_int, argument: *mut c_void) -> c_int;
    sector_size => xSectorSize() -> c_int;
    characteristics => xDeviceCharacteristics() -> c_int;
    shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_lock => xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier => xShmBarrier();
    shm_unmap => xShmUnmap(delete: c_int) -> c_int;
}

fn methods() -> *const ffi::sqlite3_io_methods {
    static METHODS: OnceLock<usize> = OnceLock::new();
    let address = *METHODS.get_or_init(|| {
        let mut methods: ffi::sqlite3_io_methods = unsafe { std::mem::zeroed() };
        methods.iVersion = 2;
        methods.xClose = Some(close);
        methods.xRead = Some(read);
        methods.xWrite = Some(write);
        methods.xTruncate = Some(truncate);
        methods.xSync = Some(sync);
        methods.xFileSize = Some(file_size);
        methods.xLock = Some(lock);
        methods.xUnlock = Some(unlock);
        methods.xCheckReservedLock = Some(check_reserved);
        methods.xFileControl = Some(control);
        methods.xSectorSize = Some(sector_size);
        methods.xDeviceCharacteristics = Some(characteristics);
        methods.xShmMap = Some(shm_map);
        methods.xShmLock = Some(shm_lock);
        methods.xShmBarrier = Some(shm_barrier);
        methods.xShmUnmap = Some(shm_unmap);
        Box::into_raw(Box::new(methods)) as usize
    });
    address as *const ffi::sqlite3_io_methods
}

/// What a disk keeps of the writes that were not synced when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Luck {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// Each sector or not, in any order.
    Some(u64),
}

#[derive(Clone, Default)]
pub struct Disk {
    synced: Option<Vec<u8>>,
    pending: Vec<Step>,
}

/// Plays the record back, step by step, and can show at any step what the disk could hold after a power cut.
pub struct Player<'r> {
    record: &'r [Step],
    at: usize,
    disks: BTreeMap<String, Disk>,
    pub acknowledged: Vec<String>,
}

impl<'r> Player<'r> {
    pub fn new(record: &'r [Step]) -> Self {
        Self { record, at: 0, disks: BTreeMap::new(), acknowledged: Vec::new() }
    }

    /// Plays on to just before a step.
    pub fn advance_to(&mut self, cut: usize) {
        for step in &self.record[self.at..cut] {
            match step {
                Step::Acknowledged(what) => self.acknowledged.push(what.clone()),
                Step::Sync { file } => settle(self.disks.entry(file.clone()).or_default(), Luck::All),
                Step::Delete { file } => drop(self.disks.remove(file)),
                Step::Write { file, .. } | Step::Truncate { file, .. } => {
                    self.disks.entry(file.clone()).or_default().pending.push(step.clone());
                }
            }
        }
        self.at = cut;
    }

    /// The power goes: writes what is left into a folder, under the files' own names.
    pub fn power_cut(&self, luck: Luck, folder: &Path) {
        for (file, disk) in &self.disks {
            let mut disk = disk.clone();
            settle(&mut disk, luck);
            if let Some(bytes) = disk.synced {
                std::fs::write(folder.join(Path::new(file).file_name().unwrap()), bytes).unwrap();
            }
        }
    }
}

fn settle(disk: &mut Disk, luck: Luck) {
    let mut dice = match luck {
        Luck::Some(seed) => seed | 1,
        Luck::None | Luck::All => 0,
    };
    for step in std::mem::take(&mut disk.pending) {
        let bytes = disk.synced.get_or_insert_default();
        match step {
            _ if luck == Luck::None => {}
            Step::Truncate { size, .. } => bytes.resize(size, 0),
            Step::Write { offset, data, .. } => {
                for (at, sector) in data.chunks(512).enumerate() {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    let start = offset + at * 512;
                    if luck == Luck::All || dice.is_multiple_of(2) {
                        bytes.resize(bytes.len().max(start + sector.len()), 0);
                        bytes[start..start + sector.len()].copy_from_slice(sector);
                    }
                }
            }
            Step::Sync { .. } | Step::Delete { .. } | Step::Acknowledged(_) => {}
        }
    }
}
