//! Sign-in at the dashboard through an OpenID provider.
//!
//! The transaction of a sign-in is a sealed cookie and not a row of a table: strangers who begin thousands of them fill
//! nothing, and no one is pushed out. That a transaction is used once is remembered by the few that were completed.
//! [`tsugi_auth::login`] has the rules; here are the requests that it needs and the time.

mod provider_metadata;
mod seal;
mod spent;

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use tsugi_auth::code_flow::AuthorizationResponse;
use tsugi_auth::id_token::{IdTokenRules, UnverifiedIdToken};
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::key_cache::KeyDecision;
use tsugi_auth::login::token_exchange::{TokenExchange, error_name, read_answer};
use tsugi_auth::login::{LOGIN_SECONDS, LoginClient, LoginRefusal, LoginTransaction, ReturnPlace, logout_address};
use tsugi_auth::token::{TokenClaims, TokenRefusal};

use super::document_fetch::{DocumentFailure, FetchedDocument};
use super::verifier::{OAuthVerifier, TokenIssuer, seconds_now};
use crate::guard::api_key::KeyRole;
use crate::guard::authority::Authority;
use crate::guard::sign_in::cookie::CookieSecurity;
use crate::guard::sign_in::{SignInId, SignInLimits};
pub use provider_metadata::ProviderMetadata;
use seal::{LoginSealer, SealedLogin};
use spent::SpentStates;

/// Where a provider sends the browser back to. Each has an address of its own: a response that one provider made cannot
/// be taken for another's, even if neither sends `iss`
/// ([RFC 9700](https://www.rfc-editor.org/rfc/rfc9700#section-4.4.2)).
pub fn return_address(public_url: &str, provider: &str) -> String {
    format!("{}/auth/callback/{provider}", public_url.trim_end_matches('/'))
}

/// Sends a code to a token endpoint, within limits and to permitted addresses only.
pub trait TokenEndpoint: Send + Sync {
    fn exchange<'a>(&'a self, request: &'a TokenExchange) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>>;
}

/// One provider, as the sign-in page offers it.
pub struct LoginProvider {
    /// The name of its issuer, whose keys, roles and limits hold here, too.
    pub issuer: String,
    /// What the button says.
    pub label: String,
    pub client: LoginClient,
    /// What a person is who has no role by a claim; `None` lets no such person in.
    pub default_role: Option<KeyRole>,
    pub limits: SignInLimits,
    pub metadata: ProviderMetadata,
    pub endpoint: Arc<dyn TokenEndpoint>,
}

/// Signs people in through the configured providers.
pub struct LoginService {
    verifier: Arc<OAuthVerifier>,
    providers: Vec<LoginProvider>,
    /// Without a final slash. Browsers come back here, whatever `Host` a request had.
    public_url: String,
    sealer: LoginSealer,
    spent: SpentStates,
}

/// The beginning of a sign-in.
pub(crate) struct LoginStart {
    /// Where the browser goes.
    pub(crate) address: String,
    /// The value of `Set-Cookie`.
    pub(crate) cookie: String,
}

/// A sign-in that succeeded.
pub(crate) struct FinishedLogin {
    pub(crate) authority: Authority,
    pub(crate) limits: SignInLimits,
    pub(crate) security: CookieSecurity,
    pub(crate) return_to: ReturnPlace,
    /// The sign-in that the browser had when it began this one.
    pub(crate) replaces: Option<SignInId>,
    /// Where the browser can sign out at the provider, too.
    pub(crate) logout: Option<String>,
}

impl LoginService {
    pub fn new(verifier: Arc<OAuthVerifier>, providers: Vec<LoginProvider>, public_url: &str) -> Self {
        let public_url = public_url.trim_end_matches('/').to_owned();
        Self { verifier, providers, public_url, sealer: LoginSealer::new(), spent: SpentStates::default() }
    }

    /// What the sign-in page offers: labels, and addresses at the public address, since cookies set elsewhere would not
    /// come back there.
    pub(crate) fn providers(&self) -> impl Iterator<Item = (&str, String)> {
        let address = |provider: &LoginProvider| format!("{}/auth/login/{}", self.public_url, provider.issuer);
        self.providers.iter().map(move |provider| (provider.label.as_str(), address(provider)))
    }

    /// The value of `Set-Cookie` that takes the transaction away. It is spent with the first answer, whatever that is.
    pub(crate) fn clear_cookie(&self) -> String {
        self.security().set_login("", 0)
    }

    /// Begins a sign-in at a provider. It takes the place of `replaces` when it is completed.
    pub(crate) async fn begin(
        &self,
        provider: &str,
        return_to: ReturnPlace,
        replaces: Option<SignInId>,
    ) -> Result<LoginStart, LoginRefusal> {
        let provider = self.provider(provider).ok_or(LoginRefusal::UnknownProvider)?;
        let metadata = provider.metadata.get().await.ok_or(LoginRefusal::Unreachable)?;
        let transaction = LoginTransaction::begin(&provider.issuer, return_to, rand::random(), seconds_now());
        let address = transaction.authorization_address(&metadata, &provider.client)?;
        let sealed = self.sealer.seal(&SealedLogin { transaction, replaces });
        let cookie = self.security().set_login(&sealed, LOGIN_SECONDS);
        Ok(LoginStart { address: address.into(), cookie })
    }

