//! When the keys of an issuer are fetched again: rotation without refusals, and tokens with invented key ids without a
//! storm of requests.
//!
//! [`KeyCache`] decides and counts; another part fetches. The time is an argument, in seconds on any clock that only goes
//! forward.

use std::collections::HashMap;
use std::sync::Arc;

use crate::jose::key_set::KeySet;

/// How long a set is fresh when its answer does not say so.
const USUAL_AGE: u64 = 3_600;
const SHORTEST_AGE: u64 = 300;
const LONGEST_AGE: u64 = 86_400;
/// How long the last good set is used while fetching fails.
const LAST_GOOD: u64 = 86_400;
/// The least time between two fetches that unknown key ids cause, and between refreshes that fail.
const UNKNOWN_PAUSE: u64 = 30;
/// The least time between two attempts while there are no keys at all.
const EMPTY_PAUSE: u64 = 5;
/// How long a key id that the issuer does not have is remembered.
const UNKNOWN_MEMORY: u64 = 60;
const MAX_UNKNOWN: usize = 1_024;

/// What to do with a token before its signature can be checked.
#[derive(Debug, Clone)]
pub enum KeyDecision {
    /// Check it with these.
    Use(Arc<KeySet>),
    /// Check it with these, and fetch in the background.
    UseAndRefresh(Arc<KeySet>),
    /// Fetch, then ask again.
    Fetch,
    /// The issuer does not have this key.
    Unknown,
    /// There are no keys, and it is too early to try again.
    Unavailable { retry_after: u64 },
}

/// The keys of one issuer, and when they were asked for.
#[derive(Debug, Default)]
pub struct KeyCache {
    set: Option<Arc<KeySet>>,
    fetched_at: u64,
    fresh_for: u64,
    /// When a fetch began last, for any reason.
    tried_at: Option<u64>,
    /// When an unknown key id caused a fetch last. Refreshes do not count: a rotation just after one must be seen.
    asked_at: Option<u64>,
    /// Key ids that the issuer did not have, and until when that is believed.
    unknown: HashMap<String, u64>,
    /// Counts the sets, so that tokens which were verified with an older one are verified again.
    generation: u64,
}

impl KeyCache {
    /// What to do with a token that names this key.
    pub fn decide(&self, key_id: Option<&str>, now: u64) -> KeyDecision {
        let Some(set) = self.set.as_ref().filter(|_| now < self.fetched_at + self.fresh_for.max(LAST_GOOD)) else {
            return match self.tried_at.map(|tried| (tried + EMPTY_PAUSE).saturating_sub(now)) {
                Some(left) if left > 0 => KeyDecision::Unavailable { retry_after: left },
                _ => KeyDecision::Fetch,
            };
        };
        match key_id {
            Some(id) if !set.has_key_id(id) => match self.may_ask_for(id, now) {
                true => KeyDecision::Fetch,
                false => KeyDecision::Unknown,
            },
            _ if self.is_due(now) => KeyDecision::UseAndRefresh(set.clone()),
            _ => KeyDecision::Use(set.clone()),
        }
    }

    /// What is known after the fetch that this token waited for, without another one.
    pub fn decide_after_fetch(&self, key_id: Option<&str>, now: u64) -> KeyDecision {
        match self.decide(key_id, now) {
            KeyDecision::Fetch if self.set.is_some() => KeyDecision::Unknown,
            KeyDecision::Fetch => KeyDecision::Unavailable { retry_after: EMPTY_PAUSE },
            decided => decided,
        }
    }

    /// A fetch begins, caused by a key id if one is given.
    pub fn begin(&mut self, key_id: Option<&str>, now: u64) {
        self.tried_at = Some(now);
        if self.set.is_some() && key_id.is_some() {
            self.asked_at = Some(now);
        }
    }

    /// A fetch has brought a set. `max_age` is what its answer allows, `key_id` what was looked for.
    pub fn store(&mut self, set: KeySet, max_age: Option<u64>, key_id: Option<&str>, now: u64) {
        self.fresh_for = max_age.unwrap_or(USUAL_AGE).clamp(SHORTEST_AGE, LONGEST_AGE);
        self.fetched_at = now;
        self.generation += 1;
        if let Some(id) = key_id.filter(|id| !set.has_key_id(id)) {
            self.remember_unknown(id, now);
        }
        // A key that appeared is used at once.
        self.unknown.retain(|id, until| *until > now && !set.has_key_id(id));
        self.set = Some(Arc::new(set));
    }

