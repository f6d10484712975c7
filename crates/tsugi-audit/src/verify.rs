//! Tells whether a chain is whole, broken or cut, and where.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use crate::chain::{ChainHead, LineHash};
use crate::checkpoint::{AuditPublicKey, Checkpoint, CheckpointReason};
use crate::file_set::AuditFileSet;
use crate::reader::{ChainLine, FilePiece, FragmentDigest, LONGEST_LINE, next_piece};
use crate::record::{AuditKind, AuditRecord, LogMembers, PreparedLine};
use crate::timestamp::AuditTime;

/// What is known beside the files.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// The key that must have signed every checkpoint.
    pub key: Option<AuditPublicKey>,
    /// A checkpoint that was kept elsewhere. The chain must contain its line.
    pub from: Option<Checkpoint>,
    /// True when a writer has the last file now, so that its end may be unsigned.
    pub is_open: bool,
}

/// What a whole chain contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSummary {
    pub lines: u64,
    pub first_seq: u64,
    pub head: ChainHead,
    pub checkpoints: u64,
    /// Lines after the last checkpoint.
    pub unsigned: u64,
    /// Places where a line was cut short or lines could not be written, as the chain itself says.
    pub gaps: u64,
    pub last_checkpoint: Option<Checkpoint>,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainVerdict {
    Whole(ChainSummary),
    /// A line was changed, removed, added or moved.
    Broken(ChainBreak),
    /// What is there is whole, but the end is missing or cannot be told from one that was removed.
    Cut(ChainSummary, CutReason),
}

impl ChainVerdict {
    /// The exit code of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            ChainVerdict::Whole(_) => 0,
            ChainVerdict::Broken(_) => 1,
            ChainVerdict::Cut(..) => 2,
        }
    }
}

