//! What a caller may see and call: patterns over `server/name`, one gate for lists and for calls.

use globset::GlobMatcher;
use tsugi_policy::spelling::{self, PatternReading, any_reading, canonical_uri, plain_spelling};

use crate::gateway::StartError;

/// Allowed and denied names. Denial wins, and a name that no pattern allows is denied. A denial holds for every spelling
/// of a name: in other case, with spaces around it, or with a dot after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPermit {
    allow: Vec<PermitPattern>,
    deny: Vec<PermitPattern>,
}

/// `server/name`, each half a glob. A pattern without a slash means everything of a server. `server/method:name` is about
/// methods that no revision of MCP defines.
#[derive(Debug, Clone)]
struct PermitPattern {
    server: GlobMatcher,
    subject: PatternSubject,
    name: GlobMatcher,
}

/// What the second half of a pattern is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternSubject {
    /// Tools, prompts and addresses.
    Name,
    Method,
}

/// Begins the second half of a pattern that is about methods.
const METHOD: &str = "method:";

impl PartialEq for PermitPattern {
    fn eq(&self, other: &Self) -> bool {
        let parts = |pattern: &Self| (pattern.server.glob().clone(), pattern.subject, pattern.name.glob().clone());
        parts(self) == parts(other)
    }
}

impl Eq for PermitPattern {}

impl Default for AccessPermit {
    /// Allows everything.
    fn default() -> Self {
        Self::new(&["*"], &[]).expect("a star is a pattern")
    }
}

impl AccessPermit {
    /// Reads the patterns. Without any in `allow` nothing is allowed: a list that was emptied by mistake must not open
    /// everything.
    pub fn new<S: AsRef<str>>(allow: &[S], deny: &[S]) -> Result<Self, StartError> {
        Ok(Self { allow: read(allow, PatternReading::Exact)?, deny: read(deny, PatternReading::AnySpelling)? })
    }

    pub fn nothing() -> Self {
        Self { allow: Vec::new(), deny: Vec::new() }
    }

    /// True when this name of this server may be seen and used.
    pub fn allows(&self, server: &str, name: &str) -> bool {
        !self.denies(server, name) && is_in(&self.allow, server, name)
    }

    fn denies(&self, server: &str, name: &str) -> bool {
        // A server that ignores case would run a denied tool under the spelling that no pattern names.
        !self.deny.is_empty() && (is_in(&self.deny, server, name) || is_in(&self.deny, server, &plain_spelling(name)))
    }

    /// True when a method that no revision defines may be sent to this server. What it does is unknown, so a pattern must
    /// name it: `files/*` is about the tools, prompts and resources of `files`.
    pub fn allows_method(&self, server: &str, method: &str) -> bool {
        let is_named =
            |pattern: &PermitPattern| pattern.subject == PatternSubject::Method && pattern.matches(server, method);
        !self.denies_method(server, method) && (self.allow.iter().any(is_named) || self.allows_everything())
    }

    /// True when a pattern denies this method of this server.
    pub fn denies_method(&self, server: &str, method: &str) -> bool {
        self.deny.iter().any(|pattern| match pattern.subject {
            PatternSubject::Method => pattern.matches(server, &plain_spelling(method)),
            // `files` or `files/*` as a denial means everything of a server.
            PatternSubject::Name => pattern.server.is_match(server) && is_star(&pattern.name),
        })
    }

    /// True when no name can be refused.
    pub fn allows_everything(&self) -> bool {
        self.deny.is_empty() && self.allow.iter().any(|pattern| is_star(&pattern.server) && is_star(&pattern.name))
    }

    /// True when this address of this server may be seen and used. Addresses that mean the same are decided alike, and
    /// one with `.` or `..` segments is never allowed: where it leads is for the server to say. A denial also holds for
    /// what a server opens that joins segments, decodes slashes, or drops query and fragment.
    pub fn allows_uri(&self, server: &str, uri: &str) -> bool {
        let Some(canonical) = canonical_uri(uri) else { return false };
        if !self.allows(server, &canonical) {
            return false;
        }
        // Only denials are read this way, so callers without any pay nothing.
        self.deny.is_empty() || !any_reading(&canonical, |reading| self.denies(server, reading))
    }

