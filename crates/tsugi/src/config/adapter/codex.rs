//! Codex (`~/.codex/config.toml`): `[mcp_servers.NAME]`, where variables are named, never written in.

use super::ImportedFile;
use super::draft::{ClientDialect, DraftNotes, ServerDraft, read_all, strings};
use super::translate::literal;
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `mcp_servers`.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    if let Some(servers) = document.root.get("mcp_servers") {
        read_all(servers, &CodexDialect, imported);
    }
}

struct CodexDialect;

impl ClientDialect for CodexDialect {
    fn translate(&self, text: &str, _: &mut DraftNotes) -> String {
        literal(text)
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        match key {
            "env_vars" => {
                for name in strings(node) {
                    draft.add_pair("env", name, format!("${{{name}:-}}"));
                }
            }
            "bearer_token_env_var" => {
                let name = node.text().unwrap_or_default();
                draft.add_pair("headers", "Authorization", format!("Bearer ${{{name}}}"));
            }
            "http_headers" => draft.map("headers", self, node),
            "env_http_headers" => {
                for entry in node.entries().unwrap_or_default() {
                    let name = entry.node.text().unwrap_or_default();
                    draft.add_pair("headers", &entry.key, format!("${{{name}}}"));
                }
            }
            "tool_timeout_sec" => draft.duration("timeout", node, "s"),
            "enabled_tools" => draft.list("allow", node),
            "disabled_tools" => draft.list("deny", node),
            _ => return false,
        }
        true
    }
}
