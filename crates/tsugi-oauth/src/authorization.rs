//! The authorization code grant: the address that a person visits, and the check of what comes back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use url::Url;

use crate::failure::{OauthFailure, ResponseDefect};
use crate::token_endpoint::TokenErrorCode;

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationTerms<'a> {
    pub client_id: &'a str,
    pub redirect: &'a str,
    pub scope: &'a ScopeSet,
    /// RFC 8707; `None` for providers that refuse the parameter.
    pub resource: Option<&'a str>,
    /// Whether the issuer supports PKCE although it does not say so.
    pub assume_pkce: bool,
}

/// A sign-in that was begun. It is used up by the first response, so neither `state` nor verifier serves twice.
pub struct AuthorizationRequest {
    /// What the person visits.
    pub url: Url,
    state: String,
    verifier: SecretText,
    redirect: String,
    /// The issuer that was found, before anything of the response was read.
    issuer: String,
    announces_issuer: bool,
}

/// A code that may be exchanged, with the proof that we asked for it.
pub struct AuthorizationCode {
    pub code: SecretText,
    pub verifier: SecretText,
    pub redirect: String,
}

impl AuthorizationRequest {
    pub fn new(issuer: &IssuerMetadata, terms: &AuthorizationTerms<'_>) -> Result<Self, OauthFailure> {
        let methods = &issuer.features.code_challenge_methods_supported;
        let says_so = methods.iter().any(|method| method == "S256");
        let is_vouched_for = terms.assume_pkce && methods.is_empty();
        // MCP: a client must refuse to proceed where the issuer does not say that it supports PKCE.
        if !says_so && !is_vouched_for {
            return Err(OauthFailure::NoPkce);
        }
        let endpoint = issuer.authorization.as_ref().ok_or(OauthFailure::NoEndpoint("authorization"))?;
        let (state, verifier) = (crate::random_text()?, crate::random_text()?);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let scope = terms.scope.to_string();
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", terms.client_id),
            ("redirect_uri", terms.redirect),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", &state),
        ];
        parameters.extend(terms.resource.map(|resource| ("resource", resource)));
        if !terms.scope.is_empty() {
            parameters.push(("scope", &scope));
        }
        let url = with_parameters(endpoint, &parameters)?;
        Ok(Self {
            url,
            state,
            verifier: SecretText::new(verifier),
            redirect: terms.redirect.to_owned(),
            issuer: issuer.issuer.clone(),
            announces_issuer: issuer.features.authorization_response_iss_parameter_supported,
        })
    }

    /// Checks the address that the provider redirected to. Until `state` and `iss` are right nothing in it counts, not
    /// even its error.
    pub fn accept(self, redirected: &str) -> Result<AuthorizationCode, OauthFailure> {
        let forged = OauthFailure::ForgedResponse;
        let response = Url::parse(redirected).map_err(|_| forged(ResponseDefect::OtherAddress))?;
        let parameters = ResponseParameters::of(&response).map_err(forged)?;
        if !is_same_address(&response, &self.redirect) {
            return Err(forged(ResponseDefect::OtherAddress));
        }
        if parameters.state.as_deref() != Some(self.state.as_str()) {
            return Err(forged(ResponseDefect::State));
        }
        match parameters.issuer.as_deref() {
            // RFC 9207 §2.4 with the plain comparison of RFC 3986 §6.2.1: nothing is normalized.
            Some(issuer) if issuer != self.issuer => return Err(forged(ResponseDefect::IssuerDiffers)),
            None if self.announces_issuer => return Err(forged(ResponseDefect::IssuerMissing)),
            _ => {}
        }
        if let Some(error) = parameters.error {
            return Err(OauthFailure::SignInRefused(TokenErrorCode::parse(&error)));
        }
        let code = parameters.code.filter(|code| !code.is_empty()).ok_or(forged(ResponseDefect::NoCode))?;
        Ok(AuthorizationCode { code: SecretText::new(code), verifier: self.verifier, redirect: self.redirect })
    }
}

/// The parameters of a response that decide something, each at most once.
#[derive(Default)]
struct ResponseParameters {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl ResponseParameters {
    fn of(response: &Url) -> Result<Self, ResponseDefect> {
        let mut found = Self::default();
        for (name, value) in response.query_pairs() {
            let slot = match name.as_ref() {
                "code" => &mut found.code,
                "state" => &mut found.state,
                "iss" => &mut found.issuer,
                "error" => &mut found.error,
                _ => continue,
            };
            if slot.replace(value.into_owned()).is_some() {
                return Err(ResponseDefect::DuplicateParameter);
            }
        }
        Ok(found)
    }
}

fn is_same_address(response: &Url, redirect: &str) -> bool {
    let without_query = |mut url: Url| {
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    Url::parse(redirect).is_ok_and(|redirect| without_query(redirect) == without_query(response.clone()))
}

/// The endpoint with our parameters behind its own. With one of ours in it already, it would be open which of the two
/// counts.
fn with_parameters(endpoint: &Url, parameters: &[(&'static str, &str)]) -> Result<Url, OauthFailure> {
    let mut url = endpoint.clone();
    for (name, _) in parameters {
        if endpoint.query_pairs().any(|(known, _)| known == *name) {
            return Err(OauthFailure::EndpointParameter(name));
        }
    }
    url.query_pairs_mut().extend_pairs(parameters);
    Ok(url)
}

#[cfg(test)]
mod tests;
