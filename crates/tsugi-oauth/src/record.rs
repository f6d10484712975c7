//! What is kept of a sign-in: who issued it to which client for which server, and the tokens.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use zeroize::Zeroizing;

use crate::client_auth::ClientAuthMethod;
use crate::store::RecordBytes;

/// Whose credentials for which server. One record belongs to one key, and a vault seals it with the key's text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CredentialKey {
    /// The address of the MCP server, as it is configured.
    pub server: String,
    pub owner: CredentialOwner,
}

/// Who may use credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CredentialOwner {
    /// Everyone who may use the server.
    Everyone,
    /// One identity, by its text that cannot be mistaken for another's.
    Person(String),
}

impl CredentialKey {
    /// Reads the text of a key.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "everyone" => Some(Self { server: rest.to_owned(), owner: CredentialOwner::Everyone }),
            "person" => {
                let (length, rest) = rest.split_once(' ')?;
                let (name, rest) = rest.split_at_checked(length.parse().ok()?)?;
                let owner = CredentialOwner::Person(name.to_owned());
                Some(Self { server: rest.strip_prefix(' ')?.to_owned(), owner })
            }
            _ => None,
        }
    }
}

impl fmt::Display for CredentialKey {
    /// A text that no other key has: the owner's part has its length in front.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            CredentialOwner::Everyone => write!(formatter, "everyone {}", self.server),
            CredentialOwner::Person(name) => write!(formatter, "person {} {name} {}", name.len(), self.server),
        }
    }
}

/// One sign-in. Client, secret and tokens belong to `issuer` and are never sent to another.
pub struct CredentialRecord {
    /// Grows with every change, so that a task sees that another one was faster.
    pub generation: u64,
    pub issuer: String,
    pub resource: String,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub client: ClientRegistration,
    /// What was asked for, over all steps.
    pub requested: ScopeSet,
    /// `None` when a sign-in is needed.
    pub tokens: Option<TokenSet>,
}

/// A client as one issuer knows it.
pub struct ClientRegistration {
    pub id: String,
    pub secret: Option<SecretText>,
    /// When the issuer forgets the secret, in seconds since 1970.
    pub secret_expires: Option<u64>,
    pub method: ClientAuthMethod,
    pub origin: RegistrationOrigin,
    /// The redirect address that was registered, where the issuer registered us.
    pub redirect: Option<String>,
}

/// Where a client's identifier comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistrationOrigin {
    /// The configuration.
    Configured,
    /// A metadata document of ours; the identifier is its address.
    Document,
    /// The issuer registered us.
    Dynamic,
}

/// The tokens of one answer.
pub struct TokenSet {
    pub access: SecretText,
    pub kind: TokenKind,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
    /// When it is refreshed.
    pub renew: Option<u64>,
    pub refresh: Option<SecretText>,
    /// What was granted, where the issuer says it.
    pub granted: Option<ScopeSet>,
    /// The private key that the token is bound to.
    pub dpop_key: Option<Zeroizing<Vec<u8>>>,
}

/// How a token is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenKind {
    Bearer,
    Dpop,
}

/// The written form. It is private, so that no other code can serialize a secret by accident.
#[derive(Serialize, Deserialize)]
struct WrittenRecord {
    version: u32,
    generation: u64,
    issuer: String,
    resource: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    client_id: String,
    client_secret: Option<WrittenSecret>,
    #[serde(default)]
    secret_expires: Option<u64>,
    method: ClientAuthMethod,
    origin: RegistrationOrigin,
    redirect: Option<String>,
    requested: String,
    tokens: Option<WrittenTokens>,
}

#[derive(Serialize, Deserialize)]
struct WrittenTokens {
    access: WrittenSecret,
    kind: TokenKind,
    expires: Option<u64>,
    renew: Option<u64>,
    refresh: Option<WrittenSecret>,
    granted: Option<String>,
    dpop_key: Option<WrittenSecret>,
}

/// A secret in the written form, wiped when it is dropped.
struct WrittenSecret(Zeroizing<String>);

impl Serialize for WrittenSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WrittenSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

const VERSION: u32 = 1;

impl CredentialRecord {
    /// The record for a store.
    pub fn to_bytes(&self) -> RecordBytes {
        let secret = |text: &SecretText| WrittenSecret(Zeroizing::new(text.expose().to_owned()));
        let written = WrittenRecord {
            version: VERSION,
            generation: self.generation,
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint.clone(),
            client_id: self.client.id.clone(),
            client_secret: self.client.secret.as_ref().map(secret),
            secret_expires: self.client.secret_expires,
            method: self.client.method,
            origin: self.client.origin,
            redirect: self.client.redirect.clone(),
            requested: self.requested.to_string(),
            tokens: self.tokens.as_ref().map(|tokens| WrittenTokens {
                access: secret(&tokens.access),
                kind: tokens.kind,
                expires: tokens.expires,
                renew: tokens.renew,
                refresh: tokens.refresh.as_ref().map(secret),
                granted: tokens.granted.as_ref().map(ScopeSet::to_string),
                dpop_key: tokens.dpop_key.as_ref().map(|key| WrittenSecret(Zeroizing::new(STANDARD.encode(key)))),
            }),
        };
        Zeroizing::new(serde_json::to_vec(&written).unwrap_or_default())
    }

    /// A record from a store; `None` when it is of a version that we do not know, or none at all.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let written: WrittenRecord = serde_json::from_slice(bytes).ok()?;
        if written.version != VERSION {
            return None;
        }
        let secret = |text: WrittenSecret| SecretText::new(text.0.as_str());
        let key = |text: WrittenSecret| STANDARD.decode(text.0.as_bytes()).ok().map(Zeroizing::new);
        Some(Self {
            generation: written.generation,
            issuer: written.issuer,
            resource: written.resource,
            token_endpoint: written.token_endpoint,
            revocation_endpoint: written.revocation_endpoint,
            client: ClientRegistration {
                id: written.client_id,
                secret: written.client_secret.map(secret),
                secret_expires: written.secret_expires,
                method: written.method,
                origin: written.origin,
                redirect: written.redirect,
            },
            requested: ScopeSet::parse(&written.requested),
            tokens: written.tokens.map(|tokens| TokenSet {
                access: secret(tokens.access),
                kind: tokens.kind,
                expires: tokens.expires,
                renew: tokens.renew,
                refresh: tokens.refresh.map(secret),
                granted: tokens.granted.as_deref().map(ScopeSet::parse),
                dpop_key: tokens.dpop_key.and_then(key),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CredentialKey, CredentialOwner};

    #[test]
    fn no_two_keys_have_the_same_text() {
        let key = |server: &str, owner| CredentialKey { server: server.to_owned(), owner }.to_string();
        let person = |name: &str| CredentialOwner::Person(name.to_owned());
        let texts = [
            key("https://a", CredentialOwner::Everyone),
            key("https://a", person("ann")),
            key("https://a", person("ann https://b")),
            key("https://b https://a", person("ann")),
            key("https://a", person("everyone")),
        ];
        let distinct: std::collections::HashSet<_> = texts.iter().collect();
        assert_eq!(distinct.len(), texts.len(), "{texts:#?}");
        for text in &texts {
            assert_eq!(CredentialKey::parse(text).map(|key| key.to_string()).as_ref(), Some(text));
        }
        for wrong in ["", "everyone", "person 9 ann https://a", "person x ann https://a", "nobody https://a"] {
            assert_eq!(CredentialKey::parse(wrong), None, "{wrong}");
        }
    }
}
