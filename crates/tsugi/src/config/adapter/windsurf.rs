//! Windsurf (`~/.codeium/windsurf/mcp_config.json`).

use super::ImportedFile;
use super::draft::{ClientDialect, DraftNotes, ServerDraft, read_all};
use super::translate::references;
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `mcpServers`.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &WindsurfDialect, imported);
    }
}

struct WindsurfDialect;

impl ClientDialect for WindsurfDialect {
    fn translate(&self, text: &str, notes: &mut DraftNotes) -> String {
        references(text, false, |body| match body.split_once(':') {
            Some(("env", name)) => Some(format!("${{{name}}}")),
            Some(("file", _)) => Some(format!("${{{body}}}")),
            _ => {
                notes.push(format!("`${{{body}}}` is not known and was kept as text"));
                None
            }
        })
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        if key == "disabledTools" {
            draft.list("deny", node);
        }
        key == "disabledTools"
    }
}
