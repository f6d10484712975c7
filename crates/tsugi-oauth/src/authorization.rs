//! The authorization code grant at the issuer of a server: the address that a person visits, and the check of what
//! comes back.

use tsugi_auth::code_flow::{
    AuthorizationResponse, CodeAnswer, CodeExpectation, CodeRequest, PkceEvidence, ResponseDefect,
};
use tsugi_auth::issuer_metadata::{IssuerMetadata, MetadataProblem};
use tsugi_auth::pkce::PkceVerifier;
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use url::Url;

use crate::failure::OauthFailure;
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
    verifier: PkceVerifier,
    redirect: String,
    /// The issuer that was found, before anything of the response was read.
    issuer: String,
    announces_issuer: bool,
}

/// A code that may be exchanged, with the proof that we asked for it.
pub struct AuthorizationCode {
    pub code: SecretText,
    pub verifier: PkceVerifier,
    pub redirect: String,
}

impl AuthorizationRequest {
    pub fn new(issuer: &IssuerMetadata, terms: &AuthorizationTerms<'_>) -> Result<Self, OauthFailure> {
        let (state, verifier) = (crate::random_text()?, PkceVerifier::new(crate::random_bytes()?));
        let resource = terms.resource.map(|resource| ("resource", resource));
        let request = CodeRequest {
            client_id: terms.client_id,
            redirect: terms.redirect,
            scope: &terms.scope.to_string(),
            state: &state,
            verifier: &verifier,
            extra: resource.as_slice(),
            pkce: if terms.assume_pkce { PkceEvidence::Assumed } else { PkceEvidence::Announced },
        };
        let url = request.address(issuer).map_err(|problem| match problem {
            MetadataProblem::NoAuthorizationEndpoint => OauthFailure::NoEndpoint("authorization"),
            MetadataProblem::NoPkce => OauthFailure::NoPkce,
            MetadataProblem::EndpointParameter(name) => OauthFailure::EndpointParameter(name),
            problem => OauthFailure::Issuer(problem),
        })?;
        Ok(Self {
            url,
            state,
            verifier,
            redirect: terms.redirect.to_owned(),
            issuer: issuer.issuer.clone(),
            announces_issuer: issuer.features.authorization_response_iss_parameter_supported,
        })
    }

    /// Checks the address that the provider redirected to.
    pub fn accept(self, redirected: &str) -> Result<AuthorizationCode, OauthFailure> {
        let forged = OauthFailure::ForgedResponse;
        let address = Url::parse(redirected).map_err(|_| forged(ResponseDefect::OtherAddress))?;
        let response = AuthorizationResponse::parse(address.query().unwrap_or_default()).map_err(forged)?;
        if !is_same_address(&address, &self.redirect) {
            return Err(forged(ResponseDefect::OtherAddress));
        }
        let expectation =
            CodeExpectation { state: &self.state, issuer: &self.issuer, announces_issuer: self.announces_issuer };
        match expectation.accept(&response).map_err(forged)? {
            CodeAnswer::Refused(error) => Err(OauthFailure::SignInRefused(TokenErrorCode::parse(error))),
            CodeAnswer::Code(code) => {
                Ok(AuthorizationCode { code: SecretText::new(code), verifier: self.verifier, redirect: self.redirect })
            }
        }
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

#[cfg(test)]
mod tests;
