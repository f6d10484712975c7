//! A folder with an audit log in it.

use std::path::{Path, PathBuf};

use tsugi_audit::checkpoint::AuditKey;
use tsugi_audit::file_set::AuditFileSet;
use tsugi_audit::record::{AuditKind, AuditOutcome, AuditRecord};
use tsugi_audit::verify::{ChainVerdict, VerifyOptions, verify_set};
use tsugi_audit::writer::{AuditWriter, WriterConfig};

pub(crate) struct AuditWorld {
    pub(crate) folder: tempfile::TempDir,
}

impl AuditWorld {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    pub(crate) fn files(&self) -> AuditFileSet {
        AuditFileSet::new(self.file())
    }

    pub(crate) fn config(&self) -> WriterConfig {
        WriterConfig::new(self.file())
    }

    pub(crate) fn open(&self) -> AuditWriter {
        self.open_with(|_| {})
    }

    pub(crate) fn open_with(&self, change: impl FnOnce(&mut WriterConfig)) -> AuditWriter {
        let mut config = self.config();
        change(&mut config);
        AuditWriter::open(config, key()).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.file())
    }

    pub(crate) fn verdict(&self) -> ChainVerdict {
        verify_set(&self.files(), &VerifyOptions { key: Some(key().public()), ..VerifyOptions::default() }).unwrap()
    }

    /// A log of some calls that was closed.
    pub(crate) fn with_calls(calls: usize) -> Self {
        let world = Self::new();
        let writer = world.open();
        for call in 0..calls {
            write_call(&writer, &format!("tool{call}"));
        }
        drop(writer);
        world
    }
}

pub(crate) fn key() -> AuditKey {
    AuditKey::from_seed(&[5; 32]).unwrap()
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

pub(crate) fn begun(name: &str) -> AuditRecord<'_> {
    AuditRecord {
        identity: Some("key:ann"),
        action: Some("tools/call"),
        server: Some("files"),
        name: Some(name),
        face: Some("mcp"),
        ..AuditRecord::new(AuditKind::CallBegun)
    }
}

pub(crate) fn write_call(writer: &AuditWriter, name: &str) {
    let seq = writer.require(&begun(name)).unwrap();
    let ended = AuditRecord {
        begun: seq,
        outcome: Some(AuditOutcome::Ok),
        micros: Some(1500),
        ..AuditRecord::new(AuditKind::CallEnded)
    };
    writer.note(&ended);
}
