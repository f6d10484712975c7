//! Points another program at tsugi: one entry of ours in its file, in place of the servers that were imported.

use serde_json::{Value as Json, json};

use super::{ClientProgram, ImportedFile};
use crate::config::document::{ConfigDocument, ConfigNode, NodeEntry};
use crate::config::parse::tidy_name;
use crate::config::problem::ConfigProblem;
use crate::config::yaml_text::quoted;

/// The name of our entry in every program's file.
pub(crate) const NAME: &str = "tsugi";

/// How a program reaches tsugi.
#[derive(Debug, Clone)]
pub(crate) enum TsugiEntry {
    /// It starts us: the program and its arguments.
    Stdio(String, Vec<String>),
    /// It asks a gateway that runs: its address.
    Http(String),
}

/// Whether an entry of a program's file is ours.
pub(super) fn is_ours(entry: &NodeEntry) -> bool {
    let text = |key: &str| entry.node.get(key).and_then(ConfigNode::text);
    let program = text("command").map(|command| command.rsplit('/').next().unwrap_or_default());
    let is_started = program == Some("tsugi")
        && entry.node.get("args").and_then(ConfigNode::items).and_then(|args| args.first()).and_then(ConfigNode::text)
            == Some("stdio");
    let address = ["url", "httpUrl", "serverUrl"].into_iter().find_map(text);
    is_started || entry.key == NAME && address.is_some_and(|address| address.ends_with("/mcp"))
}

/// The text of a program's file with tsugi in place of the imported servers; what could not be imported stays.
pub(crate) fn point(
    document: &ConfigDocument,
    imported: &ImportedFile,
    way: &TsugiEntry,
) -> Result<String, ConfigProblem> {
    let edited = match imported.client {
        ClientProgram::Codex => codex(document, imported, way),
        _ => json_file(document, imported, way),
    };
    let proven = edited.filter(|text| is_proven(document, imported, text));
    proven.ok_or_else(|| {
        ConfigProblem::new(format!(
            "`{}` is written in a way that cannot be edited safely; it was left alone",
            document.source.path.display()
        ))
        .with_hint(format!("put this into it by hand: {}", entry(imported.client, way)))
    })
}

/// The entries that stay: those that were not imported, and are not ours.
fn kept<'a>(servers: Option<&'a ConfigNode>, imported: &ImportedFile) -> Vec<&'a NodeEntry> {
    let is_imported = |entry: &&NodeEntry| imported.servers.iter().any(|draft| draft.name == tidy_name(&entry.key));
    let entries = servers.and_then(ConfigNode::entries).unwrap_or_default().iter();
    entries.filter(|entry| !is_ours(entry) && !is_imported(entry)).collect()
}

fn key(client: ClientProgram) -> &'static str {
    match client {
        ClientProgram::VsCode => "servers",
        ClientProgram::Zed => "context_servers",
        ClientProgram::Codex => "mcp_servers",
        _ => "mcpServers",
    }
}

/// Our entry in the words of a program.
pub(crate) fn entry(client: ClientProgram, way: &TsugiEntry) -> Json {
    match (client, way) {
        (ClientProgram::ClaudeCode | ClientProgram::VsCode, TsugiEntry::Stdio(program, args)) => {
            json!({"type": "stdio", "command": program, "args": args})
        }
        (ClientProgram::Zed, TsugiEntry::Stdio(program, args)) => {
            json!({"source": "custom", "command": program, "args": args, "env": {}})
        }
        (_, TsugiEntry::Stdio(program, args)) => json!({"command": program, "args": args}),
        (ClientProgram::ClaudeCode | ClientProgram::VsCode, TsugiEntry::Http(url)) => {
            json!({"type": "http", "url": url})
        }
        (ClientProgram::Gemini, TsugiEntry::Http(url)) => json!({"httpUrl": url}),
        (ClientProgram::Windsurf, TsugiEntry::Http(url)) => json!({"serverUrl": url}),
        (_, TsugiEntry::Http(url)) => json!({"url": url}),
    }
}

