//! Turns what the user wrote into settings that are checked and complete, or into all of its problems.

pub(crate) mod access_policy;
pub(super) mod audit;
mod certificates;
mod credentials;
pub(super) mod gateway;
pub(super) mod oauth;
pub(super) mod options;
pub(super) mod policy;
pub(super) mod reader;
pub(super) mod server;
mod sign_in;
pub(super) mod tls;

use std::path::Path;

use super::document::{ConfigDocument, ConfigNode, NodeEntry, NodeValue, SourceText};
use super::env::{Environment, VariableExpander};
use super::key::SettingKey;
use super::problem::{ConfigProblem, ConfigProblems};
use super::secret::Secret;
use super::settings::{self, CheckedSettings, OptionSettings, ServerSettings, root};
use reader::{SettingsReader, SettingsSection};
use tsugi_outbound::OutboundRules;

/// Settings, with what should be said about them although they can be used.
#[derive(Debug)]
pub(crate) struct ResolvedConfig {
    pub(crate) settings: CheckedSettings,
    pub(crate) warnings: Vec<ConfigProblem>,
    /// Why servers that are switched off could not be switched on, for `tsugi status` and `tsugi doctor`.
    pub(crate) dormant: Vec<ConfigProblem>,
}

/// Who wrote an entry, and so what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryTrust {
    /// The person who runs us, in a file or on the command line.
    Own,
    /// Someone over the network: no variable is expanded, no file is read.
    Posted {
        /// Whether an entry may name a program to run.
        allow_commands: bool,
    },
}

/// The settings of a file, or all of its problems.
pub(crate) fn resolve(document: &ConfigDocument, environment: &Environment) -> Result<ResolvedConfig, ConfigProblems> {
    let directory = document.source.path.parent().unwrap_or(Path::new(""));
    let expander = VariableExpander::new(environment.clone(), directory);
    let mut reader = SettingsReader::new(&document.source, expander, EntryTrust::Own);
    let settings = read_root(&mut reader, &document.root);
    finish(reader, settings)
}

/// One server that was sent to us over the network, as a map with a `name`.
///
/// No variable of ours is expanded and no file of ours is read for it, so that a client cannot fetch them
/// this way. A `command` is refused unless the configuration allows it. What it leaves out comes from `options`.
/// Relative paths are meant from `directory`, as in the file that the entry will be written to.
pub(crate) fn resolve_posted(
    document: &ConfigDocument,
    allow_commands: bool,
    options: &OptionSettings,
    outbound: &OutboundRules,
    directory: &Path,
) -> Result<ServerSettings, ConfigProblems> {
    // An empty environment: a reference that slipped through would find nothing.
    let expander = VariableExpander::new(Environment::default(), directory);
    let mut reader = SettingsReader::new(&document.source, expander, EntryTrust::Posted { allow_commands });
    reader.outbound = outbound.clone();
    let server = server::read(&mut reader, &document.root, None, options);
    let SettingsReader { mut problems, secrets, .. } = reader;
    problems.iter_mut().for_each(|problem| problem.redact(&secrets));
    server.filter(|_| problems.is_empty()).ok_or(ConfigProblems(problems))
}

/// The settings of a configuration in which nothing is written.
pub(crate) fn resolve_nothing(environment: &Environment) -> Result<ResolvedConfig, ConfigProblems> {
    let source = SourceText { path: "(nothing)".into(), text: String::new() };
    let root = ConfigNode { span: Default::default(), value: NodeValue::Map(Vec::new()) };
    resolve(&ConfigDocument { source, root }, environment)
}

fn finish(reader: SettingsReader<'_>, settings: CheckedSettings) -> Result<ResolvedConfig, ConfigProblems> {
    let SettingsReader { mut problems, unresolved, mut warnings, mut dormant, mut secrets, .. } = reader;
    problems.extend(unresolved);
    // The longest first, so that one which holds another is masked whole.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
    secrets.dedup();
    secrets.retain(Secret::is_searchable);
    problems.iter_mut().chain(&mut warnings).chain(&mut dormant).for_each(|problem| problem.redact(&secrets));
    // In the order of the file, so that a person can fix them from top to bottom.
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
    if problems.is_empty() {
        Ok(ResolvedConfig { settings: CheckedSettings { secrets, ..settings }, warnings, dormant })
    } else {
        Err(ConfigProblems(problems))
    }
}

