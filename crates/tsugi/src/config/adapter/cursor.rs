//! Cursor (`.cursor/mcp.json`).

use super::ImportedFile;
use super::draft::{ClientDialect, DraftNotes, ServerDraft, read_all};
use super::translate::references;
use super::vscode::EditorVariables;
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `mcpServers`.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    let cursor = CursorDialect(EditorVariables::of(imported));
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &cursor, imported);
    }
}

struct CursorDialect(EditorVariables);

impl ClientDialect for CursorDialect {
    fn translate(&self, text: &str, notes: &mut DraftNotes) -> String {
        references(text, false, |body| match body.strip_prefix("env:") {
            Some(name) => Some(format!("${{{name}}}")),
            None => self.0.reference(body, notes),
        })
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, _: &ConfigNode) -> bool {
        if key == "auth" {
            draft.note("`auth` was left out: tsugi cannot sign in with OAuth yet");
        }
        key == "auth"
    }
}
