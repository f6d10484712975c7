//! Which scopes a call needs, by what it names: `files/write*` may need more than the rest of `files`.

use tsugi_auth::scope::ScopeSet;

use crate::gateway::StartError;
use crate::guard::permit::AccessPermit;

/// The rules in the order of the configuration. A call needs the scopes of every rule that fits it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeRules(Vec<ScopeRule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ScopeRule {
    /// Everything but what the rule is about. A rule must err on the other side than a permit: an address that cannot be
    /// compared, such as one with `..` in it, needs every scope instead of none.
    others: AccessPermit,
    scopes: ScopeSet,
}

/// What a call names, as the server's catalog has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScopeSubject<'a> {
    /// A tool or a prompt.
    Name(&'a str),
    Address(&'a str),
    /// A method that no revision of MCP defines.
    Method(&'a str),
}

impl ScopeRules {
    /// Rules of a pattern as permits have it, and the scopes that it needs.
    pub fn new<'a>(rules: impl IntoIterator<Item = (&'a str, ScopeSet)>) -> Result<Self, StartError> {
        let rule = |(pattern, scopes)| {
            let others = AccessPermit::new(&["*", "*/method:*"], &[pattern])?;
            Ok(ScopeRule { others, scopes })
        };
        rules.into_iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every scope that some rule asks for.
    pub(crate) fn all(&self) -> ScopeSet {
        self.0.iter().fold(ScopeSet::default(), |all, rule| all.union(&rule.scopes))
    }

    /// What a call needs beside the base scopes; `None` when `has` holds for all of it, which costs no allocation.
    pub(crate) fn missing(
        &self,
        server: &str,
        subject: ScopeSubject<'_>,
        has: impl Fn(&str) -> bool,
    ) -> Option<ScopeSet> {
        let mut fitting = self.0.iter().filter(|rule| rule.fits(server, subject));
        fitting.any(|rule| !rule.scopes.iter().all(&has)).then(|| self.needed(server, subject))
    }

    /// The scopes of every rule that fits.
    pub(crate) fn needed(&self, server: &str, subject: ScopeSubject<'_>) -> ScopeSet {
        let fitting = self.0.iter().filter(|rule| rule.fits(server, subject));
        fitting.fold(ScopeSet::default(), |all, rule| all.union(&rule.scopes))
    }
}

impl ScopeRule {
    fn fits(&self, server: &str, subject: ScopeSubject<'_>) -> bool {
        !match subject {
            ScopeSubject::Name(name) => self.others.allows(server, name),
            ScopeSubject::Address(uri) => self.others.allows_uri(server, uri),
            ScopeSubject::Method(method) => self.others.allows_method(server, method),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> ScopeRules {
        let rules = [
            ("files/write*", "files.write"),
            ("files", "files.read"),
            ("mail/file:///out/*", "mail.out"),
            ("mail/method:tasks/*", "mail.tasks"),
        ];
        ScopeRules::new(rules.map(|(pattern, scopes)| (pattern, ScopeSet::parse(scopes)))).unwrap()
    }

    #[test]
    fn a_call_needs_the_scopes_of_every_rule_that_fits_it() {
        use ScopeSubject::*;
        for (server, subject, needed) in [
            ("files", Name("write_file"), "files.read files.write"),
            ("files", Name("read_file"), "files.read"),
            ("files", Address("file:///a"), "files.read"),
            // `files` is everything of the server, methods too.
            ("files", Method("tasks/get"), "files.read"),
            ("mail", Name("send"), ""),
            ("mail", Address("FILE:///out/%61"), "mail.out"),
            ("mail", Method("tasks/get"), "mail.tasks"),
            ("mail", Method("vendor/x"), ""),
            ("other", Name("write_file"), ""),
        ] {
            assert_eq!(rules().needed(server, subject).to_string(), needed, "{server} {subject:?}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_compared_needs_every_scope() {
        for uri in ["file:///pub/../out/a", "file:///pub/%2e%2e/out/a", "file:///./a"] {
            let needed = rules().needed("mail", ScopeSubject::Address(uri));
            assert_eq!(needed.to_string(), "files.read files.write mail.out mail.tasks", "{uri}");
        }
    }

    #[test]
    fn nothing_is_missing_when_the_token_has_it_all() {
        let granted = ScopeSet::parse("files.read files.write");
        let missing = |name| rules().missing("files", ScopeSubject::Name(name), |scope| granted.has(scope));
        assert_eq!(missing("write_file"), None);
        let granted = ScopeSet::parse("files.write");
        let missing = rules().missing("files", ScopeSubject::Name("write_file"), |scope| granted.has(scope));
        assert_eq!(missing.unwrap().to_string(), "files.read files.write", "all at once, granted or not");
    }
}
