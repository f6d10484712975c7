//! Claude Desktop (`claude_desktop_config.json`) and Claude Code (`.mcp.json`, `~/.claude.json`).

use super::draft::{ClientDialect, ServerDraft, read_all};
use super::translate::{is_name, literal, references};
use super::{ClientProgram, ImportedFile};
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `mcpServers`, and of single projects those of the current one; the others are only named.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    let claude = ClaudeDialect { expands: imported.client == ClientProgram::ClaudeCode };
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &claude, imported);
    }
    for project in document.root.get("projects").and_then(ConfigNode::entries).unwrap_or_default() {
        let Some(servers) = project.node.get("mcpServers") else { continue };
        let names: Vec<&str> = servers.entries().unwrap_or_default().iter().map(|server| server.key.as_str()).collect();
        if imported.is_here(&project.key) {
            read_all(servers, &claude, imported);
        } else if !names.is_empty() {
            let names = names.join(", ");
            imported.notes.push(format!("servers of the project {} were left out: {names}", project.key));
        }
    }
}

struct ClaudeDialect {
    /// The desktop program knows no variables.
    expands: bool,
}

impl ClientDialect for ClaudeDialect {
    fn translate(&self, text: &str, notes: &mut Vec<String>) -> String {
        if !self.expands {
            return literal(text);
        }
        references(text, false, |body| {
            let name = body.split(":-").next().unwrap_or_default();
            if !is_name(name) {
                notes.push(format!("`${{{body}}}` is no variable and was kept as text"));
                return None;
            }
            if name == body {
                notes.push(format!("{name} must be set; Claude Code would pass on the text itself"));
            }
            Some(format!("${{{body}}}"))
        })
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        match key {
            "timeout" => draft.duration("timeout", node, "ms"),
            _ => return false,
        }
        true
    }
}
