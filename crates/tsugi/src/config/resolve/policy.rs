//! Retry, cache, validation and breaker: read the same way wherever they stand, each key over a base.

use tsugi_client::config::{BreakerPolicy, PinMode, PinPolicy, RetryPolicy, ValidatePolicy, ValidationMode};
use tsugi_outbound::EgressList;
use tsugi_process::NetworkAccess;

use super::reader::{SettingsReader, SettingsSection, default};
use crate::config::document::ConfigNode;
use crate::config::parse::{self, ConfigKeyword};
use crate::config::settings::{self, CacheSettings, egress, sandbox};

/// The words for both parts of `validate`.
pub(in crate::config) const MODES: &[&str] = ValidationMode::NAMES;

/// The words for `pin`.
pub(in crate::config) const PIN_MODES: &[&str] = PinMode::NAMES;

/// Reads a `retryPolicy`; absent keys come from the base.
pub(in crate::config) fn retry(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
    base: &RetryPolicy,
) -> RetryPolicy {
    let section = SettingsSection::open(reader, node, &settings::retry::TABLE);
    let policy = settings::retry(reader, &section, base);
    if let Some(span) =
        section.key_span(&settings::retry::MAX_DELAY).filter(|_| policy.max_delay < policy.initial_delay)
    {
        let problem = reader.source.problem(span, "`maxDelay` is shorter than `initialDelay`");
        reader.problems.push(problem);
    }
    policy
}

/// Reads a `cache`: a switch or a map.
pub(in crate::config) fn cache(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
    base: &CacheSettings,
) -> CacheSettings {
    if let Some(node) = node.filter(|node| node.text().is_some()) {
        let enabled = reader.value("cache", node, parse::flag).unwrap_or(base.enabled);
        return CacheSettings { enabled, ..base.clone() };
    }
    let section = SettingsSection::open(reader, node, &settings::cache::TABLE);
    // A map that says how to cache results means that they are wanted.
    let is_wanted = if node.is_some() { default(&settings::cache::ENABLED) } else { base.enabled };
    settings::cache(reader, &section, base, is_wanted)
}

/// Reads a `validate`: one word for both, or a map.
pub(in crate::config) fn validate(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
    base: ValidatePolicy,
) -> ValidatePolicy {
    if let Some(node) = node.filter(|node| node.text().is_some()) {
        let both: Option<ValidationMode> = reader.value("validate", node, parse::keyword);
        return both.map_or(base, |both| ValidatePolicy { arguments: both, results: both });
    }
    let section = SettingsSection::open(reader, node, &settings::validate::TABLE);
    settings::validate(reader, &section, base)
}

/// Reads a `pin`: the mode in one word, or a map.
pub(in crate::config) fn pin(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>, base: PinPolicy) -> PinPolicy {
    if let Some(node) = node.filter(|node| node.text().is_some()) {
        let mode: Option<PinMode> = reader.value("pin", node, parse::keyword);
        return PinPolicy { mode: mode.unwrap_or(base.mode), ..base };
    }
    let section = SettingsSection::open(reader, node, &settings::pin::TABLE);
    settings::pin(reader, &section, base)
}

/// Reads a `breaker`: a switch or a map.
pub(in crate::config) fn breaker(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> Option<BreakerPolicy> {
    let word = node.filter(|node| node.text().is_some());
    let section = SettingsSection::open(reader, node.filter(|_| word.is_none()), &settings::breaker::TABLE);
    let is_on = match word {
        Some(node) => reader.value("breaker", node, parse::flag).unwrap_or(true),
        None => reader.or_default(&section, &settings::breaker::ENABLED),
    };
    let policy = settings::breaker(reader, &section);
    is_on.then_some(policy)
}

/// A word, or the hosts that a program may reach.
pub(in crate::config) fn network_access(
    reader: &mut SettingsReader<'_>,
    section: &SettingsSection<'_>,
) -> NetworkAccess {
    let Some(node) = section.get(&sandbox::NET).filter(|node| node.text().is_none()) else {
        return reader.or_default(section, &sandbox::NET);
    };
    let section = SettingsSection::open(reader, Some(node), &egress::TABLE);
    let entries = reader.list_or_default(&section, &egress::ALLOW);
    // Every entry has been parsed once. An empty list reaches no host at all.
    NetworkAccess::Allow(EgressList::parse(entries.iter().map(String::as_str)).unwrap_or_default())
}
