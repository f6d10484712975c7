//! The five revisions of the protocol and the two eras they fall into.

use std::fmt;

/// A protocol revision that tsugi speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// Two-endpoint HTTP+SSE, no header for the version.
    V2024_11_05,
    V2025_03_26,
    /// Elicitation, structured results, version header; no batches.
    V2025_06_18,
    /// Url elicitation, icons, tasks, sampling with tools.
    V2025_11_25,
    V2026_07_28,
}

/// How a peer opens and keeps a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize`, sessions, requests in both directions: up to 2025-11-25.
    Legacy,
    /// Every request stands alone: from 2026-07-28.
    Modern,
}

impl ProtocolVersion {
    /// Every revision, oldest first.
    pub const ALL: [ProtocolVersion; 5] = [
        ProtocolVersion::V2024_11_05,
        ProtocolVersion::V2025_03_26,
        ProtocolVersion::V2025_06_18,
        ProtocolVersion::V2025_11_25,
        ProtocolVersion::V2026_07_28,
    ];
    pub const LATEST: ProtocolVersion = ProtocolVersion::V2026_07_28;
    /// The newest revision that opens with `initialize`.
    pub const LATEST_LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

    /// The date on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolVersion::V2024_11_05 => "2024-11-05",
            ProtocolVersion::V2025_03_26 => "2025-03-26",
            ProtocolVersion::V2025_06_18 => "2025-06-18",
            ProtocolVersion::V2025_11_25 => "2025-11-25",
            ProtocolVersion::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision with this date.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// The era it belongs to.
    pub fn era(self) -> Era {
        if self >= ProtocolVersion::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// The revision to answer an `initialize` with: the one asked for, if it is legacy and known, else our newest.
    pub(crate) fn negotiate_legacy(requested: &str) -> Self {
        Self::parse(requested).filter(|version| version.era() == Era::Legacy).unwrap_or(Self::LATEST_LEGACY)
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Era {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_read_back_and_only_the_newest_is_modern() {
        for version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::parse(version.as_str()), Some(version));
            assert_eq!(version.era() == Era::Modern, version == ProtocolVersion::LATEST);
        }
    }

    #[test]
    fn an_unknown_or_modern_wish_in_initialize_gets_the_newest_legacy_revision() {
        assert_eq!(ProtocolVersion::negotiate_legacy("2024-11-05"), ProtocolVersion::V2024_11_05);
        assert_eq!(ProtocolVersion::negotiate_legacy("2026-07-28"), ProtocolVersion::V2025_11_25);
        assert_eq!(ProtocolVersion::negotiate_legacy("1999-01-01"), ProtocolVersion::V2025_11_25);
    }
}
