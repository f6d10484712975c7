//! The door: every request passes here before any face sees it.
//!
//! Order: [`origin`] (is this address meant for us, may this web page ask), [`api_key`] (who asks),
//! [`quota`] (not too often). What a caller may see and call is [`permit`], asked by the hub, since only
//! the hub knows which server a public name stands for.

pub mod api_key;
pub mod origin;
pub mod permit;
pub mod principal;
pub mod quota;
pub mod refusal;

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::request::Parts;

use api_key::KeyTable;
use origin::OriginGuard;
use permit::Permit;
use principal::Principal;
use refusal::Refusal;

use crate::config::Config;

/// The checks that hold for every route.
pub struct Guard {
    origin: OriginGuard,
    keys: ArcSwap<KeyTable>,
}

impl Guard {
    /// The guard that a configuration asks for.
    pub fn new(config: &Config) -> Self {
        Self { origin: OriginGuard::new(config), keys: ArcSwap::from_pointee(KeyTable::new(config.keys.clone())) }
    }

    /// Lets a request in and says who asks, or refuses it.
    pub fn admit(&self, parts: &Parts) -> Result<Principal, Refusal> {
        self.origin.check(parts)?;
        let principal = self.keys.load().identify(&parts.headers)?;
        principal.spend()?;
        Ok(principal)
    }

    /// Replaces the keys; requests already let in are not affected.
    pub fn replace_keys(&self, keys: Vec<api_key::Key>) {
        self.keys.store(Arc::new(KeyTable::new(keys)));
    }

    /// What the caller of this name may use; `None` when nothing restricts it.
    pub fn permit(&self, principal: &str) -> Option<Arc<Permit>> {
        self.keys.load().permit(principal)
    }
}
