//! Who asks, once the door has let them in.

use std::sync::{Arc, LazyLock};

use tsugi_protocol::answer::Caller;

use super::api_key::{Key, Role};
use super::refusal::Refusal;

/// An admitted caller.
#[derive(Debug, Clone)]
pub struct Principal {
    caller: Caller,
    key: Option<Arc<Key>>,
}

impl Principal {
    /// Somebody who reached an address that asks for no key.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Caller> = LazyLock::new(|| Caller::new("anonymous").as_operator());
        Self { caller: ANONYMOUS.clone(), key: None }
    }

    /// The holder of a key.
    pub(super) fn of_key(key: Arc<Key>, caller: Caller) -> Self {
        Self { caller, key: Some(key) }
    }

    /// The caller, as calls carry it.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// True when a key says who this is.
    pub fn is_authenticated(&self) -> bool {
        self.key.is_some()
    }

    /// True when this caller may use the control routes: everybody where no key is asked for.
    pub fn is_admin(&self) -> bool {
        self.key.as_ref().is_none_or(|key| key.role == Role::Admin)
    }

    /// Counts one request against the key's quota.
    pub(super) fn spend(&self) -> Result<(), Refusal> {
        match &self.key {
            Some(key) => key.spend(),
            None => Ok(()),
        }
    }
}
