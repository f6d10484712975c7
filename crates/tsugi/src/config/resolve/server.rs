//! One upstream server: what it is, and how it is treated.

mod target;
mod tool;

use super::policy;
use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::{ConfigNode, NodeEntry};
use crate::config::key::pool;
use crate::config::key::server::{self, TABLE};
use crate::config::parse;
use crate::config::settings::{Instances, OptionSettings, ServerSettings, ToolFilter};

/// Reads a server; `entry` is its place in a map of servers, which names it.
pub(super) fn read(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    entry: Option<&NodeEntry>,
    options: &OptionSettings,
) -> Option<ServerSettings> {
    let section = SettingsSection::open(reader, Some(node), &TABLE);
    node.entries()?;
    let name = name(reader, node, entry, &section);
    let target = target::read(reader, node, entry, &section);
    let validate = policy::validate(reader, section.get(&server::VALIDATE), options.validate);
    let settings = ServerSettings {
        enabled: enabled(reader, &section),
        timeout: reader.optional(&section, &server::TIMEOUT, parse::positive_duration).unwrap_or(options.timeout),
        max_timeout: reader.optional(&section, &server::MAX_TIMEOUT, parse::positive_duration).or(options.max_timeout),
        tools: tool::read(reader, &section, validate),
        filter: ToolFilter {
            allow: reader.list_or_default(&section, &server::ALLOW, parse::glob),
            deny: reader.list_or_default(&section, &server::DENY, parse::glob),
        },
        retry: policy::retry(reader, section.get(&server::RETRY), &options.retry),
        cache: policy::cache(reader, section.get(&server::CACHE), &options.cache),
        validate,
        breaker: policy::breaker(reader, section.get(&server::BREAKER)),
        restart: reader.or_default(&section, &server::RESTART, parse::keyword),
        start: reader.or_default(&section, &server::START, parse::keyword),
        instances: instances(reader, &section),
        idle_timeout: reader.optional(&section, &server::IDLE_TIMEOUT, parse::positive_duration),
        max_connections: reader.or_default(&section, &server::MAX_CONNECTIONS, parse::positive),
        max_in_flight: reader.or_default(&section, &server::MAX_IN_FLIGHT, parse::positive),
        naming: reader.optional(&section, &server::NAMING, parse::keyword),
        era: reader.or_default(&section, &server::ERA, parse::keyword),
        protocol_version: reader.optional(&section, &server::PROTOCOL_VERSION, parse::revision),
        instructions: reader.or_default(&section, &server::INSTRUCTIONS, parse::flag),
        name: name?,
        target: target?,
    };
    Some(settings)
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
        return reader.optional(section, &server::NAME, parse::name);
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

fn enabled(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> bool {
    let disabled = reader.or_default(section, &server::DISABLED, parse::flag);
    let enabled = reader.or_default(section, &server::ENABLED, parse::flag);
    enabled && !disabled
}

/// Whether the entry says, in plain words, that it is not to be used.
pub(super) fn is_switched_off(node: &ConfigNode) -> bool {
    let says = |key: &str, expected: bool| {
        node.get(key).and_then(ConfigNode::text).and_then(|text| parse::flag(text).ok()) == Some(expected)
    };
    says(server::DISABLED.name, true) || says(server::ENABLED.name, false)
}

/// A word, or `{pool: N}`.
fn instances(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Instances {
    let Some(node) = section.get(&server::INSTANCES).filter(|node| node.entries().is_some()) else {
        return reader.or_default(section, &server::INSTANCES, instance_word);
    };
    let section = SettingsSection::open(reader, Some(node), &pool::TABLE);
    if section.get(&pool::POOL).is_none() {
        reader.problem(node, "`pool` is missing here, such as `{pool: 4}`");
    }
    reader.optional(&section, &pool::POOL, parse::positive).map_or(Instances::Shared, Instances::Pool)
}

fn instance_word(text: &str) -> parse::ParseResult<Instances> {
    match text {
        "shared" => Ok(Instances::Shared),
        "per-session" => Ok(Instances::PerSession),
        _ => parse::expected("`shared`, `per-session`, or a map such as `{pool: 4}`"),
    }
}
