//! Reads lines as they are written, across rotations, from any position: the file itself is the queue of every sink.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::file_set::AuditFileSet;
use crate::reader::{ChainLine, next_piece};

/// A line that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedLine {
    pub seq: u64,
    pub text: String,
}

/// Reads a chain from the line after `seq` on.
pub struct LineFollower {
    files: AuditFileSet,
    /// The last line that was given out.
    seq: u64,
    open: Option<FollowedFile>,
}

struct FollowedFile {
    reader: BufReader<File>,
    /// Where the next line begins.
    offset: u64,
    inode: u64,
}

impl LineFollower {
    pub fn new(files: AuditFileSet, seq: u64) -> Self {
        Self { files, seq, open: None }
    }

    /// The last line that was given out.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Gives out lines from this position again.
    pub fn rewind(&mut self, seq: u64) {
        self.seq = seq;
        self.open = None;
    }

    /// The next lines: at most so many, and about so many bytes. Empty when there are no more yet.
    pub fn next_batch(&mut self, lines: usize, bytes: usize) -> io::Result<Vec<FollowedLine>> {
        let mut batch = Vec::new();
        let mut size = 0;
        loop {
            while batch.len() < lines && size < bytes {
                let Some(line) = self.next_in_file()? else { break };
                size += line.text.len();
                batch.push(line);
            }
            let Some(inode) = self.open.as_ref().map(|place| place.inode) else { return Ok(batch) };
            if !batch.is_empty() || self.is_current(inode) {
                return Ok(batch);
            }
            // The file is finished. Lines may have come between the last read and its end.
            match self.next_in_file()? {
                Some(line) => batch.push(line),
                None => self.open = self.find()?,
            }
            if batch.is_empty() && self.open.as_ref().is_none_or(|place| place.inode == inode) {
                return Ok(batch);
            }
        }
    }

    fn is_current(&self, inode: u64) -> bool {
        std::fs::metadata(self.files.current()).is_ok_and(|current| current.ino() == inode)
    }

    fn next_in_file(&mut self) -> io::Result<Option<FollowedLine>> {
        if self.open.is_none() {
            self.open = self.find()?;
        }
        let Some(place) = &mut self.open else { return Ok(None) };
        loop {
            let Some(piece) = next_piece(&mut place.reader)? else { return Ok(None) };
            if !piece.is_terminated {
                // The rest of the line is on its way; it is read again from its beginning.
                place.reader.seek(SeekFrom::Start(place.offset))?;
                return Ok(None);
            }
            place.offset += piece.length + 1;
            let Some(line) = ChainLine::parse(&piece.bytes) else { continue };
            if line.seq > self.seq
                && let Ok(text) = String::from_utf8(piece.bytes)
            {
                self.seq = line.seq;
                return Ok(Some(FollowedLine { seq: line.seq, text }));
            }
        }
    }

    /// Opens the file that has the line after the position.
    fn find(&self) -> io::Result<Option<FollowedFile>> {
        let finished = self.files.finished_files()?;
        // The last file whose first line is not after the wanted one, unless the current file begins before it too.
        let wanted = self.seq + 1;
        let mut path: Option<PathBuf> = None;
        if first_seq(&self.files)?.is_some_and(|first| first <= wanted) {
            path = Some(self.files.current().to_owned());
        }
        if path.is_none() {
            path = finished.iter().rev().find(|(first, _)| *first <= wanted).map(|(_, path)| path.clone());
        }
        // Older files may be gone: begin with what there is.
        let path = path.or_else(|| finished.first().map(|(_, path)| path.clone()));
        let path = path.unwrap_or_else(|| self.files.current().to_owned());
        match File::open(path) {
            Ok(file) => {
                let inode = file.metadata()?.ino();
                Ok(Some(FollowedFile { reader: BufReader::new(file), offset: 0, inode }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The `seq` of the first line of the current file.
fn first_seq(files: &AuditFileSet) -> io::Result<Option<u64>> {
    match File::open(files.current()) {
        Ok(file) => {
            let piece = next_piece(&mut BufReader::new(file))?;
            Ok(piece.and_then(|piece| ChainLine::parse(&piece.bytes)).map(|line| line.seq))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
