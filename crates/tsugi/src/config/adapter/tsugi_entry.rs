//! Puts tsugi's own entry into another program's file in place of the servers it took over, and puts those back.
//!
//! Every edit is checked before it is returned: the new text must parse, and apart from the moved servers and our entry
//! it must mean exactly what the old text meant. Otherwise the file is left alone.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{ClientProgram, ClientScope, ImportedFile};
use crate::config::document::{ConfigDocument, ConfigNode, NodeEntry};
use crate::config::problem::ConfigProblem;
use crate::config::yaml_text::quoted;

/// How a program reaches tsugi.
#[derive(Debug, Clone)]
pub(crate) enum TsugiEntry {
    /// The program starts us: the command and its arguments.
    Stdio(String, Vec<String>),
    /// The program connects to a running gateway at this address.
    Http(String),
}

/// A server that was taken out of a program's file, with the text that puts it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MovedServer {
    /// The keys that lead to the map it stood in.
    section: Vec<String>,
    key: String,
    /// Its entry as it was written: `"key": {…}` in JSON, whole tables in TOML.
    text: String,
}

/// An edited file, and what was taken out of it.
#[derive(Debug)]
pub(crate) struct PointedFile {
    pub(crate) text: String,
    pub(crate) moved: Vec<MovedServer>,
}

/// The name of our entry. A project's file and a user's file need different names: a program that reads both would
/// otherwise use only one of the two entries, and the servers behind the other would be gone.
pub(crate) fn entry_name(scope: ClientScope) -> &'static str {
    match scope {
        ClientScope::User => "tsugi",
        ClientScope::Project => "tsugi-project",
    }
}

/// Whether an entry of a program's file is ours.
pub(super) fn is_ours(entry: &NodeEntry) -> bool {
    let text = |key: &str| entry.node.get(key).and_then(ConfigNode::text);
    // Installations differ in the path, so only the name of the program counts.
    let program = text("command").map(|command| command.rsplit('/').next().unwrap_or_default());
    let is_started = program == Some("tsugi")
        && entry.node.get("args").and_then(ConfigNode::items).and_then(|args| args.first()).and_then(ConfigNode::text)
            == Some("stdio");
    // Many servers have an address that ends in `/mcp`, so an address needs our name too.
    let is_our_name = [ClientScope::User, ClientScope::Project].map(entry_name).contains(&entry.key.as_str());
    let address = ["url", "httpUrl", "serverUrl"].into_iter().find_map(text);
    is_started || is_our_name && address.is_some_and(|address| address.ends_with("/mcp"))
}

/// The text of a program's file with tsugi in place of the servers in `taken`. Every other server stays.
pub(crate) fn point(
    document: &ConfigDocument,
    imported: &ImportedFile,
    taken: &[&str],
    entry: &TsugiEntry,
) -> Result<PointedFile, ConfigProblem> {
    let name = entry_name(imported.scope);
    let edited = match imported.client {
        ClientProgram::Codex => point_codex(document, taken, name, entry),
        _ => point_json(document, imported, taken, name, entry),
    };
    let checked = edited.filter(|pointed| is_pointed(document, imported, taken, name, &pointed.text));
    checked.ok_or_else(|| {
        ConfigProblem::new(format!(
            "`{}` is written in a way that cannot be edited safely; it was left alone",
            document.source.path.display()
        ))
        .with_hint(format!("put this into it by hand: {}", entry_json(imported.client, entry)))
    })
}

/// The text of a program's file with the moved servers back in it and without our entries; `None` if the file cannot be
/// edited safely. A server that has been added again under the same name stays as it is now.
pub(crate) fn put_back(
    document: &ConfigDocument,
    client: ClientProgram,
    sections: &[Vec<String>],
    moved: &[MovedServer],
) -> Option<String> {
    let edited = match client {
        ClientProgram::Codex => put_back_codex(document, moved),
        _ => put_back_json(document, sections, moved)?,
    };
    let after = ConfigDocument::parse(&document.source.path, edited.clone(), client.format()).ok()?;
    let is_there = |server: &MovedServer| descend(&after.root, &server.section)?.get(&server.key);
    moved.iter().all(|server| is_there(server).is_some()).then_some(())?;
    // Apart from the moved servers and our entries, nothing may differ.
    let mut before_rest = document.root.to_json();
    let mut after_rest = after.root.to_json();
    for section in sections {
        let keys: Vec<&str> =
            moved.iter().filter(|server| server.section == *section).map(|s| s.key.as_str()).collect();
        for (rest, document) in [(&mut before_rest, document), (&mut after_rest, &after)] {
            let ours = entries(&document.root, section).iter().filter(|entry| is_ours(entry));
            let ours: Vec<&str> = ours.map(|entry| entry.key.as_str()).collect();
            remove_keys(rest, section, &[&keys[..], &ours[..]].concat());
        }
    }
    (before_rest == after_rest).then_some(edited)
}

