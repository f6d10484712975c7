//! Writes our servers in another program's format, so that users can leave tsugi, and notes what got lost.

use serde_json::{Map, Value as Json, json};

use super::ClientProgram;
use super::draft::strings;
use super::translate::{is_name, references};
use crate::config::document::{ConfigDocument, ConfigNode, NodeValue};
use crate::config::settings::{root, server};
use crate::config::yaml_text::quoted;

/// A program's file, and what could not be said in it.
pub(crate) struct ExportedConfig {
    pub(crate) text: String,
    pub(crate) notes: Vec<String>,
}

/// The servers of a configuration as a file of this program.
pub(crate) fn export(document: &ConfigDocument, client: ClientProgram) -> ExportedConfig {
    let mut writer = ExportWriter { client, notes: Vec::new(), server: String::new() };
    let servers: Vec<(String, Json)> = servers(document)
        .into_iter()
        .filter_map(|(name, node)| writer.server(&name, node).map(|json| (name, json)))
        .collect();
    let text = match client {
        ClientProgram::Codex => servers.iter().map(|(name, server)| codex(name, server)).collect::<Vec<_>>().join("\n"),
        _ => {
            let key = match client {
                ClientProgram::VsCode => "servers",
                ClientProgram::Zed => "context_servers",
                _ => "mcpServers",
            };
            let file = json!({ key: servers.into_iter().collect::<Map<_, _>>() });
            serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
        }
    };
    ExportedConfig { text, notes: writer.notes }
}

fn servers(document: &ConfigDocument) -> Vec<(String, &ConfigNode)> {
    let entries = document.root.entries().unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| root::SERVERS.is_called(&entry.key)) else { return Vec::new() };
    match &entry.node.value {
        NodeValue::List(items) => {
            let named = |item: &'_ ConfigNode| item.get("name").and_then(ConfigNode::text).map(str::to_owned);
            items.iter().filter_map(|item| Some((named(item)?, item))).collect()
        }
        NodeValue::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), &entry.node)).collect(),
        _ => Vec::new(),
    }
}

/// The keys that programs understand; others are lost.
const KNOWN: [&str; 10] =
    ["name", "command", "args", "env", "cwd", "url", "headers", "transport", "disabled", "enabled"];

struct ExportWriter {
    client: ClientProgram,
    notes: Vec<String>,
    /// Whose turn it is.
    server: String,
}

impl ExportWriter {
    fn note(&mut self, what: impl std::fmt::Display) {
        let note = format!("{}: {what}", self.server);
        // The same reference may stand in several values.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn server(&mut self, name: &str, node: &ConfigNode) -> Option<Json> {
        self.server = name.to_owned();
        // Without a program or an address it is a built-in server, which exists only inside tsugi.
        if !node.entries()?.iter().any(|entry| matches!(name_of(&entry.key), "command" | "url")) {
            self.note("it is part of tsugi and was left out");
            return None;
        }
        let mut fields = Map::new();
        for entry in node.entries()? {
            self.field(&mut fields, name_of(&entry.key), &entry.node);
        }
        // After the fields, since they say whether it is a program or an address.
        self.kind(&mut fields);
        if is_switched_off(node) {
            self.switch(&mut fields)?;
        }
        Some(Json::Object(fields))
    }

    fn field(&mut self, fields: &mut Map<String, Json>, key: &'static str, node: &ConfigNode) {
        match key {
            "command" | "cwd" => {
                let text = self.text(node);
                self.expect_no_reference(key, "", &text);
                fields.insert(key.into(), text.into());
            }
            "url" => {
                let key = match self.client {
                    ClientProgram::Windsurf => "serverUrl",
                    _ => "url",
                };
                fields.insert(key.into(), self.text(node).into());
                if self.client == ClientProgram::ClaudeDesktop {
                    self.note("Claude Desktop starts programs only; point it at tsugi instead");
                }
            }
            "args" => {
                let args: Vec<String> = strings(node).map(|text| self.translated(text)).collect();
                args.iter().for_each(|arg| self.expect_no_reference(key, "", arg));
                fields.insert(key.into(), args.into());
            }
            "env" | "headers" => {
                let mut pairs = Map::new();
                for entry in node.entries().unwrap_or_default() {
                    let text = self.text(&entry.node);
                    self.expect_no_reference(key, &entry.key, &text);
                    pairs.insert(entry.key.clone(), text.into());
                }
                fields.insert(key.into(), pairs.into());
            }
            // `name` is the key of the entry already, and `switch` writes `disabled`.
            _ if KNOWN.contains(&key) => {}
            other => self.note(format!("`{other}` has no equivalent and was left out")),
        }
    }

    /// Programs that know servers that are switched off are told; in the files of others they would be switched on.
    fn switch(&mut self, fields: &mut Map<String, Json>) -> Option<()> {
        match self.client {
            ClientProgram::Codex | ClientProgram::Zed => _ = fields.insert("enabled".into(), false.into()),
            ClientProgram::Windsurf => _ = fields.insert("disabled".into(), true.into()),
            _ => {
                self.note("it is switched off, which cannot be said there, and was left out");
                return None;
            }
        }
        Some(())
    }

