//! Gemini CLI (`.gemini/settings.json`).

use super::ImportedFile;
use super::draft::{ClientDialect, DraftField, DraftNotes, ServerDraft, read_all, strings};
use super::translate::{is_name, references};
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `mcpServers`, and which of them `mcp` allows.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &GeminiDialect, imported);
    }
    let mcp = document.root.get("mcp");
    let names = |key: &str| mcp.and_then(|mcp| mcp.get(key)).map(|node| strings(node).collect::<Vec<_>>());
    let (allowed, excluded) = (names("allowed"), names("excluded").unwrap_or_default());
    for draft in &mut imported.servers {
        let shut = allowed.as_ref().is_some_and(|allowed| !allowed.contains(&draft.name.as_str()));
        draft.disabled(shut || excluded.contains(&draft.name.as_str()));
        // Its own limit is far longer than ours, and some servers need it.
        if draft.get("timeout").is_none() {
            draft.set("timeout", DraftField::Text("10m".to_owned()));
        }
    }
    if mcp.is_some_and(|mcp| mcp.get("serverCommand").is_some()) {
        imported.notes.push("`mcp.serverCommand` has no equivalent and was left out".to_owned());
    }
}

struct GeminiDialect;

impl ClientDialect for GeminiDialect {
    /// What is not set is empty there.
    fn translate(&self, text: &str, notes: &mut DraftNotes) -> String {
        references(text, true, |body| {
            let (name, rest) = body.split_once(":-").unwrap_or((body, ""));
            if !is_name(name) {
                notes.push(format!("`${{{body}}}` is not a variable and was kept as text"));
                return None;
            }
            Some(format!("${{{name}:-{rest}}}"))
        })
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        match key {
            "httpUrl" => {
                draft.address(self, node);
                draft.set("transport", DraftField::Text("http".to_owned()));
            }
            "timeout" => draft.duration("timeout", node, "ms"),
            "includeTools" => draft.list("allow", node),
            "excludeTools" => draft.list("deny", node),
            "trust" if node.text() != Some("true") => {}
            "description" => draft.remarks.extend(node.text().map(str::to_owned)),
            _ => return false,
        }
        true
    }
}
