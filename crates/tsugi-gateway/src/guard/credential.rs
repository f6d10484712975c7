//! Credentials beside the gateway's own keys: each kind has a verifier that turns a secret into an authority.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::api_key::secret_if_any;
use super::authority::Authority;
use super::principal::Principal;
use super::refusal::HttpRefusal;

/// Verifies one kind of credential. It is asked before the gateway's keys are.
pub trait CredentialVerifier: Send + Sync {
    /// Whether a secret looks like one of this kind. One that does is never taken for anything else: an expired token
    /// must not make its holder anonymous.
    fn recognizes(&self, secret: &str) -> bool;

    /// Whether a secret may be one of this kind though nothing shows it. Asked once no kind recognizes it and no key of
    /// the gateway is it.
    fn takes_unknown(&self, _secret: &str) -> bool {
        false
    }

    /// What the secret allows this request to do.
    fn verify<'a>(&'a self, secret: &'a str, parts: &'a Parts) -> CredentialCheck<'a>;

    /// Whether the secret still holds, asked while a connection is open that it has opened.
    fn still_holds<'a>(&'a self, secret: &'a str) -> BoxFuture<'a, bool>;

    /// True when callers without a credential are refused because this kind exists. Tokens of a built-in server do not
    /// close a gateway that is open; an issuer in the configuration does.
    fn closes_gateway(&self) -> bool {
        false
    }
}

/// A verification: known at once, as for a token that was seen before, or still to be waited for.
pub enum CredentialCheck<'a> {
    Ready(Result<Arc<Authority>, HttpRefusal>),
    Pending(BoxFuture<'a, Result<Arc<Authority>, HttpRefusal>>),
}

/// The kinds of credentials that a gateway accepts beside its keys.
#[derive(Default, Clone)]
pub(super) struct CredentialVerifiers(Vec<Arc<dyn CredentialVerifier>>);

impl CredentialVerifiers {
    pub(super) fn add(&mut self, verifier: Arc<dyn CredentialVerifier>) {
        self.0.push(verifier);
    }

    pub(super) fn close_gateway(&self) -> bool {
        self.0.iter().any(|verifier| verifier.closes_gateway())
    }

    /// The verifier of the credential in these headers, and the secret; `None` when no kind recognizes it.
    pub(super) fn find<'a>(&'a self, parts: &'a Parts) -> Option<(&'a dyn CredentialVerifier, &'a str)> {
        // Most gateways have none, and every request comes by here.
        if self.0.is_empty() {
            return None;
        }
        let secret = secret_if_any(&parts.headers)?;
        self.of_secret(secret).map(|verifier| (verifier, secret))
    }

    /// The verifier that takes a credential which no kind recognizes and which is not a key.
    pub(super) fn find_unknown<'a>(&'a self, parts: &'a Parts) -> Option<(&'a dyn CredentialVerifier, &'a str)> {
        // Only keys may come in another header.
        let secret = secret_if_any(&parts.headers).filter(|_| parts.headers.contains_key(AUTHORIZATION))?;
        self.taker_of(secret).map(|verifier| (verifier, secret))
    }

    fn taker_of(&self, secret: &str) -> Option<&dyn CredentialVerifier> {
        self.0.iter().map(|verifier| &**verifier).find(|verifier| verifier.takes_unknown(secret))
    }

    fn of_secret(&self, secret: &str) -> Option<&dyn CredentialVerifier> {
        self.0.iter().map(|verifier| &**verifier).find(|verifier| verifier.recognizes(secret))
    }

    /// Waits until the credential of a caller no longer holds; for ever when it is not of these kinds. The issuer does
    /// not notify us, so it is asked again from time to time.
    pub(super) async fn loss(&self, principal: &Principal, every: Duration) {
        let Some(secret) = principal.secret() else { return std::future::pending().await };
        let Some(verifier) = self.of_secret(secret).or_else(|| self.taker_of(secret)) else { return };
        loop {
            tokio::time::sleep(every).await;
            if !verifier.still_holds(secret).await {
                return;
            }
        }
    }
}

/// The holder of a credential that a verifier has recognized.
pub(super) async fn identify(
    verifier: &dyn CredentialVerifier,
    secret: &str,
    parts: &Parts,
) -> Result<Principal, HttpRefusal> {
    let authority = match verifier.verify(secret, parts) {
        CredentialCheck::Ready(authority) => authority?,
        CredentialCheck::Pending(checking) => checking.await?,
    };
    Ok(Principal::of_credential(authority, secret))
}
