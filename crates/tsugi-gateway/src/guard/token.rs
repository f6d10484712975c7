//! Credentials that a server keeps itself: tokens that let their holder in to that server alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;

use super::api_key::{Key, secret_if_any};
use super::permit::Permit;
use super::principal::Principal;
use super::refusal::Refusal;

/// Who keeps tokens. They are accepted beside the gateway's keys, and do not make it ask for any.
pub trait Tokens: Send + Sync {
    /// Whether a secret looks like a token of theirs. One that does is never taken for anything else: an expired
    /// token must not make its holder anonymous.
    fn is_token(&self, secret: &str) -> bool;

    /// The key that a token amounts to, as long as it holds.
    fn key_of<'a>(&'a self, secret: &'a str) -> BoxFuture<'a, Option<Key>>;

    /// What callers may use whose name is that of such a key; `None` for all other names.
    fn permit(&self, principal: &str) -> Option<Arc<Permit>>;
}

/// Waits until the token that let somebody in does not hold any more; for ever when none did. Nobody tells us of that,
/// so it is looked at every now and then.
pub(super) async fn loss(tokens: Option<&dyn Tokens>, principal: &Principal, every: Duration) {
    let (Some(tokens), Some(secret)) = (tokens, principal.token()) else { return std::future::pending().await };
    loop {
        tokio::time::sleep(every).await;
        if tokens.key_of(secret).await.is_none() {
            return;
        }
    }
}

/// Whoever sends a token with these headers; nobody when they carry none.
pub(super) async fn identify(tokens: &dyn Tokens, headers: &HeaderMap) -> Result<Option<Principal>, Refusal> {
    let Some(secret) = secret_if_any(headers).filter(|secret| tokens.is_token(secret)) else { return Ok(None) };
    match tokens.key_of(secret).await {
        Some(key) => Ok(Some(Principal::of_key(Arc::new(key.clone()), key.caller()).of_token(secret))),
        None => Err(Refusal::unauthorized("this token is not known, or no longer holds")),
    }
}