    /// Codex takes values as they are written, and variables only by their names in places of their own.
    fn expect_no_reference(&mut self, key: &str, name: &str, value: &str) {
        let whole = |text: &str| text.strip_prefix("${").is_some_and(|rest| rest.find('}') == Some(rest.len() - 1));
        let is_named = match key {
            "env" => value == format!("${{{name}}}"),
            "headers" => whole(value) || name == "Authorization" && value.strip_prefix("Bearer ").is_some_and(whole),
            _ => false,
        };
        if self.client == ClientProgram::Codex && value.contains("${") && !is_named {
            self.note(format!("`{value}` would be taken as it is written: look at it by hand"));
        }
    }

    /// Some programs want to be told what kind of server it is.
    fn kind(&self, fields: &mut Map<String, Json>) {
        let kind = if fields.contains_key("command") { "stdio" } else { "http" };
        match self.client {
            ClientProgram::ClaudeCode | ClientProgram::VsCode => _ = fields.insert("type".into(), kind.into()),
            ClientProgram::Zed if kind == "stdio" => _ = fields.insert("source".into(), "custom".into()),
            _ => {}
        }
    }

    fn text(&mut self, node: &ConfigNode) -> String {
        self.translated(node.text().unwrap_or_default())
    }

    /// A text with its references as this program writes them.
    fn translated(&mut self, text: &str) -> String {
        let client = self.client;
        let mut lost = Vec::new();
        let translated = references(text, false, |body| {
            let name = body.strip_prefix("env:").unwrap_or(body);
            let (name, rest) = name.split_at(name.find(":-").or(name.find(":?")).unwrap_or(name.len()));
            let ours = match client {
                _ if !is_name(name) => None,
                ClientProgram::ClaudeCode => {
                    // Claude Code knows defaults, but not `:?`.
                    Some(format!("${{{name}{}}}", if rest.starts_with(":-") { rest } else { "" }))
                }
                ClientProgram::Gemini => Some(format!("${{{name}}}")),
                ClientProgram::Cursor | ClientProgram::Windsurf | ClientProgram::VsCode => {
                    Some(format!("${{env:{name}}}"))
                }
                // `codex` turns a whole reference into the name of a variable. Others get a note.
                ClientProgram::Codex => Some(format!("${{{name}}}")),
                // These two do not expand variables.
                ClientProgram::ClaudeDesktop | ClientProgram::Zed => None,
            };
            if ours.is_none() || !rest.is_empty() && client != ClientProgram::ClaudeCode {
                lost.push(format!("`${{{body}}}` cannot be said there as it is: look at it by hand"));
            }
            Some(ours.unwrap_or_else(|| format!("${{{body}}}")))
        });
        lost.into_iter().for_each(|note| self.note(note));
        // `$$` is our escape. Other programs would show both dollar signs.
        translated.replace("$${", "${")
    }
}

fn is_switched_off(node: &ConfigNode) -> bool {
    let says = |key: &str, word: &str| node.get(key).and_then(ConfigNode::text) == Some(word);
    says("disabled", "true") || says("enabled", "false")
}

/// The name that a key has with us, whatever spelling was used.
fn name_of(key: &str) -> &'static str {
    server::TABLE.find(key).map_or("an unknown key", |key| key.name)
}

/// As a table of Codex, which names variables instead of writing them in.
fn codex(name: &str, server: &Json) -> String {
    let mut text = format!("[mcp_servers.{}]\n", if name.contains('.') { quoted(name) } else { name.to_owned() });
    let (mut tables, mut env_vars, mut env_headers) = (String::new(), Vec::new(), Map::new());
    let variable = |text: &str| text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).map(str::to_owned);
    for (key, value) in server.as_object().into_iter().flatten() {
        match value {
            Json::Object(pairs) => {
                let mut plain = Map::new();
                for (name, value) in pairs {
                    let value = value.as_str().unwrap_or_default();
                    let bearer = value.strip_prefix("Bearer ").and_then(variable).filter(|_| name == "Authorization");
                    match (key.as_str(), variable(value), bearer) {
                        ("env", Some(variable), _) if variable == *name => env_vars.push(variable),
                        ("headers", Some(variable), _) => _ = env_headers.insert(name.clone(), variable.into()),
                        ("headers", _, Some(variable)) => {
                            text.push_str(&format!("bearer_token_env_var = {}\n", quoted(&variable)));
                        }
                        _ => _ = plain.insert(name.clone(), value.into()),
                    }
                }
                tables.push_str(&table(name, if key == "headers" { "http_headers" } else { key }, &plain));
            }
            other => text.push_str(&format!("{key} = {}\n", toml(other))),
        }
    }
    if !env_vars.is_empty() {
        text.push_str(&format!("env_vars = {}\n", toml(&env_vars.into())));
    }
    // In TOML every key after a table header belongs to that table, so the tables come last.
    text + &tables + &table(name, "env_http_headers", &env_headers)
}

fn table(server: &str, key: &str, pairs: &Map<String, Json>) -> String {
    let pair = |(name, value): (&String, &Json)| format!("{} = {}\n", quoted(name), toml(value));
    match pairs.is_empty() {
        true => String::new(),
        false => format!("\n[mcp_servers.{server}.{key}]\n{}", pairs.iter().map(pair).collect::<String>()),
    }
}

fn toml(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        Json::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
