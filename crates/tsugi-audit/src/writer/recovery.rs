//! Where the chain ended when the last writer did, however it ended.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::AuditOpenError;
use crate::canonical::CanonicalObject;
use crate::chain::ChainHead;
use crate::file_set::AuditFileSet;
use crate::reader::{ChainLine, CutFragment, FragmentDigest, LONGEST_LINE, next_piece};
use crate::record::{AuditKind, AuditRecord, LogMembers, PreparedLine};
use crate::timestamp::AuditTime;

/// How much of a file's end is searched for its last whole line. A power loss may leave that much behind it.
const SEARCHED: u64 = 64 << 20;

pub(super) struct RecoveredChain {
    pub(super) lock: File,
    pub(super) head: ChainHead,
    /// What stands after the last whole line of the current file.
    pub(super) cut: Option<CutFragment>,
    pub(super) needs_newline: bool,
    /// The first line of the current file, when it has one.
    pub(super) first_seq: Option<u64>,
    pub(super) day: Option<u64>,
}

/// The end of one file.
struct FileEnd {
    last: Option<ChainLine>,
    cut: Option<CutFragment>,
    needs_newline: bool,
}

pub(super) fn recover(files: &AuditFileSet) -> Result<RecoveredChain, AuditOpenError> {
    let path = files.current();
    let failed = |error| AuditOpenError::File { file: path.to_owned(), error };
    std::fs::create_dir_all(files.folder()).map_err(failed)?;
    let lock = files.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => AuditOpenError::Owned { file: path.to_owned() },
        _ => failed(error),
    })?;
    let end = read_end(path).map_err(failed)?;
    if let Some(last) = end.last {
        let first = first_line(path).map_err(failed)?;
        return Ok(RecoveredChain {
            lock,
            head: last.head(),
            cut: end.cut,
            needs_newline: end.needs_newline,
            first_seq: first.as_ref().map(|line| line.seq),
            day: first.and_then(|line| AuditTime::parse(&line.time)).map(AuditTime::day),
        });
    }
    // No line of ours, but text: a file of something else, unless it is the first half of a first line.
    let is_half_line = end.cut.as_ref().is_none_or(|cut| end.needs_newline && cut.bytes <= LONGEST_LINE as u64);
    if !is_half_line {
        return Err(AuditOpenError::Foreign { file: path.to_owned() });
    }
    // A crash between two files leaves the end of the chain in the one before.
    let before = files.finished_files().map_err(failed)?.pop();
    let head = match before {
        None => ChainHead::EMPTY,
        Some((_, before)) => match read_end(&before).map_err(failed)?.last {
            Some(last) => last.head(),
            None => return Err(AuditOpenError::Foreign { file: before }),
        },
    };
    Ok(RecoveredChain { lock, head, cut: end.cut, needs_newline: end.needs_newline, first_seq: None, day: None })
}

/// The line that accounts for what stands before it.
pub(super) fn gap_of_cut(cut: &CutFragment) -> PreparedLine {
    let mut text = CanonicalObject::with_capacity(128);
    text.integer("bytes", cut.bytes);
    text.string("sha256", &cut.sha256);
    let members = LogMembers { checkpoint: None, cut: Some(&text.finish()) };
    PreparedLine::of_log(&AuditRecord::new(AuditKind::Gap), AuditTime::now(), &members)
}

fn first_line(path: &Path) -> io::Result<Option<ChainLine>> {
    let piece = next_piece(&mut BufReader::new(File::open(path)?))?;
    Ok(piece.and_then(|piece| ChainLine::parse(&piece.bytes)))
}

/// Finds the last whole line, looking further back until there is one.
fn read_end(path: &Path) -> io::Result<FileEnd> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(FileEnd { last: None, cut: None, needs_newline: false });
        }
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let mut window = (2 * LONGEST_LINE) as u64;
    loop {
        let start = length.saturating_sub(window);
        let end = read_end_from(&mut file, start)?;
        if end.last.is_some() || start == 0 || window >= SEARCHED {
            return Ok(end);
        }
        window *= 8;
    }
}

fn read_end_from(file: &mut File, start: u64) -> io::Result<FileEnd> {
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(LONGEST_LINE, file.take(u64::MAX));
    if start > 0 {
        // The window begins somewhere within a line.
        next_piece(&mut reader)?;
    }
    let mut end = FileEnd { last: None, cut: None, needs_newline: false };
    let mut fragment: Option<FragmentDigest> = None;
    while let Some(piece) = next_piece(&mut reader)? {
        end.needs_newline = !piece.is_terminated;
        match ChainLine::parse(&piece.bytes).filter(|_| !piece.is_too_long()) {
            Some(line) => {
                // A fragment before a whole line has its gap already.
                fragment = None;
                end.last = Some(line);
            }
            None => fragment.get_or_insert_with(FragmentDigest::new).add(&piece),
        }
    }
    end.cut = fragment.map(FragmentDigest::finish);
    Ok(end)
}
