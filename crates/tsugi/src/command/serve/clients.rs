//! The line or JSON that connects each known client to this gateway.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::output::style::TextPaint;

/// A placeholder for the key, which only its owner knows.
const KEY: &str = "Bearer YOUR_KEY";

pub(crate) struct ClientSetup {
    /// The address of the MCP face.
    pub(crate) url: String,
    /// The configuration file, for clients that start us themselves.
    pub(crate) config: Option<String>,
    /// Whether a key must be shown.
    pub(crate) has_keys: bool,
}

struct ClientInstructions {
    name: &'static str,
    /// A command, or the file to put the text into.
    place: &'static str,
    text: String,
}

impl ClientSetup {
    /// One line for each.
    pub(crate) fn in_short(&self, paint: TextPaint) -> String {
        let mut text = String::new();
        for client in self.all() {
            let place = if client.place.is_empty() { String::new() } else { format!("{}: ", client.place) };
            let _ = writeln!(text, "  {:<15} {}{}", client.name, paint.faint(place), client.text);
        }
        text
    }

    /// With the JSON laid out, and where it belongs.
    pub(crate) fn in_full(&self, paint: TextPaint) -> String {
        let mut text = String::new();
        for client in self.all() {
            let _ = writeln!(text, "\n{}", paint.strong(client.name));
            match serde_json::from_str::<Value>(&client.text) {
                Ok(value) => {
                    let _ = writeln!(text, "in {}:\n{value:#}", client.place);
                }
                Err(_) => {
                    let _ = writeln!(text, "{}", client.text);
                }
            }
        }
        text
    }

    fn all(&self) -> [ClientInstructions; 6] {
        let url = &self.url;
        let flag = |flag: &str| if self.has_keys { format!(" {flag} \"Authorization: {KEY}\"") } else { String::new() };
        let codex = if self.has_keys { " --bearer-token-env-var TSUGI_KEY" } else { "" };
        [
            ClientInstructions {
                name: "Claude Code",
                place: "",
                text: format!("claude mcp add --transport http tsugi {url}{}", flag("--header")),
            },
            ClientInstructions {
                name: "Claude Desktop",
                place: "claude_desktop_config.json",
                text: json!({"mcpServers": {"tsugi": self.stdio()}}).to_string(),
            },
            ClientInstructions {
                name: "Cursor",
                place: "~/.cursor/mcp.json",
                text: json!({"mcpServers": {"tsugi": self.http(json!({"url": url}))}}).to_string(),
            },
            ClientInstructions {
                name: "VS Code",
                place: ".vscode/mcp.json",
                text: json!({"servers": {"tsugi": self.http(json!({"type": "http", "url": url}))}}).to_string(),
            },
            ClientInstructions {
                name: "Gemini CLI",
                place: "",
                text: format!("gemini mcp add --transport http{} tsugi {url}", flag("--header")),
            },
            ClientInstructions { name: "Codex", place: "", text: format!("codex mcp add tsugi --url {url}{codex}") },
        ]
    }

    /// Claude Desktop's file accepts only programs, so it starts its own gateway over stdio.
    fn stdio(&self) -> Value {
        let program = std::env::current_exe().map_or_else(|_| "tsugi".into(), |path| path.display().to_string());
        match &self.config {
            Some(config) => json!({"command": program, "args": ["stdio", "--config", config]}),
            None => json!({"command": program, "args": ["stdio"]}),
        }
    }

    fn http(&self, mut entry: Value) -> Value {
        if self.has_keys {
            entry["headers"] = json!({"Authorization": KEY});
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(has_keys: bool) -> ClientSetup {
        ClientSetup { url: "http://127.0.0.1:7600/mcp".into(), config: Some("/etc/tsugi.yaml".into()), has_keys }
    }

    #[test]
    fn each_client_has_one_line_to_paste() {
        let text = clients(false).in_short(TextPaint::new(false));
        for line in [
            "claude mcp add --transport http tsugi http://127.0.0.1:7600/mcp\n",
            "\"args\":[\"stdio\",\"--config\",\"/etc/tsugi.yaml\"]",
            "~/.cursor/mcp.json: {\"mcpServers\":{\"tsugi\":{\"url\":\"http://127.0.0.1:7600/mcp\"}}}\n",
            ".vscode/mcp.json: {\"servers\":{\"tsugi\":{\"type\":\"http\",\"url\":\"http://127.0.0.1:7600/mcp\"}}}\n",
            "gemini mcp add --transport http tsugi http://127.0.0.1:7600/mcp\n",
            "codex mcp add tsugi --url http://127.0.0.1:7600/mcp\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(text.lines().count(), 6);
    }

    #[test]
    fn where_keys_are_asked_for_every_client_shows_one() {
        let text = clients(true).in_short(TextPaint::new(false));
        let with_key = |line: &str| line.contains(KEY) || line.contains("TSUGI_KEY") || line.contains("stdio");
        assert!(text.lines().all(with_key), "{text}");
    }

    #[test]
    fn in_full_the_json_is_whole() {
        let text = clients(false).in_full(TextPaint::new(false));
        let start = text.find("{\n").unwrap();
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        assert!(values.next().unwrap().unwrap()["mcpServers"]["tsugi"]["command"].is_string());
    }
}
