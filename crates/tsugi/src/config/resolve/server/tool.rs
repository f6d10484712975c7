//! What differs for single tools of a server.

use std::collections::BTreeMap;

use super::{SettingsReader, SettingsSection, policy};
use crate::config::document::{ConfigNode, NodeEntry};
use crate::config::key::{server, tool};
use crate::config::parse::{self, ParseResult, expected};
use crate::config::settings::{ToolSettings, ValidateSettings};

/// Reads `tools`, and `quiet`, which is the short way to say `quiet: true` of several tools.
/// What a tool's `validate` leaves out comes from the server's.
pub(super) fn read(
    reader: &mut SettingsReader<'_>,
    section: &SettingsSection<'_>,
    validate: ValidateSettings,
) -> BTreeMap<String, ToolSettings> {
    let mut tools = section.get(&server::TOOLS).map(|node| read_map(reader, node, validate)).unwrap_or_default();
    for name in reader.list_or_default(section, &server::QUIET, tool_name) {
        tools.entry(name).or_default().quiet = true;
    }
    tools
}

fn read_map(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    validate: ValidateSettings,
) -> BTreeMap<String, ToolSettings> {
    let Some(entries) = node.entries() else {
        reader.problem(node, format!("`tools` must be a map by tool name, but this is {}", node.kind()));
        return BTreeMap::new();
    };
    entries.iter().map(|entry| (entry.key.clone(), read_tool(reader, entry, validate))).collect()
}

fn read_tool(reader: &mut SettingsReader<'_>, entry: &NodeEntry, validate: ValidateSettings) -> ToolSettings {
    let section = SettingsSection::open(reader, Some(&entry.node), &tool::TABLE);
    let own = section.get(&tool::VALIDATE);
    ToolSettings {
        validate: own.map(|node| policy::validate(reader, Some(node), validate)),
        timeout: reader.optional(&section, &tool::TIMEOUT, parse::positive_duration),
        retry: reader.or_default(&section, &tool::RETRY, parse::keyword),
        cache: reader.or_default(&section, &tool::CACHE, parse::keyword),
        read_only: reader.optional(&section, &tool::READ_ONLY, parse::flag),
        idempotent: reader.optional(&section, &tool::IDEMPOTENT, parse::flag),
        hidden: reader.or_default(&section, &tool::HIDDEN, parse::flag),
        rename: reader.optional(&section, &tool::RENAME, tool_name),
        description: reader.optional(&section, &tool::DESCRIPTION, |text| Ok(text.to_owned())),
        quiet: reader.or_default(&section, &tool::QUIET, parse::flag),
    }
}

/// What the protocol says a tool's name should look like, and the slash that some servers use.
fn tool_name(text: &str) -> ParseResult<String> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-' | '/');
    let is_name = !text.is_empty() && text.len() <= 128 && text.chars().all(allowed);
    if is_name { Ok(text.to_owned()) } else { expected("1 to 128 letters, digits, `.`, `_`, `-` or `/`") }
}
