//! Access control: every request passes here before any face sees it.
//!
//! Order: [`origin`] (is this address ours, may this web page call), then [`token`], [`api_key`] and
//! [`sign_in`] (who calls). What a caller may see and call is [`permit`], asked by the hub, since only the hub knows which
//! server a public name stands for. How many calls a caller may make is [`allowance`], asked where a call begins, since one
//! request may bring many.

pub mod api_key;
pub(crate) mod cors;
pub mod origin;
pub mod permit;
pub mod principal;
pub mod quota;
pub(crate) mod rate_limit;
pub mod refusal;
pub mod sign_in;
pub mod token;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tsugi_protocol::answer::Fault;
use tsugi_protocol::mcp::Method;

use api_key::{EmptyKeyPolicy, KeyTable, SecretDigest};
use origin::OriginGuard;
use permit::AccessPermit;
use principal::Principal;
use refusal::HttpRefusal;
use sign_in::{SignInGrant, SignInId, SignInTable};
use token::TokenAuthority;

use crate::config::GatewayConfig;

/// The checks that hold for every route.
pub struct AccessGuard {
    origin: OriginGuard,
    keys: ArcSwap<KeyTable>,
    /// What it means when the last key goes.
    empty: EmptyKeyPolicy,
    /// Notified when the keys were replaced or a sign-in ended, so that open connections can be checked again.
    replaced: watch::Sender<()>,
    tokens: Option<Arc<dyn TokenAuthority>>,
    /// How often tokens are looked at again whose holders have a connection open.
    token_age: Duration,
    sessions: SignInTable,
}

impl AccessGuard {
    /// The guard that a configuration asks for.
    pub fn new(config: &GatewayConfig) -> Self {
        let empty = if config.needs_keys() { EmptyKeyPolicy::Shut } else { EmptyKeyPolicy::Open };
        Self {
            origin: OriginGuard::new(config),
            keys: ArcSwap::from_pointee(KeyTable::new(config.keys.clone(), empty)),
            empty,
            replaced: watch::Sender::new(()),
            tokens: None,
            token_age: config.limits.keep_alive,
            sessions: SignInTable::new(config.limits.session_idle),
        }
    }

    /// The same guard, which accepts these tokens too.
    pub fn with_tokens(self, tokens: Arc<dyn TokenAuthority>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Refuses a request for another name or from a foreign web page. Gives the page that it comes from when the
    /// configuration names that.
    pub(crate) fn check_origin(&self, parts: &Parts) -> Result<Option<HeaderValue>, HttpRefusal> {
        self.origin.check(parts)?;
        Ok(parts.headers.get(ORIGIN).filter(|_| self.origin.is_listed(parts)).cloned())
    }

    /// Finds out who sent a request: by a token, a key, or a sign-in at the dashboard. Without any of them the caller is
    /// a guest on pages that are open to everyone, and refused elsewhere.
    pub(crate) async fn identify(&self, parts: &Parts, is_open: bool) -> Result<Principal, HttpRefusal> {
        let refusal = match self.identify_secret(&parts.headers).await {
            Ok(principal) => return Ok(principal),
            Err(refusal) => refusal,
        };
        match self.identify_cookie(parts)? {
            Some(principal) => Ok(principal),
            None if is_open => Ok(Principal::guest()),
            None => Err(refusal),
        }
    }

    /// Who signed in at the dashboard. A browser sends the cookie with requests of any page, so the page must be ours.
    fn identify_cookie(&self, parts: &Parts) -> Result<Option<Principal>, HttpRefusal> {
        // A wrong key must not fall back to a cookie that happens to be there.
        if api_key::has_secret(&parts.headers) {
            return Ok(None);
        }
        let Some((session, csrf, digest)) = self.sessions.find(&parts.headers) else { return Ok(None) };
        let Some(principal) = self.keys.load().holder(digest) else {
            self.sessions.end(&session);
            return Ok(None);
        };
        // The cookie alone proves nothing: any page can make the browser send it.
        origin::expect_own(parts)?;
        sign_in::expect_csrf(parts, &csrf)?;
        Ok(Some(principal.signed_in(session)))
    }

    /// Whether callers need a key.
    pub fn asks_for_keys(&self) -> bool {
        !self.keys.load().admits_anybody()
    }

    /// True when this gateway may never be without keys: others can reach it, and `--insecure` was not given.
    pub fn needs_keys(&self) -> bool {
        self.empty == EmptyKeyPolicy::Shut
    }

    /// True when every caller is refused: the last key is gone, and without it everyone could come in.
    pub fn refuses_everyone(&self) -> bool {
        self.keys.load().is_shut()
    }

    /// Whether a caller that was let in would be let in now, as the same one. Asking counts as use of a sign-in.
    pub(crate) fn still_admits(&self, principal: &Principal) -> bool {
        let keys = self.keys.load();
        // A key that was replaced by one with another name or role is another caller.
        let is_same = |digest: SecretDigest| keys.holder(digest).is_some_and(|now| now.is_like(principal));
        match (principal.session(), principal.digest()) {
            (Some(session), _) => self.sessions.key(&session).is_some_and(is_same),
            (None, Some(digest)) => is_same(digest) || self.is_of_token(principal),
            (None, None) => keys.admits_anybody(),
        }
    }

    /// Waits until a caller that was let in would not be let in any more: the keys were replaced, they
    /// signed out, or their token does not hold any more.
    pub(crate) fn dismissal(self: &Arc<Self>, principal: &Principal) -> impl Future<Output = ()> + Send + 'static {
        let (guard, principal, mut replaced) = (self.clone(), principal.clone(), self.replaced.subscribe());
        async move {
            while guard.still_admits(&principal) {
                tokio::select! {
                    // The guard that we hold has the other end.
                    _ = replaced.changed() => {}
                    () = token::loss(guard.tokens.as_deref(), &principal, guard.token_age) => return,
                }
            }
        }
    }

