//! The door: every request passes here before any face sees it.
//!
//! Order: [`origin`] (is this address meant for us, may this web page ask), [`token`], [`api_key`] and
//! [`session`] (who asks), [`quota`] (not too often). What a caller may see and call is [`permit`], asked by the hub, since only
//! the hub knows which server a public name stands for.

pub mod api_key;
pub mod origin;
pub mod permit;
pub mod principal;
pub mod quota;
pub mod refusal;
pub mod session;
pub mod token;

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::request::Parts;

use api_key::KeyTable;
use origin::OriginGuard;
use permit::Permit;
use principal::Principal;
use refusal::Refusal;
use session::{SessionId, Sessions, SignedIn};
use token::Tokens;

use crate::config::Config;

/// The checks that hold for every route.
pub struct Guard {
    origin: OriginGuard,
    keys: ArcSwap<KeyTable>,
    tokens: Option<Arc<dyn Tokens>>,
    sessions: Sessions,
}

impl Guard {
    /// The guard that a configuration asks for.
    pub fn new(config: &Config) -> Self {
        let keys = ArcSwap::from_pointee(KeyTable::new(config.keys.clone()));
        Self {
            origin: OriginGuard::new(config),
            keys,
            tokens: None,
            sessions: Sessions::new(config.limits.session_idle),
        }
    }

    /// The same guard, which accepts these tokens too.
    pub fn with_tokens(self, tokens: Arc<dyn Tokens>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Lets a request in and says who asks, or refuses it.
    pub async fn admit(&self, parts: &Parts) -> Result<Principal, Refusal> {
        self.origin.check(parts)?;
        let principal = match self.identify(&parts.headers).await {
            Ok(principal) => principal,
            Err(refusal) => self.of_cookie(parts)?.ok_or(refusal)?,
        };
        principal.spend()?;
        Ok(principal)
    }

    /// Lets a request in to a page that is for everybody, and says who asks if they say so.
    pub async fn admit_guest(&self, parts: &Parts) -> Result<Principal, Refusal> {
        self.origin.check(parts)?;
        match self.identify(&parts.headers).await {
            Ok(principal) => Ok(principal),
            Err(_) => Ok(self.of_cookie(parts)?.unwrap_or_else(Principal::guest)),
        }
    }

    /// Who signed in at the dashboard. A browser sends the cookie whoever asks it to, so the page must be ours.
    fn of_cookie(&self, parts: &Parts) -> Result<Option<Principal>, Refusal> {
        if api_key::has_secret(&parts.headers) {
            return Ok(None);
        }
        let Some((session, csrf, digest)) = self.sessions.find(&parts.headers) else { return Ok(None) };
        let Some(principal) = self.keys.load().holder(&digest) else {
            self.sessions.end(&session);
            return Ok(None);
        };
        origin::expect_own(parts)?;
        session::expect_csrf(parts, &csrf)?;
        Ok(Some(principal.signed_in(session)))
    }

    /// Whether callers have to say who they are.
    pub fn asks_for_keys(&self) -> bool {
        !self.keys.load().is_empty()
    }

    /// Whether somebody who was let in would be let in now. Asking counts as use of a sign-in.
    pub(crate) fn still_admits(&self, principal: &Principal) -> bool {
        let keys = self.keys.load();
        match (principal.session(), principal.digest()) {
            (Some(session), _) => self.sessions.key(&session).is_some_and(|digest| keys.holder(&digest).is_some()),
            (None, Some(digest)) => keys.holder(digest).is_some() || self.is_of_token(principal),
            (None, None) => keys.is_empty(),
        }
    }

    fn is_of_token(&self, principal: &Principal) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.permit(principal.caller().principal()).is_some())
    }

    /// Refuses an order that another web page makes a browser send, unless the configuration names that page.
    pub(crate) fn expect_own_page(&self, parts: &Parts) -> Result<(), Refusal> {
        match self.origin.is_listed(parts) {
            true => Ok(()),
            false => origin::expect_own(parts),
        }
    }

    /// Signs the holder of a key in at the dashboard; `None` when there is no such key.
    pub(crate) fn sign_in(&self, secret: &str) -> Option<(Principal, SignedIn)> {
        let keys = self.keys.load();
        let digest = keys.find(secret)?;
        let principal = keys.holder(&digest)?;
        let (session, signed_in) = self.sessions.begin(digest);
        Some((principal.signed_in(session), signed_in))
    }

    /// Ends a sign-in.
    pub(crate) fn sign_out(&self, session: &SessionId) {
        self.sessions.end(session);
    }

    /// The word that unsafe requests of this sign-in must bring; `None` when it has ended. Asking counts as use.
    pub(crate) fn csrf(&self, session: &SessionId) -> Option<Arc<str>> {
        self.sessions.csrf(session)
    }

    async fn identify(&self, headers: &HeaderMap) -> Result<Principal, Refusal> {
        if let Some(tokens) = &self.tokens
            && let Some(principal) = token::identify(&**tokens, headers).await?
        {
            return Ok(principal);
        }
        self.keys.load().identify(headers)
    }

    /// Replaces the keys; requests already let in are not affected.
    pub fn replace_keys(&self, keys: Vec<api_key::Key>) {
        self.keys.store(Arc::new(KeyTable::new(keys)));
    }

    /// What the caller of this name may use; `None` when nothing restricts it.
    pub fn permit(&self, principal: &str) -> Option<Arc<Permit>> {
        let of_token = self.tokens.as_ref().and_then(|tokens| tokens.permit(principal));
        of_token.or_else(|| self.keys.load().permit(principal))
    }
}
