//! Certificates that are good, and ones that are wrong in every way that matters.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate of a fake, and the authority that signed it.
pub struct Certificate {
    chain: Vec<Vec<u8>>,
    key: Vec<u8>,
    authority: String,
}

impl Certificate {
    /// A good one for `localhost`.
    pub fn good() -> Self {
        Self::signed(CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]))
    }

    /// For another name.
    pub fn wrong_name() -> Self {
        Self::signed(CertificateParams::new(vec!["elsewhere.example".into()]))
    }

    /// For `localhost`, but only until 2001.
    pub fn expired() -> Self {
        Self::signed(CertificateParams::new(vec!["localhost".into()]).map(|mut params| {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
            params
        }))
    }

    /// For `localhost`, signed by nobody else.
    pub fn self_signed() -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(vec!["localhost".into()]).expect("the name is good");
        let certificate = params.self_signed(&key).expect("a certificate can be signed");
        Self { chain: vec![certificate.der().to_vec()], key: key.serialize_der(), authority: String::new() }
    }

    fn signed(params: Result<CertificateParams, rcgen::Error>) -> Self {
        let authority = authority();
        let key = KeyPair::generate().expect("a key can be made");
        let certificate =
            params.and_then(|params| params.signed_by(&key, &authority)).expect("a certificate can be signed");
        Self { chain: vec![certificate.der().to_vec()], key: key.serialize_der(), authority: authority.pem() }
    }

    /// The authority to trust, in PEM; empty for one that signed itself.
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    pub(super) fn server_config(self) -> Arc<rustls::ServerConfig> {
        let chain = self.chain.into_iter().map(Into::into).collect();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks the usual versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("the key belongs to the certificate");
        Arc::new(config)
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no name is a good name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "tsugi test authority");
    let key = KeyPair::generate().expect("a key can be made");
    CertifiedIssuer::self_signed(params, key).expect("an authority can sign itself")
}