fn json_file(document: &ConfigDocument, imported: &ImportedFile, way: &TsugiEntry) -> Option<String> {
    let key = key(imported.client);
    let text = &document.source.text;
    let ours = format!("{}: {}", json!(NAME), entry(imported.client, way));
    let servers = document.root.get(key);
    let object_with_ours = object(text, imported, servers, Some(ours))?;
    let mut edits = vec![match servers {
        Some(node) => (node.span.start, node.span.end, object_with_ours),
        None => {
            let at = document.root.span.start + 1;
            let comma = if document.root.entries()?.is_empty() { "\n" } else { "," };
            (at, at, format!("\n  {}: {object_with_ours}{comma}", json!(key)))
        }
    }];
    if let Some(node) = project_servers(document, imported) {
        edits.push((node.span.start, node.span.end, object(text, imported, Some(node), None)?));
    }
    // The last one first, so that the places of the others stay right.
    edits.sort_by_key(|(start, _, _)| std::cmp::Reverse(*start));
    let mut edited = text.clone();
    for (start, end, new) in edits {
        edited = format!("{}{new}{}", edited.get(..start)?, edited.get(end..)?);
    }
    Some(edited)
}

/// The map of servers that is to stand there: ours, if it is to be in it, and what stays, word for word.
fn object(text: &str, imported: &ImportedFile, servers: Option<&ConfigNode>, ours: Option<String>) -> Option<String> {
    let stays = |entry: &&NodeEntry| text.get(entry.key_span.start..entry.node.span.end).map(str::to_owned);
    let others: Vec<String> = kept(servers, imported).iter().map(stays).collect::<Option<_>>()?;
    let all: Vec<String> = ours.into_iter().chain(others).collect();
    Some(if all.is_empty() { "{}".to_owned() } else { format!("{{\n    {}\n  }}", all.join(",\n    ")) })
}

/// The servers of the current directory, in a file that has those of many.
fn project_servers<'a>(document: &'a ConfigDocument, imported: &ImportedFile) -> Option<&'a ConfigNode> {
    let projects = document.root.get("projects")?.entries()?;
    projects.iter().find(|project| imported.is_here(&project.key))?.node.get("mcpServers")
}

/// Drops the tables of imported servers and appends ours.
fn codex(document: &ConfigDocument, imported: &ImportedFile, way: &TsugiEntry) -> Option<String> {
    let stays: Vec<&str> =
        kept(document.root.get("mcp_servers"), imported).iter().map(|entry| entry.key.as_str()).collect();
    let mut is_dropped = false;
    let mut text = String::new();
    for line in document.source.text.split_inclusive('\n') {
        if let Some(header) = line.trim_start().strip_prefix('[') {
            let mut parts =
                header.trim_start_matches('[').split([']', '.']).map(|part| part.trim().trim_matches(['"', '\'']));
            is_dropped = parts.next() == Some("mcp_servers") && parts.next().is_some_and(|name| !stays.contains(&name));
        }
        if !is_dropped {
            text.push_str(line);
        }
    }
    let list = |args: &[String]| args.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(", ");
    let ours = match way {
        TsugiEntry::Stdio(program, args) => format!("command = {}\nargs = [{}]\n", quoted(program), list(args)),
        TsugiEntry::Http(url) => format!("url = {}\n", quoted(url)),
    };
    let gap = match text.as_str() {
        text if text.trim().is_empty() || text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Some(format!("{text}{gap}[mcp_servers.{NAME}]\n{ours}"))
}

/// The new text says what it should, and the rest of the file what it said.
fn is_proven(before: &ConfigDocument, imported: &ImportedFile, text: &str) -> bool {
    let parsed = ConfigDocument::parse(&before.source.path, text.to_owned(), imported.client.format());
    let Ok(after) = parsed else { return false };
    let key = key(imported.client);
    let names = |servers: Option<&ConfigNode>| -> Vec<String> {
        servers.and_then(ConfigNode::entries).unwrap_or_default().iter().map(|entry| entry.key.clone()).collect()
    };
    let others = |document: &ConfigDocument| -> Vec<String> {
        names(Some(&document.root)).into_iter().filter(|name| name != key).collect()
    };
    let mut expected: Vec<String> =
        kept(before.root.get(key), imported).iter().map(|entry| entry.key.clone()).collect();
    expected.push(NAME.to_owned());
    let mut found = names(after.root.get(key));
    expected.sort();
    found.sort();
    let own = |document: &ConfigDocument| names(project_servers(document, imported));
    let own_kept: Vec<String> =
        kept(project_servers(before, imported), imported).iter().map(|entry| entry.key.clone()).collect();
    let has_ours = after.root.get(key).and_then(ConfigNode::entries).is_some_and(|entries| entries.iter().any(is_ours));
    expected == found && others(before) == others(&after) && own(&after) == own_kept && has_ours
}
