//! The public keys of an issuer (RFC 7517), and which of them may check a signature.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde_json::{Map, Value};

use super::algorithm::SigningAlgorithm;
use crate::strict_json;

/// The largest document that is read.
pub const MAX_KEY_SET: usize = 512 * 1024;
/// Providers publish a handful of keys. More than this would make an unknown `kid` expensive.
const MAX_KEYS: usize = 256;
const MAX_KEY_ID: usize = 512;
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The keys of one issuer that can check signatures.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
    ignored: usize,
}

/// One public key with the algorithms that it may be used with.
#[derive(Debug, Clone)]
pub struct VerificationKey {
    id: Option<String>,
    algorithms: Vec<SigningAlgorithm>,
    pub(super) key: DecodingKey,
}

/// Why a document is not a set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeySetProblem {
    #[error("the key set is larger than 512 KiB")]
    TooLarge,
    #[error("the key set is not one JSON object without duplicate members")]
    NotAnObject,
    #[error("the key set has no `keys` array")]
    NoKeys,
    #[error("the key set has more than 256 keys")]
    TooManyKeys,
}

impl KeySet {
    /// Reads a document. Keys that cannot check one of our algorithms are ignored, as RFC 7517 §5 asks: one key of
    /// a kind that we do not know must not cost the others.
    pub fn parse(document: &[u8]) -> Result<Self, KeySetProblem> {
        if document.len() > MAX_KEY_SET {
            return Err(KeySetProblem::TooLarge);
        }
        let object = strict_json::parse_object(document).ok_or(KeySetProblem::NotAnObject)?;
        let keys = object.get("keys").and_then(Value::as_array).ok_or(KeySetProblem::NoKeys)?;
        if keys.len() > MAX_KEYS {
            return Err(KeySetProblem::TooManyKeys);
        }
        let usable: Vec<VerificationKey> =
            keys.iter().filter_map(Value::as_object).filter_map(VerificationKey::of).collect();
        Ok(Self { ignored: keys.len() - usable.len(), keys: usable })
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys of the document cannot check a signature of ours.
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// Whether a key has this id, for any algorithm.
    pub fn has_key_id(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The keys that may check a signature: those with the id of the header, and without an id in the header the only
    /// key that fits. Guessing among several would let a key that was retired from one use serve another.
    pub fn candidates(&self, id: Option<&str>, algorithm: SigningAlgorithm) -> Vec<&VerificationKey> {
        let fits = |key: &&VerificationKey| key.algorithms.contains(&algorithm);
        match id {
            Some(id) => self.keys.iter().filter(|key| key.id.as_deref() == Some(id)).filter(fits).collect(),
            None => {
                let all: Vec<&VerificationKey> = self.keys.iter().filter(fits).collect();
                if all.len() == 1 { all } else { Vec::new() }
            }
        }
    }
}

impl VerificationKey {
    /// Reads one key; `None` when it is not a public key for one of our algorithms, or is meant for another use.
    fn of(key: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if !is_for_verification(key) {
            return None;
        }
        let id = match key.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= MAX_KEY_ID => Some(id.clone()),
            Some(_) => return None,
        };
        let (fitting, decoded) = match (text("kty")?, text("crv")) {
            ("RSA", _) => (vec![SigningAlgorithm::Rs256, SigningAlgorithm::Ps256], rsa_key(text("n")?, text("e")?)?),
            ("EC", Some("P-256")) => (vec![SigningAlgorithm::Es256], point(text("x")?, text("y")?, 32)?),
            ("EC", Some("P-384")) => (vec![SigningAlgorithm::Es384], point(text("x")?, text("y")?, 48)?),
            ("OKP", Some("Ed25519")) => (vec![SigningAlgorithm::EdDsa], edwards_point(text("x")?)?),
            _ => return None,
        };
        // A key that names its algorithm is used with that one only.
        let algorithms = match key.get("alg") {
            None => fitting,
            Some(name) => {
                let named = name.as_str().and_then(SigningAlgorithm::parse)?;
                fitting.contains(&named).then(|| vec![named])?
            }
        };
        Some(Self { id, algorithms, key: decoded })
    }
}

/// Whether `use` and `key_ops`, where they are given, let a key check signatures (RFC 7517 §4.2, §4.3).
fn is_for_verification(key: &Map<String, Value>) -> bool {
    let use_fits = key.get("use").is_none_or(|purpose| purpose == "sig");
    let names_verify =
        |operations: &Value| operations.as_array().is_some_and(|list| list.iter().any(|o| o == "verify"));
    use_fits && key.get("key_ops").is_none_or(names_verify)
}

fn rsa_key(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    let (n, e) = (decode(modulus)?, decode(exponent)?);
    // Leading zeros are not allowed, so the first byte says how long the modulus is (RFC 7518 §6.3.1.1).
    let first = *n.first().filter(|byte| **byte != 0)?;
    let bits = n.len() * 8 - first.leading_zeros() as usize;
    let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
    // ring checks the exponent again. One of more than four bytes only makes every signature slow.
    let has_exponent = e.first().is_some_and(|byte| *byte != 0) && e.len() <= 4 && is_odd(&e) && e != [1];
    (RSA_BITS.contains(&bits) && is_odd(&n) && has_exponent).then(|| DecodingKey::from_rsa_raw_components(&n, &e))
}

fn point(x: &str, y: &str, length: usize) -> Option<DecodingKey> {
    let (x, y) = (decode(x)?, decode(y)?);
    if x.len() != length || y.len() != length {
        return None;
    }
    // An uncompressed point as SEC 1 writes it. ring checks that it lies on the curve.
    Some(DecodingKey::from_ec_der(&[&[4], &x[..], &y[..]].concat()))
}

fn edwards_point(x: &str) -> Option<DecodingKey> {
    let x = decode(x)?;
    (x.len() == 32).then(|| DecodingKey::from_ed_der(&x))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
