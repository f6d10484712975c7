//! Callers that show a certificate: whom the listener believes, and who they are.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::certificate::CertificateFacts;
use crate::error::TlsFileError;
use crate::{pem_file, provider};

/// Whether a caller must show a certificate. One that is shown must be good in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuthMode {
    Optional,
    Required,
}

/// A part of a certificate that can name its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSource {
    /// The first URI name.
    Uri,
    /// The first DNS name.
    Dns,
    /// The `CN` of the subject.
    CommonName,
    /// The SHA-256 of the public key, which every certificate has.
    Key,
}

impl NameSource {
    /// What names a holder unless the configuration says otherwise.
    pub const DEFAULT: [NameSource; 3] = [NameSource::Uri, NameSource::Dns, NameSource::Key];
}

/// Where the authorities of callers' certificates are, and what was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuthFiles {
    pub mode: ClientAuthMode,
    pub ca: Vec<PathBuf>,
    /// Revocation lists. When there are any, each authority of a chain needs a current one.
    pub crl: Vec<PathBuf>,
    /// The first of these that a certificate has names its holder.
    pub names: Vec<NameSource>,
    /// Only SPIFFE identities of this domain are known.
    pub trust_domain: Option<String>,
}

/// Checks certificates of callers against one state of the files.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<NameSource>,
    trust_domain: Option<String>,
}

impl ClientTrust {
    /// `ca` and `crl` are the contents of the files, in their order.
    pub(crate) fn check(files: &ClientAuthFiles, ca: &[Vec<u8>], crl: &[Vec<u8>]) -> Result<Self, TlsFileError> {
        let mut roots = RootCertStore::empty();
        for (path, bytes) in files.ca.iter().zip(ca) {
            for certificate in pem_file::certificates(path, bytes)? {
                roots.add(certificate).map_err(|error| unfit(path, error))?;
            }
        }
        let mut lists = Vec::new();
        for (path, bytes) in files.crl.iter().zip(crl) {
            lists.extend(pem_file::revocation_lists(path, bytes)?);
        }
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        if !lists.is_empty() {
            // An outdated list must not keep a revoked certificate alive.
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        if files.mode == ClientAuthMode::Optional {
            builder = builder.allow_unauthenticated();
        }
        let of_all = files.crl.last().or(files.ca.last()).cloned().unwrap_or_default();
        let verifier = builder.build().map_err(|error| unfit(&of_all, error))?;
        Ok(Self { verifier, names: files.names.clone(), trust_domain: files.trust_domain.clone() })
    }

    /// Verifies a chain and says who shows it.
    pub(crate) fn identify(
        &self,
        chain: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<CertificateIdentity, UntrustedCertificate> {
        let (own, others) = chain.split_first().ok_or(UntrustedCertificate::Missing)?;
        let since_epoch = now.duration_since(UNIX_EPOCH).map_err(|_| UntrustedCertificate::Clock)?;
        self.verifier.verify_client_cert(own, others, UnixTime::since_unix_epoch(since_epoch))?;
        let facts = CertificateFacts::read(own).map_err(|_| UntrustedCertificate::Malformed)?;
        let name = match &self.trust_domain {
            Some(domain) => CertificateSubject::of_spiffe(&facts, domain).ok_or(UntrustedCertificate::OtherDomain)?,
            None => CertificateSubject::of(&facts, &self.names).ok_or(UntrustedCertificate::NoName)?,
        };
        Ok(CertificateIdentity { name, facts })
    }
}

fn unfit(path: &std::path::Path, error: impl std::error::Error + Send + Sync + 'static) -> TlsFileError {
    TlsFileError::Authority { path: path.to_owned(), error: Box::new(error) }
}

/// Why a certificate identifies no caller.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UntrustedCertificate {
    #[error("no certificate was shown")]
    Missing,
    #[error("the certificate is not trusted: {0}")]
    Rejected(#[from] rustls::Error),
    #[error("the certificate cannot be read")]
    Malformed,
    #[error("the certificate has no name that can be an identity")]
    NoName,
    #[error("the certificate has no single SPIFFE ID of the trust domain")]
    OtherDomain,
    #[error("the clock stands before 1970")]
    Clock,
}

/// A caller that has shown a good certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    pub name: CertificateSubject,
    /// What else the certificate says; its key binds tokens (RFC 8705), its end ends streams.
    pub facts: CertificateFacts,
}

/// The name that a certificate gives to its holder. Each form begins in a way that no other can, so that a
/// certificate of one form cannot pass for one of another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateSubject(String);

/// How names of the other forms begin. A URI of these schemes is refused.
const DNS: &str = "dns:";
const COMMON: &str = "cn:";
const KEY: &str = "sha256:";
/// More is not a name.
const LONGEST: usize = 512;

impl CertificateSubject {
    /// The first of the named parts that the certificate has. One that cannot be an identity refuses the certificate: to
    /// go on to the next part would let an authority's mistake choose another caller.
    pub fn of(facts: &CertificateFacts, names: &[NameSource]) -> Option<Self> {
        let name = names.iter().find_map(|source| match source {
            NameSource::Uri => facts.uri_names.first().map(|uri| is_plain_uri(uri).then(|| uri.clone())),
            NameSource::Dns => facts
                .dns_names
                .first()
                .map(|name| is_short(name).then(|| format!("{DNS}{}", name.to_ascii_lowercase()))),
            NameSource::CommonName => {
                facts.common_name.as_ref().map(|name| is_plain_text(name).then(|| format!("{COMMON}{name}")))
            }
            NameSource::Key => Some(Some(format!("{KEY}{}", facts.key.to_hex()))),
        });
        name.flatten().map(Self)
    }

