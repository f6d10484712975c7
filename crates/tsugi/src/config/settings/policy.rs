//! Settings that servers and options share: retry, cache, validation, breaker, sandbox, pool.

use std::time::Duration;

use tsugi_client::config::{BreakerPolicy, CachePolicy, RetryPolicy, ValidatePolicy, ValidationMode};
use tsugi_process::{CacheAccess, Isolation, MemorySize, NetworkAccess, SandboxRules};

use super::milliseconds;
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{
    DURATION, ERROR_CODES, FACTOR, FLAG, MEMORY_SIZE, NETWORK_WORD, POSITIVE_DURATION, TEXTS, count, keyword, positive,
};
use crate::config::resolve::policy::network_access;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    /// When and how a call is retried: in `options` and in a server.
    retry at "retryPolicy"
    => library RetryPolicy(reader, section, base: &RetryPolicy) {
        /// How often, after the first attempt.
        one max_retries: u32 = key(MAX_RETRIES: "maxRetries") value(count()) default("3") inherit(base.max_retries);
        /// The longest wait before the first retry; each wait is a random part of its longest.
        one initial_delay: Duration =
            key(INITIAL_DELAY: "initialDelay") value(DURATION) default("1s") inherit(base.initial_delay);
        /// No wait is longer.
        one max_delay: Duration = key(MAX_DELAY: "maxDelay") value(DURATION) default("10s") inherit(base.max_delay);
        /// The longest wait grows by this factor with every retry.
        one backoff_multiplier: f64 =
            key(BACKOFF_MULTIPLIER: "backoffMultiplier") value(FACTOR) default("2") inherit(base.backoff_multiplier);
        /// Which failures are retried. A server's own error is listed by the code that its result shows, such as
        /// `EXECUTION_FAILED`, or by its JSON-RPC number. With `TIMEOUT` among them, a call that may be repeated can
        /// take several times its timeout.
        many retryable_errors: String =
            key(RETRYABLE_ERRORS: "retryableErrors") value(ERROR_CODES)
            default("[CONNECTION_FAILED, CONNECTION_LOST, SERVER_CRASHED, SERVER_NOT_RUNNING, RATE_LIMIT_EXCEEDED, OVERLOADED]")
            inherit(base.retryable_errors.clone());
    }
}

settings! {
    /// Whether results of read-only tools are cached: in `options` and in a server.
    cache at "cache"
    => struct CacheSettings(reader, section, base: &CacheSettings, is_wanted: bool) {
        /// Cache results.
        one enabled: bool = key(ENABLED: "enabled") value(FLAG) default("true") inherit(is_wanted);
        /// How many results; the least recently used goes first.
        one max_entries: u64 =
            key(MAX_ENTRIES: "maxEntries") value(positive()) default("1000") inherit(base.max_entries);
        /// How long a result is cached.
        one ttl: Duration =
            key(TTL: "ttl") value(DURATION) default("60s") inherit(base.ttl) serde(serialize_with = "milliseconds");
        /// Keep a result for another `ttl` whenever it is read.
        one update_age_on_get: bool =
            key(UPDATE_AGE_ON_GET: "updateAgeOnGet") value(FLAG) default("false") inherit(base.update_age_on_get);
    }
}

impl Default for CacheSettings {
    fn default() -> Self {
        let CachePolicy { max_entries, ttl, update_age_on_get } = CachePolicy::default();
        CacheSettings { enabled: false, max_entries, ttl, update_age_on_get }
    }
}

settings! {
    /// How values are checked against schemas: in `options`, in a server and in a tool. A single word means both.
    validate at "validate"
    => library ValidatePolicy(reader, section, base: ValidatePolicy) {
        /// Arguments, before they are sent.
        one arguments: ValidationMode =
            key(ARGUMENTS: "arguments") value(keyword()) default("enforce") inherit(base.arguments);
        /// Results, if the tool has an output schema.
        one results: ValidationMode = key(RESULTS: "results") value(keyword()) default("warn") inherit(base.results);
    }
}

settings! {
    /// When a server that keeps failing is left alone: its calls then fail at once, until one of them may try again.
    breaker at "servers[].breaker"
    keys {
        /// Use the breaker.
        ENABLED: bool = key("enabled") value(FLAG) default("true");
    }
    => library BreakerPolicy(reader, section) {
        /// After this many failed calls within `window`, if they are at least half of all calls.
        one failure_threshold: u32 = key(FAILURE_THRESHOLD: "failureThreshold") value(positive()) default("5");
        /// The time in which failures are counted.
        one window: Duration = key(WINDOW: "window") value(POSITIVE_DURATION) default("30s");
        /// How long it is left alone; doubled with every probe that fails, up to eight times.
        one open_duration: Duration = key(OPEN_DURATION: "openDuration") value(POSITIVE_DURATION) default("5s");
    }
}

settings! {
    /// What a program may reach. `default` is this map with nothing in it.
    sandbox at "servers[].sandbox"
    => library SandboxRules(reader, section) {
        /// Readable, besides what programs need to run at all. Default: the working directory.
        one read: Option<Vec<PathBuf>> = key(READ: "read") shape(Paths) read(reader.paths(section, &sandbox::READ));
        /// Readable and writable. Default: the working directory.
        one write: Option<Vec<PathBuf>> = key(WRITE: "write") shape(Paths) read(reader.paths(section, &sandbox::WRITE));
        /// Access to the package caches that `npx` and `uvx` fill.
        one caches: CacheAccess = key(CACHES: "caches") value(keyword()) default("write");
        /// Network access; `loopback` is a separate device. A map with `allow` lists the hosts that it may reach.
        one net: NetworkAccess =
            key(NET: "net") value(NETWORK_WORD) default("all") read(network_access(reader, section));
        /// Variables of tsugi that it receives besides the usual ones; those of the server's `env` come in any case.
        many env: String = key(ENV: "env") value(TEXTS) default("[]");
        /// Memory of all its processes together; 0 means no limit.
        one memory: MemorySize = key(MEMORY: "memory") value(MEMORY_SIZE) default("2GiB");
        /// Whole processor cores that it may use.
        maybe cpu: u32 = key(CPU: "cpu") value(positive());
        /// Processes at once; 0 means no limit.
        one processes: u32 = key(PROCESSES: "processes") value(count()) default("256");
        /// How far it is separated from other processes.
        one isolation: Isolation = key(ISOLATION: "isolation") value(keyword()) default("auto");
        /// Refuse to start if the kernel cannot enforce this.
        one required: bool = key(REQUIRED: "required") value(FLAG) default("true");
    }
}

settings! {
    /// A number of equal programs that share the calls.
    pool at "servers[].instances"
    keys {
        /// How many.
        POOL: usize = key("pool") value(positive());
    }
}
