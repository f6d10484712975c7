//! What one certificate says about itself: names, key and time.

use std::time::{Duration, SystemTime};

pub use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use webpki::EndEntityCert;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Any, Decode};
use x509_cert::name::Name;

use crate::pin::KeyPin;

/// `commonName` ([X.520](https://www.itu.int/rec/T-REC-X.520)).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Why a certificate cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CertificateReadError {
    #[error("a certificate cannot be parsed: {0}")]
    Content(#[from] webpki::Error),
    #[error("the subject or time of a certificate cannot be parsed: {0}")]
    Time(#[from] x509_cert::der::Error),
}

/// The parts of a certificate that decide where it is used and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// DNS names, wildcards among them, in the order of the certificate.
    pub dns_names: Vec<String>,
    /// URI names, in the order of the certificate.
    pub uri_names: Vec<String>,
    /// The one `CN` of its subject. Two of them are no name.
    pub common_name: Option<String>,
    /// The SHA-256 of its public key.
    pub key: KeyPin,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl CertificateFacts {
    /// Reads a certificate. It is not verified.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Self, CertificateReadError> {
        // webpki also decides the handshake, so names are read as they are compared there.
        let content = EndEntityCert::try_from(certificate)?;
        // webpki checks the time but does not tell it, and does not look at the subject.
        let signed = x509_cert::Certificate::from_der(certificate)?.tbs_certificate;
        let validity = signed.validity;
        Ok(Self {
            dns_names: content.valid_dns_names().map(str::to_owned).collect(),
            uri_names: content.valid_uri_names().map(str::to_owned).collect(),
            common_name: common_name(&signed.subject),
            key: KeyPin::of_key(&content.subject_public_key_info()),
            not_before: since_epoch(validity.not_before.to_unix_duration()),
            not_after: since_epoch(validity.not_after.to_unix_duration()),
        })
    }

    pub fn is_expired(&self, now: SystemTime) -> bool {
        now > self.not_after
    }
}

fn common_name(subject: &Name) -> Option<String> {
    let attributes = subject.0.iter().flat_map(|part| part.0.iter());
    let mut names = attributes.filter(|attribute| attribute.oid == COMMON_NAME);
    let only = names.next().filter(|_| names.next().is_none())?;
    text(&only.value)
}

/// A text in one of the encodings that authorities use. Others are ambiguous, and then there is no name.
fn text(value: &Any) -> Option<String> {
    let unicode = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    let printable = || value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned());
    let ascii = || value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str().to_owned());
    unicode.or_else(|_| printable()).or_else(|_| ascii()).ok()
}

/// The first certificate of a PEM text.
pub fn first_in_pem(pem: &[u8]) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem).ok()
}

fn since_epoch(duration: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + duration
}
