//! Other programs' files as they were before tsugi changed them, to be brought back byte for byte.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::atomic_file;

/// The list of what is kept.
const INDEX: &str = "index.json";

/// Where the files are kept.
pub(crate) struct ClientBackups {
    directory: PathBuf,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientBackup {
    /// The file.
    pub(crate) path: PathBuf,
    /// Whose it is.
    pub(crate) program: String,
    /// What it was, as the name of a file beside the index; none where it did not exist.
    backup: String,
    /// The digest of what we wrote into it.
    written: String,
}

/// What came of bringing a file back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoreOutcome {
    /// It is as it was before.
    Back,
    /// Somebody changed it after us, so it was left alone.
    ChangedSince,
}

impl ClientBackups {
    /// In this state directory.
    pub(crate) fn in_directory(state: &Path) -> Self {
        ClientBackups { directory: state.join("backups") }
    }

    /// What is kept, oldest first.
    pub(crate) fn list(&self) -> io::Result<Vec<ClientBackup>> {
        match fs::read(self.directory.join(INDEX)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Changes a file, after keeping what it was. What was kept when it was first changed is what comes back.
    pub(crate) fn change(&self, path: &Path, program: &str, old: &[u8], new: &[u8]) -> io::Result<()> {
        let mut kept = self.list()?;
        match kept.iter_mut().find(|kept| kept.path == path) {
            Some(earlier) => earlier.written = digest(new),
            None => {
                let backup = backup_name(path);
                atomic_file::write_private(&self.directory.join(&backup), old)?;
                let (path, program) = (path.to_owned(), program.to_owned());
                kept.push(ClientBackup { path, program, backup, written: digest(new) });
            }
        }
        self.write(&kept)?;
        atomic_file::replace(path, new)
    }

    /// Brings one file back and forgets it. With `force` also one that somebody changed after us.
    pub(crate) fn restore(&self, kept: &ClientBackup, force: bool) -> io::Result<RestoreOutcome> {
        let backup = self.directory.join(&kept.backup);
        let original = fs::read(&backup)?;
        let now = fs::read(&kept.path).unwrap_or_default();
        let is_ours = digest(&now) == kept.written || now == original;
        if !is_ours && !force {
            return Ok(RestoreOutcome::ChangedSince);
        }
        atomic_file::replace(&kept.path, &original)?;
        let rest: Vec<ClientBackup> = self.list()?.into_iter().filter(|other| other != kept).collect();
        self.write(&rest)?;
        fs::remove_file(backup)?;
        Ok(RestoreOutcome::Back)
    }

    fn write(&self, kept: &[ClientBackup]) -> io::Result<()> {
        atomic_file::write_private(&self.directory.join(INDEX), &serde_json::to_vec_pretty(kept)?)
    }
}

/// A name of its own for each path.
fn backup_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{}-{name}", &digest(path.as_os_str().as_encoded_bytes())[..16])
}

fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_byte_for_byte_also_after_two_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, backups) = (folder.path().join("mcp.json"), ClientBackups::in_directory(folder.path()));
        let original = b"{ // \xff mine\r\n}".to_vec();
        fs::write(&path, &original).unwrap();
        backups.change(&path, "Cursor", &original, b"one").unwrap();
        backups.change(&path, "Cursor", b"one", b"two").unwrap();
        let kept = backups.list().unwrap();
        assert_eq!((kept.len(), fs::read(&path).unwrap().as_slice()), (1, &b"two"[..]));
        assert_eq!(backups.restore(&kept[0], false).unwrap(), RestoreOutcome::Back);
        assert_eq!(fs::read(&path).unwrap(), original);
        assert!(backups.list().unwrap().is_empty());
    }

    #[test]
    fn what_somebody_changed_since_is_left_alone_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, backups) = (folder.path().join("mcp.json"), ClientBackups::in_directory(folder.path()));
        fs::write(&path, "mine").unwrap();
        backups.change(&path, "Cursor", b"mine", b"ours").unwrap();
        fs::write(&path, "mine again").unwrap();
        let kept = backups.list().unwrap().remove(0);
        assert_eq!(backups.restore(&kept, false).unwrap(), RestoreOutcome::ChangedSince);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine again");
        assert_eq!(backups.restore(&kept, true).unwrap(), RestoreOutcome::Back);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
