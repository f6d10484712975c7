//! Tokens that were verified already, found by digest: most requests bring the token of the request before.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tsugi_auth::token::VerifiedToken;

use crate::guard::api_key::SecretDigest;
use crate::guard::authority::Authority;

/// Half of the tokens that are kept at most.
const HALF: usize = 5_000;

/// A verified token with what it allows.
#[derive(Debug)]
pub(super) struct CachedToken {
    pub(super) token: VerifiedToken,
    pub(super) authority: Arc<Authority>,
    /// The place of its issuer in the configuration.
    pub(super) issuer: usize,
    /// The keys it was verified with.
    pub(super) generation: u64,
}

/// A bounded table that forgets what was not used for long: when the younger half is full it becomes the older one, and
/// the older one is dropped. Both lookups and insertions cost the same however full it is.
#[derive(Debug, Default)]
pub(super) struct TokenCache(Mutex<TokenHalves>);

#[derive(Debug, Default)]
struct TokenHalves {
    young: HashMap<SecretDigest, Arc<CachedToken>>,
    old: HashMap<SecretDigest, Arc<CachedToken>>,
}

impl TokenCache {
    pub(super) fn find(&self, digest: SecretDigest) -> Option<Arc<CachedToken>> {
        let mut halves = self.0.lock();
        if let Some(found) = halves.young.get(&digest) {
            return Some(found.clone());
        }
        let found = halves.old.remove(&digest)?;
        halves.insert(digest, found.clone());
        Some(found)
    }

    pub(super) fn insert(&self, digest: SecretDigest, token: Arc<CachedToken>) {
        self.0.lock().insert(digest, token);
    }

    pub(super) fn remove(&self, digest: SecretDigest) {
        let mut halves = self.0.lock();
        halves.young.remove(&digest);
        halves.old.remove(&digest);
    }
}

impl TokenHalves {
    fn insert(&mut self, digest: SecretDigest, token: Arc<CachedToken>) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, token);
    }
}
