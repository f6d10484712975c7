//! Adds and removes servers in a configuration that a person wrote, leaving every other word of it alone.
//!
//! The text is cut where the tree says that something stands, and the result is read again: if anything but the
//! one server differs, nothing is written and the person is told what to write by hand.

mod block;
mod flow;

use super::document::{ConfigDocument, ConfigNode, DocumentFormat, NodeEntry, NodeValue};
use super::problem::{ConfigProblem, ConfigProblems};
use super::settings::root;

/// A server that is to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewServer {
    pub(crate) name: String,
    /// The keys besides `name`, in order.
    pub(crate) fields: serde_json::Map<String, serde_json::Value>,
}

/// What was found to be wrong with the edited text.
type EditResult = Result<String, ConfigProblems>;

/// The text of a configuration with one more server, at the end of the list.
pub(crate) fn add(document: &ConfigDocument, server: &NewServer) -> EditResult {
    let servers = servers(document);
    let names = names(servers.map(|entry| &entry.node));
    if names.contains(&server.name) {
        let problem = ConfigProblem::new(format!("there is a server `{}` already", server.name));
        return Err(problem.with_hint("give it another name, or remove the old one first: tsugi remove NAME").into());
    }
    let text = &document.source.text;
    let edited = match servers {
        None if is_json(document) => flow::add_key(text, &document.root, server),
        None => block::add_key(text, server),
        Some(entry) if is_flow(text, &entry.node) => flow::add(text, &entry.node, server),
        Some(entry) => block::add(text, entry, server),
    };
    let mut expected = names;
    // A new server stands last, which `proven` checks.
    expected.push(server.name.clone());
    proven(document, edited, &expected).ok_or_else(|| by_hand(document, &server.block_item("  ")))
}

/// A whole new configuration with this server alone.
pub(crate) fn create(server: &NewServer) -> String {
    format!(
        "# The servers of tsugi. `tsugi check` checks this file, and a running gateway follows its changes.\nservers:\n{}",
        server.block_item("  ")
    )
}

/// The text of a configuration without this server and the comment above it.
pub(crate) fn remove(document: &ConfigDocument, name: &str) -> EditResult {
    let servers = servers(document);
    let names = names(servers.map(|entry| &entry.node));
    let Some((entry, index)) = servers.zip(names.iter().position(|known| known == name)) else {
        let problem =
            ConfigProblem::new(format!("there is no server `{name}` in `{}`", document.source.path.display()));
        return Err(match super::key::nearest(name, names.iter().map(String::as_str)) {
            Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
            None => problem.with_hint(format!("there are {}", names.join(", "))),
        }
        .into());
    };
    let text = &document.source.text;
    let edited = match is_flow(text, &entry.node) {
        true => flow::remove(text, &entry.node, index),
        false => block::remove(text, entry, index),
    };
    let expected: Vec<String> = names.into_iter().filter(|known| known != name).collect();
    proven(document, edited, &expected).ok_or_else(|| by_hand(document, &format!("(without `{name}`)\n")))
}

/// The text of a configuration in which a server is given a variable of the environment under its own name.
pub(crate) fn pass_variable(document: &ConfigDocument, server: &str, variable: &str) -> EditResult {
    let servers = servers(document);
    let names = names(servers.map(|entry| &entry.node));
    let index = names.iter().position(|known| known == server);
    let text = &document.source.text;
    // A server in braces is left to the person, as `block` cannot add a line inside it.
    let edited = servers.zip(index).filter(|(entry, _)| !is_flow(text, &entry.node));
    let edited = edited.and_then(|(entry, index)| block::pass_variable(text, entry, index, variable));
    let path = &document.source.path;
    let is_good = |text: &String| {
        let Ok(after) = ConfigDocument::parse(path, text.clone(), DocumentFormat::of(path)) else { return false };
        let changed = each(self::servers(&after).map(|entry| &entry.node));
        let mut expected = each(servers.map(|entry| &entry.node));
        if let Some((_, server)) = index.and_then(|index| expected.get_mut(index)) {
            server["env"][variable] = format!("${{{variable}}}").into();
        }
        changed == expected
    };
    edited.filter(is_good).ok_or_else(|| by_hand(document, &format!("env: {{{variable}: \"${{{variable}}}\"}}\n")))
}

