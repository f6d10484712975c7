//! One request to a token endpoint, and what its answer means.

use std::fmt;

use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use tsugi_transport::guarded_fetch::{FetchLimits, FetchedJson, GuardedFetch};
use url::Url;
use zeroize::Zeroizing;

use crate::client_auth::{self, ClientProof, SecretForm};
use crate::dpop::{DpopKey, NONCE_HEADER, PROOF_HEADER};
use crate::failure::OauthFailure;
use crate::record::{TokenKind, TokenSet};

/// A refresh happens when a tenth of the lifetime is left, or this long before the end, whichever is earlier; but not
/// in the first half, or a short token would be refreshed with every request.
const RENEW_BEFORE: u64 = 60;

/// The codes of OAuth errors. An unknown one is not shown: it is text of another party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenErrorCode {
    InvalidRequest,
    InvalidClient,
    InvalidGrant,
    InvalidScope,
    InvalidTarget,
    InvalidRedirectUri,
    InvalidClientMetadata,
    UnauthorizedClient,
    UnsupportedGrantType,
    UnsupportedResponseType,
    AccessDenied,
    ServerError,
    TemporarilyUnavailable,
    UseDpopNonce,
    AuthorizationPending,
    SlowDown,
    ExpiredToken,
    Unknown,
}

const CODES: [(TokenErrorCode, &str); 17] = [
    (TokenErrorCode::InvalidRequest, "invalid_request"),
    (TokenErrorCode::InvalidClient, "invalid_client"),
    (TokenErrorCode::InvalidGrant, "invalid_grant"),
    (TokenErrorCode::InvalidScope, "invalid_scope"),
    (TokenErrorCode::InvalidTarget, "invalid_target"),
    (TokenErrorCode::InvalidRedirectUri, "invalid_redirect_uri"),
    (TokenErrorCode::InvalidClientMetadata, "invalid_client_metadata"),
    (TokenErrorCode::UnauthorizedClient, "unauthorized_client"),
    (TokenErrorCode::UnsupportedGrantType, "unsupported_grant_type"),
    (TokenErrorCode::UnsupportedResponseType, "unsupported_response_type"),
    (TokenErrorCode::AccessDenied, "access_denied"),
    (TokenErrorCode::ServerError, "server_error"),
    (TokenErrorCode::TemporarilyUnavailable, "temporarily_unavailable"),
    (TokenErrorCode::UseDpopNonce, "use_dpop_nonce"),
    (TokenErrorCode::AuthorizationPending, "authorization_pending"),
    (TokenErrorCode::SlowDown, "slow_down"),
    (TokenErrorCode::ExpiredToken, "expired_token"),
];

impl TokenErrorCode {
    pub fn parse(text: &str) -> Self {
        CODES.iter().find(|(_, name)| *name == text).map_or(Self::Unknown, |(code, _)| *code)
    }
}

impl fmt::Display for TokenErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            CODES.iter().find(|(code, _)| code == self).map_or("an error without a known code", |(_, name)| name);
        formatter.write_str(name)
    }
}

/// The answer to a token request.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: Option<String>,
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
    issued_token_type: Option<String>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: Option<String>,
}

/// What an endpoint says of a request: JSON with its status, or the code of a refusal.
pub(crate) enum EndpointAnswer {
    Accepted(FetchedJson),
    Refused(TokenErrorCode, FetchedJson),
}

/// Posts a form. Redirects are not followed and anything but JSON is no answer.
pub(crate) async fn post(
    fetch: &GuardedFetch,
    endpoint: &str,
    form: &SecretForm,
    headers: HeaderMap,
) -> Result<EndpointAnswer, OauthFailure> {
    let pairs: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = fetch.post_form(endpoint, &pairs, headers, FetchLimits::TOKEN).await;
    let answer = answer.map_err(|_| OauthFailure::TokenUnreachable)?;
    judge(answer)
}

/// A refusal has a client error and a code. Anything else is trouble that may pass.
pub(crate) fn judge(answer: FetchedJson) -> Result<EndpointAnswer, OauthFailure> {
    if answer.status.is_success() {
        return Ok(EndpointAnswer::Accepted(answer));
    }
    if !answer.status.is_client_error() {
        return Err(OauthFailure::TokenUnreachable);
    }
    let error = answer.parse::<ErrorAnswer>().ok().and_then(|answer| answer.error);
    Ok(EndpointAnswer::Refused(error.as_deref().map_or(TokenErrorCode::Unknown, TokenErrorCode::parse), answer))
}

