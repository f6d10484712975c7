//! The authorization code grant, for both clients that use it: people who sign in here, and servers that we sign in to.
//!
//! It is the request that a browser takes to the issuer ([`CodeRequest`]), the check of what the browser brings back
//! ([`CodeExpectation`]), and the form that redeems the code ([`code_form`]). The caller brings the random bytes, keeps
//! what must be kept in between, and sends the form.

mod response;

use url::Url;
use zeroize::Zeroizing;

use crate::client_auth::SecretForm;
use crate::issuer_metadata::{IssuerMetadata, MetadataProblem};
use crate::pkce::PkceVerifier;

pub(crate) use response::is_error_name;
pub use response::{AuthorizationResponse, ResponseDefect};

/// Whether an issuer that says nothing about PKCE is asked all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PkceEvidence {
    /// The issuer must say that it supports `S256`, as MCP wants it.
    Announced,
    /// The operator vouches for an issuer that says nothing. What it does say counts.
    Assumed,
}

/// What an authorization request asks for (RFC 6749 §4.1.1, RFC 7636 §4.3).
pub struct CodeRequest<'a> {
    pub client_id: &'a str,
    pub redirect: &'a str,
    /// Separated by spaces; empty leaves it to the issuer.
    pub scope: &'a str,
    pub state: &'a str,
    pub verifier: &'a PkceVerifier,
    /// What this use adds, such as `nonce` or `resource`.
    pub extra: &'a [(&'static str, &'a str)],
    pub pkce: PkceEvidence,
}

impl CodeRequest<'_> {
    /// Where the browser goes.
    pub fn address(&self, issuer: &IssuerMetadata) -> Result<Url, MetadataProblem> {
        let methods = &issuer.features.code_challenge_methods_supported;
        let is_vouched_for = self.pkce == PkceEvidence::Assumed && methods.is_empty();
        if !is_vouched_for && !methods.iter().any(|method| method == "S256") {
            return Err(MetadataProblem::NoPkce);
        }
        let endpoint = issuer.authorization.as_ref().ok_or(MetadataProblem::NoAuthorizationEndpoint)?;
        let challenge = self.verifier.challenge();
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", self.state),
        ];
        parameters.extend_from_slice(self.extra);
        if !self.scope.is_empty() {
            parameters.push(("scope", self.scope));
        }
        with_parameters(endpoint, &parameters)
    }
}

/// The endpoint with our parameters behind its own. With one of ours in it already, it would be open which of the two
/// counts.
fn with_parameters(endpoint: &Url, parameters: &[(&'static str, &str)]) -> Result<Url, MetadataProblem> {
    let mut url = endpoint.clone();
    for (name, _) in parameters {
        if endpoint.query_pairs().any(|(known, _)| known == *name) {
            return Err(MetadataProblem::EndpointParameter(name));
        }
    }
    url.query_pairs_mut().extend_pairs(parameters);
    Ok(url)
}

/// What a response must have to be the answer to one request. It is known before anything of the response is read.
#[derive(Debug, Clone, Copy)]
pub struct CodeExpectation<'a> {
    pub state: &'a str,
    pub issuer: &'a str,
    /// Whether the issuer says that it names itself in responses (RFC 9207 §3).
    pub announces_issuer: bool,
}

/// What an issuer answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeAnswer<'a> {
    Code(&'a str),
    /// The error as the issuer names it. Its description is not kept: it is text of another party.
    Refused(&'a str),
}

impl CodeExpectation<'_> {
    /// Reads a response. Until `state` and `iss` are right nothing in it counts, not even its error: both may come from
    /// another party.
    pub fn accept<'a>(&self, response: &'a AuthorizationResponse) -> Result<CodeAnswer<'a>, ResponseDefect> {
        self.expect_state(response)?;
        match response.issuer.as_deref() {
            // RFC 9207 §2.4 with the plain comparison of RFC 3986 §6.2.1: nothing is normalized.
            Some(issuer) if issuer != self.issuer => return Err(ResponseDefect::IssuerDiffers),
            None if self.announces_issuer => return Err(ResponseDefect::IssuerMissing),
            _ => {}
        }
        if let Some(error) = &response.error {
            return Ok(CodeAnswer::Refused(error));
        }
        let code = response.code.as_deref().filter(|code| !code.is_empty());
        code.map(CodeAnswer::Code).ok_or(ResponseDefect::NoCode)
    }

    /// The first of these checks alone, for a caller that has to look up the issuer between the two.
    pub fn expect_state(&self, response: &AuthorizationResponse) -> Result<(), ResponseDefect> {
        match response.state.as_deref() == Some(self.state) {
            true => Ok(()),
            false => Err(ResponseDefect::State),
        }
    }
}

/// The form that redeems a code (RFC 6749 §4.1.3, RFC 7636 §4.5), before the client proves who it is.
pub fn code_form(code: &str, redirect: &str, verifier: &PkceVerifier, resource: Option<&str>) -> SecretForm {
    let secret = |text: &str| Zeroizing::new(text.to_owned());
    let mut form = vec![("grant_type", secret("authorization_code"))];
    form.extend(resource.map(|resource| ("resource", secret(resource))));
    form.push(("code", secret(code)));
    form.push(("redirect_uri", secret(redirect)));
    form.push(("code_verifier", secret(verifier.expose())));
    form
}
