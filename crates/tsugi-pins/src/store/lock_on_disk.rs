//! The lock file on disk, and first sights that are only remembered: read again when it changed, replaced as a whole.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use crate::lock::{LockFile, LockParseError};

/// Why pins cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PinStoreError {
    #[error("the lock file {path} cannot be used: {error}", path = path.display())]
    Parse { path: PathBuf, error: LockParseError },
    #[error("the lock file {path} cannot be read or written: {error}", path = path.display())]
    Io { path: PathBuf, error: std::io::Error },
}

/// What tells one version of the file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: Option<SystemTime>,
}

/// The file, what it said when it was last read, and what this process remembers besides.
pub(super) struct LockOnDisk {
    path: PathBuf,
    stamp: Option<FileStamp>,
    file: LockFile,
    /// Lists that were seen first and not written; they end with this process.
    remembered: LockFile,
    /// What holds: the file, and the remembered lists that it does not have.
    lock: LockFile,
    has_complained: bool,
}

impl LockOnDisk {
    pub(super) fn open(path: PathBuf) -> Result<Self, PinStoreError> {
        let empty = LockFile::default;
        let mut disk =
            Self { path, stamp: None, file: empty(), remembered: empty(), lock: empty(), has_complained: false };
        disk.reload()?;
        Ok(disk)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock(&self) -> &LockFile {
        &self.lock
    }

    /// Reads the file if it has changed; true when the pins differ.
    pub(super) fn reload(&mut self) -> Result<bool, PinStoreError> {
        let stamp = stamp_of(&self.path);
        if stamp == self.stamp {
            return Ok(false);
        }
        let file = self.read()?;
        self.stamp = stamp;
        let before = self.lock.clone();
        self.hold(file);
        Ok(self.lock != before)
    }

    fn hold(&mut self, file: LockFile) {
        self.lock = file.clone();
        self.lock.adopt_lists(&self.remembered);
        self.file = file;
    }

    /// Pins until this process ends, without writing the file.
    pub(super) fn remember(&mut self, change: impl Fn(&mut LockFile)) {
        change(&mut self.remembered);
        self.hold(self.file.clone());
    }

    /// What is remembered of a list that the file does not have.
    pub(super) fn remembered(&self) -> &LockFile {
        &self.remembered
    }

    fn read(&self) -> Result<LockFile, PinStoreError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(LockFile::default()),
            Err(error) => return Err(PinStoreError::Io { path: self.path.clone(), error }),
        };
        LockFile::parse(&text).map_err(|error| PinStoreError::Parse { path: self.path.clone(), error })
    }

    /// Changes the file, over what another process may have written. When it cannot be written nothing changes.
    pub(super) fn update(&mut self, change: impl Fn(&mut LockFile)) -> Result<(), PinStoreError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| PinStoreError::Io { path, error }
        };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The folder is locked, since the file itself is replaced. The lock ends with the handle.
        let guard = std::fs::File::open(folder).map_err(io(folder))?;
        flock(&guard, FlockOperation::LockExclusive).map_err(|error| io(folder)(error.into()))?;
        let before = self.read()?;
        let mut file = before.clone();
        change(&mut file);
        if file != before || !self.path.exists() {
            replace(&self.path, file.to_string().as_bytes()).map_err(io(&self.path))?;
        }
        self.stamp = stamp_of(&self.path);
        self.hold(file);
        Ok(())
    }

    /// True once: whether to say that the file cannot be written.
    pub(super) fn may_complain(&mut self) -> bool {
        !std::mem::replace(&mut self.has_complained, true)
    }
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let file = std::fs::metadata(path).ok()?;
    Some(FileStamp { inode: file.ino(), length: file.len(), modified: file.modified().ok() })
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file is meant for review in git, so everyone may read it; the umask still applies.
    let readable = Permissions::from_mode(0o666);
    let mut fresh = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
    fresh.write_all(bytes)?;
    fresh.as_file().sync_all()?;
    fresh.persist(path)?;
    Ok(())
}