/// The text of a configuration with one more key at its beginning, whose value is a text.
pub(crate) fn set_root_key(document: &ConfigDocument, key: &str, value: &str) -> EditResult {
    let text = &document.source.text;
    let edited = match is_json(document) {
        true => text.find('{').map(|at| format!("{}\n  {key:?}: {value:?},{}", &text[..=at], &text[at + 1..])),
        // Comments at the top describe the file, so the key goes below them.
        false => document.root.entries().and_then(|entries| entries.first()).map(|first| {
            let at = text[..first.key_span.start].rfind('\n').map_or(0, |newline| newline + 1);
            format!("{}{key}: {}\n{}", &text[..at], super::yaml_text::scalar(value), &text[at..])
        }),
    };
    let path = &document.source.path;
    let is_good = |text: &String| {
        let Ok(after) = ConfigDocument::parse(path, text.clone(), DocumentFormat::of(path)) else { return false };
        let mut expected = document.root.to_json();
        expected[key] = value.into();
        after.root.to_json() == expected
    };
    edited.filter(is_good).ok_or_else(|| by_hand(document, &format!("{key}: {value}\n")))
}

/// The key under which the servers stand.
fn servers(document: &ConfigDocument) -> Option<&NodeEntry> {
    document.root.entries()?.iter().find(|entry| root::SERVERS.is_called(&entry.key))
}

fn is_json(document: &ConfigDocument) -> bool {
    // A YAML file may hold one JSON object, so its name is not enough.
    DocumentFormat::of(&document.source.path) == DocumentFormat::Json
        || document.source.text.trim_start().starts_with('{')
}

fn is_flow(text: &str, node: &ConfigNode) -> bool {
    node.value != NodeValue::Empty && text[node.span.start..].starts_with(['[', '{'])
}

/// The servers' names, as they are written.
fn names(servers: Option<&ConfigNode>) -> Vec<String> {
    let of_item = |item: &ConfigNode| item.get("name").and_then(ConfigNode::text).unwrap_or_default().to_owned();
    match servers.map(|node| &node.value) {
        Some(NodeValue::List(items)) => items.iter().map(of_item).collect(),
        Some(NodeValue::Map(entries)) => entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The edited text, if it has exactly the servers it should have and means the same in everything else.
fn proven(before: &ConfigDocument, edited: Option<String>, expected: &[String]) -> Option<String> {
    let edited = edited?;
    let path = &before.source.path;
    let after = ConfigDocument::parse(path, edited.clone(), DocumentFormat::of(path)).ok()?;
    let servers_after = servers(&after).map(|entry| &entry.node);
    // Everything outside the servers must mean the same.
    let rest = |document: &ConfigDocument| -> Vec<_> {
        let entries = document.root.entries().unwrap_or_default().iter();
        entries
            .filter(|entry| !root::SERVERS.is_called(&entry.key))
            .map(|entry| (entry.key.clone(), entry.node.to_json()))
            .collect()
    };
    // The servers that stay must be the same and in their old order. A new one may only follow them.
    let kept = |document: &ConfigDocument| -> Vec<_> {
        let each = each(servers(document).map(|entry| &entry.node));
        each.into_iter().filter(|(name, _)| expected.contains(name)).collect()
    };
    let (old, new) = (kept(before), kept(&after));
    let is_same =
        names(servers_after) == expected && rest(before) == rest(&after) && new[..old.len().min(new.len())] == old[..];
    is_same.then_some(edited)
}

fn each(servers: Option<&ConfigNode>) -> Vec<(String, serde_json::Value)> {
    let names = names(servers);
    let nodes: Vec<&ConfigNode> = match servers.map(|node| &node.value) {
        Some(NodeValue::List(items)) => items.iter().collect(),
        Some(NodeValue::Map(entries)) => entries.iter().map(|entry| &entry.node).collect(),
        _ => Vec::new(),
    };
    names.into_iter().zip(nodes.into_iter().map(ConfigNode::to_json)).collect()
}

fn by_hand(document: &ConfigDocument, snippet: &str) -> ConfigProblems {
    ConfigProblem::new(format!(
        "`{}` is written in a way that cannot be edited safely; nothing was changed",
        document.source.path.display()
    ))
    .with_hint(format!("write this by hand:\n{snippet}"))
    .into()
}

#[cfg(test)]
mod tests;
