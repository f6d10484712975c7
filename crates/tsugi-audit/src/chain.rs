//! The chain: each line carries the SHA-256 of the line before it.

use std::fmt;

use ring::digest;

use crate::canonical::{from_hex, hex};

/// The SHA-256 of a line without its newline.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineHash(pub(crate) [u8; 32]);

impl LineHash {
    /// What the first line of a chain has as `prev`.
    pub const NONE: LineHash = LineHash([0; 32]);

    pub fn of(line: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, line).as_ref());
        Self(hash)
    }

    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The last line of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    /// 0 when there is no line yet.
    pub seq: u64,
    pub hash: LineHash,
}

impl ChainHead {
    pub const EMPTY: ChainHead = ChainHead { seq: 0, hash: LineHash::NONE };
}
