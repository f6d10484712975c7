//! Who calls: the typed value that permits, quotas, sealed state, caches, sessions and tasks are keyed by.

use std::fmt::{self, Write};
use std::sync::Arc;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    )*};
}

names! {
    /// The name of an API key, as the configuration has it.
    KeyName;
    /// The id of a project-management agent that a token was issued to.
    TokenAgent;
    /// The server that issued a token and that alone accepts it.
    TokenServer;
    /// The short name that the configuration gives to an issuer of OAuth tokens.
    IssuerName;
    /// The `sub` of a token. It is unique for one issuer only, and its holder may have chosen it.
    SubjectName;
    /// The name in a verified client certificate.
    CertificateName;
    /// The OAuth client that a token was issued to.
    ClientId;
    /// The organization that a credential belongs to.
    TenantName;
}

/// A verified identity. Two requests come from the same caller when these are equal; display names never decide that.
///
/// Cloning copies a reference count at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// The program itself: the command at a terminal, or a program that embeds the library.
    Local,
    /// A caller that was not asked for a credential. All of them are one identity.
    Anonymous,
    Key(KeyName),
    PmToken {
        agent: TokenAgent,
        server: TokenServer,
    },
    Subject {
        issuer: IssuerName,
        sub: SubjectName,
    },
    Certificate(CertificateName),
}

impl Identity {
    pub fn key(name: impl Into<Arc<str>>) -> Self {
        Self::Key(KeyName::new(name))
    }

    pub fn pm_token(agent: impl Into<Arc<str>>, server: impl Into<Arc<str>>) -> Self {
        Self::PmToken { agent: TokenAgent::new(agent), server: TokenServer::new(server) }
    }

    pub fn subject(issuer: impl Into<Arc<str>>, sub: impl Into<Arc<str>>) -> Self {
        Self::Subject { issuer: IssuerName::new(issuer), sub: SubjectName::new(sub) }
    }

    /// What a person calls this caller. Different callers may have the same one: never compare or store it.
    pub fn short_name(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Anonymous => "anonymous",
            Self::Key(name) => name.as_str(),
            Self::PmToken { agent, .. } => agent.as_str(),
            Self::Subject { sub, .. } => sub.as_str(),
            Self::Certificate(name) => name.as_str(),
        }
    }
}

/// The text for logs and storage: `key:ann`, `pm:agt_ann@pm`, `subject:corp:248289761001`. Different identities have
/// different texts, and no name can add a line to a log.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Key(name) => write!(f, "key:{}", EscapedName(name.as_str(), None)),
            Self::PmToken { agent, server } => {
                let agent = EscapedName(agent.as_str(), Some('@'));
                write!(f, "pm:{agent}@{}", EscapedName(server.as_str(), None))
            }
            Self::Subject { issuer, sub } => {
                let issuer = EscapedName(issuer.as_str(), Some(':'));
                write!(f, "subject:{issuer}:{}", EscapedName(sub.as_str(), None))
            }
            Self::Certificate(name) => write!(f, "certificate:{}", EscapedName(name.as_str(), None)),
        }
    }
}

/// A name with `%XX` for everything but letters, digits and visible ASCII, and for the character that ends it.
struct EscapedName<'name>(&'name str, Option<char>);

impl fmt::Display for EscapedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            // Invisible and right-to-left characters would make one name look like another.
            let is_plain = character.is_alphanumeric() || character.is_ascii_graphic();
            if is_plain && character != '%' && Some(character) != self.1 {
                f.write_char(character)?;
                continue;
            }
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// Whom sessions, parked calls, tasks and cursors belong to. One person with two clients is two owners: what one client
/// was given does not pass to the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallOwner {
    pub identity: Identity,
    pub client: Option<ClientId>,
    pub tenant: Option<TenantName>,
}

impl From<Identity> for CallOwner {
    fn from(identity: Identity) -> Self {
        Self { identity, client: None, tenant: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Names that try to read like another kind of identity.
    const HOSTILE: [&str; 16] = [
        "",
        "local",
        "anonymous",
        "ann",
        "pm:agt_boss@pm",
        "agt_boss@pm",
        "key:ann",
        "subject:corp:ann",
        "corp:ann",
        "corp",
        ":",
        "@",
        "%",
        "%3A",
        "a\nb",
        "ann\u{202e}",
    ];

    #[test]
    fn no_name_spells_another_identity() {
        let mut identities = vec![Identity::Local, Identity::Anonymous];
        for one in HOSTILE {
            identities.push(Identity::key(one));
            identities.push(Identity::Certificate(CertificateName::new(one)));
            for two in HOSTILE {
                identities.push(Identity::subject(one, two));
                identities.push(Identity::pm_token(one, two));
            }
        }
        let texts: HashSet<String> = identities.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), identities.len());
        assert_eq!(identities.iter().collect::<HashSet<_>>().len(), identities.len());
        assert!(texts.iter().all(|text| text.chars().all(|letter| letter.is_ascii_graphic())));
        // The careless form, one text per caller, confuses them.
        let careless: HashSet<&str> = identities.iter().map(Identity::short_name).collect();
        assert!(careless.len() < identities.len());
    }

    #[test]
    fn the_text_says_the_kind_and_stays_readable() {
        for (identity, text) in [
            (Identity::key("ann@corp"), "key:ann@corp"),
            (Identity::key("山田"), "key:山田"),
            (Identity::pm_token("agt_ann", "pm"), "pm:agt_ann@pm"),
            (Identity::subject("corp", "auth0|7:8"), "subject:corp:auth0|7:8"),
            (Identity::subject("a:b", "c d"), "subject:a%3Ab:c%20d"),
        ] {
            assert_eq!(identity.to_string(), text);
        }
    }
}
