//! Pins: the SHA-256 of a public key, and the check that a server has a pinned one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};

use crate::certificate::CertificateFacts;

/// The SHA-256 of a certificate's `SubjectPublicKeyInfo`. It stays the same when a certificate is renewed with its key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyPin([u8; 32]);

impl KeyPin {
    pub(crate) fn of_key(key: &SubjectPublicKeyInfoDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, key);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The digest in hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A text that is not a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pin is `sha256//` and the base64 of a SHA-256, or its 64 hexadecimal digits")]
pub struct PinSyntaxError;

/// Reads `sha256//BASE64`, the form of `curl --pinnedpubkey`, or 64 hexadecimal digits.
impl FromStr for KeyPin {
    type Err = PinSyntaxError;

    fn from_str(text: &str) -> Result<Self, PinSyntaxError> {
        let bytes = match text.strip_prefix("sha256//") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| PinSyntaxError)?,
            None => hex(text).ok_or(PinSyntaxError)?,
        };
        bytes.try_into().map(Self).map_err(|_| PinSyntaxError)
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    (text.len() == 64).then(|| text.as_bytes().chunks_exact(2).map(pair).collect())?
}

impl fmt::Display for KeyPin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256//{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for KeyPin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A server whose certificate is trusted, but whose key is none of the pinned ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's key {found} is not pinned")]
pub struct PinMismatch {
    /// What the server has, to be compared with what its operator says.
    pub found: KeyPin,
}

/// Wants a pinned key beside everything that the inner verifier wants.
#[derive(Debug)]
pub(crate) struct PinVerifier {
    pub(crate) inner: Arc<dyn ServerCertVerifier>,
    pub(crate) pins: Vec<KeyPin>,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(certificate, intermediates, server_name, ocsp, now)?;
        let facts = CertificateFacts::read(certificate).map_err(|_| CertificateError::BadEncoding)?;
        // Only the server's own key counts: an intermediate's would let every customer of that authority in.
        match self.pins.contains(&facts.key) {
            true => Ok(verified),
            false => Err(CertificateError::Other(OtherError(Arc::new(PinMismatch { found: facts.key }))).into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.inner.root_hint_subjects()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_in_both_forms_and_written_as_curl_has_it() {
        let pin = KeyPin([0xab; 32]);
        assert_eq!(pin.to_string().parse(), Ok(pin));
        assert_eq!("ab".repeat(32).parse(), Ok(pin));
        assert_eq!("AB".repeat(32).parse(), Ok(pin));
    }

    #[test]
    fn a_text_of_another_length_or_alphabet_is_not_a_pin() {
        for text in ["", "sha256//", "sha256//AAAA", &"ab".repeat(31), &"xy".repeat(32), &"é".repeat(32)] {
            assert_eq!(text.parse::<KeyPin>(), Err(PinSyntaxError), "{text}");
        }
    }
}
