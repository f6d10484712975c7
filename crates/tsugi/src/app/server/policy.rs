//! How calls are checked, repeated, kept and shared out, from the words of the configuration to those of the library.

use tsugi_client::ToolConfig;
use tsugi_client::config::{
    AutoSwitch, BreakerPolicy, CachePolicy, InstancePolicy, RetryPolicy, ValidatePolicy, ValidationMode,
};

use crate::config::settings::{
    self, BreakerSettings, CacheSettings, RetrySettings, ToolSettings, Tri, ValidateSettings,
};

/// What differs for one tool.
pub(super) fn tool(tool: &ToolSettings) -> ToolConfig {
    ToolConfig {
        timeout: tool.timeout,
        is_quiet: tool.quiet,
        retry: switch(tool.retry),
        cache: switch(tool.cache),
        read_only: tool.read_only,
        idempotent: tool.idempotent,
        validate: tool.validate.map(validate),
        ..ToolConfig::default()
    }
}

fn switch(tri: Tri) -> AutoSwitch {
    match tri {
        Tri::Auto => AutoSwitch::Auto,
        Tri::On => AutoSwitch::On,
        Tri::Off => AutoSwitch::Off,
    }
}

pub(super) fn validate(validate: ValidateSettings) -> ValidatePolicy {
    ValidatePolicy { arguments: strictness(validate.arguments), results: strictness(validate.results) }
}

fn strictness(strictness: settings::Strictness) -> ValidationMode {
    match strictness {
        settings::Strictness::Off => ValidationMode::Off,
        settings::Strictness::Warn => ValidationMode::Warn,
        settings::Strictness::Enforce => ValidationMode::Enforce,
    }
}

pub(super) fn retry(retry: &RetrySettings) -> RetryPolicy {
    RetryPolicy {
        max_retries: retry.max_retries,
        initial_delay: retry.initial_delay,
        max_delay: retry.max_delay,
        backoff_multiplier: retry.backoff_multiplier,
        retryable_errors: retry.retryable_errors.clone(),
    }
}

pub(super) fn cache(cache: &CacheSettings) -> Option<CachePolicy> {
    cache.enabled.then_some(CachePolicy {
        max_entries: cache.max_entries as u64,
        ttl: cache.ttl,
        update_age_on_get: cache.update_age_on_get,
    })
}

pub(super) fn breaker(breaker: BreakerSettings) -> BreakerPolicy {
    BreakerPolicy { failures: breaker.failures, window: breaker.window, pause: breaker.pause }
}

pub(super) fn instances(instances: settings::Instances) -> InstancePolicy {
    match instances {
        settings::Instances::Shared => InstancePolicy::Shared,
        settings::Instances::PerSession => InstancePolicy::PerSession,
        settings::Instances::Pool(count) => InstancePolicy::Pool(count),
    }
}
