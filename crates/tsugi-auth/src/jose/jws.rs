//! A signed token before anything in it is believed: three parts and a header that was read strictly (RFC 7515).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde_json::{Map, Value};

use super::algorithm::SigningAlgorithm;
use super::key_set::KeySet;
use super::provider;
use crate::strict_json;
use crate::token::TokenRefusal;

/// The longest token that is looked at.
pub const MAX_TOKEN: usize = 16 * 1024;

/// A compact JWS, split, with its header read.
#[derive(Debug, Clone)]
pub struct CompactJws<'a> {
    /// Header and payload as they were signed.
    message: &'a str,
    signature: &'a str,
    payload: Vec<u8>,
    pub header: JwsHeader,
}

/// The members of a header that decide something. `jwk`, `jku`, `x5u` and `x5c` are not among them: a token does not say
/// which key it is to be checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwsHeader {
    pub algorithm: SigningAlgorithm,
    pub key_id: Option<String>,
    /// The media type without `application/`, in lower case.
    pub media_type: Option<String>,
}

impl<'a> CompactJws<'a> {
    /// Splits a token and reads its header.
    pub fn parse(text: &'a str) -> Result<Self, TokenRefusal> {
        if text.len() > MAX_TOKEN {
            return Err(TokenRefusal::TooLong);
        }
        let mut parts = text.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenRefusal::NotThreeParts);
        };
        // An empty signature is what `alg: none` looks like.
        if header.is_empty() || payload.is_empty() || signature.is_empty() {
            return Err(TokenRefusal::NotThreeParts);
        }
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenRefusal::NotBase64Url);
        let object = strict_json::parse_object(&decode(header)?).ok_or(TokenRefusal::HeaderNotStrict)?;
        // The signature is decoded where it is checked, and there it must be canonical too.
        decode(signature)?;
        let header = JwsHeader::of(&object)?;
        Ok(Self { message: &text[..text.len() - signature.len() - 1], signature, payload: decode(payload)?, header })
    }

    /// What was signed, not yet verified.
    pub fn unverified_payload(&self) -> &[u8] {
        &self.payload
    }

    /// Checks the signature with the key that the header names.
    pub fn verify(&self, keys: &KeySet) -> Result<&[u8], TokenRefusal> {
        let key_id = self.header.key_id.as_deref();
        let candidates = keys.candidates(key_id, self.header.algorithm);
        if candidates.is_empty() {
            return Err(match key_id {
                Some(id) if keys.has_key_id(id) => TokenRefusal::KeyDoesNotFit,
                Some(_) => TokenRefusal::UnknownKey,
                None => TokenRefusal::NoKeyId,
            });
        }
        provider::install();
        let algorithm = self.header.algorithm.of_library();
        let is_signed_by = |key: &DecodingKey| {
            jsonwebtoken::crypto::verify(self.signature, self.message.as_bytes(), key, algorithm).unwrap_or(false)
        };
        match candidates.iter().any(|candidate| is_signed_by(&candidate.key)) {
            true => Ok(&self.payload),
            false => Err(TokenRefusal::BadSignature),
        }
    }
}

impl JwsHeader {
    fn of(object: &Map<String, Value>) -> Result<Self, TokenRefusal> {
        // We implement no extension, so a token that insists on one is refused (RFC 7515 §4.1.11).
        if object.contains_key("crit") {
            return Err(TokenRefusal::CriticalExtension);
        }
        // RFC 7797: an unencoded payload changes what is signed.
        if object.contains_key("b64") {
            return Err(TokenRefusal::CriticalExtension);
        }
        let text = |name: &str| match object.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(TokenRefusal::HeaderNotStrict),
        };
        let algorithm = text("alg")?.and_then(SigningAlgorithm::parse).ok_or(TokenRefusal::AlgorithmNotAllowed)?;
        let media_type = text("typ")?.map(|name| {
            let lower = name.to_ascii_lowercase();
            lower.strip_prefix("application/").map_or(lower.clone(), str::to_owned)
        });
        Ok(Self { algorithm, key_id: text("kid")?.map(str::to_owned), media_type })
    }
}