    /// Which set is used now; it grows with every set.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn has_keys(&self) -> bool {
        self.set.is_some()
    }

    /// At 80 % of its life a set is fetched again, and after a failure not more often than every 30 s.
    fn is_due(&self, now: u64) -> bool {
        let is_old = now >= self.fetched_at + self.fresh_for * 4 / 5;
        is_old && self.tried_at.is_none_or(|tried| now >= tried + UNKNOWN_PAUSE)
    }

    fn may_ask_for(&self, id: &str, now: u64) -> bool {
        let is_remembered = self.unknown.get(id).is_some_and(|until| now < *until);
        !is_remembered && self.asked_at.is_none_or(|asked| now >= asked + UNKNOWN_PAUSE)
    }

    fn remember_unknown(&mut self, id: &str, now: u64) {
        if self.unknown.len() >= MAX_UNKNOWN {
            self.unknown.retain(|_, until| *until > now);
        }
        // With a full table the pause between fetches still holds.
        if self.unknown.len() < MAX_UNKNOWN {
            self.unknown.insert(id.to_owned(), now + UNKNOWN_MEMORY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyCache, KeyDecision};
    use crate::jose::key_set::KeySet;

    fn set(ids: &[&str]) -> KeySet {
        let key = |id: &&str| serde_json::json!({"kty": "OKP", "kid": id, "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        let keys: Vec<_> = ids.iter().map(key).collect();
        KeySet::parse(serde_json::json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn word(decision: &KeyDecision) -> &'static str {
        match decision {
            KeyDecision::Use(_) => "use",
            KeyDecision::UseAndRefresh(_) => "refresh",
            KeyDecision::Fetch => "fetch",
            KeyDecision::Unknown => "unknown",
            KeyDecision::Unavailable { .. } => "unavailable",
        }
    }

    fn filled() -> KeyCache {
        let mut cache = KeyCache::default();
        cache.begin(None, 1_000);
        cache.store(set(&["a"]), None, None, 1_000);
        cache
    }

    #[test]
    fn a_cache_without_keys_fetches_and_then_waits_a_moment() {
        let mut cache = KeyCache::default();
        assert_eq!(word(&cache.decide(Some("a"), 0)), "fetch");
        cache.begin(Some("a"), 0);
        assert_eq!(word(&cache.decide(Some("a"), 1)), "unavailable");
        assert_eq!(word(&cache.decide(None, 4)), "unavailable");
        assert_eq!(word(&cache.decide(Some("a"), 5)), "fetch");
    }

    #[test]
    fn a_set_is_fetched_again_before_it_is_old() {
        let mut cache = filled();
        assert_eq!(word(&cache.decide(Some("a"), 1_000 + 2_879)), "use");
        assert_eq!(word(&cache.decide(Some("a"), 1_000 + 2_880)), "refresh");
        cache.begin(None, 1_000 + 2_880);
        assert_eq!(word(&cache.decide(Some("a"), 1_000 + 2_881)), "use");
        // The refresh failed: the last good set stays for a day, asked for every 30 s.
        assert_eq!(word(&cache.decide(Some("a"), 1_000 + 2_910)), "refresh");
        assert_eq!(word(&cache.decide(Some("a"), 1_000 + 86_399)), "refresh");
        assert_eq!(word(&cache.decide(Some("a"), 1_000 + 86_400)), "fetch");
    }

    #[test]
    fn how_long_a_set_is_fresh_is_bounded() {
        for (said, due) in [(Some(0), 240), (Some(u64::MAX), 69_120), (Some(1_000), 800), (None, 2_880)] {
            let mut cache = KeyCache::default();
            cache.store(set(&["a"]), said, None, 0);
            assert_eq!(word(&cache.decide(None, due - 1)), "use", "{said:?}");
            assert_eq!(word(&cache.decide(None, due)), "refresh", "{said:?}");
        }
    }

    #[test]
    fn n11_a_rotated_key_is_found_at_once() {
        let mut cache = filled();
        assert_eq!(word(&cache.decide(Some("b"), 1_001)), "fetch");
        cache.begin(Some("b"), 1_001);
        let before = cache.generation();
        cache.store(set(&["a", "b"]), None, Some("b"), 1_001);
        assert!(cache.generation() > before);
        assert_eq!(word(&cache.decide_after_fetch(Some("b"), 1_001)), "use");
        assert_eq!(word(&cache.decide(Some("a"), 1_001)), "use");
    }

    #[test]
    fn n11_ten_thousand_invented_key_ids_cost_one_fetch_in_thirty_seconds() {
        let mut cache = filled();
        let mut fetches = 0;
        for number in 0..10_000 {
            let (id, now) = (format!("x{number}"), 2_000 + number / 1_000);
            if let KeyDecision::Fetch = cache.decide(Some(&id), now) {
                cache.begin(Some(&id), now);
                cache.store(set(&["a"]), None, Some(&id), now);
                fetches += 1;
            }
            assert_eq!(word(&cache.decide_after_fetch(Some(&id), now)), "unknown");
            assert_eq!(word(&cache.decide(Some("a"), now)), "use");
        }
        assert_eq!(fetches, 1);
        // One that was asked for is remembered for longer than the pause.
        assert_eq!(word(&cache.decide(Some("x0"), 2_031)), "unknown");
        assert_eq!(word(&cache.decide(Some("x1"), 2_031)), "fetch");
    }

    #[test]
    fn the_table_of_unknown_ids_is_bounded() {
        let mut cache = filled();
        for number in 0..5_000 {
            cache.store(set(&["a"]), None, Some(&format!("x{number}")), 2_000);
        }
        assert!(cache.unknown.len() <= super::MAX_UNKNOWN);
    }
}
