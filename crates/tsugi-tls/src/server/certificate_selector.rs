//! Chooses the certificate for the host that a client names.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::acme_challenge::{CHALLENGE_PROTOCOL, ChallengeTable};
use crate::key_pair::CheckedKeyPair;

/// Certificates by the names that they are valid for.
#[derive(Debug)]
pub(super) struct CertificateSelector {
    /// For clients that name no host, or an unknown one: they see which certificate does not fit.
    fallback: Arc<CertifiedKey>,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what follows `*.`; a wildcard stands for exactly one label.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    challenges: Option<Arc<ChallengeTable>>,
}

impl CertificateSelector {
    /// Of two certificates for one name the first wins. `None` without any pair.
    pub(super) fn new(pairs: Vec<CheckedKeyPair>) -> Option<Self> {
        let fallback = pairs.first()?.certified.clone();
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for CheckedKeyPair { certified, facts } in pairs {
            for name in facts.dns_names {
                let name = name.to_ascii_lowercase();
                let (names, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut wildcard, parent.to_owned()),
                    None => (&mut exact, name),
                };
                names.entry(name).or_insert_with(|| certified.clone());
            }
        }
        Some(Self { fallback, exact, wildcard, challenges: None })
    }

    /// The same, which also shows proofs to an ACME authority.
    pub(super) fn answering(self, challenges: Option<Arc<ChallengeTable>>) -> Self {
        Self { challenges, ..self }
    }

    fn find(&self, host: &str) -> &Arc<CertifiedKey> {
        let host = host.to_ascii_lowercase();
        let by_parent = || host.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent));
        self.exact.get(&host).or_else(by_parent).unwrap_or(&self.fallback)
    }
}

impl ResolvesServerCert for CertificateSelector {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(challenges) = self.challenges.as_ref().filter(|_| asks_for_proof(&hello)) {
            // Without a proof the handshake fails, as the authority expects of a name that is not ours.
            return challenges.certificate(hello.server_name()?);
        }
        Some(hello.server_name().map_or(&self.fallback, |host| self.find(host)).clone())
    }
}

/// An authority asks for its protocol and no other (RFC 8737 §3).
fn asks_for_proof(hello: &ClientHello<'_>) -> bool {
    let mut protocols = hello.alpn().into_iter().flatten();
    protocols.next() == Some(CHALLENGE_PROTOCOL) && protocols.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tsugi_testkit::test_authority::{TestAuthority, TestLeaf};

    use super::*;
    use crate::key_pair::KeyPairFiles;

    fn checked(leaf: TestLeaf) -> CheckedKeyPair {
        let files = KeyPairFiles { cert: "cert".into(), key: "key".into() };
        CheckedKeyPair::check(&files, leaf.cert.as_bytes(), leaf.key.as_bytes(), SystemTime::now()).unwrap()
    }

    #[test]
    fn a_name_is_found_exactly_then_by_wildcard_then_the_first_certificate_is_taken() {
        let authority = TestAuthority::new("ca");
        let names: [&[&str]; 3] = [&["first.example"], &["*.wild.example"], &["a.wild.example", "first.example"]];
        let pairs: Vec<_> = names.iter().map(|names| checked(authority.leaf(&[], names))).collect();
        let keys: Vec<_> = pairs.iter().map(|pair| pair.certified.clone()).collect();
        let selector = CertificateSelector::new(pairs).unwrap();
        for (host, expected) in [
            ("first.example", 0),
            ("FIRST.example", 0),
            ("b.wild.example", 1),
            ("a.wild.example", 2),
            ("b.c.wild.example", 0),
            ("wild.example", 0),
            ("unknown", 0),
        ] {
            assert!(Arc::ptr_eq(selector.find(host), &keys[expected]), "{host}");
        }
    }
}
