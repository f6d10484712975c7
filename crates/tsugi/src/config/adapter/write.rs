//! Writes imported servers as one `tsugi.yaml`, and their secrets as an environment file beside it.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::draft::{DraftField, ServerDraft};
use super::{ClientProgram, ImportedFile};
use crate::config::document::{ConfigDocument, ConfigNode, NodeValue};
use crate::config::edit::{self, NewServer};
use crate::config::env::assignment;
use crate::config::problem::ConfigProblems;
use crate::config::secret::Secret;
use crate::config::settings::{root, server};
use crate::config::yaml_text::{list, scalar};

/// The name of the environment file.
pub(crate) const SECRETS_FILE: &str = "tsugi.secrets.env";

/// What is to be written.
#[derive(Debug)]
pub(crate) struct ImportOutput {
    /// A whole configuration; it holds no secret.
    pub(crate) yaml: String,
    /// Secrets of the imported files, by the variable that stands for each of them now.
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// Every server that was found, in order.
    pub(crate) servers: Vec<ImportedServer>,
}

/// A server of a program's file, and what became of it.
#[derive(Debug)]
pub(crate) struct ImportedServer {
    /// The index of its file.
    pub(crate) file: usize,
    /// Its name in that file.
    pub(crate) key: String,
    /// Its name in our configuration.
    pub(crate) name: String,
    pub(crate) outcome: TakeOver,
    /// Its entry; `None` where the configuration has it already.
    addition: Option<Map<String, Json>>,
}

/// Whether tsugi serves what the program had. Only a server that was taken may be removed from the program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TakeOver {
    Taken,
    /// It is in our configuration with `disabled: true`, for this reason.
    SwitchedOff(String),
    /// It is not in our configuration, except perhaps as a comment, for this reason.
    LeftOut(String),
}

/// Whether a server can be used as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DraftVerdict {
    Usable,
    /// Why not.
    Unusable(String),
}

/// Judges an entry by itself, together with the lines of an environment file.
pub(crate) type DraftJudge<'a> = &'a dyn Fn(&str, &str) -> DraftVerdict;

/// Servers that a configuration has already.
#[derive(Debug, Default)]
pub(crate) struct ExistingServers {
    servers: Vec<(String, Json, bool)>,
    secrets: BTreeMap<String, Secret>,
}

/// The order of keys in a server.
const ORDER: [&str; 13] = [
    "command",
    "args",
    "cwd",
    "env",
    "envFile",
    "url",
    "transport",
    "headers",
    "timeout",
    "allow",
    "deny",
    "sandbox",
    "disabled",
];

/// One configuration of all imported files. A server that several programs have appears once. Servers that only share a
/// name are told apart by the program's name.
pub(crate) fn write(imports: &[ImportedFile]) -> ImportOutput {
    compose(imports, &ExistingServers::default(), None)
}

/// As [`write`], with every server judged by itself: one that cannot be used is switched off, and one that cannot be used
/// even so becomes a comment. A server that exists already is not written again.
pub(crate) fn write_judged(
    imports: &[ImportedFile],
    existing: &ExistingServers,
    judge: DraftJudge<'_>,
) -> ImportOutput {
    compose(imports, existing, Some(judge))
}

fn compose(imports: &[ImportedFile], existing: &ExistingServers, judge: Option<DraftJudge<'_>>) -> ImportOutput {
    // Variables that exist keep their names and values, since other servers use them.
    let mut secrets = existing.secrets.clone();
    let mut drafts: Vec<&ServerDraft> = Vec::new();
    let mut servers: Vec<ImportedServer> = Vec::new();
    let mut body = String::new();
    for (file, imported) in imports.iter().enumerate() {
        for draft in &imported.servers {
            let key = draft.key.clone();
            if let Some(earlier) = drafts.iter().position(|earlier| is_same(earlier, draft)) {
                // Another program has the same server. One entry of ours takes over both.
                let (name, outcome) = (servers[earlier].name.clone(), servers[earlier].outcome.clone());
                drafts.push(draft);
                servers.push(ImportedServer { file, key, name, outcome, addition: None });
                continue;
            }
            drafts.push(draft);
            if let Some((name, _, is_enabled)) = existing.find(draft) {
                let off = || TakeOver::SwitchedOff("it is switched off in the configuration".to_owned());
                // A server that is switched off here serves no program, so it must stay in the program's file.
                let outcome = if *is_enabled { TakeOver::Taken } else { off() };
                servers.push(ImportedServer { file, key, name: name.clone(), outcome, addition: None });
                continue;
            }
            let name = free_name(imported.client, draft, existing, &servers);
            let renames = keep_secrets(imported.client, draft, &mut secrets);
            let text = entry_text(imported.client, &name, draft, &renames);
            let (text, outcome) = judged(text, draft, imported.client, &secret_lines(&secrets), judge);
            body.push_str(&text);
            let addition = match &outcome {
                // It is only a comment in a new file. A file that exists does not get it at all.
                TakeOver::LeftOut(_) => None,
                outcome => Some(entry_fields(draft, &renames, outcome)),
            };
            servers.push(ImportedServer { file, key, name, outcome, addition });
        }
    }
    // The head counts the servers, so it can only be written after them.
    let mut yaml = head(imports, &servers);
    if !secrets.is_empty() {
        yaml.push_str(&format!("envFile: {SECRETS_FILE}\n"));
    }
    yaml.push_str(if body.is_empty() { "servers: []\n" } else { "servers:\n" });
    yaml.push_str(&body);
    ImportOutput { yaml, secrets, servers }
}

