//! Zed (`settings.json`): `context_servers`.

use super::ImportedFile;
use super::draft::{ClientDialect, DraftNotes, ServerDraft, read_all};
use super::translate::literal;
use crate::config::document::{ConfigDocument, ConfigNode};

/// Reads `context_servers`.
pub(super) fn read(document: &ConfigDocument, imported: &mut ImportedFile) {
    if let Some(servers) = document.root.get("context_servers") {
        read_all(servers, &ZedDialect, imported);
    }
}

struct ZedDialect;

impl ClientDialect for ZedDialect {
    fn translate(&self, text: &str, _: &mut DraftNotes) -> String {
        literal(text)
    }

    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool {
        match key {
            // Older versions keep the program in a map of its own.
            "command" if node.entries().is_some() => {
                if let Some(path) = node.get("path") {
                    draft.text("command", self, path);
                }
                if let Some(args) = node.get("args") {
                    draft.args(self, args);
                }
                if let Some(env) = node.get("env") {
                    draft.map("env", self, env);
                }
            }
            "source" if node.text() == Some("custom") => {}
            "source" | "settings" => draft.note("it is started by an extension of Zed, which says what to run"),
            "timeout" => draft.duration("timeout", node, "s"),
            _ => return false,
        }
        true
    }
}
