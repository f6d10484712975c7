//! Reading lines back: the few members that the chain needs, strictly, and the rest as JSON.

use std::io::{self, BufRead};

use ring::digest;
use serde::Deserialize;

use crate::canonical::hex;
use crate::chain::{ChainHead, LineHash};
use crate::checkpoint::Checkpoint;
use crate::record::AuditKind;

/// No line that we write is longer. A longer one is read as broken, so that a reader's memory is bounded.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Larger numbers are not exact in JSON, and no chain gets there.
const LARGEST_SEQ: u64 = 1 << 53;

/// What stands in the file where a line was cut short.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutFragment {
    pub bytes: u64,
    pub sha256: String,
}

/// The members of a line by which the chain is checked.
#[derive(Debug, Deserialize)]
struct RawChainLine<'a> {
    seq: u64,
    prev: &'a str,
    kind: &'a str,
    time: &'a str,
    #[serde(default)]
    checkpoint: Option<Checkpoint>,
    #[serde(default)]
    cut: Option<CutFragment>,
}

/// A line with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLine {
    pub seq: u64,
    pub prev: LineHash,
    pub hash: LineHash,
    /// `None` for a kind that a newer version writes.
    pub kind: Option<AuditKind>,
    pub time: String,
    pub checkpoint: Option<Checkpoint>,
    pub cut: Option<CutFragment>,
}

impl ChainLine {
    /// Reads a line without its newline; `None` when it is not one of ours.
    pub fn parse(line: &[u8]) -> Option<Self> {
        // Cheap tests first: what stands here may be anything.
        if line.len() > LONGEST_LINE || line.first() != Some(&b'{') {
            return None;
        }
        let raw: RawChainLine<'_> = serde_json::from_slice(line).ok()?;
        // A number from outside must not overflow when the next one is computed.
        if raw.seq > LARGEST_SEQ || raw.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.seq > LARGEST_SEQ) {
            return None;
        }
        Some(Self {
            seq: raw.seq,
            prev: LineHash::parse(raw.prev)?,
            hash: LineHash::of(line),
            kind: AuditKind::parse(raw.kind),
            time: raw.time.to_owned(),
            checkpoint: raw.checkpoint,
            cut: raw.cut,
        })
    }

    pub fn head(&self) -> ChainHead {
        ChainHead { seq: self.seq, hash: self.hash }
    }
}

/// One piece of a file between newlines.
#[derive(Debug, PartialEq, Eq)]
pub struct FilePiece {
    pub bytes: Vec<u8>,
    /// False at the end of a file that does not end with a newline.
    pub is_terminated: bool,
    /// Its length, of which only the beginning is in `bytes` when it is very long.
    pub length: u64,
}

impl FilePiece {
    pub fn is_too_long(&self) -> bool {
        self.length > self.bytes.len() as u64
    }
}

/// The digest of what stands where a line was cut short: the beginnings of its pieces, joined by newlines.
pub(crate) struct FragmentDigest {
    pieces: u64,
    bytes: u64,
    context: digest::Context,
}

impl FragmentDigest {
    pub(crate) fn new() -> Self {
        Self { pieces: 0, bytes: 0, context: digest::Context::new(&digest::SHA256) }
    }

    pub(crate) fn add(&mut self, piece: &FilePiece) {
        // The newline between two pieces belongs to what was cut.
        if self.pieces > 0 {
            self.context.update(b"\n");
            self.bytes += 1;
        }
        self.pieces += 1;
        self.context.update(&piece.bytes);
        self.bytes += piece.length;
    }

    pub(crate) fn finish(self) -> CutFragment {
        CutFragment { bytes: self.bytes, sha256: hex(self.context.finish().as_ref()) }
    }
}

/// Reads the next piece; `None` at the end. A piece longer than any line of ours is skipped, except its beginning.
pub fn next_piece(reader: &mut impl BufRead) -> io::Result<Option<FilePiece>> {
    let mut piece = FilePiece { bytes: Vec::new(), is_terminated: false, length: 0 };
    let mut is_empty = true;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok((!is_empty).then_some(piece));
        }
        is_empty = false;
        let end = available.iter().position(|&byte| byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        // One byte more than a line may have, so that it is known to be too long.
        let room = (LONGEST_LINE + 1).saturating_sub(piece.bytes.len());
        piece.bytes.extend_from_slice(&part[..part.len().min(room)]);
        piece.length += part.len() as u64;
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            piece.is_terminated = true;
            return Ok(Some(piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_whole_and_the_last_one_says_that_it_has_no_end() {
        let mut text: &[u8] = b"a\n\nbc";
        let mut pieces = Vec::new();
        while let Some(piece) = next_piece(&mut text).unwrap() {
            pieces.push((String::from_utf8(piece.bytes).unwrap(), piece.is_terminated));
        }
        assert_eq!(pieces, [("a".to_owned(), true), (String::new(), true), ("bc".to_owned(), false)]);
    }

    #[test]
    fn a_line_without_end_costs_no_more_memory_than_the_longest_line() {
        let text = vec![b'x'; LONGEST_LINE * 3];
        let piece = next_piece(&mut io::BufReader::with_capacity(999, &text[..])).unwrap().unwrap();
        assert!(piece.is_too_long() && !piece.is_terminated);
        assert_eq!(piece.bytes.len(), LONGEST_LINE + 1);
        assert_eq!(ChainLine::parse(&piece.bytes), None);
    }

    #[test]
    fn a_line_needs_its_place_in_the_chain() {
        let prev = LineHash::NONE.to_string();
        let line = format!(r#"{{"kind":"config","prev":"{prev}","seq":1,"time":"t","later":{{}}}}"#);
        assert_eq!(ChainLine::parse(line.as_bytes()).unwrap().seq, 1);
        for bad in
            [line.replace("\"seq\":1", "\"seq\":\"1\""), line.replace(&prev, "00"), format!(" {line}"), "[]".into()]
        {
            assert_eq!(ChainLine::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