fn read_root(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> CheckedSettings {
    if node.entries().is_none() {
        reader.problem(node, format!("a configuration is a map, but this is {}", node.kind()));
    }
    let section = SettingsSection::open(reader, Some(node).filter(|node| node.entries().is_some()), &root::TABLE);
    advise_import(reader, node);
    read_env_file(reader, &section);
    credentials::read_secrets(reader, section.get(&root::SECRETS));
    let outbound = SettingsSection::open(reader, section.get(&root::OUTBOUND), &settings::outbound::TABLE);
    reader.outbound = settings::outbound(reader, &outbound);
    // Options first, because servers take from them what they leave out.
    let options = options::read(reader, section.get(&root::OPTIONS));
    let gateway = gateway::read(reader, section.get(&root::GATEWAY), &options);
    let policy = access_policy::read(reader, section.get(&root::POLICY));
    let audit = audit::read(reader, section.get(&root::AUDIT));
    let servers = section.get(&root::SERVERS).map(|node| read_servers(reader, node, &options)).unwrap_or_default();
    let outbound = reader.outbound.clone();
    let vault = credentials::read_vault(reader, section.get(&root::VAULT));
    CheckedSettings { servers, options, gateway, policy, audit, outbound, vault, secrets: Vec::new() }
}

/// Says what to do with a file of another program.
fn advise_import(reader: &mut SettingsReader<'_>, node: &ConfigNode) {
    let clients = [("mcp_servers", "Codex"), ("context_servers", "Zed"), ("inputs", "VS Code")];
    for (word, client) in clients {
        let Some(entry) = node.entries().unwrap_or_default().iter().find(|entry| entry.key == word) else { continue };
        let place = Some(reader.source.place(entry.key_span));
        let hint = format!("this looks like a file of {client}: `tsugi import` turns it into a tsugi.yaml");
        // The key has been reported as unknown already. That problem gets the better hint.
        for problem in reader.problems.iter_mut().filter(|problem| problem.place == place) {
            problem.hint = Some(hint.clone());
        }
    }
}

/// Adds the variables of the environment file, before anything uses them.
fn read_env_file(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) {
    let Some(node) = section.get(&root::ENV_FILE) else { return };
    let Some(content) = reader.path(node).and_then(|path| reader.file(node, &path)) else { return };
    if let Err(fault) = reader.expander.environment_mut().add_file(&content) {
        reader.problem(node, format!("the environment file cannot be used: {}", fault.message));
    }
}

fn read_servers(reader: &mut SettingsReader<'_>, node: &ConfigNode, options: &OptionSettings) -> Vec<ServerSettings> {
    let servers = match &node.value {
        NodeValue::List(items) => items.iter().filter_map(|item| read_server(reader, item, None, options)).collect(),
        NodeValue::Map(entries) => {
            entries.iter().filter_map(|entry| read_server(reader, &entry.node, Some(entry), options)).collect()
        }
        _ => {
            reader.problem(node, format!("`servers` must be a list or a map, but this is {}", node.kind()));
            Vec::new()
        }
    };
    reader.reject_duplicates(node, "server");
    servers
}

/// Reads a server. One that is switched off may use variables that are not set: it is left out then.
fn read_server(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    entry: Option<&NodeEntry>,
    options: &OptionSettings,
) -> Option<ServerSettings> {
    // Set aside, so that what is unresolved afterwards belongs to this server alone.
    let elsewhere = std::mem::take(&mut reader.unresolved);
    let server = server::read(reader, node, entry, options);
    let unresolved = std::mem::replace(&mut reader.unresolved, elsewhere);
    if server::is_switched_off(node) {
        let name = entry.map(|entry| entry.key.as_str()).or_else(|| node.get("name").and_then(ConfigNode::text));
        let said = |problem: ConfigProblem| ConfigProblem {
            message: format!("{} is switched off: {}", name.unwrap_or("a server"), problem.message),
            hint: Some("set it and take out `disabled: true`".to_owned()),
            ..problem
        };
        reader.dormant.extend(unresolved.into_iter().map(said));
    } else {
        reader.problems.extend(unresolved);
    }
    server
}

/// The default of a key that is a list, as its items.
fn default_items(key: &'static SettingKey) -> impl Iterator<Item = &'static str> {
    let inner = key.default.trim_start_matches('[').trim_end_matches(']');
    inner.split(',').map(|item| item.trim().trim_matches('"')).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests;
