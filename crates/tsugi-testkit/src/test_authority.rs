//! A certificate authority for tests: good certificates, and those that are wrong on purpose.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;

/// An authority that a test lets one side trust.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate and its key.
pub struct TestLeaf {
    pub certificate: CertificateDer<'static>,
    pub cert: String,
    pub key: String,
}

impl TestAuthority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a certificate for tests can be made");
        let pem = params.self_signed(&key).expect("a certificate for tests can be made").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub fn leaf(&self, uris: &[&str], dns: &[&str]) -> TestLeaf {
        self.leaf_until(uris, dns, SystemTime::now() + Duration::from_secs(86_400), 1)
    }

    pub fn leaf_until(&self, uris: &[&str], dns: &[&str], end: SystemTime, serial: u64) -> TestLeaf {
        let mut params = CertificateParams::default();
        let uri = |uri: &&str| SanType::URI(Ia5String::try_from(*uri).expect("a certificate for tests can be made"));
        let dns = dns
            .iter()
            .map(|dns| SanType::DnsName(Ia5String::try_from(*dns).expect("a certificate for tests can be made")));
        params.subject_alt_names = uris.iter().map(uri).chain(dns).collect();
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = (end - Duration::from_secs(2 * 86_400)).into();
        params.not_after = end.into();
        self.sign(params)
    }

    /// A certificate whose subject has these common names and that has no other names.
    pub fn leaf_of_subject(&self, names: &[&str]) -> TestLeaf {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (number, name) in names.iter().enumerate() {
            // The second one under the number of the same attribute, which no honest authority writes.
            let kind = if number == 0 { DnType::CommonName } else { DnType::CustomDnType(vec![2, 5, 4, 3]) };
            params.distinguished_name.push(kind, *name);
        }
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> TestLeaf {
        let key = KeyPair::generate().expect("a certificate for tests can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate for tests can be made");
        TestLeaf { cert: certificate.pem(), key: key.serialize_pem(), certificate: certificate.der().clone() }
    }

    /// A revocation list with these serial numbers.
    pub fn revoked(&self, serials: &[u64]) -> String {
        let now = SystemTime::now();
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + Duration::from_secs(86_400)).into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params
            .signed_by(&self.issuer)
            .expect("a certificate for tests can be made")
            .pem()
            .expect("a certificate for tests can be made")
    }
}

impl TestLeaf {
    /// Writes both into a directory, as `NAME.pem` and `NAME.key`.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (cert, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
        std::fs::write(&cert, &self.cert).expect("the directory can be written to");
        std::fs::write(&key, &self.key).expect("the directory can be written to");
        (cert, key)
    }
}
