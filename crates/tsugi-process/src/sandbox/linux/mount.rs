//! Private mounts of a job: everything read-only except what it may write, and private directories over shared ones.
//!
//! Landlock decides who reads and writes; it says nothing about modes, owners, times and attributes of files,
//! which a read-only mount keeps as they are.
#![allow(unsafe_code, reason = "the calls that clone, change and attach mounts have no safe form in what we use")]

use std::{
    ffi::{CStr, CString, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use serde::{Deserialize, Serialize};

/// What the child's mounts are to look like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountPlan {
    /// Shared directories, each with the one of the job's own that is to stand in its place.
    pub(super) covers: Vec<(OsString, OsString)>,
    /// What was there before and is to be there still.
    pub(super) kept: Vec<PreservedPath>,
    /// Links in covered directories on the way to what is kept, with where they lead.
    pub(super) links: Vec<(OsString, OsString)>,
    /// Where the child is to stand, also if nothing of it is kept.
    pub(super) cwd: OsString,
}

/// A file or folder that stays where it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PreservedPath {
    pub(super) path: OsString,
    pub(super) is_writable: bool,
}

impl PreservedPath {
    pub(super) fn new(path: &Path, is_writable: bool) -> PreservedPath {
        PreservedPath { path: path.into(), is_writable }
    }
}

impl MountPlan {
    /// Everything read-only but one place that exists everywhere.
    pub(super) fn of_trial() -> MountPlan {
        MountPlan { kept: vec![PreservedPath::new(Path::new("/dev"), true)], cwd: "/".into(), ..MountPlan::default() }
    }

    /// Carries it out in this mount namespace, which must be private.
    pub(crate) fn arrange(&self) -> io::Result<()> {
        // All of it is taken hold of first: later it would be covered, or read-only.
        let covers = self.covers.iter().map(|(shared, own)| Ok((shared, DetachedMount::writable(own.as_ref())?)));
        let covers: Vec<_> = covers.collect::<io::Result<_>>()?;
        let mut kept =
            self.kept.iter().map(|kept| Ok((Path::new(&kept.path), kept.take()?))).collect::<io::Result<Vec<_>>>()?;
        kept.sort_by_key(|(path, _)| path.components().count());
        set_read_only(libc::AT_FDCWD, c"/", 0)?;
        for (shared, tree) in covers {
            tree.attach(shared.as_ref())?;
        }
        self.links.iter().try_for_each(|(link, target)| make_link(link.as_ref(), target.as_ref()))?;
        for (path, tree) in kept {
            self.make_room(path, tree.is_folder)?;
            tree.attach(path)?;
        }
        self.make_room(self.cwd.as_ref(), true)
    }

    /// Makes something to mount on, or to stand in, where a cover hides what was there.
    fn make_room(&self, path: &Path, is_folder: bool) -> io::Result<()> {
        if path.exists() || !self.covers.iter().any(|(shared, _)| path.starts_with(shared)) {
            return Ok(());
        }
        if is_folder {
            return fs::create_dir_all(path);
        }
        make_parent(path)?;
        fs::File::create(path).map(drop)
    }
}

impl PreservedPath {
    fn take(&self) -> io::Result<DetachedMount> {
        let tree = DetachedMount::writable(self.path.as_ref())?;
        if !self.is_writable {
            set_read_only(tree.file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)?;
        }
        Ok(tree)
    }
}

fn make_link(link: &Path, target: &Path) -> io::Result<()> {
    make_parent(link)?;
    match std::os::unix::fs::symlink(target, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// A part of the file system that is mounted nowhere yet.
struct DetachedMount {
    file: OwnedFd,
    is_folder: bool,
}

impl DetachedMount {
    fn writable(path: &Path) -> io::Result<DetachedMount> {
        const OPEN_TREE_CLONE: libc::c_int = 1;
        let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE;
        let name = c_path(path)?;
        // SAFETY: the name is a C string that outlives the call.
        let file = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, name.as_ptr(), flags) };
        check(file)?;
        // SAFETY: it was made just now and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(file as libc::c_int) };
        Ok(DetachedMount { file, is_folder: path.is_dir() })
    }

    /// Mounts it; whatever was there is hidden.
    fn attach(self, path: &Path) -> io::Result<()> {
        const MOVE_MOUNT_F_EMPTY_PATH: libc::c_int = 4;
        let name = c_path(path)?;
        let (file, here) = (self.file.as_raw_fd(), libc::AT_FDCWD);
        // SAFETY: both names are C strings that outlive the call.
        let result = unsafe {
            libc::syscall(libc::SYS_move_mount, file, c"".as_ptr(), here, name.as_ptr(), MOVE_MOUNT_F_EMPTY_PATH)
        };
        check(result)
    }
}

/// Sets a whole tree of mounts read-only.
fn set_read_only(folder: libc::c_int, name: &CStr, flags: libc::c_int) -> io::Result<()> {
    /// The kernel's `struct mount_attr`.
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    const READ_ONLY: u64 = 1;
    let attributes = MountAttributes { set: READ_ONLY, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = flags | libc::AT_RECURSIVE;
    // SAFETY: the name is a C string and the attributes a local value of the given size.
    check(unsafe {
        let (attributes, size) = (&raw const attributes, size_of::<MountAttributes>());
        libc::syscall(libc::SYS_mount_setattr, folder, name.as_ptr(), flags, attributes, size)
    })
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
