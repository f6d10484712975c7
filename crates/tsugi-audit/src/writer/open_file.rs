//! The file that is written now, and how far it is known to be good.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use super::recovery::RecoveredChain;
use crate::chain::ChainHead;
use crate::file_set::{AuditFileSet, open_for_append, sync_folder};
use crate::timestamp::AuditTime;

pub(super) struct OpenAuditFile {
    file: Arc<File>,
    /// Held for as long as there is a writer.
    lock: File,
    /// The length up to the end of the last whole line.
    length: u64,
    head: ChainHead,
    unsigned: u64,
    /// The `seq` of the first line in this file.
    first_seq: u64,
    day: u64,
    /// True when bytes of a failed write stand after `length`.
    is_torn: bool,
    spare: Vec<u8>,
}

impl OpenAuditFile {
    pub(super) fn new(recovered: RecoveredChain, files: &AuditFileSet) -> io::Result<Self> {
        let file = open_for_append(files.current())?;
        sync_folder(files.folder())?;
        if recovered.needs_newline {
            (&file).write_all(b"\n")?;
        }
        let length = file.metadata()?.len();
        Ok(Self {
            file: Arc::new(file),
            lock: recovered.lock,
            length,
            head: recovered.head,
            // What is there already may be unsigned; the first checkpoint covers it.
            unsigned: 0,
            first_seq: recovered.first_seq.unwrap_or(recovered.head.seq + 1),
            day: recovered.day.unwrap_or_else(|| AuditTime::now().day()),
            is_torn: false,
            spare: Vec::with_capacity(4096),
        })
    }

    pub(super) fn head(&self) -> ChainHead {
        self.head
    }

    pub(super) fn unsigned(&self) -> u64 {
        self.unsigned
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn day(&self) -> u64 {
        self.day
    }

    pub(super) fn handle(&self) -> Arc<File> {
        self.file.clone()
    }

    /// Lets another writer take the files.
    pub(super) fn release(&self) {
        let _ = rustix::fs::flock(&self.lock, rustix::fs::FlockOperation::Unlock);
    }

    pub(super) fn take_spare(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    pub(super) fn give_spare(&mut self, spare: Vec<u8>) {
        // A burst must not keep its memory.
        if spare.capacity() <= 1 << 20 {
            self.spare = spare;
        }
    }

    /// Appends whole lines, or nothing: what a failed write left is cut off again.
    pub(super) fn write(&mut self, lines: &[u8], head: ChainHead, unsigned: u64) -> io::Result<()> {
        if self.is_torn {
            self.cut_back()?;
        }
        match (&*self.file).write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                self.head = head;
                self.unsigned = unsigned;
                Ok(())
            }
            Err(error) => {
                self.is_torn = true;
                // When this fails too it is tried before the next write; a gap explains it after a crash.
                let _ = self.cut_back();
                Err(error)
            }
        }
    }

    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.is_torn = false;
        Ok(())
    }

    /// True when this is still the file that the path names.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), std::fs::metadata(path)) else { return false };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }

    /// Goes on in a new file. The old one gets the name of a finished one, unless another program has moved it.
    pub(super) fn replace(&mut self, files: &AuditFileSet) -> io::Result<String> {
        // Made first: when there is no room for a new file the old one stays as it is.
        let fresh_path = files.beside(".new");
        let _ = std::fs::remove_file(&fresh_path);
        let fresh = open_for_append(&fresh_path)?;
        let mut finished = String::new();
        if self.is_at(files.current()) {
            let path = files.finished(self.first_seq);
            std::fs::rename(files.current(), &path)?;
            finished = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        std::fs::rename(&fresh_path, files.current())?;
        sync_folder(files.folder())?;
        self.file = Arc::new(fresh);
        self.length = 0;
        self.first_seq = self.head.seq + 1;
        self.day = AuditTime::now().day();
        self.is_torn = false;
        Ok(finished)
    }
}
