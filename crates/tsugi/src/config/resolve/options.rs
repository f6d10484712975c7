//! Options that hold for every server, unless its own entry says otherwise.

use std::time::Duration;

use super::reader::{SettingsReader, SettingsSection, default};
use crate::config::document::ConfigNode;
use crate::config::env::DEFAULT_TIMEOUT;
use crate::config::parse;
use crate::config::problem::ConfigProblem;
use crate::config::secret;
use crate::config::settings::{OptionSettings, options};

/// Reads `options`.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> OptionSettings {
    let section = SettingsSection::open(reader, node, &options::TABLE);
    options(reader, &section)
}

/// The file, then the variable `DEFAULT_TIMEOUT`, then the key's own default.
pub(in crate::config) fn timeout(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Duration {
    if let Some(timeout) = reader.optional(section, &options::TIMEOUT) {
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
    default(&options::TIMEOUT)
}