/// A token request before the client is authenticated.
pub struct TokenRequest<'a> {
    pub endpoint: &'a str,
    pub form: SecretForm,
    pub client: ClientProof<'a>,
    /// The key to bind the token to.
    pub dpop: Option<&'a DpopKey>,
}

/// A token of any type, as RFC 8693 returns it.
pub struct GrantedToken {
    pub token: SecretText,
    /// `issued_token_type`.
    pub kind: Option<String>,
}

impl TokenRequest<'_> {
    /// Asks for access tokens.
    pub async fn send(self, fetch: &GuardedFetch) -> Result<TokenSet, OauthFailure> {
        let key = self.dpop;
        let answer = self.exchange(fetch).await?;
        tokens_of(answer, key)
    }

    /// Asks for a token that is not an access token, such as an ID-JAG.
    pub async fn send_exchange(self, fetch: &GuardedFetch) -> Result<GrantedToken, OauthFailure> {
        let answer = self.exchange(fetch).await?;
        let token = answer.access_token.ok_or(OauthFailure::TokenMalformed("there is no token"))?;
        Ok(GrantedToken { token: SecretText::new(token), kind: answer.issued_token_type })
    }

    async fn exchange(mut self, fetch: &GuardedFetch) -> Result<TokenAnswer, OauthFailure> {
        let url = Url::parse(self.endpoint).map_err(|_| OauthFailure::NoEndpoint("token"))?;
        let headers = client_auth::apply(&self.client, &mut self.form)?;
        let mut nonce: Option<String> = None;
        loop {
            let mut headers = headers.clone();
            if let Some(key) = self.dpop {
                let proof = key.prove(&Method::POST, &url, nonce.as_deref(), None)?;
                headers.insert(PROOF_HEADER, HeaderValue::from_str(&proof).map_err(|_| OauthFailure::NotSigned)?);
            }
            match post(fetch, self.endpoint, &self.form, headers).await? {
                EndpointAnswer::Accepted(answer) => {
                    return answer.parse().map_err(|_| OauthFailure::TokenMalformed("it is not a token response"));
                }
                // RFC 9449 §8: once, with the nonce that the server gives.
                EndpointAnswer::Refused(TokenErrorCode::UseDpopNonce, answer) if nonce.is_none() => {
                    let given = answer.headers.get(NONCE_HEADER).and_then(|value| value.to_str().ok());
                    nonce = Some(given.ok_or(OauthFailure::TokenRefused(TokenErrorCode::UseDpopNonce))?.to_owned());
                }
                EndpointAnswer::Refused(code, _) => return Err(OauthFailure::TokenRefused(code)),
            }
        }
    }
}

fn tokens_of(answer: TokenAnswer, key: Option<&DpopKey>) -> Result<TokenSet, OauthFailure> {
    let access = answer.access_token.filter(|token| is_header_text(token));
    let access = access.ok_or(OauthFailure::TokenMalformed("there is no access token"))?;
    let kind = match answer.token_type.as_deref() {
        Some(name) if name.eq_ignore_ascii_case("bearer") => TokenKind::Bearer,
        Some(name) if name.eq_ignore_ascii_case("dpop") && key.is_some() => TokenKind::Dpop,
        // RFC 6749 §7.1: a token of an unknown type must not be used.
        _ => return Err(OauthFailure::TokenMalformed("`token_type` is missing or not known")),
    };
    let now = crate::now();
    let lifetime = answer.expires_in.as_ref().and_then(seconds);
    let renew = lifetime.map(|lifetime| {
        let early = (lifetime - lifetime / 10).min(lifetime.saturating_sub(RENEW_BEFORE));
        now + early.max(lifetime.div_ceil(2))
    });
    Ok(TokenSet {
        access: SecretText::new(access),
        kind,
        expires: lifetime.map(|lifetime| now.saturating_add(lifetime)),
        renew,
        refresh: answer.refresh_token.filter(|token| !token.is_empty()).map(SecretText::new),
        granted: answer.scope.as_deref().map(ScopeSet::parse),
        dpop_key: key.filter(|_| kind == TokenKind::Dpop).map(|key| Zeroizing::new(key.document().to_vec())),
    })
}

/// A lifetime is a number; some providers write it as text. Longer than a year is taken as a year.
fn seconds(value: &serde_json::Value) -> Option<u64> {
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))?;
    Some(number.min(366 * 24 * 3600))
}

/// Whether a token can stand in a header without ending it.
fn is_header_text(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| matches!(byte, 0x21..=0x7e))
}
