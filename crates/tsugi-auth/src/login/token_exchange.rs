//! The code for an ID token: the request to the token endpoint (RFC 6749 §4.1.3), and its answer.

use serde_json::Value;

use super::{LoginClient, LoginRefusal, LoginTransaction};
use crate::client_auth::{ClientAuthMethod, ClientProof, SecretForm};
use crate::code_flow::{code_form, is_error_name};
use crate::issuer_metadata::IssuerMetadata;
use crate::secret::SecretText;
use crate::strict_json;

/// A request to the token endpoint. It holds the code and the client's secret, so it has no `Debug`.
pub struct TokenExchange {
    pub address: String,
    pub form: SecretForm,
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
        let mut form = code_form(code, &client.redirect, &transaction.verifier, None);
        let method = match client.secret {
            Some(_) => ClientAuthMethod::for_secret(&metadata.features.token_endpoint_auth_methods_supported),
            None => ClientAuthMethod::Public,
        };
        let proof = ClientProof {
            client_id: &client.id,
            method,
            secret: client.secret.as_ref(),
            key: None,
            issuer: &metadata.issuer,
        };
        // No time and no unique text: only assertions need them, and this client signs none.
        let authorization = proof.prove(&mut form, 0, "").map_err(|_| LoginRefusal::CodeRefused)?;
        Ok(Self { address: address.into(), form, authorization })
    }
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
