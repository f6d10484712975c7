//! A server that is a program: its arguments, variables, directory and sandbox.

use tsugi_process::{NetworkAccess, SandboxPolicy};

use super::{SettingsReader, SettingsSection, without_effect};
use crate::config::document::ConfigNode;
use crate::config::env;
use crate::config::parse::{ParseResult, expected};
use crate::config::resolve::EntryTrust;
use crate::config::secret::{self, MaskedText};
use crate::config::settings::{CommandTarget, sandbox, server};

/// Reads the program and what belongs to it.
pub(super) fn read(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Option<CommandTarget> {
    without_effect(reader, section, "command", &[&server::HEADERS, &server::GUARDED, &server::TLS]);
    if let Some(node) = section.get(&server::TRANSPORT) {
        reader.value(server::TRANSPORT.name, node, stdio_word);
    }
    let node = section.get(&server::COMMAND)?;
    refuse_posted(reader, node);
    let program = reader.text(node);
    if let Some(program) = &program {
        check_program(reader, node, &program.expose());
    }
    let sandbox = sandbox_policy(reader, section);
    let has_list = sandbox.rules().is_some_and(|rules| matches!(rules.net, NetworkAccess::Allow(_)));
    Some(CommandTarget {
        egress: has_list.then(|| reader.outbound.clone()),
        sandbox,
        args: args(reader, section),
        env: variables(reader, section),
        cwd: section.get(&server::CWD).and_then(|node| reader.path(node)).or_else(|| reader.working_directory()),
        program: program?,
    })
}

/// A client that may name a program may run anything, so an entry from the network needs permission for it.
fn refuse_posted(reader: &mut SettingsReader<'_>, node: &ConfigNode) {
    if reader.trust == (EntryTrust::Posted { allow_commands: false }) {
        let message = "`command` is not allowed in entries that come over the network";
        let hint = "allow it with `gateway.adminApi.allowCommands`, or write the server into the configuration file";
        let problem = reader.source.problem(node.span, message).with_hint(hint);
        reader.problems.push(problem);
    }
}

fn check_program(reader: &mut SettingsReader<'_>, node: &ConfigNode, program: &str) {
    if program.trim().is_empty() {
        reader.problem(node, "`command` is empty");
    }
    let first = program.split_once(' ').map(|(first, _)| first);
    if first.is_some_and(|first| !first.contains(['/', '\\'])) {
        let message = "`command` is one program and is not split at spaces; its arguments go into `args`";
        reader.warn(node.span, message);
    }
}

fn stdio_word(text: &str) -> ParseResult<()> {
    match text {
        "stdio" | "auto" => Ok(()),
        _ => expected("`stdio`, since the server has a `command`"),
    }
}

/// Arguments; what follows a flag like `--token` is secret.
pub(super) fn args(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Vec<MaskedText> {
    let Some(node) = section.get(&server::ARGS) else { return Vec::new() };
    let Some(items) = node.items() else {
        reader.problem(node, format!("`args` must be a list, but this is {}", node.kind()));
        return Vec::new();
    };
    let mut args: Vec<MaskedText> = Vec::new();
    for item in items {
        let Some(text) = reader.text(item) else { continue };
        let after_flag = args.last().is_some_and(|last| is_secret_flag(&last.expose()));
        let hidden = after_flag || secret::is_secret_value(&text.expose());
        args.push(if hidden { reader.hide(text) } else { split_flag(reader, text) });
    }
    args
}

fn is_secret_flag(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains('=') && secret::is_secret_name(argument)
}

/// In `--token=value` the value is secret.
fn split_flag(reader: &mut SettingsReader<'_>, text: MaskedText) -> MaskedText {
    match text.expose().split_once('=') {
        Some((flag, value)) if is_secret_flag(flag) => {
            let mut split = MaskedText::plain(format!("{flag}="));
            split.append(reader.hide(MaskedText::plain(value)));
            split
        }
        _ => text,
    }
}

/// The variables of `env`, over those of `envFile`.
fn variables(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Vec<(String, MaskedText)> {
    let mut variables = file_variables(reader, section).unwrap_or_default();
    let written = section.get(&server::ENV).map(|node| reader.pairs("env", node)).unwrap_or_default();
    variables.retain(|(name, _)| written.iter().all(|(written, _)| written != name));
    variables.extend(written);
    variables
}

fn file_variables(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Option<Vec<(String, MaskedText)>> {
    let node = section.get(&server::ENV_FILE)?;
    let path = reader.path(node)?;
    let content = reader.file(node, &path)?;
    match env::read_file(&content) {
        Ok(pairs) => Some(pairs.into_iter().map(|(name, value)| hide_variable(reader, name, value)).collect()),
        Err(fault) => {
            reader.problem(node, format!("the environment file cannot be used: {}", fault.message));
            None
        }
    }
}

/// Every value of an environment file is secret: that is what people keep them for.
fn hide_variable(reader: &mut SettingsReader<'_>, name: String, value: String) -> (String, MaskedText) {
    let text = MaskedText::plain(&value);
    let text = if secret::is_secret_variable(&name, &value) { reader.hide(text) } else { text.into_secret() };
    (name, text)
}

/// `off`, `default`, or a map.
fn sandbox_policy(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> SandboxPolicy {
    match section.get(&server::SANDBOX).filter(|node| node.text().is_none()) {
        Some(node) => {
            let section = SettingsSection::open(reader, Some(node), &sandbox::TABLE);
            SandboxPolicy::Rules(sandbox(reader, &section))
        }
        None => reader.or_default(section, &server::SANDBOX),
    }
}