/// Our entry in the words of a program.
pub(crate) fn entry_json(client: ClientProgram, entry: &TsugiEntry) -> Json {
    match (client, entry) {
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

fn point_json(
    document: &ConfigDocument,
    imported: &ImportedFile,
    taken: &[&str],
    name: &str,
    entry: &TsugiEntry,
) -> Option<PointedFile> {
    let (text, section) = (&document.source.text, &imported.section);
    let is_moved = |entry: &&NodeEntry| taken.contains(&entry.key.as_str());
    let moved = entries(&document.root, section).iter().filter(is_moved).map(|entry| {
        let text = text.get(entry.key_span.start..entry.node.span.end)?.to_owned();
        Some(MovedServer { section: section.clone(), key: entry.key.clone(), text })
    });
    let moved = moved.collect::<Option<Vec<_>>>()?;
    let ours = format!("{}: {}", json!(name), entry_json(imported.client, entry));
    // Our own entry of an earlier run is replaced.
    let stays = |entry: &NodeEntry| !taken.contains(&entry.key.as_str()) && entry.key != name;
    Some(PointedFile { text: rewrite_section(document, section, vec![ours], &stays)?, moved })
}

fn put_back_json(document: &ConfigDocument, sections: &[Vec<String>], moved: &[MovedServer]) -> Option<String> {
    let mut current = document.clone();
    for section in sections {
        let present: Vec<String> = entries(&current.root, section).iter().map(|entry| entry.key.clone()).collect();
        let is_missing = |server: &&MovedServer| server.section == *section && !present.contains(&server.key);
        let added = moved.iter().filter(is_missing).map(|server| server.text.clone()).collect();
        let text = rewrite_section(&current, section, added, &|entry| !is_ours(entry))?;
        // The spans of the next section are those of the new text.
        current = ConfigDocument::parse(&document.source.path, text, ClientProgram::ClaudeCode.format()).ok()?;
    }
    Some(current.source.text)
}

/// The text with the map at `section` rebuilt: the added entries, then every entry that stays, word for word.
fn rewrite_section(
    document: &ConfigDocument,
    section: &[String],
    added: Vec<String>,
    stays: &dyn Fn(&NodeEntry) -> bool,
) -> Option<String> {
    let text = &document.source.text;
    let kept = entries(&document.root, section).iter().filter(|entry| stays(entry));
    let kept = kept.map(|entry| text.get(entry.key_span.start..entry.node.span.end).map(str::to_owned));
    let all: Vec<String> = added.into_iter().map(Some).chain(kept).collect::<Option<_>>()?;
    let object = if all.is_empty() { "{}".to_owned() } else { format!("{{\n    {}\n  }}", all.join(",\n    ")) };
    let (start, end, new) = match descend(&document.root, section) {
        Some(node) => (node.span.start, node.span.end, object),
        // The map does not exist yet: it becomes the first member of its parent.
        None => {
            let (last, parents) = section.split_last()?;
            let parent = descend(&document.root, parents)?;
            let at = parent.span.start + 1;
            let comma = if parent.entries()?.is_empty() { "\n" } else { "," };
            (at, at, format!("\n  {}: {object}{comma}", json!(last)))
        }
    };
    Some(format!("{}{new}{}", text.get(..start)?, text.get(end..)?))
}

/// Codex keeps each server in TOML tables of its own, so whole tables move.
fn point_codex(document: &ConfigDocument, taken: &[&str], name: &str, entry: &TsugiEntry) -> Option<PointedFile> {
    let mut moved: Vec<MovedServer> = Vec::new();
    let text = without_tables(&document.source.text, &mut |server, line| {
        if !taken.contains(&server) {
            // Our own table of an earlier run goes, and is written again below.
            return server == name;
        }
        match moved.iter_mut().find(|moved| moved.key == server) {
            // A server may have several tables, such as one for `env`. They move together.
            Some(moved) => moved.text.push_str(line),
            None => moved.push(MovedServer {
                section: vec![CODEX_SECTION.to_owned()],
                key: server.to_owned(),
                text: line.to_owned(),
            }),
        }
        true
    });
    let list = |args: &[String]| args.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(", ");
    let fields = match entry {
        TsugiEntry::Stdio(program, args) => format!("command = {}\nargs = [{}]\n", quoted(program), list(args)),
        TsugiEntry::Http(url) => format!("url = {}\n", quoted(url)),
    };
    Some(PointedFile { text: append_table(text, &format!("[{CODEX_SECTION}.{name}]\n{fields}")), moved })
}

const CODEX_SECTION: &str = "mcp_servers";

fn put_back_codex(document: &ConfigDocument, moved: &[MovedServer]) -> String {
    let section = [CODEX_SECTION.to_owned()];
    let present = entries(&document.root, &section);
    let ours: Vec<&str> = present.iter().filter(|entry| is_ours(entry)).map(|entry| entry.key.as_str()).collect();
    let text = without_tables(&document.source.text, &mut |server, _| ours.contains(&server));
    let missing = moved.iter().filter(|server| present.iter().all(|entry| entry.key != server.key));
    missing.fold(text, |text, server| append_table(text, &server.text))
}

/// The text without the lines of the servers' tables for which `drops` says so. It is asked for every such line.
fn without_tables(text: &str, drops: &mut dyn FnMut(&str, &str) -> bool) -> String {
    let mut server: Option<String> = None;
    let mut rest = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(header) = line.trim_start().strip_prefix('[') {
            let mut parts =
                header.trim_start_matches('[').split([']', '.']).map(|part| part.trim().trim_matches(['"', '\'']));
            // The second part names the server, even in `[mcp_servers.name.env]`.
            let is_server = parts.next() == Some(CODEX_SECTION);
            server = parts.next().filter(|_| is_server).map(str::to_owned);
        }
        let is_dropped = server.as_deref().is_some_and(|server| drops(server, line));
        if !is_dropped {
            rest.push_str(line);
        }
    }
    rest
}

fn append_table(text: String, table: &str) -> String {
    let gap = match text.as_str() {
        text if text.trim().is_empty() || text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}{table}")
}

/// Whether the new text has our entry, lacks the taken servers, and otherwise means what the old text meant.
fn is_pointed(before: &ConfigDocument, imported: &ImportedFile, taken: &[&str], name: &str, text: &str) -> bool {
    let parsed = ConfigDocument::parse(&before.source.path, text.to_owned(), imported.client.format());
    let Ok(after) = parsed else { return false };
    let found = entries(&after.root, &imported.section);
    let has_ours = found.iter().any(|entry| entry.key == name && is_ours(entry));
    let is_clean = found.iter().all(|entry| !taken.contains(&entry.key.as_str()));
    let rest = |document: &ConfigDocument| {
        let mut json = document.root.to_json();
        remove_keys(&mut json, &imported.section, &[taken, &[name]].concat());
        json
    };
    has_ours && is_clean && rest(before) == rest(&after)
}

/// Removes members of the map at `section`, and the map itself once it is empty, so that a file which had no such map
/// compares equal to one in which it is empty.
fn remove_keys(json: &mut Json, section: &[String], keys: &[&str]) {
    let Some((first, rest)) = section.split_first() else {
        if let Some(members) = json.as_object_mut() {
            keys.iter().for_each(|key| _ = members.remove(*key));
        }
        return;
    };
    let Some(inner) = json.get_mut(first) else { return };
    remove_keys(inner, rest, keys);
    let is_empty = inner.as_object().is_some_and(serde_json::Map::is_empty);
    if is_empty && let Some(members) = json.as_object_mut() {
        members.remove(first);
    }
}

fn descend<'a>(root: &'a ConfigNode, section: &[String]) -> Option<&'a ConfigNode> {
    section.iter().try_fold(root, |node, key| node.get(key))
}

fn entries<'a>(root: &'a ConfigNode, section: &[String]) -> &'a [NodeEntry] {
    descend(root, section).and_then(ConfigNode::entries).unwrap_or_default()
}
