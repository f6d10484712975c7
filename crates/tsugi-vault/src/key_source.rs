//! Where the key of a vault comes from: a given text, or a file that is made when it is first needed.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::seal::{VaultKey, VaultProblem};

/// The largest key file that is read: a few keys.
const MAX_FILE: u64 = 4096;

/// The keys of a vault: the first seals, all of them open.
pub struct VaultKeyRing {
    seals: VaultKey,
    /// Keys from before, until everything is sealed again.
    before: Vec<VaultKey>,
}

impl VaultKeyRing {
    pub fn new(seals: VaultKey, before: Vec<VaultKey>) -> Self {
        Self { seals, before }
    }

    /// Keys one per line, the newest first.
    pub fn parse(text: &str) -> Result<Self, VaultProblem> {
        let mut keys = text.lines().filter(|line| !line.trim().is_empty()).map(VaultKey::parse);
        let seals = keys.next().ok_or(VaultProblem::BadKey)??;
        Ok(Self { seals, before: keys.collect::<Result<_, _>>()? })
    }

    pub(crate) fn seal(&self, owner: &str, record: &[u8]) -> Result<Vec<u8>, VaultProblem> {
        self.seals.seal(owner, record)
    }

    pub(crate) fn open(&self, owner: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultProblem> {
        let first = self.seals.open(owner, sealed);
        let others = self.before.iter().map(|key| key.open(owner, sealed));
        // Of several failures the first is told: it is that of the key that holds now.
        others.fold(first, |opened, other| opened.or_else(|problem| other.map_err(|_| problem)))
    }
}

/// Where the keys come from.
pub enum VaultKeySource {
    Given(VaultKeyRing),
    /// A file of mode 0600. It is read each time, so that a key that was replaced holds at once in every process.
    File(PathBuf),
}

/// Keys, for as long as they are needed.
pub(crate) enum LoadedKeys<'a> {
    Given(&'a VaultKeyRing),
    Read(Box<VaultKeyRing>),
}

impl std::ops::Deref for LoadedKeys<'_> {
    type Target = VaultKeyRing;

    fn deref(&self) -> &VaultKeyRing {
        match self {
            Self::Given(ring) => ring,
            Self::Read(ring) => ring,
        }
    }
}

impl VaultKeySource {
    /// The keys; a file must be there.
    pub(crate) fn load(&self) -> Result<LoadedKeys<'_>, VaultProblem> {
        match self {
            Self::Given(ring) => Ok(LoadedKeys::Given(ring)),
            Self::File(path) => {
                let text = read(path)?.ok_or(VaultProblem::NoKey)?;
                Ok(LoadedKeys::Read(Box::new(VaultKeyRing::parse(&text)?)))
            }
        }
    }

    /// The keys; a file is made if it is not there. The vault's lock is held.
    pub(crate) fn load_or_create(&self) -> Result<LoadedKeys<'_>, VaultProblem> {
        if let Self::File(path) = self
            && read(path)?.is_none()
        {
            write(path, &VaultKey::generate()?)?;
        }
        self.load()
    }
}

/// The text of a key file.
pub(crate) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, VaultProblem> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

/// Puts a key file in place of what there is, whole or not at all.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), VaultProblem> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(text.trim().as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
    file.sync_all().and_then(|()| fs::rename(&draft, path)).map_err(failed)
}

fn failed(error: std::io::Error) -> VaultProblem {
    VaultProblem::File(error.kind())
}
