//! Records of running gateways in the state directory, so that other commands find the one that serves their files.
//!
//! A gateway holds a lock on its record for as long as it lives. The kernel releases the lock of a killed process, so a
//! record without one is stale and is removed by the next reader.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// The folder of the records, below the state directory.
const FOLDER: &str = "gateways";
/// How the name of a complete record ends.
const EXTENSION: &str = "json";

/// One running gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GatewayRecord {
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// The configuration file; `None` for built-in and ad-hoc servers.
    pub(crate) config: Option<PathBuf>,
    /// The directory it was started in.
    pub(crate) directory: PathBuf,
}

/// Keeps a gateway's record valid; dropping it removes the record.
#[derive(Debug)]
pub(crate) struct RecordLock {
    path: PathBuf,
    _locked: File,
}

impl GatewayRecord {
    /// How messages name this gateway.
    pub(crate) fn describe(&self) -> String {
        match &self.config {
            Some(config) => format!("{} (pid {}, {})", self.url, self.pid, config.display()),
            None => format!("{} (pid {}, started in {})", self.url, self.pid, self.directory.display()),
        }
    }

    /// Writes the record below `state` and locks it.
    pub(crate) fn publish(&self, state: &Path) -> io::Result<RecordLock> {
        let folder = state.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Process ids are reused: the time keeps a reader from removing a newer process's record as stale.
        let name = format!("{}-{}", self.pid, since_epoch.as_nanos());
        let (unfinished, path) = (folder.join(format!("{name}.new")), folder.join(format!("{name}.{EXTENSION}")));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&unfinished)?;
        // Locked before it gets its final name, so that no reader sees it unlocked.
        file.lock()?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&unfinished, &path)?;
        Ok(RecordLock { path, _locked: file })
    }
}

impl Drop for RecordLock {
    fn drop(&mut self) {
        // A record that stays is recognised as stale.
        let _ = fs::remove_file(&self.path);
    }
}

/// A path without symbolic links, so that two ways to one file compare equal.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The gateways that run now. Stale records are removed.
pub(crate) fn running(state: &Path) -> Vec<GatewayRecord> {
    let entries = fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut records: Vec<GatewayRecord> = paths
        .filter(|path| path.extension().is_some_and(|end| end == EXTENSION))
        .filter_map(|path| read(&path))
        .collect();
    records.sort_by(|one, other| one.url.cmp(&other.url));
    // During a handover two processes share one address.
    records.dedup_by(|one, other| one.url == other.url);
    records
}

fn read(path: &Path) -> Option<GatewayRecord> {
    let file = File::open(path).ok()?;
    // A shared lock, so that two readers do not take each other for the gateway.
    if file.try_lock_shared().is_ok() {
        let _ = fs::remove_file(path);
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(port: u16) -> GatewayRecord {
        GatewayRecord { url: format!("http://127.0.0.1:{port}"), pid: 7, config: None, directory: "/work".into() }
    }

    #[test]
    fn a_record_is_found_while_its_gateway_runs() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(running(state.path()), []);
        let (first, second) = (record(1).publish(state.path()).unwrap(), record(2).publish(state.path()).unwrap());
        assert_eq!(running(state.path()), [record(1), record(2)]);
        drop(first);
        assert_eq!(running(state.path()), [record(2)]);
        drop(second);
        assert_eq!(fs::read_dir(state.path().join(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn the_record_of_a_killed_gateway_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let lock = record(1).publish(state.path()).unwrap();
        // As the kernel does with a killed process: the lock goes, the file stays.
        lock._locked.unlock().unwrap();
        let left = lock.path.clone();
        assert!(left.exists() && running(state.path()).is_empty() && !left.exists());
    }

    #[test]
    fn a_damaged_record_is_ignored() {
        let state = tempfile::tempdir().unwrap();
        let lock = record(1).publish(state.path()).unwrap();
        fs::write(&lock.path, "{").unwrap();
        assert_eq!(running(state.path()), []);
    }
}
