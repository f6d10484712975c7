//! What a scripted server saw and did, written down line by line and read from outside.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::wait;

const JOURNAL: &str = "journal.jsonl";

/// Writes a journal. Lines are appended in one write each, so that several processes may share a file.
#[derive(Debug)]
pub struct Writer {
    file: Option<Mutex<File>>,
    folder: Option<PathBuf>,
}

impl Writer {
    /// In this folder; without one nothing is written.
    pub fn new(folder: Option<&Path>) -> std::io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self { file: None, folder: None }) };
        std::fs::create_dir_all(folder)?;
        let file = OpenOptions::new().create(true).append(true).open(folder.join(JOURNAL))?;
        Ok(Self { file: Some(Mutex::new(file)), folder: Some(folder.to_owned()) })
    }

    /// Adds an entry.
    pub fn write(&self, event: &str, details: Value) {
        let Some(file) = &self.file else { return };
        let line = format!("{}\n", json!({"event": event, "pid": std::process::id(), "details": details}));
        // A journal that cannot be written is a test that will fail for lack of entries.
        file.lock().write_all(line.as_bytes()).ok();
    }

    /// How often this server was started with the same folder, this time included.
    pub fn launch(&self) -> u64 {
        self.folder.as_ref().map_or(1, |folder| Journal::at(folder).launches())
    }

    /// How often an effect has happened in all launches.
    pub fn effects(&self, of: &str) -> usize {
        self.folder.as_ref().map_or(0, |folder| Journal::at(folder).effects(of))
    }
}

/// Reads a journal. Every question reads the file anew.
#[derive(Debug, Clone)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// The journal in this state folder.
    pub fn at(folder: &Path) -> Self {
        Self { path: folder.join(JOURNAL) }
    }

    /// All entries so far. A line that is still being written is left out.
    pub fn entries(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The details of all entries of one kind: `launch`, `received`, `cancelled`, `effect`, `answered`,
    /// `asked`, `told` (an answer to a question), `eof`, `signal`, `http`, `gone`.
    pub fn of(&self, event: &str) -> Vec<Value> {
        let entries = self.entries().into_iter().filter(|entry| entry["event"] == event);
        entries.map(|mut entry| entry["details"].take()).collect()
    }

    /// How often it was started.
    pub fn launches(&self) -> u64 {
        self.of("launch").len() as u64
    }

    /// The process of each launch.
    pub fn pids(&self) -> Vec<u32> {
        let launches = self.entries().into_iter().filter(|entry| entry["event"] == "launch");
        launches.filter_map(|entry| entry["pid"].as_u64()).map(|pid| pid as u32).collect()
    }

    /// The messages with this method that arrived.
    pub fn received(&self, method: &str) -> Vec<Value> {
        self.of("received").into_iter().filter(|message| message["method"] == method).collect()
    }

    /// How often a tool had its effect.
    pub fn effects(&self, of: &str) -> usize {
        self.of("effect").iter().filter(|effect| **effect == of).count()
    }

    /// The ids of requests that were cancelled.
    pub fn cancelled(&self) -> Vec<Value> {
        self.of("cancelled")
    }

    /// Waits until the journal is as wanted; false when it is not in time.
    pub async fn until(&self, mut condition: impl FnMut(&Journal) -> bool) -> bool {
        wait::until(|| condition(self)).await
    }

    /// The same for tests without a runtime.
    pub fn until_blocking(&self, limit: Duration, mut condition: impl FnMut(&Journal) -> bool) -> bool {
        wait::until_blocking(limit, || condition(self))
    }
}