impl ImportOutput {
    /// The names of servers that the configuration lacks.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let added = self.servers.iter().filter(|server| server.addition.is_some());
        added.map(|server| server.name.as_str()).collect()
    }

    /// The text of an existing configuration with the missing servers added at its end.
    pub(crate) fn merged_into(&self, document: &ConfigDocument) -> Result<String, ConfigProblems> {
        let mut document = document.clone();
        let reread = |text: String, document: &ConfigDocument| {
            let path = &document.source.path;
            ConfigDocument::parse(path, text, crate::config::document::DocumentFormat::of(path)).map_err(ConfigProblems)
        };
        for server in &self.servers {
            let Some(fields) = &server.addition else { continue };
            let new = NewServer { name: server.name.clone(), fields: fields.clone() };
            // Every edit moves the spans behind it, so the text is read again.
            document = reread(edit::add(&document, &new)?, &document)?;
        }
        if !self.secrets.is_empty() && document.root.get(root::ENV_FILE.name).is_none() {
            document = reread(edit::set_root_key(&document, root::ENV_FILE.name, SECRETS_FILE)?, &document)?;
        }
        Ok(document.source.text)
    }

    /// Servers of one file that tsugi serves from now on.
    pub(crate) fn taken(&self, file: usize) -> Vec<&str> {
        let of_file = self.servers.iter().filter(|server| server.file == file && server.outcome == TakeOver::Taken);
        of_file.map(|server| server.key.as_str()).collect()
    }

    /// Servers of one file that stay there, each with the reason.
    pub(crate) fn staying(&self, file: usize) -> Vec<(&str, &str)> {
        let of_file = self.servers.iter().filter(|server| server.file == file);
        of_file.filter_map(|server| server.why_not().map(|why| (server.key.as_str(), why))).collect()
    }
}

impl ImportedServer {
    /// Why tsugi does not serve it.
    pub(crate) fn why_not(&self) -> Option<&str> {
        match &self.outcome {
            TakeOver::Taken => None,
            TakeOver::SwitchedOff(why) | TakeOver::LeftOut(why) => Some(why),
        }
    }
}

impl ExistingServers {
    /// The servers of a configuration, and the variables of its environment file.
    pub(crate) fn of(document: &ConfigDocument, secrets: BTreeMap<String, Secret>) -> Self {
        let entries = document.root.entries().unwrap_or_default();
        let node = entries.iter().find(|entry| root::SERVERS.is_called(&entry.key)).map(|entry| &entry.node);
        let of_item = |node: &ConfigNode, name: &str| {
            let says = |key: &str, word: &str| node.get(key).and_then(ConfigNode::text) == Some(word);
            let is_off = says(server::DISABLED.name, "true");
            (name.to_owned(), target(&node.to_json()), !is_off)
        };
        let servers = match node.map(|node| &node.value) {
            Some(NodeValue::List(items)) => {
                let name =
                    |item: &'_ ConfigNode| item.get("name").and_then(ConfigNode::text).unwrap_or_default().to_owned();
                items.iter().map(|item| of_item(item, &name(item))).collect()
            }
            Some(NodeValue::Map(entries)) => entries.iter().map(|entry| of_item(&entry.node, &entry.key)).collect(),
            _ => Vec::new(),
        };
        ExistingServers { servers, secrets }
    }

