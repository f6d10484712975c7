//! Sign-in of a person through an OpenID provider: the authorization code flow, as data.
//!
//! 1. [`LoginTransaction::begin`] makes the secrets of one sign-in. The browser keeps the transaction, sealed.
//! 2. [`LoginTransaction::authorization_address`] is where the browser goes.
//! 3. [`AuthorizationResponse`] is what it brings back, and [`LoginTransaction::redeem`] checks that it answers *this*
//!    transaction and comes from *this* provider, before anything is sent anywhere.
//! 4. [`token_exchange`] turns the code into an ID token, which [`crate::id_token`] checks.
//!
//! The grant itself is [`crate::code_flow`], which our client to other servers uses as well.
//! Every way in which this can end is a variant of [`LoginRefusal`].

mod refusal;
mod return_place;
pub mod token_exchange;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use url::Url;

pub use refusal::{LoginProblem, LoginRefusal};
pub use return_place::ReturnPlace;

use crate::code_flow::{AuthorizationResponse, CodeAnswer, CodeExpectation, CodeRequest, PkceEvidence};
use crate::issuer_metadata::{IssuerMetadata, MetadataProblem};
use crate::pkce::PkceVerifier;
use crate::secret::SecretText;

/// How long a person may take at the provider, in seconds.
pub const LOGIN_SECONDS: u64 = 600;

/// This program as one provider knows it.
pub struct LoginClient {
    pub id: String,
    /// Absent for a public client, which PKCE alone protects.
    pub secret: Option<SecretText>,
    /// Where the provider sends the browser back to.
    pub redirect: String,
    /// `openid` is among them.
    pub scopes: Vec<String>,
}

/// One sign-in that is under way. It belongs to one browser, which keeps it sealed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginTransaction {
    provider: String,
    state: String,
    nonce: String,
    verifier: PkceVerifier,
    return_to: ReturnPlace,
    expires: u64,
}

impl LoginTransaction {
    /// Begins a sign-in at a provider; `now` is in seconds since 1970.
    pub fn begin(provider: &str, return_to: ReturnPlace, random: [[u8; 32]; 3], now: u64) -> Self {
        let [state, nonce, verifier] = random;
        Self {
            provider: provider.to_owned(),
            state: URL_SAFE_NO_PAD.encode(state),
            nonce: URL_SAFE_NO_PAD.encode(nonce),
            verifier: PkceVerifier::new(verifier),
            return_to,
            expires: now + LOGIN_SECONDS,
        }
    }

    pub fn provider(&self) -> &str {
        &self.provider
    }

    pub fn state(&self) -> &str {
        &self.state
    }

    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    pub fn return_to(&self) -> &ReturnPlace {
        &self.return_to
    }

    /// When it ends, in seconds since 1970.
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// Where the browser goes to sign in (OpenID Connect Core §3.1.2.1).
    pub fn authorization_address(&self, metadata: &IssuerMetadata, client: &LoginClient) -> Result<Url, LoginRefusal> {
        let request = CodeRequest {
            client_id: &client.id,
            redirect: &client.redirect,
            scope: &client.scopes.join(" "),
            state: &self.state,
            verifier: &self.verifier,
            extra: &[("nonce", &self.nonce)],
            // Entra and Cognito support it and do not say so. A provider that does not know it ignores it.
            pkce: PkceEvidence::Assumed,
        };
        request.address(metadata).map_err(|problem| match problem {
            MetadataProblem::NoAuthorizationEndpoint => LoginRefusal::NoEndpoint("authorization_endpoint"),
            MetadataProblem::NoPkce => LoginRefusal::NoPkce,
            MetadataProblem::EndpointParameter(name) => LoginRefusal::EndpointParameter(name),
            _ => LoginRefusal::Unreachable,
        })
    }

    /// Refuses a response that does not answer this transaction. Asked before the provider's metadata is needed.
    pub fn expect_answer(&self, response: &AuthorizationResponse, now: u64) -> Result<(), LoginRefusal> {
        let expectation = CodeExpectation { state: &self.state, issuer: "", announces_issuer: false };
        expectation.expect_state(response)?;
        match now < self.expires {
            true => Ok(()),
            false => Err(LoginRefusal::Expired),
        }
    }

    /// The code of a response that answers this transaction and comes from the provider that was asked.
    pub fn redeem<'a>(
        &self,
        response: &'a AuthorizationResponse,
        metadata: &IssuerMetadata,
        now: u64,
    ) -> Result<&'a str, LoginRefusal> {
        self.expect_answer(response, now)?;
        let expectation = CodeExpectation {
            state: &self.state,
            issuer: &metadata.issuer,
            announces_issuer: metadata.features.authorization_response_iss_parameter_supported,
        };
        match expectation.accept(response)? {
            CodeAnswer::Code(code) => Ok(code),
            CodeAnswer::Refused("access_denied") => Err(LoginRefusal::Denied),
            CodeAnswer::Refused(_) => Err(LoginRefusal::ProviderError),
        }
    }
}

/// Where the browser goes to sign out at the provider, too (OpenID Connect RP-Initiated Logout §2); `None` when the
/// provider has no such page.
pub fn logout_address(
    metadata: &IssuerMetadata,
    client: &LoginClient,
    id_token: &str,
    return_to: &str,
) -> Option<String> {
    /// Many servers refuse addresses that are much longer.
    const LONGEST_HINT: usize = 4096;
    let mut address = metadata.end_session.clone()?;
    {
        let mut query = address.query_pairs_mut();
        query.append_pair("client_id", &client.id).append_pair("post_logout_redirect_uri", return_to);
        // Without the hint the provider asks the person whether to sign out, which still works.
        if id_token.len() <= LONGEST_HINT {
            query.append_pair("id_token_hint", id_token);
        }
    }
    Some(address.into())
}
