//! The file that is written now and those before it: their names, their order, and who owns them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// How long a writer waits for the one before it to let go, and how often it asks.
const PATIENCE: Duration = Duration::from_secs(2);
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The files of one chain: `audit.jsonl`, which is written now, and `audit-000000000001.jsonl`, named after its first
/// `seq`. So `audit*.jsonl` in a shell lists them in the order of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFileSet {
    current: PathBuf,
}

impl AuditFileSet {
    pub fn new(current: impl Into<PathBuf>) -> Self {
        Self { current: current.into() }
    }

    /// The file that is written now.
    pub fn current(&self) -> &Path {
        &self.current
    }

    pub(crate) fn folder(&self) -> &Path {
        match self.current.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// The name of a finished file whose first line has this `seq`.
    pub(crate) fn finished(&self, first_seq: u64) -> PathBuf {
        let (stem, ending) = self.name_parts();
        self.folder().join(format!("{stem}-{first_seq:012}{ending}"))
    }

    /// A file beside the current one, such as its lock.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.current.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    }

    /// The finished files with the `seq` of their first lines, oldest first.
    pub fn finished_files(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let (stem, ending) = self.name_parts();
        let mut files = Vec::new();
        let entries = match std::fs::read_dir(self.folder()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let middle = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&ending));
            let digits = middle.filter(|middle| middle.len() >= 12 && middle.bytes().all(|byte| byte.is_ascii_digit()));
            if let Some(seq) = digits.and_then(|digits| digits.parse().ok()) {
                files.push((seq, entry.path()));
            }
        }
        files.sort();
        Ok(files)
    }

    /// Every file that exists, in the order of the chain.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = self.finished_files()?.into_iter().map(|(_, path)| path).collect();
        if self.current.exists() {
            files.push(self.current.clone());
        }
        Ok(files)
    }

    /// True when a writer has the file now, so that its end may be unsigned.
    pub fn has_writer(&self) -> bool {
        let Ok(lock) = File::open(self.beside(".lock")) else { return false };
        flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Becomes the one owner. The lock is a file of its own because the current file changes with each rotation.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let path = self.beside(".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        let started = Instant::now();
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                // `has_writer` holds the lock for a moment, and a gateway that ends for a little longer.
                Err(rustix::io::Errno::WOULDBLOCK) if started.elapsed() < PATIENCE => std::thread::sleep(ASK_AGAIN),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn name_parts(&self) -> (String, String) {
        let name = self.current.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() => (stem.to_owned(), format!(".{ending}")),
            _ => (name, String::new()),
        }
    }
}

/// Opens a file for appending that only its owner may read.
pub(crate) fn open_for_append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Makes a rename or a new file survive a power loss.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_in_the_order_of_the_chain() {
        let folder = tempfile::tempdir().unwrap();
        let set = AuditFileSet::new(folder.path().join("audit.jsonl"));
        for name in ["audit-000000001000.jsonl", "audit.jsonl", "audit-000000000001.jsonl", "audit-x.jsonl", "other"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> =
            set.files().unwrap().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["audit-000000000001.jsonl", "audit-000000001000.jsonl", "audit.jsonl"]);
        assert_eq!(set.finished(1000), folder.path().join("audit-000000001000.jsonl"));
    }

    #[test]
    fn a_file_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let set = AuditFileSet::new(folder.path().join("audit.jsonl"));
        assert!(!set.has_writer());
        let lock = set.lock().unwrap();
        assert!(set.has_writer());
        assert!(set.lock().is_err());
        drop(lock);
        assert!(!set.has_writer());
        set.lock().unwrap();
    }
}