/// Where a chain breaks first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainBreak {
    /// The first line that is not as it was written.
    pub seq: u64,
    pub file: String,
    /// Its number within the file, from 1.
    pub line: u64,
    pub reason: BreakReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BreakReason {
    #[error("it is not a line of an audit file")]
    Unreadable,
    #[error("its hash is not what the next line says")]
    Changed,
    #[error("its `prev` is not the hash of the line before it")]
    Detached,
    #[error("it is missing")]
    Missing,
    #[error("another line stands in its place")]
    Moved,
    #[error("its signature does not hold")]
    BadSignature,
    #[error("it is signed by another key")]
    OtherKey,
    #[error("the checkpoint that was kept elsewhere has another hash for it")]
    OtherCheckpoint,
    #[error("the gap that it reports is not the one before it")]
    OtherGap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CutReason {
    #[error("the last line is incomplete")]
    HalfLine,
    #[error("the chain ends before the checkpoint that was kept elsewhere")]
    BeforeCheckpoint,
    #[error("the end is not signed, and no gateway is writing: the gateway was killed, or the end was removed")]
    NoClosing,
    #[error("there is no line")]
    Empty,
}

/// Verifies files in the order of the chain.
pub fn verify_files(files: &[impl AsRef<Path>], options: &VerifyOptions) -> io::Result<ChainVerdict> {
    let mut verifier = ChainVerifier::new(options.clone());
    for file in files {
        let name = file.as_ref().display().to_string();
        let mut reader = BufReader::with_capacity(LONGEST_LINE, File::open(file.as_ref())?);
        if let Some(broken) = verifier.read(&name, &mut reader)? {
            return Ok(ChainVerdict::Broken(broken));
        }
    }
    Ok(verifier.finish())
}

/// Verifies every file of a set. Whether its end may be unsigned is found out by its lock.
pub fn verify_set(set: &AuditFileSet, options: &VerifyOptions) -> io::Result<ChainVerdict> {
    let is_open = set.has_writer();
    verify_files(&set.files()?, &VerifyOptions { is_open, ..options.clone() })
}

/// A line whose successor is not known yet, so that it is not known which of two is the wrong one.
struct DoubtfulPair {
    before: ChainBreak,
    after: ChainBreak,
    after_hash: LineHash,
}

/// Reads a chain piece by piece.
pub struct ChainVerifier {
    options: VerifyOptions,
    head: Option<ChainHead>,
    /// Where the last good line stands.
    last: (String, u64),
    /// Bytes since the last line that are not a line; only a gap may explain them.
    fragment: Option<UnexplainedFragment>,
    doubt: Option<DoubtfulPair>,
    is_half: bool,
    last_reason: Option<CheckpointReason>,
    has_met_checkpoint: bool,
    summary: ChainSummary,
}

/// Where the bytes stand that a gap must explain.
struct UnexplainedFragment {
    digest: FragmentDigest,
    file: String,
    line: u64,
}

impl ChainVerifier {
    pub fn new(options: VerifyOptions) -> Self {
        let summary = ChainSummary {
            lines: 0,
            first_seq: 0,
            head: ChainHead::EMPTY,
            checkpoints: 0,
            unsigned: 0,
            gaps: 0,
            last_checkpoint: None,
        };
        Self {
            options,
            head: None,
            last: (String::new(), 0),
            fragment: None,
            doubt: None,
            is_half: false,
            last_reason: None,
            has_met_checkpoint: false,
            summary,
        }
    }

    /// Reads one file; gives the first break.
    pub fn read(&mut self, file: &str, reader: &mut impl io::BufRead) -> io::Result<Option<ChainBreak>> {
        let mut number = 0;
        while let Some(piece) = next_piece(reader)? {
            number += 1;
            // Only the last file may end in the middle of a line.
            if let Some(broken) = self.settle_half_line() {
                return Ok(Some(broken));
            }
            self.is_half = !piece.is_terminated;
            let parsed = if piece.is_too_long() { None } else { ChainLine::parse(&piece.bytes) };
            let broken = match parsed {
                Some(line) => self.line(file, number, &line, &piece.bytes),
                None => {
                    self.fragment(file, number, &piece);
                    None
                }
            };
            if broken.is_some() {
                return Ok(broken);
            }
        }
        Ok(None)
    }

    fn next_seq(&self) -> u64 {
        self.head.map_or(self.summary.first_seq.max(1), |head| head.seq + 1)
    }

    fn settle_half_line(&mut self) -> Option<ChainBreak> {
        let is_open_half = self.is_half && self.fragment.is_none();
        is_open_half.then(|| self.at_last(BreakReason::Unreadable))
    }

    fn at_last(&self, reason: BreakReason) -> ChainBreak {
        ChainBreak { seq: self.next_seq() - 1, file: self.last.0.clone(), line: self.last.1, reason }
    }

    fn fragment(&mut self, file: &str, number: u64, piece: &FilePiece) {
        let fragment = self.fragment.get_or_insert_with(|| UnexplainedFragment {
            digest: FragmentDigest::new(),
            file: file.to_owned(),
            line: number,
        });
        fragment.digest.add(piece);
    }

    fn line(&mut self, file: &str, number: u64, line: &ChainLine, text: &[u8]) -> Option<ChainBreak> {
        let here = |seq, reason| ChainBreak { seq, file: file.to_owned(), line: number, reason };
        if let Some(doubt) = self.doubt.take() {
            // The line after a mismatch decides: when it confirms the second, the first was changed.
            let is_second_whole = line.prev == doubt.after_hash;
            return Some(if is_second_whole { doubt.before } else { doubt.after });
        }
        if let Some(broken) = self.check_fragment(line) {
            return Some(broken);
        }
        // Before the first line nothing can be compared, except with what was kept elsewhere.
        let Some(head) = self.head else {
            return self.first(file, number, line, text);
        };
        // The numbers first: they tell a missing line from a changed one.
        let expected = head.seq + 1;
        if line.seq > expected {
            // A swapped pair shows the later line first, and so does a removed line. Both name the one that is not here.
            return Some(here(expected, BreakReason::Missing));
        }
        if line.seq < expected {
            return Some(here(line.seq, BreakReason::Moved));
        }
        if line.prev != head.hash {
            let before = ChainBreak {
                seq: head.seq,
                file: self.last.0.clone(),
                line: self.last.1,
                reason: BreakReason::Changed,
            };
            // A checkpoint says by its signature which of the two is as it was written.
            if let Some(checkpoint) = line.checkpoint.as_ref().filter(|checkpoint| checkpoint.is_signed()) {
                let is_before_whole = checkpoint.head() == Some(head);
                return Some(if is_before_whole { here(line.seq, BreakReason::Detached) } else { before });
            }
            if self.last_reason.is_some() {
                return Some(here(line.seq, BreakReason::Detached));
            }
            let after = here(line.seq, BreakReason::Detached);
            self.doubt = Some(DoubtfulPair { before, after, after_hash: line.hash });
            return None;
        }
        self.accept(file, number, line, text)
    }

    fn first(&mut self, file: &str, number: u64, line: &ChainLine, text: &[u8]) -> Option<ChainBreak> {
        self.summary.first_seq = line.seq;
        let broken = |reason| Some(ChainBreak { seq: line.seq, file: file.to_owned(), line: number, reason });
        // A chain that begins must begin with nothing; one whose older files are gone may begin anywhere.
        if line.seq == 0 || (line.seq == 1) != (line.prev == LineHash::NONE) {
            return broken(BreakReason::Detached);
        }
        let kept = self.options.from.as_ref().and_then(Checkpoint::head);
        if let Some(kept) = kept.filter(|kept| kept.seq.saturating_add(1) < line.seq) {
            let seq = kept.seq + 1;
            return Some(ChainBreak { seq, file: file.to_owned(), line: number, reason: BreakReason::Missing });
        }
        if let Some(before) = kept.filter(|kept| kept.seq.saturating_add(1) == line.seq) {
            if line.prev != before.hash {
                return broken(BreakReason::OtherCheckpoint);
            }
            self.has_met_checkpoint = true;
        }
        self.accept(file, number, line, text)
    }

    fn accept(&mut self, file: &str, number: u64, line: &ChainLine, text: &[u8]) -> Option<ChainBreak> {
        let broken = |reason| Some(ChainBreak { seq: line.seq, file: file.to_owned(), line: number, reason });
        // Until the next checkpoint this line is unsigned.
        self.last_reason = None;
        self.summary.unsigned += 1;
        if line.kind == Some(AuditKind::Checkpoint) {
            if let Some(reason) = self.checkpoint_fault(line, text) {
                return broken(reason);
            }
            self.summary.checkpoints += 1;
            self.summary.unsigned = 0;
            self.last_reason = line.checkpoint.as_ref().map(|checkpoint| checkpoint.reason);
            self.summary.last_checkpoint.clone_from(&line.checkpoint);
        } else if line.checkpoint.is_some() {
            return broken(BreakReason::BadSignature);
        }
        if line.kind == Some(AuditKind::Gap) {
            self.summary.gaps += 1;
        }
        if let Some(kept) = self.options.from.as_ref().and_then(Checkpoint::head)
            && kept.seq == line.seq
        {
            if kept.hash != line.hash {
                return broken(BreakReason::OtherCheckpoint);
            }
            self.has_met_checkpoint = true;
        }
        self.head = Some(line.head());
        self.last = (file.to_owned(), number);
        self.summary.lines += 1;
        self.summary.head = line.head();
        None
    }

    /// A checkpoint signs the line before it, and every byte of its own line follows from what is signed.
    fn checkpoint_fault(&self, line: &ChainLine, text: &[u8]) -> Option<BreakReason> {
        let Some(checkpoint) = &line.checkpoint else { return Some(BreakReason::BadSignature) };
        // The wrong key first: its signature may well be good.
        if self.options.key.is_some_and(|key| checkpoint.key() != Some(key)) {
            return Some(BreakReason::OtherKey);
        }
        let signs_line_before = checkpoint.head() == Some(ChainHead { seq: line.seq.wrapping_sub(1), hash: line.prev });
        let is_good = signs_line_before && checkpoint.is_signed() && checkpoint_line(checkpoint) == Some(text.to_vec());
        (!is_good).then_some(BreakReason::BadSignature)
    }

    /// What is not a line must be what the gap after it describes.
    fn check_fragment(&mut self, line: &ChainLine) -> Option<ChainBreak> {
        let fragment = self.fragment.take();
        let described = line.cut.as_ref().filter(|_| line.kind == Some(AuditKind::Gap));
        match (fragment, described) {
            (None, None) => None,
            (Some(fragment), Some(cut)) => {
                let is_same = *cut == fragment.digest.finish();
                let (file, line) = (fragment.file, fragment.line);
                (!is_same).then(|| ChainBreak { seq: self.next_seq(), file, line, reason: BreakReason::OtherGap })
            }
            (Some(fragment), None) => Some(ChainBreak {
                seq: self.next_seq(),
                file: fragment.file,
                line: fragment.line,
                reason: BreakReason::Unreadable,
            }),
            (None, Some(_)) => Some(self.at_last(BreakReason::OtherGap)),
        }
    }

    /// The verdict, once every file was read.
    pub fn finish(self) -> ChainVerdict {
        if let Some(doubt) = self.doubt {
            return ChainVerdict::Broken(doubt.before);
        }
        let is_open = self.options.is_open;
        let reason = match (&self.fragment, self.head) {
            // An unreadable line that has an end was not cut short by us: only its lack of a newline shows that.
            (Some(fragment), _) if !self.is_half => {
                let (seq, file, line) = (self.next_seq(), fragment.file.clone(), fragment.line);
                return ChainVerdict::Broken(ChainBreak { seq, file, line, reason: BreakReason::Unreadable });
            }
            (None, None) => Some(CutReason::Empty),
            _ if self.is_half => Some(CutReason::HalfLine),
            _ if self.options.from.is_some() && !self.has_met_checkpoint => Some(CutReason::BeforeCheckpoint),
            _ => {
                let is_closed = matches!(self.last_reason, Some(CheckpointReason::Stop | CheckpointReason::Rotate));
                (!is_closed && !is_open).then_some(CutReason::NoClosing)
            }
        };
        match reason {
            Some(reason) => ChainVerdict::Cut(self.summary, reason),
            None => ChainVerdict::Whole(self.summary),
        }
    }
}

/// The one line that a checkpoint can have.
fn checkpoint_line(checkpoint: &Checkpoint) -> Option<Vec<u8>> {
    let (head, time) = (checkpoint.head()?, AuditTime::parse(&checkpoint.time)?);
    let members = LogMembers { checkpoint: Some(&checkpoint.to_canonical()), cut: None };
    let mut line = Vec::new();
    PreparedLine::of_log(&AuditRecord::new(AuditKind::Checkpoint), time, &members).splice(
        &mut line,
        &head.hash.0,
        head.seq.saturating_add(1),
    );
    Some(line)
}
