//! Credentials that a server keeps itself: tokens that let their holder in to that server alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;

use super::api_key::{ApiKey, secret_if_any};
use super::permit::AccessPermit;
use super::principal::Principal;
use super::refusal::HttpRefusal;

/// A store of tokens. They are accepted beside the gateway's keys. Having one does not make the gateway require keys.
pub trait TokenAuthority: Send + Sync {
    /// Whether a secret looks like a token of theirs. One that does is never taken for anything else: an expired
    /// token must not make its holder anonymous.
    fn is_token(&self, secret: &str) -> bool;

    /// The key that a token amounts to, as long as it holds.
    fn key_of<'a>(&'a self, secret: &'a str) -> BoxFuture<'a, Option<ApiKey>>;

    /// What callers may use whose name is that of such a key; `None` for all other names.
    fn permit(&self, principal: &str) -> Option<Arc<AccessPermit>>;
}

/// Waits until the token of a caller is no longer valid; for ever when it has none. No one notifies us of that,
/// so it is looked at every now and then.
pub(super) async fn loss(tokens: Option<&dyn TokenAuthority>, principal: &Principal, every: Duration) {
    let (Some(tokens), Some(secret)) = (tokens, principal.token()) else { return std::future::pending().await };
    loop {
        tokio::time::sleep(every).await;
        if tokens.key_of(secret).await.is_none() {
            return;
        }
    }
}

/// The holder of the token in these headers; `None` when they carry none.
pub(super) async fn identify(
    tokens: &dyn TokenAuthority,
    headers: &HeaderMap,
) -> Result<Option<Principal>, HttpRefusal> {
    let Some(secret) = secret_if_any(headers).filter(|secret| tokens.is_token(secret)) else { return Ok(None) };
    match tokens.key_of(secret).await {
        Some(key) => Ok(Some(Principal::of_key(Arc::new(key.clone()), key.caller()).of_token(secret))),
        None => Err(HttpRefusal::unauthorized("this token is not known, or no longer holds")),
    }
}
