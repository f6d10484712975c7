//! How a client proves at the token endpoint who it is.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tsugi_auth::jose::signer::JwsSigner;
use tsugi_auth::secret::SecretText;
use url::form_urlencoded;
use zeroize::Zeroizing;

use crate::failure::OauthFailure;

/// The type of an assertion that a client signs (RFC 7523 §2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long such an assertion is good for: one request.
const ASSERTION_SECONDS: u64 = 60;

/// The methods that we know, by their registered names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAuthMethod {
    #[serde(rename = "none")]
    Public,
    #[serde(rename = "client_secret_basic")]
    SecretBasic,
    #[serde(rename = "client_secret_post")]
    SecretPost,
    #[serde(rename = "private_key_jwt")]
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "none",
            Self::SecretBasic => "client_secret_basic",
            Self::SecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Public, Self::SecretBasic, Self::SecretPost, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.name() == name)
    }

    /// The method for a client with a secret. RFC 8414 §2: `client_secret_basic` where the issuer says nothing.
    pub fn for_secret(supported: &[String]) -> Self {
        let has = |method: Self| supported.iter().any(|name| name == method.name());
        if supported.is_empty() || has(Self::SecretBasic) {
            Self::SecretBasic
        } else if has(Self::SecretPost) {
            Self::SecretPost
        } else if has(Self::Public) {
            Self::Public
        } else {
            Self::SecretBasic
        }
    }
}

/// A key that signs a client's assertions.
#[derive(Clone)]
pub struct ClientKey {
    pub signer: Arc<JwsSigner>,
    /// `kid`, where the provider knows several keys of this client.
    pub key_id: Option<String>,
}

/// What a client authenticates with.
pub struct ClientProof<'a> {
    pub client_id: &'a str,
    pub method: ClientAuthMethod,
    pub secret: Option<&'a SecretText>,
    pub key: Option<&'a ClientKey>,
    /// The audience of an assertion.
    pub issuer: &'a str,
}

/// A form whose values may be secrets.
pub type SecretForm = Vec<(&'static str, Zeroizing<String>)>;

impl ClientProof<'_> {
    /// Adds the proof to a form, or to the headers that it is sent with.
    pub fn apply(&self, form: &mut SecretForm, now: u64) -> Result<HeaderMap, OauthFailure> {
        let mut headers = HeaderMap::new();
        let secret = || self.secret.ok_or(OauthFailure::NoClientSecret);
        match self.method {
            ClientAuthMethod::Public => form.push(("client_id", Zeroizing::new(self.client_id.to_owned()))),
            ClientAuthMethod::SecretPost => {
                form.push(("client_id", Zeroizing::new(self.client_id.to_owned())));
                form.push(("client_secret", Zeroizing::new(secret()?.expose().to_owned())));
            }
            ClientAuthMethod::SecretBasic => {
                headers.insert(AUTHORIZATION, basic(self.client_id, secret()?)?);
            }
            ClientAuthMethod::PrivateKeyJwt => {
                form.push(("client_assertion_type", Zeroizing::new(ASSERTION_TYPE.to_owned())));
                form.push(("client_assertion", Zeroizing::new(self.assertion(now)?)));
            }
        }
        Ok(headers)
    }

    fn assertion(&self, now: u64) -> Result<String, OauthFailure> {
        let key = self.key.ok_or(OauthFailure::NoClientSecret)?;
        let mut header = Map::new();
        if let Some(id) = &key.key_id {
            header.insert("kid".to_owned(), Value::from(id.as_str()));
        }
        let claims = json!({
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.issuer,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": crate::random_text()?,
        });
        let Value::Object(claims) = claims else { return Err(OauthFailure::NotSigned) };
        key.signer.sign(header, &claims).map_err(|_| OauthFailure::NotSigned)
    }
}

/// RFC 6749 §2.3.1: both parts are encoded as in a form before they are joined.
fn basic(id: &str, secret: &SecretText) -> Result<HeaderValue, OauthFailure> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = Zeroizing::new(format!("{}:{}", encode(id), encode(secret.expose())));
    let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
    let mut value = HeaderValue::from_str(&text).map_err(|_| OauthFailure::NoClientSecret)?;
    value.set_sensitive(true);
    Ok(value)
}
