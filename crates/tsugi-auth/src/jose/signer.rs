//! Writes signed tokens: a client's assertions (RFC 7523) and its proofs of possession (RFC 9449).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::algorithm::SigningAlgorithm;

/// A private key with the one algorithm that it signs with. It cannot be printed.
pub struct JwsSigner {
    key: PrivateKey,
    algorithm: SigningAlgorithm,
    random: SystemRandom,
}

enum PrivateKey {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// Why a key cannot sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignerProblem {
    #[error("the key is not a PEM block `PRIVATE KEY` (PKCS #8)")]
    NotPem,
    #[error("the key does not fit the algorithm {}", .0.name())]
    KeyDoesNotFit(SigningAlgorithm),
    #[error("the system has no random numbers")]
    NoRandom,
    #[error("the key could not sign")]
    NotSigned,
    #[error("the client has neither the secret nor the key that its method needs")]
    NoKey,
}

impl JwsSigner {
    /// The private key in a PEM file.
    pub fn from_pem(pem: &str, algorithm: SigningAlgorithm) -> Result<Self, SignerProblem> {
        let body = pem.split("-----BEGIN PRIVATE KEY-----").nth(1);
        let body = body.and_then(|rest| rest.split("-----END PRIVATE KEY-----").next()).ok_or(SignerProblem::NotPem)?;
        let text: Zeroizing<String> = Zeroizing::new(body.split_ascii_whitespace().collect());
        let der = Zeroizing::new(STANDARD.decode(text.as_bytes()).map_err(|_| SignerProblem::NotPem)?);
        Self::from_pkcs8(&der, algorithm)
    }

    /// The private key in a PKCS #8 document.
    pub fn from_pkcs8(der: &[u8], algorithm: SigningAlgorithm) -> Result<Self, SignerProblem> {
        let random = SystemRandom::new();
        let unfit = |_| SignerProblem::KeyDoesNotFit(algorithm);
        let key = match algorithm {
            SigningAlgorithm::Es256 => PrivateKey::Ecdsa(
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random).map_err(unfit)?,
            ),
            SigningAlgorithm::Es384 => PrivateKey::Ecdsa(
                EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random).map_err(unfit)?,
            ),
            // Other tools write Ed25519 keys without the public half, which follows from the private one.
            SigningAlgorithm::EdDsa => {
                PrivateKey::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(unfit)?)
            }
            SigningAlgorithm::Rs256 | SigningAlgorithm::Ps256 => {
                PrivateKey::Rsa(Box::new(RsaKeyPair::from_pkcs8(der).map_err(unfit)?))
            }
        };
        Ok(Self { key, algorithm, random })
    }

    /// A new ES256 key as a PKCS #8 document.
    pub fn generate() -> Result<Zeroizing<Vec<u8>>, SignerProblem> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        document.map(|document| Zeroizing::new(document.as_ref().to_vec())).map_err(|_| SignerProblem::NoRandom)
    }

    pub fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// The public half of an ES256 key as a JWK; `None` for other keys.
    pub fn public_jwk(&self) -> Option<Value> {
        let PrivateKey::Ecdsa(pair) = &self.key else { return None };
        // An uncompressed point: a 4, then both coordinates.
        let (_, point) = pair.public_key().as_ref().split_first()?;
        let (x, y) = point.split_at(point.len() / 2);
        let text = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        (self.algorithm == SigningAlgorithm::Es256)
            .then(|| json!({"kty": "EC", "crv": "P-256", "x": text(x), "y": text(y)}))
    }

    /// A compact JWS of the claims. `header` is what stands in the header beside `alg`.
    pub fn sign(&self, mut header: Map<String, Value>, claims: &Map<String, Value>) -> Result<String, SignerProblem> {
        header.insert("alg".to_owned(), self.algorithm.name().into());
        let part = |object: &Map<String, Value>| {
            serde_json::to_vec(object).map(|bytes| URL_SAFE_NO_PAD.encode(bytes)).map_err(|_| SignerProblem::NotSigned)
        };
        let message = format!("{}.{}", part(&header)?, part(claims)?);
        let signature = self.signature(message.as_bytes())?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, SignerProblem> {
        match &self.key {
            PrivateKey::Ecdsa(pair) => {
                let signature = pair.sign(&self.random, message).map_err(|_| SignerProblem::NotSigned)?;
                Ok(signature.as_ref().to_vec())
            }
            PrivateKey::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            PrivateKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding =
                    if self.algorithm == SigningAlgorithm::Ps256 { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &self.random, message, &mut signature).map_err(|_| SignerProblem::NotSigned)?;
                Ok(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::{JwsSigner, SignerProblem};
    use crate::jose::algorithm::SigningAlgorithm;
    use crate::jose::jws::CompactJws;
    use crate::jose::key_set::KeySet;

    #[test]
    fn what_a_new_key_signs_is_verified_with_its_public_half_and_no_other() {
        let signer = || JwsSigner::from_pkcs8(&JwsSigner::generate().unwrap(), SigningAlgorithm::Es256).unwrap();
        let (own, other) = (signer(), signer());
        let claims = json!({"iss": "client"}).as_object().unwrap().clone();
        let token = own.sign(Map::new(), &claims).unwrap();
        let verify = |signer: &JwsSigner| {
            let keys = json!({"keys": [signer.public_jwk().unwrap()]}).to_string();
            let keys = KeySet::parse(keys.as_bytes()).unwrap();
            CompactJws::parse(&token).unwrap().verify(&keys).map(<[u8]>::to_vec)
        };
        assert_eq!(verify(&own).unwrap(), br#"{"iss":"client"}"#);
        assert!(verify(&other).is_err());
    }

    #[test]
    fn a_key_signs_only_with_the_algorithm_that_fits_it() {
        let key = JwsSigner::generate().unwrap();
        for algorithm in [SigningAlgorithm::Rs256, SigningAlgorithm::Es384, SigningAlgorithm::EdDsa] {
            let refused = JwsSigner::from_pkcs8(&key, algorithm).err();
            assert_eq!(refused, Some(SignerProblem::KeyDoesNotFit(algorithm)));
        }
        assert_eq!(JwsSigner::from_pem("no key", SigningAlgorithm::Es256).err(), Some(SignerProblem::NotPem));
    }
}
