//! Settings of single tools of a server.

use std::collections::BTreeMap;

use tsugi_client::config::ValidatePolicy;

use super::{SettingsReader, SettingsSection, policy};
use crate::config::document::{ConfigNode, NodeEntry};
use crate::config::settings::{ToolSettings, server, tool};

/// Reads `tools`, and `quietTools`, which is the short way to say `quiet: true` of several tools.
/// What a tool's `validate` leaves out comes from the server's.
pub(super) fn read(
    reader: &mut SettingsReader<'_>,
    section: &SettingsSection<'_>,
    validate: ValidatePolicy,
) -> BTreeMap<String, ToolSettings> {
    let mut tools = section.get(&server::TOOLS).map(|node| read_map(reader, node, validate)).unwrap_or_default();
    for name in reader.list_or_default(section, &server::QUIET_TOOLS) {
        tools.entry(name).or_default().quiet = true;
    }
    tools
}

fn read_map(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    validate: ValidatePolicy,
) -> BTreeMap<String, ToolSettings> {
    let Some(entries) = node.entries() else {
        reader.problem(node, format!("`tools` must be a map by tool name, but this is {}", node.kind()));
        return BTreeMap::new();
    };
    entries.iter().map(|entry| (entry.key.clone(), read_tool(reader, entry, validate))).collect()
}

fn read_tool(reader: &mut SettingsReader<'_>, entry: &NodeEntry, validate: ValidatePolicy) -> ToolSettings {
    let section = SettingsSection::open(reader, Some(&entry.node), &tool::TABLE);
    let own = section.get(&tool::VALIDATE);
    let validate = own.map(|node| policy::validate(reader, Some(node), validate));
    tool(reader, &section, validate)
}
