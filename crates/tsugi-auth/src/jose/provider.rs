//! `ring` as the cryptography under `jsonwebtoken`, so that neither `aws-lc-rs` nor the `rsa` crate is built.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

static RING: CryptoProvider = CryptoProvider {
    signer_factory: refuse_signing,
    verifier_factory: verifier,
    // Only conversions of private keys and thumbprints use these, and we ask for neither.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `ring` the library's provider. The library panics without one, so every way into it passes here.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    // A provider that was installed before us can only be this one: the library is built without any other.
    INSTALLED.call_once(|| {
        let _ = RING.install_default();
    });
}

/// One key with the one way in which it is used.
struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

fn refuse_signing(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        // The form of the key and the algorithm must fit: an RSA key is never read as a point or as a secret.
        let is_valid = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                is_rsa_signature(&RSA_PKCS1_2048_8192_SHA256, n, e, message, signature)
            }
            (Algorithm::PS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                is_rsa_signature(&RSA_PSS_2048_8192_SHA256, n, e, message, signature)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                is_signature(&ECDSA_P256_SHA256_FIXED, point, message, signature)
            }
            (Algorithm::ES384, DecodingKeyKind::SecretOrDer(point)) => {
                is_signature(&ECDSA_P384_SHA384_FIXED, point, message, signature)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(point)) => {
                is_signature(&ED25519, point, message, signature)
            }
            _ => false,
        };
        if is_valid { Ok(()) } else { Err(SignatureError::new()) }
    }
}

fn is_rsa_signature(parameters: &'static RsaParameters, n: &[u8], e: &[u8], message: &[u8], signature: &[u8]) -> bool {
    RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
}

fn is_signature(way: &'static dyn VerificationAlgorithm, point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(way, point).verify(message, signature).is_ok()
}
