//! What a caller may see and call: patterns over `server/name`, one gate for lists and for calls.

use globset::{Glob, GlobMatcher};

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {pattern:?} cannot be read: {reason}")]
pub struct PatternError {
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Allowed and denied names. Denial wins; nothing allowed means that everything is.
#[derive(Debug, Clone, Default)]
pub struct AccessPermit {
    allow: Vec<PermitPattern>,
    deny: Vec<PermitPattern>,
}

/// `server/name`, each half a glob. A pattern without a slash means everything of a server.
#[derive(Debug, Clone)]
struct PermitPattern {
    server: GlobMatcher,
    name: GlobMatcher,
}

impl AccessPermit {
    /// Reads the patterns.
    pub fn new<S: AsRef<str>>(allow: &[S], deny: &[S]) -> Result<Self, PatternError> {
        Ok(Self { allow: read(allow)?, deny: read(deny)? })
    }

    /// Nothing at all.
    pub fn nothing() -> Self {
        Self::new(&[] as &[&str], &["*"]).expect("a star is a pattern")
    }

    /// True when this name of this server may be seen and used.
    pub fn allows(&self, server: &str, name: &str) -> bool {
        let is_in = |patterns: &[PermitPattern]| patterns.iter().any(|pattern| pattern.matches(server, name));
        !is_in(&self.deny) && (self.allow.is_empty() || is_in(&self.allow))
    }

    /// True when something of this server may be seen: a server of which nothing may be used is not shown.
    pub fn allows_some_of(&self, server: &str) -> bool {
        let is_meant = |pattern: &PermitPattern| pattern.server.is_match(server);
        let is_whole = |pattern: &PermitPattern| is_meant(pattern) && pattern.name.glob().glob() == "*";
        !self.deny.iter().any(is_whole) && (self.allow.is_empty() || self.allow.iter().any(is_meant))
    }
}

fn read<S: AsRef<str>>(patterns: &[S]) -> Result<Vec<PermitPattern>, PatternError> {
    patterns.iter().map(|pattern| PermitPattern::read(pattern.as_ref())).collect()
}

impl PermitPattern {
    fn read(text: &str) -> Result<Self, PatternError> {
        let (server, name) = text.split_once('/').unwrap_or((text, "*"));
        let glob = |part: &str| {
            Glob::new(part)
                .map(|glob| glob.compile_matcher())
                .map_err(|error| PatternError { pattern: text.to_owned(), reason: error.kind().to_string() })
        };
        Ok(Self { server: glob(server)?, name: glob(name)? })
    }

    fn matches(&self, server: &str, name: &str) -> bool {
        self.server.is_match(server) && self.name.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_wins_and_silence_allows() {
        let permit = AccessPermit::new(&["files/*", "git"], &["files/write*", "*/delete"]).unwrap();
        for (server, tool, expected) in [
            ("files", "read", true),
            ("files", "write_file", false),
            ("files", "delete", false),
            ("files", "a/b", true),
            ("git", "log", true),
            ("Files", "read", false),
            ("shell", "run", false),
        ] {
            assert_eq!(permit.allows(server, tool), expected, "{server}/{tool}");
        }
        for (server, expected) in [("files", true), ("git", true), ("shell", false)] {
            assert_eq!(permit.allows_some_of(server), expected, "{server}");
        }
        assert!(!AccessPermit::new(&[], &["git"]).unwrap().allows_some_of("git"));
        assert!(AccessPermit::default().allows("any", "thing"));
        assert!(!AccessPermit::new(&[], &["*"]).unwrap().allows("any", "thing"));
    }

    #[test]
    fn a_bad_pattern_is_named() {
        assert_eq!(AccessPermit::new(&["files/[a"], &[]).unwrap_err().pattern, "files/[a");
    }
}
