//! Other programs' files as they were before tsugi changed them, and the servers that were moved out of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::atomic_file;
use crate::config::adapter::ClientProgram;
use crate::config::adapter::tsugi_entry::{MovedServer, PointedFile, put_back};
use crate::config::document::ConfigDocument;

/// The list of changed files.
const INDEX: &str = "index.json";

/// The directory with the old files and their index.
pub(crate) struct ClientBackups {
    directory: PathBuf,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientBackup {
    pub(crate) path: PathBuf,
    /// The program that owns the file, as on the command line.
    pub(crate) client: String,
    /// The name of a file beside the index that holds the content before the first change.
    backup: String,
    /// The digest of what we wrote.
    written: String,
    /// Whether no other program wrote to the file between our first change and our last one. Only then are the old
    /// bytes still the right ones.
    is_exact: bool,
    /// The maps that got an entry of ours, as the keys that lead to them.
    sections: Vec<Vec<String>>,
    moved: Vec<MovedServer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoreOutcome {
    /// The file has its old bytes.
    Bytes,
    /// The file was changed since, so only the servers were put back.
    Servers,
    /// The file was changed since and cannot be edited safely, so it was left alone.
    ChangedSince,
}

impl ClientBackups {
    /// In this state directory.
    pub(crate) fn in_directory(state: &Path) -> Self {
        ClientBackups { directory: state.join("backups") }
    }

    /// The changed files, oldest first.
    pub(crate) fn list(&self) -> io::Result<Vec<ClientBackup>> {
        match fs::read(self.directory.join(INDEX)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Changes a file, after its old content and the moved servers are safe.
    pub(crate) fn change(
        &self,
        path: &Path,
        client: ClientProgram,
        old: &[u8],
        section: &[String],
        new: PointedFile,
    ) -> io::Result<()> {
        let mut backups = self.list()?;
        let written = digest(new.text.as_bytes());
        match backups.iter_mut().find(|backup| backup.path == path) {
            Some(backup) => {
                // Bytes that we did not write are another program's work, and restoring the old file would lose them.
                backup.is_exact &= digest(old) == backup.written;
                backup.written = written;
                backup.add(section, new.moved);
            }
            None => {
                let backup = backup_name(path);
                atomic_file::write_private(&self.directory.join(&backup), old)?;
                let (path, client) = (path.to_owned(), client.word().to_owned());
                let (sections, moved) = (vec![section.to_vec()], new.moved);
                backups.push(ClientBackup { path, client, backup, written, is_exact: true, sections, moved });
            }
        }
        // The index first: a change that no entry records could not be undone.
        self.write(&backups)?;
        atomic_file::replace(path, new.text.as_bytes())
    }

    /// Restores one file and forgets it: the old bytes if no other program wrote to it, else the servers alone. With
    /// `force` the old bytes in any case; the present content is then kept beside the file, with `.bak` at the
    /// end of its name.
    pub(crate) fn restore(&self, backup: &ClientBackup, force: bool) -> io::Result<RestoreOutcome> {
        let old_path = self.directory.join(&backup.backup);
        let old = fs::read(&old_path)?;
        // A deleted file counts as an empty one, which differs from what we wrote.
        let now = fs::read(&backup.path).unwrap_or_default();
        let is_untouched = backup.is_exact && digest(&now) == backup.written || now == old;
        let outcome = match backup.servers_put_back(&now) {
            _ if is_untouched => {
                atomic_file::replace(&backup.path, &old)?;
                RestoreOutcome::Bytes
            }
            _ if force => {
                atomic_file::write_private(&beside(&backup.path), &now)?;
                atomic_file::replace(&backup.path, &old)?;
                RestoreOutcome::Bytes
            }
            Some(text) => {
                atomic_file::replace(&backup.path, text.as_bytes())?;
                RestoreOutcome::Servers
            }
            None => return Ok(RestoreOutcome::ChangedSince),
        };
        let rest: Vec<ClientBackup> = self.list()?.into_iter().filter(|other| other != backup).collect();
        self.write(&rest)?;
        // Last, so that a failure above leaves the old bytes for another attempt.
        fs::remove_file(old_path)?;
        Ok(outcome)
    }

    fn write(&self, backups: &[ClientBackup]) -> io::Result<()> {
        atomic_file::write_private(&self.directory.join(INDEX), &serde_json::to_vec_pretty(backups)?)
    }
}

impl ClientBackup {
    /// What people call the program.
    pub(crate) fn program(&self) -> &str {
        self.owner().map_or(self.client.as_str(), |client| client.name())
    }

    fn owner(&self) -> Option<ClientProgram> {
        ClientProgram::ALL.into_iter().find(|client| client.word() == self.client)
    }

    fn add(&mut self, section: &[String], moved: Vec<MovedServer>) {
        if self.sections.iter().all(|known| known != section) {
            self.sections.push(section.to_vec());
        }
        self.moved.extend(moved);
    }

    /// The present text of the file with the moved servers in it again.
    fn servers_put_back(&self, now: &[u8]) -> Option<String> {
        let (client, text) = (self.owner()?, std::str::from_utf8(now).ok()?);
        let document = ConfigDocument::parse(&self.path, text.to_owned(), client.format()).ok()?;
        put_back(&document, client, &self.sections, &self.moved)
    }
}

/// The name of a copy beside a file.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".bak");
    path.with_file_name(name)
}

/// A different name for each path.
fn backup_name(path: &Path) -> String {
    // Files of two programs may share a name, such as `mcp.json`. The digest of the path tells them apart.
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
    use crate::config::adapter::tsugi_entry::{TsugiEntry, point};
    use crate::config::adapter::{ImportContext, import};

    const ORIGINAL: &str =
        "{ // mine\r\n \"mcpServers\": {\"git\": {\"command\": \"uvx\"}, \"off\": {\"command\": \"x\"}} }";

    struct ClientFixture {
        _folder: tempfile::TempDir,
        path: PathBuf,
        backups: ClientBackups,
    }

    fn fixture() -> ClientFixture {
        let folder = tempfile::tempdir().unwrap();
        let (path, backups) = (folder.path().join("mcp.json"), ClientBackups::in_directory(folder.path()));
        fs::write(&path, ORIGINAL).unwrap();
        ClientFixture { _folder: folder, path, backups }
    }

    /// Points the file at tsugi in place of one server.
    fn take(fixture: &ClientFixture, key: &str) {
        let text = fs::read_to_string(&fixture.path).unwrap();
        let imports =
            import(&fixture.path, text.clone(), Some(ClientProgram::Cursor), &ImportContext::default()).unwrap();
        let document = ConfigDocument::parse(&fixture.path, text.clone(), ClientProgram::Cursor.format()).unwrap();
        let entry = TsugiEntry::Stdio("tsugi".into(), vec!["stdio".into()]);
        let pointed = point(&document, &imports[0], &[key], &entry).unwrap();
        let section = ["mcpServers".to_owned()];
        fixture.backups.change(&fixture.path, ClientProgram::Cursor, text.as_bytes(), &section, pointed).unwrap();
    }

    fn restore(fixture: &ClientFixture, force: bool) -> RestoreOutcome {
        let backup = fixture.backups.list().unwrap().remove(0);
        fixture.backups.restore(&backup, force).unwrap()
    }

    #[test]
    fn a_file_that_only_we_changed_comes_back_byte_for_byte() {
        let fixture = fixture();
        take(&fixture, "git");
        take(&fixture, "off");
        assert_eq!(restore(&fixture, false), RestoreOutcome::Bytes);
        assert_eq!(fs::read_to_string(&fixture.path).unwrap(), ORIGINAL);
        assert!(fixture.backups.list().unwrap().is_empty());
    }

    #[test]
    fn a_file_that_was_changed_since_gets_its_servers_back_and_keeps_the_rest() {
        let fixture = fixture();
        take(&fixture, "git");
        let now = fs::read_to_string(&fixture.path).unwrap();
        let now =
            now.replace("\"mcpServers\": {", "\"numStartups\": 8, \"mcpServers\": {\"new\": {\"command\": \"n\"},");
        fs::write(&fixture.path, now).unwrap();
        assert_eq!(restore(&fixture, false), RestoreOutcome::Servers);
        let text = fs::read_to_string(&fixture.path).unwrap();
        for part in ["// mine", "numStartups", "\"new\"", "\"off\"", "\"git\": {\"command\": \"uvx\"}"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("tsugi"), "{text}");
    }

    #[test]
    fn a_server_that_was_added_between_two_changes_comes_back_too() {
        let fixture = fixture();
        take(&fixture, "git");
        let now = fs::read_to_string(&fixture.path).unwrap();
        fs::write(&fixture.path, now.replace("\"mcpServers\": {", "\"mcpServers\": {\"late\": {\"command\": \"l\"},"))
            .unwrap();
        take(&fixture, "late");
        assert_eq!(restore(&fixture, false), RestoreOutcome::Servers);
        let text = fs::read_to_string(&fixture.path).unwrap();
        assert!(text.contains("\"late\"") && text.contains("\"git\""), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_read_any_more_is_left_alone_unless_forced() {
        let fixture = fixture();
        take(&fixture, "git");
        fs::write(&fixture.path, "not JSON").unwrap();
        assert_eq!(restore(&fixture, false), RestoreOutcome::ChangedSince);
        assert_eq!(fs::read_to_string(&fixture.path).unwrap(), "not JSON");
        assert_eq!(restore(&fixture, true), RestoreOutcome::Bytes);
        assert_eq!(fs::read_to_string(&fixture.path).unwrap(), ORIGINAL);
        assert_eq!(fs::read_to_string(beside(&fixture.path)).unwrap(), "not JSON");
    }
}
