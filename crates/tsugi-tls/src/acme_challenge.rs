//! Proofs for an ACME authority that a name is ours, kept for as long as the authority asks.
//!
//! The authority connects to the name and wants to see a certificate ([RFC 8737](https://www.rfc-editor.org/rfc/rfc8737))
//! or a text ([RFC 8555](https://www.rfc-editor.org/rfc/rfc8555#section-8.3)) that only the holder of the account can
//! make.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::provider;

/// What a connection of the authority asks for in place of HTTP.
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The proofs that are wanted now.
#[derive(Default)]
pub struct ChallengeTable(RwLock<ChallengeProofs>);

#[derive(Default)]
struct ChallengeProofs {
    /// By host name, in lower case.
    certificates: HashMap<String, Arc<CertifiedKey>>,
    /// By the token in the address.
    texts: HashMap<String, String>,
}

/// Texts open nothing by themselves, but they belong to an account.
impl fmt::Debug for ChallengeTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChallengeTable").finish_non_exhaustive()
    }
}

/// A proof that is shown until this is dropped.
pub struct OfferedProof {
    table: Arc<ChallengeTable>,
    place: ProofPlace,
}

enum ProofPlace {
    Host(String),
    Token(String),
}

impl Drop for OfferedProof {
    fn drop(&mut self) {
        let mut proofs = self.table.0.write();
        match &self.place {
            ProofPlace::Host(host) => drop(proofs.certificates.remove(host)),
            ProofPlace::Token(token) => drop(proofs.texts.remove(token)),
        }
    }
}

impl ChallengeTable {
    /// Shows this certificate to connections that ask for [`CHALLENGE_PROTOCOL`] of a host.
    pub fn offer_certificate(
        self: &Arc<Self>,
        host: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<OfferedProof, rustls::Error> {
        // Not checked like a certificate for clients: it has a critical extension that only authorities understand.
        let key = provider().key_provider.load_private_key(key)?;
        let certified = CertifiedKey::new(vec![certificate], key);
        let host = host.to_ascii_lowercase();
        self.0.write().certificates.insert(host.clone(), Arc::new(certified));
        Ok(OfferedProof { table: self.clone(), place: ProofPlace::Host(host) })
    }

    /// Shows this text at the address of a token.
    pub fn offer_text(self: &Arc<Self>, token: &str, text: &str) -> OfferedProof {
        self.0.write().texts.insert(token.to_owned(), text.to_owned());
        OfferedProof { table: self.clone(), place: ProofPlace::Token(token.to_owned()) }
    }

    /// The text for a token.
    pub fn text(&self, token: &str) -> Option<String> {
        self.0.read().texts.get(token).cloned()
    }

    pub(crate) fn certificate(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        self.0.read().certificates.get(&host.to_ascii_lowercase()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_until_its_offer_is_dropped() {
        let table = Arc::new(ChallengeTable::default());
        let offer = table.offer_text("t", "t.thumbprint");
        assert_eq!(table.text("t").as_deref(), Some("t.thumbprint"));
        assert_eq!(table.text("other"), None);
        drop(offer);
        assert_eq!(table.text("t"), None);
    }
}
