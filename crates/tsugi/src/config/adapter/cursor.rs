//! Cursor (`.cursor/mcp.json`).

use super::Imported;
use super::draft::{Dialect, Draft, read_all};
use super::translate::references;
use super::vscode::Editor;
use crate::config::document::{Document, Node};

/// Reads `mcpServers`.
pub(super) fn read(document: &Document, imported: &mut Imported) {
    let cursor = Cursor(Editor::of(imported));
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &cursor, imported);
    }
}

struct Cursor(Editor);

impl Dialect for Cursor {
    fn translate(&self, text: &str, notes: &mut Vec<String>) -> String {
        references(text, false, |body| match body.strip_prefix("env:") {
            Some(name) => Some(format!("${{{name}}}")),
            None => self.0.reference(body, notes),
        })
    }

    fn field(&self, draft: &mut Draft, key: &str, _: &Node) -> bool {
        if key == "auth" {
            draft.note("`auth` was left out: tsugi finds the authorization server by itself, see `tsugi login`");
        }
        key == "auth"
    }
}
