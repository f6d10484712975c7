//! The audit log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::ConfigNode;
use crate::config::parse;
use crate::config::settings::{AuditSettings, AuditSinkSettings, audit, audit_sink};

/// Reads `audit`; `None` when nothing is to be written.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> Option<AuditSettings> {
    let node = node?;
    let section = SettingsSection::open(reader, Some(node), &audit::TABLE);
    if section.get(&audit::FILE).is_none() {
        reader.problem(node, "`file` is missing here: it says where the audit log is written");
    }
    Some(audit(reader, &section))
}

pub(in crate::config) fn read_file(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> PathBuf {
    // Absence has been reported; the settings are not used then.
    read_path(reader, node).unwrap_or_default()
}

pub(in crate::config) fn read_path(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> Option<PathBuf> {
    node.and_then(|node| reader.path(node))
}

pub(in crate::config) fn read_fields(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
) -> BTreeMap<String, Vec<String>> {
    let Some(node) = node else { return BTreeMap::new() };
    let Some(entries) = node.entries() else {
        reader.problem(node, format!("`fields` must be a map, but this is {}", node.kind()));
        return BTreeMap::new();
    };
    let mut fields = BTreeMap::new();
    for entry in entries {
        if !entry.key.contains('/') {
            reader.problem(&entry.node, format!("`{}` must be `server/tool`", entry.key));
        }
        fields.insert(entry.key.clone(), reader.list("fields", &entry.node, parse::json_pointer));
    }
    fields
}

pub(in crate::config) fn read_sinks(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
) -> Vec<AuditSinkSettings> {
    let Some(node) = node else { return Vec::new() };
    match node.items() {
        Some(items) => items.iter().filter_map(|item| read_sink(reader, item)).collect(),
        None => {
            reader.problem(node, format!("`sinks` must be a list, but this is {}", node.kind()));
            Vec::new()
        }
    }
}

fn read_sink(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<AuditSinkSettings> {
    let section = SettingsSection::open(reader, Some(node), &audit_sink::TABLE);
    node.entries()?;
    for key in [&audit_sink::TYPE.key, &audit_sink::URL.key] {
        if section.get(key).is_none() {
            reader.problem(node, format!("`{}` is missing here", key.name));
        }
    }
    let kind = reader.optional(&section, &audit_sink::TYPE);
    // It may hold a password, so that all of it is hidden.
    let url = section.get(&audit_sink::URL).and_then(|node| reader.text(node)).map(|text| reader.hide(text));
    let headers = section.get(&audit_sink::HEADERS).map(|node| reader.pairs("headers", node)).unwrap_or_default();
    let ca = read_path(reader, section.get(&audit_sink::CA));
    Some(AuditSinkSettings { kind: kind?, url: url?.secrets().next().cloned()?, headers, ca })
}
