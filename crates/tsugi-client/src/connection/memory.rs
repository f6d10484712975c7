//! Which era each server speaks, remembered on disk so that the next start need not ask.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tsugi_protocol::mcp::Era;

use crate::config::Target;

const FILE: &str = "eras.json";

/// The memory. Without a directory it lasts as long as the process.
#[derive(Debug)]
pub(crate) struct EraMemory {
    file: Option<PathBuf>,
    known: Mutex<BTreeMap<String, String>>,
}

impl EraMemory {
    /// Reads what is there; a file that cannot be read is an empty memory.
    pub(crate) fn open(state_dir: Option<&PathBuf>) -> Self {
        let file = state_dir.map(|dir| dir.join(FILE));
        let text = file.as_ref().and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        Self { file, known: Mutex::new(serde_json::from_slice(&text).unwrap_or_default()) }
    }

    /// What is known about this server.
    pub(crate) fn get(&self, target: &Target) -> Option<Era> {
        match self.known.lock().get(&fingerprint(target)?)?.as_str() {
            "modern" => Some(Era::Modern),
            "legacy" => Some(Era::Legacy),
            _ => None,
        }
    }

    /// Remembers. What cannot be written is asked again next time.
    pub(crate) fn set(&self, target: &Target, era: Era) {
        let Some(key) = fingerprint(target) else { return };
        let text = {
            let mut known = self.known.lock();
            if known.get(&key).is_some_and(|known| known == era.as_str()) {
                return;
            }
            known.insert(key, era.as_str().to_owned());
            serde_json::to_vec_pretty(&*known).unwrap_or_default()
        };
        self.write(&text);
    }

    /// Forgets: the memory proved wrong.
    pub(crate) fn forget(&self, target: &Target) {
        if let Some(key) = fingerprint(target) {
            self.known.lock().remove(&key);
        }
    }

    fn write(&self, text: &[u8]) {
        let Some(file) = &self.file else { return };
        let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
        let written = std::fs::create_dir_all(file.parent().unwrap_or(file))
            .and_then(|()| std::fs::write(&temporary, text))
            .and_then(|()| std::fs::rename(&temporary, file));
        if let Err(error) = written {
            tracing::debug!(%error, "what was found out about servers could not be written");
        }
    }
}

/// A digest of what makes it the same server, so that no secret is written down.
pub(crate) fn fingerprint(target: &Target) -> Option<String> {
    let text = match target {
        Target::Stdio(command) => format!("{:?}\n{:?}\n{:?}", command.program, command.args, command.cwd),
        Target::Http(http) | Target::StreamableHttp(http) | Target::Sse(http) | Target::WebSocket(http) => {
            http.url.to_string()
        }
        Target::InProcess(_) | Target::Link(_) => return None,
    };
    Some(URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_process::Command;

    #[test]
    fn what_was_learned_survives_a_restart_and_can_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let target = Target::stdio(Command::new("server").arg("--secret=hunter2"));
        EraMemory::open(Some(&path)).set(&target, Era::Legacy);
        let memory = EraMemory::open(Some(&path));
        assert_eq!(memory.get(&target), Some(Era::Legacy));
        assert_eq!(memory.get(&Target::stdio(Command::new("server"))), None);
        memory.forget(&target);
        assert_eq!(memory.get(&target), None);
        assert!(!std::fs::read_to_string(path.join(FILE)).unwrap().contains("hunter2"));
    }
}
