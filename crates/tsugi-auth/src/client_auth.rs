//! How a client proves at a token endpoint who it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::introspection::basic_credentials;
use crate::jose::signer::{JwsSigner, SignerProblem};
use crate::secret::SecretText;

/// The type of an assertion that a client signs (RFC 7523 §2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long such an assertion is good for: one request.
const ASSERTION_SECONDS: u64 = 60;

/// A form whose values may be secrets.
pub type SecretForm = Vec<(&'static str, Zeroizing<String>)>;

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

impl ClientProof<'_> {
    /// Adds the proof to a form, or gives the value of `Authorization` that the form is sent with. `now` is in seconds
    /// since 1970, and `unique` is text that no other request has.
    pub fn prove(&self, form: &mut SecretForm, now: u64, unique: &str) -> Result<Option<SecretText>, SignerProblem> {
        let secret = || self.secret.ok_or(SignerProblem::NoKey);
        match self.method {
            ClientAuthMethod::Public => form.push(("client_id", Zeroizing::new(self.client_id.to_owned()))),
            ClientAuthMethod::SecretPost => {
                form.push(("client_id", Zeroizing::new(self.client_id.to_owned())));
                form.push(("client_secret", Zeroizing::new(secret()?.expose().to_owned())));
            }
            ClientAuthMethod::SecretBasic => return Ok(Some(basic_credentials(self.client_id, secret()?.expose()))),
            ClientAuthMethod::PrivateKeyJwt => {
                form.push(("client_assertion_type", Zeroizing::new(ASSERTION_TYPE.to_owned())));
                form.push(("client_assertion", Zeroizing::new(self.assertion(now, unique)?)));
            }
        }
        Ok(None)
    }

    fn assertion(&self, now: u64, unique: &str) -> Result<String, SignerProblem> {
        let key = self.key.ok_or(SignerProblem::NoKey)?;
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
            "jti": unique,
        });
        let Value::Object(claims) = claims else { return Err(SignerProblem::NotSigned) };
        key.signer.sign(header, &claims)
    }
}
