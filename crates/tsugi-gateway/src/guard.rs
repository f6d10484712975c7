//! The door: every request passes here before any face sees it.
//!
//! Order: [`origin`] (is this address meant for us, may this web page ask), [`token`] and [`api_key`] (who asks),
//! [`quota`] (not too often). What a caller may see and call is [`permit`], asked by the hub, since only
//! the hub knows which server a public name stands for.

pub mod api_key;
pub mod origin;
pub mod permit;
pub mod principal;
pub mod quota;
pub mod refusal;
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
use token::Tokens;

use crate::config::Config;

/// The checks that hold for every route.
pub struct Guard {
    origin: OriginGuard,
    keys: ArcSwap<KeyTable>,
    tokens: Option<Arc<dyn Tokens>>,
}

impl Guard {
    /// The guard that a configuration asks for.
    pub fn new(config: &Config) -> Self {
        let keys = ArcSwap::from_pointee(KeyTable::new(config.keys.clone()));
        Self { origin: OriginGuard::new(config), keys, tokens: None }
    }

    /// The same guard, which accepts these tokens too.
    pub fn with_tokens(self, tokens: Arc<dyn Tokens>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Lets a request in and says who asks, or refuses it.
    pub async fn admit(&self, parts: &Parts) -> Result<Principal, Refusal> {
        self.origin.check(parts)?;
        let principal = self.identify(&parts.headers).await?;
        principal.spend()?;
        Ok(principal)
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
