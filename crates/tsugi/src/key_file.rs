//! The keys that `tsugi key` manages: a file in the state directory that holds digests, never keys.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole, SecretDigest};
use tsugi_protocol::answer::identity::TenantName;

use crate::app::gateway;
use crate::atomic_file;
use crate::config::parse;
use crate::config::settings::ToolFilter;
use crate::failure::CommandFailure;

/// The file's name.
const NAME: &str = "keys.json";

/// Where the keys are kept.
#[derive(Debug, Clone)]
pub(crate) struct KeyFile {
    directory: PathBuf,
}

/// Everything in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeyFileContent {
    pub(crate) keys: Vec<StoredKey>,
}

/// One key, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredKey {
    pub(crate) name: String,
    /// The SHA-256 of the key, in hexadecimal.
    pub(crate) hash: String,
    #[serde(default)]
    pub(crate) admin: bool,
    /// It may look at the dashboard and do nothing else.
    #[serde(default)]
    pub(crate) read_only: bool,
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    #[serde(default)]
    pub(crate) deny: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_minute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_in_flight: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// When it ends, in the form that the configuration has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
    /// When it was made, in seconds since 1970.
    pub(crate) created: u64,
}

impl KeyFile {
    /// In this state directory.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        KeyFile { directory: directory.to_owned() }
    }

    /// The file itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// Creates the directory if it is missing, for its owner alone, and returns it.
    pub(crate) fn make_directory(&self) -> io::Result<&Path> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        Ok(&self.directory)
    }

    /// What is kept now. A file that cannot be read is a failure, since without it the door would stand open.
    pub(crate) fn read(&self) -> Result<KeyFileContent, CommandFailure> {
        match fs::read(self.path()) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| self.unusable(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KeyFileContent::default()),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// Changes what is kept, one at a time, all or nothing.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut KeyFileContent) -> Result<T, CommandFailure>,
    ) -> Result<T, CommandFailure> {
        let _turn = self.wait_for_turn().map_err(|error| self.unusable(&error))?;
        let mut keys = self.read()?;
        let result = change(&mut keys)?;
        self.write(&keys).map_err(|error| self.unusable(&error))?;
        Ok(result)
    }

    /// Held until it is dropped; others wait.
    fn wait_for_turn(&self) -> io::Result<File> {
        let path = self.make_directory()?.join("keys.lock");
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    fn write(&self, keys: &KeyFileContent) -> io::Result<()> {
        atomic_file::write_private(&self.path(), &serde_json::to_vec_pretty(keys)?)
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> CommandFailure {
        CommandFailure::usage(format!("the keys in `{}` cannot be used: {error}", self.path().display()))
    }
}

impl KeyFileContent {
    /// As the gateway wants them.
    pub(crate) fn to_gateway(&self) -> Result<Vec<ApiKey>, CommandFailure> {
        self.keys.iter().map(StoredKey::to_gateway).collect()
    }
}

impl StoredKey {
    /// What it is for.
    pub(crate) fn role(&self) -> KeyRole {
        match (self.read_only, self.admin) {
            (true, _) => KeyRole::Reader,
            (false, true) => KeyRole::Admin,
            (false, false) => KeyRole::User,
        }
    }

    fn to_gateway(&self) -> Result<ApiKey, CommandFailure> {
        let unreadable = || CommandFailure::usage(format!("the stored key `{}` has no usable hash", self.name));
        let key = ApiKey::of_digest(&self.name, SecretDigest::parse(&self.hash).ok_or_else(unreadable)?);
        let key = self.tenant.as_deref().map(TenantName::new).into_iter().fold(key, ApiKey::of_tenant);
        // An end that cannot be read must not make the key last for ever.
        let endless = || CommandFailure::usage(format!("the stored key `{}` has no usable `expires`", self.name));
        let until = self.expires.as_deref().map(parse::moment).transpose().map_err(|_| endless())?;
        let key = until.into_iter().fold(key, ApiKey::until);
        let role = self.role();
        // A key that was added without `--allow` may use everything that `--deny` leaves.
        let allow = if self.allow.is_empty() { vec!["*".to_owned()] } else { self.allow.clone() };
        let filter = ToolFilter { allow, deny: self.deny.clone() };
        gateway::limited(key.with_role(role), &filter, self.per_minute, self.max_in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> StoredKey {
        let hash = "0".repeat(64);
        StoredKey {
            name: name.into(),
            hash,
            admin: false,
            read_only: false,
            allow: vec![],
            deny: vec![],
            per_minute: None,
            max_in_flight: None,
            tenant: None,
            expires: None,
            created: 0,
        }
    }

    #[test]
    fn what_is_stored_comes_back_and_nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::in_directory(&directory.path().join("new"));
        assert!(file.read().unwrap().keys.is_empty());
        let added = file.change(|keys| {
            keys.keys.push(stored("ann"));
            Ok(())
        });
        added.unwrap();
        assert_eq!(file.read().unwrap().keys, [stored("ann")]);
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::in_directory(directory.path());
        let failed = file.change(|keys| {
            keys.keys.push(stored("ann"));
            Err::<(), _>(CommandFailure::usage("no"))
        });
        assert!(failed.is_err() && file.read().unwrap().keys.is_empty());
    }

    #[test]
    fn a_damaged_file_does_not_open_the_door() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::in_directory(directory.path());
        fs::write(file.path(), "{").unwrap();
        assert!(file.read().is_err());
    }
}
