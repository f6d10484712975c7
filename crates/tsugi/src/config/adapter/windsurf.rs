//! Windsurf (`~/.codeium/windsurf/mcp_config.json`).

use super::Imported;
use super::draft::{Dialect, Draft, read_all};
use super::translate::references;
use crate::config::document::{Document, Node};

/// Reads `mcpServers`.
pub(super) fn read(document: &Document, imported: &mut Imported) {
    if let Some(servers) = document.root.get("mcpServers") {
        read_all(servers, &Windsurf, imported);
    }
}

struct Windsurf;

impl Dialect for Windsurf {
    fn translate(&self, text: &str, notes: &mut Vec<String>) -> String {
        references(text, false, |body| match body.split_once(':') {
            Some(("env", name)) => Some(format!("${{{name}}}")),
            Some(("file", _)) => Some(format!("${{{body}}}")),
            _ => {
                notes.push(format!("`${{{body}}}` is not known and was kept as text"));
                None
            }
        })
    }

    fn field(&self, draft: &mut Draft, key: &str, node: &Node) -> bool {
        if key == "disabledTools" {
            draft.list("deny", node);
        }
        key == "disabledTools"
    }
}
