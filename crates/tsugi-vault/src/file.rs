//! A vault in one file, for all processes of one user on one machine.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tsugi_oauth::record::CredentialKey;
use tsugi_oauth::store::{CredentialStore, RecordBytes, StoreLock, StoreProblem};
use zeroize::Zeroizing;

use crate::key_source::{self, VaultKeyRing, VaultKeySource};
use crate::lock::FileLock;
use crate::seal::{VaultKey, VaultProblem};

/// The largest file that is read: thousands of records.
const MAX_FILE: u64 = 64 << 20;
const VERSION: u32 = 1;

/// A vault in a file. Records are sealed; which servers and owners there are is not secret.
#[derive(Clone)]
pub struct FileVault {
    path: Arc<Path>,
    keys: Arc<VaultKeySource>,
}

/// The file: sealed records by the text of their key.
#[derive(Serialize, Deserialize)]
struct VaultFile {
    version: u32,
    records: BTreeMap<String, String>,
}

impl FileVault {
    /// A vault at `path`. Nothing is made before the first record: then its folder with mode 0700, the file, and the key
    /// file where the key is to be in one.
    pub fn new(path: impl Into<PathBuf>, keys: VaultKeySource) -> Self {
        let path: PathBuf = path.into();
        Self { path: path.into(), keys: Arc::new(keys) }
    }

    /// Whose records there are.
    pub fn owners(&self) -> Result<Vec<CredentialKey>, VaultProblem> {
        Ok(self.load()?.records.keys().filter_map(|text| CredentialKey::parse(text)).collect())
    }

    /// Seals every record again: with a new key where the key is in a file, else with the first of the given ones. All or
    /// nothing: one record that does not open changes nothing. A process that is killed at any point leaves keys that
    /// open every record.
    pub fn rekey(&self) -> Result<usize, VaultProblem> {
        self.prepare()?;
        let _lock = FileLock::wait(&self.beside("lock"))?;
        match &*self.keys {
            VaultKeySource::Given(ring) => self.seal_again(ring),
            VaultKeySource::File(path) => {
                let before = key_source::read(path)?;
                let new = VaultKey::generate()?;
                let both =
                    before.map_or_else(|| new.clone(), |before| Zeroizing::new(format!("{}\n{}", *new, *before)));
                key_source::write(path, &both)?;
                let count = self.seal_again(&VaultKeyRing::parse(&both)?)?;
                key_source::write(path, &new)?;
                Ok(count)
            }
        }
    }

    fn seal_again(&self, ring: &VaultKeyRing) -> Result<usize, VaultProblem> {
        let mut file = self.load()?;
        for (owner, sealed) in &mut file.records {
            let record = ring.open(owner, &decode(sealed)?)?;
            *sealed = STANDARD.encode(ring.seal(owner, &record)?);
        }
        if !file.records.is_empty() {
            self.replace(&file)?;
        }
        Ok(file.records.len())
    }

    /// Makes the folder.
    fn prepare(&self) -> Result<(), VaultProblem> {
        match self.path.parent() {
            Some(folder) => fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed),
            None => Ok(()),
        }
    }

    fn read_record(&self, owner: &str) -> Result<Option<RecordBytes>, VaultProblem> {
        match self.load()?.records.get(owner) {
            Some(sealed) => self.keys.load()?.open(owner, &decode(sealed)?).map(Some),
            None => Ok(None),
        }
    }

    fn write_record(&self, owner: &str, record: Option<RecordBytes>) -> Result<(), VaultProblem> {
        self.prepare()?;
        let _lock = FileLock::wait(&self.beside("lock"))?;
        let mut file = self.load()?;
        match record {
            Some(record) => {
                // A new key for records that another one sealed would hide that theirs is gone.
                let keys = if file.records.is_empty() { self.keys.load_or_create() } else { self.keys.load() };
                let sealed = STANDARD.encode(keys?.seal(owner, &record)?);
                drop(file.records.insert(owner.to_owned(), sealed));
            }
            None if file.records.remove(owner).is_none() => return Ok(()),
            None => {}
        }
        self.replace(&file)
    }

    fn load(&self) -> Result<VaultFile, VaultProblem> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(VaultFile { version: VERSION, records: BTreeMap::new() });
            }
            Err(error) => return Err(failed(error)),
        };
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text).map_err(failed)?;
        let read: VaultFile = serde_json::from_slice(&text).map_err(|_| VaultProblem::Damaged)?;
        if read.version == VERSION { Ok(read) } else { Err(VaultProblem::Damaged) }
    }

    /// Writes a new file beside the old one and puts it in its place, so that a reader sees either of them whole.
    fn replace(&self, file: &VaultFile) -> Result<(), VaultProblem> {
        let text = serde_json::to_vec_pretty(file).map_err(|_| VaultProblem::Damaged)?;
        let draft = self.beside("new");
        // What a process that was killed left behind may have another mode.
        let _ = fs::remove_file(&draft);
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
        new.write_all(&text).and_then(|()| new.sync_all()).map_err(failed)?;
        fs::rename(&draft, &self.path).map_err(failed)?;
        // The new name must survive a power cut too: a rotated token exists nowhere else.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(format!(".{ending}"));
        path.into()
    }
}

fn decode(sealed: &str) -> Result<Vec<u8>, VaultProblem> {
    STANDARD.decode(sealed).map_err(|_| VaultProblem::Damaged)
}

fn failed(error: std::io::Error) -> VaultProblem {
    VaultProblem::File(error.kind())
}

/// Runs file work where it may block.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, VaultProblem> + Send + 'static,
) -> BoxFuture<'static, Result<T, StoreProblem>> {
    Box::pin(async {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|problem| StoreProblem(problem.to_string())),
            Err(_) => Err(StoreProblem("the vault's task ended".to_owned())),
        }
    })
}

impl CredentialStore for FileVault {
    fn read<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<RecordBytes>, StoreProblem>> {
        let (vault, owner) = (self.clone(), key.to_string());
        blocking(move || vault.read_record(&owner))
    }

    fn write<'a>(
        &'a self,
        key: &'a CredentialKey,
        record: Option<RecordBytes>,
    ) -> BoxFuture<'a, Result<(), StoreProblem>> {
        let (vault, owner) = (self.clone(), key.to_string());
        blocking(move || vault.write_record(&owner, record))
    }

    /// One file per key: a slow issuer delays only those who wait for its token.
    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn StoreLock>, StoreProblem>> {
        let name = URL_SAFE_NO_PAD.encode(digest(&SHA256, key.to_string().as_bytes()));
        let path = self.beside(&format!("{name}.lock"));
        let vault = self.clone();
        blocking(move || {
            vault.prepare()?;
            Ok(Box::new(FileLock::wait(&path)?) as Box<dyn StoreLock>)
        })
    }
}