    /// The one URI name, if it is a SPIFFE ID of `domain`
    /// ([X509-SVID](https://spiffe.io/docs/latest/spiffe-specs/x509-svid/)).
    pub fn of_spiffe(facts: &CertificateFacts, domain: &str) -> Option<Self> {
        let [uri] = facts.uri_names.as_slice() else { return None };
        let path = uri.strip_prefix("spiffe://")?.strip_prefix(domain)?.strip_prefix('/')?;
        let is_segment = |segment: &str| {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            !matches!(segment, "" | "." | "..") && segment.bytes().all(is_word)
        };
        (uri.len() <= LONGEST && path.split('/').all(is_segment)).then(|| Self(uri.clone()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_short(name: &str) -> bool {
    name.len() <= LONGEST
}

/// Whether a subject's name reads the same wherever it is shown.
fn is_plain_text(name: &str) -> bool {
    is_short(name) && !name.is_empty() && name.trim() == name && !name.chars().any(char::is_control)
}

/// Whether a URI name can be printed, compared and written into a configuration.
fn is_plain_uri(uri: &str) -> bool {
    let is_own_form = |form: &str| uri.get(..form.len()).is_some_and(|start| start.eq_ignore_ascii_case(form));
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    has_scheme
        && !is_own_form(DNS)
        && !is_own_form(COMMON)
        && !is_own_form(KEY)
        && is_short(uri)
        && uri.bytes().all(|b| b.is_ascii_graphic())
}

impl fmt::Display for CertificateSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_testkit::test_authority::TestAuthority;

    fn facts(uris: &[&str], dns: &[&str]) -> CertificateFacts {
        let chain = TestAuthority::new("ca").leaf(uris, dns);
        CertificateFacts::read(&chain.certificate).unwrap()
    }

    fn name(uris: &[&str], dns: &[&str]) -> Option<String> {
        named(&facts(uris, dns), &NameSource::DEFAULT)
    }

    fn named(facts: &CertificateFacts, names: &[NameSource]) -> Option<String> {
        CertificateSubject::of(facts, names).map(|name| name.to_string())
    }

    #[test]
    fn the_first_uri_names_the_caller_then_the_first_dns_name_then_the_key() {
        assert_eq!(name(&["spiffe://a/b", "spiffe://c/d"], &["host"]).unwrap(), "spiffe://a/b");
        assert_eq!(name(&[], &["Host.example", "other"]).unwrap(), "dns:host.example");
        let by_key = name(&[], &[]).unwrap();
        assert!(by_key.starts_with("sha256:") && by_key.len() == 7 + 64, "{by_key}");
    }

    #[test]
    fn a_uri_cannot_spell_a_name_of_another_form() {
        for uri in ["dns:host", "DNS:host", "sha256:00", "cn:ann", "CN:ann", "plain", ":x", "x:", "urn:a b"] {
            assert_eq!(name(&[uri], &["host"]), None, "{uri}");
        }
    }

    #[test]
    fn the_configuration_says_which_part_names_the_caller() {
        let with = |common: Option<&str>| CertificateFacts {
            common_name: common.map(str::to_owned),
            ..facts(&["spiffe://a/b"], &["host"])
        };
        let rule = [NameSource::CommonName, NameSource::Dns];
        assert_eq!(named(&with(Some("Ann Example")), &rule).unwrap(), "cn:Ann Example");
        assert_eq!(named(&with(None), &rule).unwrap(), "dns:host");
        for odd in ["", " ann", "ann\n", "ann\u{0}"] {
            assert_eq!(named(&with(Some(odd)), &rule), None, "{odd:?} must not fall back to the next part");
        }
        assert_eq!(named(&with(None), &[NameSource::CommonName]), None);
    }

    #[test]
    fn the_subject_is_read_and_two_common_names_are_none() {
        let of = |names: &[&str]| {
            let leaf = TestAuthority::new("ca").leaf_of_subject(names);
            CertificateFacts::read(&leaf.certificate).unwrap().common_name
        };
        assert_eq!(of(&["ann"]).as_deref(), Some("ann"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["ann", "root"]), None);
    }

    #[test]
    fn a_spiffe_id_counts_only_under_the_trust_domain_and_alone() {
        let of = |uris: &[&str]| CertificateSubject::of_spiffe(&facts(uris, &[]), "corp.example").is_some();
        assert!(of(&["spiffe://corp.example/agent/one"]));
        for uri in [
            "spiffe://corp.example.evil/agent",
            "spiffe://corp.example",
            "spiffe://corp.example/",
            "spiffe://corp.example//a",
            "spiffe://corp.example/../a",
            "spiffe://corp.example:8443/a",
            "spiffe://evil@corp.example/a",
            "spiffe://corp.example/a?x",
            "https://corp.example/a",
        ] {
            assert!(!of(&[uri]), "{uri}");
        }
        assert!(!of(&["spiffe://corp.example/a", "spiffe://corp.example/b"]));
    }
}
