//! Writes imported servers as one `tsugi.yaml`, and their secrets as an environment file beside it.

use std::collections::BTreeMap;

use super::draft::{DraftField, ServerDraft};
use super::{ClientProgram, ImportedFile};
use crate::config::env::assignment;
use crate::config::secret::Secret;
use crate::config::yaml_text::{list, scalar};

/// The name of the environment file.
pub(crate) const SECRETS_FILE: &str = "tsugi.secrets.env";

/// What is to be written.
#[derive(Debug)]
pub(crate) struct ImportOutput {
    /// The configuration; it holds no secret.
    pub(crate) yaml: String,
    /// The content of [`SECRETS_FILE`], to be written so that only its owner can read it; none if no
    /// imported file held a secret.
    pub(crate) secrets: Option<Secret>,
    /// The servers that were switched off, each with the reason.
    pub(crate) switched_off: Vec<(String, String)>,
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

/// One configuration of all imported files. A server that several programs have appears once; servers
/// that only share a name are kept apart by the program's name.
pub(crate) fn write(imports: &[ImportedFile]) -> ImportOutput {
    write_judged(imports, &|_, _| DraftVerdict::Usable)
}

/// Whether a server can be used as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DraftVerdict {
    Usable,
    /// Why not.
    Unusable(String),
}

/// As [`write`], with every server judged by itself, and by the lines of its secrets: one that cannot be used is
/// switched off, and one that cannot be used even so becomes a comment.
pub(crate) fn write_judged(imports: &[ImportedFile], judge: &dyn Fn(&str, &str) -> DraftVerdict) -> ImportOutput {
    let mut secrets: BTreeMap<String, Secret> = BTreeMap::new();
    let mut servers: Vec<(String, &ServerDraft)> = Vec::new();
    let (mut body, mut switched_off) = (String::new(), Vec::new());
    for imported in imports {
        for draft in &imported.servers {
            if servers.iter().any(|(_, earlier)| is_same(earlier, draft)) {
                continue;
            }
            let name = free_name(imported.client, draft, &servers);
            let text = server(imported.client, &name, draft, &mut secrets);
            let lines = lines(&secrets);
            let (text, why_off) = judged(text, &lines, judge);
            body.push_str(&text);
            switched_off.extend(why_off.map(|why| (name.clone(), why)));
            servers.push((name, draft));
        }
    }
    let mut yaml = head(imports);
    if !secrets.is_empty() {
        yaml.push_str(&format!("envFile: {SECRETS_FILE}\n"));
    }
    yaml.push_str(if body.is_empty() { "servers: []\n" } else { "servers:\n" });
    yaml.push_str(&body);
    let lines = lines(&secrets);
    ImportOutput { yaml, secrets: (!lines.is_empty()).then(|| Secret::new(lines)), switched_off }
}

/// The secrets as an environment file.
fn lines(secrets: &BTreeMap<String, Secret>) -> String {
    secrets.iter().map(|(name, secret)| assignment(name, secret.expose())).collect()
}

fn judged(text: String, secrets: &str, judge: &dyn Fn(&str, &str) -> DraftVerdict) -> (String, Option<String>) {
    let DraftVerdict::Unusable(why) = judge(&text, secrets) else { return (text, None) };
    let reason = comment(&why, "    # switched off: ");
    let off = format!("{text}{reason}    disabled: true\n");
    if judge(&off, secrets) == DraftVerdict::Usable {
        return (off, Some(why));
    }
    let lines = text.trim_start_matches('\n').lines();
    let commented: String = lines.map(|line| format!("  # {}\n", line.trim_start_matches("  # ").trim_end())).collect();
    (format!("\n{}{commented}", comment(&why, "  # left out: ")), None)
}

fn is_same(one: &ServerDraft, other: &ServerDraft) -> bool {
    let target = |draft: &ServerDraft| ["command", "args", "url", "env", "headers"].map(|key| draft.get(key).cloned());
    one.name == other.name && target(one) == target(other) && one.secrets == other.secrets
}

fn free_name(client: ClientProgram, draft: &ServerDraft, servers: &[(String, &ServerDraft)]) -> String {
    let taken = |name: &String| servers.iter().any(|(other, _)| other == name);
    let with_client = format!("{}-{}", draft.name, client.word());
    let numbered = (2..).map(|number| format!("{with_client}-{number}"));
    let names = [draft.name.clone(), with_client.clone()].into_iter().chain(numbered);
    names.into_iter().find(|name| !taken(name)).unwrap_or(with_client)
}

fn head(imports: &[ImportedFile]) -> String {
    let mut head = "# Written by `tsugi import`. What each file had, and what got lost on the way:\n".to_owned();
    for imported in imports {
        let file = imported.path.display();
        head.push_str(&comment(
            &format!("{}: {file}, {} servers", imported.client.name(), imported.servers.len()),
            "# ",
        ));
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

fn server(client: ClientProgram, name: &str, draft: &ServerDraft, secrets: &mut BTreeMap<String, Secret>) -> String {
    let renames = keep_secrets(client, draft, secrets);
    let mut text = format!("\n  # {}\n", client.name());
    for remark in &draft.remarks {
        text.push_str(&comment(remark, "  # "));
    }
    for note in &draft.notes {
        text.push_str(&comment(note, "  # warning: "));
    }
    text.push_str(&format!("  - name: {}\n", scalar(name)));
    for key in ORDER {
        if let Some(field) = draft.get(key) {
            text.push_str(&renames.iter().fold(write_field(key, field), |text, (from, to)| text.replace(from, to)));
        }
    }
    text
}

/// Keeps a server's secrets under names that no other server's secret has; says which had to change.
fn keep_secrets(
    client: ClientProgram,
    draft: &ServerDraft,
    secrets: &mut BTreeMap<String, Secret>,
) -> Vec<(String, String)> {
    let mut renames = Vec::new();
    for (name, secret) in &draft.secrets {
        let mut kept = name.clone();
        while secrets.get(&kept).is_some_and(|other| other != secret) {
            kept = format!("{kept}_{}", super::translate::variable_name(client.word()));
        }
        if kept != *name {
            renames.push((format!("${{{name}}}"), format!("${{{kept}}}")));
        }
        secrets.insert(kept, secret.clone());
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
}