    /// The variables alone, for a configuration that is written from the beginning.
    pub(crate) fn without_servers(self) -> Self {
        ExistingServers { servers: Vec::new(), ..self }
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The server that runs the same program with the same arguments, or connects to the same address.
    fn find(&self, draft: &ServerDraft) -> Option<&(String, Json, bool)> {
        let wanted = target(&Json::Object(entry_fields(draft, &[], &TakeOver::Taken)));
        self.servers.iter().find(|(_, known, _)| *known == wanted)
    }
}

/// What identifies a server: program, arguments and address. The names of variables do not count, because a secret may
/// have been given another name.
fn target(entry: &Json) -> Json {
    let anonymous = |value: &Json| match value {
        Json::String(text) => anonymous(text).into(),
        Json::Array(items) => items.iter().map(|item| anonymous(item.as_str().unwrap_or_default())).collect(),
        other => other.clone(),
    };
    // No `args` and an empty list mean the same.
    let empty = Json::Array(Vec::new());
    [&entry["command"], Some(&entry["args"]).filter(|args| !args.is_null()).unwrap_or(&empty), &entry["url"]]
        .map(anonymous)
        .into_iter()
        .collect()
}

/// The text with the inside of every `${…}` taken out.
fn anonymous(text: &str) -> String {
    let mut parts = text.split("${");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str("${}");
        result.push_str(part.split_once('}').map_or("", |(_, rest)| rest));
    }
    result
}

/// The secrets as an environment file.
pub(super) fn secret_lines(secrets: &BTreeMap<String, Secret>) -> String {
    secrets.iter().map(|(name, secret)| assignment(name, secret.expose())).collect()
}

/// The entry as it is to be written, and what that means for the server.
fn judged(
    text: String,
    draft: &ServerDraft,
    client: ClientProgram,
    secrets: &str,
    judge: Option<DraftJudge<'_>>,
) -> (String, TakeOver) {
    if let Some(obstacle) = draft.notes.obstacle() {
        return (commented(&text, obstacle), TakeOver::LeftOut(obstacle.to_owned()));
    }
    // `tsugi import` only translates. It does not check whether a server would work here.
    let Some(judge) = judge else { return (text, TakeOver::Taken) };
    let verdict = judge(&text, secrets);
    if draft.is_switched_off() {
        let why = draft.refusal.clone().unwrap_or_else(|| format!("it is switched off in {}", client.name()));
        return match verdict {
            DraftVerdict::Usable => (text, TakeOver::SwitchedOff(why)),
            DraftVerdict::Unusable(why) => (commented(&text, &why), TakeOver::LeftOut(why)),
        };
    }
    let why = match (verdict, draft.sign_in(&draft.name)) {
        (DraftVerdict::Unusable(why), _) => why,
        (DraftVerdict::Usable, Some(why)) => why,
        (DraftVerdict::Usable, None) => return (text, TakeOver::Taken),
    };
    let off = format!("{text}{}    disabled: true\n", comment(&why, "    # switched off: "));
    // Unset variables are accepted in a server that is switched off. Other problems still are not.
    match judge(&off, secrets) {
        DraftVerdict::Usable => (off, TakeOver::SwitchedOff(why)),
        DraftVerdict::Unusable(_) => (commented(&text, &why), TakeOver::LeftOut(why)),
    }
}

/// An entry that stands in the file only to be read.
fn commented(text: &str, why: &str) -> String {
    let lines = text.trim_start_matches('\n').lines();
    // A line of the entry that is a comment already does not get a second mark.
    let commented: String = lines.map(|line| format!("  # {}\n", line.trim_start_matches("  # ").trim_end())).collect();
    format!("\n{}{commented}", comment(why, "  # left out: "))
}

fn is_same(one: &ServerDraft, other: &ServerDraft) -> bool {
    let target = |draft: &ServerDraft| {
        ["command", "args", "url", "env", "headers", "disabled"].map(|key| draft.get(key).cloned())
    };
    one.name == other.name && target(one) == target(other) && one.secrets == other.secrets
}

fn free_name(
    client: ClientProgram,
    draft: &ServerDraft,
    existing: &ExistingServers,
    servers: &[ImportedServer],
) -> String {
    let is_taken = |name: &String| {
        servers.iter().any(|other| other.name == *name) || existing.servers.iter().any(|(other, ..)| other == name)
    };
    // A name that two servers share is kept by the first. The second one says where it came from.
    let with_client = format!("{}-{}", draft.name, client.word());
    let numbered = (2..).map(|number| format!("{with_client}-{number}"));
    let names = [draft.name.clone(), with_client.clone()].into_iter().chain(numbered);
    names.into_iter().find(|name| !is_taken(name)).unwrap_or(with_client)
}

