//! Proofs that we hold the key to which a token is bound (RFC 9449).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::signer::JwsSigner;
use url::Url;
use zeroize::Zeroizing;

use crate::failure::OauthFailure;

/// The header of a proof, and that of a server's nonce.
pub const PROOF_HEADER: &str = "dpop";
pub const NONCE_HEADER: &str = "dpop-nonce";

/// A key that tokens are bound to.
pub struct DpopKey {
    signer: JwsSigner,
    document: Zeroizing<Vec<u8>>,
    public: Value,
}

impl DpopKey {
    pub fn generate() -> Result<Self, OauthFailure> {
        let document = JwsSigner::generate().map_err(|_| OauthFailure::NoRandom)?;
        Self::from_document(document)
    }

    pub fn from_document(document: Zeroizing<Vec<u8>>) -> Result<Self, OauthFailure> {
        let signer = JwsSigner::from_pkcs8(&document, SigningAlgorithm::Es256).map_err(|_| OauthFailure::NotSigned)?;
        let public = signer.public_jwk().ok_or(OauthFailure::NotSigned)?;
        Ok(Self { signer, document, public })
    }

    /// The private key, to be stored with the tokens that are bound to it.
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// A new proof for one request. `token` is the access token that goes with it.
    pub fn prove(
        &self,
        method: &Method,
        url: &Url,
        nonce: Option<&str>,
        token: Option<&str>,
    ) -> Result<String, OauthFailure> {
        let mut target = url.clone();
        target.set_query(None);
        target.set_fragment(None);
        let mut claims = Map::new();
        claims.insert("jti".to_owned(), crate::random_text()?.into());
        claims.insert("htm".to_owned(), method.as_str().into());
        claims.insert("htu".to_owned(), target.as_str().into());
        claims.insert("iat".to_owned(), crate::now().into());
        if let Some(nonce) = nonce {
            claims.insert("nonce".to_owned(), nonce.into());
        }
        if let Some(token) = token {
            let hash = digest(&SHA256, token.as_bytes());
            claims.insert("ath".to_owned(), URL_SAFE_NO_PAD.encode(hash).into());
        }
        let header = json!({"typ": "dpop+jwt", "jwk": self.public});
        let Value::Object(header) = header else { return Err(OauthFailure::NotSigned) };
        self.signer.sign(header, &claims).map_err(|_| OauthFailure::NotSigned)
    }
}