    /// True when something of this server may be seen: a server of which nothing may be used is not shown.
    pub fn allows_some_of(&self, server: &str) -> bool {
        let is_meant = |pattern: &PermitPattern| pattern.server.is_match(server);
        let is_whole = |pattern: &PermitPattern| {
            is_meant(pattern) && pattern.subject == PatternSubject::Name && is_star(&pattern.name)
        };
        !self.deny.iter().any(is_whole) && self.allow.iter().any(is_meant)
    }
}

fn is_in(patterns: &[PermitPattern], server: &str, name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.subject == PatternSubject::Name && pattern.matches(server, name))
}

fn is_star(glob: &GlobMatcher) -> bool {
    glob.glob().glob() == "*"
}

fn read<S: AsRef<str>>(patterns: &[S], reading: PatternReading) -> Result<Vec<PermitPattern>, StartError> {
    patterns.iter().map(|pattern| PermitPattern::read(pattern.as_ref(), reading)).collect()
}

impl PermitPattern {
    fn read(text: &str, reading: PatternReading) -> Result<Self, StartError> {
        let (server, name) = text.split_once('/').unwrap_or((text, "*"));
        let (subject, name) = match name.strip_prefix(METHOD) {
            Some(method) => (PatternSubject::Method, method),
            None => (PatternSubject::Name, name),
        };
        let named = |glob: Result<GlobMatcher, globset::Error>| {
            glob.map_err(|error| StartError::Pattern { pattern: text.to_owned(), reason: error.kind().to_string() })
        };
        let name = named(spelling::name_glob(name, reading))?;
        Ok(Self { server: named(spelling::server_glob(server))?, subject, name })
    }

