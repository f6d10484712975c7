//! The forms of the grants: what each sends to the token endpoint.

use tsugi_auth::code_flow::code_form;
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use zeroize::Zeroizing;

use crate::authorization::AuthorizationCode;
use crate::client_auth::SecretForm;
use crate::device::DEVICE_GRANT;

/// RFC 7523 §2.1.
pub const JWT_BEARER_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// RFC 8693 §2.1.
pub const TOKEN_EXCHANGE_GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The assertion that an identity provider gives for another authorization server.
pub const ID_JAG_TYPE: &str = "urn:ietf:params:oauth:token-type:id-jag";
pub const ID_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:id_token";
pub const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";

/// What every grant may add.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrantTerms<'a> {
    pub resource: Option<&'a str>,
    pub scope: Option<&'a ScopeSet>,
}

/// A token that is exchanged for another.
pub struct ExchangeSubject<'a> {
    pub token: &'a SecretText,
    pub token_type: &'static str,
    pub requested_type: &'static str,
    /// The issuer that the new token is for, where it is another one.
    pub audience: Option<&'a str>,
}

fn form(grant: &str, terms: GrantTerms<'_>) -> SecretForm {
    let mut form = vec![("grant_type", Zeroizing::new(grant.to_owned()))];
    form.extend(terms.resource.map(|resource| ("resource", Zeroizing::new(resource.to_owned()))));
    let scope = terms.scope.filter(|scope| !scope.is_empty());
    form.extend(scope.map(|scope| ("scope", Zeroizing::new(scope.to_string()))));
    form
}

fn secret(text: &SecretText) -> Zeroizing<String> {
    Zeroizing::new(text.expose().to_owned())
}

pub fn authorization_code(code: &AuthorizationCode, resource: Option<&str>) -> SecretForm {
    code_form(code.code.expose(), &code.redirect, &code.verifier, resource)
}

/// Without a scope the refreshed token has that of the first one (RFC 6749 §6).
pub fn refresh_token(token: &SecretText, resource: Option<&str>) -> SecretForm {
    let mut form = form("refresh_token", GrantTerms { resource, scope: None });
    form.push(("refresh_token", secret(token)));
    form
}

pub fn client_credentials(terms: GrantTerms<'_>) -> SecretForm {
    form("client_credentials", terms)
}

pub fn jwt_bearer(assertion: &SecretText, terms: GrantTerms<'_>) -> SecretForm {
    let mut form = form(JWT_BEARER_GRANT, terms);
    form.push(("assertion", secret(assertion)));
    form
}

pub fn token_exchange(subject: &ExchangeSubject<'_>, terms: GrantTerms<'_>) -> SecretForm {
    let mut form = form(TOKEN_EXCHANGE_GRANT, terms);
    form.push(("requested_token_type", Zeroizing::new(subject.requested_type.to_owned())));
    form.push(("subject_token", secret(subject.token)));
    form.push(("subject_token_type", Zeroizing::new(subject.token_type.to_owned())));
    form.extend(subject.audience.map(|audience| ("audience", Zeroizing::new(audience.to_owned()))));
    form
}

pub fn device_code(code: &SecretText, resource: Option<&str>) -> SecretForm {
    let mut form = form(DEVICE_GRANT, GrantTerms { resource, scope: None });
    form.push(("device_code", secret(code)));
    form
}
