//! One upstream server: what it is, and how it is treated.

mod target;
mod tool;

use tsugi_client::config::InstancePolicy;

use super::policy;
use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::{ConfigNode, NodeEntry};
use crate::config::parse;
use crate::config::settings::{
    BuiltinServer, BuiltinTarget, OptionSettings, ServerSettings, ServerTarget, pool, server,
};

/// Reads a server; `entry` is its place in a map of servers, which names it.
pub(super) fn read(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    entry: Option<&NodeEntry>,
    options: &OptionSettings,
) -> Option<ServerSettings> {
    let section = SettingsSection::open(reader, Some(node), &server::TABLE);
    node.entries()?;
    let name = name(reader, node, entry, &section);
    let target = target::read(reader, node, entry, &section);
    let validate = policy::validate(reader, section.get(&server::VALIDATE), options.validate);
    let tools = tool::read(reader, &section, validate);
    // Everything is read before the name and the target are missed, so that all problems are found at once.
    let (known_name, known_target) = (name.clone().unwrap_or_default(), target.clone());
    let placeholder = || ServerTarget::Builtin(BuiltinTarget { builtin: BuiltinServer::Demo, args: Vec::new() });
    let target_or_placeholder = known_target.unwrap_or_else(placeholder);
    let settings = server(reader, &section, known_name, target_or_placeholder, tools, validate, options);
    name.and(target).map(|_| settings)
}

/// The name from the map, or from the entry itself.
fn name(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    entry: Option<&NodeEntry>,
    section: &SettingsSection<'_>,
) -> Option<String> {
    let written = section.get(&server::NAME);
    let Some(entry) = entry else {
        if written.is_none() {
            reader.problem(node, "this server has no `name`");
        }
        return written.and_then(|node| reader.value(server::NAME.name, node, parse::name));
    };
    if let Some(other) = written.filter(|written| written.text() != Some(entry.key.as_str())) {
        reader.problem(other, format!("this server is called `{}` already, by its key", entry.key));
    }
    key_name(reader, entry)
}

fn key_name(reader: &mut SettingsReader<'_>, entry: &NodeEntry) -> Option<String> {
    match parse::name(&entry.key) {
        Ok(name) => Some(name),
        Err(expected) => {
            let message = format!("`{}` cannot be a server's name: expected {}", entry.key, expected.what);
            let mut problem = reader.source.problem(entry.key_span, message);
            problem.hint = expected.hint;
            reader.problems.push(problem);
            None
        }
    }
}

/// Whether the entry says, in plain words, that it is not to be used.
pub(super) fn is_switched_off(node: &ConfigNode) -> bool {
    let word = node.get(server::DISABLED.name).and_then(ConfigNode::text);
    word.and_then(|word| parse::flag(word).ok()) == Some(true)
}

/// A word, or `{pool: N}`.
pub(in crate::config) fn instances(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> InstancePolicy {
    let Some(node) = section.get(&server::INSTANCES).filter(|node| node.entries().is_some()) else {
        return reader.or_default(section, &server::INSTANCES);
    };
    let section = SettingsSection::open(reader, Some(node), &pool::TABLE);
    if section.get(&pool::POOL).is_none() {
        reader.problem(node, "`pool` is missing here, such as `{pool: 4}`");
    }
    reader.optional(&section, &pool::POOL).map_or(InstancePolicy::Shared, InstancePolicy::Pool)
}