    fn is_of_token(&self, principal: &Principal) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.permit(principal.caller().principal()).is_some())
    }

    /// Refuses an order that another web page makes a browser send, unless the configuration names that page.
    pub(crate) fn expect_own_page(&self, parts: &Parts) -> Result<(), HttpRefusal> {
        match self.origin.is_listed(parts) {
            true => Ok(()),
            false => origin::expect_own(parts),
        }
    }

    /// Signs the holder of a key in at the dashboard; `None` when there is no such key.
    pub(crate) fn sign_in(&self, secret: &str) -> Option<(Principal, SignInGrant)> {
        let keys = self.keys.load();
        let digest = keys.find(secret)?;
        let principal = keys.holder(digest)?;
        let (session, signed_in) = self.sessions.begin(digest);
        Some((principal.signed_in(session), signed_in))
    }

    /// Ends a sign-in.
    pub(crate) fn sign_out(&self, session: &SignInId) {
        self.sessions.end(session);
        // Open streams of this sign-in end now.
        self.replaced.send_replace(());
    }

    /// The word that unsafe requests of this sign-in must bring; `None` when it has ended. Asking counts as use.
    pub(crate) fn csrf(&self, session: &SignInId) -> Option<Arc<str>> {
        self.sessions.csrf(session)
    }

    async fn identify_secret(&self, headers: &HeaderMap) -> Result<Principal, HttpRefusal> {
        if let Some(tokens) = &self.tokens
            && let Some(principal) = token::identify(&**tokens, headers).await?
        {
            return Ok(principal);
        }
        self.keys.load().identify(headers)
    }

    /// Replaces the keys. Calls under way are not affected; connections of callers who have no key any more end.
    pub fn replace_keys(&self, keys: Vec<api_key::ApiKey>) {
        let table = KeyTable::new(keys, self.empty).after(&self.keys.load());
        self.keys.store(Arc::new(table));
        self.replaced.send_replace(());
    }

    /// What the caller of this name may use; `None` when nothing restricts it.
    pub fn permit(&self, principal: &str) -> Option<Arc<AccessPermit>> {
        let of_token = self.tokens.as_ref().and_then(|tokens| tokens.permit(principal));
        of_token.or_else(|| self.keys.load().permit(principal))
    }

    /// Counts a call that begins against what its caller's key allows. Greetings and listening cost nothing.
    pub(crate) fn begin(&self, principal: &str, method: &Method) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        match self.keys.load().allowance(principal) {
            // Greeting and listening cost a server next to nothing.
            Some(allowance) if !matches!(method, Method::Discover | Method::Listen) => allowance.begin(),
            _ => Ok(None),
        }
    }
}
