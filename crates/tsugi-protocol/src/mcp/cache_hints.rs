//! How long a result may be kept, and for whom.

use crate::json::JsonObject;

/// The cache hints of a result ([Caching](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHints {
    /// Milliseconds during which the result may be taken as fresh.
    pub ttl_ms: u64,
    /// Who may see the kept result.
    pub scope: CacheScope,
}

/// Who may see a kept result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    Public,
    /// Only the caller who got it.
    Private,
}

impl CacheScope {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheScope::Public => "public",
            CacheScope::Private => "private",
        }
    }
}

impl CacheHints {
    /// What holds for a result that says nothing: stale at once, and for this caller alone.
    pub const NONE: CacheHints = CacheHints { ttl_ms: 0, scope: CacheScope::Private };

    /// Reads the hints of a result. A missing or negative `ttlMs` is 0; anything but `public` is private.
    pub fn of(result: &JsonObject) -> Self {
        let ttl_ms = result.get("ttlMs").and_then(|ttl| ttl.to::<f64>().ok()).map_or(0, |ttl| ttl.max(0.0) as u64);
        let scope = match result.get_str("cacheScope").as_deref() {
            Some("public") => CacheScope::Public,
            _ => CacheScope::Private,
        };
        Self { ttl_ms, scope }
    }

    /// The hints of several results taken together: the shortest time, the narrowest scope.
    pub fn narrowest(self, other: Self) -> Self {
        let scope = match (self.scope, other.scope) {
            (CacheScope::Public, CacheScope::Public) => CacheScope::Public,
            _ => CacheScope::Private,
        };
        Self { ttl_ms: self.ttl_ms.min(other.ttl_ms), scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_means_stale_and_private() {
        assert_eq!(CacheHints::of(&JsonObject::empty()), CacheHints::NONE);
        let odd = JsonObject::from(serde_json::json!({"ttlMs": -5, "cacheScope": "shared"}));
        assert_eq!(CacheHints::of(&odd), CacheHints::NONE);
        let good = JsonObject::from(serde_json::json!({"ttlMs": 1500, "cacheScope": "public"}));
        assert_eq!(CacheHints::of(&good), CacheHints { ttl_ms: 1500, scope: CacheScope::Public });
    }
}
