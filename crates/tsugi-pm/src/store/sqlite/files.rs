//! Notices that the database's files were removed, replaced or frozen while open, before anything more is acknowledged.
//!
//! SQLite goes on writing into files that no longer have a name: everything is acknowledged, and no process that opens the
//! database afterwards ever sees it. So each write asks the file system, before it begins and before it is
//! acknowledged, whether the names still mean our files. If the log is gone, what it held is brought into the database
//! file, for which we still can read it; from then on every call is refused until the server is started again: its
//! connections share locks that newcomers would not know of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::run::fault;
use crate::domain::fault::{Code, PmFault};

/// A file as the file system knows it, whatever its name.
type FileIdentity = (u64, u64);

/// The files of an open database, and which files they were when it was opened.
pub(super) struct DatabaseFiles {
    /// The database, its log, and the shared memory through which processes agree about the log.
    names: [PathBuf; 3],
    known: [Option<FileIdentity>; 3],
}

/// What the names mean now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatabaseFilesState {
    Ours,
    /// No log, or no shared memory, and no new ones.
    Removed,
    /// Other files, which another process may be writing.
    Replaced,
    /// Our files, one of which the system lets no process write any more.
    Immutable(usize),
}

impl DatabaseFiles {
    /// Remembers the files of a database that has just been opened. A name that means no file is not watched.
    pub(super) fn of(path: &Path) -> Self {
        let names = ["", "-wal", "-shm"].map(|suffix| {
            let mut name = OsString::from(path);
            name.push(suffix);
            PathBuf::from(name)
        });
        let known = [0, 1, 2].map(|at| status(&names[at]).map(|one| one.identity));
        Self { names, known }
    }

    pub(super) fn are_ours(&self) -> bool {
        self.look() == DatabaseFilesState::Ours
    }

    /// Refuses to touch files that the system protects. SQLite maps the shared memory, and a write to a mapped page of
    /// an immutable file is not an error but a signal that ends the process.
    pub(super) fn check_usable(&self) -> Result<(), PmFault> {
        match self.look() {
            DatabaseFilesState::Immutable(at) => Err(immutable(&self.names[at])),
            _ => Ok(()),
        }
    }

    fn look(&self) -> DatabaseFilesState {
        let seen = [0, 1, 2].map(|at| self.known[at].and_then(|_| status(&self.names[at])));
        let now = seen.map(|one| one.map(|one| one.identity));
        if now == self.known {
            // Only for files that are still ours: another file's attributes are not our concern.
            let protected = seen.iter().position(|one| one.is_some_and(|one| one.is_immutable));
            return protected.map_or(DatabaseFilesState::Ours, DatabaseFilesState::Immutable);
        }
        let is_strange = |at: usize| now[at].is_some() && now[at] != self.known[at];
        // Without the database file there is nothing to bring the log into.
        if now[0] != self.known[0] || is_strange(1) || is_strange(2) {
            DatabaseFilesState::Replaced
        } else {
            DatabaseFilesState::Removed
        }
    }

    /// Refuses a write that would go into files without a name, after saving what can be saved.
    pub(super) fn check_before(&self, writer: &Connection) -> Result<(), PmFault> {
        match self.look() {
            DatabaseFilesState::Ours => Ok(()),
            DatabaseFilesState::Removed => save(writer).and(Err(gone("what was acknowledged is in the database file"))),
            DatabaseFilesState::Replaced => Err(gone("what was acknowledged lately may be missing from them")),
            DatabaseFilesState::Immutable(at) => Err(immutable(&self.names[at])),
        }
    }

    /// A write has been committed: may it be acknowledged?
    pub(super) fn check_after(&self, writer: &Connection) -> Result<(), PmFault> {
        match self.look() {
            // What is committed is in the log, whether or not the next write is allowed.
            DatabaseFilesState::Ours | DatabaseFilesState::Immutable(_) => Ok(()),
            DatabaseFilesState::Removed => save(writer),
            DatabaseFilesState::Replaced => {
                Err(gone("it is not known whether this call is in them").with("outcome", "unknown"))
            }
        }
    }

    /// Before the writer closes: files that others may be writing are left alone.
    pub(super) fn leave(&self, writer: &Connection) {
        if self.look() == DatabaseFilesState::Replaced {
            let _ = writer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// Brings everything in the log into the database file, and syncs it.
fn save(writer: &Connection) -> Result<(), PmFault> {
    let is_busy: bool = writer
        .query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0))
        .map_err(|error| gone("and what the log held could not be saved").with("cause", fault(&error).message))?;
    if is_busy {
        Err(gone("and what the log held could not be saved yet, because another process reads it"))
    } else {
        Ok(())
    }
}

fn gone(but: &str) -> PmFault {
    let message = format!("the database's files were removed or replaced while they were open; {but}");
    PmFault::new(Code::StorageReadonly, message).hint("start this server again, and all others on the same database")
}

fn immutable(path: &Path) -> PmFault {
    let name = path.display();
    PmFault::new(Code::StorageReadonly, format!("{name} was made immutable while it was open; nothing was changed"))
        .hint(format!("allow writing again, for example with `chattr -i {name}`, and repeat the call"))
        .with("file", name.to_string())
}

/// What the file system says of a name, in one call.
#[derive(Clone, Copy)]
struct FileStatus {
    identity: FileIdentity,
    is_immutable: bool,
}

#[cfg(target_os = "linux")]
fn status(path: &Path) -> Option<FileStatus> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let Ok(found) = statx(CWD, path, AtFlags::empty(), StatxFlags::INO) else { return plain_status(path) };
    // Major and minor together name the device, as `st_dev` does.
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    let is_immutable = found.stx_attributes.contains(StatxAttributes::IMMUTABLE);
    Some(FileStatus { identity: (device, found.stx_ino), is_immutable })
}

#[cfg(all(unix, not(target_os = "linux")))]
fn status(path: &Path) -> Option<FileStatus> {
    plain_status(path)
}

/// For systems that do not tell more.
#[cfg(unix)]
fn plain_status(path: &Path) -> Option<FileStatus> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some(FileStatus { identity: (found.dev(), found.ino()), is_immutable: false })
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn status(_path: &Path) -> Option<FileStatus> {
    None
}
