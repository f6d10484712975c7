//! Settings of tools and caches, from the words of the configuration to those of the library.

use tsugi_client::ToolConfig;
use tsugi_client::config::CachePolicy;

use crate::config::settings::{CacheSettings, ToolSettings};

/// The library's settings for one tool.
pub(super) fn tool(tool: &ToolSettings) -> ToolConfig {
    ToolConfig {
        timeout: tool.timeout,
        is_quiet: tool.quiet,
        retry: tool.retry,
        cache: tool.cache,
        read_only: tool.read_only,
        idempotent: tool.idempotent,
        validate: tool.validate,
        ..ToolConfig::default()
    }
}

pub(super) fn cache(cache: &CacheSettings) -> Option<CachePolicy> {
    cache.enabled.then_some(CachePolicy {
        max_entries: cache.max_entries,
        ttl: cache.ttl,
        update_age_on_get: cache.update_age_on_get,
    })
}
