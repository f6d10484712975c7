//! Retry, cache, validation and breaker: read the same way wherever they stand, each key over a base.

use tsugi_protocol::answer::FaultCode;

use super::reader::{SettingsReader, SettingsSection, default};
use crate::config::document::ConfigNode;
use crate::config::key::{breaker, cache, nearest, options, retry, validate};
use crate::config::parse::{self, ExpectedValue, ParseResult};
use crate::config::settings::{BreakerSettings, CacheSettings, RetrySettings, Strictness, ValidateSettings};

/// What holds where nothing is written.
pub(super) struct PolicyDefaults {
    pub(super) retry: RetrySettings,
    pub(super) cache: CacheSettings,
    pub(super) validate: ValidateSettings,
}

impl PolicyDefaults {
    /// The defaults of the keys.
    pub(super) fn of_keys() -> Self {
        PolicyDefaults {
            retry: RetrySettings {
                max_retries: default(&retry::MAX_RETRIES, parse::count),
                initial_delay: default(&retry::INITIAL_DELAY, parse::duration),
                max_delay: default(&retry::MAX_DELAY, parse::duration),
                backoff_multiplier: default(&retry::BACKOFF_MULTIPLIER, parse::factor),
                retryable_errors: super::default_items(&retry::RETRYABLE_ERRORS).map(str::to_owned).collect(),
            },
            cache: CacheSettings {
                enabled: default(&options::CACHE, parse::flag),
                max_entries: default(&cache::MAX_ENTRIES, parse::positive),
                ttl: default(&cache::TTL, parse::duration),
                update_age_on_get: default(&cache::UPDATE_AGE_ON_GET, parse::flag),
            },
            validate: ValidateSettings {
                arguments: default(&validate::ARGUMENTS, parse::keyword),
                results: default(&validate::RESULTS, parse::keyword),
            },
        }
    }
}

/// Reads a `retryPolicy`; what it leaves out comes from the base.
pub(super) fn retry(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>, base: &RetrySettings) -> RetrySettings {
    let section = SettingsSection::open(reader, node, &retry::TABLE);
    let errors = section.get(&retry::RETRYABLE_ERRORS);
    let settings = RetrySettings {
        max_retries: reader.optional(&section, &retry::MAX_RETRIES, parse::count).unwrap_or(base.max_retries),
        initial_delay: reader.optional(&section, &retry::INITIAL_DELAY, parse::duration).unwrap_or(base.initial_delay),
        max_delay: reader.optional(&section, &retry::MAX_DELAY, parse::duration).unwrap_or(base.max_delay),
        backoff_multiplier: reader
            .optional(&section, &retry::BACKOFF_MULTIPLIER, parse::factor)
            .unwrap_or(base.backoff_multiplier),
        retryable_errors: errors
            .map(|node| reader.list(retry::RETRYABLE_ERRORS.name, node, error_code))
            .unwrap_or_else(|| base.retryable_errors.clone()),
    };
    if let Some(span) = section.key_span(&retry::MAX_DELAY).filter(|_| settings.max_delay < settings.initial_delay) {
        let problem = reader.source.problem(span, "`maxDelay` is shorter than `initialDelay`");
        reader.problems.push(problem);
    }
    settings
}

/// A code as tool results show it, or the number of a server's own JSON-RPC error.
fn error_code(text: &str) -> ParseResult<String> {
    let codes = FaultCode::ALL.iter().map(|code| code.as_str());
    if text.parse::<i64>().is_ok() || codes.clone().any(|code| code == text) {
        return Ok(text.to_owned());
    }
    let hint = nearest(&text.to_ascii_uppercase(), codes).map(|near| format!("did you mean `{near}`?"));
    let what = "an error code such as `TIMEOUT` or `EXECUTION_FAILED`, or a JSON-RPC number such as `-32603`".into();
    Err(ExpectedValue { what, hint })
}

/// Reads a `cache`: a switch or a map.
pub(super) fn cache(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>, base: &CacheSettings) -> CacheSettings {
    if let Some(node) = node.filter(|node| node.text().is_some()) {
        let enabled = reader.value("cache", node, parse::flag).unwrap_or(base.enabled);
        return CacheSettings { enabled, ..base.clone() };
    }
    let section = SettingsSection::open(reader, node, &cache::TABLE);
    // Whoever writes down how to keep results wants them kept.
    let asked = if node.is_some() { default(&cache::ENABLED, parse::flag) } else { base.enabled };
    CacheSettings {
        enabled: reader.optional(&section, &cache::ENABLED, parse::flag).unwrap_or(asked),
        max_entries: reader.optional(&section, &cache::MAX_ENTRIES, parse::positive).unwrap_or(base.max_entries),
        ttl: reader.optional(&section, &cache::TTL, parse::duration).unwrap_or(base.ttl),
        update_age_on_get: reader
            .optional(&section, &cache::UPDATE_AGE_ON_GET, parse::flag)
            .unwrap_or(base.update_age_on_get),
    }
}

/// Reads a `validate`: one word for both, or a map.
pub(super) fn validate(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
    base: ValidateSettings,
) -> ValidateSettings {
    if let Some(node) = node.filter(|node| node.text().is_some()) {
        let both: Option<Strictness> = reader.value("validate", node, parse::keyword);
        return both.map_or(base, |both| ValidateSettings { arguments: both, results: both });
    }
    let section = SettingsSection::open(reader, node, &validate::TABLE);
    ValidateSettings {
        arguments: reader.optional(&section, &validate::ARGUMENTS, parse::keyword).unwrap_or(base.arguments),
        results: reader.optional(&section, &validate::RESULTS, parse::keyword).unwrap_or(base.results),
    }
}

/// Reads a `breaker`: a switch or a map.
pub(super) fn breaker(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> Option<BreakerSettings> {
    let word = node.filter(|node| node.text().is_some());
    let section = SettingsSection::open(reader, node.filter(|_| word.is_none()), &breaker::TABLE);
    let is_on = match word {
        Some(node) => reader.value("breaker", node, parse::flag).unwrap_or(true),
        None => reader.or_default(&section, &breaker::ENABLED, parse::flag),
    };
    let settings = BreakerSettings {
        failures: reader.or_default(&section, &breaker::FAILURES, parse::positive),
        window: reader.or_default(&section, &breaker::WINDOW, parse::positive_duration),
        pause: reader.or_default(&section, &breaker::PAUSE, parse::positive_duration),
    };
    is_on.then_some(settings)
}
