//! What callers with certificates may do.

use super::gateway::required;
use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::ConfigNode;
use crate::config::settings::{CallerCertificateSettings, ToolFilter, caller_certificate};

/// Reads `gateway.auth.certificates`.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Vec<CallerCertificateSettings> {
    match node.items() {
        Some(items) => items.iter().filter_map(|item| read_one(reader, item)).collect(),
        None => {
            reader.problem(node, format!("`certificates` must be a list, but this is {}", node.kind()));
            Vec::new()
        }
    }
}

fn read_one(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<CallerCertificateSettings> {
    let section = SettingsSection::open(reader, Some(node), &caller_certificate::TABLE);
    node.entries()?;
    let pattern = required(reader, node, &section, &caller_certificate::MATCH);
    Some(CallerCertificateSettings {
        role: reader.or_default(&section, &caller_certificate::ROLE),
        filter: ToolFilter {
            allow: reader.list_or_default(&section, &caller_certificate::ALLOW),
            deny: reader.list_or_default(&section, &caller_certificate::DENY),
        },
        tenant: reader.optional(&section, &caller_certificate::TENANT),
        per_minute: reader.optional(&section, &caller_certificate::PER_MINUTE),
        max_in_flight: reader.optional(&section, &caller_certificate::MAX_IN_FLIGHT),
        pattern: pattern?,
    })
}
