//! The era and framing of each server and whether it asks, cached on disk so that the next start need not find out.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::mcp::Era;

use crate::config::ConnectTarget;

const FILE: &str = "eras.json";
/// How many servers are remembered. The oldest entry makes room.
const MOST: usize = 200;

/// What a handshake found out about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownEra {
    pub(crate) era: Era,
    pub(crate) framing: FramingKind,
}

impl KnownEra {
    /// A server that frames messages as lines, or has no stream.
    pub(crate) fn of(era: Era) -> Self {
        Self { era, framing: FramingKind::Line }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "modern" => Some(Self::of(Era::Modern)),
            "legacy" => Some(Self::of(Era::Legacy)),
            "modern content-length" => Some(Self { framing: FramingKind::ContentLength, ..Self::of(Era::Modern) }),
            "legacy content-length" => Some(Self { framing: FramingKind::ContentLength, ..Self::of(Era::Legacy) }),
            _ => None,
        }
    }

    fn text(self) -> String {
        match self.framing {
            FramingKind::Line => self.era.as_str().to_owned(),
            FramingKind::ContentLength => format!("{} content-length", self.era.as_str()),
        }
    }
}

/// The cache. Without a directory it lasts as long as the process.
#[derive(Debug)]
pub(crate) struct EraCache {
    file: Option<PathBuf>,
    /// Fingerprints and what was found out, oldest first.
    known: Mutex<Vec<(String, String)>>,
}

impl EraCache {
    /// Reads the cache. A file that cannot be read counts as empty.
    pub(crate) fn open(state_dir: Option<&PathBuf>) -> Self {
        let file = state_dir.map(|dir| dir.join(FILE));
        let text = file.as_ref().and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        Self { file, known: Mutex::new(serde_json::from_slice(&text).unwrap_or_default()) }
    }

    pub(crate) fn get(&self, target: &ConnectTarget) -> Option<KnownEra> {
        let key = fingerprint(target)?;
        let known = self.known.lock();
        KnownEra::parse(&known.iter().find(|(known, _)| *known == key)?.1)
    }

    /// Remembers an entry. If it cannot be written, the next start finds out again.
    pub(crate) fn set(&self, target: &ConnectTarget, known: KnownEra) {
        if let Some(key) = fingerprint(target) {
            self.insert(key, known.text());
        }
    }

    fn insert(&self, key: String, value: String) {
        let fresh = (key, value);
        let text = {
            let mut known = self.known.lock();
            // Spares the disk at every start.
            if known.contains(&fresh) {
                return;
            }
            // Moves the entry to the end, since the oldest makes room.
            known.retain(|(key, _)| *key != fresh.0);
            known.push(fresh);
            let too_many = known.len().saturating_sub(MOST);
            known.drain(..too_many);
            serde_json::to_vec_pretty(&*known).unwrap_or_default()
        };
        self.write(&text);
    }

    /// Removes an entry that proved wrong.
    pub(crate) fn forget(&self, target: &ConnectTarget) {
        if let Some(key) = fingerprint(target) {
            self.known.lock().retain(|(known, _)| *known != key);
        }
    }

    fn write(&self, text: &[u8]) {
        let Some(file) = &self.file else { return };
        let folder = file.parent().unwrap_or(file);
        let written = (|| {
            std::fs::create_dir_all(folder)?;
            let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
            fresh.write_all(text)?;
            // Renamed at the end, so that a reader never sees half of it.
            fresh.persist(file)?;
            Ok::<(), std::io::Error>(())
        })();
        if let Err(error) = written {
            tracing::debug!(%error, "the cache of eras could not be written");
        }
    }
}

/// Whether a server asks questions without saying which call they belong to. It outlives connections and runs.
#[derive(Debug)]
pub(crate) struct AskingRecord {
    is_known: AtomicBool,
    /// An entry of its own: one that was found wrong about the era is still right about this.
    key: Option<String>,
    cache: Arc<EraCache>,
}

impl AskingRecord {
    pub(crate) fn open(cache: &Arc<EraCache>, target: &ConnectTarget) -> Self {
        let key = fingerprint(target).map(|key| format!("{key} asks"));
        let is_known = key.as_ref().is_some_and(|key| cache.known.lock().iter().any(|(known, _)| known == key));
        Self { is_known: is_known.into(), key, cache: cache.clone() }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Relaxed)
    }

    pub(crate) fn set_known(&self) {
        // Spares the disk with every further question.
        if !self.is_known.swap(true, Relaxed)
            && let Some(key) = &self.key
        {
            self.cache.insert(key.clone(), "yes".to_owned());
        }
    }
}

