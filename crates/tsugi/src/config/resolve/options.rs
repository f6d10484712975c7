//! What holds for every server that does not say otherwise.

use std::time::Duration;

use super::policy;
use super::reader::{SettingsReader, SettingsSection, default};
use crate::config::document::ConfigNode;
use crate::config::env::DEFAULT_TIMEOUT;
use crate::config::key::options::{self, TABLE};
use crate::config::parse;
use crate::config::problem::ConfigProblem;
use crate::config::secret;
use crate::config::settings::OptionSettings;

/// Reads `options`.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> OptionSettings {
    let section = SettingsSection::open(reader, node, &TABLE);
    let base = policy::PolicyDefaults::of_keys();
    OptionSettings {
        max_parallel: reader.or_default(&section, &options::MAX_PARALLEL, parse::positive),
        max_in_flight: reader.or_default(&section, &options::MAX_IN_FLIGHT, parse::positive),
        max_connections: reader.optional(&section, &options::MAX_CONNECTIONS, parse::positive),
        timeout: timeout(reader, &section),
        max_timeout: reader.optional(&section, &options::MAX_TIMEOUT, parse::positive_duration),
        input_patience: reader.or_default(&section, &options::INPUT_PATIENCE, parse::positive_duration),
        retry: policy::retry(reader, section.get(&options::RETRY), &base.retry),
        cache: policy::cache(reader, section.get(&options::CACHE), &base.cache),
        validate: policy::validate(reader, section.get(&options::VALIDATE), base.validate),
        debug: reader.or_default(&section, &options::DEBUG, parse::flag),
        naming: reader.or_default(&section, &options::NAMING, parse::keyword),
    }
}

/// The file, then the variable `DEFAULT_TIMEOUT`, then the key's own default.
fn timeout(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Duration {
    if let Some(timeout) = reader.optional(section, &options::TIMEOUT, parse::positive_duration) {
        return timeout;
    }
    let variable = reader.expander.environment().filled(DEFAULT_TIMEOUT.name).map(str::to_owned);
    match variable.as_deref().map(parse::positive_duration) {
        Some(Ok(timeout)) => return timeout,
        Some(Err(expected)) => {
            let shown = secret::conceal(&variable.unwrap_or_default());
            let message = format!("the variable `DEFAULT_TIMEOUT` cannot be `{shown}`: expected {}", expected.what);
            reader.problems.push(ConfigProblem::new(message));
        }
        None => {}
    }
    default(&options::TIMEOUT, parse::positive_duration)
}
