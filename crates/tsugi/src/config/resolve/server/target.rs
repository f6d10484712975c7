//! What a server is: a program, an address, or a part of tsugi.

mod command;
mod remote;

use super::{SettingsReader, SettingsSection};
use crate::config::document::{ConfigNode, NodeEntry};
use crate::config::key::SettingKey;
use crate::config::settings::{BuiltinTarget, ServerTarget, server};

/// Reads what the server is. `entry` is its place in a map, where there is one, for pointing at.
pub(super) fn read(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    entry: Option<&NodeEntry>,
    section: &SettingsSection<'_>,
) -> Option<ServerTarget> {
    let ways: [&'static SettingKey; 3] = [&server::COMMAND, &server::URL, &server::BUILTIN];
    let given: Vec<&'static SettingKey> = ways.into_iter().filter(|key| section.get(key).is_some()).collect();
    match given.as_slice() {
        [] => {
            if !is_misspelt(node, &ways) {
                say_missing(reader, node, entry);
            }
            None
        }
        [key] if key.name == server::COMMAND.name => command::read(reader, section).map(ServerTarget::Command),
        [key] if key.name == server::URL.name => remote::read(reader, section).map(ServerTarget::Remote),
        [_] => builtin(reader, section).map(ServerTarget::Builtin),
        [first, second, ..] => {
            let span = section.key_span(second).unwrap_or(node.span);
            let message = format!("this server has both `{}` and `{}`; one of them must go", first.name, second.name);
            let problem = reader.source.problem(span, message);
            reader.problems.push(problem);
            None
        }
    }
}

/// Whether one of these keys is there in other letters, which was said already.
fn is_misspelt(node: &ConfigNode, ways: &[&'static SettingKey]) -> bool {
    let unknown = node.entries().unwrap_or_default().iter().filter(|entry| server::TABLE.find(&entry.key).is_none());
    let mut meant = unknown.filter_map(|entry| server::TABLE.nearest(&entry.key));
    meant.any(|near| ways.iter().any(|key| key.is_called(near)))
}

fn say_missing(reader: &mut SettingsReader<'_>, node: &ConfigNode, entry: Option<&NodeEntry>) {
    let span = entry.map_or(node.span, |entry| entry.key_span);
    let problem = reader.source.problem(span, "this server has neither `command` nor `url` nor `builtin`");
    let hint = "say which program to run, which address to connect to, or which built-in server to use";
    reader.problems.push(problem.with_hint(hint));
}

fn builtin(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Option<BuiltinTarget> {
    let others: [&'static SettingKey; 8] = [
        &server::ENV,
        &server::ENV_FILE,
        &server::CWD,
        &server::HEADERS,
        &server::SANDBOX,
        &server::TRANSPORT,
        &server::TLS,
        &server::AUTH,
    ];
    without_effect(reader, section, "builtin", &others);
    let args = command::args(reader, section);
    let builtin = reader.optional(section, &server::BUILTIN)?;
    Some(BuiltinTarget { builtin, args })
}

/// Says which keys do nothing for this kind of server.
fn without_effect(
    reader: &mut SettingsReader<'_>,
    section: &SettingsSection<'_>,
    kind: &str,
    keys: &[&'static SettingKey],
) {
    for key in keys {
        if let (Some(_), Some(span)) = (section.get(key), section.key_span(key)) {
            reader.warn(span, format!("`{}` has no effect on a server with `{kind}`", key.name));
        }
    }
}
