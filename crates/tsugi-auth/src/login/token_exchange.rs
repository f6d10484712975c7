//! The code for an ID token: the request to the token endpoint (RFC 6749 §4.1.3), and its answer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use url::form_urlencoded;

use super::response::is_error_name;
use super::{LoginClient, LoginRefusal, LoginTransaction};
use crate::issuer_metadata::IssuerMetadata;
use crate::secret::SecretText;
use crate::strict_json;

/// A request to the token endpoint. It holds the code and the client's secret, so it has no `Debug`.
pub struct TokenExchange {
    pub address: String,
    pub form: Vec<(&'static str, SecretText)>,
    /// The value of `Authorization`, where the client authenticates by it.
    pub authorization: Option<SecretText>,
}

impl TokenExchange {
    pub fn new(
        transaction: &LoginTransaction,
        code: &str,
        metadata: &IssuerMetadata,
        client: &LoginClient,
    ) -> Result<Self, LoginRefusal> {
        let address = metadata.token.clone().ok_or(LoginRefusal::NoEndpoint("token_endpoint"))?;
        let mut form = vec![
            ("grant_type", SecretText::new("authorization_code")),
            ("code", SecretText::new(code)),
            ("redirect_uri", SecretText::new(client.redirect.as_str())),
            ("code_verifier", SecretText::new(transaction.verifier.expose())),
        ];
        let authorization = match &client.secret {
            Some(secret) if takes_basic(metadata) => Some(basic(&client.id, secret)),
            secret => {
                form.push(("client_id", SecretText::new(client.id.as_str())));
                form.extend(secret.iter().map(|secret| ("client_secret", SecretText::new(secret.expose()))));
                None
            }
        };
        Ok(Self { address: address.into(), form, authorization })
    }
}

/// Every provider must support Basic, and it is the default of a provider that lists no method (OpenID Connect Discovery §3).
fn takes_basic(metadata: &IssuerMetadata) -> bool {
    let methods = &metadata.features.token_endpoint_auth_methods_supported;
    let has = |wanted: &str| methods.iter().any(|method| method == wanted);
    has("client_secret_basic") || !has("client_secret_post")
}

/// Both parts are form-encoded before (RFC 6749 §2.3.1), so that a colon in one of them is not the separator.
fn basic(id: &str, secret: &SecretText) -> SecretText {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    SecretText::new(format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose())))))
}

/// The error in an answer of the token endpoint as the provider names it, such as `invalid_client`, for the log.
pub fn error_name(body: &[u8]) -> Option<String> {
    let answer = strict_json::parse_object(body)?;
    answer.get("error").and_then(Value::as_str).filter(|name| is_error_name(name)).map(str::to_owned)
}

/// The ID token in an answer of the token endpoint. The access token beside it is not used and not kept.
pub fn read_answer(status: u16, body: &[u8]) -> Result<SecretText, LoginRefusal> {
    if status != 200 {
        return Err(LoginRefusal::CodeRefused);
    }
    let answer = strict_json::parse_object(body).ok_or(LoginRefusal::Unreachable)?;
    let token = answer.get("id_token").and_then(Value::as_str);
    token.map(SecretText::new).ok_or(LoginRefusal::NoIdToken)
}
