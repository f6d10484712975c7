//! How calls are checked, repeated, kept and limited: the settings of the layers, one type each.

use std::time::Duration;

use serde::{Serialize, Serializer};

use tsugi_protocol::answer::FaultCode;

/// What happens to a value that does not fit its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValidationMode {
    /// It is not looked at.
    Off,
    /// It passes, and the log says so.
    Warn,
    #[default]
    Enforce,
}

/// What is checked against the schemas of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ValidatePolicy {
    /// Arguments, before they are sent.
    pub arguments: ValidationMode,
    /// Structured results, where the tool says what they look like.
    pub results: ValidationMode,
}

impl Default for ValidatePolicy {
    fn default() -> Self {
        // Wrong arguments can be corrected by the caller. A result that does not fit has already happened.
        Self { arguments: ValidationMode::Enforce, results: ValidationMode::Warn }
    }
}

/// When and how a call is tried again. Only calls that do no harm twice are: those that never reached the
/// server, reads, and tools that are read-only or idempotent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How often, after the first try. With 0, only a call that was not sent because the connection broke is tried
    /// once more.
    pub max_retries: u32,
    /// The longest wait before the first retry; each wait is a random part of its longest.
    #[serde(serialize_with = "milliseconds")]
    pub initial_delay: Duration,
    /// No wait is longer.
    #[serde(serialize_with = "milliseconds")]
    pub max_delay: Duration,
    /// The longest wait grows by this with every retry.
    pub backoff_multiplier: f64,
    /// The codes worth another try, such as `TIMEOUT`. A server's own error is listed by the code that a tool's result
    /// shows for it (`EXECUTION_FAILED`, `INVALID_PARAMS`) or by its JSON-RPC number (`-32603`). Empty means every
    /// failure that says of itself that trying again could help.
    pub retryable_errors: Vec<String>,
}

impl RetryPolicy {
    /// Whether a call that was silent for too long is tried again, where that does no harm.
    pub fn repeats_timeouts(&self) -> bool {
        // Without a list, every retryable failure counts, and a timeout is one.
        self.max_retries > 0 && (self.lists(FaultCode::Timeout) || self.retryable_errors.is_empty())
    }

    /// Whether this code is listed as worth another try.
    pub(crate) fn lists(&self, code: FaultCode) -> bool {
        self.retryable_errors.iter().any(|listed| listed == code.as_str())
    }
}

/// Failures of the way to a server, and refusals for now. A timeout is not among them: with it, a call could take
/// several times its limit.
const DEFAULT_RETRYABLE: [FaultCode; 6] = [
    FaultCode::ConnectionFailed,
    FaultCode::ConnectionLost,
    FaultCode::ServerCrashed,
    FaultCode::ServerNotRunning,
    FaultCode::RateLimitExceeded,
    FaultCode::Overloaded,
];

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(10),
            // 1, 2 and 4 s at most: three tries end within the usual timeout of 30 s.
            backoff_multiplier: 2.0,
            retryable_errors: DEFAULT_RETRYABLE.iter().map(|code| code.as_str().to_owned()).collect(),
        }
    }
}

/// How results are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePolicy {
    /// How many; the least recently used goes first.
    pub max_entries: u64,
    /// For how long, for results of tools. Resources say it themselves.
    pub ttl: Duration,
    /// Whether a tool's result that is read from the cache is kept for another `ttl` from then on.
    pub update_age_on_get: bool,
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self { max_entries: 1000, ttl: Duration::from_secs(60), update_age_on_get: false }
    }
}

/// How many calls a server gets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitPolicy {
    /// Calls under way at the same time.
    pub in_flight: usize,
    /// Calls that may wait for their turn; more are refused at once.
    pub queue: usize,
    /// How long a call may wait for its turn.
    pub wait: Duration,
}

impl Default for LimitPolicy {
    fn default() -> Self {
        // A stdio server handles one call after the other, so a longer queue would only time out.
        Self { in_flight: 64, queue: 256, wait: Duration::from_secs(3) }
    }
}

/// When a server that keeps failing is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerPolicy {
    /// So many failed calls within `window`, if they are at least half of all calls in it.
    pub failure_threshold: u32,
    /// The time in which failures are counted.
    #[serde(serialize_with = "milliseconds")]
    pub window: Duration,
    /// How long it is left alone before one call may probe it; doubled with every probe that fails, up to eight times.
    #[serde(serialize_with = "milliseconds")]
    pub open_duration: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { failure_threshold: 5, window: Duration::from_secs(30), open_duration: Duration::from_secs(5) }
    }
}

/// How many of a server run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstancePolicy {
    /// One for all callers.
    #[default]
    Shared,
    /// One for each caller's session, so that what a server remembers of one is never shown to another.
    PerSession,
    /// One, until it turns out to ask questions: then equal ones share the calls, up to the limit of connections.
    Auto,
    /// Up to so many equal ones that share the calls.
    Pool(usize),
}

/// A switch that may be left to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AutoSwitch {
    /// As the tool's hints say.
    #[default]
    Auto,
    /// Yes, whatever the hints say.
    On,
    /// No, whatever the hints say.
    Off,
}

/// Settings are shown with their durations in milliseconds, as they may be written.
fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u128(duration.as_millis())
}