/// A digest of the program or address, so that no secret is written to disk. It is the same for every account.
fn fingerprint(target: &ConnectTarget) -> Option<String> {
    place(target).map(|place| hidden(&place))
}

/// The same with the account: variables and headers hold the token, and another account may offer other tools.
pub(crate) fn fingerprint_of_account(target: &ConnectTarget) -> Option<String> {
    let account = match target {
        ConnectTarget::Stdio(command) => format!("{:?}", command.env),
        ConnectTarget::Http(http)
        | ConnectTarget::StreamableHttp(http)
        | ConnectTarget::Sse(http)
        | ConnectTarget::PlainRpc(http)
        | ConnectTarget::WebSocket(http) => {
            // As bytes: headers that are marked as secret all print the same.
            let headers = http.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            let credential = http.credential.as_ref().map(|credential| credential.label()).unwrap_or_default();
            format!("{:?}{credential}", headers.collect::<Vec<_>>())
        }
        ConnectTarget::InProcess(_) | ConnectTarget::Link(_) => return None,
    };
    place(target).map(|place| hidden(&format!("{place}\n{account}")))
}

fn place(target: &ConnectTarget) -> Option<String> {
    match target {
        ConnectTarget::Stdio(command) => Some(format!("{:?}\n{:?}\n{:?}", command.program, command.args, command.cwd)),
        ConnectTarget::Http(http)
        | ConnectTarget::StreamableHttp(http)
        | ConnectTarget::Sse(http)
        | ConnectTarget::PlainRpc(http)
        | ConnectTarget::WebSocket(http) => Some(http.url.to_string()),
        ConnectTarget::InProcess(_) | ConnectTarget::Link(_) => None,
    }
}

fn hidden(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_process::JobCommand;

    #[test]
    fn what_was_learned_survives_a_restart_and_can_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let target = ConnectTarget::stdio(JobCommand::new("server").arg("--secret=hunter2"));
        let counted = KnownEra { era: Era::Legacy, framing: FramingKind::ContentLength };
        for known in [KnownEra::of(Era::Modern), counted, KnownEra::of(Era::Legacy)] {
            EraCache::open(Some(&path)).set(&target, known);
            assert_eq!(EraCache::open(Some(&path)).get(&target), Some(known));
        }
        let memory = EraCache::open(Some(&path));
        assert_eq!(memory.get(&ConnectTarget::stdio(JobCommand::new("server"))), None);
        memory.forget(&target);
        assert_eq!(memory.get(&target), None);
        assert!(!std::fs::read_to_string(path.join(FILE)).unwrap().contains("hunter2"));
    }

    #[test]
    fn a_server_that_asked_is_known_to_ask_in_the_next_run_even_when_its_era_was_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Arc::new(EraCache::open(Some(&dir.path().to_owned())));
        let target = ConnectTarget::stdio(JobCommand::new("server"));
        let record = AskingRecord::open(&open(), &target);
        assert!(!record.is_known());
        record.set_known();
        assert!(record.is_known());
        let cache = open();
        cache.set(&target, KnownEra::of(Era::Legacy));
        cache.forget(&target);
        cache.set(&target, KnownEra::of(Era::Modern));
        assert!(AskingRecord::open(&open(), &target).is_known());
        assert_eq!(open().get(&target), Some(KnownEra::of(Era::Modern)));
        assert!(!AskingRecord::open(&open(), &ConnectTarget::stdio(JobCommand::new("other"))).is_known());
    }

    #[test]
    fn only_so_many_servers_are_remembered_and_the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let target = |number: usize| ConnectTarget::stdio(JobCommand::new("server").arg(number.to_string()));
        let memory = EraCache::open(Some(&path));
        (0..=MOST).for_each(|number| memory.set(&target(number), KnownEra::of(Era::Modern)));
        let memory = EraCache::open(Some(&path));
        assert_eq!(memory.known.lock().len(), MOST);
        let (legacy, modern) = (KnownEra::of(Era::Legacy), KnownEra::of(Era::Modern));
        assert_eq!((memory.get(&target(0)), memory.get(&target(MOST))), (None, Some(modern)));
        memory.set(&target(1), legacy);
        memory.set(&target(MOST + 1), modern);
        assert_eq!((memory.get(&target(1)), memory.get(&target(2))), (Some(legacy), None));
    }
}
