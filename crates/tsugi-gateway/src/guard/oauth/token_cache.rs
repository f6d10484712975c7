//! Tokens that were seen before, found by digest: most requests bring the token of the request before.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
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
    /// When its issuer is asked again, where the issuer was asked.
    pub(super) fresh_until: Option<Instant>,
}

/// A bounded table that forgets what was not used for long: when the younger half is full it becomes the older one, and
/// the older one is dropped. Both lookups and insertions cost the same however full it is.
#[derive(Debug)]
pub(super) struct DigestCache<V>(Mutex<CacheHalves<V>>);

#[derive(Debug)]
struct CacheHalves<V> {
    young: HashMap<SecretDigest, V>,
    old: HashMap<SecretDigest, V>,
}

impl<V> Default for DigestCache<V> {
    fn default() -> Self {
        Self(Mutex::new(CacheHalves { young: HashMap::new(), old: HashMap::new() }))
    }
}

impl<V: Clone> DigestCache<V> {
    pub(super) fn find(&self, digest: SecretDigest) -> Option<V> {
        let mut halves = self.0.lock();
        if let Some(found) = halves.young.get(&digest) {
            return Some(found.clone());
        }
        let found = halves.old.remove(&digest)?;
        halves.insert(digest, found.clone());
        Some(found)
    }

    pub(super) fn insert(&self, digest: SecretDigest, value: V) {
        self.0.lock().insert(digest, value);
    }

    pub(super) fn remove(&self, digest: SecretDigest) {
        let mut halves = self.0.lock();
        halves.young.remove(&digest);
        halves.old.remove(&digest);
    }
}

impl<V> CacheHalves<V> {
    fn insert(&mut self, digest: SecretDigest, value: V) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_keeps_what_is_used() {
        let cache = DigestCache::default();
        let digest = |number: usize| SecretDigest::of(&number.to_string());
        cache.insert(digest(0), 0);
        for number in 1..HALF * 4 {
            cache.insert(digest(number), number);
            assert_eq!(cache.find(digest(0)), Some(0), "used with every insertion");
        }
        let halves = cache.0.lock();
        assert!(halves.young.len() <= HALF && halves.old.len() <= HALF);
        assert!(!halves.young.contains_key(&digest(1)) && !halves.old.contains_key(&digest(1)));
    }
}