fn head(imports: &[ImportedFile], servers: &[ImportedServer]) -> String {
    let mut head = "# Written by `tsugi import`. What each file had, and what got lost on the way:\n".to_owned();
    for (index, imported) in imports.iter().enumerate() {
        let is_imported =
            |server: &&ImportedServer| server.file == index && !matches!(server.outcome, TakeOver::LeftOut(_));
        let count = servers.iter().filter(is_imported).count();
        let plural = if count == 1 { "server" } else { "servers" };
        let file = imported.shown_path().display();
        head.push_str(&comment(&format!("{}: {file}, {count} {plural}", imported.client.name()), "# "));
        for note in &imported.notes {
            head.push_str(&comment(note, "#   warning: "));
        }
    }
    head
}

/// A comment is one line, whatever stands in it.
fn comment(text: &str, before: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{before}{line}\n")
}

fn entry_text(client: ClientProgram, name: &str, draft: &ServerDraft, renames: &[(String, String)]) -> String {
    let mut text = format!("\n  # {}\n", client.name());
    for remark in &draft.remarks {
        text.push_str(&comment(remark, "  # "));
    }
    for note in draft.notes.all() {
        text.push_str(&comment(note, "  # warning: "));
    }
    if let Some(refusal) = &draft.refusal {
        text.push_str(&comment(refusal, "  # switched off: "));
    }
    text.push_str(&format!("  - name: {}\n", scalar(name)));
    for key in ORDER {
        if let Some(field) = draft.get(key) {
            text.push_str(&renamed(&write_field(key, field), renames));
        }
    }
    text
}

/// The entry as data, for a file that exists already.
fn entry_fields(draft: &ServerDraft, renames: &[(String, String)], outcome: &TakeOver) -> Map<String, Json> {
    let text = |text: &String| Json::from(renamed(text, renames));
    let texts = |items: &Vec<String>| items.iter().map(text).collect::<Json>();
    let mut fields = Map::new();
    for key in ORDER {
        let value = match draft.get(key) {
            Some(DraftField::Text(value)) => text(value),
            Some(DraftField::List(items)) => texts(items),
            Some(DraftField::Map(pairs)) => pairs.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            Some(DraftField::Lists(parts)) => {
                let part = |(name, items): &(&str, Vec<String>)| match items.as_slice() {
                    // `net` takes one word, not a list.
                    [only] if *name == "net" => ((*name).to_owned(), text(only)),
                    _ => ((*name).to_owned(), texts(items)),
                };
                parts.iter().map(part).collect()
            }
            None => continue,
        };
        fields.insert(key.to_owned(), value);
    }
    if matches!(outcome, TakeOver::SwitchedOff(_)) {
        fields.insert("disabled".to_owned(), Json::Bool(true));
    }
    fields
}

fn renamed(text: &str, renames: &[(String, String)]) -> String {
    renames.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Adds a server's secrets under names that no other secret has; returns the names that had to change.
fn keep_secrets(
    client: ClientProgram,
    draft: &ServerDraft,
    secrets: &mut BTreeMap<String, Secret>,
) -> Vec<(String, String)> {
    let mut renames = Vec::new();
    for (name, secret) in &draft.secrets {
        let mut free = name.clone();
        // Equal secrets share a variable. A different one under the same name needs its own.
        while secrets.get(&free).is_some_and(|other| other != secret) {
            free = format!("{free}_{}", super::translate::variable_name(client.word()));
        }
        if free != *name {
            renames.push((format!("${{{name}}}"), format!("${{{free}}}")));
        }
        secrets.insert(free, secret.clone());
    }
    renames
}

fn write_field(key: &str, field: &DraftField) -> String {
    match field {
        DraftField::Text(text) => format!("    {key}: {}\n", scalar(text)),
        DraftField::List(items) => format!("    {key}: {}\n", list(items)),
        DraftField::Map(pairs) => {
            let pair = |(name, value): &(String, String)| format!("      {}: {}\n", scalar(name), scalar(value));
            format!("    {key}:\n{}", pairs.iter().map(pair).collect::<String>())
        }
        DraftField::Lists(parts) => {
            let part = |(name, items): &(&str, Vec<String>)| match items.as_slice() {
                [only] if *name == "net" => format!("      {name}: {}\n", scalar(only)),
                items => format!("      {name}: {}\n", list(items)),
            };
            format!("    {key}:\n{}", parts.iter().map(part).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_cannot_leave_its_line() {
        assert_eq!(comment("a\nservers: []", "# "), "# a servers: []\n");
    }

    #[test]
    fn servers_are_recognised_whatever_their_secrets_are_called() {
        let entry = |name: &str| serde_json::json!({"command": "x", "args": ["--token", format!("${{{name}}}/y")]});
        assert_eq!(target(&entry("A_TOKEN")), target(&entry("B_TOKEN_CURSOR")));
        assert_eq!(target(&serde_json::json!({"url": "u"})), target(&serde_json::json!({"url": "u", "args": []})));
    }
}
