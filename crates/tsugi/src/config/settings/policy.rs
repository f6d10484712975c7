//! Settings that servers and options share: retry, cache, validation, breaker, sandbox, pool.

use std::time::Duration;

use tsugi_client::config::{BreakerPolicy, CachePolicy, RetryPolicy, ValidatePolicy, ValidationMode};
use tsugi_process::{CacheAccess, Isolation, MemorySize, NetworkAccess, SandboxRules};

use super::milliseconds;
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{
    DURATION, ERROR_CODES, FACTOR, FLAG, MEMORY_SIZE, NETWORK_WORD, POSITIVE_DURATION, TEXTS, by_hand, count, keyword,
    positive,
};
use crate::config::resolve::policy::network_access;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    retry at "retryPolicy": "When and how a call is retried: in `options` and in a server."
    => library RetryPolicy(reader, section, base: &RetryPolicy) {
        custom MAX_RETRIES max_retries: u32 = "maxRetries", count(), "3", "How often, after the first attempt.", reader.optional(section, &retry::MAX_RETRIES).unwrap_or(base.max_retries);
        custom INITIAL_DELAY initial_delay: Duration = "initialDelay", DURATION, "1s", "The longest wait before the first retry; each wait is a random part of its longest.", reader.optional(section, &retry::INITIAL_DELAY).unwrap_or(base.initial_delay);
        custom MAX_DELAY max_delay: Duration = "maxDelay", DURATION, "10s", "No wait is longer.", reader.optional(section, &retry::MAX_DELAY).unwrap_or(base.max_delay);
        custom BACKOFF_MULTIPLIER backoff_multiplier: f64 = "backoffMultiplier", FACTOR, "2", "The longest wait grows by this factor with every retry.", reader.optional(section, &retry::BACKOFF_MULTIPLIER).unwrap_or(base.backoff_multiplier);
        listed RETRYABLE_ERRORS retryable_errors: String = "retryableErrors", ERROR_CODES, "[CONNECTION_FAILED, CONNECTION_LOST, SERVER_CRASHED, SERVER_NOT_RUNNING, RATE_LIMIT_EXCEEDED, OVERLOADED]", "Which failures are retried. A server's own error is listed by the code that its result shows, such as `EXECUTION_FAILED`, or by its JSON-RPC number. With `TIMEOUT` among them, a call that may be repeated can take several times its timeout.", reader.optional_list(section, &retry::RETRYABLE_ERRORS).unwrap_or_else(|| base.retryable_errors.clone());
    }
}

settings! {
    cache at "cache": "Whether results of read-only tools are cached: in `options` and in a server."
    => own CacheSettings(reader, section, base: &CacheSettings, is_wanted: bool) {
        custom ENABLED enabled: bool = "enabled", FLAG, "true", "Cache results.", reader.optional(section, &cache::ENABLED).unwrap_or(is_wanted);
        custom MAX_ENTRIES max_entries: u64 = "maxEntries", positive(), "1000", "How many results; the least recently used goes first.", reader.optional(section, &cache::MAX_ENTRIES).unwrap_or(base.max_entries);
        #[serde(serialize_with = "milliseconds")]
        custom TTL ttl: Duration = "ttl", DURATION, "60s", "How long a result is cached.", reader.optional(section, &cache::TTL).unwrap_or(base.ttl);
        custom UPDATE_AGE_ON_GET update_age_on_get: bool = "updateAgeOnGet", FLAG, "false", "Keep a result for another `ttl` whenever it is read.", reader.optional(section, &cache::UPDATE_AGE_ON_GET).unwrap_or(base.update_age_on_get);
    }
}

impl Default for CacheSettings {
    fn default() -> Self {
        let CachePolicy { max_entries, ttl, update_age_on_get } = CachePolicy::default();
        CacheSettings { enabled: false, max_entries, ttl, update_age_on_get }
    }
}

settings! {
    validate at "validate": "How values are checked against schemas: in `options`, in a server and in a tool. A single word means both."
    => library ValidatePolicy(reader, section, base: ValidatePolicy) {
        custom ARGUMENTS arguments: ValidationMode = "arguments", keyword(), "enforce", "Arguments, before they are sent.", reader.optional(section, &validate::ARGUMENTS).unwrap_or(base.arguments);
        custom RESULTS results: ValidationMode = "results", keyword(), "warn", "Results, if the tool has an output schema.", reader.optional(section, &validate::RESULTS).unwrap_or(base.results);
    }
}

settings! {
    breaker at "servers[].breaker": "When a server that keeps failing is left alone: its calls then fail at once, until one of them may try again."
    keys {
        ENABLED: bool = "enabled", FLAG, "true", "Use the breaker.";
    }
    => library BreakerPolicy(reader, section) {
        one FAILURE_THRESHOLD failure_threshold: u32 = "failureThreshold", positive(), "5", "After this many failed calls within `window`, if they are at least half of all calls.";
        one WINDOW window: Duration = "window", POSITIVE_DURATION, "30s", "The time in which failures are counted.";
        one OPEN_DURATION open_duration: Duration = "openDuration", POSITIVE_DURATION, "5s", "How long it is left alone; doubled with every probe that fails, up to eight times.";
    }
}

settings! {
    sandbox at "servers[].sandbox": "What a program may reach. `default` is this map with nothing in it."
    => library SandboxRules(reader, section) {
        hand READ read: Option<Vec<PathBuf>> = "read", by_hand(Paths), "", "Readable, besides what programs need to run at all. Default: the working directory.", reader.paths(section, &sandbox::READ);
        hand WRITE write: Option<Vec<PathBuf>> = "write", by_hand(Paths), "", "Readable and writable. Default: the working directory.", reader.paths(section, &sandbox::WRITE);
        one CACHES caches: CacheAccess = "caches", keyword(), "write", "Access to the package caches that `npx` and `uvx` fill.";
        custom NET net: NetworkAccess = "net", NETWORK_WORD, "all", "Network access; `loopback` is a separate device. A map with `allow` lists the hosts that it may reach.", network_access(reader, section);
        many ENV env: String = "env", TEXTS, "[]", "Variables of tsugi that it receives besides the usual ones; those of the server's `env` come in any case.";
        one MEMORY memory: MemorySize = "memory", MEMORY_SIZE, "2GiB", "Memory of all its processes together; 0 means no limit.";
        maybe CPU cpu: u32 = "cpu", positive(), "", "Whole processor cores that it may use.";
        one PROCESSES processes: u32 = "processes", count(), "256", "Processes at once; 0 means no limit.";
        one ISOLATION isolation: Isolation = "isolation", keyword(), "auto", "How far it is separated from other processes.";
        one REQUIRED required: bool = "required", FLAG, "true", "Refuse to start if the kernel cannot enforce this.";
    }
}

settings! {
    pool at "servers[].instances": "A number of equal programs that share the calls."
    keys {
        POOL: usize = "pool", positive(), "", "How many.";
    }
}