    /// Completes a sign-in with what the browser brings back to the address of a provider: the query of the redirect, and
    /// its cookie.
    pub(crate) async fn finish(
        &self,
        came_from: &str,
        query: &str,
        headers: &http::HeaderMap,
    ) -> Result<FinishedLogin, LoginRefusal> {
        let response = AuthorizationResponse::parse(query)?;
        let cookie = self.security().login_of(headers).ok_or(LoginRefusal::NoTransaction)?;
        let SealedLogin { transaction, replaces } = self.sealer.open(cookie).ok_or(LoginRefusal::NoTransaction)?;
        // Before the state is spent: the answer of the right provider may still come.
        if transaction.provider() != came_from {
            return Err(LoginRefusal::OtherProvider);
        }
        let now = seconds_now();
        // First of all: a stranger who has no browser of ours causes no request and fills no table.
        transaction.expect_answer(&response, now)?;
        if !self.spent.insert(transaction.state(), transaction.expires(), now) {
            return Err(LoginRefusal::Replayed);
        }
        let provider = self.provider(transaction.provider()).ok_or(LoginRefusal::UnknownProvider)?;
        let issuer = self.verifier.issuer(&provider.issuer).ok_or(LoginRefusal::UnknownProvider)?;
        let metadata = provider.metadata.get().await.ok_or(LoginRefusal::Unreachable)?;
        let code = transaction.redeem(&response, &metadata, now).inspect_err(|_| {
            log_error(&provider.issuer, "authorization", response.error_name());
        })?;
        let request = TokenExchange::new(&transaction, code, &metadata, &provider.client)?;
        let answer = provider.endpoint.exchange(&request).await.map_err(|_| LoginRefusal::Unreachable)?;
        let token = read_answer(answer.status, &answer.body).inspect_err(|_| {
            log_error(&provider.issuer, "token", error_name(&answer.body).as_deref());
        })?;
        let claims = verify(token.expose(), issuer, provider, transaction.nonce()).await?;
        let finished = self.admit(&claims, issuer, provider, &metadata, &transaction, token.expose())?;
        Ok(FinishedLogin { replaces, ..finished })
    }

    fn admit(
        &self,
        claims: &TokenClaims,
        issuer: &TokenIssuer,
        provider: &LoginProvider,
        metadata: &IssuerMetadata,
        transaction: &LoginTransaction,
        token: &str,
    ) -> Result<FinishedLogin, LoginRefusal> {
        // Not the end of the ID token: that says until when the proof may be shown, not how long a person may stay.
        let end = SystemTime::now() + provider.limits.longest;
        let authority = self.verifier.person_authority(issuer, claims, provider.default_role, end);
        Ok(FinishedLogin {
            authority: authority.ok_or(LoginRefusal::NoRole)?,
            limits: provider.limits,
            security: self.security(),
            return_to: transaction.return_to().clone(),
            replaces: None,
            logout: logout_address(metadata, &provider.client, token, &format!("{}/", self.public_url)),
        })
    }

    fn provider(&self, name: &str) -> Option<&LoginProvider> {
        self.providers.iter().find(|provider| provider.issuer == name)
    }

    fn security(&self) -> CookieSecurity {
        CookieSecurity::of_scheme(&self.public_url)
    }
}

/// Writes what the provider said is wrong. The person is not shown it: it is for the operator of the gateway.
fn log_error(provider: &str, endpoint: &'static str, error: Option<&str>) {
    if let Some(error) = error {
        tracing::warn!(provider, endpoint, error, "a provider refused a sign-in");
    }
}

/// Checks an ID token with the keys of its issuer, which are those of its access tokens.
async fn verify(
    token: &str,
    issuer: &TokenIssuer,
    provider: &LoginProvider,
    nonce: &str,
) -> Result<TokenClaims, LoginRefusal> {
    let token = UnverifiedIdToken::parse(token).map_err(LoginRefusal::IdToken)?;
    let decision = match issuer.keys.decide(token.key_id()).0 {
        KeyDecision::Fetch => issuer.keys.fetch_and_decide(token.key_id()).await.0,
        decision => decision,
    };
    let keys = match decision {
        KeyDecision::Use(keys) | KeyDecision::UseAndRefresh(keys) => keys,
        KeyDecision::Unknown | KeyDecision::Fetch => return Err(LoginRefusal::IdToken(TokenRefusal::UnknownKey)),
        KeyDecision::Unavailable { .. } => return Err(LoginRefusal::Unreachable),
    };
    let rules = IdTokenRules {
        issuer: &issuer.rules,
        client: &provider.client.id,
        trusted_audiences: &issuer.audiences,
        nonce,
    };
    token.verify(&rules, &keys, seconds_now()).map_err(LoginRefusal::IdToken)
}
