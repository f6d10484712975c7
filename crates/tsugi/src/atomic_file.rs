//! Replaces a file as a whole, so that a process that reads it at the same time sees the old one or the new one.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use crate::failure::CommandFailure;

/// The mode of a file that was not there before.
const ORDINARY: u32 = 0o644;

/// Writes the content in place of what was there, with the same mode. A link stays, and what it points at changes.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(&path).map_or(ORDINARY, |metadata| metadata.permissions().mode() & 0o7777);
    write(&path, content, mode)
}

/// Writes a file that only its owner may read, in a directory that only its owner may enter.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    write(path, content, 0o600)
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(content)?;
    // The mode is set at the end, and not given at the start, because the umask would change it.
    new.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(())
}

/// Why a file could not be written, for a person.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::usage(format!("`{}` cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_and_the_mode_of_its_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left over");
    }
}