    fn matches(&self, server: &str, name: &str) -> bool {
        self.server.is_match(server) && self.name.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_that_no_revision_defines_are_allowed_by_name_alone() {
        let check = |allow: &[&str], deny: &[&str], expected: bool| {
            let permit = AccessPermit::new(allow, deny).unwrap();
            assert_eq!(permit.allows_method("files", "vendor/x"), expected, "{allow:?} {deny:?}");
        };
        check(&["*"], &[], true);
        check(&["files/method:vendor/x"], &[], true);
        check(&["*/method:vendor/*"], &[], true);
        check(&["files"], &[], false);
        check(&["files/*", "files/vendor/x"], &[], false);
        check(&["*"], &["files/write"], false);
        check(&["files/method:vendor/y", "mail/method:*"], &[], false);
        check(&["files/method:*"], &["*/method:vendor/x"], false);
        check(&["files/method:*"], &["files"], false);
        check(&["files/method:*"], &["files/write"], true);
        check(&[], &[], false);
        let permit = AccessPermit::new(&["files/method:*"], &[]).unwrap();
        assert!(
            !permit.allows("files", "method:vendor/x") && !permit.allows("files", "read"),
            "a tool is not a method"
        );
        assert!(permit.allows_some_of("files"));
    }

    #[test]
    fn denial_wins() {
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
        let others = AccessPermit::new(&["*"], &["git"]).unwrap();
        assert!(!others.allows_some_of("git") && others.allows_some_of("files") && !others.allows_everything());
        assert!(AccessPermit::default().allows("any", "thing"));
        assert!(AccessPermit::default().allows_everything());
        assert!(!AccessPermit::new(&["*"], &["*"]).unwrap().allows("any", "thing"));
    }

    #[test]
    fn a_denied_name_is_denied_under_every_spelling_and_an_allowed_one_under_its_own_only() {
        let permit = AccessPermit::new(&["files"], &["files/Delete_all", "*/STRAßE"]).unwrap();
        for name in [
            "Delete_all",
            "delete_all",
            "DELETE_ALL",
            " delete_all",
            "delete_all.",
            "Delete_All.. ",
            "STRASSE",
            "straße",
        ] {
            assert_eq!(permit.allows("files", name), name == "STRASSE", "{name:?}");
        }
        assert!(!permit.allows("files", "STRAßE"), "letters beyond ASCII have two cases too");
        // What is not a spelling of a denied name stays open.
        for name in ["delete_al", "delete all", ".delete_all", "undelete_all"] {
            assert!(permit.allows("files", name), "{name:?}");
        }
        let exact = AccessPermit::new(&["files/read"], &[]).unwrap();
        assert!(exact.allows("files", "read"));
        for name in ["Read", "read.", " read"] {
            assert!(!exact.allows("files", name), "{name:?}");
        }
        let methods = AccessPermit::new(&["files/method:*"], &["files/method:vendor/x"]).unwrap();
        assert!(!methods.allows_method("files", "Vendor/X") && methods.allows_method("files", "vendor/y"));
        let addresses = AccessPermit::new(&["files"], &["files/file:///Secret/*"]).unwrap();
        for uri in ["file:///Secret/a", "FILE:///SECRET/a", "file:///secret/a", "file:///%53ecret/a"] {
            assert!(!addresses.allows_uri("files", uri), "{uri}");
        }
        assert!(addresses.allows_uri("files", "file:///public/a"));
    }

    #[test]
    fn a_denied_address_is_denied_however_a_server_may_read_it() {
        let permit = AccessPermit::new(&["files"], &["files/file:///srv/secret/*", "files/file:///etc/key"]).unwrap();
        for uri in [
            "file:///srv/secret/a",
            "file:///srv//secret/a",
            "file:////srv/secret/a",
            "file:///srv%2Fsecret/a",
            "file:///srv%2fsecret%5ca",
            "file:///srv\\secret\\a",
            "file:///etc/key#x",
            "file:///etc/key?x=1",
            "file:///etc/key%23x",
            "file:///etc/key/",
            "file:///srv/x%2F..%2Fsecret/a",
        ] {
            assert!(!permit.allows_uri("files", uri), "{uri}");
        }
        for uri in ["file:///srv/public//a", "file:///srv/secrets", "file:///etc/keys?x=1", "web://a/https://b/c"] {
            assert!(permit.allows_uri("files", uri), "{uri}");
        }
    }

    #[test]
    fn an_empty_list_of_what_is_allowed_allows_nothing() {
        let permit = AccessPermit::new(&[] as &[&str], &[]).unwrap();
        assert!(!permit.allows("any", "thing") && !permit.allows_some_of("any") && !permit.allows_everything());
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let error = AccessPermit::new(&["files/[a"], &[]).unwrap_err();
        assert!(matches!(error, StartError::Pattern { pattern, .. } if pattern == "files/[a"));
    }

    #[test]
    fn addresses_that_mean_the_same_are_decided_alike() {
        let permit = AccessPermit::new(&["files/FILE:///pub/*", "web/https://Example.com/*"], &["*/*secret*"]).unwrap();
        for (server, uri, expected) in [
            ("files", "file:///pub/a", true),
            ("files", "FILE:///pub/a", true),
            ("files", "file:///pub/a%20b", true),
            ("files", "file:///pub/..a", true),
            ("files", "file:///pub/../etc/passwd", false),
            ("files", "file:///pub/%2e%2E/etc/passwd", false),
            ("files", "file:///pub/.%2e/etc/passwd", false),
            ("files", "file:///pub/x\\..\\..\\etc", false),
            ("files", "file:///pub/./a", false),
            ("files", "file:///pub/%73ecret", false),
            ("web", "https://EXAMPLE.com/x?q=../y", true),
            ("web", "https://example.org/x", false),
        ] {
            assert_eq!(permit.allows_uri(server, uri), expected, "{uri}");
        }
    }
}
